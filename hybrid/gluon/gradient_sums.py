"""Gradients of several devices and processes, added up."""
from __future__ import annotations

from typing import Any, Sequence

from ..base.device import Context, array_module, on
from ..buffers.array import NDArray, wrap
from ..collective import nccl
from ..mxnet.nccl_kvstore import summable
from .parameter import Parameter


class GradientSums:
    """The sums of a Trainer's gradients over its devices and processes.

    totals: the sum by number of the parameter, on the first device. contexts: the devices. ranks: how gradients go over
    several processes, or None. kind: of the store; "nccl" sums on GPUs.
    """

    def __init__(self, params: Sequence[Parameter], contexts: Sequence[Context], ranks: Any, kind: Any):
        self.params, self.contexts, self.ranks, self.kind = params, contexts, ranks, kind
        self.totals: dict[int, NDArray] = {}

    def first_values(self, optimizer: Any) -> None:
        """The first device's values, of rank 0, on all devices and ranks, which must have the same parameters."""
        if self.ranks is not None:
            self.ranks.same_parameters(self.params, optimizer)
        for p in self.params:
            first, *others = p._data.values() if p._data is not None and p.stype == "default" else [None]
            if self.ranks is not None and first is not None:
                self.ranks.first_value(p.name, first)
            for x in others:
                first.copyto(x)                             # type: ignore[union-attr]

    def add(self, numbers: Sequence[int], spread: bool) -> None:
        """Add up the gradients of these parameters. spread: the sums become the gradients on every device."""
        grads = {i: self.params[i].list_grad() for i in numbers}
        dense = {i: given for i, given in grads.items() if given[0].stype == "default"}
        for i, given in grads.items():
            if i not in dense:
                self._add_rows(i, given, spread)
        if self.ranks is not None:
            self.totals.update(self.ranks.gradients(dense))
        elif self.kind == "nccl" and summable([g for given in list(dense.values())[:1] for g in given]):
            nccl.reduce([([g._data for g in given], self._total(i, given[0])) for i, given in dense.items()],
                        self.contexts)
        else:
            for i, given in dense.items():
                self._add_here(i, given)
        if spread:
            for i, given in dense.items():
                for g in given:
                    self.totals[i].copyto(g)

    def _add_here(self, i: int, grads: Sequence[Any]) -> None:
        """Add up the gradients of this process's devices."""
        first = grads[0]
        total = self._total(i, first)
        with on(first._ctx):
            total[...] = first._data
            for g in grads[1:]:
                total += g.as_in_context(first._ctx)._data

    def _total(self, i: int, first: Any) -> Any:
        """Where a parameter's gradients are added up: on the first device."""
        if (i not in self.totals or self.totals[i]._data.shape != first._data.shape
            or self.totals[i]._data.dtype != first._data.dtype):
            with on(first._ctx):
                self.totals[i] = wrap(array_module(first._ctx).empty(first._data.shape, first._data.dtype), first._ctx)
        return self.totals[i]._data

    def _add_rows(self, i: int, grads: Sequence[Any], spread: bool) -> None:
        """Add up gradients that are sparse."""
        total = grads[0]
        for g in grads[1:]:
            total = total + g.as_in_context(total.ctx)
        if self.ranks is not None:
            total = self.ranks.rows(i, total)
        self.totals[i] = total
        if spread:
            for g in grads:
                g[:] = total
