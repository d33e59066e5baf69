"""Updates that leave most of an array as it is (a window of a cache of keys): what they write, and along which axes
that is decided."""
from __future__ import annotations

from typing import Iterable, NamedTuple

from ..ir import Node
from ..ir.access import ELEMENTWISE, MOVEMENT, Index, of_index, pull
from ..ir.index import Var, var
from ..ir.kernel import Kernel
from ..ir.size import fixed
from .fuse import Fused, strip_reshape


class Choice(NamedTuple):
    """A condition at an element of the result, and what it is where the element gets another value."""
    condition: Node
    holds: bool


class Changes(NamedTuple):
    """Elements of a result that get another value: those at which one of some conditions is as its choice says. axes:
    those of the result along which conditions differ. moved: whether the new values are only moved."""
    choices: tuple[Choice, ...]
    axes: frozenset[int]
    moved: bool


def note_updates(fused: Fused, placed: dict[Node, int]) -> None:
    """Notes in each kernel which of its results take the place of inputs, and which no kernel reads. placed: what
    ``in_place_updates`` returns."""
    read = {n for k in fused.kernels for n in k.reads}
    for k in fused.kernels:
        k.unread = frozenset(n for n in k.stores if n not in read)
        k.once = any(n in placed for n in k.stores)
        k.over = fused.program.inputs[placed[k.root]] if k.root in placed else None


def changes(k: Kernel) -> Changes | None:
    """What an elementwise kernel changes in the input whose place its result takes; None where the result
    is no chain of ``where`` that ends in that input, where a condition varies along the last axis, and for arrays of
    one axis or of sizes that a call gives."""
    n = k.root
    if (k.over is None or k.kind != "elementwise" or k.extra or k.sides or k.dot is not None
            or not all(fixed(d) for d in n.shape) or n.ndim < 2 or n.shape[-1] == 1):
        return None
    choices = _choices(n, k.over, k)
    if not choices:
        return None
    loops = [Var(f"axis{a}", d) for a, d in enumerate(n.shape)]
    differ = _differ((c.condition for c in choices), tuple(map(var, loops)), k)
    axes = frozenset(a for a, v in enumerate(loops) if v in differ)
    return None if n.ndim - 1 in axes else Changes(tuple(choices), axes, _moved(n, k))


def _choices(n: Node, over: Node, k: Kernel) -> list[Choice] | None:
    """The conditions of nested ``where`` whose innermost unchanged value is the input; None if there are none such."""
    if strip_reshape(n) is over:
        return []
    if n.prim != "map" or n.fn != "where" or n in k.reads:
        return None
    for side, holds in ((2, True), (1, False)):
        found = _choices(n.args[side], over, k)
        if found is not None:
            return [*found, Choice(n.args[0], holds)]
    return None


def _differ(nodes: Iterable[Node], idx: Index, k: Kernel) -> set[Var]:
    """Variables of an index on which nodes there may depend."""
    out: set[Var] = set()
    todo, seen = [(n, idx) for n in nodes], set()
    while todo:
        n, at = todo.pop()
        if (n, at) in seen or n.prim == "const":
            continue
        seen.add((n, at))
        if n in k.reads or n.prim not in ELEMENTWISE | MOVEMENT - {"pad"}:
            out |= {v for v in of_index(at) if isinstance(v, Var)}
        elif n.prim in MOVEMENT:
            todo.append((n.args[0], pull(n, at)[0]))
        else:
            todo += [(a, at) for a in n.args]
    return out


def _moved(n: Node, k: Kernel) -> bool:
    """Whether values are put elsewhere and chosen, and not computed."""
    if n in k.reads or n.prim == "const":
        return True
    if n.prim == "map" and n.fn == "where":
        return all(_moved(a, k) for a in n.args[1:])
    return n.prim in MOVEMENT | {"gather", "cast"} and _moved(n.args[0], k)
