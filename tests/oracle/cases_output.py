"""More rows for record_ops.py: output layers with MXNet's own gradients in all their modes, points where gradients are
delicate, and resampling."""
from __future__ import annotations

import itertools

import numpy as np

from cases import arr, case, f, i, pos

# ---- SoftmaxOutput: every mode
_shapes = (((4, 5), (4,), {}), ((2, 5, 3), (2, 3), {"multi_output": True}),
           ((2, 4, 3, 2), (2, 3, 2), {"multi_output": True}),
           ((2, 5, 3), (2, 1, 3), {"multi_output": True}), ((2, 3, 5), (2, 3), {"preserve_shape": True}))
for shape, label, mode in _shapes:
    for normalization, use_ignore in itertools.product(("null", "batch", "valid"), (False, True)):
        case("SoftmaxOutput", [f(*shape), i(*label, dtype="float32", low=0, high=4)], _grad=[0, 1], _train=True,
             grad_scale=0.7, ignore_label=2,
             normalization=normalization, use_ignore=use_ignore, **mode)
for shape, label, mode in _shapes[:2] + _shapes[4:]:
    case("SoftmaxOutput", [f(*shape), i(*label, dtype="float32", low=0, high=4)], _grad=[0], _train=True,
         smooth_alpha=0.1, **mode)
    case("SoftmaxOutput", [f(*shape), i(*label, dtype="float32", low=0, high=4)], _grad=[0], _train=True,
         smooth_alpha=0.1, use_ignore=True,
         ignore_label=1, **mode)
    case("SoftmaxOutput", [f(*shape), pos(*shape)], _grad=[0], _train=True, grad_scale=0.5, **mode)
case("SoftmaxOutput", [f(4, 5), np.full(4, 2, "float32")], _grad=[0], _train=True, use_ignore=True, ignore_label=2,
     normalization="valid")
case("SoftmaxOutput", [f(2, 3), arr([0, 2])], _grad=[0], _train=True, out_grad=True,
     _skip="out_grad: MXNet multiplies by its own output, not by the gradient")
case("SoftmaxOutput", [f(3, 4, dtype="float64"), arr([0, 3, 1], "float64")], _grad=[0], _train=True)

# ---- regression, losses
for name in "Linear Logistic MAE".split():
    case(f"{name}RegressionOutput", [f(3, 4), f(3, 4)], _grad=[0, 1], _train=True, grad_scale=0.5)
    case(f"{name}RegressionOutput", [f(3, 1), f(3)], _grad=[0], _train=True)
    case(f"{name}RegressionOutput", [f(3), f(3)], _grad=[0], _train=True)
    case(f"{name}RegressionOutput", [f(2, 3, 2), f(2, 3, 2)], _grad=[0], _train=True)
case("MAERegressionOutput", [arr([[1, 2], [3, 4]]), arr([[1, 3], [2, 4]])], _grad=[0], _train=True)
for normalization in ("null", "batch", "valid"):
    case("MakeLoss", [f(3, 4)], _train=True, grad_scale=0.5, normalization=normalization)
    case("MakeLoss", [f(3, 4)], _train=True, grad_scale=2.0, normalization=normalization, valid_thresh=0.7)
case("MakeLoss", [-pos(3)], _train=True, normalization="valid")
for linear in (False, True):
    case("SVMOutput", [f(3, 4), arr([0, 3, 1])], _grad=[0, 1], _train=True, use_linear=linear)
    case("SVMOutput", [f(3, 4), arr([0, 3, 1])], _grad=[0], _train=True, use_linear=linear, margin=0.4,
         regularization_coefficient=0.3)
case("softmax_cross_entropy", [f(3, 4), arr([0, 3, 1])], _grad=[0])
case("softmax_cross_entropy", [f(1, 4), arr([2])], _grad=[0])
# MXNet has another gradient there, not the derivative
case("SoftmaxActivation", [f(2, 3, 2)], _grad=[])

