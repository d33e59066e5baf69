"""``debug.minimize``: a small program whose compiled form gives something else than its primitives one by one."""
from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from typing import Any, Callable, Iterator

import numpy as np

from ..base.errors import HybridError
from ..ir import Node, Program, toposort
from ..ir import input as leaf
from ..ir.text import to_text
from ..passes.rewrite import rebuild
from .comparing import ROUNDINGS, compare
from .recorded_call import Call, by_primitives, compiled, far
from .reduction import smaller

LEAVES = ("input", "const", "data", "iota")


@dataclass(frozen=True, eq=False)
class Small:
    """A program of one result, its arrays, and how the arrays that are drawn were drawn."""
    program: Program
    arrays: tuple[Any, ...]
    drawn: tuple[bool, ...]

    def wrong(self, roundings: float = ROUNDINGS) -> bool:
        """Whether the compiled program gives something else."""
        try:
            want = by_primitives(self.program, self.arrays)[self.program.outputs[0]]
            got, = compiled(self.program, self.arrays)
        except (HybridError, ValueError, TypeError, KeyError):
            return False
        return bool(far(want, got, roundings).any())


def minimize(f: Callable[..., Any], *args: Any, roundings: float = ROUNDINGS, **kwargs: Any) -> str:
    """The text of a small Python program that shows a difference between eager and compiled code, to be reported; ""
    where ``compare`` finds none.

    The program of the call is cut to the first value that differs; what that is computed from becomes an input as far
    as the difference stays, and random numbers take the place of the user's where they show it too.
    """
    found = compare(f, *args, roundings=roundings, **kwargs)
    if found.same:
        return ""
    if found.call is None or found.node is None:
        raise HybridError(f"{found.text}, so that there is no program to be cut; please report the function itself")
    return text_of(cut(found.call, found.node, roundings))


def cut(call: Call, node: Node, roundings: float = ROUNDINGS) -> Small:
    """The smallest program found that is still wrong, of a call and a value in it."""
    values = by_primitives(call.program, call.given)
    if not _made(node, set(), values).wrong(roundings):
        return _made(call.program.roots[0], set(), values)     # wrong beside other results alone: the whole program
    inside = _above(node)
    for depth in (1, 2, 4, 8, 16):
        near = _near(node, depth)
        if _made(node, inside - near, values).wrong(roundings):
            inside = near
            break

    def made(kept: frozenset[Node]) -> Small:
        return _made(node, _above(node) - kept, values)

    def fewer(kept: frozenset[Node]) -> Iterator[frozenset[Node]]:
        for n in toposort([node]):
            if n in kept and n is not node:
                yield kept - {n}
    kept = smaller(frozenset(inside), fewer, lambda k: made(k).wrong(roundings), 60)
    return smaller(made(kept), _with_draws, lambda s: s.wrong(roundings), 30)


def _above(node: Node) -> set[Node]:
    return {n for n in toposort([node]) if n.prim not in LEAVES}


def _near(node: Node, depth: int) -> set[Node]:
    """Nodes that so many steps lead to."""
    found, last = {node}, {node}
    for _ in range(depth - 1):
        last = {a for n in last for a in n.args if a.prim not in LEAVES} - found
        found |= last
    return found


def _made(node: Node, given: set[Node], values: dict[Node, Any]) -> Small:
    """The program of a value in which the values of some nodes are inputs."""
    new: dict[Node, Node] = {}
    inputs: list[Node] = []
    arrays: list[Any] = []
    wanted, todo = {node}, [node]
    while todo:
        n = todo.pop()
        for a in () if n in given else n.args:
            if a not in wanted:
                wanted.add(a)
                todo.append(a)
    for n in toposort([node]):
        if n in wanted and (n in given or n.prim == "input"):
            new[n] = leaf(len(inputs), n.shape, n.dtype)
            inputs.append(new[n])
            arrays.append(np.ascontiguousarray(values[n] if isinstance(values[n], np.ndarray) else values[n].get()))
        elif n in wanted:
            new[n] = rebuild(n, [new[a] for a in n.args])
    return Small(Program(tuple(inputs), (new[node],)), tuple(arrays), (False,) * len(arrays))


def draw(number: int, shape: tuple[int, ...], dtype: str) -> Any:
    """The numbers that stand for an input of a program to be reported."""
    return np.random.RandomState(number).standard_normal(shape).astype(dtype)


def _with_draws(small: Small) -> Iterator[Small]:
    for i, (x, drawn) in enumerate(zip(small.arrays, small.drawn)):
        if not drawn and x.dtype.kind == "f":
            arrays, which = list(small.arrays), list(small.drawn)
            arrays[i], which[i] = draw(i, x.shape, x.dtype.name), True
            yield Small(small.program, tuple(arrays), tuple(which))


def text_of(small: Small) -> str:
    """A Python program that runs a small program both ways."""
    lines = ["import base64, zlib", "import numpy as np", "import hybrid as mx", "from hybrid import runtime",
             "from hybrid.base import config",
             "from hybrid.debug.minimizing import draw", "from hybrid.ir.text import from_text", "arrays = ["]
    for i, (x, drawn) in enumerate(zip(small.arrays, small.drawn)):
        packed = base64.b64encode(zlib.compress(x.tobytes())).decode()
        lines.append(f"    draw({i}, {x.shape}, {x.dtype.name!r})," if drawn else
                     f"    np.frombuffer(zlib.decompress(base64.b64decode({packed!r})), {x.dtype.name!r})"
                     f".reshape({x.shape}).copy(),")
    lines += ["]", f"program = from_text('''{to_text(small.program)}''')",
              "print('primitives', runtime.ReferenceProgram(program)(arrays)[0])",
              "with config.at_once():",
              "    print('compiled  ', runtime.compile(program, mx.cpu())(arrays)[0])"]
    return "\n".join(lines)
