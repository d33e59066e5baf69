"""The operator cases that are recorded from MXNet 1.9.1: operator, inputs, attributes.

``case(operator, inputs, **attributes)``; an operator ``py:EXPR`` is a row of expressions.py. Options begin with ``_``:
``_train`` run in training mode, ``_grad`` indices of the inputs to differentiate (default: all float inputs),
``_aux`` indices of auxiliary states (their values afterwards are recorded), ``_tol`` relative tolerance,
``_outputs`` how many
outputs to compare, ``_skip`` why hybrid differs on purpose (the values are recorded all the same).
"""
from __future__ import annotations

from typing import Any

import numpy as np

from expressions import EXPRESSIONS

CASES: list[dict[str, Any]] = []
_rng = np.random.RandomState(20240)


def f(*shape, dtype="float32", low=-2.0, high=2.0):
    """Floats without ties, never close to an integer or a half, where rounding and comparisons jump."""
    values = _rng.uniform(low, high, shape)
    values = np.where(np.abs(values * 2 - np.round(values * 2)) < 0.05, values + 0.07, values)
    return np.clip(values, low, high).astype(dtype)


def pos(*shape, dtype="float32"):
    return f(*shape, dtype=dtype, low=0.3, high=2.4)


def unit(*shape, dtype="float32"):
    return f(*shape, dtype=dtype, low=-0.9, high=0.9)


def i(*shape, dtype="int32", low=-5, high=6):
    return _rng.randint(low, high, shape).astype(dtype)


def arr(values, dtype="float32"):
    return np.array(values, dtype=dtype)


def case(op: str, inputs=(), **attrs: Any) -> None:
    options = {k[1:]: attrs.pop(k) for k in list(attrs) if k in ("_train", "_grad", "_aux", "_tol", "_skip",
                                                                 "_outputs")}
    CASES.append({"op": op, "inputs": list(inputs), "attrs": attrs, **options})


# ---- elementwise, one input
for name in ("abs sign exp expm1 sin cos tan arctan sinh cosh tanh arcsinh erf sigmoid relu softsign square negative "
             "floor ceil rint round trunc fix degrees radians hard_sigmoid cbrt logical_not identity "
             "zeros_like ones_like").split():
    case(name, [f(2, 3)])
for name in "log log1p log2 log10 sqrt rsqrt rcbrt reciprocal gamma gammaln".split():
    case(name, [pos(2, 3)], **({"_tol": 1e-4} if "gamma" in name else {}))
for name in "arcsin arccos arctanh erfinv".split():
    case(name, [unit(2, 3)], **({"_tol": 1e-4} if name == "erfinv" else {}))
case("arccosh", [f(2, 3, low=1.2, high=3.0)])
case("gamma", [arr([-0.5, -1.5, 0.2, 4.5])], _tol=1e-4)
case("round", [arr([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5])], _grad=[])
case("rint", [arr([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5])], _grad=[],
     _skip="halves: hybrid rounds to even as NumPy, MXNet down")
case("fix", [arr([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5])], _grad=[])
case("sign", [arr([-2.0, 0.0, 3.0])])
case("abs", [arr([-2.0, 0.0, 3.0])])
case("relu", [arr([-2.0, 0.0, 3.0])])
for name in "abs sign square negative relu".split():
    case(name, [i(2, 3)])
for name in "exp sqrt tanh sigmoid floor".split():
    case(name, [i(2, 3, low=1)], _skip="" if name == "floor"
         else "integers: hybrid gives float32 where MXNet truncates")
for name in "exp tanh sqrt sigmoid erf".split():
    case(name, [pos(2, 3, dtype="float16")])
    case(name, [pos(2, 3, dtype="float64")], **({"_tol": 1e-7} if name == "erf" else {}))

# ---- elementwise, two inputs
for name in ("broadcast_add broadcast_sub broadcast_mul broadcast_div broadcast_mod broadcast_maximum "
             "broadcast_minimum "
             "broadcast_hypot broadcast_equal broadcast_not_equal broadcast_greater broadcast_greater_equal "
             "broadcast_lesser broadcast_lesser_equal broadcast_logical_and broadcast_logical_or "
             "broadcast_logical_xor").split():
    case(name, [f(2, 3, 2), f(1, 3, 1)])
case("broadcast_power", [pos(2, 3), f(2, 1)])
for name in "broadcast_plus broadcast_minus".split():
    case(name, [f(2, 3), f(2, 1)])
