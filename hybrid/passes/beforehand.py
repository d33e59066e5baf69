"""What a program for a GPU computes from parameters alone becomes a program of its own, which runs once and again when
a parameter was written: weights in the order in which channels-last convolutions read them (channels_last.py), factors
of BatchNorm, casts to fewer bits."""
from __future__ import annotations

from ..ir import Node, Program, toposort
from ..ir.access import beneath
from .frozen import Frozen, Layout, apart

MOVED = ("permute", "pad", "slice")                    # movement that takes a copy: its result is no view
BETWEEN = ("reshape", "permute", "pad")                # operators between windows and their product


def beforehand(program: Program, slots: frozenset[int]) -> Layout:
    """The program without what depends on parameters alone. slots: of inputs that seldom change."""
    frozen = Frozen(program, slots)
    return apart(program, list(program.roots), frozen, _weights(program, frozen), [], _is_no_larger)


def _weights(program: Program, frozen: Frozen) -> dict[Node, str]:
    """The frozen weights of products with windows whose elements are put in another order, each with a line for the
    report."""
    found: dict[Node, str] = {}
    for n in program.order():
        if n.prim == "dot" and any(beneath(a, BETWEEN).prim == "window" for a in n.args):
            for a in n.args:
                w = beneath(a, ("reshape", "expand"))
                if w.prim in MOVED and frozen(w):
                    found[w] = f"weights {list(beneath(w, MOVED).shape)} put in order as {list(w.shape)}"
        elif n.prim == "dot":
            found |= {a: f"weights transformed to {list(a.shape)}" for a in n.args if a.prim == "concat" and frozen(a)}
    return found


def _is_no_larger(n: Node) -> bool:
    """Whether a value takes no more memory than what it is computed from. Of a larger one, kernels read less when they
    compute it themselves, each time."""
    return n.nbytes <= sum(m.nbytes for m in toposort([n]) if m.prim == "input")
