"""Tensor operators as one table: JSON name, inputs, attributes and what NumPy says the answer is.

Every backend must agree with the table; test_ops_tensor.py runs it. A row's gradient is checked numerically unless
``grad=False`` (no gradient, or a point where the function has a kink).
"""
from __future__ import annotations

import math
from typing import Any, Callable

import numpy as np

from .op_cases import case, f, i, like, one_axis

_vector = np.vectorize
GAMMA, LGAMMA, ERF = _vector(math.gamma), _vector(math.lgamma), _vector(math.erf)

# ---- elementwise, one input: name -> (NumPy, low, high, differentiable)
UNARY: dict[str, tuple[Callable[..., Any], float, float, bool]] = {
    "abs": (np.abs, -2, 2, True), "sign": (np.sign, -2, 2, True), "ceil": (np.ceil, -2, 2, True),
    "floor": (np.floor, -2, 2, True),
    "trunc": (np.trunc, -2, 2, True), "fix": (np.trunc, -2, 2, True), "rint": (np.rint, -2, 2, True),
    "round": (np.round, -2, 2, True),
    "square": (np.square, -2, 2, True), "sqrt": (np.sqrt, .3, 3, True),
    "rsqrt": (lambda x: 1 / np.sqrt(x), .3, 3, True),
    "cbrt": (np.cbrt, -2, 2, True), "rcbrt": (lambda x: 1 / np.cbrt(x), .3, 3, True), "exp": (np.exp, -2, 2, True),
    "expm1": (np.expm1, -2, 2, True), "log": (np.log, .3, 3, True), "log1p": (np.log1p, -.5, 3, True),
    "log2": (np.log2, .3, 3, True),
    "log10": (np.log10, .3, 3, True), "sin": (np.sin, -3, 3, True), "cos": (np.cos, -3, 3, True),
    "tan": (np.tan, -1, 1, True),
    "arcsin": (np.arcsin, -.9, .9, True), "arccos": (np.arccos, -.9, .9, True), "arctan": (np.arctan, -3, 3, True),
    "sinh": (np.sinh, -2, 2, True), "cosh": (np.cosh, -2, 2, True), "tanh": (np.tanh, -2, 2, True),
    "arcsinh": (np.arcsinh, -2, 2, True),
    "arccosh": (np.arccosh, 1.2, 3, True), "arctanh": (np.arctanh, -.9, .9, True), "erf": (ERF, -2, 2, True),
    "gamma": (GAMMA, .5, 3, True), "gammaln": (LGAMMA, .5, 3, True), "reciprocal": (lambda x: 1 / x, .3, 3, True),
    "negative": (np.negative, -2, 2, True), "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), -3, 3, True),
    "relu": (lambda x: np.maximum(x, 0), -2, 2, True), "degrees": (np.degrees, -3, 3, True),
    "radians": (np.radians, -200, 200, True),
    "logical_not": (np.logical_not, -2, 2, True), "_copy": (np.copy, -2, 2, True),
    "zeros_like": (np.zeros_like, -2, 2, True),
    "ones_like": (np.ones_like, -2, 2, True),
}
for _name, (_fn, _low, _high, _diff) in UNARY.items():
    case(_name, [f(2, 3, low=_low, high=_high)], like(_fn), grad=_diff, tol=2e-5)
for _name in ("exp", "tanh", "sqrt", "sigmoid", "log"):                        # integers become float32
    case(_name, [i(5, low=1)], lambda x, n=_name: UNARY[n][0](x.astype(np.float32)).astype(np.float32), grad=False)
for _name in ("abs", "sign", "floor", "ceil", "round", "square", "negative", "relu", "logical_not"):
    case(_name, [i(5)], like(UNARY[_name][0]), grad=False)
case("round", [np.array([-2.5, -1.5, -.5, .5, 1.5, 2.5], np.float32)],
     lambda x: np.array([-3, -2, -1, 1, 2, 3], np.float32), grad=False)
case("erfinv", [f(5, low=-.9, high=.9)], lambda x: _inverse_erf(x).astype(x.dtype), tol=2e-5)
case("exp", [np.zeros((0, 3), np.float32)], np.exp)
case("exp", [np.float32(0.3)], np.exp)


