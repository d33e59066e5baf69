"""The wheel that setup.cfg builds holds the whole package; importing it is quick."""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from ..paths import ROOT

SOURCES = ("hybrid", "codegen", "kernels", "setup.cfg", "pyproject.toml", "LICENSE")


def run(code: str, folder: Path, **env: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, env={**os.environ, **env}, capture_output=True,
                          text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy of the sources, without reaching any package index."""
    pytest.importorskip("wheel")
    pytest.importorskip("setuptools")
    copy = tmp_path_factory.mktemp("sources")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, copy / name)
    run("from setuptools import build_meta; build_meta.build_wheel('dist')", copy)
    built, = (copy / "dist").glob("hybridize-*.whl")
    return built


def test_wheel_holds_modules_and_kernel_sources(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as z:
        held = {n for n in z.namelist() if ".dist-info/" not in n}
    folders = {"hybrid": "hybrid", "hybrid/codegen": "codegen", "hybrid/kernels": "kernels"}
    suffixes = (".py", ".pyi", ".h", ".hpp", ".c", ".cpp", ".cu", ".cuh", ".typed")
    more = {"hybrid/ops/examples.txt"}
    exported = ROOT / "kernels" / "export"               # sources in the languages of the callers: each file is held
    wanted = {f"{name}/{f.relative_to(ROOT / folder).as_posix()}" for name, folder in folders.items()
              for f in (ROOT / folder).rglob("*")
              if f.suffix in suffixes or (exported in f.parents and f.is_file())}
    assert held == wanted | more


def test_unpacked_wheel_compiles_a_network(wheel: Path, tmp_path: Path) -> None:
    """Away from the checkout, so nothing is found that the wheel lacks."""
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as z:
        z.extractall(site)
    data = ROOT / "examples" / "data"
    code = f"""
import sys
sys.path.insert(0, {str(site)!r})
import numpy as np, hybrid
from hybrid import nd
from hybrid.gluon import SymbolBlock
assert hybrid.__file__.startswith({str(site)!r}), hybrid.__file__
net = SymbolBlock.imports({str(data / "lenet_digits-symbol.json")!r}, ["data"], {str(data / "lenet_digits-0025.params")!r})
net.hybridize()
x = nd.array(np.arange(2 * 784, dtype="float32").reshape(2, 1, 28, 28) / 1568)
compiled = net(x).asnumpy()
net.hybridize(False)
np.testing.assert_allclose(compiled, net(x).asnumpy(), rtol=1e-4, atol=1e-4)
print(net.report().backend if net.report() else "")
"""  # noqa: E501
    run(code, tmp_path, HYBRID_CACHE=str(tmp_path / "cache"), PYTHONPATH="")


def test_import_takes_up_little(tmp_path: Path) -> None:
    """What is slow to import, or optional, waits until it is used."""
    code = ("import sys, hybrid; print([m for m in ('cffi', 'PIL', 'matplotlib', 'tqdm', 'onnx', 'cupy', "
            "'multiprocessing') if m in sys.modules])")
    assert run(code, tmp_path).strip() == "[]"
