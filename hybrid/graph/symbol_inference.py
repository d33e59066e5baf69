"""``Symbol.infer_shape``, ``infer_shape_partial``, ``infer_type``: shapes and dtypes of a graph from those of some
variables."""
from __future__ import annotations

from typing import Any, Mapping, Sequence

from ..base.errors import ShapeError
from ..ops.elementwise import one_shape
from .inference import given_shapes, key_of, least_length, named_arguments, types_of
from .partial_shapes import partial_shapes_of
from .symnode import SymNode, has_unknown


class Inferring:
    """The part of Symbol that infers."""
    __slots__ = ()
    entries: Sequence[tuple[SymNode, int]]

    def nodes(self) -> list[SymNode]:
        """Every node below."""
        raise NotImplementedError

    def _variables(self) -> tuple[list[SymNode], list[SymNode]]:
        raise NotImplementedError

    def list_arguments(self) -> list[str]:
        """Names of the arguments."""
        raise NotImplementedError

    def list_inputs(self) -> list[str]:
        """Names of all variables."""
        raise NotImplementedError

    def infer_shape(self, *args: Any, **kwargs: Any) -> Any:
        """(argument shapes, output shapes, auxiliary shapes) from some variables' shapes; Nones when they do not
        suffice.

        >>> (sym.var('a') + sym.var('b', shape=(2, 3))).infer_shape()
        ([(2, 3), (2, 3)], [(2, 3)], [])
        """
        found = self.infer_shape_partial(*args, **kwargs)
        return found if all(s is not None and all(v >= least_length() for v in s)
                            for s in self._shapes(args, kwargs)) else (None, None, None)

    def infer_shape_partial(self, *args: Any, **kwargs: Any) -> Any:
        """Like infer_shape, with () for what stays unknown and 0 for lengths that do; under np_shape None and -1."""
        least = least_length()
        found = [tuple(max(d, least - 1) for d in s) if s is not None else () if least else None
                 for s in self._shapes(args, kwargs)]
        return self._split(found)

    def _shapes(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """Shapes of arguments, outputs and auxiliary states."""
        order = self.nodes()
        given = given_shapes(named_arguments("infer_shape", self.list_arguments(), self.list_inputs(), args, kwargs))
        found = partial_shapes_of(order, given)
        refuse_several_shapes(order, found)
        return self._ordered(found)

    def infer_type_partial(self, *args: Any, **kwargs: Any) -> Any:
        """Like infer_type, with None for what stays unknown: where nothing is said, and behind a cast."""
        given = named_arguments("infer_type", self.list_arguments(), self.list_inputs(), args, kwargs)
        found = self._split([t and t.type for t in self._ordered(types_of(self.nodes(), given, None))])
        hidden = self._behind_casts(args, kwargs)
        return [None if n.name in hidden else t for n, t in zip(self._variables()[0], found[0])], found[1], found[2]

    def _split(self, values: list[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """Of arguments, outputs and auxiliary states."""
        n = len(self._variables()[0])
        m = n + len(self.entries)
        return values[:n], values[n:m], values[m:]

    def _ordered(self, found: Mapping[Any, Any]) -> list[Any]:
        arguments, aux = self._variables()
        outputs = [found.get((id(n), k)) if n.opdef is not None else found[id(n)] for n, k in self.entries]
        return [*(found[id(n)] for n in arguments), *outputs, *(found[id(n)] for n in aux)]

    def infer_type(self, *args: Any, **kwargs: Any) -> Any:
        """(argument, output, auxiliary) dtypes; Nones when what is given does not tell them."""
        found = self.infer_type_partial(*args, **kwargs)
        return found if all(t is not None for part in found for t in part) else (None, None, None)

    def _behind_casts(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> set[str]:
        """Arguments that are cast and nothing else, so that their dtype cannot be known unless it is given."""
        given = named_arguments("infer_type", self.list_arguments(), self.list_inputs(), args, kwargs)
        users: dict[str, set[str]] = {}
        for n in self.nodes():
            for m, _ in n.inputs:
                if m.opdef is None and m.info[0][1] is None and given.get(m.name) is None:
                    users.setdefault(m.name, set()).add(n.opdef.name if n.opdef is not None else "")
        return {name for name, ops in users.items() if ops == {"Cast"}}

    def _types(self, *args: Any, **kwargs: Any) -> Any:
        """(argument, output, auxiliary) dtypes, float32 where nothing is told; Nones when nothing is known at all."""
        given = named_arguments("infer_type", self.list_arguments(), self.list_inputs(), args, kwargs)
        order = self.nodes()
        if self.list_inputs() and not any(t is not None for t in types_of(order, given, None).values()):
            return None, None, None
        return self._split([t.type for t in self._ordered(types_of(order, given))])


def refuse_several_shapes(order: Sequence[SymNode], shapes: Mapping[Any, Any]) -> None:
    """ShapeError for an elementwise operator (``x + y`` and ``elemwise_add`` of Symbols) whose inputs differ in a
    length that is known: MXNet's take arrays of one shape. What depends on a constant of an unknown length is left
    out."""
    loose: set[int] = set()
    for n in order:
        if n.opdef is None:
            continue
        if has_unknown(n.opdef, n.attrs) or any(id(m) in loose for m, _ in n.inputs):
            loose.add(id(n))
        if n.opdef.params is not one_shape or id(n) in loose:
            continue
        known = [s for m, k in n.inputs if (s := shapes.get(key_of(m, k))) is not None]
        if len({len(s) for s in known}) > 1 or any(len({d for d in column if d > 0}) > 1 for column in zip(*known)):
            raise ShapeError(f"node {n.name!r}: operator {n.opdef.name} of Symbols takes arrays of one shape, got "
                             f"{' and '.join(map(str, known))}: sym.broadcast_add and its kin broadcast")
