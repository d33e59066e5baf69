"""Buffers of arrays that are evicted because packed values hold the same numbers, and made again when somebody asks
for them. So are those of gradients that nobody computed yet.

A program that packed a parameter does not read its plain buffer any more. Where nobody else holds that buffer, it is
let go:
the array's slot ``_data`` is empty then, and a ``StandIn`` knows the packed value and the way back. Whoever reads the
slot comes to ``back`` (``NDArray.__getattr__``), which fills it again. No write is ever lost: a buffer is taken out of
its slot first, and only then looked at: whoever read it before holds a reference that is seen, whoever comes later
waits.
"""
from __future__ import annotations

import contextlib
import math
import sys
from typing import TYPE_CHECKING, Any, Sequence

import numpy as np

from ..base import forking
from . import derived
from ..base.device import cpu, zeros
from ..base.dtype import as_dtype
from ..base.other_names import ARRAYS, MissingNameError, public
from .promise import Promise

if TYPE_CHECKING:
    from .methods import NDArrayMethods           # what nd/methods.py attaches: a stub file alone
else:
    NDArrayMethods = object

LEAST = 1 << 16                    # bytes of a buffer that is worth it
MOST_TIMES = 2                     # an array whose buffer was asked for so often keeps it
LOCK = forking.lock(again=True)    # held while buffers go and come back
EVICTED = [False]                 # whether a buffer was ever evicted in this process
REBINDS = [0]                      # grows whenever an array gets another buffer; compiled programs keep addresses
MOVES = [0]                        # grows with REBINDS where a buffer goes or comes back, under LOCK
# from a packed value to a plain one: (slice, ((first, size), ...)), (permute, axes), (reshape, shape), (cast, dtype's
# name)
Steps = Sequence[tuple[str, Any]]


class StandIn:
    """What an array's buffer is made of again; ``times``: how often it was evicted."""
    __slots__ = ("shape", "dtype", "raw", "packed", "steps", "tokens", "times")

    def __init__(self, raw: np.ndarray | None, shape: tuple[int, ...], dtype: np.dtype, times: int = 0):
        self.shape, self.dtype, self.times = shape, dtype, times
        self.raw = raw                                       # until the packed value is there
        self.packed: np.ndarray | None = None
        self.steps: Steps = ()
        self.tokens: list[derived.Token] = []

    @property
    def nbytes(self) -> int:
        """Bytes of the buffer."""
        return math.prod(self.shape) * self.dtype.itemsize

    def make(self) -> np.ndarray:
        """The buffer, in new memory."""
        if self.packed is None:
            assert self.raw is not None
            return self.raw
        return np.array(unpacked(self.packed, self.steps),
                        order="C") if self.packed.ndim else zeros(self.shape, self.dtype, cpu())


class Held(NDArrayMethods):
    """What has a buffer, which may be evicted: shape and dtype are known without it."""
    __slots__ = ("_data", "_away")
    _data: Any

    if TYPE_CHECKING:
        _away: Any
    else:
        def __getattr__(self, name: str) -> Any:
            """What is not there: a buffer that was evicted is made again; ``_away``, what stands for it, is None until
            the first time."""
            if name == "_away":
                return None
            if name == "_data":
                return back(self)
            if name == "_ag":
                with LOCK:
                    fulfil(self)
                    with contextlib.suppress(AttributeError):
                        return object.__getattribute__(self, name)
            text = f"'{type(self).__name__}' object has no attribute '{name}'"
            if name.startswith("_"):
                raise AttributeError(text)
            numpys = f"x.asnumpy().{name}" if hasattr(np.ndarray, name) else None
            raise MissingNameError(text, name, ARRAYS.get(name, numpys), lambda: public(dir(self)))

    @property
    def _whole(self) -> Any:
        """The key of all elements."""
        return slice(None) if self.shape else Ellipsis

    @property
    def _spec(self) -> Any:
        """What has the buffer's shape and dtype: itself, or what stands for it."""
        try:
            return object.__getattribute__(self, "_data")
        except AttributeError:
            return of(self) or self._data

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        return (self._spec if EVICTED[0] else self._data).shape         # type: ignore[no-any-return]

    @property
    def dtype(self) -> Any:
        """Element type, as a NumPy type (``numpy.float32``)."""
        return (self._spec if EVICTED[0] else self._data).dtype.type

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(self._data.size) if not EVICTED[0] else math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self._spec.dtype.itemsize                     # type: ignore[no-any-return]