def _inverse_erf(y: np.ndarray) -> np.ndarray:
    """By bisection, so that nothing is shared with the code under test."""
    lo, hi = np.full(y.shape, -6.0), np.full(y.shape, 6.0)
    for _ in range(60):
        mid = (lo + hi) / 2
        below = ERF(mid) < y
        lo, hi = np.where(below, mid, lo), np.where(below, hi, mid)
    return (lo + hi) / 2


# ---- elementwise, two inputs
BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "mod": np.mod, "power": np.power,
    "maximum": np.maximum,
    "minimum": np.minimum, "hypot": np.hypot, "equal": np.equal, "not_equal": np.not_equal, "greater": np.greater,
    "greater_equal": np.greater_equal, "lesser": np.less, "lesser_equal": np.less_equal, "logical_and": np.logical_and,
    "logical_or": np.logical_or, "logical_xor": np.logical_xor,
}
ELEMENTWISE = {"add": "elemwise_add", "sub": "elemwise_sub", "mul": "elemwise_mul", "div": "elemwise_div"}
for _name, _fn in BINARY.items():
    _low = .3 if _name == "power" else -2
    case(f"broadcast_{_name}", [f(2, 3, low=_low), f(1, 3, low=_low)], like(_fn), tol=1e-5)
    case(f"broadcast_{_name}", [f(3, low=_low), f(2, 1, low=_low)], like(_fn), tol=1e-5)
    case(ELEMENTWISE.get(_name, f"_{_name}"), [f(2, 3, low=_low), f(3, low=_low)], like(_fn), tol=1e-5)
    if _name not in ("div", "hypot", "power"):
        case(f"broadcast_{_name}", [i(2, 3), i(3, low=1)], like(_fn), grad=False)
case("broadcast_div", [i(4), i(4, low=1)], lambda a, b: np.trunc(np.divide(a, b)).astype(a.dtype), grad=False)
case("broadcast_power", [i(4), i(4, low=0, high=4)], like(np.power), grad=False)
case("broadcast_add", [i(2, 3, dtype="int64"), f(3)], lambda a, b: (a + b).astype(np.float32), grad=False)
case("broadcast_add", [f(2, dtype="float16"), f(2)], lambda a, b: a.astype(np.float32) + b)
case("broadcast_mul", [np.array([True, False]), i(2)], np.multiply, grad=False)
case("broadcast_mod", [np.array([-5.5, -3, 3, 5.5], np.float32), np.array([3, -2, -2, 3], np.float32)], np.mod,
     grad=False)

SCALAR: dict[str, tuple[Callable[..., Any], float]] = {
    "_plus_scalar": (lambda x, s: x + s, 1.5), "_minus_scalar": (lambda x, s: x - s, 1.5),
    "_rminus_scalar": (lambda x, s: s - x, 1.5),
    "_mul_scalar": (lambda x, s: x * s, 1.5), "_div_scalar": (lambda x, s: x / s, 1.5),
    "_rdiv_scalar": (lambda x, s: s / x, 1.5),
    "_mod_scalar": (np.mod, .7), "_rmod_scalar": (lambda x, s: np.mod(s, x), 2.2), "_power_scalar": (np.power, 1.5),
    "_rpower_scalar": (lambda x, s: np.power(s, x), 1.5), "_maximum_scalar": (np.maximum, 1.1),
    "_minimum_scalar": (np.minimum, 1.1),
    "_hypot_scalar": (np.hypot, 1.5), "_equal_scalar": (np.equal, 1.0), "_not_equal_scalar": (np.not_equal, 1.0),
    "_greater_scalar": (np.greater, 1.1), "_greater_equal_scalar": (np.greater_equal, 1.1),
    "_lesser_scalar": (np.less, 1.1),
    "_lesser_equal_scalar": (np.less_equal, 1.1), "_logical_and_scalar": (np.logical_and, 1.0),
    "_logical_or_scalar": (np.logical_or, 0.0),
    "_logical_xor_scalar": (np.logical_xor, 1.0),
}
for _name, (_fn, _s) in SCALAR.items():
    case(_name, [f(2, 3, low=.3)], like(lambda x, g=_fn, s=_s: g(x, s)), tol=1e-5, scalar=_s)
