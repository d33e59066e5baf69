"""``nd``: functions on arrays, generated from the registry, and those that make arrays."""
from __future__ import annotations

import sys
from typing import Any, Sequence
from weakref import WeakValueDictionary

import numpy as _np

from ..base import dtype as dt
from . import functions, methods as methods, operators
from ..buffers import foreign
from ..buffers.array import NDArray, array as _array, wrap
from .copies import captured
from ..base.device import Context, find_cupy, wait_for_gpus as _wait_for_gpus
from ..base.dtype import as_dtype, or_float32
from ..autograd.dispatch import invoke
from ..ops.registry import OPS
from ..base.errors import DeviceError, ShapeError, TraceError, user_location
from ..base.other_names import import_error_with_hint as _with_hint
from .random_functions import RandomSpace, make, shape_of, symbolic
from ..base.scope import SCOPE, tracing
from ..graph.symbol import Symbol as _Symbol

NDArrayBase = NDArray
ndarray = sys.modules[__name__]         # MXNet's module mx.nd.ndarray holds what mx.nd holds


def array(source_array: Any, ctx: Context | None = None, dtype: Any = None) -> Any:
    """An array from numbers, nested lists or another array.

    dtype: float32 unless given, or that of an NDArray source.
    """
    if hasattr(source_array, "entries") or isinstance(source_array,
                                                      (list, tuple)) and any(hasattr(v, "entries")
            for v in source_array):
        return _traced_array(source_array, dtype)
    if isinstance(source_array, NDArray) and SCOPE.traces and source_array.stype == "default":
        return _traced_array(captured(source_array), dtype)
    # a sparse array, or a matrix of SciPy's
    if getattr(source_array, "stype", "default") != "default" or hasattr(source_array, "tocsr"):
        return functions.resolve("nd", "sparse.array")(source_array, ctx, dtype)
    if dtype is None:
        dtype = source_array._data.dtype if isinstance(source_array, NDArray) else _np.float32
    return made_here(_array(source_array, ctx, dtype))


def made_here(x: Any) -> Any:
    """An array of constants; inside a hybridized call the trace notes that each call makes its own."""
    trace = tracing()
    if trace is not None:
        trace.made[id(x)] = x
    return x


def zeros(shape: Any, ctx: Any = None, dtype: Any = None, stype: Any = None, out: Any = None, name: Any = None,
          __layout__: Any = None) -> Any:
    """Zeros of a shape; float32 unless dtype is given. stype: the storage type, 'csr' and 'row_sparse' for sparse
    arrays. __layout__: a note of recurrent cells' first states, without effect here.

    >>> zeros((2, 3)).shape
    (2, 3)
    """
    if stype not in (None, "default"):
        return functions.resolve("nd", "sparse.zeros")(stype, shape, ctx, dtype)
    return make("_zeros", out, shape=shape_of(shape), ctx=ctx, dtype=or_float32(dtype), name=name)


def ones(shape: Any, ctx: Any = None, dtype: Any = None, out: Any = None, name: Any = None,
         __layout__: Any = None) -> Any:
    """Ones of a shape."""
    return make("_ones", out, shape=shape_of(shape), ctx=ctx, dtype=or_float32(dtype), name=name)


def full(shape: Any, val: Any, ctx: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """A number in a shape."""
    return make("_full", out, shape=shape_of(shape), value=float(val) if SCOPE.symbolic else val, ctx=ctx,
                dtype=or_float32(dtype))


def empty(shape: Any, ctx: Any = None, dtype: Any = None, stype: Any = None) -> Any:
    """An array of a shape; its contents are not defined."""
    return zeros(shape, ctx, dtype, stype)


def arange(start: Any, stop: Any = None, step: Any = 1.0, repeat: int = 1, infer_range: bool = False, ctx: Any = None,
           dtype: Any = None, out: Any = None, name: Any = None) -> Any:
    """start, start + step, … below stop (0 … start when stop is None)."""
    attrs = {"start": start, "stop": stop, "step": step, "repeat": repeat, "infer_range": infer_range,
             "dtype": or_float32(dtype)}
    if SCOPE.symbolic:                                       # written as MXNet writes it, stop=None too
        return invoke(OPS["_arange"], [], attrs, None, name, hint="_arange")
    return make("_arange", out, ctx=ctx, name=name, **attrs)


def linspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, ctx: Any = None, dtype: Any = None) -> Any:
    """num numbers from start to stop."""
    return make("_linspace", start=start, stop=stop, num=num, endpoint=endpoint, ctx=ctx, dtype=or_float32(dtype))


