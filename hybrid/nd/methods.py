"""Operators (+, <, []) and fluent methods of NDArray and Symbol, attached from one table each."""
from __future__ import annotations

import math
from typing import Any, Callable

import numpy as np

from . import copies, functions
from ..base import indexing, pending
from ..autograd import known_calls, traced_grad
from ..autograd.known_functions import known
from ..buffers.array import NDArray, wrap
from ..buffers.moving import copied
from ..autograd.dispatch import invoke
from ..base.device import on
from ..base.dtype import as_dtype, name as dtype_name
from ..base.errors import DeviceError
from ..ops.registry import OPS
from ..runtime import launcher
from ..base.scope import SCOPE
from ..graph.symbol import Symbol
from .traced_indexing import advanced_item, assign, basic_item, is_np, set_item, symbol_item, updated
from .views import _is_part, _matrix_transposed, expand_dims, flatten, reshape, squeeze, transpose
from .operators import _attach_operators, _snapshot, rewrite

# ---- brackets
# x[key] and x[key] = value in C (kernels/c/launcher_items.h): at most one function each, once the launcher is there
ITEM: list[Callable[[Any, Any], Any]] = []
PUT: list[Callable[[Any, Any, Any], Any]] = []


@known_calls.READY.append
def _items_in_c() -> None:
    """The launcher is there: brackets are done in C from now on."""
    ITEM[:], PUT[:] = [launcher.part("array_item")], [launcher.part("put_item")]


def array_item(self: NDArray, key: Any) -> Any:
    """Basic indices of one range of memory give views (copies on the tape while recording), others copies."""
    if ITEM and (found := ITEM[0](self, key)) is not None:
        return found
    if SCOPE.traces:
        return symbol_item(SCOPE.traces[-1].capture(self), key)
    if pending.WATCHED[0] and SCOPE.recording:
        return pending.LATER[0].method(self, "__getitem__", (key,), lambda: _item(self, key))
    return _item(self, key)


def _item(self: NDArray, key: Any) -> Any:
    if isinstance(key, Symbol):
        return invoke(OPS["take"], [self, key], {"axis": 0, "mode": "wrap"}, hint="take")
    if indexing.is_basic(key):
        if SCOPE.recording and self._ag is not None:
            part = basic_item(self, key)
            view = self._data[key]
            if part._ag is not None and part._ag.entry is not None and (
                    isinstance(view, np.generic) or view.flags.c_contiguous or _is_range(self, key)):
                _is_part(part, self, key)
            return part
        raw = self._data
        try:
            view = raw[key]
        except IndexError as err:
            raise IndexError(f"index {key!r} of an array of shape {self.shape}: {err}") from None
        if isinstance(view, np.generic) or not hasattr(view, "reshape"):     # one element, as an array of its memory
            view = raw[(*key, ...) if type(key) is tuple else (key, ...)]
        elif not view.flags.c_contiguous and not _is_range(self, key):
            view = copied(view, self._ctx)           # MXNet's views are ranges of memory; other parts are copies
        return wrap(view if view.ndim or is_np(self) else view.reshape(1), self._ctx, type(self))
    key = indexing.check_key(key, self.shape)
    if SCOPE.recording and self._ag is not None:
        return advanced_item(self, key)
    try:
        with on(self._ctx):
            raw = self._data[indexing.plain_key(key)]        # a number where the key is one element of a vector
        return wrap(np.asarray(raw) if isinstance(raw, np.generic) else raw, self._ctx, type(self))
    except (IndexError, ValueError) as err:
        raise IndexError(f"index of an array of shape {self.shape}: {err}") from None


def _is_range(self: NDArray, key: Any) -> bool:
    """Whether a basic index is one range of an array, in the order of its elements: where they lie in another (x.T
    shares memory), it is a view all the same."""
    if self._data.flags.c_contiguous or not self.size:
        return False
    strides = [math.prod(self.shape[a + 1:]) for a in range(self.ndim)]
    return np.lib.stride_tricks.as_strided(np.empty(1, np.int8), self.shape, strides)[key].flags.c_contiguous