for _name in ("_plus_scalar", "_rminus_scalar", "_mul_scalar", "_mod_scalar", "_maximum_scalar", "_greater_scalar",
              "_equal_scalar"):
    case(_name, [i(5)], like(lambda x, g=SCALAR[_name][0]: g(x, 2)), grad=False, scalar=2)
# integers stay integers, as in MXNet: 0.5 is cut to 0,
case("_plus_scalar", [i(4)], lambda x: x, grad=False, scalar=.5)
# quotients towards 0
case("_div_scalar", [i(4)], lambda x: np.trunc(x / 2).astype(x.dtype), grad=False, scalar=2)
case("_plus_scalar", [f(3, dtype="float16")], lambda x: x + np.float16(1), grad=False, scalar=1.0)

# NumPy's own: comparisons are bool
for _name, _np_fn in (("add", np.add), ("subtract", np.subtract), ("multiply", np.multiply),
                      ("true_divide", np.true_divide), ("mod", np.mod),
                      ("power", np.power), ("maximum", np.maximum), ("minimum", np.minimum), ("fmod", np.fmod),
                      ("hypot", np.hypot),
                      ("arctan2", np.arctan2), ("copysign", np.copysign)):
    case(f"_npi_{_name}", [f(2, 3, low=.3), f(1, 3, low=.3)], like(_np_fn), tol=1e-5)
    case(f"_npi_{_name}_scalar", [f(2, 3, low=.3)], like(lambda x, g=_np_fn: g(x, 1.7)), tol=1e-5, scalar=1.7)
    case(f"_npi_r{_name}_scalar", [f(2, 3, low=.3)], like(lambda x, g=_np_fn: g(1.7, x)), tol=1e-5, scalar=1.7)
for _name in ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal", "logical_and", "logical_or",
              "logical_xor"):
    case(f"_npi_{_name}", [i(2, 3, low=0, high=3), i(3, low=0, high=3)], getattr(np, _name), grad=False)
    case(f"_npi_{_name}_scalar", [f(4)], lambda x, g=getattr(np, _name): g(x, 1.1), grad=False, scalar=1.1)
for _name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    case(f"_npi_{_name}", [i(5), i(5)], getattr(np, _name), grad=False)
for _name in ("left_shift", "right_shift"):
    case(f"_npi_{_name}", [i(5), i(5, low=0, high=7)], getattr(np, _name), grad=False)
case("_npi_bitwise_not", [i(5)], np.invert, grad=False)
case("_npi_floor_divide", [i(6), np.array([2, -2, 3, -3, 4, 1], np.int32)], np.floor_divide, grad=False)
case("_npi_floor_divide", [f(6), f(6, low=.3)], np.floor_divide, grad=False)
case("_npi_floor_divide", [np.array([1, -1, 1, 7, -7, 0.3], np.float32),
                           np.array([.1, .1, -.1, 3.5, 3.5, .1], np.float32)], np.floor_divide, grad=False)
_odd = np.array([1, np.nan, np.inf, -np.inf, 0], np.float32)
for _name in ("isnan", "isinf", "isfinite"):
    case(f"_npi_{_name}", [_odd], getattr(np, _name), grad=False)
    case(f"_contrib_{_name}", [_odd], like(getattr(np, _name)), grad=False)
    case(f"_npi_{_name}", [i(3)], getattr(np, _name), grad=False)
case("_npi_isposinf", [_odd], np.isposinf, grad=False)
case("_npi_isneginf", [_odd], np.isneginf, grad=False)
case("_npi_nan_to_num", [_odd], lambda x: np.nan_to_num(x, nan=1, posinf=2, neginf=-2), grad=False, nan=1.0,
     posinf=2.0, neginf=-2.0)
case("_npi_nan_to_num", [_odd], np.nan_to_num, grad=False)
case("_npi_nan_to_num", [f(4)], np.nan_to_num)
case("_npi_around", [np.array([1.234, -5.678, 2.5], np.float32)], lambda x: np.around(x, 2), grad=False, decimals=2)
case("_npi_around", [np.array([1.5, 2.5, -.5], np.float32)], np.around, grad=False)
case("_npi_around", [np.array([1234., -5678., 15.], np.float32)], lambda x: np.around(x, -2), grad=False, decimals=-2)
case("_npi_logical_not", [i(4, low=0, high=2)], np.logical_not, grad=False)

