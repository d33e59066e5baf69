"""Kernels that are alike before they are printed: layers that repeat, updates of many parameters.

Printing a kernel takes longer than to see that one like it was printed: the same values in the same order, computed by
the same functions from arrays of the same shapes. What printers ask of the values that a kernel reads (whether they are
often zero, a softmax's divisor) is a matter of what computes them; so the key holds values up to ``NEAR`` steps before
the kernel, and the answers to those questions that may depend on values further back. Kernels that read a single number
of an input, such as a parameter's learning rate, are also alike where it stands in another place of that input: the new
place is written into the text. With HYBRID_VERIFY=1, all kernels are printed and compared.
"""
from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, Callable, Iterable, Mapping, Sequence

from hybrid.base import config
from hybrid.ir import Node
from hybrid.ir.access import MOVEMENT
from hybrid.ir.index import Ix, Quot, Rem, Val, Var
from hybrid.ir.kernel import Kernel
from hybrid.ir.parse import Words, parsed, substituted
from hybrid.ir.scalar import SCALARS
from hybrid.passes.changes import changes

from hybrid.codegen.loops import Printed
from hybrid.codegen.printers.products.sparsity import often_zero
from hybrid.codegen.vector_forms import at_least_one, below_its_maximum, not_negative

NEAR = 2                        # steps from a value that is read to the last one that is compared
MOST_ASKED = 200                # values further back that ``often_zero`` and ``not_negative`` may look at
# functions whose sign or zeros depend on those of their arguments
_ASKS_ON = frozenset({"mul", "minimum", "div", "where", "relu"})


class _Unlike(Exception):
    """A kernel that is not compared with others."""


class Likeness:
    """What a kernel is, without the names of its values. ``key``: equal for kernels that print the same, except for the
    places of single numbers; ``nodes``: its values; ``single``: those that are single numbers of inputs. Of two kernels
    with the same key, the values at the same place of these lists correspond to each other."""

    def __init__(self, k: Kernel, team: bool):
        if k.inner is not None:
            raise _Unlike
        self.nodes: list[Node] = []
        self.single: list[Node] = []
        self._number: dict[Node, int] = {}
        self._loops: dict[Any, int] = {}
        self._parts: list[Any] = [team, k.kind, k.once, k.first, tuple(n in k.unread for n in k.stores)]
        self._parts.append(list(k.reads).index(k.over) if k.over is not None and changes(k) is not None else None)
        self._add([*k.stores, *k.members, *k.reads])
        for nodes in (k.stores, k.reads, k.members, k.hoisted):
            self._note(nodes)
        self._parts += [self._plain(x) for x in (k.loops, k.dot, tuple(at for _, at in k.sides), k.attention)]
        self._parts.append(None if k.rows is None else tuple(sorted(map(self._loop, k.rows))))
        self._parts += [tuple([(u.bijective, u.guarded, len(u.inside)) for u in uses]) for uses in k.members.values()]
        self._structure()
        self.key = tuple(self._parts)

    def _add(self, nodes: Iterable[Node]) -> None:
        for n in nodes:
            if n not in self._number:
                self._number[n] = len(self.nodes)
                self.nodes.append(n)

    def _note(self, nodes: Iterable[Node]) -> None:
        self._parts.append(tuple([self._number[n] for n in nodes]))

    def _structure(self) -> None:
        """Note all values of the kernel, and those near before it."""
        seen = 0
        for step in range(NEAR + 1):
            level, seen = self.nodes[seen:], len(self.nodes)
            for n in level:
                if _is_single(n):
                    self.single.append(n)
                self._parts += [_own(n), _of_softmax(n)]
                if step < NEAR:
                    self._add(n.args)
                    self._note(n.args)
                elif _asks_on(n):
                    self._parts.append(_far(n))

    def _loop(self, v: Any) -> int:
        return self._loops.setdefault(v, len(self._loops))

    def _plain(self, value: Any) -> Any:
        """A field of a kernel as plain data."""
        kind = type(value)
        if kind is Node:
            self._add([value])
            return "value", self._number[value]
        if kind in (Var, Val):
            return kind.__name__, self._loop(value), value.extent
        if kind in (Quot, Rem):
            return kind.__name__, self._plain(value.x), value.d
        if kind is Ix:
            return value.const, tuple((self._plain(a), c) for a, c in value.terms)
        if kind is tuple:
            return tuple(map(self._plain, value))
        if is_dataclass(value):
            return kind.__name__, *(self._plain(getattr(value, f.name)) for f in fields(value))
        if value is None or kind in (int, str, bool):
            return value
        raise _Unlike


