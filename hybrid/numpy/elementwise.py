"""Functions of one and of two values, element by element, and reductions: NumPy's signatures over the operators."""
from __future__ import annotations

from typing import Any

import numpy as _np

from ..nd import functions, operators
from ..buffers.array import NDArray
from ..autograd.dispatch import into, invoke
from ..ir.quiet import silently
from ..ops import registry
from ..ops.documentation import document
from ..ops.registry import OPS
from ..base.dtype import as_dtype
from ..base.errors import DTypeError, user_location
from ..base.names import named
from . import fallback, protocol
from .multiarray import also_named, array, as_np, as_value, finish, is_value, ndarray

# NumPy's options and the only value known here
LEGAL = {"where": True, "casting": "same_kind", "order": "K", "dtype": None, "subok": True}
CASTINGS = "no", "equiv", "safe", "same_kind", "unsafe"


def options(name: str, kwargs: dict[str, Any]) -> None:
    """NumPy's options of a ufunc are taken at their defaults alone; others are an error, TypeError where NumPy knows no
    such dtype or casting."""
    for key, value in kwargs.items():
        if key not in LEGAL:
            raise TypeError(f"np.{name} got an unexpected argument {key!r}")
        if value is not LEGAL[key] and not (isinstance(value, str) and value == LEGAL[key]):
            if key == "dtype":
                as_dtype(value)
            if key == "casting" and value not in CASTINGS:
                raise TypeError(f"np.{name}: casting is one of {', '.join(CASTINGS)}, got {value!r}")
            raise NotImplementedError(f"np.{name}: {key}={value!r} is not implemented")


def has_own_rules(x: Any) -> bool:
    """Whether a value that is no array of ours says itself what NumPy's functions make of it."""
    return isinstance(x, tuple) and hasattr(type(x), "__array_function__")