# ---- elementwise, others
case("clip", [f(3, 4)], lambda x: np.clip(x, -.51, .8), a_min=-.51, a_max=.8)
case("clip", [i(6)], lambda x: np.clip(x, -2, 2), grad=False, a_min=-2, a_max=2)
case("clip", [f(5)], lambda x: np.maximum(x, .2), a_min=.2, a_max=None)
case("where", [i(2, 3, low=0, high=2), f(2, 3), f(2, 3)], np.where, grad=False)
case("where", [np.array([1, 0], np.float32), f(2, 3), f(2, 3)], lambda c, x, y: np.where(c[:, None] != 0, x, y))
case("_npi_where", [np.array([[True], [False]]), f(2, 3), f(3)], np.where)
case("Cast", [f(4)], lambda x: x.astype(np.int32), grad=False, dtype="int32")
case("Cast", [f(4)], lambda x: x.astype(np.float16), grad=False, dtype="float16")
case("Cast", [f(4)], lambda x: x.astype(bool), grad=False, dtype="bool")
case("Cast", [i(4)], lambda x: x.astype(np.float64), grad=False, dtype="float64")
case("amp_cast", [f(4)], lambda x: x.astype(np.float16), grad=False, dtype="float16")
case("amp_cast", [i(4)], lambda x: x, grad=False, dtype="float16")
case("amp_multicast", [f(2, dtype="float16"), f(2)], lambda a, b: [a.astype(np.float32), b], grad=False, num_outputs=2)
case("BlockGrad", [f(4)], np.copy, grad=False)
case("add_n", [f(2, 3), f(2, 3), f(2, 3)], lambda a, b, c: a + b + c)
case("add_n", [f(2, 3)], np.copy)
case("smooth_l1", [f(7)], lambda x: np.where(np.abs(x) < .25, 2 * x * x, np.abs(x) - .125).astype(x.dtype), scalar=2.0)
case("_full_like", [f(2, 2)], lambda x: np.full_like(x, 2.5), grad=False, fill_value=2.5)
case("_full_like", [f(2, 2)], lambda x: np.full((2, 2), 3, np.int64), grad=False, fill_value=3, dtype="int64")
case("broadcast_to", [f(1, 3)], lambda x: np.broadcast_to(x, (2, 3)), shape=(2, 0))
case("broadcast_to", [f(3)], lambda x: np.broadcast_to(x, (2, 3)), shape=(2, 3))
case("broadcast_like", [f(1, 3), f(2, 3)], lambda x, y: np.broadcast_to(x, y.shape))
case("broadcast_like", [f(1, 3), f(5, 4)], lambda x, y: np.broadcast_to(x, (5, 3)), lhs_axes=(0,), rhs_axes=(0,))
case("broadcast_like", [f(2, 1), f(5, 4)], lambda x, y: np.broadcast_to(x, (2, 4)), lhs_axes=(-1,), rhs_axes=(-1,))
case("broadcast_axis", [f(1, 3, 1)], lambda x: np.broadcast_to(x, (2, 3, 4)), axis=(0, 2), size=(2, 4))
case("broadcast_axis", [f(1, 3, 1)], lambda x: np.broadcast_to(x, (1, 3, 4)), axis=2, size=4)
case("_contrib_div_sqrt_dim", [f(2, 4)], lambda x: x / 2)
case("_contrib_quadratic", [f(5)], lambda x: 2 * x * x + 3 * x + 1, a=2.0, b=3.0, c=1.0)

# ---- reductions
_x3 = f(2, 3, 4)
REDUCE: dict[str, Callable[..., Any]] = {"sum": np.sum, "mean": np.mean, "prod": np.prod, "max": np.max, "min": np.min,
                                         "nansum": np.nansum,
                                         "nanprod": np.nanprod}
for _name, _fn in REDUCE.items():
    case(_name, [_x3], one_axis(_fn), tol=1e-5)
    for _axis in (0, 1, -1, (0, 2), (1, -1), ()):
        _np_axis = None if _axis == () else _axis
        case(_name, [_x3], one_axis(lambda x, g=_fn, a=_np_axis: g(x, axis=a)), tol=1e-5, axis=_axis)
    case(_name, [_x3], like(lambda x, g=_fn: g(x, axis=(0, 2), keepdims=True)), tol=1e-5, axis=(0, 2), keepdims=True)
    case(_name, [_x3], one_axis(lambda x, g=_fn: g(x, axis=(0, 2))), tol=1e-5, axis=1, exclude=True)
    case(f"_np_{_name}", [_x3], like(_fn), tol=1e-5)
    case(f"_np_{_name}", [_x3], like(lambda x, g=_fn: g(x, axis=1, keepdims=True)), tol=1e-5, axis=1, keepdims=True)