# ---- fluent methods
FLUENT = ("abs arccos arccosh arcsin arcsinh arctan arctanh argmax argmin argmax_channel broadcast_like "
          "broadcast_axes broadcast_to cbrt ceil clip cos cosh "
          "degrees depth_to_space diag exp expand_dims expm1 fix flatten flip floor log log10 log1p log2 log_softmax "
          "max mean min nanprod nansum norm "
          "one_hot ones_like pad pick prod radians rcbrt reciprocal relu repeat reshape_like rint round rsqrt "
          "shape_array sigmoid sign sin sinh size_array "
          "slice slice_axis slice_like softmax softmin space_to_depth split split_v2 sqrt square squeeze sum swapaxes "
          "take tan tanh tile transpose "
          "trunc zeros_like sort argsort topk dot batch_dot cumsum").split()
NP_FLUENT = ("round argmax argmin argsort dot max mean min prod repeat std var sum take squeeze swapaxes all any").split()  # noqa: E501


def _method(name: str) -> Callable[..., Any]:
    of_np = name in NP_FLUENT

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs:
            for unset in ("dtype", "out"):                   # NumPy's functions pass them on: np.mean(x, axis=0)
                if unset in kwargs and kwargs[unset] is None:
                    del kwargs[unset]
        return functions.resolve("np" if of_np and is_np(self) else "nd", name)(self, *args, **kwargs)
    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"``nd.{name}`` of this array."
    return method


def _attach(cls: type) -> None:
    _attach_operators(cls)
    for name in FLUENT:
        if name not in cls.__dict__:
            setattr(cls, name, known(_method(name)) if cls is NDArray else _method(name))
    setattr(cls, "squeeze", squeeze)
    setattr(cls, "expand_dims", expand_dims)
    setattr(cls, "flatten", flatten)
    setattr(cls, "reshape", reshape)
    setattr(cls, "transpose", transpose)
    setattr(cls, "T", property(lambda self: functions.resolve("nd", "transpose")(self)))
    setattr(cls, "mT", property(_matrix_transposed))
    setattr(cls, "cast", lambda self, dtype: functions.resolve("nd", "cast")(self, dtype=dtype_name(as_dtype(dtype))))
    for name in ("all", "any", "std", "var"):
        method = (lambda n: lambda self, *a, **k: functions.resolve("np", n)(self, *a, **k))(name)
        setattr(cls, name, known(method) if cls is NDArray else method)


def _backward(self: Any, out_grad: Any = None, retain_graph: bool = False, train_mode: bool = True) -> None:
    """Gradients of this array into the arrays with ``attach_grad``."""
    BACKWARD[0](self, out_grad, retain_graph, train_mode)


BACKWARD: list[Any] = []
for _cls in (NDArray, Symbol):
    _attach(_cls)


def _symbol_astype(self: Symbol, dtype: Any, copy: bool = True, **_: Any) -> Symbol:
    """Another dtype; itself when copy is False and nothing changes."""
    return (self if not copy and self.dtype is not None and np.dtype(self.dtype) == as_dtype(dtype)
            else self.cast(dtype))    # type: ignore[attr-defined]


def _symbol_tostype(self: Symbol, stype: str) -> Symbol:
    """A copy, in traced code; of a graph the value itself. Everything in both is dense: other storage types are an
    error."""
    if stype != "default":
        return functions.resolve("nd", "sparse.convert")(self, stype)
    return self.copy() if SCOPE.traces else self             # type: ignore[attr-defined]