def unary(name: str) -> Any:
    """NumPy's function of one array; of numbers and NumPy's arrays NumPy's answer."""
    inner, two = functions.resolve("np", name), name not in UFUNCS

    def function(x: Any, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        if type(x) is ndarray and not args and not kwargs:
            if out is None:
                return inner(x)
            if into(registry.namespace("np")[name], (x,), {}, out):
                return out
        if len(args) == 1 and type(x) is type(args[0]) is ndarray and out is None and not kwargs and two:
            return inner(x, *args)
        if len(args) > 1 and name in UFUNCS:
            raise TypeError(f"np.{name} takes one array and out, got {1 + len(args)} values")
        if has_own_rules(x) or not any(isinstance(v, (NDArray, list, tuple)) or hasattr(v, "entries")
                   for v in (x, *args, *kwargs.values(), out)) and hasattr(_np, name):
            return getattr(_np, name)(x, *args, **kwargs)
        options(name, {k: kwargs.pop(k) for k in list(kwargs) if name in UFUNCS or k in LEGAL
                       and k not in ATTRIBUTES.get(name, ())})
        if args and name in UFUNCS:
            return function(x, out=args[0], **kwargs)
        return finish(inner(x if is_value(x) else array(x), *args, **kwargs), out)
    named(function, name, functions.MODULES["np"], document(registry.namespace("np")[name], name, "x"))
    return also_named(FIRST[name])(function) if name in FIRST else function


# what NumPy calls the first parameter, where MXNet and this library say x
FIRST = dict.fromkeys("around round round_ diagonal trace rollaxis dot inner vdot kron".split(), "a") | dict.fromkeys(
    ("diag", "diagflat"), "v") | dict.fromkeys(("tril", "triu"), "m") | {"matmul": "x1"}
UFUNCS = frozenset("abs absolute sign ceil floor trunc fix rint square sqrt cbrt exp expm1 log log1p log2 log10 sin "
                   "cos tan arcsin arccos arctan sinh cosh tanh arcsinh "
                   "arccosh arctanh reciprocal negative fabs isnan isinf isfinite isposinf isneginf logical_not "
                   "bitwise_not invert degrees rad2deg radians deg2rad".split())
ATTRIBUTES = {"cumsum": ("dtype",), "full_like": ("dtype", "order"), "reshape": ("order",), "nan_to_num": ("copy",),
              "indices": ("dtype",), "argsort": ("order",)}


_NUMBERS = frozenset({int, float})


def binary(name: str, fn: str) -> Any:
    """NumPy's function of two values, either of which may be a number."""
    row = (f"_npi_{fn}", f"_npi_{fn}_scalar", f"_npi_r{fn}_scalar", fn, fn)
    of_arrays = OPS.get(row[0])

    def function(x1: Any, x2: Any, out: Any = None, **kwargs: Any) -> Any:
        if type(x1) is ndarray and type(x2) is ndarray and out is None and not kwargs and of_arrays is not None:
            return invoke(of_arrays, (x1, x2), {}, None, None, None, fn)
        if out is None and not kwargs and (type(x1) is ndarray and type(x2) in _NUMBERS
                                           or type(x2) is ndarray and type(x1) in _NUMBERS):
            return operators.binary(row, x1, x2)
        if out is not None and of_arrays is not None and not kwargs and into(of_arrays, (x1, x2), {}, out):
            return out
        options(name, kwargs)
        if has_own_rules(x1) or has_own_rules(x2) or not any(
                isinstance(v, (NDArray, list, tuple, _np.ndarray)) or hasattr(v, "entries") for v in (x1, x2)):
            return getattr(_np, name)(x1, x2)
        x1, x2 = (_listed(v) if isinstance(v, (list, tuple)) else v for v in (x1, x2))
        if not any(is_value(v) for v in (x1, x2)):
            x1 = array(x1)
        return finish(as_np(operators.two(row, x1, x2)), out)
    return named(function, name, functions.MODULES["np"], f"NumPy's {name}, broadcast.")


def _listed(values: Any) -> Any:
    """An array beside another one, of a list: of integers and truth values NumPy's, of other numbers float32."""
    if any(is_value(v) for v in values):
        return array(values)
    whole = _np.asarray(values)
    return array(whole if whole.size and whole.dtype.kind in "biu" else values)


def reciprocal(x: Any, out: Any = None, **kwargs: Any) -> Any:
    """1 / x. Of integers an integer: 1 and -1 are their own, of all others (also 0) it is 0."""
    options("reciprocal", kwargs)
    if not is_value(x) and not isinstance(x, (list, tuple)):
        return _np.reciprocal(x)
    x = as_value(x)
    if x.dtype is None or _np.dtype(x.dtype).kind not in "iu":
        return finish(functions.resolve("np", "reciprocal")(x), out)
    return finish(as_np(invoke(OPS["_rdiv_scalar"], [x], {"scalar": 1})), out)


def positive(x: Any, out: Any = None, **kwargs: Any) -> Any:
    """A copy: numbers as they are."""
    options("positive", kwargs)
    if not is_value(x) and not isinstance(x, (list, tuple)):
        return _np.positive(x)
    x = as_value(x)
    if x.dtype is not None and x.dtype == _np.bool_:
        raise DTypeError(f"{user_location()}: np.positive takes numbers, got truth values; x.copy() copies them")
    return finish(functions.resolve("np", "copy")(x), out)


def lcm(x1: Any, x2: Any, out: Any = None, **kwargs: Any) -> Any:
    """The least common multiples of integers."""
    options("lcm", kwargs)
    if not is_value(x1) and not is_value(x2):
        return fallback.numpy_function("lcm", ndarray)(x1, x2)
    if isinstance(x1, (int, _np.integer)):
        x1, x2 = x2, x1
    x1, x2 = (_listed(v) if isinstance(v, (list, tuple)) else v for v in (x1, x2))
    if isinstance(x2, (int, _np.integer)):
        return finish(invoke(OPS["_npi_lcm_scalar"], [x1], {"scalar": int(x2)}), out)
    return finish(invoke(OPS["_npi_lcm"], [as_value(x1), as_value(x2)], {}), out)


def _whole(x: Any) -> bool:
    """Whether a number is whole, or an array of whole numbers."""
    return x.dtype.kind in "iub" if isinstance(x, NDArray) else isinstance(x, int) and abs(x) < 1 << 31


def _plain_floats(x: Any) -> bool:
    """Whether NumPy's function computes the same of an array, and no gradient is wanted."""
    return (isinstance(x, NDArray) and x.dtype != _np.float16 and x.context.device_type != "gpu"
            and not protocol.expects_gradient(x))


def ldexp(x1: Any, x2: Any, out: Any = None, **kwargs: Any) -> Any:
    """x1 times 2 to the power x2."""
    options("ldexp", kwargs)
    if not any(is_value(v) or isinstance(v, (list, tuple)) for v in (x1, x2)):
        return _np.ldexp(x1, x2)
    x1, x2 = as_value(x1), x2 if isinstance(x2, (int, float, _np.number)) else as_value(x2)
    if x1.dtype is None or is_value(x2) and x2.dtype is None:
        return finish(x1 * binary("power", "power")(2.0, x2), out)
    x1 = x1 if _np.dtype(x1.dtype).kind == "f" else x1.astype("float32")
    if _whole(x2) and _plain_floats(x1):
        return finish(silently(fallback.numpy_function("ldexp", ndarray))(x1, x2), out)
    if not is_value(x2):
        return finish(invoke(OPS["_npi_ldexp_scalar"], [x1], {"scalar": float(x2)}), out)
    x2 = x2.astype("float64" if x1.dtype == _np.float64 else "float32", copy=False)
    return finish(as_np(invoke(OPS["_npi_ldexp"], [x1, x2], {})), out)


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """x where the condition holds, else y; with the condition alone the places where it holds (as ``nonzero``)."""
    if x is None and y is None:
        return fallback.numpy_function("nonzero", ndarray)(condition)
    if x is None or y is None:
        raise TypeError("np.where takes the condition alone, or x and y too")
    if isinstance(condition, (bool, _np.bool_)) and not is_value(x) and not is_value(y):
        return x if condition else y
    dtype = next((v.dtype for v in (x, y) if is_value(v)), None)
    values = [v if is_value(v) else _beside(v, dtype) for v in (x, y)]
    return functions.resolve("np", "where")(condition if is_value(condition) else array(_np.asarray(condition)),
                                            *values)


def _beside(value: Any, dtype: Any) -> Any:
    """A number as an array of the other value's dtype, where it fits in there."""
    if isinstance(value, (int, float, bool)) and dtype is not None and (isinstance(value, int)
                                                                        or _np.dtype(dtype).kind == "f"):
        return array(value, dtype=dtype)
    return array(value)


def nan_to_num(x: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None, out: Any = None,
               **kwargs: Any) -> Any:
    """nan and infinities replaced by numbers, infinities by default by the largest of the dtype; in place where
    ``copy`` is False."""
    options("nan_to_num", kwargs)
    if not is_value(x) and not isinstance(x, (list, tuple)):
        return _np.nan_to_num(x, copy=copy, nan=nan, posinf=posinf, neginf=neginf)
    x = as_value(x)
    given = {k: v for k, v in (("posinf", posinf), ("neginf", neginf)) if v is not None}
    found = functions.resolve("np", "nan_to_num")(x, nan=nan, **given)
    if copy or out is not None:
        return finish(found, out)
    x[...] = found
    return x


def clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None,
         max: Any = None) -> Any:  # noqa: A002  NumPy's names
    """Values limited to [a_min, a_max], which NumPy also calls min and max; either may be None."""
    if (min is not None and a_min is not None) or (max is not None and a_max is not None):
        raise ValueError("np.clip: a bound was given twice, as a_min and min or as a_max and max")
    a_min, a_max = min if a_min is None else a_min, max if a_max is None else a_max
    if not is_value(a) and not isinstance(a, (list, tuple, _np.ndarray)) and not (is_value(a_min) or is_value(a_max)):
        return array(_np.clip(a, a_min, a_max))
    a = as_value(a)
    if a_min is None and a_max is None:
        return finish(functions.resolve("np", "copy")(a), out)
    if is_value(a_min) or is_value(a_max) or isinstance(a_min, _np.ndarray) or isinstance(a_max, _np.ndarray):
        out_ = a if a_min is None else binary("maximum", "maximum")(a, as_value(a_min))
        return finish(out_ if a_max is None else binary("minimum", "minimum")(out_, as_value(a_max)), out)
    return finish(functions.resolve("np", "clip")(a, a_min=a_min, a_max=a_max), out)