_nan = np.array([[1, np.nan, 2], [3, 4, np.nan]], np.float32)
case("nansum", [_nan], lambda x: np.nansum(x, 1), grad=False, axis=1)
case("nanprod", [_nan], lambda x: np.nanprod(x, 1), grad=False, axis=1)
case("sum", [i(3, 4)], one_axis(np.sum), grad=False)
case("max", [i(3, 4)], lambda x: np.max(x, 1), grad=False, axis=1)
case("_np_mean", [i(3, 4)], lambda x: np.mean(x, dtype=np.float32), grad=False)
case("_np_sum", [np.array([True, True, False])], np.sum, grad=False)
case("_np_sum", [f(4)], lambda x: np.sum(x, dtype=np.float64), grad=False, dtype="float64")
case("_np_sum", [f(4)], lambda x: np.sum(x, initial=2), initial=2.0)
case("_np_max", [f(4)], lambda x: np.max(x, initial=1.5), grad=False, initial=1.5)
case("sum", [np.zeros((0, 3), np.float32)], lambda x: np.sum(x, 0), axis=0)
case("_np_sum", [np.float32(2)], np.sum)
case("_np_prod", [np.array([[2, 0, 3], [0, 0, 1]], np.float32)], lambda x: np.prod(x, 1), axis=1)
case("max", [np.array([[1, 3, 3]], np.float32)], lambda x: np.max(x, 1), grad=False, axis=1)
case("_np_all", [i(3, 4, low=0, high=2)], lambda x: np.all(x, 0), grad=False, axis=0)
case("_np_any", [i(3, 4, low=0, high=2)], np.any, grad=False)
case("_npi_var", [f(3, 4)], lambda x: np.var(x, 0), tol=1e-5, axis=0)
case("_npi_std", [f(3, 4)], lambda x: np.std(x, ddof=1), tol=1e-5, ddof=1)
case("moments", [f(3, 4)], lambda x: [np.mean(x, 0), np.var(x, 0)], tol=1e-5, axes=(0,))
case("moments", [f(3, 4)], lambda x: [np.mean(x, keepdims=True), np.var(x, keepdims=True)], tol=1e-5, axes=(0, 1),
     keepdims=True)
case("norm", [f(2, 3)], one_axis(np.linalg.norm))
case("norm", [f(2, 3)], lambda x: np.linalg.norm(x, axis=1), axis=1)
case("norm", [f(2, 3)], lambda x: np.abs(x).sum(0, keepdims=True), ord=1, axis=0, keepdims=True)
case("_square_sum", [f(2, 3)], lambda x: np.sum(x * x, 1), axis=1)
for _name, _fn in (("argmax", np.argmax), ("argmin", np.argmin)):
    case(_name, [_x3], lambda x, g=_fn: g(x, 1).astype(np.float32), grad=False, axis=1)
    case(_name, [_x3], lambda x, g=_fn: g(x, -1, keepdims=True).astype(np.float32), grad=False, axis=-1, keepdims=True)
    case(_name, [_x3], lambda x, g=_fn: g(x).astype(np.float32).reshape(1), grad=False)
    case(f"_npi_{_name}", [_x3], lambda x, g=_fn: np.asarray(g(x)), grad=False)
    case(f"_npi_{_name}", [_x3], lambda x, g=_fn: g(x, 0), grad=False, axis=0)
    case(_name, [np.array([[2, 2, 1], [1, 2, 2]], np.float32)], lambda x, g=_fn: g(x, 1).astype(np.float32),
         grad=False, axis=1)
case("argmax_channel", [f(2, 5)], lambda x: np.argmax(x, 1).astype(np.float32), grad=False)
for _axis in (0, 1, -1, None):
    case("cumsum", [f(3, 4)], lambda x, a=_axis: np.cumsum(x, a), tol=1e-5, axis=_axis)
