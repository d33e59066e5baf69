"""The one node type of every graph: frozen, hash-consed, with its shape and dtype inferred when it is made."""
from __future__ import annotations

import threading
import weakref
from contextlib import contextmanager
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Mapping, Sequence, TypeVar

import numpy as np

from ..base import forking

_table: "weakref.WeakValueDictionary[tuple, Node]" = weakref.WeakValueDictionary()
_lock = forking.lock()
_args = attrgetter("args")
T = TypeVar("T")
Origin = tuple[str, str]                 # the operator that a node is a part of, and the user's line that called it


class _Origins(threading.local):
    found: "dict[Node, Origin] | None" = None      # where the nodes that are made now are noted
    now: Origin | None = None


_origins = _Origins()


@contextmanager
def noting(found: "dict[Node, Origin]") -> "Iterator[dict[Node, Origin]]":
    """Scope in which each node that is made is noted with where it comes from (``made_for``). Nodes of several programs
    are the same object, so that a node cannot tell itself."""
    before = _origins.found, _origins.now
    _origins.found, _origins.now = found, None
    try:
        yield found
    finally:
        _origins.found, _origins.now = before


def made_for(origin: Origin | None) -> None:
    """What is made from here on comes from this; None: from nothing that is known."""
    if _origins.found is not None:
        _origins.now = origin


def made_from(n: "Node") -> None:
    """What is made from here on comes from where a node comes from."""
    if _origins.found is not None:
        _origins.now = _origins.found.get(n)


def made_for_gradient(n: "Node") -> None:
    """What is made from here on is of the gradient of a node."""
    if _origins.found is not None:
        known = _origins.found.get(n)
        if known is not None:
            name, at = known
            _origins.now = (name if name.startswith(GRADIENT) else GRADIENT + name), at


GRADIENT = "gradient of "


class Node:
    """An immutable value in a graph. Two nodes of equal primitive, arguments and attributes are the same object,
    so ``is`` compares structure and a dict keyed by nodes is common-subexpression elimination.

    Attributes: ``prim`` (name), ``args`` (nodes), ``attrs`` (read-only mapping), ``shape``, ``dtype``.
    """
    __slots__ = ("prim", "args", "attrs", "shape", "dtype", "__weakref__")
    prim: str
    args: tuple["Node", ...]
    attrs: Mapping[str, Any]
    shape: tuple[int, ...]
    dtype: np.dtype

    def __setattr__(self, *_: Any) -> None:
        raise AttributeError("a Node is frozen: build another")

    def __reduce__(self) -> Any:
        raise TypeError("a Node cannot be pickled: print the graph as text instead (hybrid.ir.text)")

    @property
    def fn(self) -> str:
        """The scalar function of a ``map``; of other nodes nothing."""
        return self.attrs["fn"] if self.prim == "map" else ""                # type: ignore[no-any-return]

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        n = 1
        for d in self.shape:
            n *= d
        return n

    @property
    def nbytes(self) -> int:
        """Bytes the value takes when it is stored."""
        return self.size * self.dtype.itemsize

    if TYPE_CHECKING:                                  # build.py attaches them: they make nodes
        def __add__(self, other: Any) -> "Node": ...
        def __radd__(self, other: Any) -> "Node": ...
        def __sub__(self, other: Any) -> "Node": ...
        def __rsub__(self, other: Any) -> "Node": ...
        def __mul__(self, other: Any) -> "Node": ...
        def __rmul__(self, other: Any) -> "Node": ...
        def __truediv__(self, other: Any) -> "Node": ...
        def __rtruediv__(self, other: Any) -> "Node": ...
        def __neg__(self) -> "Node": ...

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}={v!r}" for k, v in self.attrs.items() if k != "value" or self.prim != "data")
        return f"<{self.prim} {self.dtype.name}{list(self.shape)} {shown}>"


def packed_product(n: Node) -> bool:
    """Whether a value is a product of matrices that is computed as a convolution of one pixel: a dense layer's."""
    return n.prim == "conv" and all(k == 1 for k in n.attrs["kernel"])


def describe(n: Node) -> str:
    """A short name of a value, for reports: what computes it, and its shape."""
    if n.prim == "input":
        return f"input{n.attrs['slot']}{list(n.shape)}"
    name = n.attrs["fn"] if n.prim == "map" else n.attrs["op"] if n.prim == "reduce" else n.prim
    return f"{'dot' if packed_product(n) else name}{list(n.shape)}"


_new = object.__new__
_set_prim, _set_args, _set_attrs, _set_shape, _set_dtype = (vars(Node)[name].__set__
                                                            for name in ("prim", "args", "attrs", "shape", "dtype"))


def intern(prim: str, args: tuple[Node, ...], attrs: dict[str, Any], shape: tuple[int, ...], dtype: np.dtype) -> Node:
    """The node of this structure: the existing one, or a new one."""
    key = (prim, args, tuple(sorted(attrs.items()) if len(attrs) > 1 else attrs.items()), shape, dtype)
    with _lock:
        hit = _table.get(key)
        if hit is None:
            hit = _new(Node)
            _set_prim(hit, prim)
            _set_args(hit, args)
            _set_attrs(hit, MappingProxyType(attrs))
            _set_shape(hit, shape)
            _set_dtype(hit, dtype)
            _table[key] = hit
    if _origins.now is not None:
        _origins.found.setdefault(hit, _origins.now)     # type: ignore[union-attr]
    return hit


def inputs_first(roots: Iterable[T], inputs: Callable[[T], Sequence[T]]) -> list[T]:
    """Everything below some roots, what each takes before it, in a fixed order: depth first, in the order of the roots
    and of what ``inputs`` gives. Iterative: deep graphs are fine.
    """
    seen: set[T] = set()
    out: list[T] = []
    stack = [(r, False) for r in reversed(list(roots))]
    while stack:
        one, done = stack.pop()
        if done:
            out.append(one)
        elif one not in seen:
            seen.add(one)
            stack.append((one, True))
            stack += [(m, False) for m in reversed(inputs(one)) if m not in seen]
    return out


def toposort(roots: Iterable[Node]) -> list[Node]:
    """Every node below the roots, arguments before users, in a fixed order."""
    return inputs_first(roots, _args)


def reached(roots: Iterable[Node], goes_on: Callable[[Node], bool]) -> Iterator[Node]:
    """Yield each root, and each node below the roots, once. goes_on: whether the walk goes on to a node's arguments."""
    todo, seen = list(roots), set()
    while todo:
        n = todo.pop()
        if n not in seen:
            seen.add(n)
            yield n
            if goes_on(n):
                todo += n.args


def users(order: Iterable[Node]) -> dict[Node, list[Node]]:
    """For each node the nodes that take it as an argument (once per use)."""
    out: dict[Node, list[Node]] = {}
    for node in order:
        out.setdefault(node, [])
        for a in node.args:
            out.setdefault(a, []).append(node)
    return out