def eye(N: int, M: int = 0, k: int = 0, ctx: Any = None, dtype: Any = None) -> Any:  # noqa: N803
    """Ones on the k-th diagonal."""
    return make("_eye", N=N, M=M, k=k, ctx=ctx, dtype=or_float32(dtype))


def concatenate(arrays: Sequence[Any], axis: int = 0, always_copy: bool = True) -> Any:
    """Arrays one after another along an axis; a single one is copied, or itself without ``always_copy``."""
    if len(arrays) == 1 and not always_copy:
        return arrays[0]
    return functions.resolve("nd", "concat")(*arrays, dim=axis)


def from_numpy(ndarray: _np.ndarray, zero_copy: bool = True) -> Any:
    """An array on the CPU that shares a NumPy array's memory, which can then be written through such arrays alone."""
    raw = _np.asarray(ndarray)
    as_dtype(raw.dtype)                                       # DTypeError for text, objects, complex numbers
    if zero_copy and not raw.flags.c_contiguous:
        raise ValueError("from_numpy shares memory with arrays in C order alone: pass zero_copy=False, or "
                         "numpy.ascontiguousarray(x)")
    given_before = zero_copy and not raw.flags.writeable and _frozen(raw)
    view = _np.asarray(foreign.Writable(raw)) if given_before else raw.view()
    out = wrap(view if zero_copy else raw.copy(), Context("cpu", 0))
    if zero_copy and raw.flags.writeable:
        raw.flags.writeable = False                           # as in MXNet: changes go through the array
        _FROZEN[id(raw)] = raw
        # other views of this memory may be written, and no array is told
        out._exposed()
    return out


_FROZEN: Any = WeakValueDictionary()            # by id: NumPy arrays that from_numpy took the right to write from


def _frozen(raw: Any) -> bool:
    """Whether this memory cannot be written because ``from_numpy`` shares it, and for no other reason."""
    while isinstance(raw, _np.ndarray):
        if _FROZEN.get(id(raw)) is raw:
            return True
        raw = raw.base
    return False


def from_dlpack(dlpack: Any) -> Any:
    """An array that shares the memory of a DLPack capsule, or of any object that exports one.

    >>> x = ones((2,)); y = from_dlpack(to_dlpack_for_read(x)); y[:] = 3; x.asnumpy().tolist()
    [3.0, 3.0]
    """
    if type(dlpack).__name__ == "PyCapsule":
        try:
            foreign.pointer(dlpack)
        except ValueError:
            raise TypeError("from_dlpack: the capsule holds no DLPack tensor, or was used already") from None
        dlpack = foreign.Exporter(dlpack)
    if not hasattr(dlpack, "__dlpack_device__"):
        raise TypeError(f"from_dlpack takes a DLPack capsule or an array that exports one, got {type(dlpack).__name__}")
    kind, number = dlpack.__dlpack_device__()
    if kind == 2:
        cupy = find_cupy()
        if cupy is None:
            raise DeviceError(f"the DLPack tensor is on gpu({number}), which cannot be used here: CuPy sees no GPU")
        return wrap(cupy.from_dlpack(dlpack), Context("gpu", number))
    raw = foreign.from_exporter(dlpack)
    as_dtype(raw.dtype)
    own = isinstance(dlpack, NDArray) and dlpack._data.flags.writeable
    # capsules do not say, and NumPy before 2.1 takes all for constants
    if (own or isinstance(dlpack, foreign.Exporter)) and not raw.flags.writeable:
        raw = _np.asarray(foreign.Writable(raw))
    out = wrap(raw, Context("cpu", 0))
    out._exposed()
    return out