case("cumsum", [i(6)], lambda x: np.cumsum(x, dtype=np.int32), grad=False, axis=0)
case("cumsum", [i(6)], lambda x: np.cumsum(x, dtype=np.float32), grad=False, axis=0, dtype="float32")

case("cumsum", [f(2, 150)], lambda x: np.cumsum(x, 1), grad=False, tol=1e-4, axis=1)
case("cumsum", [i(5000, dtype="int64")], np.cumsum, grad=False)
case("_npi_norm", [f(2, 3)], np.linalg.norm)
for _ord in (None, 1, 2, 3, np.inf, -np.inf):
    case("_npi_norm", [f(2, 3)], lambda x, o=_ord: np.linalg.norm(x, o, 1), tol=1e-5, ord=_ord, axis=1)
for _ord in ("fro", 1, -1, np.inf, -np.inf):
    case("_npi_norm", [f(3, 4)], lambda x, o=_ord: np.linalg.norm(x, o, (0, 1)), tol=1e-5, ord=_ord, axis=(0, 1))
case("_npi_average", [f(2, 3)], np.average, tol=1e-5)
case("_npi_average", [f(2, 3), f(3, low=.3)], lambda x, w: np.average(x, 1, w), tol=1e-5, axis=1)

# ---- shapes
_x234 = f(2, 3, 4)
for _codes, _shape in (((4, 0, 2), (4, 3, 2)), ((2, 0, 0), (2, 3, 4)), ((6, 1, -1), (6, 1, 4)),
                       ((3, -1, 8), (3, 1, 8)), ((-1,), (24,)),
                       ((-2,), (2, 3, 4)), ((2, -2), (2, 3, 4)), ((-2, 1, 1), (2, 3, 4, 1, 1)), ((-3, 4), (6, 4)),
                       ((0, -3), (2, 12)),
                       ((-3, -2), (6, 4)), ((-4, 1, 2, -2), (1, 2, 3, 4)), ((2, -4, -1, 3, -2), (2, 1, 3, 4)),
                       ((0, -1), (2, 12))):
    case("Reshape", [_x234], lambda x, s=_shape: x.reshape(s), shape=_codes)
case("Reshape", [f(10, 5, 4)], lambda x: x.reshape(40, 5), shape=(-1, 0))
case("Reshape", [f(10, 5, 4)], lambda x: x.reshape(50, 4), shape=(-1, 0), reverse=True)
case("Reshape", [f(8, 3, 3, 3, 4, 4)], lambda x: x.reshape(8, 3, 3, 3, 16), shape=(0, 0, 0, 0, -1))
case("_np_reshape", [_x234], lambda x: x.reshape(4, 6), newshape=(4, -1))
case("_npx_reshape", [_x234], lambda x: x.reshape(2, 12), newshape=(-2, -1))
case("_npx_reshape", [_x234], lambda x: x.reshape(6, 4), newshape=(-5, -2))
case("_npx_reshape", [f(8, 3, 3)], lambda x: x.reshape(2, 4, 3, 3), newshape=(-6, 2, 4, -4))
case("_npx_reshape", [f(1, 3, 2)], lambda x: x.reshape(3, 2), newshape=(-3, -4))
case("Flatten", [_x234], lambda x: x.reshape(2, 12))
case("Flatten", [f(3)], lambda x: x.reshape(3, 1))
case("transpose", [_x234], np.transpose)
case("transpose", [_x234], lambda x: x.transpose(1, 0, 2), axes=(1, 0, 2))
case("transpose", [_x234], lambda x: x.transpose(0, 2, 1), axes=(0, -1, -2))
case("SwapAxis", [_x234], lambda x: x.swapaxes(0, 2), dim1=0, dim2=2)
case("SwapAxis", [_x234], lambda x: x.swapaxes(-1, 1), dim1=-1, dim2=1)
case("_np_moveaxis", [_x234], lambda x: np.moveaxis(x, 0, -1), source=0, destination=-1)
case("_np_moveaxis", [_x234], lambda x: np.moveaxis(x, (0, 1), (2, 0)), source=(0, 1), destination=(2, 0))
case("_npi_rollaxis", [_x234], lambda x: np.rollaxis(x, 2), axis=2)
case("_npi_rollaxis", [_x234], lambda x: np.rollaxis(x, 0, 2), axis=0, start=2)
for _axis in (0, 1, -1, 3):
    case("expand_dims", [_x234], lambda x, a=_axis: np.expand_dims(x, a), axis=_axis)
