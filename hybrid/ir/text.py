"""Programs as text that parses back.

>>> print(to_text(program))                                          # doctest: +SKIP
input %0 {"dtype": "float32", "shape": [2, 3], "slot": 0}
map %1 (%0) {"fn": "exp"}
return (%1)
"""
from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from ..base.errors import FileFormatError
from .build import Const, make
from .node import Node
from .primitives import PRIMS
from .program import Program
from .scan import Body

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
    return value


def _rich(value: Any) -> Any:
    if isinstance(value, dict) and "body" in value:
        program = from_text("\n".join(value["body"]))
        return Body(program.inputs, program.outputs)
    if isinstance(value, dict):
        return Const(float.fromhex(value["float"])) if "float" in value else bytes.fromhex(value["bytes"])
    return tuple(_rich(v) for v in value) if isinstance(value, list) else value


def to_text(program: Program) -> str:
    """The program, one node a line, arguments before users."""
    order = list(dict.fromkeys([*program.inputs, *program.order()]))
    number = {n: i for i, n in enumerate(order)}
    lines = []
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
    """The program that ``to_text`` printed. FileFormatError names the line that does not parse."""
    nodes: dict[int, Node] = {}
    for at, line in enumerate(text.splitlines(), 1):
        try:
            end = _RETURN.fullmatch(line)
            if end:
                inputs = sorted((n for n in nodes.values() if n.prim == "input"), key=lambda n: n.attrs["slot"])
                updates = [pair.split(":") for pair in (end[2] or "").split(",") if pair.strip()]
                return Program(tuple(inputs), tuple(nodes[i] for i in _numbers(end[1])),
                               tuple((int(s), nodes[int(v.strip().lstrip('%'))]) for s, v in updates))
            found = _LINE.fullmatch(line)
            if not found or found[1] not in PRIMS:
                raise ValueError("no node")
            attrs = {k: _rich(v) for k, v in json.loads(found[4]).items()}
            nodes[int(found[2])] = make(found[1], tuple(nodes[i] for i in _numbers(found[3] or "")), **attrs)
        except (ValueError, KeyError, TypeError) as err:
            raise FileFormatError(f"line {at} of a program's text does not parse: {line[:120]!r} ({err})") from None
    raise FileFormatError("a program's text has no line `return`")