# ---- reductions: the parameters behind the array, in NumPy's order as MXNet has them
REDUCTIONS = {
    **dict.fromkeys(("sum",), "axis dtype keepdims initial out"),
    **dict.fromkeys(("prod", "product", "nansum", "nanprod"), "axis dtype out keepdims initial"),
    "mean": "axis dtype out keepdims", **dict.fromkeys(("max", "min", "amax", "amin", "all", "any", "alltrue",
                                                        "sometrue"), "axis keepdims out"),
    **dict.fromkeys(("std", "var"), "axis dtype out ddof keepdims"),
    **dict.fromkeys(("argmax", "argmin"), "axis out keepdims"),
    "cumsum": "axis dtype out", "average": "axis weights returned out"}


def reduction(name: str) -> Any:
    """A reduction with NumPy's parameters."""
    parameters = REDUCTIONS[name].split()
    inner = functions.resolve("np", name)

    def function(a: Any, *args: Any, **kwargs: Any) -> Any:
        if type(a) is ndarray and not args and (not kwargs or type(kwargs.get("axis")) is int and len(kwargs) == 1):
            return inner(a, **kwargs)
        if has_own_rules(a):
            return getattr(_np, name)(a, *args, **kwargs)
        if len(args) > len(parameters):
            raise TypeError(f"np.{name} takes an array, {', '.join(parameters)}; got {1 + len(args)} values")
        given = {**dict(zip(parameters, args)), **kwargs}
        if name in ("std", "var") and "correction" in given:     # the array API's name
            given["ddof"] = given.pop("correction")
        unknown = set(given) - set(parameters)
        if unknown - {"where"} or given.pop("where", True) is not True:
            raise TypeError(f"np.{name} has no {', '.join(sorted(unknown))}; known: {', '.join(parameters)}")
        out = given.pop("out", None)
        axis = given.get("axis")
        if isinstance(axis, list):
            given["axis"] = tuple(axis)
        weights = given.pop("weights", None)
        rest = () if weights is None else (as_value(weights),)
        found = inner(as_value(a), *rest, **{k: v for k, v in given.items() if v is not None})
        return found if isinstance(found, (list, tuple)) else finish(found, out)
    return named(function, name, functions.MODULES["np"], inner.__doc__)
