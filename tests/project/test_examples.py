"""The examples do what the README says they do."""
from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ..paths import ROOT



@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the demo prints, run from another folder with a cache of its own."""
    elsewhere = tmp_path_factory.mktemp("demo")
    env = {**os.environ, "HYBRID_CACHE": str(elsewhere / "cache")}
    done = subprocess.run([sys.executable, str(ROOT / "examples" / "demo.py")], cwd=elsewhere, env=env,
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def row(text: str, name: str) -> str:
    found = re.search(rf"^ +{name} +(.+)$", text, re.M)
    assert found, f"no row {name!r} in\n{text}"
    return found[1]


def test_demo_reads_the_digits_as_mxnet_does(demo: str) -> None:
    assert row(demo, "right") == "338 of 360"
    differences = [float(x) for x in re.findall(r"\d\.\de[+-]\d+", row(demo, "largest difference from MXNet"))]
    assert len(differences) == 2 and max(differences) < 1e-4


def test_demo_fuses_and_plans(demo: str) -> None:
    before, after = map(int, re.findall(r"\d+", row(demo, "kernels")))
    assert after < before
    eager, planned, bound = map(int, re.findall(r"\d+", row(demo, "bytes for a batch of 16").replace(",", "")))
    assert bound <= planned < eager


def test_demo_runs_the_multilayer_perceptron_twice(demo: str) -> None:
    assert float(row(demo, "before hybridizing").split()[0]) > 0
    assert float(row(demo, "after hybridizing").split()[0]) > 0


@pytest.mark.skipif(os.environ.get("HYBRID_DEVICE", "cpu") != "cpu" or os.environ.get("HYBRID_CC") == "none",
                    reason="the source printed is C")
def test_demo_says_where_the_source_is(demo: str) -> None:
    assert row(demo, "generated source").endswith(".c")


def test_data_comes_with_its_licence() -> None:
    assert (ROOT / "examples" / "data" / "digits.LICENSE.rst").is_file()


@pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="needs dask[distributed]")
def test_workers_of_dask_load_the_network_once(tmp_path: Path) -> None:
    """Chunks on two processes: MXNet's numbers, and one copy of the network in each."""
    done = subprocess.run([sys.executable, str(ROOT / "examples" / "batch_inference_dask.py"), "--chunk", "24"],
                          cwd=tmp_path, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    found = re.fullmatch(r"338 of 360 digits right; (\d) worker processes, (\d) copies of the network\n", done.stdout)
    assert found is not None and found[1] == found[2] <= "2", done
