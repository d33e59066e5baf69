"""CuPy's own wheel over our functions of libcuda and libcudart, on streams that run at once and late.

What tests/stand_in/cuda/check.py computes; ``make rehearse-gpu`` runs far more there."""
from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hybrid.base.device import find_cupy
from hybrid.runtime import launcher

from ..paths import ROOT
from ..stand_in.cuda import build

pytestmark = [pytest.mark.skipif(launcher.load() is None, reason="no headers of Python"),
              pytest.mark.skipif(not (shutil.which("gcc") and shutil.which("g++")), reason="no gcc or g++"),
              pytest.mark.skipif(find_cupy() is not None, reason="a GPU runs CuPy itself")]


@pytest.fixture(scope="module")
def python() -> Iterator[Path]:
    """What starts this Python with CuPy beside its packages."""
    with tempfile.TemporaryDirectory(prefix="hybrid-tests-cupy-") as folder:
        try:
            place = build.beside(Path(folder))
            build.sources(Path(folder), place)
        except OSError as err:
            pytest.skip(f"pip does not get CuPy's wheel and sources: {' '.join(str(err).split())[-200:]}")
        yield build.build(Path(folder), lambda _: place)


def test_real_cupy_gives_what_the_cpu_gives(python: Path) -> None:
    """On two GPUs that cannot read each other's memory."""
    done = subprocess.run([python, "-m", "tests.stand_in.cuda.check"], cwd=ROOT, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env={**os.environ, "HYBRID_STAND_IN_DEVICES": "2"})
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("as on the CPU") == 4
