"""A parameter's arrays, one for each device."""
from __future__ import annotations

from collections import OrderedDict
from typing import Any, Iterable, Iterator

from ..base import pending
from ..buffers.array import REBINDS, NDArray
from ..base.device import Context

VERSION = [0]                        # grows whenever any parameter gets other arrays or another gradient rule


class PerDevice(OrderedDict[Context, NDArray]):
    """Arrays by device. Programs put others in their places, as ``param._data[i] = x`` (a sampled weight): compiled
    code hears of it. first: the only array, where it is known to be the only one."""
    first: NDArray | None = None

    def __setitem__(self, ctx: Context, x: NDArray) -> None:
        pending.settle_for("a parameter got another array", self.values())
        super().__setitem__(ctx, x)
        self.first = x if len(self) == 1 else None
        VERSION[0] += 1
        REBINDS[0] += 1

    def places(self) -> list[list[Any]]:
        """MXNet's ``_ctx_map``: ``_data[_ctx_map[ctx.device_typeid & 1][ctx.device_id]]`` is the array of a device;
        None where there is none."""
        out: list[list[Any]] = [[], []]
        for ctx in self:
            row = out[ctx.device_typeid & 1]
            row += [None] * (ctx.device_id + 1 - len(row))
            row[ctx.device_id] = ctx
        return out


def arrays_of(parameters: Iterable[Any]) -> Iterator[NDArray]:
    """The arrays of parameters that have any, on all devices."""
    return (x for p in parameters for x in (p._data or {}).values())