case("squeeze", [f(1, 3, 1)], np.squeeze)
case("squeeze", [f(1, 3, 1)], lambda x: np.squeeze(x, 0), axis=0)
case("squeeze", [f(1, 3, 1)], lambda x: np.squeeze(x, (0, 2)), axis=(0, -1))
case("Concat", [f(2, 3), f(2, 1)], lambda *x: np.concatenate(x, 1))
case("Concat", [f(2, 3), f(1, 3), f(4, 3)], lambda *x: np.concatenate(x, 0), dim=0)
case("Concat", [f(2, 3), f(2, 3)], lambda *x: np.concatenate(x, -1), dim=-1)
case("Concat", [f(2, 3), f(0, 3)], lambda *x: np.concatenate(x, 0), dim=0)
case("_npi_concatenate", [f(2, 3), f(4)], lambda *x: np.concatenate(x, None), axis=None)
case("_npi_concatenate", [f(2, 3), i(1, 3)], lambda *x: np.concatenate([y.astype(np.float32) for y in x]), grad=False)
case("stack", [f(2, 3), f(2, 3)], lambda *x: np.stack(x))
case("stack", [f(2, 3), f(2, 3)], lambda *x: np.stack(x, -1), axis=-1)
case("_npi_vstack", [f(3), f(2, 3)], lambda *x: np.vstack(x))
case("_npi_hstack", [f(2, 3), f(2, 1)], lambda *x: np.hstack(x))
case("_npi_hstack", [f(3), f(2)], lambda *x: np.hstack(x))
case("_npi_dstack", [f(2, 3), f(2, 3)], lambda *x: np.dstack(x))
case("_npi_column_stack", [f(3), f(3, 2)], lambda *x: np.column_stack(x))
case("SliceChannel", [f(2, 6)], lambda x: np.split(x, 3, 1), num_outputs=3)
case("SliceChannel", [f(2, 3)], lambda x: [x[:, k] for k in range(3)], num_outputs=3, axis=-1, squeeze_axis=True)
case("_split_v2", [f(6, 2)], lambda x: np.split(x, 3, 0), sections=3, axis=0)
case("_split_v2", [f(6, 2)], lambda x: np.split(x, [1, 4], 0), indices=(0, 1, 4), axis=0)
case("_split_v2", [f(6, 2)], lambda x: [x[k] for k in range(6)], sections=6, axis=0, squeeze_axis=True)
case("slice", [_x234], lambda x: x[:, 1:3], begin=(None, 1), end=(None, 3))
case("slice", [_x234], lambda x: x[::-1, ::2, -3:-1], begin=(None, None, -3), end=(None, None, -1), step=(-1, 2, 1))
case("slice", [f(9)], lambda x: x[7:1:-3], begin=(7,), end=(1,), step=(-3,))
case("slice", [f(9)], lambda x: x[5:2], begin=(5,), end=(2,))
case("slice_axis", [_x234], lambda x: x[..., 1:3], axis=-1, begin=1, end=3)
case("slice_axis", [_x234], lambda x: x[:, -2:], axis=1, begin=-2, end=None)
case("slice_like", [f(4, 5), f(2, 3)], lambda x, y: x[:2, :3])
case("slice_like", [f(4, 5), f(2, 3)], lambda x, y: x[:, :3], axes=(-1,))
case("reshape_like", [f(6), f(2, 3)], lambda x, y: x.reshape(2, 3))
case("reshape_like", [f(30, 7), f(15, 2, 4)], lambda x, y: x.reshape(15, 2, 7), lhs_begin=0, lhs_end=1, rhs_begin=0,
     rhs_end=2)