for name in "broadcast_add broadcast_mul broadcast_mod broadcast_maximum broadcast_equal broadcast_lesser".split():
    case(name, [i(3, 4), i(1, 4, low=1)])
case("broadcast_div", [i(3, 4), i(1, 4, low=1)], _skip="integers: hybrid divides to float as NumPy, MXNet truncates")
case("broadcast_mod", [arr([-5.5, -3, 3, 5.5]), arr([3, -2, -2, 3])])
case("broadcast_mod", [arr([-5, -3, 3, 5], "int32"), arr([3, -2, -2, 3], "int32")])
case("broadcast_equal", [arr([1, 2, 3]), arr([1, 0, 3])])
case("broadcast_maximum", [arr([1, 2, 3]), arr([1, 0, 4])])
case("broadcast_minimum", [arr([1, 2, 3]), arr([1, 0, 4])])
case("broadcast_add", [f(2, 3, dtype="float16"), f(3, dtype="float16")])
case("broadcast_mul", [f(2, 3, dtype="float64"), f(3, dtype="float64")])
for name in "elemwise_add elemwise_sub elemwise_mul elemwise_div".split():
    case(name, [f(2, 3), pos(2, 3)])
case("elemwise_add", [i(2, 3), i(2, 3)])
case("add_n", [f(2, 3), f(2, 3), f(2, 3)])
case("smooth_l1", [f(2, 3)], scalar=1.0)
case("smooth_l1", [f(2, 3)], scalar=2.0)
case("clip", [f(3, 4)], a_min=-0.5, a_max=0.8)
case("clip", [i(3, 4)], a_min=-2, a_max=2)
case("where", [arr([[1, 0, 2]]), f(1, 3), f(1, 3)], _grad=[1, 2])
case("where", [arr([1, 0]), f(2, 3), f(2, 3)], _grad=[1, 2])
case("where", [arr([1, 0, 1], "int32"), f(3), f(3)])
for text in EXPRESSIONS:
    if text in ("x.reshape((-1, 2))",):
        case("py:" + text, [f(3, 4)])
    elif "y" in text.replace("astype", "").replace("maximum", ""):
        case("py:" + text, [pos(2, 3), pos(2, 3)])
        case("py:" + text, [pos(2, 3), pos(3)])
        case("py:" + text, [i(2, 3, low=1), i(2, 1, low=1, high=3)],
             **({"_skip": "integers: hybrid divides to float as NumPy, MXNet truncates"} if "/" in text else {}))
    elif "[" in text:
        case("py:" + text, [f(4, 3, 5)])
    else:
        case("py:" + text, [pos(3, 4)])
        if text[0] in "x2-" and "(" not in text and len(text) <= 7 and "." not in text:
            case("py:" + text, [i(3, 4, low=1)],
                 **({"_skip": "integers: hybrid divides to float as NumPy, MXNet truncates"} if "/" in text else {}))

# ---- reductions
for name in "sum mean max min prod nansum nanprod".split():
    case(name, [f(2, 3, 4)])
    case(name, [f(2, 3, 4)], axis=1)
    case(name, [f(2, 3, 4)], axis=(0, 2), keepdims=True)
    case(name, [f(2, 3, 4)], axis=-1, exclude=True)
case("sum", [arr([[1, np.nan], [2, 3]])], axis=1, _grad=[])
case("nansum", [arr([[1, np.nan], [2, 3]])], axis=1)
case("nanprod", [arr([[4, np.nan], [2, 3]])], axis=1)
for name in "sum max min prod".split():
    case(name, [i(2, 3)], axis=1)
case("mean", [i(2, 3)], axis=1, _skip="integers: hybrid gives float32 where MXNet truncates")
case("sum", [f(2, 3)], axis=())
case("sum", [arr([[1, 5], [5, 2]])], axis=0)
case("max", [arr([[1, 5], [5, 5]])], axis=0)
case("sum", [f(4, 5, dtype="float16")], axis=0)
case("mean", [f(4, 5, dtype="float64")], axis=0)
case("sum_axis", [f(2, 3)], axis=1)
for name in "argmax argmin".split():
    case(name, [f(3, 4)])
    case(name, [f(3, 4)], axis=1)
    case(name, [f(3, 4)], axis=0, keepdims=True)