# ---- delicate points
case("LeakyReLU", [arr([-300, -1, 0, 1, 300])], act_type="elu")
case("LeakyReLU", [arr([-300, -1, 0, 1, 300])], act_type="elu", slope=1.5)
case("LeakyReLU", [arr([-300, -1, 0, 1, 300])], act_type="selu", _skip="selu: MXNet's gradient is not the derivative")
case("LeakyReLU", [arr([-300, -1, 0, 1, 300])], act_type="leaky", slope=0.1)
case("LeakyReLU", [arr([-300, -1, 0, 1, 300])], act_type="gelu")
for kind in "relu sigmoid tanh softrelu softsign".split():
    case("Activation", [arr([-300, -1, 0, 1, 300])], act_type=kind)
case("Activation", [arr([-3, 0, 3])], act_type="softrelu")
for name in ("log_softmax", "softmax"):
    case(name, [arr([[1000, 0, -1000], [3, 3, 3]])], axis=-1)
    case(name, [f(2, 3, dtype="float64")], temperature=0.7)
for name in "gamma gammaln".split():
    case(name, [arr([0.0, -0.0, 1.0, 5.5, 30.0, -0.5, -2.5, np.inf, np.nan])], _grad=[], _tol=1e-5)
case("round", [arr([0.49976, 1.5, -2.5, -0.4998, 1024.5], "float16")], _grad=[])
case("smooth_l1", [arr([-1, -0.25, 0, 0.25, 1])], scalar=2.0)
case("clip", [arr([-1, -0.5, 0, 0.5, 1])], a_min=-0.5, a_max=0.5)
case("hard_sigmoid", [arr([-9, -2.5, 0, 2.4, 9])])
case("sqrt", [arr([0.0, 1.0])])
case("norm", [arr([[0, 0], [3, 4]])], axis=1)

# ---- normalisation with its statistics, to which MXNet gives no gradients (here they have their derivatives)
for train in (False, True):
    case("BatchNorm", [f(3, 2, 4), pos(2), f(2), f(2), pos(2)], fix_gamma=False, output_mean_var=True, _grad=[],
         _train=train, _tol=1e-4)
case("LayerNorm", [f(2, 3, 4), pos(4), f(4)], output_mean_var=True, _tol=1e-4, _grad=[])
case("GroupNorm", [f(2, 4, 3), pos(2), f(2)], num_groups=2, output_mean_var=True, _tol=1e-4, _grad=[])

# ---- resampling
for align in (True, False):
    case("contrib.BilinearResize2D", [f(1, 2, 3, 4)], height=6, width=5, align_corners=align)
    case("contrib.BilinearResize2D", [f(1, 2, 5, 7)], height=2, width=3, align_corners=align)
    case("contrib.BilinearResize2D", [f(1, 1, 4, 5)], height=1, width=1, align_corners=align)
    case("contrib.BilinearResize2D", [f(1, 2, 3, 4)], scale_height=2.0, scale_width=1.5, align_corners=align)
    case("contrib.BilinearResize2D", [f(1, 2, 3, 4), f(1, 1, 5, 7)], mode="like", align_corners=align)
    for mode in ("to_even_down", "to_even_up", "to_odd_down", "to_odd_up"):
        case("contrib.BilinearResize2D", [f(1, 1, 5, 6)], mode=mode, align_corners=align)
    case("contrib.BilinearResize2D", [f(1, 1, 5, 4)], mode="odd_scale", scale_height=2.0, scale_width=1.5,
         align_corners=align)
case("contrib.BilinearResize2D", [f(1, 1, 3, 4, dtype="float64")], height=5, width=5)
for scale in (2, 3):
    k = 2 * scale - scale % 2
    case("UpSampling", [f(1, 2, 3, 4), f(2, 1, k, k)], scale=scale, sample_type="bilinear", num_filter=2, num_args=2)
case("UpSampling", [f(1, 2, 2, 2), f(1, 1, 4, 4)], scale=2, sample_type="nearest", num_args=2)
case("UpSampling", [f(1, 2, 2, 2), f(1, 2, 4, 4)], scale=2, sample_type="nearest", num_args=2, multi_input_mode="sum")
