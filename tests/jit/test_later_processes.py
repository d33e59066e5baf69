"""What a later process does of that which an earlier one did: it traces each program once, compiles nothing that is
there, and starts no process that compiles where nothing is missing."""
from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from hybrid.runtime import toolchain

pytestmark = pytest.mark.skipif(toolchain.found_compiler() is None, reason="needs a compiler")

COUNTED = """
import json, sys, time
import numpy as np
import hybrid as mx
from hybrid import nd
from hybrid.jit import trace
from hybrid.runtime import background, launcher, shared_objects, worker_start
counts = {"traces": 0, "workers": 0, "texts": 0}

def counted(module, name, what):
    function = getattr(module, name)

    def call(*args, **kwargs):
        counts[what] += 1
        return function(*args, **kwargs)
    setattr(module, name, call)
launcher.do_without()
counted(trace.Hybridized, "_trace", "traces")
counted(background, "_start", "workers")
counted(shared_objects, "_compile", "texts")

def wait(f):
    end = time.time() + 60
    while not any(p.state == "compiled" for p in f.programs) and time.time() < end or not all(
            job.ended.is_set() for job in list(background.queue()._jobs.values())):
        time.sleep(0.02)
"""
SIZES = """
weight = nd.array(np.random.RandomState(0).randn(9, 5).astype("float32"))
f = mx.hybridize(lambda x: nd.softmax(nd.dot(x, weight)) * 3)
found = [float(f(nd.ones((n, 9)) * n).sum().asscalar()) for n in range(1, 9)]
"""
ONE = """
f = mx.hybridize(lambda x: nd.tanh(x) * 2 + nd.softmax(x))
found = [float(f(nd.ones((3, 7)) * i).sum().asscalar()) for i in range(5)]
"""


def process(tmp_path: Path, script: str, wait: bool = False) -> tuple[dict[str, int], Any]:
    """What a process counts that runs a script, and what it finds. wait: until its programs are compiled."""
    end = "\nwait(f)" * wait + "\nprint(json.dumps([counts, found]))"
    env = {k: v for k, v in os.environ.items() if k not in ("HYBRID_VERIFY", "HYBRID_DEBUG", "HYBRID_WARM")}
    env.update(HYBRID_CACHE=str(tmp_path / "cache"), HYBRID_COMPILE="background")
    said = subprocess.run([sys.executable, "-c", textwrap.dedent(COUNTED) + script + end], env=env,
                          capture_output=True, text=True, timeout=100)
    assert said.returncode == 0, said.stderr
    return tuple(json.loads(said.stdout))                # type: ignore[return-value]


@pytest.mark.parametrize("script", [ONE, SIZES], ids=["one size", "sizes"])
def test_a_later_process_compiles_nothing_that_is_there(tmp_path: Path, script: str) -> None:
    first, found = process(tmp_path, script, wait=True)
    assert first["workers"] >= 1
    process(tmp_path, script, wait=True)                 # notes which programs the second call has
    later, again = process(tmp_path, script)
    assert again == pytest.approx(found, rel=1e-5)
    assert later["workers"] == later["texts"] == 0 and later["traces"] <= first["traces"]


def test_a_later_process_traces_one_program_for_all_sizes(tmp_path: Path) -> None:
    first, _ = process(tmp_path, SIZES)
    later, _ = process(tmp_path, SIZES)
    assert (first["traces"], later["traces"]) == (2, 1)
