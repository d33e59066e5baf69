"""The casts of mixed precision: before an operator is called, its inputs are cast to the type in which it is to run."""
from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np

from ...base import dtype as dt, pending
from ...buffers.array import REBINDS
from ...jit.debug import LAST_CHANGE
from ...autograd.dispatch import invoke
from ...base.errors import AttributeValueError
from ...ops import registry
from ...ops.registry import Attrs, OpDef, find
from ...base.scope import CASTS, CASTS_VERSION
from ...graph.symbol import Symbol
from ...graph.symnode import CONCRETE, SymNode
from . import lists

Conditional = Sequence["tuple[str, str, list[str]]"]
HALVES = tuple(d for d in (dt.float16, dt.bfloat16) if d is not None)
CASTABLE = (*HALVES, dt.float32)


class Rules:
    """In which type each operator runs: ``low``, ``float32``, ``widest``, or as its inputs are (None).

    target: float16 or bfloat16. low, float32, conditional: other lists of operator names than the usual ones.
    """

    def __init__(self, target: np.dtype, low: Sequence[str] | None = None, conditional: Conditional | None = None,
                 float32: Sequence[str] | None = None):
        self.target, self.half = target, target == dt.float16
        self.low = set(_checked("low precision", low, lists.FLOAT16 if self.half else lists.BFLOAT16))
        self.float32 = set(_checked("float32", float32,
                                    [*(lists.FLOAT32 if self.half else lists.FLOAT32_BFLOAT16), *lists.MORE_FLOAT32]))
        self.conditional = _checked_conditions(lists.CONDITIONAL if conditional is None else conditional)
        self.widest = {*(lists.WIDEST if self.half else lists.WIDEST_BFLOAT16), *lists.MORE_WIDEST}
        self._check_apart()
        self.given = (target.name, frozenset(self.low), frozenset(self.float32),
                      tuple((n, a, tuple(v)) for n, a, v in self.conditional))
        self._kinds: dict[OpDef, str | None] = {}

    def _check_apart(self) -> None:
        conditional = {name for name, _, _ in self.conditional}
        for a, b, what in ((self.low, self.float32, "low precision and float32"),
                           (self.low, conditional, "low precision and conditional"),
                           (self.float32, conditional, "float32 and conditional")):
            if a & b:
                raise AttributeValueError(f"an operator can be in one list alone, but {', '.join(sorted(a & b))} is "
                                          f"among the {what} ones")

    def kind(self, d: OpDef, a: Attrs) -> str | None:
        """``low``, ``float32``, ``widest`` or None for a call with some attributes."""
        try:
            found = self._kinds[d]
        except KeyError:
            found = self._kinds[d] = self._look_up(d)
        return found if found != "conditional" else "float32" if self._condition(d, a) else None

    def _look_up(self, d: OpDef) -> str | None:
        tables = (("low", self.low), ("float32", self.float32), ("conditional", {n for n, _, _ in self.conditional}),
                  ("widest", self.widest),
                  (None, set(lists.FLOAT16_OR_32 if self.half else lists.BFLOAT16_OR_32)))
        for name in (d.name, *d.json, *d.names["nd"]):         # its own name before the others that it has
            for kind, table in tables:
                if name in table:
                    return kind
        return None

    def _condition(self, d: OpDef, a: Attrs) -> bool:
        given = a.given()
        return any(name in (d.name, *d.json) and given.get(attr) in values for name, attr, values in self.conditional)


def _checked(what: str, given: Sequence[str] | None, usual: list[str]) -> Sequence[str]:
    """Names of a list; those that a user gives must be operators."""
    if given is None:
        return usual
    if isinstance(given, str) or not all(isinstance(n, str) for n in given):
        raise AttributeValueError(f"the {what} operators must be a list of names, got {given!r}")
    for name in given:
        _known(name)
    return given


def _known(name: str) -> None:
    if name not in usual_names() and name not in registry.OPS and name not in registry.namespace("nd"):
        find(name)                                              # the error that lists the nearest


def usual_names() -> set[str]:
    """Every name in the usual lists, also of operators that are not here."""
    return {*lists.FLOAT16, *lists.FLOAT16_OR_32, *lists.FLOAT32, *lists.WIDEST, *lists.BFLOAT16_OR_32,
            *(n for n, _, _ in lists.CONDITIONAL)}


