"""Programs as text that parses back.

>>> print(to_text(program))                                          # doctest: +SKIP
input %0 {"dtype": "float32", "shape": [2, 3], "slot": 0}
map %1 (%0) {"fn": "exp"}
return (%1)
"""
from __future__ import annotations

import json
import re
from itertools import count
from typing import Any, Iterator

import numpy as np

from ..base.errors import FileFormatError
from .build import Const, make
from .dimension import Dim
from .node import Node
from .primitives import PRIMS
from .program import Program
from .scan import Body
from .size import Size, dims
from .size_text import KEY, plain, rich

_DIM = re.compile(r"dim (\S+) (\{.*\})")
_serial = count(-1, -1)                  # of dimensions that are read: those of traces count up
_LINE = re.compile(r"(\w+) %(\d+) (?:\(([%\d, ]*)\) )?(\{.*\})")
_RETURN = re.compile(r"return \(([%\d, ]*)\)(?: update \(([%\d:, ]*)\))?")


def _plain(value: Any) -> Any:
    """An attribute as JSON: floats as hex so that every bit comes back, bytes as hex, tuples as lists."""
    if isinstance(value, Const):
        return {"float": value.hex()}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Body):
        return {"body": to_text(value).splitlines()}
    return plain(value)


def _rich(value: Any, known: dict[str, Dim]) -> Any:
    if isinstance(value, dict) and "body" in value:
        program = _parsed("\n".join(value["body"]), known)
        return Body(program.inputs, program.outputs)
    if isinstance(value, dict) and KEY in value:
        return rich(value, known)
    if isinstance(value, dict):
        return Const(float.fromhex(value["float"])) if "float" in value else bytes.fromhex(value["bytes"])
    return tuple(_rich(v, known) for v in value) if isinstance(value, list) else value


def _dims(value: Any) -> Iterator[Dim]:
    """The dimensions of sizes in an attribute."""
    if type(value) is Size:
        yield from dims(value)
    elif isinstance(value, tuple):
        for v in value:
            yield from _dims(v)


def to_text(program: Program) -> str:
    """The program, one node a line, arguments before users."""
    order = list(dict.fromkeys([*program.inputs, *program.order()]))
    number = {n: i for i, n in enumerate(order)}
    found = {d.name: d for n in order for v in n.attrs.values() for d in _dims(v)}
    lines = [f"dim {name} {json.dumps({'low': d.low, 'high': d.high, 'hint': d.hint})}" for name, d in found.items()]
    for n in order:
        args = f"({', '.join(f'%{number[a]}' for a in n.args)}) " if n.args else ""
        attrs = {k: _plain(v) for k, v in n.attrs.items()}
        lines.append(f"{n.prim} %{number[n]} {args}{json.dumps(attrs, sort_keys=True)}")
    tail = f"return ({', '.join(f'%{number[n]}' for n in program.outputs)})"
    if program.updates:
        tail += f" update ({', '.join(f'{slot}:%{number[n]}' for slot, n in program.updates)})"
    return "\n".join([*lines, tail]) + "\n"


def _numbers(text: str) -> list[int]:
    return [int(t.strip().lstrip("%")) for t in text.split(",") if t.strip()]


def from_text(text: str) -> Program:
    """The program that ``to_text`` printed, with dimensions of its own. FileFormatError names the line that does not
    parse."""
    return _parsed(text, {})


def _parsed(text: str, known: dict[str, Dim]) -> Program:
    """A program. known: dimensions by name, to which those of the text are added."""
    nodes: dict[int, Node] = {}
    read: dict[str, dict[str, Any]] = {}                     # attributes by their text: many nodes have equal ones
    serial = next(_serial)
    for at, line in enumerate(text.splitlines(), 1):
        try:
            end = _RETURN.fullmatch(line)
            if end:
                inputs = sorted((n for n in nodes.values() if n.prim == "input"), key=lambda n: n.attrs["slot"])
                updates = [pair.split(":") for pair in (end[2] or "").split(",") if pair.strip()]
                return Program(tuple(inputs), tuple(nodes[i] for i in _numbers(end[1])),
                               tuple((int(s), nodes[int(v.strip().lstrip('%'))]) for s, v in updates))
            if (dim := _DIM.fullmatch(line)) is not None:
                known.setdefault(dim[1], Dim(dim[1], **json.loads(dim[2]), serial=serial))
                continue
            found = _LINE.fullmatch(line)
            if not found or found[1] not in PRIMS:
                raise ValueError("no node")
            attrs = read.get(found[4])
            if attrs is None:
                attrs = read[found[4]] = {k: _rich(v, known) for k, v in json.loads(found[4]).items()}
            nodes[int(found[2])] = make(found[1], tuple(nodes[i] for i in _numbers(found[3] or "")), **attrs)
        except (ValueError, KeyError, TypeError) as err:
            raise FileFormatError(f"line {at} of a program's text does not parse: {line[:120]!r} ({err})") from None
    raise FileFormatError("a program's text has no line `return`")