def to_dlpack_for_read(data: Any) -> Any:
    """A DLPack capsule of an array's memory."""
    return data.__dlpack__()


to_dlpack_for_write = to_dlpack_for_read


def waitall() -> None:
    """Wait until everything that was started has been computed."""
    _wait_for_gpus()


def _two(name: str, row: Any) -> Any:
    def function(lhs: Any = None, rhs: Any = None, **named: Any) -> Any:
        # MXNet's names for some: sym.maximum(left, right), power(base, exp)
        if named:
            lhs, named = (lhs, named) if lhs is not None else _first_of(named, "left", "base")
            rhs, named = (rhs, named) if rhs is not None else _first_of(named, "right", "exp")
            if named:
                raise TypeError(f"{name} takes two values, lhs and rhs; it has no argument "
                                f"{', '.join(map(repr, named))}")
        return operators.two(row, lhs, rhs)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Elementwise {name.replace('_', ' ')} of arrays or numbers."
    return function


def _first_of(named: dict[str, Any], *keys: str) -> tuple[Any, dict[str, Any]]:
    """The value of the first of these names that was given (None without one), and what is left."""
    key = next((k for k in keys if k in named), None)
    return named.get(key) if key else None, {k: v for k, v in named.items() if k != key}


TWO = {**{k: operators.BINARY[v] for k, v in operators.TWO.items()}, **operators.EXTRA_TWO}
globals().update({name: _two(name, row) for name, row in TWO.items()})


def split_v2(ary: Any, indices_or_sections: Any, axis: int = 0, squeeze_axis: bool = False) -> Any:
    """Parts along an axis: a number of equal ones, or cut at indices."""
    whole = isinstance(indices_or_sections, int)
    attrs: dict[str, Any] = {"indices": [] if whole else [0, *indices_or_sections],
                             "sections": indices_or_sections if whole else 0}
    return invoke(OPS["_split_v2"], [ary], {**attrs, "axis": axis, "squeeze_axis": squeeze_axis}, hint="_split_v2")


NDArray.split_v2 = _Symbol.split_v2 = split_v2                       # type: ignore[attr-defined]


def histogram(a: Any, bins: Any = 10, range: Any = None) -> Any:  # noqa: A002  MXNet's name
    """How many elements fall into each of some bins, and the bins' edges. bins: a number of equal parts of ``range``
    (of min and max where none is given), or an array of edges."""
    if isinstance(bins, NDArray) or hasattr(bins, "entries"):
        return invoke(OPS["_histogram"], [a, bins], {}, hint="_histogram")
    if isinstance(bins, bool) or not isinstance(bins, (int, _np.integer)):
        raise ValueError(f"histogram: bins must be a number or an array of edges, got {bins!r:.60}")
    if range is None:
        if not isinstance(a, NDArray):
            raise ValueError("histogram of a Symbol needs a range (low, high)")
        counts, edges = _np.histogram(a.asnumpy(), bins=bins)
        return array(counts, a.context), array(edges, a.context)
    return invoke(OPS["_histogram"], [a], {"bin_cnt": bins, "range": range}, hint="_histogram")


def onehot_encode(indices: Any, out: Any) -> Any:
    """Write rows of zeros with a 1 where indices say into out (rows, columns)."""
    return invoke(OPS["_onehot_encode"], [indices, out], {}, out)


def _traced_array(source: Any, dtype: Any) -> Any:
    """array() of a traced value, or of a list of them, which are stacked as nested lists would be."""
    if isinstance(source, (list, tuple)):
        values = [v if hasattr(v, "entries") or isinstance(v, NDArray) else _np.asarray(v, _np.float32) for v in source]
        if len({tuple(v.shape) for v in values}) > 1:
            raise ShapeError(f"{user_location()}: array() of values of different shapes: "
                             f"{', '.join(str(tuple(v.shape)) for v in values)}")
        out = invoke(OPS["stack"], values, {"axis": 0}, hint="stack")
        return out.cast(dtype or "float32")
    return source.copy() if dtype is None else source.cast(dtype)


