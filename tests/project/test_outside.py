"""Another package adds an elementwise function, a reduction, a contraction, a schedule and a target to hybrid, each in
one place and without a change of a file of ours (tests/outside/hybrid_extras). Everything else follows."""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ..paths import TESTS

OUTSIDE = TESTS / "outside"

CALLS = """
import json, sys
import numpy as np
import hybrid as mx
import hybrid_extras
from hybrid import autograd, nd
ctx = mx.gpu(0) if sys.argv[1] == "cuda" else mx.cpu()
rng = np.random.default_rng(0)
def array(*shape):
    return nd.array(rng.uniform(0.5, 2, shape).astype("float32"), ctx=ctx)
x, rows, data, weight = array(40, 300), array(30, 257), array(6, 3, 20), array(3, 20, 33)
calls = {
    "bump": (lambda x: nd.bump(x, width=2), lambda x: np.exp(-(x / 2) ** 2), [x]),
    "vector_length": (lambda x: nd.vector_length(x), lambda x: np.sqrt((x * x).sum(-1)), [rows]),
    "long vector_length": (lambda x: nd.vector_length(x, axis=0) * 2, lambda x: 2 * np.sqrt((x * x).sum(0)), [rows]),
    "grouped_dense": (nd.grouped_dense, lambda d, w: np.einsum("bgk,gkn->bgn", d, w), [data, weight])}
out = {}
for name, (f, exact, given) in calls.items():
    wide = [a.asnumpy().astype("float64") for a in given]
    want = exact(*wide)
    compiled = mx.hybridize(f)
    for a in given:
        a.attach_grad()
    with autograd.record():
        y = compiled(*given)
    y.backward()
    grads = []
    for i, a in enumerate(given):                        # one element of the gradient by a difference
        at, h = (1,) * a.ndim, 1e-6
        up = [w.copy() for w in wide]
        up[i][at] += h
        grads.append(abs(float((exact(*up) - want).sum() / h) - float(a.grad.asnumpy()[at])))
    out[name] = [float(abs(f(*given).asnumpy() - want).max()), float(abs(compiled(*given).asnumpy() - want).max()),
                 max(grads), list(y.shape) == list(want.shape)]
some, length = mx.hybridize(lambda x: nd.slice_axis(x, axis=0, begin=5, end=20)), mx.hybridize(nd.vector_length)
assert np.array_equal(some(rows).asnumpy(), rows.asnumpy()[5:20])
length(rows)
out["forms"] = [[k.form, dict(k.not_taken).get("memcpy", "")] for f in (some, length) for k in f.report().kernels]
print(json.dumps(out))
"""


def run(code: str, *args: str, **env: str) -> Any:
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "PYTHONPATH": str(OUTSIDE), **env})
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("target", ["c", "cuda"])
def test_operators_of_another_package(target: str, tmp_path: Path) -> None:
    out = run(CALLS, target, HYBRID_CUDA="emulator", HYBRID_CACHE=str(tmp_path))
    forms = out.pop("forms")
    for name, (eager, compiled, gradient, shape) in out.items():
        assert eager < 1e-4 and compiled < 1e-4 and gradient < 2e-2 and shape, (name, eager, compiled, gradient)
    if target == "c":
        assert ["memcpy", ""] in forms and any(why == "more than a copy of rows" for _, why in forms)


def test_help_and_stub_follow() -> None:
    out = run("import hybrid_extras, json\nfrom hybrid import nd, sym\nfrom hybrid.stubs import operator_files as o\n"
              "texts = o.texts()\n"
              "print(json.dumps([nd.bump.__doc__, str(callable(sym.bump)), "
              "[n for n, t in texts.items() if 'def bump(' in t]]))")
    assert "exp(-(x / width)²)." in out[0] and "width" in out[0] and out[1] == "True" and len(out[2]) >= 2


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_a_target_of_another_package(tmp_path: Path) -> None:
    cc = tmp_path / "narrow-cc"
    cc.write_text('#!/bin/sh\nexec gcc "$@"\n')
    cc.chmod(0o755)
    code = ("import hybrid_extras, json, hybrid as mx\nfrom hybrid.runtime import toolchain\n"
            "f = mx.hybridize(lambda x: mx.nd.softmax(x))\ny = f(mx.nd.ones((4, 64)))\n"
            "print(json.dumps([toolchain.target().name, toolchain.vector_bytes(), float(y.sum().asscalar()), "
            "'HYV_' in f.report().source]))")
    assert run(code, HYBRID_CC=str(cc), HYBRID_CACHE=str(tmp_path / "cache")) == ["narrow C", 4, 4.0, False]