case("tile", [f(2, 3)], lambda x: np.tile(x, (2, 1)), reps=(2, 1))
case("tile", [f(2, 3)], lambda x: np.tile(x, 2), reps=2)
case("tile", [f(3)], lambda x: np.tile(x, (2, 2)), reps=(2, 2))
case("_npi_tile", [f(2, 3)], lambda x: np.tile(x, (0, 1)), reps=(0, 1))
case("repeat", [f(2, 3)], lambda x: np.repeat(x, 2), repeats=2)
case("repeat", [f(2, 3)], lambda x: np.repeat(x, 3, 1), repeats=3, axis=1)
case("repeat", [f(2, 3)], lambda x: np.repeat(x, 2, -1), repeats=2, axis=-1)
case("reverse", [_x234], lambda x: np.flip(x, 1), axis=1)
case("reverse", [_x234], lambda x: np.flip(x, (0, 2)), axis=(0, 2))
_x4 = f(1, 2, 3, 4)
for _mode in ("constant", "edge", "reflect"):
    case("Pad", [_x4], lambda x, m=_mode: np.pad(x, ((0, 0), (0, 0), (1, 2), (2, 1)), m), mode=_mode,
         pad_width=(0, 0, 0, 0, 1, 2, 2, 1))
case("Pad", [_x4], lambda x: np.pad(x, ((0, 0), (0, 0), (1, 1), (0, 0)), constant_values=7), mode="constant",
     pad_width=(0, 0, 0, 0, 1, 1, 0, 0),
     constant_value=7.0)
for _mode in ("constant", "edge", "reflect", "symmetric"):
    case("_npi_pad", [f(3, 4)], lambda x, m=_mode: np.pad(x, ((1, 2), (0, 3)), m), mode=_mode,
         pad_width=((1, 2), (0, 3)))
case("_npi_pad", [f(3)], lambda x: np.pad(x, 2, constant_values=1.5), pad_width=2, constant_value=1.5)
case("shape_array", [_x234], lambda x: np.array([2, 3, 4], np.int64), grad=False)
case("size_array", [_x234], lambda x: np.array([24], np.int64), grad=False)
case("depth_to_space", [f(1, 8, 2, 3)], lambda x: x.reshape(1, 2, 2, 2, 2,
                                                            3).transpose(0, 3, 4, 1, 5, 2).reshape(1, 2, 4, 6),
                                                            block_size=2)
case("space_to_depth", [f(1, 2, 4, 6)], lambda x: x.reshape(1, 2, 2, 2, 3,
                                                            2).transpose(0, 3, 5, 1, 2, 4).reshape(1, 8, 2, 3),
                                                            block_size=2)
for _k in (-1, 0, 2):
    case("diag", [f(3, 4)], lambda x, k=_k: np.diagonal(x, k), k=_k)
    case("diag", [f(3)], lambda x, k=_k: np.diag(x, k), k=_k)
    case("_npi_tril", [f(3, 4)], lambda x, k=_k: np.tril(x, k), k=_k)
    case("_npi_triu", [f(3, 4)], lambda x, k=_k: np.triu(x, k), k=_k)
    case("_np_trace", [f(3, 4)], lambda x, k=_k: np.trace(x, k).astype(np.float32), tol=1e-5, offset=_k)
case("diag", [f(2, 3, 4)], lambda x: np.diagonal(x, 1, 1, 2), k=1, axis1=1, axis2=2)
case("_np_diagonal", [f(2, 3, 4)], lambda x: np.diagonal(x, -1, 0, 2), offset=-1, axis1=0, axis2=2)
case("_np_roll", [f(3, 4)], lambda x: np.roll(x, 1, 1), shift=1, axis=1)
case("_np_roll", [f(3, 4)], lambda x: np.roll(x, 2), shift=2)
case("_np_roll", [f(3, 4)], lambda x: np.roll(x, (1, -2), (0, 1)), shift=(1, -2), axis=(0, 1))
case("_npi_rot90", [f(2, 3)], np.rot90)
case("_npi_rot90", [f(2, 3)], lambda x: np.rot90(x, -1), k=-1)
case("_npi_meshgrid", [f(3), f(2)], lambda x, y: np.meshgrid(x, y))
case("_npi_meshgrid", [f(3), f(2)], lambda x, y: np.meshgrid(x, y, indexing="ij"), indexing="ij")
case("_np_atleast_1d", [np.float32(2)], np.atleast_1d)
case("_np_atleast_2d", [f(3)], np.atleast_2d)
case("_np_atleast_3d", [f(2, 3)], np.atleast_3d)
case("_npi_diff", [f(2, 5)], lambda x: np.diff(x, 2), n=2)
case("_npi_diff", [f(4, 3)], lambda x: np.diff(x, axis=0), axis=0)
