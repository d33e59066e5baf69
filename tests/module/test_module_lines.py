"""Every recorded line of oracle/module_lines.txt: the modules beside arrays and Gluon give what MXNet 1.9.1 gave, or
the same kind of error."""
from __future__ import annotations

import gzip
import importlib.util
import json
import re
import sys
from typing import Any

import numpy as np
import pytest

import hybrid as mx

from ..paths import DATA, TESTS

RECORDED = json.loads(gzip.decompress((DATA / "module_lines.json.gz").read_bytes()))


def _load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, TESTS / "oracle" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(name, module)                      # module_lines imports array_lines by its plain name
    spec.loader.exec_module(module)
    return module


_load("array_lines")
lines = _load("module_lines")


def _close(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, float) or isinstance(found, float):
        return isinstance(found, (int, float)) and isinstance(wanted,
                                                              (int, float)) and bool(np.isclose(found, wanted, 1e-4,
                2e-5, equal_nan=True))
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(_close, found, wanted))
    if isinstance(wanted, dict):
        return isinstance(found,
                          dict) and found.keys() == wanted.keys() and all(_close(found[k], wanted[k]) for k in wanted)
    return bool(found == wanted)


def _below(kind: type) -> list[type]:
    return [kind, *(k for sub in kind.__subclasses__() for k in _below(sub))]


def _kinds(name: str) -> set[str]:
    """An error's own name, and those under which a program that was written for MXNet catches it."""
    kind = {k.__name__: k for k in _below(mx.errors.HybridError)}.get(name)
    return {name} if kind is None else {"MXNetError" if base is mx.base.MXNetError else base.__name__
                                        for base in kind.__mro__}


@pytest.mark.parametrize("number", range(len(lines.LINES)),
                         ids=lambda k: f"{k}-{re.sub(r'[^A-Za-z0-9]+', '-', lines.LINES[k]).strip('-')[:40]}")
def test_line_against_mxnet(number: int) -> None:
    line = lines.LINES[number]
    # as recorded: devices are printed, names are counted from 0
    with mx.cpu(), mx.name.NameManager():
        found, wanted = json.loads(json.dumps(lines.run(mx, np, line))), RECORDED[line]
    if isinstance(wanted, list) and wanted[0] == "raises":
        assert found[0] == "raises" and wanted[1] in _kinds(found[1])
    else:
        assert _close(found, wanted), f"{found}\nMXNet: {wanted}"


def test_every_line_is_recorded_once() -> None:
    assert list(RECORDED) == lines.LINES
