"""NDArray: an array on a device. Operators and methods are attached in methods.py, from the registry."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import dtype as dt, pending
from . import evict
from ..base.device import Context, array_module, check_dtype, current_context, find_cupy, on, zeros
from ..base.errors import DeviceError, DTypeError, HybridError, ShapeError, user_location
from ..base.indexing import check_key, plain_key
from ..base.scope import SCOPE, NumbersNeeded
from .evict import EVICTED, REBINDS
from .foreign import capsule_of
from .moving import assignable, cast, copied, from_gpu, from_python, move, put
from .tape import Slot, collect, idle_gradient
from .derived import TOKENS, shared, written
from .writes import note

if TYPE_CHECKING:
    from typing_extensions import Self

# what is in the slot of an array's buffer; AttributeError where it is empty
_BUFFER = evict.Held.__dict__["_data"].__get__


class NDArray(evict.Held):
    """An array of numbers on a device, with MXNet's methods.

    ``shape``, ``dtype`` (a NumPy type), ``ctx``. ``nd.array``, ``nd.zeros``, … make one; ``asnumpy()`` copies it out.

    >>> from hybrid import nd
    >>> nd.array([[1, 2], [3, 4]]).sum().asscalar()
    10.0
    """
    __slots__ = ("_ctx", "_ag", "_version", "__weakref__")
    __array_priority__ = 1000.0
    stype = "default"
    np_semantics = False
    _ctx: Context
    _ag: Slot | None

    def __init__(self, data: Any, ctx: Context | None = None, dtype: Any = None):
        source = array(data, ctx, dtype)
        self._data, self._ctx, self._ag, self._version = source._data, source._ctx, None, 0

    # ---- what it is
    @property
    def ctx(self) -> Context:
        """The device it is on."""
        return self._ctx

    context = ctx
    device = ctx

    @property
    def grad(self) -> Self | Any:
        """The gradient that ``backward`` wrote; None where none is kept."""
        if self._ag is None or self._ag.grad is None:
            return idle_gradient(self)
        if self._ag.lost:
            raise HybridError(f"{user_location()}: this gradient was used up inside a compiled step and never written "
                              "to memory: return it from the step (x.grad or p.grad() inside the hybridized function), "
                              "or call the step without hybridize")
        return self._ag.grad

    @property
    def _fresh_grad(self) -> bool:
        """Whether ``backward`` wrote the gradient since this was set to False; programs for MXNet read and set it."""
        pending.settle_for("whether a gradient is new was asked", (self,))
        return self._ag is not None and self._ag.fresh

    @_fresh_grad.setter
    def _fresh_grad(self, fresh: bool) -> None:
        pending.settle_for("a gradient was said to be new, or not to be", (self,))
        if self._ag is not None:
            self._ag.fresh = bool(fresh)

    @property
    def writable(self) -> bool:
        """Whether it may be written: always."""
        return True

    @property
    def handle(self) -> Any:
        """The raw NumPy or CuPy array."""
        return self._exposed()

    # ---- memory
    def _rebind(self, raw: Any) -> None:
        """Another buffer; what was computed from the old one stays right. The only way ``_data`` changes."""
        evict.replace(self, raw)
        REBINDS[0] += 1

    def _bump(self) -> None:
        """Note that the contents changed."""
        self._version += 1
        note(self._data)
        if TOKENS and written(self._data):
            REBINDS[0] += 1

    def _exposed(self) -> Any:
        """The raw array, for others that may write it unseen."""
        pending.settle_for("memory was given to other code")
        raw = self._data
        pending.before_write(raw)
        if shared(raw):
            REBINDS[0] += 1
        return raw

    def _write(self, value: Any) -> None:
        """New contents in the same buffer."""
        # held until the write is noted: who gives buffers up sees that
        raw = self._data
        if pending.PUT_OFF[0]:
            pending.before_write(raw)
        put(raw, ..., value, self._ctx)
        self._bump()

    # ---- out of here
    def asnumpy(self) -> np.ndarray:
        """A NumPy copy."""
        if SCOPE.traces:
            SCOPE.traces[-1].read(self)
        return self._numpy()

    def _numpy(self) -> np.ndarray:
        pending.before_read(self)
        try:
            raw = _BUFFER(self, type(self))                  # most are there
        except AttributeError:
            if (made := evict.read(self)) is not None:
                return made
            raw = self._data
        return np.array(raw) if isinstance(raw, np.ndarray) else from_gpu(raw)

    def asscalar(self) -> Any:
        """The only element, as a NumPy number."""
        if self.size != 1:
            raise ValueError(f"asscalar needs an array of one element, this one has shape {self.shape}")
        return self.asnumpy().reshape(-1)[0]

    def item(self, *args: Any) -> Any:
        """An element as a Python number."""
        return self.asnumpy().item(*args)

    def tolist(self) -> Any:
        """Nested lists of Python numbers."""
        return self.asnumpy().tolist()

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        if SCOPE.numbers_refused:
            raise NumbersNeeded
        out = self.asnumpy()
        return out.astype(dtype) if dtype is not None and out.dtype != dtype else out

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """A copy, as NumPy's array interface describes it; ``__dlpack__`` shares the memory itself."""
        if self._data.dtype.kind == "V":                         # bfloat16 has no letter there
            raise AttributeError(f"an array of {self._data.dtype} has no __array_interface__")
        copied = np.asarray(self.__array__(), order="C")         # of other layouts, NumPy takes no "data"
        return {"version": 3, "shape": copied.shape, "typestr": copied.dtype.str, "strides": copied.strides,
                "data": copied}

    def tobytes(self, order: Any = "C") -> bytes:
        """The numbers as bytes, in order."""
        return self.asnumpy().tobytes(order)

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None,
                   copy: Any = None) -> Any:
        given = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
        return capsule_of(self._exposed(), {k: v for k, v in given.items() if v is not None})

    def __dlpack_device__(self) -> Any:
        return self._data.__dlpack_device__()

    @property
    def __cuda_array_interface__(self) -> Any:
        if isinstance(self._data, np.ndarray):
            raise AttributeError("an array on the CPU has no __cuda_array_interface__")
        return self._exposed().__cuda_array_interface__

    def to_dlpack_for_read(self) -> Any:
        """A DLPack capsule of this memory."""
        return capsule_of(self._exposed(), {})

    to_dlpack_for_write = to_dlpack_for_read

    def __bool__(self) -> bool:
        if self.size > 1:
            raise ValueError(f"the truth of an array of {self.size} elements (shape {self.shape}) is not defined: use "
                             f".any() or compare with asscalar()")
        return bool(self.size and self.asscalar())

    def __float__(self) -> float:
        return float(self._single())

    def __int__(self) -> int:
        return int(self._single())

    def __index__(self) -> int:
        if self.size == 1 and self._data.dtype.kind in "iu":
            return int(self.asscalar())
        raise TypeError("only integer arrays of one element can be used as an index")

    def _single(self) -> Any:
        if self.size != 1:
            raise TypeError(f"only arrays of one element can be converted to a number, this one has shape {self.shape}")
        return self.asscalar()

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("an array without axes has no length")
        return self.shape[0]

    def __hash__(self) -> int:
        return id(self)

    def __getstate__(self) -> Any:
        return self.asnumpy(), self._ctx.device_type, self._ctx.device_id

    def __setstate__(self, state: Any) -> None:
        raw, kind, number = state if isinstance(state, tuple) else RECORDS[0](state, type(self)).__getstate__()
        source = array(raw, Context(kind, number), raw.dtype)
        self._data, self._ctx, self._ag, self._version = source._data, source._ctx, None, 0

    def __reduce__(self) -> Any:
        return _unpickle, (type(self), self.__getstate__())

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.shape))
        return f"\n{self._numpy()!s}\n<{type(self).__name__} {shape} @{self._ctx}>"

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Self:
        return self.copy()

    def __setitem__(self, key: Any, value: Any) -> None:
        raw = value._data if isinstance(value, NDArray) else value
        if isinstance(value, NDArray) and value._ctx != self._ctx:
            raw = move(raw, self._ctx, False)
        raw = assignable(key, raw)
        own = self._data                                     # held until the write is noted
        if pending.PUT_OFF[0]:
            pending.before_write(own)
        key = check_key(key, self.shape)
        try:
            put(own, plain_key(key), raw, self._ctx)
        except (ValueError, TypeError, IndexError) as err:
            kind = IndexError if isinstance(err, IndexError) else ShapeError
            raise kind(f"assignment to an array of shape {self.shape}: {err}") from None
        self._bump()

    # ---- copies
    def copy(self) -> Self:
        """A copy on the same device."""
        made = evict.read(self) if EVICTED[0] else None
        return wrap(copied(self._data, self._ctx) if made is None else made, self._ctx, type(self))

    def copyto(self, other: Any) -> Any:
        """Copy into another array, or onto a device."""
        if isinstance(other, Context):
            return wrap(move(self._data, other, True), other, type(self))
        if not isinstance(other, NDArray):
            raise TypeError(f"copyto takes an array or a device such as cpu(), got {other!r:.60}")
        if other.shape != self.shape:
            raise ShapeError(f"copyto: the target has shape {other.shape}, this array {self.shape}")
        other._write(move(self._data, other._ctx, False))
        return other

    def as_in_context(self, context: Context) -> Self:
        """This array if it is on the device, else a copy there."""
        if not isinstance(context, Context):
            raise TypeError(f"as_in_context takes a device such as cpu() or gpu(0), got {context!r:.60}")
        return self if context == self._ctx else self.copyto(context)

    as_in_ctx = as_in_context
    to_device = as_in_context

    def astype(self, dtype: Any, copy: bool = True, **_: Any) -> Self:
        """A copy in another dtype (itself when copy is False and nothing changes)."""
        wanted = dt.as_dtype(dtype)
        if not copy and wanted == self._data.dtype:
            return self
        return self.cast(wanted)                # type: ignore[attr-defined]

    def tostype(self, stype: str) -> Any:
        """A copy with another storage: 'default' (dense), 'csr' or 'row_sparse' (see ``nd.sparse``)."""
        return self.copy() if stype == self.stype else CONVERT[0](self, stype)

    def as_nd_ndarray(self) -> NDArray:
        """The same memory as an ``nd.NDArray``."""
        return self if type(self) is NDArray else wrap(self._data, self._ctx, NDArray, self)

    def wait_to_read(self) -> None:
        """Wait until the array has been computed."""
        if not isinstance(self._data, np.ndarray):
            with on(self._ctx):
                find_cupy().cuda.get_current_stream().synchronize()      # type: ignore[union-attr]

    wait_to_write = wait_to_read

    # ---- gradients
    def attach_grad(self, grad_req: str = "write", stype: Any = None) -> None:
        """Collect gradients here: write, add or null. stype: the gradient's storage type, this array's unless given."""
        if grad_req not in ("write", "add", "null"):
            raise HybridError(f"grad_req must be write, add or null, got {grad_req!r}")
        collect(self, zeros_like(self, stype or self.stype), grad_req)

    def detach(self) -> Self:
        """The same memory outside of the recorded computation."""
        if pending.WATCHED[0] and SCOPE.recording:
            return pending.LATER[0].method(self, "detach", (), lambda: wrap(self._data, self._ctx, type(self)))
        return wrap(self._data, self._ctx, type(self))

    def zero_grad(self) -> None:
        """Set the gradient to zero."""
        if self._ag is not None and (grad := self._ag.grad) is not None:
            grad._write(0) if SCOPE.traces else grad.__setitem__(grad._whole, 0)
            self._ag.lost = False