case("argmax", [arr([[1, 3, 3], [2, 2, 1]])], axis=1)
case("argmax", [i(3, 4)], axis=1)
case("argmax_channel", [f(3, 4)])
case("norm", [f(2, 3)])
case("norm", [f(2, 3, 4)], ord=2, axis=1)
case("norm", [f(2, 3, 4)], ord=1, axis=(1, 2), keepdims=True)
case("norm", [f(2, 3, 4)], ord=1)
case("cumsum", [f(2, 3)], axis=1)
case("cumsum", [f(2, 3)])

# ---- shapes
for shape in ((-1,), (0, -1), (6, 4), (0, 0, -1), (-2,), (0, -2), (-3, 0), (-3, -2), (-4, 1, 2, -2), (0, -4, -1, 3, 0),
              (-1, 0, 2), (0, 0, -4, 2, -1), (0, -3), (4, -1)):
    case("reshape", [f(2, 3, 4)], shape=shape)
case("reshape", [f(10, 5, 4)], shape=(-1, 0), reverse=True)
case("reshape", [f(2, 3, 4)], shape=(0, -3), reverse=True)
case("Reshape", [i(2, 6)], shape=(3, 4))
case("reshape_like", [f(2, 6), f(3, 4)], _grad=[0])
case("transpose", [f(2, 3, 4)])
case("transpose", [f(2, 3, 4)], axes=(1, 0, 2))
case("swapaxes", [f(2, 3, 4)], dim1=0, dim2=2)
case("expand_dims", [f(2, 3)], axis=1)
case("expand_dims", [f(2, 3)], axis=-1)
case("squeeze", [f(1, 3, 1, 2)])
case("squeeze", [f(1, 3, 1, 2)], axis=2)
case("squeeze", [f(1, 3, 1, 2)], axis=(0, 2))
case("flatten", [f(2, 3, 4)])
case("Flatten", [f(3)])
case("concat", [f(2, 3), f(2, 2)], dim=1)
case("concat", [f(2, 3), f(1, 3), f(2, 3)], dim=0)
case("concat", [f(2, 3), f(2, 3)])
case("concat", [i(2, 3), i(2, 3)], dim=-1)
case("stack", [f(2, 3), f(2, 3)])
case("stack", [f(2, 3), f(2, 3)], axis=-1)
case("split", [f(2, 4, 3)], num_outputs=2)
case("split", [f(2, 3)], num_outputs=3, axis=1, squeeze_axis=True)
case("SliceChannel", [f(2, 4)], num_outputs=2, axis=-1)
case("split_v2", [f(6, 2)], indices_or_sections=(1, 3))
case("slice", [f(4, 5)], begin=(1, 0), end=(3, 4))
case("slice", [f(4, 5)], begin=(None, 1), end=(None, -1))
case("slice", [f(4, 5)], begin=(0, 4), end=(4, None), step=(2, -2))
case("slice", [f(4, 5)], begin=(1,), end=(None,))
case("slice_axis", [f(4, 5)], axis=1, begin=1, end=None)
case("slice_axis", [f(4, 5)], axis=-1, begin=-3, end=-1)
case("slice_like", [f(4, 5), f(2, 3)], _grad=[0])
case("slice_like", [f(4, 5), f(2, 3)], axes=(1,), _grad=[0])
case("tile", [f(2, 3)], reps=(2, 2))
case("tile", [f(2, 3)], reps=(2,))
case("tile", [f(3)], reps=(2, 1, 2))
case("repeat", [f(2, 3)], repeats=2)
case("repeat", [f(2, 3)], repeats=2, axis=1)
case("repeat", [f(2, 3)], repeats=3, axis=-2)
case("pad", [f(1, 2, 3, 4)], mode="constant", pad_width=(0, 0, 0, 0, 1, 2, 2, 1), constant_value=1.5)
case("pad", [f(1, 2, 3, 4)], mode="edge", pad_width=(0, 0, 0, 0, 1, 2, 2, 1))
case("pad", [f(1, 2, 3, 4)], mode="reflect", pad_width=(0, 0, 0, 0, 1, 2, 2, 1))
case("pad", [f(1, 2, 3, 3, 3)], mode="reflect", pad_width=(0, 0, 0, 0, 1, 1, 1, 1, 2, 0))
case("flip", [f(2, 3)], axis=1)
case("reverse", [f(2, 3, 2)], axis=(0, 2))
case("broadcast_to", [f(1, 3)], shape=(2, 3))
case("broadcast_to", [f(1, 3)], shape=(2, 0))
case("broadcast_axis", [f(1, 3, 1)], axis=(0, 2), size=(2, 4))
case("broadcast_like", [f(1, 3), f(2, 3)], _grad=[0])
case("broadcast_like", [f(1, 3), f(5, 4)], lhs_axes=(0,), rhs_axes=(1,), _grad=[0])
case("shape_array", [f(2, 3)])
case("size_array", [f(2, 3)])
case("cast", [f(2, 3)], dtype="int32")
case("cast", [f(2, 3)], dtype="float16")
case("Cast", [i(2, 3)], dtype="float32")
case("cast", [arr([0, 0.3, -2])], dtype="bool")
case("cast", [arr([300, -1, 2.7])], dtype="int8", _skip="out of range: undefined in C")
case("BlockGrad", [f(2, 3)])
case("stop_gradient", [f(2, 3)])
case("make_loss", [f(2, 3)])
case("depth_to_space", [f(1, 8, 2, 3)], block_size=2)
case("space_to_depth", [f(1, 2, 4, 6)], block_size=2)
case("diag", [f(3, 3)])
case("diag", [f(3)], k=1)