def unpacked(packed: np.ndarray, steps: Steps) -> np.ndarray:
    """What a way back leads to."""
    out = packed
    for kind, how in steps:
        if kind == "slice":
            out = out[tuple(slice(first, first + size) for first, size in how)]
        elif kind == "cast":
            out = out.astype(as_dtype(how))
        else:
            out = out.transpose(how) if kind == "permute" else out.reshape(how)
    return out


def of(x: Any) -> StandIn | None:
    """What stands for an array's buffer now, or None where the buffer is there."""
    record = x._away
    return record if record is not None and record.packed is not None else None


def fulfil(x: Any) -> None:
    """Where an array's contents are put off, have them computed. Under ``LOCK`` by who needs them: another thread may
    put them off again."""
    record = x._away
    if type(record) is Promise:
        record.fulfil()


def _moved() -> None:
    REBINDS[0] += 1
    MOVES[0] += 1


def back(x: Any) -> np.ndarray:
    """An array's buffer, made again if it was evicted. AttributeError for an array that never had one."""
    with LOCK:
        fulfil(x)
        with contextlib.suppress(AttributeError):
            return object.__getattribute__(x, "_data")       # another thread was first
        record = x._away
        if record is None or record.raw is None and record.packed is None:
            raise AttributeError(f"'{type(x).__name__}' object has no attribute '_data'")
        x._data = raw = record.make()
        if record.packed is not None:
            derived.cover(record.tokens, raw)
            _moved()
        record.raw = record.packed = None
        record.steps, record.tokens = (), []
        return raw


def read(x: Any) -> np.ndarray | None:
    """A new buffer with the contents of an array whose own was evicted, which stays so; None where it is there."""
    if not EVICTED[0]:
        return None
    with LOCK:
        fulfil(x)
        record = of(x)
        return record.make() if record is not None else None


def replace(x: Any, raw: Any) -> None:
    """Give an array another buffer: what was computed from the one it had is stale."""
    with LOCK:
        fulfil(x)
        record = of(x)
        if record is not None:
            for token in record.tokens:
                token.stale = True
            record.packed, record.tokens = None, []
        elif derived.TOKENS:
            derived.written(x._data)
        x._data = raw


def blank(x: Any, shape: tuple[int, ...], dtype: np.dtype) -> None:
    """A new array, without a buffer so far, is zeros of the CPU; it gets memory when somebody asks for it."""
    record = StandIn(None, shape, dtype)
    record.packed = np.zeros((), dtype)
    x._away = record
    EVICTED[0] = True


# ---- letting go
def _held_by(record: StandIn) -> tuple[int, int]:
    """References to a buffer and to the memory below it, as seen from here."""
    raw = record.raw
    base = raw.base if raw is not None else None
    return sys.getrefcount(raw), sys.getrefcount(base) if base is not None else 0


# what it is for a buffer that nobody else knows
_ALONE = _held_by(StandIn(np.empty(4)[1:], (), np.dtype(float)))
_ALONE_WHOLE = _held_by(StandIn(np.empty(4), (), np.dtype(float)))


def _alone(record: StandIn) -> bool:
    raw = record.raw
    base = raw.base if raw is not None else None
    if base is None:
        del base
        found = raw is not None and raw.flags.owndata
        del raw
        return found and _held_by(record) == _ALONE_WHOLE
    found = type(base) is np.ndarray and base.base is None and base.flags.owndata
    del raw, base
    return found and _held_by(record) == _ALONE


def may_go(x: Any) -> bool:
    """Whether an array's buffer, which is there, is large enough, seldom asked for, and not trained: nothing was ever
    written to its gradient."""
    if not hasattr(x, "_away") or x._data.nbytes < LEAST or type(x._data) is not np.ndarray:
        return False
    slot, record = x._ag, x._away
    if record is not None and record.times >= MOST_TIMES:
        return False
    return slot is None or (slot.entry is None and not slot.fresh and not slot.lost and slot.grad is not None
                            and not slot.grad._version)


def take(x: Any) -> bool:
    """Take an array's buffer out of its slot, if nobody else holds it. Under ``LOCK``; ``settle`` or ``back`` ends
    it."""
    old = x._away
    record = StandIn(x._data, x._data.shape, x._data.dtype, old.times if old is not None else 0)
    x._away = record
    del x._data
    if _alone(record):
        return True
    back(x)
    return False


def settle(x: Any, packed: np.ndarray, steps: Steps) -> bool:
    """A taken buffer is evicted: the packed value stands for it from now on. Whether that is so."""
    record: StandIn = x._away
    raw = record.raw
    if raw is None:                                          # a finalizer of this thread asked for it meanwhile
        return False
    record.tokens = derived.leave(raw)
    record.packed, record.steps, record.times = packed, steps, record.times + 1
    record.raw = None
    EVICTED[0] = True
    _moved()
    return True
