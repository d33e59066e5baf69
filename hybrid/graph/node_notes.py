"""Attributes and notes of a symbol's nodes, and values through which no gradient flows."""
from __future__ import annotations

from typing import Any, Mapping

import numpy as _np

from ..base import dtype as dt
from ..base import names
from ..base.errors import AttributeValueError, user_location
from ..ops.registry import Attrs, OpDef, find, to_string
from .symnode import CONCRETE, DETACHED, SymNode


def _attributes(n: SymNode) -> dict[str, str]:
    found = {**(n.attrs.given() if n.attrs is not None else {}), **n.extra}
    return {**{k: found[f"__{k}__"] for k in names.PLAIN if f"__{k}__" in found}, **found}      # MXNet shows both names


def output_name(n: SymNode, k: int) -> str:
    """MXNet's name of an output."""
    if n.opdef is None:
        return n.name
    return f"{n.name}_{n.opdef.output_name(k, n.attrs)}"                   # type: ignore[arg-type]

STORAGE = {"default": 0, "row_sparse": 1, "csr": 2}


def _notes_apart(d: OpDef, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Attributes of the operator, and notes among them: ``attr={...}``, ``lr_mult=2``, ``__name__="text"``."""
    attrs = dict(given)
    # an initializer
    notes = names.hidden({k: v.dumps() if hasattr(v, "dumps") else str(v) if isinstance(v, (int, float)) else v
                          for k, v in (given.get("attr") or {}).items()})
    attrs.pop("attr", None)
    for k in [k for k in attrs if k not in d.attrs]:
        if k in names.PLAIN:
            notes[f"__{k}__"] = str(attrs.pop(k))
        elif k.startswith("__") and k.endswith("__"):
            notes[k] = str(attrs.pop(k))
    if not all(isinstance(v, str) for v in notes.values()):
        raise AttributeValueError(f"notes on a Symbol must be text, got {notes!r}")
    return attrs, notes


def _refuse_plain(d: OpDef, notes: Mapping[str, Any]) -> None:
    """AttributeValueError for a note on an operator with attributes that is neither one of them nor marked as a
    note."""
    for k in notes if d.attrs else ():
        if k not in d.attrs and k not in names.PLAIN and not (k.startswith("__") and k.endswith("__")):
            raise AttributeValueError(f"{user_location()}: operator {d.name} has no attribute {k!r}; it has "
                                      f"{', '.join(d.attrs)}. A note of your own is called __{k}__")


def cut(entry: Any) -> Any:
    """A value computed outside of ``record`` (or in ``pause``), so that no gradient flows into what it was computed
    from."""
    return detached(entry) if entry is not None and is_cut(entry) else entry


def is_cut(entry: tuple[SymNode, int]) -> bool:
    """Whether a value was computed outside of ``record``."""
    return entry[0].opdef is not None and not entry[0].recorded


def detached(entry: tuple[SymNode, int]) -> tuple[SymNode, int]:
    """A value through which no gradient flows."""
    d = find("BlockGrad")
    return SymNode(d, f"{entry[0].name}_cut", d.parse({}), [entry], {DETACHED: "True"}), 0


def _shadow(x: Any) -> tuple[SymNode, int]:
    """A variable in place of an array where only shapes are found out."""
    node = SymNode(None, "array", None, ())
    node.holder = CONCRETE
    node.info = [(tuple(x.shape), _np.dtype(x.dtype))]
    return node, 0


def _note_start(d: OpDef, input_name: str, entry: Any) -> None:
    """How an input is initialized, on a variable that the user made and that does not say so."""
    if input_name in d.starts and entry is not None and entry[0].opdef is None and entry[0].holder is None:
        entry[0].extra.setdefault("__init__", d.starts[input_name])


def _own_notes(d: OpDef, a: Attrs, input_name: str) -> dict[str, str]:
    """What MXNet writes on a parameter's variable that an operator makes itself: the operator's attributes."""
    notes = a.given()
    if input_name in d.starts:
        notes["__init__"] = d.starts[input_name]
    return notes


def variable_notes(name: str, attr: Mapping[str, str] | None, shape: Any, lr_mult: Any, wd_mult: Any, dtype: Any,
                   init: Any, stype: Any, more: Mapping[str, Any]) -> dict[str, str]:
    """The notes of a variable that ``sym.var`` makes, as text by name: MXNet's files hold these. more: notes by names
    that begin and end with two underscores. AttributeValueError for a value that no note can be."""
    if attr and not all(isinstance(v, str) for v in attr.values()):
        raise AttributeValueError(f"attributes of a variable must be text, got {attr!r}")
    extra = {**names.notes(), **names.hidden(attr or {})}
    if shape is not None:
        # NumPy's integers as plain ones
        extra["__shape__"] = to_string(tuple(shape) if not isinstance(shape, (int, _np.integer)) else (shape,))
    extra.update({k: str(v) for k, v in (("__lr_mult__", lr_mult), ("__wd_mult__", wd_mult)) if v is not None})
    if dtype is not None:
        extra["__dtype__"] = str(dt.CODE_OF[dt.as_dtype(dtype)])
    if init is not None:
        extra["__init__"] = init if isinstance(init, str) else init.dumps()
    if stype is not None:
        if stype not in STORAGE:
            raise AttributeValueError(f"variable {name!r}: stype must be one of {', '.join(STORAGE)}, got {stype!r}")
        extra["__storage_type__"] = str(STORAGE[stype])
    for k, v in more.items():
        if not (k.startswith("__") and k.endswith("__")):
            raise AttributeValueError(f"attribute {k!r} of a variable must begin and end with two underscores")
        extra[k] = str(v)
    return extra