# ---- creation
case("zeros", [], shape=(2, 3))
case("ones", [], shape=(2, 3), dtype="int32")
case("full", [], shape=(2, 2), val=3.5)
case("arange", [], start=2, stop=8, step=1.5)
case("arange", [], start=5)
case("arange", [], start=0, stop=3, repeat=2, dtype="int32")
case("eye", [], N=3, M=4, k=1)
case("linspace", [], start=0, stop=1, num=5)
case("linspace", [], start=0, stop=1, num=5, endpoint=False)
case("contrib.arange_like", [f(2, 3)], axis=1, _grad=[])
case("contrib.arange_like", [f(2, 3)], _grad=[])

# ---- indexing
case("one_hot", [arr([1, 0, 2, 5])], depth=4, _grad=[])
case("one_hot", [arr([[1, 0], [2, -1]], "int32")], depth=3, on_value=8, off_value=1, dtype="int32")
case("take", [f(4, 3), arr([0, 3, 1])], _grad=[0])
case("take", [f(4, 3), arr([[0, 2], [1, 1]], "int32")], axis=1)
case("take", [f(4, 3), arr([-1, 7, 2])], mode="clip", _grad=[0])
case("take", [f(4, 3), arr([-1, 7, 2])], mode="wrap", _grad=[0])
case("take", [f(2, 4, 3), arr([1, 0])], axis=-1, _grad=[0])
case("pick", [f(3, 4), arr([0, 3, 1])], axis=1, _grad=[0])
case("pick", [f(3, 4), arr([0, 9, -2])], _grad=[0])
case("pick", [f(3, 4), arr([0, 2, 1, 1])], axis=0, keepdims=True, _grad=[0])
case("pick", [f(3, 4), arr([0, 5, -1])], mode="wrap", _grad=[0])
case("Embedding", [arr([[0, 2], [1, 1]]), f(4, 3)], input_dim=4, output_dim=3, _grad=[1])
case("Embedding", [arr([5, -1, 2], "int32"), f(4, 3)], input_dim=4, output_dim=3, _grad=[1])
case("gather_nd", [f(3, 4), arr([[0, 2], [1, 3]])], _grad=[0])
case("scatter_nd", [f(2), arr([[0, 2], [1, 3]])], shape=(3, 4), _grad=[0])
case("batch_take", [f(3, 4), arr([0, 3, 1], "int32")], _grad=[])
case("topk", [f(2, 5)], k=2, ret_typ="value")
case("topk", [f(2, 5)], k=2, _grad=[])
case("topk", [f(2, 5)], k=3, ret_typ="both", is_ascend=True, _grad=[])
case("sort", [f(2, 5)], _grad=[])
case("sort", [f(2, 5)], is_ascend=False, axis=0, _grad=[])
case("argsort", [f(2, 5)], _grad=[])
case("SequenceMask", [f(4, 2, 3), arr([2, 3])], use_sequence_length=True, value=-1.0, _grad=[0])
case("SequenceLast", [f(4, 2, 3), arr([2, 3])], use_sequence_length=True, _grad=[0])
case("SequenceReverse", [f(4, 2, 3), arr([2, 3])], use_sequence_length=True, _grad=[0])

