"""The arrays among a call's arguments, those of NumPy and other libraries taken in: they are inputs of the program,
never constants, and what the code writes into them reaches their owner."""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ..base.names import module_of
from ..base import dtype as dt
from ..base.device import current_context
from ..base.errors import DTypeError, TraceError, user_location
from ..base.scope import SCOPE
from ..buffers.array import NDArray, array, wrap
from ..buffers.foreign import as_numpy


def dense(x: NDArray, what: str) -> NDArray:
    """The array itself; TraceError where its storage is sparse."""
    if x.stype != "default":
        raise TraceError(f"{user_location()}: {what} was given a {x.stype} array, and compiled programs compute with "
                         f"dense ones: pass x.tostype('default'), "
                         "or call this block or function without hybridize")
    return x


def repeats_in(arrays: Sequence[NDArray]) -> Any:
    """Where one array object is given more than once (a change through one is seen through the other), else None."""
    ids = [id(a) for a in arrays]
    return tuple(map(ids.index, ids)) if len(set(ids)) < len(ids) else None


class Taken:
    """The arrays of one call. One object given twice is one array."""

    def __init__(self, leaves: Sequence[Any], name: str):
        self._name, self._leaves = name, leaves
        self._raw: dict[int, np.ndarray] = {}            # by number, the memory of those that are not ours
        self._context: Any = None
        known: dict[int, NDArray] = {}
        self.arrays: list[NDArray] = []
        for i, x in enumerate(leaves):
            if isinstance(x, NDArray):
                self.arrays.append(dense(x, name))
            else:
                if id(x) not in known:
                    known[id(x)] = self._taken(i, x)
                self.arrays.append(known[id(x)])

    def _taken(self, i: int, x: Any) -> NDArray:
        """An array that shares the memory of another library's, where it may be written and no gradient needs it as it
        is now; else a copy."""
        if self._context is None:
            self._context = next((o._ctx for o in self._leaves if isinstance(o, NDArray)), current_context())
        raw = self._raw[i] = np.asarray(x) if isinstance(x, np.ndarray) else self._numpy(x)
        shares = (raw.flags.writeable and not SCOPE.recording and self._context.device_type != "gpu"
                  and raw.dtype in dt.SUPPORTED and raw.dtype.isnative)
        if shares:
            return wrap(raw, self._context)
        try:
            return array(raw, self._context)                     # type: ignore[no-any-return]
        except DTypeError as err:
            raise DTypeError(f"{user_location()}: {self._name} was given {_described(x)}: {err}") from None

    def _numpy(self, x: Any) -> np.ndarray:
        try:
            return as_numpy(x)
        except Exception as err:  # noqa: BLE001  what another library raises
            way = ("gradients do not cross libraries: give x.detach()" if getattr(x, "requires_grad", False) is True
                   else "give nd.array of its numbers")
            raise TraceError(f"{user_location()}: {_described(x)} cannot be converted to an array ({err}); "
                             f"{way}") from err

    def refuse_read_only(self, numbers: Sequence[int]) -> None:
        """TraceError where the code writes into an array of another library that cannot be written. numbers: of the
        arguments that it writes."""
        for i in numbers:
            if i in self._raw and not self._raw[i].flags.writeable:
                raise TraceError(f"{user_location()}: {self._name} writes into {_described(self._leaves[i])}, which "
                                 f"can only be read: give nd.array(x), and use that")

    def written(self, numbers: Sequence[int], out: Any) -> Any:
        """The results of a call. What it wrote into copies is written into the arrays that they were made of."""
        for i in numbers:
            if i in self._raw and self._raw[i] is not self.arrays[i]._data:
                self._raw[i][...] = self.arrays[i].asnumpy()
        return out


def _described(x: Any) -> str:
    kind = type(x)
    return f"a {module_of(kind)}.{kind.__name__}"
