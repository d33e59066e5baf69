"""Programs that clang compiles compute what eager code computes, with threads and without. Skipped where there is no
clang."""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CLANG = shutil.which("clang")
pytestmark = [pytest.mark.skipif(CLANG is None, reason="needs clang"),
              pytest.mark.skipif(os.environ.get("HYBRID_DEVICE", "cpu") != "cpu", reason="a matter of the CPU")]

PROGRAM = """
import os
import warnings
import numpy as np
import hybrid as mx
from hybrid import autograd, gluon, hybridize, nd
from hybrid.gluon import nn
from hybrid.runtime import toolchain
warnings.simplefilter("error", RuntimeWarning)
np.seterr(all="ignore")
assert toolchain.is_clang()

def table(x, two):
    def pick(c): return nd.slice(c, begin=(0, 0), end=(20, 31), step=(2, 3))
    out = [nd.max(x, axis=0), nd.max(x, axis=1), nd.min(x, axis=0), nd.min(x, axis=1), nd.sum(x, axis=1), nd.prod(x, axis=0), nd.argmax(x, axis=1),
           nd.where(x > 0, x, -x), x > 1, x == x, nd.logical_not(x), x.astype("bool"), nd.clip(x, 0, 1), nd.maximum(x, two), nd.minimum(x, two),
           nd.broadcast_logical_xor(x, two), nd.sort(x, axis=1), nd.argsort(x, axis=0), nd.topk(x, k=3, axis=1), pick(x), nd.transpose(x), nd.tile(x, (2, 1)),
           nd.dot(x, nd.transpose(two)), nd.Pooling(x.reshape((1, 1, 36, 37)), kernel=(2, 2), stride=(2, 2), pool_type="max"), nd.cumsum(x, axis=1), x % 3]
    out += [x.astype(to) for to in ("float32", "float64", "float16", "int32", "int64", "uint8", "int8")]
    return out

def floats(x, two):
    return [nd.softmax(x), nd.log_softmax(x), nd.softmax(x, axis=0), nd.relu(x), nd.exp(x), nd.log(x), nd.tanh(x), nd.sigmoid(x), nd.erf(x), nd.sqrt(x), nd.floor(x),
            nd.rint(x), nd.arctan(x), nd.LayerNorm(x, two[0], two[1]), nd.norm(x, axis=1), nd.LeakyReLU(x, act_type="gelu"), nd.mean(x, axis=1)]

def short(x, two):
    return [nd.max(x, axis=0), nd.min(x, axis=1), nd.prod(x, axis=1), nd.where(x > two, x, -x), x.astype("bool"), nd.maximum(x, two), nd.argmax(x, axis=1), nd.sort(x, axis=1)]

rng = np.random.RandomState(0)
for d in ("float32", "float64", "float16", "int32", "uint8", "int8", "int64"):
    raw = rng.randint(0, 4, (36, 37)) if d[0] != "f" else rng.randn(36, 37)
    x, two = nd.array(raw.astype(d), dtype=d), nd.array(np.roll(raw, 5).astype(d), dtype=d)
    for f in {"float32": (table, floats), "float16": (floats,), "int32": (table,)}.get(d, (short,)):
        for k, (got, want) in enumerate(zip(hybridize(f)(x, two), f(x, two))):
            got, want = got.asnumpy(), want.asnumpy()
            assert got.dtype == want.dtype and got.shape == want.shape, (d, f, k)
            tol = {"float16": 5e-3, "float32": 2e-5}.get(str(got.dtype), 1e-6)
            np.testing.assert_allclose(got.astype("float64"), want.astype("float64"), rtol=tol, atol=tol, err_msg=f"{d} {f.__name__} {k}")
odd = nd.array([[1, np.nan, 3] * 12, [np.inf, -np.inf, -0.0] * 12])
many = lambda x: [nd.max(x, axis=1), nd.min(x, axis=0), nd.maximum(x, 0), nd.where(x > 0, x, -x), nd.relu(x), nd.softmax(x), x == x]
for got, want in zip(hybridize(many)(odd), many(odd)):
    np.testing.assert_array_equal(got.asnumpy(), want.asnumpy())
cut = nd.array([-0.3, 0.3, -1.5, 3e9, np.nan, -np.inf])
there_and_back = lambda x: [1 / x.astype(to).astype("float32") for to in ("int8", "int32", "int64")]
for got, want in zip(hybridize(there_and_back)(cut), there_and_back(cut)):
    np.testing.assert_array_equal(got.asnumpy(), want.asnumpy())
assert nd.softmax(nd.ones((3, 37), dtype="int32")).shape == hybridize(lambda x: nd.softmax(x))(nd.ones((3, 37), dtype="int32")).shape

def trained(compiled):
    mx.random.seed(3)
    net = nn.HybridSequential()
    net.add(nn.Conv2D(8, 3, padding=1, in_channels=3), nn.BatchNorm(in_channels=8), nn.Activation("relu"), nn.MaxPool2D(2), nn.Flatten(), nn.Dense(10, in_units=8 * 16))
    net.initialize(mx.init.Xavier())
    trainer, loss = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01}), gluon.loss.SoftmaxCrossEntropyLoss()
    if compiled:
        net.hybridize()
    x, y = nd.array(np.random.RandomState(1).randn(16, 3, 8, 8)), nd.array(np.arange(16) % 10)
    for _ in range(3):
        with autograd.record():
            error = loss(net(x), y)
        error.backward()
        trainer.step(16)
    return error.asnumpy()
np.testing.assert_allclose(trained(True), trained(False), rtol=1e-3, atol=1e-4)
@mx.hybridize
def wide(x):
    return nd.exp(x).sum(axis=1)
large = nd.array(rng.randn(4096, 300))
np.testing.assert_allclose(wide(large).asnumpy(), np.exp(large.asnumpy()).sum(1), rtol=1e-4)
from hybrid.runtime import threads
has_threads = "-fopenmp" in toolchain.flags(toolchain.compiler())
assert bool(threads._pool and threads._pool[0]) == has_threads
assert not os.path.exists("/proc/self/maps") or "libomp" not in open("/proc/self/maps").read()
print("done", has_threads)
"""  # noqa: E501
WITHOUT = '#!/bin/sh\nfor a in "$@"; do [ "$a" = -fopenmp ] && exit 1; done\nexec {clang} "$@"\n'


@pytest.mark.parametrize("openmp", [True, pytest.param(False, marks=pytest.mark.thorough)], ids=["openmp", "without"])
def test_clang_computes_what_eager_code_does(openmp: bool, tmp_path: Path) -> None:
    cc = CLANG
    if not openmp:
        cc = str(tmp_path / "clang")
        Path(cc).write_text(WITHOUT.format(clang=CLANG))
        Path(cc).chmod(0o755)
    ran = subprocess.run([sys.executable, "-c", PROGRAM],
                         env={**os.environ, "HYBRID_WARM": "", "HYBRID_CC": str(cc),
                              "HYBRID_CACHE": str(tmp_path / "cache"),
                              "HYBRID_NUM_THREADS": "2"},
                         capture_output=True, text=True, check=False, timeout=300)
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert ran.stdout == f"done {openmp}\n"
