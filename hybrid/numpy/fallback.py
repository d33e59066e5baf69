"""NumPy's own functions on our arrays, where no operator exists: ``np.unique``, ``np.random.choice``, … Eagerly alone.

NumPy reads arrays of the CPU where they lie and may not write them; those of a GPU are copied to the host, the results
back to the device. These functions have no gradient and cannot be traced, and say so.
"""
from __future__ import annotations

from functools import lru_cache
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from ..base import dtype as dt
from ..autograd import known_calls
from ..base import pending, rng as generator
from ..buffers.array import NDArray, array, wrap
from ..base.device import Context, current_context
from ..nd.dynamic import refuse_traced
from ..base.names import named
from ..base.other_names import LIBRARY, MissingNameError
from ..ir.direct import alone
from ..base.errors import HybridError, TraceError, user_location
from ..nd import functions, made_here
from ..base.scope import SCOPE

GENERATOR = ("beta binomial chisquare choice dirichlet f geometric gumbel hypergeometric laplace logistic lognormal "
             "logseries multinomial multivariate_normal negative_binomial noncentral_chisquare noncentral_f pareto "
             "permutation poisson power rayleigh standard_cauchy standard_exponential standard_gamma standard_normal "
             "standard_t triangular vonmises wald weibull zipf").split()


def elsewhere(name: str) -> str:
    """Advice for an error: what to write instead of a name of NumPy's that hybrid does not have."""
    return (f"write numpy.{name}, outside of hybridized code; x.asnumpy() gives NumPy an array, and np.array(a) "
            "takes one back")


@lru_cache(None)
def numpy_function(name: str, cls: type) -> Any:
    """numpy.<name> for our arrays (a dtype or a number as it is); AttributeError where NumPy has none."""
    found = OLD[name] if name in OLD else OURS.get(name) or getattr(np, name, None)
    if found is None or name.startswith("_"):
        ours = [f"hybrid.{space}.{name}" for space in ("npx", "nd") if functions.has(space, name)]
        raise MissingNameError(f"hybrid.np has no {name!r}, nor has NumPy {np.__version__}", name,
                          " or ".join(ours) or LIBRARY.get(name), lambda: dir(np))
    if isinstance(found, (int, float)) or isinstance(found, type) and issubclass(found, np.generic):
        return found
    if not callable(found) or isinstance(found, type):
        raise AttributeError(f"hybrid.np has no {name!r}: {elsewhere(name)}")
    return wrapped(f"np.{name}", found, cls)


def _financial(*values: Any, **options: Any) -> Any:
    raise HybridError("np.rate, mirr, npv, pv and ppmt left NumPy with version 1.20: use the package numpy-financial")


def _argwhere(a: Any) -> np.ndarray:
    """Places of the elements that are not 0, a row each."""
    a = np.asarray(a)
    columns = a.nonzero() if a.ndim else ()
    rows: Any = columns[0].base if columns else None         # NumPy's nonzero writes rows, and gives their columns
    whole = rows is not None and rows.shape == (len(columns[0]), a.ndim) and rows.base is None
    return rows if whole and rows.flags.c_contiguous else np.argwhere(a)         # type: ignore[no-any-return]


def _imag(val: Any) -> np.ndarray:
    """The imaginary part: zeros of real numbers."""
    val = np.asarray(val)
    return np.imag(val) if val.dtype.kind == "c" else np.zeros(val.shape, val.dtype)


def _iscomplex(x: Any) -> Any:
    """Whether an element has an imaginary part."""
    x = np.asarray(x)
    return np.iscomplex(x) if x.dtype.kind == "c" or not x.ndim else np.zeros(x.shape, bool)


def _resize(a: Any, new_shape: Any) -> np.ndarray:
    """The elements in order, again from the first where they do not suffice."""
    a = np.ravel(a)
    out = np.empty(new_shape, a.dtype)
    rounds, flat = out.size // a.size, out.reshape(-1)
    flat[:rounds * a.size].reshape(rounds, a.size)[...] = a
    flat[rounds * a.size:] = a[:out.size - rounds * a.size]
    return out