Symbol.tostype = _symbol_tostype                                     # type: ignore[attr-defined]
Symbol.astype = _symbol_astype                                       # type: ignore[attr-defined]
Symbol.copyto = copies.symbol_copyto                                 # type: ignore[attr-defined]
Symbol.copy = lambda self, order="C": invoke(OPS["_copy"], [self], {}, hint="_copy")      # type: ignore[attr-defined]
Symbol.__getitem__ = symbol_item                                     # type: ignore[attr-defined]
Symbol.__setitem__ = set_item                                        # type: ignore[attr-defined]


def _symbol_under(rules_of_np: bool) -> Any:
    def converted(self: Symbol) -> Symbol:
        """The value itself. In traced code what follows goes by NumPy's rules, or again by those of nd, and so do the
        results."""
        if SCOPE.traces:
            SCOPE.traces[-1].follow(rules_of_np)
        return self
    return converted


Symbol.as_nd_ndarray, Symbol.as_np_ndarray = map(_symbol_under, (False, True))      # type: ignore[attr-defined]
NDArray.copy, NDArray.copyto = copies.copy, copies.copyto            # type: ignore[method-assign]
NDArray.__getitem__ = array_item                                     # type: ignore[attr-defined]
NDArray._at = array_item                                             # type: ignore[attr-defined]
NDArray._slice = lambda self, start, stop: self[start:stop]          # type: ignore[attr-defined]
NDArray.__iter__ = lambda self: (self[i] for i in range(len(self)))  # type: ignore[attr-defined]
_plain_setitem = NDArray.__setitem__


def _array_setitem(self: NDArray, key: Any, value: Any) -> None:
    """x[key] = value; inside a trace the array is captured and written back after the call, while recording it goes on
    the tape."""
    if pending.WATCHED[0] and not SCOPE.traces and not SCOPE.recording:
        pending.LATER[0].assign(self, key, value, lambda: _put_item(self, key, value))
    else:
        _put_item(self, key, value)


def _put_item(self: NDArray, key: Any, value: Any) -> None:
    if PUT and not pending.PUT_OFF[0] and PUT[0](self, key, value):
        self._bump()
        return
    if SCOPE.traces:
        set_item(SCOPE.traces[-1].capture(self), key, value)
        return
    tracked = isinstance(value, NDArray) and value._ag is not None
    if SCOPE.recording and (tracked or self._ag is not None):
        if isinstance(value, NDArray) and value._ctx != self._ctx:
            raise DeviceError(f"the value is on {value._ctx}, the array on {self._ctx}")
        rewrite(self, updated(_snapshot(self), key, value))
    else:
        _plain_setitem(self, key, value)


NDArray.__setitem__ = _array_setitem                                 # type: ignore[method-assign]
NDArray.backward = Symbol.backward = _backward                       # type: ignore[attr-defined]
Symbol.attach_grad = traced_grad.attach_grad                         # type: ignore[attr-defined]
Symbol.grad = property(traced_grad.collected)                        # type: ignore[attr-defined]


def _slice_assign(self: NDArray, rhs: Any, begin: Any, end: Any, step: Any = None) -> Any:
    """Put rhs into the range from begin to end (see ``slice``); returns the array."""
    _put(self, invoke(OPS["_slice_assign"], [self, rhs], {"begin": begin, "end": end, "step": step or ()}))
    return self


def _slice_assign_scalar(self: NDArray, value: Any, begin: Any, end: Any, step: Any = None) -> Any:
    """Put a number into every place from begin to end (see ``slice``); returns the array."""
    _put(self, invoke(OPS["_slice_assign_scalar"], [self],
                      {"scalar": value, "begin": begin, "end": end, "step": step or ()}))
    return self


def _put(self: Any, new: Any) -> None:
    if isinstance(self, Symbol):
        assign(self, new)
    elif SCOPE.recording and new._ag is not None:
        rewrite(self, new)
    else:
        self._write(new._data)


for _cls in (NDArray, Symbol):
    setattr(_cls, "slice_assign", _slice_assign)
    setattr(_cls, "slice_assign_scalar", _slice_assign_scalar)