def _checked_conditions(given: Conditional) -> Conditional:
    for row in given:
        if len(row) != 3 or not isinstance(row[0],
                                           str) or not isinstance(row[1], str) or not isinstance(row[2], (list, tuple)):
            raise AttributeValueError(f"conditional operators are a list of (operator, attribute, list of values as "
                                      f"text), got {row!r}")
        _known(row[0])
    return given


class Policy:
    """Casts inputs by rules: of arrays in eager calls, of graph entries in traces and Symbols."""

    def __init__(self, rules: Rules, grad_scale: Any):
        self.rules = rules
        self._grad_scale = grad_scale                           # gives the loss scale, or None

    # ---- arrays
    def arrays(self, d: OpDef, a: Attrs, inputs: list[Any]) -> list[Any]:
        """Inputs of an eager call, cast."""
        kind = self.rules.kind(d, a)
        if kind is None:
            return inputs
        dtypes = [None if x is None else x._data.dtype for x in inputs]
        wanted = self._wanted(kind, d, dtypes)
        if wanted is None:
            return inputs
        return [x if t is None else cast_array(x, t) for x, t in zip(inputs, wanted)]

    def attrs(self, d: OpDef, attrs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Attributes of an eager call: a loss that is a layer takes its scale as an attribute."""
        scale = self._grad_scale() if d.name in lists.LOSS_OUTPUTS else None
        return attrs if scale is None else {**attrs, "grad_scale": float(attrs.get("grad_scale", 1.0)) * scale}

    # ---- Symbols
    def entries(self, d: OpDef, a: Attrs, entries: list[Any]) -> list[Any]:
        """Inputs of a new node, through casts."""
        kind = self.rules.kind(d, a)
        if kind is None:
            return entries
        present = [e for e in entries if e is not None]
        if any(n.opdef is None and n.holder is not CONCRETE and not all(n.info[k][0] or (0,)) for n, k in present):
            # finds unknown shapes of parameters, which casts would hide
            SymNode(d, d.name, a, present)
        dtypes = [None if e is None else e[0].info[e[1]][1] for e in entries]
        if kind == "widest" and None in [t for t, e in zip(dtypes, entries) if e is not None]:
            return _multicast(entries)
        wanted = self._wanted(kind, d, dtypes, [e is not None for e in entries])
        if wanted is None:
            return entries
        return [e if t is None else _cast_entry(e, t) for e, t in zip(entries, wanted)]

    # ---- both
    def _wanted(self, kind: str, d: OpDef, dtypes: Sequence[Any],
                present: Sequence[bool] | None = None) -> list[Any] | None:
        """The dtype to which each input is cast (None: as it is); None where nothing is cast. An unknown dtype of an
        input that is present is cast."""
        if kind == "widest":
            if dt.float32 not in dtypes and len({t for t in dtypes if t in HALVES}) < 2:
                return None
            target = dt.float32
        else:
            target = self.rules.target if kind == "low" else dt.float32
        kept = {*d.aux, *(lists.STATISTICS if kind == "low" else ())}
        names = d.inputs if not d.variadic else [""] * len(dtypes)
        out = [target if t != target and (t in CASTABLE if t is not None else present is not None and present[i])
               and n not in kept else None
               for i, (t, n) in enumerate(zip(dtypes, names))]
        return out if any(t is not None for t in out) else None


def cast_array(x: Any, target: np.dtype) -> Any:
    """An array in another dtype; gradients flow back in its own."""
    return invoke(find("amp_cast"), [x], {"dtype": target.name})


def _cast_entry(entry: Any, target: np.dtype) -> Any:
    """A graph entry through amp_cast."""
    return invoke(find("amp_cast"), [Symbol([entry])], {"dtype": target.name}).entries[0]


def _multicast(entries: list[Any]) -> list[Any]:
    """Graph entries through amp_multicast."""
    present = [e for e in entries if e is not None]
    if len(present) < 2:
        return entries
    out = iter(invoke(find("amp_multicast"), [Symbol([e]) for e in present], {"num_outputs": len(present)}).entries)
    return [None if e is None else next(out) for e in entries]


def switch(policy: Policy | None) -> None:
    """Let a policy hold for the whole process, or none. Programs compiled under another one are not used again."""
    pending.settle("mixed precision was switched")
    CASTS[:] = [] if policy is None else [policy]
    CASTS_VERSION[0] += 1
    LAST_CHANGE[0] = "the switch of mixed precision (contrib.amp)"      # what the reports of cache misses name
    REBINDS[0] += 1                                             # calls that take the fast path look at this
