"""The roles of a contraction's axes: which products are convolutions, and which of their operands are windows."""
from __future__ import annotations

from typing import Collection, NamedTuple

from ..base.records import dataclass
from .access import MOVEMENT
from .build import permute, reshape
from .node import Node
from .size import fixed


@dataclass(frozen=True)
class Convolution:
    """Weights w (filters, C / groups, *kernel) over windows (N, C, *out, *kernel), for a result whose axes are those of
    (filters, N, *out) in an ``order``."""
    w: Node
    windows: Node
    groups: int
    order: tuple[int, ...]
    may_round_operands: bool = False             # to bfloat16

    @property
    def rank(self) -> int:
        """How many axes windows slide along."""
        return len(self.order) - 2

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, filters, *out)."""
        return (self.windows.shape[0], self.w.shape[0], *self.windows.shape[2:2 + self.rank])


def convolution(n: Node) -> Convolution | None:
    """The convolution of which a value is the result, in whatever order of axes."""
    grouped = n.prim == "reshape" and n.args[0].prim == "permute"
    d, rank = n.args[0].args[0] if grouped else n.args[0] if n.prim == "permute" else n, n.ndim - 2
    if d is n or d.prim != "dot" or rank < 1:
        return None
    (w, win), maps, taps = d.args, (d.attrs["contract"], d.attrs["batch"]), range(2 + rank, 2 + 2 * rank)
    if not grouped and maps == (((1, *range(2, 2 + rank)), (1, *taps)), ((), ())):
        return Convolution(w, win, 1, n.attrs["axes"], d.attrs.get("may_round_operands", False))
    if (not grouped or maps != ((tuple(range(2, 3 + rank)), (2, *(a + 1 for a in taps))), ((0,), (1,)))
            or n.args[0].attrs["axes"] != (2, 0, 1, *range(3, 3 + rank)) or win.prim != "reshape"
            or win.args[0].ndim != 2 + 2 * rank):
        return None
    return Convolution(reshape(w, (w.shape[0] * w.shape[1], *w.shape[2:])), win.args[0], w.shape[0],
                       (1, 0, *range(2, 2 + rank)))


class Dense(NamedTuple):
    """x (..., depth) times matrix w, summed over w's axis ``summed``; ``rows`` is the product of x's other axes."""
    x: Node
    w: Node
    rows: int
    summed: int

    @property
    def filters(self) -> int:
        """Columns of the result."""
        return self.w.shape[1 - self.summed]

    @property
    def depth(self) -> int:
        """Products of each sum."""
        return self.w.shape[self.summed]

    def by_filter(self, w: Node) -> Node:
        """The matrix, or another one of its shape, as (filters, depth)."""
        return w if self.summed else permute(w, (1, 0))


def dense(n: Node) -> Dense | None:
    """The product of a dense layer; None for other values."""
    if n.prim != "dot" or n.attrs["batch"] != ((), ()):
        return None
    (x, w), (kept, summed) = n.args, n.attrs["contract"]
    if w.ndim != 2 or kept != (x.ndim - 1,):
        return None
    return Dense(x, w, n.size // max(w.shape[1 - summed[0]], 1), summed[0])


def of_windows(n: Node) -> bool:
    """Whether an operand of a product is windows, perhaps reshaped, permuted, expanded or sliced."""
    while n.prim in MOVEMENT and n.prim not in ("window", "pad"):
        n = n.args[0]
    return n.prim == "window"


def over_any_image(n: Node) -> bool:
    """Whether a value is windows over axes of symbolic size, such as images of any height."""
    return n.prim == "window" and not all(fixed(n.shape[a]) for a in n.attrs["axes"])


def convolves(dot: Node) -> bool:
    """Whether a product is that of a convolution, or of a gradient of one."""
    return any(map(of_windows, dot.args))


def with_windows(n: Node, rank: int, summed: Collection[int]) -> int | None:
    """Which operand of a product without shared axes is windows (N, C, *out, *kernel), summed over these of their axes;
    None for other products."""
    if n.prim != "dot" or n.attrs["batch"] != ((), ()):
        return None
    return next((s for s, x in enumerate(n.args) if x.prim == "window" and x.ndim == 2 + 2 * rank
                 and x.attrs["axes"] == tuple(range(2, 2 + rank)) and set(n.attrs["contract"][s]) == set(summed)), None)


def is_weight_gradient(dot: Node) -> bool:
    """Whether a product is the gradient of a convolution's weights: summed over all positions of windows."""
    return dot.prim == "dot" and any(a.prim == "window" and set(a.attrs["axes"]) <= set(summed)
                                     for a, summed in zip(dot.args, dot.attrs["contract"]))
