"""Six kinds of networks as C by many compilers: no warnings, Python's bits, Python's speed, nothing for sanitizers; and
25 epochs of training in C."""
from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import nd
from hybrid.export import _flags, export_c, load_weights
from hybrid.gluon import nn
from hybrid.gluon.model_zoo import vision

from ..c_tools import STRICT, build, check_for_msvc, run_example
from .test_export_c import Encoder, lenet
from ..paths import DATA

pytestmark = [pytest.mark.thorough, pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")]


def _mlp() -> nn.HybridSequential:
    net = nn.HybridSequential()
    net.add(nn.Dense(256, activation="relu"), nn.Dense(128, activation="tanh"), nn.Dense(2))
    return net


def _bert() -> nn.HybridSequential:
    net = nn.HybridSequential()
    net.add(nn.Embedding(100, 64), Encoder(64), Encoder(64), nn.Dense(64, flatten=False, activation="tanh"))
    return net


def _lstm() -> nn.HybridSequential:
    net = nn.HybridSequential()
    net.add(mx.gluon.rnn.LSTM(32, num_layers=2, layout="NTC"), nn.Dense(5))
    return net


NETWORKS: dict[str, tuple[Callable[[], Any], tuple[int, ...], str]] = {
    "lenet": (lenet, (4, 1, 28, 28), "float32"), "mlp": (_mlp, (1, 512), "float32"),
    "resnet18": (vision.resnet18_v1, (1, 3, 64, 64), "float32"),
    "mobilenet": (vision.mobilenet_v2_1_0, (1, 3, 64, 64), "float32"), "bert": (_bert, (2, 32), "int32"),
    "lstm": (_lstm, (2, 16, 8), "float32")}


class Exported:
    """A network, what Python's compiled call gives, and its C, vectors and plain."""

    def __init__(self, kind: str, folder: Path):
        make, shape, dtype = NETWORKS[kind]
        self.kind = kind
        draw = np.random.RandomState(3)
        x = draw.randint(0, 100, shape) if dtype == "int32" else draw.randn(*shape)
        self.x, self.folder, self.net = nd.array(x, dtype=dtype), folder, make()
        mx.random.seed(1)
        self.net.initialize(mx.init.Xavier())
        self.net(self.x)
        self.net.export_c(folder, self.x, name="net")
        self.net.export_c(folder / "plain", self.x, name="net", plain=True)
        self.net.hybridize()
        self.wanted = self.net(self.x).asnumpy()

    def run(self, program: str = "example", folder: Path | None = None, threads: int = 1) -> np.ndarray:
        (got,) = run_example(folder or self.folder, "net", [self.x], [self.wanted], threads, program)
        return got

    def near(self, got: np.ndarray) -> None:
        np.testing.assert_allclose(got, self.wanted, rtol=0, atol=1e-5 * float(np.abs(self.wanted).max()))


@pytest.fixture(scope="module", params=sorted(NETWORKS))
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    return Exported(request.param, tmp_path_factory.mktemp(request.param))


def test_gcc_gives_the_same_bits(exported: Exported) -> None:
    build(exported.folder, "net.c", "example.c", flags=tuple(_flags().split()))
    for threads in (1, 2):
        got = exported.run(threads=threads)
        if threads == mx.base.config.num_threads() or "hy_run(hy, k" not in (exported.folder / "net.c").read_text():
            assert np.array_equal(got.view(np.uint32), exported.wanted.view(np.uint32))
        exported.near(got)


@pytest.mark.parametrize("cc", ["clang", "g++", "tcc"])
def test_other_compilers(exported: Exported, cc: str) -> None:
    if shutil.which(cc) is None:
        pytest.skip(f"needs {cc}")
    folder = exported.folder / "plain" if cc == "tcc" else exported.folder
    if cc == "clang":
        build(exported.folder / "plain", "net.c", "example.c", cc=cc, flags=("-O2",), out="other_plain")
        exported.near(exported.run("other_plain", exported.folder / "plain"))
    flags = {"clang": ("-O2", "-march=native"), "g++": ("-O2", "-march=native", "-x", "c++"), "tcc": ()}[cc]
    out = "other_" + cc.replace("+", "p")
    build(folder, "net.c", "example.c", cc=cc, flags=flags, out=out)
    exported.near(exported.run(out, folder))


def test_aarch64(exported: Exported) -> None:
    if not all(map(shutil.which, ("aarch64-linux-gnu-gcc", "qemu-aarch64"))):
        pytest.skip("needs aarch64-linux-gnu-gcc and qemu-aarch64")
    build(exported.folder, "net.c", "example.c", cc="aarch64-linux-gnu-gcc", flags=("-O2", "-static"), out="arm.elf")
    (exported.folder / "arm").write_text('#!/bin/sh\nexec qemu-aarch64 ./arm.elf "$@"\n')
    (exported.folder / "arm").chmod(0o755)
    exported.near(exported.run("arm"))


def test_emscripten(exported: Exported, monkeypatch: pytest.MonkeyPatch) -> None:
    """WebAssembly with SIMD, in Node.js. WASM_ASYNC_COMPILATION=0: Node.js reads the module as a file, not by fetch."""
    if not all(map(shutil.which, ("emcc", "node"))):
        pytest.skip("needs emcc and node")
    monkeypatch.setenv("NODE_PATH", os.environ.get("NODE_PATH", "/usr/share/nodejs"))       # Debian's acorn
    build(exported.folder, "net.c", "example.c", cc="emcc", out="wasm.js", flags=(
        "-O2", "-msimd128", "-DNET_NO_THREADS", *(w for s in ("NODERAWFS=1", "WASM_ASYNC_COMPILATION=0",
                                                              "ALLOW_MEMORY_GROWTH=1") for w in ("-s", s))))
    (exported.folder / "wasm").write_text('#!/bin/sh\nexec node wasm.js "$@"\n')
    (exported.folder / "wasm").chmod(0o755)
    exported.near(exported.run("wasm"))


@pytest.mark.parametrize("plain", [False, True])
def test_mingw_under_wine(exported: Exported, plain: bool) -> None:
    if not all(map(shutil.which, ("x86_64-w64-mingw32-gcc", "wine"))):
        pytest.skip("needs x86_64-w64-mingw32-gcc and wine")
    folder = exported.folder / "plain" if plain else exported.folder
    build(folder, "net.c", "example.c", cc="x86_64-w64-mingw32-gcc", flags=("-O2", "-static"), out="mingw.exe")
    (folder / "mingw").write_text('#!/bin/sh\nexec wine ./mingw.exe "$@" 2>/dev/null\n')
    (folder / "mingw").chmod(0o755)
    exported.near(exported.run("mingw", folder))


def test_the_plain_form_has_the_syntax_of_msvc(exported: Exported) -> None:
    if shutil.which("clang") is None:
        pytest.skip("needs clang")
    check_for_msvc(exported.folder / "plain", "net.c", "example.c")


@pytest.mark.parametrize("target", ["x86_64-windows-gnu", "aarch64-macos", "x86_64-macos"])
def test_zig_compiles_for_other_systems(exported: Exported, target: str) -> None:
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("needs ziglang (pip install ziglang)")
    done = subprocess.run([sys.executable, "-m", "ziglang", "cc", "-target", target, "-std=c11", "-O1", "-Wall",
                           "-Wextra", "-Werror", "net.c", "example.c", "-o", f"{target}.exe"], cwd=exported.folder,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:2000]
    if "windows" in target and shutil.which("wine") is not None:
        (exported.folder / "windows").write_text(f'#!/bin/sh\nexec wine ./{target}.exe "$@" 2>/dev/null\n')
        (exported.folder / "windows").chmod(0o755)
        exported.near(exported.run("windows"))


def test_sanitizers_find_nothing(exported: Exported) -> None:
    build(exported.folder, "net.c", "example.c", flags=("-O1", "-g", "-march=native", "-fsanitize=address,undefined",
                                                        "-fno-sanitize-recover=all"), out="checked")
    exported.near(exported.run("checked"))


def test_a_library_is_small(exported: Exported) -> None:
    subprocess.run(["gcc", "-std=c11", *_flags().split(), "-fPIC", "-shared", "-s", "net.c", "-o", "libnet.so", "-lm",
                    "-lpthread"], cwd=exported.folder, check=True)
    assert (exported.folder / "libnet.so").stat().st_size < 300_000
    needed = subprocess.run(["readelf", "-d", "libnet.so"], cwd=exported.folder, capture_output=True, text=True).stdout
    assert {w.split("[")[1].split("]")[0].split(".")[0] for w in needed.splitlines() if "NEEDED" in w} <= {
        "libc", "libm", "libpthread"}


TIMED = """
#include "net.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int main(int argc, char **argv) {
  int error, calls = atoi(argv[1]);
  net_model *m = net_load("net.weights", &error);
  if (!m || argc < 2 || net_set_threads(m, atoi(argv[2]))) return 1;
  void *x = calloc(net_inputs[0].bytes + 64, 1), *y = malloc(net_outputs[0].bytes + 64);
  void *w = malloc(net_workspace_bytes(m));
  FILE *file = fopen("in0.bin", "rb");
  if (!file || fread(x, 1, net_inputs[0].bytes, file) != net_inputs[0].bytes) return 2;
  fclose(file);
  const void *inputs[] = {x};
  void *outputs[] = {y};
  double best = 1e9;
  for (int i = 0; i < calls; i++) {
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    if (net_run_in(m, w, inputs, outputs)) return 3;
    clock_gettime(CLOCK_MONOTONIC, &b);
    const double t = (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
    if (t < best) best = t;
  }
  printf("%.9f\\n", best);
  net_free(m);
  return 0;
}
"""


def test_it_is_as_fast_as_pythons_call(exported: Exported) -> None:
    """The least of many times, in turns."""
    (exported.folder / "timed.c").write_text(TIMED)
    build(exported.folder, "net.c", "timed.c", flags=(*_flags().split(), "-D_POSIX_C_SOURCE=200809L"), out="timed")
    exported.x.asnumpy().tofile(exported.folder / "in0.bin")
    threads = str(mx.base.config.num_threads())
    mine, pythons = [], []
    for _ in range(12):
        done = subprocess.run(["./timed", "60", threads], cwd=exported.folder, capture_output=True, text=True,
                              check=True)
        mine.append(float(done.stdout))
        for _ in range(60):
            begin = time.perf_counter()
            exported.net(exported.x)
            pythons.append(time.perf_counter() - begin)
        if len(mine) > 3 and min(mine) <= 1.05 * min(pythons):
            break
    print(f"{min(mine) * 1e6:.1f} us in C, {min(pythons) * 1e6:.1f} us from Python: {min(mine) / min(pythons):.3f}")
    assert min(mine) <= 1.05 * min(pythons)


LEARN = """
#include "learner.h"
#include <stdio.h>
#include <stdlib.h>
int main(void) {
  int error;
  learner_model *m = learner_load("learner.weights", &error);
  static float x[44][32 * 784], y[44][32], loss;
  FILE *a = fopen("x.bin", "rb"), *b = fopen("y.bin", "rb");
  if (!m || !a || !b || fread(x, 1, sizeof x, a) != sizeof x || fread(y, 1, sizeof y, b) != sizeof y) return 1;
  if (learner_set_threads(m, @THREADS@)) return 2;
  for (int epoch = 0; epoch < 25; epoch++)
    for (int i = 0; i < 44; i++) if (learner_step(m, x[i], y[i], 0.05, &loss)) return 3;
  printf("%.6f\\n", (double)loss);
  fclose(a), fclose(b);
  error = learner_save(m, "learned.weights");
  learner_free(m);
  return error;
}
"""


def test_25_epochs_of_the_digits_in_c(tmp_path: Path) -> None:
    """Parameters that Python's compiled step has, bit for bit, and so its accuracy."""
    with np.load(DATA / "digits.npz") as f:
        images = next(f[n] for n in f if f[n].size >= 1797 * 64).reshape(-1, 8, 8)
        labels = next(f[n] for n in f if f[n].size == 1797).reshape(-1)
    wide = np.pad(images.astype(np.float32).repeat(3, 1).repeat(3, 2) / 16, ((0, 0), (2, 2), (2, 2)))[:, None]
    x, y = wide[:1408].reshape(44, 32, 1, 28, 28), labels[:1408].astype(np.float32).reshape(44, 32)
    mx.random.seed(4)
    net = lenet()
    net.initialize(mx.init.Xavier())
    net(nd.array(x[0]))
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.05, "momentum": 0.9})
    loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()

    def step(data: Any, label: Any) -> Any:
        with mx.autograd.record():
            loss = loss_of(net(data), label).mean()
        loss.backward()
        trainer.step(1)
        return loss
    export_c(step, tmp_path, nd.array(x[0]), nd.array(y[0]), name="learner")
    x.tofile(tmp_path / "x.bin")
    y.tofile(tmp_path / "y.bin")
    (tmp_path / "learn.c").write_text(LEARN.replace("@THREADS@", str(mx.base.config.num_threads())))
    subprocess.run(["gcc", *STRICT, *_flags().split(), "learner.c", "learn.c", "-o", "learn", "-lm", "-lpthread"],
                   cwd=tmp_path, check=True)
    done = subprocess.run(["./learn"], cwd=tmp_path, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done
    compiled = mx.hybridize(step)
    batches = [(nd.array(a), nd.array(b)) for a, b in zip(x, y)]
    for _ in range(25):
        for a, b in batches:
            compiled(a, b)
    mine = {k: p.data().asnumpy() for k, p in net._collect_params_with_prefix().items()}
    arrays = load_weights(tmp_path / "learned.weights")
    assert int(arrays["hybrid.updates"]) == 25 * 44
    for p in net.collect_params().values():
        assert np.array_equal(p.data().asnumpy().view(np.uint32), arrays[p.name].view(np.uint32)), p.name

    def right() -> int:
        return int((net(nd.array(wide[-360:])).asnumpy().argmax(1) == labels[-360:]).sum())
    pythons = right()
    load_weights(tmp_path / "learned.weights", trainer)
    print(f"{right()} of 360 digits after 25 epochs in C, {pythons} in Python")
    assert right() == pythons >= 310 and all(np.array_equal(v, p.data().asnumpy()) for (k, v), p in zip(
        mine.items(), net._collect_params_with_prefix().values()))
