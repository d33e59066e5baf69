"""Calls whose gradients MXNet defines where the function has no derivative, or otherwise than by it: name -> (function
of the module, inputs). The module is mxnet, or hybrid under its name.
"""
import numpy as np

# with equal neighbours, zeros, a negative
EQUAL = np.array([[0, 0, 1, 1], [0, 0, 1, 2], [3, 3, 3, 0], [3, -1, 0, 0]], "float32")
CASES = {}


def case(name, function, *inputs):
    CASES[name] = function, [np.asarray(x, "float32") for x in inputs]


def pooled(name, shape, **attrs):
    case(name, lambda mx, x: mx.nd.Pooling(x.reshape(shape), **attrs), EQUAL)


pooled("max pooling", (1, 1, 4, 4), kernel=(2, 2), stride=(2, 2), pool_type="max")
pooled("max pooling overlapping padded", (1, 1, 4, 4), kernel=(3, 3), stride=(1, 1), pad=(1, 1), pool_type="max")
pooled("max pooling full", (1, 1, 4, 4), kernel=(3, 3), stride=(2, 2), pooling_convention="full", pool_type="max")
pooled("max pooling global", (1, 1, 4, 4), kernel=(1, 1), global_pool=True, pool_type="max")
pooled("max pooling 1d", (1, 4, 4), kernel=2, stride=2, pool_type="max")
pooled("max pooling 3d", (1, 1, 1, 4, 4), kernel=(1, 2, 2), stride=(1, 2, 2), pool_type="max")
pooled("lp pooling of zeros", (1, 1, 4, 4), kernel=(2, 2), stride=(2, 2), pool_type="lp", p_value=2)
for _axis in (0, 1, (0, 1)):
    case(f"max axis {_axis}", lambda mx, x, a=_axis: mx.nd.max(x, axis=a), EQUAL)
    case(f"min axis {_axis}", lambda mx, x, a=_axis: mx.nd.min(x, axis=a), EQUAL)
case("np max", lambda mx, x: mx.np.max(x.as_np_ndarray(), axis=1).as_nd_ndarray(), EQUAL)
case("broadcast_maximum", lambda mx, x, y: mx.nd.broadcast_maximum(x, y), EQUAL, EQUAL[::-1])
case("broadcast_minimum", lambda mx, x, y: mx.nd.broadcast_minimum(x, y), EQUAL, EQUAL[::-1])
case("maximum scalar", lambda mx, x: mx.nd.maximum(x, 0.0), EQUAL)
case("minimum scalar", lambda mx, x: mx.nd.minimum(0.0, x), EQUAL)
for _kind in ("leaky", "elu", "gelu"):
    case(f"LeakyReLU {_kind}", lambda mx, x, k=_kind: mx.nd.LeakyReLU(x, act_type=k), EQUAL)
case("prelu", lambda mx, x, a: mx.nd.LeakyReLU(x, a, act_type="prelu"), EQUAL, [0.3])
for _kind in ("relu", "softrelu", "softsign"):
    case(f"Activation {_kind}", lambda mx, x, k=_kind: mx.nd.Activation(x, act_type=k), EQUAL)
for _name in ("abs", "relu", "cbrt", "sqrt", "round", "sign", "floor", "ceil", "trunc", "softmin", "hard_sigmoid"):
    case(_name, lambda mx, x, n=_name: getattr(mx.nd, n)(x), EQUAL + (1 if _name == "sqrt" else 0))
case("clip", lambda mx, x: mx.nd.clip(x, 0, 1), EQUAL)
case("smooth_l1", lambda mx, x: mx.nd.smooth_l1(x, scalar=1.0), EQUAL)
case("sort", lambda mx, x: mx.nd.sort(x, axis=1), EQUAL)
case("topk", lambda mx, x: mx.nd.topk(x, k=2, axis=1, ret_typ="value"), EQUAL)
case("norm of zeros", lambda mx, x: mx.nd.norm(x, axis=1), EQUAL * 0)
case("norm 1", lambda mx, x: mx.nd.norm(x, ord=1, axis=1), EQUAL)
case("L2Normalization of zeros", lambda mx, x: mx.nd.L2Normalization(x), EQUAL * 0)
case("mod", lambda mx, x, y: mx.nd.broadcast_mod(x, y), EQUAL, [[2], [1], [2], [3]])
case("hypot of zeros", lambda mx, x, y: mx.nd.broadcast_hypot(x, y), EQUAL * 0, EQUAL * 0)
case("where", lambda mx, x: mx.nd.where(x > 0, x, x * 2), EQUAL)
case("SVMOutput", lambda mx, x: mx.nd.SVMOutput(x, mx.nd.array([0, 1, 2, 3])), EQUAL)
case("pick clipped", lambda mx, x: mx.nd.pick(x, mx.nd.array([0, 1, 9, -1]), axis=1), EQUAL)
case("take wrapped", lambda mx, x: mx.nd.take(x, mx.nd.array([-1, 5, 1]), axis=0, mode="wrap"), EQUAL)
case("BlockGrad", lambda mx, x: mx.nd.BlockGrad(x) * x, EQUAL)
case("MakeLoss", lambda mx, x: mx.nd.MakeLoss(x * x, grad_scale=0.5), EQUAL)
case("gradientmultiplier", lambda mx, x: mx.nd.contrib.gradientmultiplier(x, scalar=-0.5), EQUAL)

# ---- nothing flows through these
_LOW = np.array([[0.1, 0.2], [0.3, 0.1], [0.5, 0.5], [0.2, 0.6]])
BOXES = np.concatenate([_LOW, _LOW + [[0.4, 0.3]]], 1)
case("box_iou", lambda mx, x, y: mx.nd.contrib.box_iou(x, y), BOXES, BOXES[::-1])
case("box_decode", lambda mx, x, y: mx.nd.contrib.box_decode(x, y), BOXES[None], BOXES[None])
case("box_encode", lambda mx, x, y: mx.nd.contrib.box_encode(mx.nd.ones((1, 4)), mx.nd.zeros((1, 4)), x, y,
                                                             mx.nd.zeros((4,)), mx.nd.ones((4,)))[0],
     BOXES[None], BOXES[None, :2])
for _name in ("argmax", "argmin", "argsort", "one_hot", "shape_array", "zeros_like", "ones_like"):
    case(_name, lambda mx, x, n=_name: x.sum() + (mx.nd.one_hot(x, 4) if n == "one_hot"
                                                  else getattr(mx.nd, n)(x)).astype("float32").sum(), EQUAL)
for _name in ("box_nms",):
    case(_name, lambda mx, x: mx.nd.contrib.box_nms(x, overlap_thresh=0.2, coord_start=2, score_index=1, id_index=0),
         np.concatenate([[[0.0, 0.9], [0, 0.8], [1, 0.7], [0, 0.6]], BOXES], 1))
