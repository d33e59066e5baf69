"""The package is what setup.cfg says: folders, kernel sources, layers, needs."""
from __future__ import annotations

import ast
import configparser
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LAYERS = [
    ["config", "errors", "dtype", "device", "scope", "codec", "forking", "collector", "extents", "watch", "writes",
     "stand_in"],
    ["ir"],
    ["ops"],
    ["passes"],
    ["codegen", "kernels"],
    ["runtime"],
    ["names", "tree", "indexing", "random", "tape", "debug", "symnode", "inference", "partial_shapes",
     "symbol_inference", "lower", "subgraph", "unevaluated", "symbol"],
    ["array"],
    ["dispatch"],
    ["autograd", "control_flow", "operator", "dynamic", "functions", "contents", "surroundings",
     "quick", "entry", "step_call", "outside_draws", "first_sight", "trace", "traced_grad", "traced_function",
     "host_function", "history", "nd_draws"],
    ["traced_indexing", "copies"],
    ["methods", "nd_updates", "engine", "features", "libinfo", "log", "executor", "hybridize", "initializer"],
    ["random_functions"],
    ["ndarray"],
    ["sparse"],
    ["numpy"],
    ["serialize"],
    ["numpy_extension", "base", "util", "registry", "checkpoint", "metric", "lr_scheduler"],
    ["optimizer"],
    ["kvstore", "profiler", "recordio", "data_iter", "callback", "monitor", "viz"],
    ["module"],
    ["rnn"],
    ["model"],
    ["image"],
    ["io"],
    ["gluon"],
    ["test_utils"],
    ["contrib", "onnx"],
    ["alias"],
    ["as_mxnet"],
]


def config() -> configparser.ConfigParser:
    out = configparser.ConfigParser()
    out.read(ROOT / "setup.cfg")
    return out


def folder(package: str) -> Path:
    mapped = {"hybrid.codegen": "codegen", "hybrid.kernels": "kernels"}
    return ROOT / mapped.get(package, package.replace(".", "/"))


def test_packages_are_the_folders() -> None:
    listed = set(config()["options"]["packages"].split())
    found = {"hybrid.codegen", "hybrid.kernels"} | {".".join(p.parent.relative_to(ROOT).parts)
                                                    for p in (ROOT / "hybrid").rglob("__init__.py")}
    assert listed == found
    assert all((folder(p) / "__init__.py").is_file() for p in listed)


def test_kernel_sources_are_package_data() -> None:
    patterns = config()["options.package_data"]["hybrid.kernels"].split()
    shipped = {f for p in patterns for f in (ROOT / "kernels").glob(p)}
    sources = {f for f in (ROOT / "kernels").rglob("*") if f.is_file() and f.suffix in (".h", ".c", ".cu", ".cuh")}
    assert shipped == sources


def imports_of(path: Path, package: str) -> set[str]:
    """Top-level modules of hybrid that a file imports, anywhere in it."""
    out: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            base = package.split(".")[:len(package.split(".")) - node.level + 1] if node.level else []
            full = ".".join([*base, *( [node.module] if node.module else [])])
            names = [full] if full != "hybrid" else [f"hybrid.{a.name}" for a in node.names]
            out |= {n.split(".")[1] for n in names if n.startswith("hybrid.")}
        elif isinstance(node, ast.Import):
            out |= {a.name.split(".")[1] for a in node.names if a.name.startswith("hybrid.")}
    return out


def test_imports_go_down_the_layers() -> None:
    level = {name: i for i, group in enumerate(LAYERS) for name in group}
    wrong = []
    for top in (ROOT / "hybrid", ROOT / "codegen"):
        for path in top.rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            dotted = ["hybrid", *(parts[1:] if parts[0] == "hybrid" else parts)]
            name = dotted[1]
            if name == "__init__":
                continue
            package = ".".join(dotted[:-1])
            assert name in level, f"{path} is in no layer"
            for other in imports_of(path, package):
                if other in level and level[other] > level[name]:
                    wrong.append(f"{'/'.join(parts)} imports {other}, which comes later")
    assert not wrong, "\n".join(wrong)


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_a_checkout_works_from_its_own_folder() -> None:
    code = (f"import sys\nsys.meta_path[:] = [f for f in sys.meta_path if 'editable' not in "
            f"repr(f).lower()]\nsys.path.insert(0, {str(ROOT)!r})\nimport hybrid as mx\n"
            "import hybrid.codegen.c, hybrid.kernels\nprint(hybrid.kernels.__file__, mx.hybridize(lambda x: x * "
            "2)(mx.nd.ones((1,), ctx=mx.cpu())).asscalar())")
    assert run(code).split() == [str(ROOT / "kernels" / "__init__.py"), "2.0"]


def test_import_needs_numpy_and_cffi_alone() -> None:
    blocked = ["cupy", "onnx", "torch", "matplotlib", "ml_dtypes", "tqdm", "pytest", "scipy"]
    code = (f"import sys\nfor m in {blocked}: sys.modules[m] = None\nimport hybrid\nprint(hybrid.nd.ones((2,), "
            f"ctx=hybrid.cpu()).sum().asscalar())")
    assert run(code).strip() == "2.0"


def test_public_names() -> None:
    import hybrid
    expected = {"nd", "sym", "np", "npx", "gluon", "autograd", "random", "init", "cpu", "gpu", "Context", "hybridize",
                "NDArray", "Symbol", "waitall"}
    assert expected <= set(dir(hybrid))


@pytest.mark.skipif(not (ROOT / "LICENSE").is_file(), reason="not a checkout")
def test_licence() -> None:
    assert "Apache License" in (ROOT / "LICENSE").read_text()
