"""How a Trainer adds up gradients over several processes: first values and a check before the first sum, then sums by
buckets, also from within a compiled step."""
from __future__ import annotations

import functools
import itertools
import re
from typing import Any, Iterable, Mapping, Sequence

import numpy as np

from .. import ir
from ..base.device import Context, cpu, on
from ..base.errors import HybridError
from ..buffers.array import NDArray, wrap
from ..buffers.moving import from_gpu, move
from ..collective.sums import Buckets, bucketed, wire_dtype
from ..ir import HostCall, Node
from ..mxnet.dist_kvstore import host, put, spread, sum_rows

_numbers = itertools.count()


class OverRanks:
    """The gradients of one Trainer over the ranks of a store (a ``DistributedStore``).

    before: what gradients are multiplied by before they are sent.
    """

    def __init__(self, store: Any, compression: Any = None, before: float = 1.0):
        self.store, self.world, self.before = store, store.world, before
        self.wire = wire_dtype(compression) if compression else store.wire
        self._buckets: dict[Any, Buckets] = {}
        self._sums: dict[Any, dict[int, NDArray]] = {}      # by the same keys
        self.name = f"Trainer {next(_numbers)}"

    @property
    def type(self) -> str:
        """The store's kind."""
        return self.store.type

    def is_capable(self, capability: str) -> bool:
        """What the store is capable of."""
        return self.store.is_capable(capability)

    # ---- before the first step
    def same_parameters(self, params: Sequence[Any], optimizer: Any) -> None:
        """CollectiveMismatch, with the first difference, unless all ranks have the same parameters in the same
        order."""
        names = relative([p.name for p in params])
        told = [f"parameter {p.name if self.world.size == 1 else n}: {np.dtype(p.dtype)}{tuple(p.shape)}, "
                f"grad_req={p.grad_req}" for p, n in zip(params, names)]
        self.world.same([*told, f"optimizer {type(optimizer).__name__}"], f"the parameters of {self.name}")

    def first_value(self, name: str, x: NDArray) -> None:
        """Rank 0's value on all ranks."""
        spread(self.world, x, 0, f"{self.name}, first value")

    # ---- steps
    def any(self, flag: bool) -> bool:
        """Whether a flag is set on any rank."""
        return any(self.world.gather_objects(bool(flag), f"{self.name}, overflow"))

    def gradients(self, grads: Mapping[int, Sequence[NDArray]]) -> dict[int, NDArray]:
        """The sums over devices and ranks of gradients by the numbers of their parameters; the next call writes the
        same arrays."""
        key = self._key([(i, g[0]._data) for i, g in grads.items()], self.store.gpu_of([g[0] for g in grads.values()]))
        buckets = self._buckets_for(key)
        buckets.sum(lambda i, view: self._fill(view, grads[i], buckets.gpu), self.name)
        if key not in self._sums or buckets.gpu is None and any(g[0]._ctx.device_type == "gpu" for g in grads.values()):
            self._sums[key] = {i: wrap(_on(buckets.views[i], g[0]._ctx), g[0]._ctx) for i, g in grads.items()}
        return self._sums[key]

    def _key(self, arrays: Iterable[tuple[int, Any]], gpu: Context | None) -> Any:
        return tuple((i, tuple(x.shape), np.dtype(x.dtype)) for i, x in arrays), self.wire, gpu

    def _buckets_for(self, key: Any) -> Buckets:
        """The buckets of gradients of some shapes. A step by itself and one in a compiled program use the same ones, so
        that ranks which mix both still exchange the same messages."""
        if key not in self._buckets:
            arrays, wire, gpu = key
            self._buckets[key] = Buckets(self.world, arrays, wire, gpu)
        return self._buckets[key]

    def _fill(self, view: Any, grads: Sequence[NDArray], gpu: Context | None) -> None:
        put(view, grads[0], gpu)
        for g in grads[1:]:
            view += host(g) if gpu is None else g.as_in_context(gpu)._data
        if self.before != 1:
            view *= view.dtype.type(self.before)

    def rows(self, number: int, x: Any) -> Any:
        """The sum of a row_sparse gradient over the ranks."""
        return sum_rows(self.world, x * self.before if self.before != 1 else x, f"{self.name}, parameter {number}")

    @staticmethod
    def refuse_rows(location: str) -> HybridError:
        """The error for sparse gradients within a compiled step over several processes."""
        return HybridError(f"{location}: row_sparse gradients are not summed over processes within a compiled step: "
                           f"call trainer.step outside of the hybridized function")

    def in_program(self, numbers: Sequence[int], grads: Sequence[Node], ctx: Context) -> list[Node]:
        """Sums over the ranks of gradients, by the numbers of their parameters, in a program. Where sums go on beside
        the processor (``World.overlaps``), it is cut where the gradients of a bucket are complete: their sum begins
        there, and the rest of the backward pass goes on meanwhile; the last cut waits for all sums. Else it is cut
        once."""
        on_host, by_number = self._key(zip(numbers, grads), None), dict(zip(numbers, grads))
        infos = tuple((tuple(g.shape), np.dtype(g.dtype)) for g in grads)
        groups = bucketed(on_host[0])
        every = range(len(groups))
        cuts = [[k] for k in every] if self.world.overlaps(ctx) else [list(every)]

        def run(cut: Sequence[int], xp: Any, arrays: Sequence[Any]) -> list[Any]:
            given = dict(zip((i for k in cut for i in groups[k]), arrays))
            gpu = None if xp is np else self.store.gpu_of([wrap(a, Context("gpu", a.device.id)) for a in arrays])
            buckets = self._buckets_for((*on_host[:-1], gpu))

            def fill(i: int, view: Any) -> None:
                view[...] = given[i] if xp is np or gpu is not None else from_gpu(given[i])
                if self.before != 1:
                    view *= view.dtype.type(self.before)
            for number in cut:
                buckets.begin(number, fill, self.name)
            if cut[-1] < every[-1]:
                return [xp.zeros((1,), np.int64)]
            buckets.finish()
            return [xp.asarray(buckets.views[i]) for i in numbers]                # to a GPU, where sums are on the host

        def there(cut: Sequence[int], xp: Any, arrays: Sequence[Any]) -> list[Any]:
            """``run``, on the GPU of the arrays."""
            with on(cpu() if xp is np else Context("gpu", arrays[0].device.id)):
                return run(cut, xp, arrays)
        found: list[Node] = []                              # the sums; before, what orders the calls
        for cut in cuts:
            outputs = infos if cut is cuts[-1] else (((1,), np.dtype(np.int64)),)
            call = HostCall(f"{self.name}: sum of gradients over the ranks, bucket {cut[0] + 1}"
                            f"{f' to {cut[-1] + 1}' if len(cut) > 1 else ''} of {len(groups)}",
                            functools.partial(there, cut), outputs, lends=True, shows=False)
            found = ir.host(call, [*(by_number[i] for k in cut for i in groups[k]), *found])
        return found


def _on(raw: np.ndarray, ctx: Any) -> Any:
    return raw if ctx.device_type != "gpu" else move(raw, ctx, False)


def relative(names: Sequence[str]) -> list[str]:
    """Names with their counters counted from 0: a second network on one rank (for evaluation, say) moves those of the
    first, and their order stays.

    >>> relative(["dense3_weight", "dense4_weight"])
    ['dense0_weight', 'dense1_weight']
    """
    parts = [re.split(r"(\d+)", n) for n in names]
    numbers: dict[str, set[int]] = {}
    for split in parts:
        for i in range(1, len(split), 2):
            numbers.setdefault(re.sub(r"\d+", "", "".join(split[:i])), set()).add(int(split[i]))
    order = {k: {n: str(j) for j, n in enumerate(sorted(v))} for k, v in numbers.items()}
    return ["".join(order[re.sub(r"\d+", "", "".join(split[:i]))][int(s)] if i % 2 else s
                    for i, s in enumerate(split)) for split in parts]
