"""Values of traced code that functions are given at each call of the compiled program: what ``debug.print`` prints,
and what hooks of inner blocks see.

A watched value is one more output of the program, which the call reads and does not give back. Code that nothing
watches is compiled and called as if there were no such thing.
"""
from __future__ import annotations

from typing import Any, Callable, Iterator, Sequence

from ..base.records import dataclass
from ..base.errors import TraceError, user_location
from ..base.pytree import unflatten
from ..base.scope import SCOPE
from ..buffers.array import NDArray, wrap
from ..graph.symbol import Symbol

# names in all code that was traced so far
MENTIONED: set[str] = set()
UNDER_WAY: set[int] = set()                                    # ids of traces that are under way
_ANY = frozenset({"getattr", "hasattr", "vars", "__dict__"})   # by which code reads attributes of any name


def unread(name: str) -> bool:
    """Whether a watching function runs, and no traced code can have read an attribute of this name: what a hook keeps
    for itself (``block.last = output``) changes no program. TraceError where traced code does read it."""
    if name in MENTIONED:
        raise TraceError(f"{user_location()}: a hook assigns the attribute {name!r}, which hybridized code reads. The "
                         f"hook "
                         "is called when the compiled program has run, so that this call would read what the last one "
                         "assigned. Assign it in forward, or call the block or function without hybridize.")
    return SCOPE.watching is not None and _ANY.isdisjoint(SCOPE.watching)


@dataclass
class Watch:
    """``call(values)`` at each call of a program. values: the traced ones; form: how they are nested (pytree.py). what,
    at: who asks for them, and where. mapped: how many leading axes go over examples of vmap, each of which is a call.
    """
    values: list[Symbol]
    form: Any
    call: Callable[[Any], None]
    what: str
    at: str
    mapped: int = 0

    def __str__(self) -> str:
        nbytes = sum(s._one()[0].info[s._one()[1]][1].itemsize * (s.size or 0) for s in self.values)
        return f"{self.at}: {self.what}: {len(self.values)} more results, {nbytes} bytes at each call"


def show(watches: Sequence[Watch], outputs: Sequence[NDArray], ctx: Any, cls: Any, names: set[str]) -> None:
    """Call the functions of some watches, in their order, with the outputs of a call, which begin with theirs. names:
    those in the traced code."""
    at = 0
    for w in watches:
        whole = [x._data for x in outputs[at:at + len(w.values)]]
        at += len(whole)
        for raw in _examples(whole, w.mapped):
            arrays = [wrap(x, ctx, cls) for x in raw]
            before = [x._version for x in arrays]
            SCOPE.watching = names
            try:
                w.call(unflatten(w.form, iter(arrays)))
            finally:
                SCOPE.watching = None
            if [x._version for x in arrays] != before:
                raise TraceError(f"{w.at}: {w.what} changes an array in place that the compiled program has used "
                                 "already, so that the change would be lost. Change it in forward, or call the block "
                                 "or function without hybridize.")


def _examples(arrays: list[Any], mapped: int) -> Iterator[list[Any]]:
    """Slices along so many leading axes, which the arrays have in common; what has no array is there once."""
    if not mapped or not arrays:
        yield arrays
        return
    for i in range(len(arrays[0])):
        yield from _examples([x[i:i + 1].reshape(x.shape[1:]) for x in arrays], mapped - 1)