# NumPy's own functions
FUNCTIONS = {name: f for name, f in vars(np).items()
             if callable(f) and not isinstance(f, type) and not name.startswith("_")}
# in place of NumPy's: functions of the same results
OURS = {"argwhere": _argwhere, "imag": _imag, "iscomplex": _iscomplex, "resize": _resize}
OLD = {**dict.fromkeys(("rate", "mirr", "npv", "pv", "ppmt"), _financial)}            # names that NumPy had


def generator_function(name: str, cls: type) -> Callable[..., Any]:
    """A method of numpy.random.Generator, seeded by ``mx.random.seed``."""
    def draw(*args: Any, **kwargs: Any) -> Any:
        out = getattr(_generator(f"np.random.{name}"), name)(*args, **kwargs)
        return (np.asarray(out, np.float32) if np.asarray(out).dtype == np.float64
                and name not in ("choice", "permutation") else out)
    return wrapped(f"np.random.{name}", draw, cls)


def _generator(what: str) -> np.random.Generator:
    if SCOPE.traces:
        raise TraceError(f"{user_location()}: {what} would draw once, while tracing, and give the same numbers at "
                         f"every call; draw outside the "
                         "hybridized code and pass the numbers in, or use np.random.uniform, normal, randint")
    return np.random.Generator(np.random.Philox(key=int.from_bytes(np.asarray(generator.next_key()).tobytes(),
                                                                   "little")))


def shuffle(x: NDArray) -> None:
    """Permute the rows of an array in place."""
    order = _generator("np.random.shuffle").permutation(len(x))
    x[:] = array(x.asnumpy()[order], x._ctx, x._data.dtype)


# functions of MXNet's that have no gradient, also while recording
FLAT = frozenset("unique histogram bincount nonzero".split())


def _real(found: Any) -> bool:
    """Whether there are real numbers in a result, which a gradient might be expected of."""
    return any(_real(v) for v in found) if isinstance(found,
                                                      (tuple, list)) else getattr(getattr(found, "dtype", None),
            "kind", "") == "f"