def _unpickle(cls: type, state: Any) -> Any:
    out: Any = object.__new__(cls)
    out.__setstate__(state)
    return out


NP_CLASS: list[type] = []           # hybrid.np.ndarray, put here when it is made
ZEROS: list[Any] = []               # what makes zeros of a storage type, put here by functions.py
RECORDS: list[Any] = []             # what reads the state in one of MXNet's pickles, put here by hybrid.serialize
CONVERT: list[Any] = []             # what changes the storage type of an array, put here by functions.py


def wrap(raw: Any, ctx: Context, cls: Any = None, like: Any = None) -> Any:
    """An array object over a raw one, without a copy."""
    out = object.__new__(cls or NDArray)
    out._data, out._ctx = raw, ctx
    out._ag = like._ag if like is not None else None
    out._version = 0
    return out


def blank(x: NDArray) -> Any:
    """Zeros in x's shape, dtype, device and class, which take memory when somebody looks."""
    if x._ctx.device_type == "gpu":
        return full_like(x, 0)
    out = wrap(None, x._ctx, type(x))
    del out._data
    evict.blank(out, x.shape, x._spec.dtype)
    return out


def zeros_like(x: NDArray, stype: str) -> Any:
    """Zeros in x's shape, dtype and device, and of a storage type."""
    if stype != "default":
        return ZEROS[0](stype, x.shape, x._ctx, x.dtype)
    return blank(x) if x.stype == "default" else wrap(zeros(x.shape, x.dtype, x._ctx), x._ctx)