def _symbol_array(source_array: Any, ctx: Any = None, dtype: Any = None) -> Any:
    """A constant inside hybridized code, from a list, a NumPy array or numbers."""
    trace = tracing()
    if isinstance(source_array, NDArray) and trace is not None:
        source_array = captured(source_array)
    if hasattr(source_array, "entries") or isinstance(source_array,
                                                      (list, tuple)) and any(hasattr(v, "entries")
            for v in source_array):
        return _traced_array(source_array, dtype)
    if trace is None:
        raise TraceError(f"{user_location()}: array() has no Symbol that a model file could hold; inside a hybridized "
                         f"call it works, "
                         "for a Symbol use ones, zeros, full, or a constant parameter (self.params.get_constant)")
    old, SCOPE.traces = SCOPE.traces, []
    try:
        value = array(source_array, ctx if ctx is not None else trace.ctx, dtype)
    finally:
        SCOPE.traces = old
    trace.made[id(value)] = value
    return trace.capture(value)


def symbol_functions() -> dict[str, Any]:
    """The functions of this module that sym has too."""
    made = {f.__name__: symbolic(f) for f in (zeros, ones, full, empty, arange, linspace, eye)}
    made["array"] = _symbol_array
    return {**made, **{name: globals()[name] for name in TWO}, "concatenate": concatenate, "split_v2": split_v2,
            "histogram": histogram, "random": RandomSpace("sym")}


def attach_files(files: Any) -> None:
    """Put save, load and load_frombuffer here (the module of files comes after this one)."""
    globals().update(save=files.save, load=files.load, load_frombuffer=files.load_frombuffer)


random = RandomSpace("nd")

# MXNet's numbers of kinds of storage, of gradient requests and of dtypes, which programs take from
# mxnet.ndarray.ndarray
_STORAGE_TYPE_STR_TO_ID = {"undefined": -1, "default": 0, "row_sparse": 1, "csr": 2}
_STORAGE_TYPE_ID_TO_STR = {v: k for k, v in _STORAGE_TYPE_STR_TO_ID.items()}
_STORAGE_TYPE_UNDEFINED, _STORAGE_TYPE_DEFAULT, _STORAGE_TYPE_ROW_SPARSE, _STORAGE_TYPE_CSR = _STORAGE_TYPE_STR_TO_ID.values()  # noqa: E501
_GRAD_REQ_MAP = {"null": 0, "write": 1, "add": 3}
_DTYPE_NP_TO_MX: dict[Any, int] = {None: -1, **{d.type: code for d, code in dt.CODE_OF.items()}}
_DTYPE_MX_TO_NP = {v: k for k, v in _DTYPE_NP_TO_MX.items()}


@_with_hint
def __getattr__(name: str) -> Any:
    """Operators as functions; ``__all__`` for ``from mxnet.ndarray import *``."""
    if name == "__all__":
        return [n for n in __dir__() if not n.startswith("_")]
    if name.startswith("__"):
        raise AttributeError(name)
    return _kept(name, functions.resolve("nd", name))


_kept = functions.Kept(globals(), functions.registry.namespace("nd"))

# public names that are neither operators nor functions of this module
_FURTHER = ("CachedOp", "Context", "Custom", "NDArray", "NDArrayBase", "load", "load_frombuffer", "op", "random",
            "save", "sparse")
_HELPERS = ("attach_files", "made_here", "symbol_functions")


def __dir__() -> list[str]:
    own = {n for n, f in globals().items() if getattr(f, "__module__", "") == "hybrid.nd" and n not in _HELPERS}
    return sorted(n for n in {*own, *_FURTHER, *functions.listing("nd")} if not n.startswith("_"))