def _asks_on(n: Node) -> bool:
    """Whether what printers ask of a value (``often_zero``, ``not_negative``) depends on what it is made of."""
    return n.prim in MOVEMENT or n.prim == "map" and (n.fn in _ASKS_ON or SCALARS[n.fn].zero)


def _far(n: Node) -> tuple[bool, bool]:
    """What printers ask of a value, however far before a kernel."""
    todo, left = [n], MOST_ASKED
    while todo:
        m, left = todo.pop(), left - 1
        if left < 0:
            raise _Unlike
        todo += [a for a in m.args if _asks_on(a)]
    return often_zero(n), not_negative(n)


def _of_softmax(n: Node) -> tuple[bool, bool]:
    """Whether a value is one less its maximum, or softmax's divisor: values more than ``NEAR`` steps back may tell."""
    return below_its_maximum(n), at_least_one(n)


def _own(n: Node) -> Any:
    """A value itself: nodes of equal attributes are the same one, so these can be compared as they are."""
    own = "slot" if n.prim == "input" else "begin" if _is_single(n) else ""
    return n.prim, tuple((name, value) for name, value in sorted(n.attrs.items()) if name != own), n.shape, n.dtype


def _is_single(n: Node) -> bool:
    """Whether a value is one number of an input that is a row of them."""
    return n.prim == "slice" and n.size == 1 and n.args[0].prim == "input" and n.args[0].ndim == 1


def printed_once(kernels: Sequence[tuple[bool, Kernel]],
                 print_one: Callable[[bool, Kernel, str], Printed]) -> list[Printed]:
    """All kernels printed; those that are alike have one name and one text. kernels: each with whether a team of
    threads runs it. print_one: prints one under a name. Products come first: where one is refused, the program is
    planned again, and the others would have been printed in vain."""
    first: dict[Any, tuple[Kernel, Likeness, Printed]] = {}
    out: dict[int, Printed] = {}
    for team, k in sorted(kernels, key=lambda each: each[1].dot is None):
        own = _likeness(k, team)
        known = first.get(own.key) if own is not None else None
        again = _again(k, own, *known) if own is not None and known is not None else None
        if again is None or config.verify():
            p = print_one(team, k, f"k{k.number}" if again is None else again.name)
            assert again is None or (p.source, p.args) == (again.source, again.args), f"{k.kind} kernels are not alike"
            if again is None and own is not None:
                first[own.key] = k, own, p
        out[id(k)] = p if again is None else again
    return [out[id(k)] for _, k in kernels]


def _likeness(k: Kernel, team: bool) -> Likeness | None:
    """What a kernel is; None where it holds what cannot be compared."""
    try:
        own = Likeness(k, team)
        hash(own.key)
        return own
    except (_Unlike, TypeError):
        return None


def _again(k: Kernel, own: Likeness, other: Kernel, its: Likeness, p: Printed) -> Printed | None:
    """The text of a kernel that is alike, with this kernel's values as arguments; None where that text uses other
    values."""
    place = {n: i for i, n in enumerate(its.nodes)}
    if not all(n in place for n in p.args):
        return None
    moved = {(f"p{p.args.index(n.args[0])}", str(n.attrs["begin"][0])): str(m.attrs["begin"][0])
             for n, m in zip(its.single, own.single) if n.args[0] in p.args}
    if any(old != new for (_, old), new in moved.items()):
        names = {w: f"k{k.number}{w[len(p.name):]}" for w in set().union(*p.lines)
                 if w == p.name or w.startswith(f"{p.name}_")}
        lines = [_moved(line, moved) for line in p.lines]
        if None in lines:
            return None
        p = replace(p, name=names[p.name], code=parsed(line if names.keys().isdisjoint(line) else
                                                       substituted(line, names) for line in lines if line is not None))
    k.form, k.not_taken = other.form, list(other.not_taken)
    return replace(p, args=[own.nodes[place[n]] for n in p.args])


def _moved(line: Words, places: Mapping[tuple[str, str], str]) -> Words | None:
    """A line of C, changed to read single numbers from other places. places: the new place, by the array's name and the
    old place. None where the line uses such an array in another way."""
    names = {name for name, _ in places}
    if names.isdisjoint(line):
        return line
    out = list(line)
    for i, w in enumerate(line):
        if w in names and line[i - 1:i] != ("*",):                       # which declares it
            new = places.get((w, line[i + 2])) if line[i + 1:i + 2] == ("[",) and line[i + 3:i + 4] == ("]",) else None
            if new is None:
                return None
            out[i + 2] = new
    return tuple(out)
