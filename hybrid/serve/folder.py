"""The models of a folder: ``NAME-symbol.json`` with ``NAME-0000.params`` (MXNet's files; the newest epoch is taken), or
``NAME.onnx``; what is beside them in ``NAME.json`` says more.

``NAME.json``, all of it optional where the model's own files say it::

    {"inputs": {"data": {"shape": [-1, 1, 28, 28], "datatype": "FP32"}},
     "max_batch": 16, "max_delay_ms": 1, "program_rows": 1}

-1 stands for any length; where it is the first of every input, requests may have several rows and are computed
together. max_batch: rows of the largest program (1: none for several rows). max_delay_ms: how long a request waits for
others, where programs for several rows are used. program_rows: rows of the smallest program; a lone request is filled
up to it (``rows.py``).
"""
from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping

from ..base.errors import FileFormatError, MissingFileError
from .wire import DTYPES, Tensor

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")


@dataclass(frozen=True)
class Settings:
    """What ``NAME.json`` says."""
    inputs: Mapping[str, Tensor] = field(default_factory=dict)
    max_batch: int = 16
    max_delay_ms: float = 1.0
    program_rows: int = 1


@dataclass(frozen=True)
class Files:
    """The files of a model. network: the symbol's or ONNX's; params: None for ONNX; settings: where they stand or could
    stand."""
    name: str
    network: Path
    params: Path | None
    settings: Path

    @property
    def version(self) -> str:
        """The epoch of MXNet's files; 1 for ONNX."""
        return str(int(self.params.stem.rpartition("-")[2])) if self.params is not None else "1"


def models_of(folder: Path) -> list[Files]:
    """The models of a folder, by name; MissingFileError where there are none."""
    if not folder.is_dir():
        raise MissingFileError(f"there is no folder {folder}")
    found: dict[str, Files] = {}
    for path in sorted(folder.iterdir()):
        onnx = path.suffix == ".onnx"
        if not onnx and not path.name.endswith("-symbol.json"):
            continue
        name = path.stem if onnx else path.name[:-len("-symbol.json")]
        if not NAME.match(name):
            raise FileFormatError(f"{path}: a model's name has letters, digits, '.', '_' and '-' alone; rename the "
                                  f"file")
        if name in found:
            raise FileFormatError(f"{path} and {found[name].network} are both a model {name!r}; rename one of them")
        found[name] = Files(name, path, None if onnx else _newest(folder, name), folder / f"{name}.json")
    if not found:
        raise MissingFileError(f"{folder} has no model: NAME-symbol.json with NAME-0000.params, or NAME.onnx, is "
                               f"wanted")
    return list(found.values())


def _newest(folder: Path, name: str) -> Path:
    epochs = [p for p in folder.glob(f"{name}-*.params") if re.fullmatch(r"\d{4,}", p.stem[len(name) + 1:])]
    if not epochs:
        raise MissingFileError(f"{folder} has {name}-symbol.json and no {name}-0000.params beside it")
    return max(epochs, key=lambda p: int(p.stem.rpartition("-")[2]))


def settings(path: Path) -> Settings:
    """What stands in ``NAME.json``; the defaults where there is none."""
    if not path.exists():
        return Settings()
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as err:
        raise FileFormatError(f"{path} is no JSON: {err}") from err
    known = {"inputs": dict, "max_batch": int, "max_delay_ms": (int, float), "program_rows": int}
    _check(path, given, known, "the file")
    inputs = {}
    for name, said in given.pop("inputs", {}).items():
        _check(path, said, {"shape": list, "datatype": str}, f"the input {name!r}")
        shape, datatype = said.get("shape"), said.get("datatype", "FP32")
        if shape is None or any(type(d) is not int or d < -1 for d in shape):
            raise FileFormatError(f"{path}: the input {name!r} needs a 'shape', a list of lengths, -1 for any; got "
                                  f"{shape}")
        if datatype not in DTYPES:
            raise FileFormatError(f"{path}: the input {name!r} has the datatype {datatype!r}; there are "
                                  f"{', '.join(DTYPES)}")
        inputs[name] = Tensor(name, datatype, tuple(shape))
    wrong = [k for k, v in given.items() if v < (0 if k == "max_delay_ms" else 1)]
    if wrong:
        raise FileFormatError(f"{path}: {wrong[0]} is {given[wrong[0]]}; it must be at least "
                              f"{0 if wrong[0] == 'max_delay_ms' else 1}")
    return Settings(inputs, **given)


def _check(path: Path, given: Any, known: Mapping[str, Any], what: str) -> None:
    if not isinstance(given, dict):
        raise FileFormatError(f"{path}: {what} must be a JSON object, got {type(given).__name__}")
    for name, value in given.items():
        if name not in known:
            raise FileFormatError(f"{path}: {what} has the field {name!r}; known are {', '.join(known)}")
        if not isinstance(value, known[name]) or isinstance(value, bool):
            raise FileFormatError(f"{path}: {name!r} of {what} is of the wrong type: {value!r}")