def full_like(x: NDArray, value: Any) -> Any:
    """An array of one value in x's shape, dtype, device and class; of zeros also in its storage type."""
    if x.stype != "default" and value == 0:
        return zeros_like(x, x.stype)
    xp = array_module(x._ctx)
    with on(x._ctx):
        return wrap(xp.full(x.shape, value, x._spec.dtype), x._ctx, type(x))


def array(source: Any, ctx: Context | None = None, dtype: Any = None, cls: Any = None) -> Any:
    """An array from numbers, nested lists, NumPy, CuPy or DLPack arrays.

    dtype: that of ``source`` if it is an array (float64 stays; NumPy's default for Python numbers is float32 here).
    """
    ctx = current_context() if ctx is None else ctx
    if not isinstance(ctx, Context):
        raise DeviceError(f"ctx must be a device such as cpu() or gpu(0), got {ctx!r}")
    if isinstance(source, NDArray):
        if SCOPE.traces:
            SCOPE.traces[-1].read(source)
        raw = source._data
        wanted = dt.as_dtype(dtype, raw.dtype)
    elif hasattr(source, "__cuda_array_interface__") or isinstance(source, (np.ndarray, np.generic)):
        raw = source if hasattr(source, "__cuda_array_interface__") else np.asarray(source)
        wanted = dt.as_dtype(dtype, raw.dtype)
    else:
        raw, wanted = from_python(source, dtype)
    if wanted not in dt.SUPPORTED:
        raise DTypeError(f"dtype {wanted} is not supported; known: {', '.join(map(dt.name, dt.SUPPORTED))}")
    if ctx.device_type == "gpu":
        check_dtype(wanted, ctx)
        if isinstance(raw, np.ndarray):                      # no kernel of the GPU does it
            raw = raw.astype(wanted, copy=False)
    moved = move(raw, ctx, True)
    return wrap(moved if moved.dtype == wanted else cast(moved, wanted, ctx), ctx, cls or NDArray)