def wrapped(name: str, fn: Callable[..., Any], cls: type) -> Callable[..., Any]:
    """A function of NumPy's for our arrays. Its attribute ``called_in_c``, a function of the arguments and those by
    name, does most calls in C and gives NotImplemented for the others."""
    short, most = name[3:], fn.nin if isinstance(fn, np.ufunc) else 1 << 30
    writes, copying = short in WRITERS, short in COPYING
    may_be_in_c = not writes and not short.startswith("random.")

    def called_in_c(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not known_calls.NUMPY_IN_C:
            known_calls.counted()
        elif may_be_in_c and len(args) <= most and "out" not in kwargs:
            return known_calls.NUMPY_IN_C[0](fn, args, kwargs, cls, copying, _rest)
        return NotImplemented

    def function(*args: Any, **kwargs: Any) -> Any:
        if writes and args and isinstance(args[0], NDArray):
            return _write(name, fn, args, kwargs)
        if (found := called_in_c(args, kwargs)) is not NotImplemented:
            return found
        if len(args) > most:
            raise TypeError(f"{user_location()}: {name} takes {most} values here, got {len(args)}; give out= by name")
        arrays: list[NDArray] = []
        host = [_host(name, v, arrays) for v in args]
        options = _host(name, kwargs, arrays) if kwargs else kwargs
        target = kwargs.get("out")
        if isinstance(target, NDArray):
            options["out"] = target.asnumpy()
        found = fn(*host, **options)                         # NumPy judges whether out= serves: it gets a copy of it
        if SCOPE.recording and short not in FLAT and any(a._ag is not None for a in arrays) and _real(found):
            raise HybridError(f"{name} is NumPy's own function, through which no gradient flows: use it outside "
                              f"autograd.record(), or on x.detach()")
        if isinstance(target, NDArray):
            target[...] = np.asarray(found, target.dtype)
            return target
        # of plain NumPy arrays some functions give the very same back
        return _back(found, arrays, {id(v) for v in (*args, *kwargs.values()) if isinstance(v, np.ndarray)}, cls)

    module, _, last = name.replace("np", "hybrid.numpy", 1).rpartition(".")
    function.of_numpy = fn                               # type: ignore[attr-defined]  # which it calls
    function.called_in_c = called_in_c                   # type: ignore[attr-defined]
    return named(function, last, module, f"NumPy's own {name}; only in eager code, it cannot be compiled.\n\n"
                                         f"{fn.__doc__ or ''}")


def _write(name: str, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Calls a function that writes into its first array: in place for an array in NumPy's memory that is neither
    recorded nor traced, otherwise on a copy that is then assigned, so that recording and tracing see the write."""
    target, *others = args
    if fn is np.copyto and not kwargs and len(others) == 1 and isinstance(others[0], NDArray) \
            and others[0].dtype == target.dtype:
        target[...] = others[0]
        return
    host = [_host(name, v, []) for v in others]
    options = _host(name, kwargs, []) if kwargs else kwargs
    raw = target._data
    if type(raw) is np.ndarray and target._ag is None and not SCOPE.traces:
        pending.before_write(raw)
        try:
            fn(raw, *host, **options)
        finally:
            target._bump()
        return
    changed = target.asnumpy().copy()
    fn(changed, *host, **options)
    target[...] = changed


# NumPy's functions that read their array, but copy one that is marked read-only: they are given a writeable view
COPYING = frozenset("argmax argmin nanargmax nanargmin".split())
# functions that write their first array
WRITERS = frozenset("copyto fill_diagonal place put put_along_axis putmask".split())
DYNAMIC = frozenset("unique nonzero flatnonzero argwhere where extract compress trim_zeros delete bincount "
                    "intersect1d union1d setdiff1d setxor1d".split())


PLAIN = frozenset({int, float, bool, str, type(None), slice})


def _host(name: str, value: Any, arrays: list[NDArray]) -> Any:
    if isinstance(value, NDArray):
        arrays.append(value)
        return value.asnumpy() if name.startswith("np.random.") else _looked_at(value, name[3:] in COPYING)
    if type(value) in PLAIN:
        return value
    if hasattr(value, "entries"):
        if name.startswith("np.") and name[3:] in DYNAMIC:
            refuse_traced(name, value)
        raise TraceError(f"{user_location()}: {name} is NumPy's own function, which cannot be compiled; call it "
                         f"outside the hybridized code, "
                         "or run this code without hybridize")
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_host(name, v, arrays) for v in value)
    return {k: _host(name, v, arrays) for k, v in value.items()} if isinstance(value, dict) else value


def _looked_at(x: NDArray, writeable: bool = False) -> np.ndarray:
    """A view of the elements on the CPU, else a copy; nobody may write it. writeable: do not mark the view read-only
    (for ``COPYING``)."""
    if x._ctx.device_type == "gpu" or SCOPE.traces:
        return x.asnumpy()
    seen = x._data.view()
    seen.flags.writeable = writeable
    return seen


_SUPPORTED = frozenset(dt.SUPPORTED)


def _back(value: Any, arrays: Sequence[NDArray], given: set[int], cls: type) -> Any:
    """Our arrays for NumPy's results, of the device of the arguments. given: ids of NumPy arrays to be copied."""
    if isinstance(value, (np.generic, np.ndarray)):
        if value.dtype not in _SUPPORTED:
            return value
        ctx = arrays[0]._ctx if arrays else current_context()
        fresh = _is_fresh(value, ctx) and id(value) not in given
        return made_here(wrap(value, ctx, cls) if fresh else array(value, ctx, value.dtype, cls))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_back(v, arrays, given, cls) for v in value))
    return type(value)(_back(v, arrays, given, cls) for v in value) if isinstance(value, (list, tuple)) else value


def _rest(value: Any, first: NDArray, cls: type) -> Any:
    """Our arrays for results that C leaves to Python. first: the first array among the arguments."""
    return _back(value, [first], set(), cls)


def _is_fresh(value: Any, ctx: Context) -> bool:
    """Whether a result is an array that NumPy has just made, which need not be copied."""
    return (ctx.device_type != "gpu" and isinstance(value, np.ndarray) and value.flags.c_contiguous
            and value.flags.writeable and (value.base is None or alone(value)))
