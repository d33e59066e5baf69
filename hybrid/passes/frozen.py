"""Which values of a program depend on parameters and constants alone, so that they can be computed once, ahead of the
calls, by a program of their own."""
from __future__ import annotations

from dataclasses import field
from typing import Callable, Mapping

from ..base.records import dataclass
from .. import ir
from ..ir import Node, Program
from ..ir.program import dims_in
from .rewrite import over


class Frozen:
    """Called with a value of the program, or with one that a pass made of them. slots: of the frozen inputs, but for
    those that the program changes."""

    def __init__(self, program: Program, slots: frozenset[int]):
        slots = slots - {slot for slot, _ in program.updates}
        self._sized = bool(program.dims())
        self._known: dict[Node, bool] = {}
        for n in program.order():                        # from the inputs on: no deep recursion
            self._known[n] = (n.attrs["slot"] in slots if n.prim == "input" else n.prim != "random_bits"
                              and self._follows(n))

    def __call__(self, n: Node) -> bool:
        if n not in self._known:
            self._known[n] = n.prim != "input" and self._follows(n)
        return self._known[n]

    def _follows(self, n: Node) -> bool:
        """Whether a value is known where its arguments are: not where it depends on the sizes of a call."""
        return all(self(a) for a in n.args) and not (self._sized and dims_in(n))


@dataclass
class Layout:
    """``prepare``: program from the frozen inputs ``slots`` to the values that ``main`` takes after its own inputs."""
    main: Program
    prepare: Program | None = None
    slots: tuple[int, ...] = ()
    notes: list[str] = field(default_factory=list)


def apart(program: Program, roots: list[Node], frozen: Frozen, packs: Mapping[Node, str],
          notes: list[str], worth: Callable[[Node], bool] = lambda n: True) -> Layout:
    """The program with these roots, without what depends on parameters alone. packs: values that are packed weights,
    with a line for the report. notes: other lines. worth: whether a value that is not
    packed is worth computing beforehand."""
    prepared: list[Node] = []
    place: dict[Node, Node] = {}
    count = len(program.inputs)
    # in a fixed order: the same source in each process, or the disk cache would not find it
    used = dict.fromkeys(a for n in ir.toposort(roots) if not frozen(n) for a in n.args if frozen(a))
    for n in used:
        at = _computed(n, packs)
        if at is not None and at not in place and (at in packs or worth(at)):
            place[at] = ir.input(count + len(prepared), at.shape, at.dtype)
            prepared.append(at)
    if not prepared:
        return Layout(program.with_roots(roots), notes=notes)
    slots = tuple(sorted(n.attrs["slot"] for n in ir.toposort(prepared) if n.prim == "input"))
    renamed = {program.inputs[s]: ir.input(i, program.inputs[s].shape, program.inputs[s].dtype)
               for i, s in enumerate(slots)}
    prepare = Program(tuple(renamed.values()), tuple(over(prepared, renamed)))
    out, k = over(roots, place), len(program.outputs)
    main = Program((*program.inputs, *place.values()), tuple(out[:k]),
                   tuple((s, r) for (s, _), r in zip(program.updates, out[k:])))
    return Layout(main, prepare, slots, [*notes, *(packs.get(n, f"{n!r} computed once") for n in prepared)])


def _computed(n: Node, packs: Mapping[Node, str]) -> Node | None:
    """The node to precompute for a frozen value: packed weights, or what is beneath reshapes, permutes and expands;
    None where nothing is computed (inputs, slices, pads and the like)."""
    while n not in packs:
        if not n.args or n.prim in ("slice", "pad", "window", "concat"):
            return None
        if n.prim not in ("reshape", "permute", "expand"):
            return n if any(m.prim == "input" for m in ir.toposort([n])) else None
        n = n.args[0]
    return n