# ---- matrices
case("dot", [f(2, 3), f(3, 4)])
case("dot", [f(3, 2), f(3, 4)], transpose_a=True)
case("dot", [f(2, 3), f(4, 3)], transpose_b=True)
case("dot", [f(3, 2), f(4, 3)], transpose_a=True, transpose_b=True)
case("dot", [f(3), f(3)])
case("dot", [f(2, 3), f(3)])
case("dot", [f(2, 2, 3), f(3, 2, 2)])
case("dot", [f(3, 2, 2), f(2, 2, 3)], transpose_a=True, transpose_b=True, _grad=[])
case("dot", [f(2, 3, dtype="float64"), f(3, 4, dtype="float64")])
case("batch_dot", [f(2, 3, 4), f(2, 4, 2)])
case("batch_dot", [f(2, 4, 3), f(2, 4, 2)], transpose_a=True)
case("batch_dot", [f(2, 3, 4), f(2, 2, 4)], transpose_b=True)
case("linalg.gemm2", [f(2, 3, 4), f(2, 4, 2)], alpha=0.5)
case("FullyConnected", [f(2, 3), f(4, 3), f(4)], num_hidden=4)
case("FullyConnected", [f(2, 3), f(4, 3)], num_hidden=4, no_bias=True)
case("FullyConnected", [f(2, 3, 2), f(4, 6), f(4)], num_hidden=4)
case("FullyConnected", [f(2, 3, 2), f(4, 2), f(4)], num_hidden=4, flatten=False)

# ---- convolution and pooling
case("Convolution", [f(2, 3, 7), f(4, 3, 3), f(4)], kernel=(3,), num_filter=4)
case("Convolution", [f(2, 3, 7), f(4, 3, 3), f(4)], kernel=(3,), num_filter=4, stride=(2,), pad=(1,))
case("Convolution", [f(1, 2, 5, 6), f(3, 2, 3, 2), f(3)], kernel=(3, 2), num_filter=3)
case("Convolution", [f(1, 2, 5, 6), f(3, 2, 3, 3)], kernel=(3, 3), num_filter=3, pad=(1, 1), stride=(2, 1),
     no_bias=True)
case("Convolution", [f(1, 2, 7, 7), f(2, 2, 3, 3), f(2)], kernel=(3, 3), num_filter=2, dilate=(2, 2))
case("Convolution", [f(2, 4, 4, 4), f(6, 2, 3, 3), f(6)], kernel=(3, 3), num_filter=6, num_group=2)
case("Convolution", [f(1, 4, 4, 4), f(4, 1, 3, 3), f(4)], kernel=(3, 3), num_filter=4, num_group=4, pad=(1, 1))
case("Convolution", [f(1, 2, 4, 4), f(3, 2, 1, 1), f(3)], kernel=(1, 1), num_filter=3)
case("Convolution", [f(1, 2, 4, 3, 4), f(2, 2, 2, 2, 3), f(2)], kernel=(2, 2, 3), num_filter=2)
case("Deconvolution", [f(1, 2, 3, 3), f(2, 3, 3, 3)], kernel=(3, 3), num_filter=3)
case("Deconvolution", [f(1, 2, 3, 3), f(2, 3, 4, 4), f(3)], kernel=(4, 4), num_filter=3, stride=(2, 2), pad=(1, 1),
     no_bias=False)
case("Deconvolution", [f(1, 4, 3, 3), f(4, 1, 2, 2)], kernel=(2, 2), num_filter=2, num_group=2, stride=(2, 2),
     adj=(1, 1))
for kind in ("max", "avg", "sum"):
    case("Pooling", [f(1, 2, 5, 6)], kernel=(2, 2), pool_type=kind)
    case("Pooling", [f(1, 2, 5, 6)], kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type=kind)
    case("Pooling", [f(1, 2, 6, 6)], kernel=(3, 3), stride=(2, 2), pooling_convention="full", pool_type=kind)
    case("Pooling", [f(1, 2, 5, 6)], global_pool=True, kernel=(1, 1), pool_type=kind)
    case("Pooling", [f(1, 2, 7)], kernel=(3,), stride=(2,), pool_type=kind)
    case("Pooling", [f(1, 1, 4, 4, 4)], kernel=(2, 2, 2), stride=(2, 2, 2), pool_type=kind)
case("Pooling", [f(1, 2, 5, 6)], kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="avg", count_include_pad=False)
case("Pooling", [f(1, 2, 6, 6)], kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="avg", pooling_convention="full")
case("Pooling", [f(1, 2, 6, 6)], kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="avg", pooling_convention="full",
     count_include_pad=False)
