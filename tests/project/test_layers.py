"""Rooms of the package import downwards alone: a room knows those listed before it, in its layer and below."""
from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Iterator

import numpy
import pytest

import hybrid
from hybrid.base.former_paths import FORMER

from ..paths import ROOT

LAYERS = [
    ["base", "kernels"],
    ["ir"],
    ["ops"],
    ["passes"],
    ["codegen", "buffers", "graph"],
    ["runtime"],
    ["autograd"],
    ["jit", "nd", "transforms"],
    ["metric", "serialize"],
    ["numpy", "optimizer", "sparse", "collective", "debug"],
    ["mxnet", "export"],
    ["image", "module", "rnn", "gluon", "io", "contrib", "test_utils", "distributed", "launch",
      "alias", "as_mxnet", "stubs", "serve", "warm"],
]
ORDER = [room for layer in LAYERS for room in layer]


def modules() -> dict[str, Path]:
    """Every module of the package, by its full name."""
    out = {}
    for folder, name in (("hybrid", "hybrid"), ("codegen", "hybrid.codegen"), ("kernels", "hybrid.kernels")):
        for path in (ROOT / folder).rglob("*.py"):
            parts = list(path.relative_to(ROOT / folder).with_suffix("").parts)
            out[".".join([name, *(parts[:-1] if parts[-1] == "__init__" else parts)])] = path
    return out


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes below a node, but those for type checkers alone."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            yield node
            yield from statements(node)


def imported(name: str, path: Path, known: dict[str, Path]) -> set[str]:
    """Modules of the package that a module imports when it runs, anywhere in it."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    out: set[str] = set()
    for node in statements(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            base = package.split(".")[:len(package.split(".")) - node.level + 1] if node.level else []
            full = ".".join([*base, *([node.module] if node.module else [])])
            out |= {f"{full}.{a.name}" if f"{full}.{a.name}" in known else full for a in node.names}
        elif isinstance(node, ast.Import):
            out |= {a.name for a in node.names}
    return {m for m in out if m.startswith("hybrid.")}


def test_rooms_import_downwards() -> None:
    known, wrong = modules(), []
    for name, path in known.items():
        if name == "hybrid" or path.name == "__main__.py":
            continue
        room = name.split(".")[1]
        for other in imported(name, path, known):
            if ORDER.index(other.split(".")[1]) > ORDER.index(room):
                wrong.append(f"{name} imports {other}, whose room comes later")
    assert not wrong, "\n".join(sorted(wrong))


def test_modules_import_without_circles() -> None:
    known = modules()
    needs = {n: imported(n, path, known) & set(known) - {n} for n, path in known.items() if n != "hybrid"}
    while needs:
        free = [n for n, others in needs.items() if not others & set(needs)]
        assert free, f"these import each other: {sorted(needs)}"
        for n in free:
            del needs[n]


def test_layers_are_few_and_hold_every_room() -> None:
    rooms = {name.split(".")[1] for name in modules() if "." in name} - {"__main__"}
    assert len(LAYERS) <= 12 and sorted(ORDER) == sorted(rooms)
    assert {p.name for p in (ROOT / "hybrid").glob("*.py")} <= {"__init__.py", "__main__.py"}


def test_no_regular_expression_reads_printed_text() -> None:
    """Statements are nodes: nothing that plans, makes or changes them searches their text."""
    found = [name for name, path in modules().items() if name.startswith(("hybrid.codegen", "hybrid.passes"))
             for node in ast.walk(ast.parse(path.read_text()))
             if isinstance(node, ast.Import) and any(a.name in ("re", "regex") for a in node.names)
             or isinstance(node, ast.ImportFrom) and node.module in ("re", "regex")]
    assert not found


@pytest.mark.parametrize("former", sorted(FORMER))
def test_former_names_import(former: str) -> None:
    if former.startswith("contrib.onnx") or former == "onnx":
        pytest.importorskip("onnx")
    module = importlib.import_module(f"hybrid.{former}")
    assert module is importlib.import_module(f"hybrid.{FORMER[former]}")
    assert module.__spec__ is not None and module.__spec__.name == f"hybrid.{FORMER[former]}"
    assert callable(hybrid.hybridize) and hybrid.hybridize.__name__ == "hybridize"


@pytest.mark.parametrize("name, module", [("np.random", hybrid.np.random), ("np.linalg", hybrid.np.linalg),
                                          ("ndarray.functions", hybrid.nd.functions)])
def test_modules_of_a_package_by_its_short_name_are_the_same(name: str, module: object) -> None:
    assert importlib.import_module(f"hybrid.{name}") is module
    assert hybrid.np.random is sys.modules["hybrid.numpy.random"]


def test_former_names_are_no_modules() -> None:
    assert not {f"hybrid.{former}" for former in FORMER} & modules().keys()


def test_a_function_is_not_hidden_by_a_former_name() -> None:
    code = "import hybrid, hybrid.hybridize, hybrid.ndarray; from hybrid.hybridize import hybridize\n" \
           "assert hybrid.hybridize is hybridize and hybrid.ndarray is hybrid.nd"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_module_hides_a_function_of_its_package() -> None:
    hidden, known = [], modules()
    for name, path in known.items():
        if path.name == "__init__.py":
            taken = {a.asname or a.name for node in ast.walk(ast.parse(path.read_text()))
                     if isinstance(node, ast.ImportFrom) and node.module for a in node.names}
            if name.startswith("hybrid.numpy.array_api") and not hasattr(numpy, "__array_namespace_info__"):
                continue                                     # needs NumPy 2.1
            package = importlib.import_module(name)
            hidden += [f"{name}.{n}" for n in taken if f"{name}.{n}" in known
                       and isinstance(getattr(package, n), ModuleType) and f"import {n}" not in path.read_text()]
    assert not hidden