case("Pooling", [pos(1, 2, 5, 6)], kernel=(2, 2), pool_type="lp", p_value=2)
case("Pooling", [pos(1, 2, 5, 6)], kernel=(2, 2), pool_type="lp", p_value=1)
case("contrib.AdaptiveAvgPooling2D", [f(1, 2, 5, 7)], output_size=(2, 3))
case("contrib.AdaptiveAvgPooling2D", [f(1, 2, 5, 7)], output_size=1)
case("contrib.BilinearResize2D", [f(1, 2, 3, 4)], height=6, width=5)
case("contrib.BilinearResize2D", [f(1, 2, 3, 4)], scale_height=2.0, scale_width=2.0)
case("UpSampling", [f(1, 2, 3, 4)], scale=2, sample_type="nearest")

# ---- activations
for kind in "relu sigmoid tanh softrelu softsign".split():
    case("Activation", [f(2, 3)], act_type=kind)
for kind in "leaky elu gelu".split():
    case("LeakyReLU", [f(2, 3)], act_type=kind)
case("LeakyReLU", [f(2, 3)], act_type="selu", _grad=[])         # MXNet's gradient is not the derivative
case("LeakyReLU", [f(2, 3)], act_type="leaky", slope=0.1)
case("LeakyReLU", [f(2, 3)], act_type="elu", slope=0.7)
case("LeakyReLU", [f(2, 3, 2), unit(3)], act_type="prelu")
case("LeakyReLU", [f(2, 3, 2), unit(1)], act_type="prelu")
case("LeakyReLU", [f(2, 3)], act_type="rrelu", lower_bound=0.1, upper_bound=0.3, _grad=[], _outputs=1)   # nor here;
#                                                                                 and it shows a second output
case("softmax", [f(2, 3)])
case("softmax", [f(2, 3, 4)], axis=1)
case("softmax", [f(2, 3)], temperature=2.0)
case("softmax", [f(2, 4), arr([2, 3], "int32")], use_length=True, axis=1, _grad=[])
case("softmax", [f(2, 3, dtype="float16")], dtype="float32")
case("log_softmax", [f(2, 3)])
case("log_softmax", [f(2, 3)], axis=0, temperature=0.5)
case("softmin", [f(2, 3)])
case("SoftmaxActivation", [f(2, 3, 2)], mode="channel")
case("SoftmaxOutput", [f(3, 4), arr([0, 3, 1])], _grad=[0], _train=True)
case("SoftmaxOutput", [f(3, 4), arr([0, 3, 1])], _grad=[0], _train=True, use_ignore=True, ignore_label=3,
     normalization="valid")
case("LinearRegressionOutput", [f(3, 4), f(3, 4)], _grad=[0], _train=True)
case("LogisticRegressionOutput", [f(3, 4), f(3, 4)], _grad=[0], _train=True)
case("softmax_cross_entropy", [f(3, 4), arr([0, 3, 1])], _grad=[0])

# ---- normalization
for train in (False, True):
    case("BatchNorm", [f(3, 2, 4), pos(2), f(2), f(2), pos(2)], _grad=[0, 1, 2], _aux=[3, 4], _train=train)
    case("BatchNorm", [f(3, 2, 4), pos(2), f(2), f(2), pos(2)], fix_gamma=False, _grad=[0, 1, 2], _aux=[3, 4],
         _train=train, _tol=1e-4)
    case("BatchNorm", [f(3, 4, 2), pos(2), f(2), f(2), pos(2)], fix_gamma=False, axis=-1, eps=1e-5, momentum=0.8,
         _grad=[0, 1, 2], _aux=[3, 4], _train=train, _tol=1e-4)
    case("BatchNorm", [f(3, 2), pos(2), f(2), f(2), pos(2)], fix_gamma=False, use_global_stats=True, _grad=[0, 1, 2],
         _aux=[3, 4], _train=train)
case("LayerNorm", [f(2, 3, 4), pos(4), f(4)], _tol=1e-4)
case("LayerNorm", [f(2, 3, 4), pos(3), f(3)], axis=1, eps=1e-3, _tol=1e-4)
case("InstanceNorm", [f(2, 3, 4), pos(3), f(3)], _tol=1e-4)
case("GroupNorm", [f(2, 4, 3), pos(2), f(2)], num_groups=2, _tol=1e-4)
case("L2Normalization", [f(2, 3, 4)])
case("L2Normalization", [f(2, 3, 4)], mode="channel")
case("L2Normalization", [f(2, 3, 4)], mode="spatial")
case("LRN", [f(1, 6, 2, 2)], nsize=3)
case("Dropout", [f(3, 4)], p=0.5)
case("Dropout", [f(3, 4)], p=0.0, _train=True)
