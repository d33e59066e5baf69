"""Networks as C: what the files give when a compiler builds them, and what damaged weights give."""
from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import pytest

import hybrid as mx
from hybrid import nd
from hybrid.export import _flags, export_c
from hybrid.export.__main__ import main
from hybrid.gluon import nn

from ..gluon import golden_models
from ..c_tools import STRICT, build, check_for_msvc, exported, run_example

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def same_bits(net: Any, folder: Path, name: str, *inputs: Any, threads: tuple[int, ...] = (1,)) -> None:
    wanted = exported(net, folder, name, *inputs)
    build(folder, f"{name}.c", "example.c", flags=tuple(_flags().split()))
    for count in threads:
        for a, b in zip(wanted, run_example(folder, name, list(inputs), wanted, count)):
            assert np.array_equal(a.view(np.uint8), b.view(np.uint8))


def lenet() -> nn.HybridSequential:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(6, 5, activation="relu"), nn.MaxPool2D(2, 2), nn.Conv2D(16, 3, activation="relu"),
            nn.MaxPool2D(2, 2), nn.Flatten(), nn.Dense(84, activation="relu"), nn.Dense(10))
    return net


@pytest.fixture(scope="module")
def mlp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A small network, exported and built."""
    folder = tmp_path_factory.mktemp("mlp")
    net = nn.HybridSequential()
    net.add(nn.Dense(16, activation="tanh", in_units=8), nn.Dense(3, in_units=16))
    x = nd.array(np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8))
    wanted = exported(net, folder, "mlp", x)
    wanted[0].tofile(folder / "wanted.bin")
    build(folder, "mlp.c", "example.c", flags=tuple(_flags().split()))
    (got,) = run_example(folder, "mlp", [x], wanted)
    assert np.array_equal(got, wanted[0])
    yield folder


def test_lenet_reads_the_digits(tmp_path: Path) -> None:
    """A LeNet of MXNet from the command line: Python's bits, MXNet's outputs, a small library, readable text."""
    net, pixels, labels, logits = golden_models.lenet(mx.cpu())
    files = [str(golden_models.DATA / f"lenet_digits{end}") for end in ("-symbol.json", "-0025.params")]
    assert main([*files, "--shape", "data=360,1,28,28", "-o", str(tmp_path), "--name", "lenet"]) == 0
    net.hybridize()
    wanted = net(pixels).asnumpy()
    build(tmp_path, "lenet.c", "example.c", flags=(*_flags().split(), "-s"))
    for threads in (1, 2):
        (got,) = run_example(tmp_path, "lenet", [pixels], [wanted], threads)
        assert int((got.argmax(1) == labels).sum()) == 338
        np.testing.assert_allclose(got, logits, atol=1e-4)
        assert threads != mx.base.config.num_threads() or np.array_equal(got.view(np.uint8), wanted.view(np.uint8))
    assert (tmp_path / "example").stat().st_size < 300_000
    text = (tmp_path / "lenet.c").read_text()
    assert "_conv_add" in text and "/* convolution 5x5: " in text and "#pragma omp parallel" not in text
    assert "GOMP" not in text and "hyv_erf" not in text                  # what no kernel uses is left out


@pytest.mark.parametrize("how", ["clang", "g++", "threads left out"])
def test_other_compilers_build_it_without_warnings(mlp: Path, how: str) -> None:
    cc = how if shutil.which(how) else "gcc"
    extra = ("-DMLP_NO_THREADS",) if how == "threads left out" else ("-x", "c++") if how == "g++" else ()
    out = how.replace(" ", "_").replace("+", "p")
    build(mlp, "mlp.c", "example.c", cc=cc, flags=("-O1", "-march=native", *extra), out=out)
    wanted = np.fromfile(mlp / "wanted.bin", np.float32).reshape(2, 3)
    x = nd.array(np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8))
    (got,) = run_example(mlp, "mlp", [x], [wanted], program=out)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="levels of x86-64")
def test_one_library_has_several_instruction_sets(mlp: Path) -> None:
    for level, march in (("v4", "x86-64-v4"), ("v3", "x86-64-v3"), ("base", "x86-64")):
        build(mlp, "mlp.c", flags=("-O1", "-c", "-DMLP_DISPATCH", f"-DMLP_VARIANT={level}", f"-march={march}"),
              out=f"mlp_{level}.o")
    build(mlp, "mlp.c", "example.c", "mlp_v4.o", "mlp_v3.o", "mlp_base.o", flags=("-O1", "-DMLP_DISPATCH"), out="any")
    build(mlp, "mlp.c", "example.c", flags=("-O1", "-march=x86-64"), out="old")
    wanted = np.fromfile(mlp / "wanted.bin", np.float32).reshape(2, 3)
    x = nd.array(np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8))
    for program in ("any", "old"):
        np.testing.assert_allclose(run_example(mlp, "mlp", [x], [wanted], program=program)[0], wanted, rtol=1e-5,
                                   atol=1e-6)


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake")
@pytest.mark.parametrize("options", [(), ("-DMLP_THREADS=OFF",), pytest.param(("-DMLP_DISPATCH=ON",), marks=(
    pytest.mark.skipif(platform.machine() != "x86_64", reason="levels of x86-64")))], ids=" ".join)
def test_cmake_builds_it(mlp: Path, options: tuple[str, ...], tmp_path: Path) -> None:
    """Library and example; without other instruction sets Python's bits."""
    for command in (["cmake", "-S", str(mlp), "-B", str(tmp_path), "-DCMAKE_C_COMPILER=gcc", *options],
                    ["cmake", "--build", str(tmp_path)]):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0 and "warning" not in (done.stdout + done.stderr).lower(), done
    wanted = np.fromfile(mlp / "wanted.bin", np.float32).reshape(2, 3)
    (mlp / "by_cmake").unlink(missing_ok=True)
    (mlp / "by_cmake").symlink_to(tmp_path / "example")
    x = nd.array(np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8))
    (got,) = run_example(mlp, "mlp", [x], [wanted], program="by_cmake")
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
    assert options == ("-DMLP_DISPATCH=ON",) or np.array_equal(got, wanted)
    assert (tmp_path / "libmlp.a").is_file()


DRIVER = """
#include "mlp.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static unsigned char bytes[1 << 20];
static unsigned state = 1;
static unsigned draw(unsigned n) { state = state * 1664525u + 1013904223u; return (state >> 8) % n; }
int main(void) {
  FILE *file = fopen("mlp.weights", "rb");
  const size_t size = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  const unsigned header = bytes[0] + 256u * bytes[1];
  int codes[32] = {0}, error;
  mlp_free(mlp_load_bytes(bytes, size, &error));
  if (error) return 1;
  for (int i = 0; i < 6000; i++) {
    const size_t n = i % 3 == 0 ? draw((unsigned)size) : size + (i % 3 == 1 ? draw(9) : 0);
    unsigned char *copy = malloc(n + !n);
    for (size_t k = 0; k < n; k++) copy[k] = k < size ? bytes[k] : 'x';
    for (int k = 0; i % 3 && k < 1 + i % 5; k++)
      copy[draw(i % 2 ? (unsigned)n : header + 8)] = (unsigned char)draw(256);
    mlp_model *m = mlp_load_bytes(copy, n, &error);
    if (!m != (error != MLP_OK) || !*mlp_error_text(error)) return 2;
    codes[error]++;
    mlp_free(m);
    free(copy);
  }
  for (int i = 0; i < 16; i++) printf("%d ", codes[i]);
  return 0;
}
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for huge pages")
@pytest.mark.parametrize("flags", [(), ("-D_POSIX_C_SOURCE=200809L",), ("-D_GNU_SOURCE",)])
def test_large_weights_lie_in_huge_pages_whatever_the_builder_defines(tmp_path: Path, flags: tuple[str, ...]) -> None:
    net = nn.Dense(1024, in_units=1024)
    net.initialize()
    net.export_c(tmp_path, (1, 1024), name="net")
    subprocess.run(["gcc", *STRICT, *flags, "-c", "net.c"], cwd=tmp_path, check=True)
    assert "madvise" in subprocess.run(["nm", "-u", "net.o"], cwd=tmp_path, capture_output=True, text=True).stdout


def test_damaged_weights_are_an_error_code(mlp: Path) -> None:
    (mlp / "fuzz.c").write_text(DRIVER)
    build(mlp, "mlp.c", "fuzz.c", flags=("-O1", "-g", "-march=native", "-fsanitize=address,undefined",
                                         "-fno-sanitize-recover=all"), out="fuzz")
    done = subprocess.run(["./fuzz"], cwd=mlp, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]
    codes = list(map(int, done.stdout.split()))
    assert codes[0] < 300 and sum(c > 0 for c in codes) >= 6, codes      # spaces of the JSON text may change


def test_valgrind_finds_nothing(mlp: Path) -> None:
    if shutil.which("valgrind") is None:
        pytest.skip("needs valgrind")
    build(mlp, "mlp.c", "example.c", flags=("-O1", "-g"), out="checked")
    checks = ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full"]
    done = subprocess.run([*checks, "./checked", "mlp.weights", "2"], cwd=mlp, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:2000]


def test_weights_of_another_model_are_refused(mlp: Path, tmp_path: Path) -> None:
    net = nn.HybridSequential()
    net.add(nn.Dense(16, activation="relu", in_units=8), nn.Dense(3, in_units=16))
    exported(net, tmp_path, "mlp", nd.ones((2, 8)))
    for weights, said in ((str(tmp_path / "mlp.weights"), "of another model"), ("none", "cannot be opened")):
        done = subprocess.run(["./example", weights], cwd=mlp, capture_output=True, text=True)
        assert done.returncode == 1 and said in done.stderr


def test_names_and_inputs_are_checked(tmp_path: Path) -> None:
    net = nn.Dense(3, in_units=2)
    net.initialize()
    for name in ("while", "A", "hy_model", "1a", "a-b"):
        with pytest.raises(ValueError, match="name of an exported model"):
            export_c(net, tmp_path, (1, 2), name=name)
    with pytest.raises(ValueError, match="shapes like"):
        export_c(net, tmp_path, (0.5, 2), name="model")
    with pytest.raises(ValueError, match="shapes like"):
        export_c(net, tmp_path, ("a", 0), name="model")
    with pytest.raises(mx.errors.HybridError, match="shapes of the inputs"):
        export_c(net, tmp_path, name="model")


class Encoder(mx.gluon.HybridBlock):
    """A layer of a transformer's encoder."""

    def __init__(self, units: int = 32, heads: int = 4):
        super().__init__()
        self.heads = heads
        with self.name_scope():
            self.mix = nn.Dense(3 * units, flatten=False)
            self.out, self.up, self.down = (nn.Dense(n, flatten=False) for n in (units, 2 * units, units))
            self.first, self.second, self.gelu = nn.LayerNorm(), nn.LayerNorm(), nn.GELU()

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        q, k, v = (F.transpose(F.reshape(p, (0, 0, self.heads, -1)), (0, 2, 1, 3))
                   for p in F.split(self.mix(x), 3, axis=2))
        weights = F.softmax(F.linalg_gemm2(q, k, transpose_b=True) * 0.35)
        mixed = F.reshape(F.transpose(F.linalg_gemm2(weights, v), (0, 2, 1, 3)), (0, 0, -1))
        x = self.first(x + self.out(mixed))
        return self.second(x + self.down(self.gelu(self.up(x))))


class Text(mx.gluon.HybridBlock):
    """Words, an encoder, a recurrent layer; two results."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.words, self.encoder = nn.Embedding(50, 32), Encoder()
            self.lstm, self.last = mx.gluon.rnn.LSTM(16, layout="NTC"), nn.Dense(3)

    def hybrid_forward(self, F: Any, tokens: Any) -> Any:  # noqa: N803
        x = self.encoder(self.words(tokens))
        return x, self.last(self.lstm(x))


def test_attention_and_recurrent_layers_give_the_same_bits(tmp_path: Path) -> None:
    tokens = nd.array(np.arange(48).reshape(2, 24) % 50, dtype="int32")
    same_bits(Text(), tmp_path, "text", tokens, threads=(1, 3))
    assert 'text_inputs[] = {\n  {"data", TEXT_INT32, 2,' in (tmp_path / "text.c").read_text()


def test_several_threads_give_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers large enough for threads: parallel loops, several calls at the same time, and a workspace of the
    caller's."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(16, 3, padding=1, activation="relu"), nn.Conv2D(16, 3, padding=1, strides=2), nn.BatchNorm(),
            nn.Flatten(), nn.Dense(256, activation="relu"), nn.Dense(10))
    x = nd.random.normal(shape=(2, 8, 40, 40))
    wanted = exported(net, tmp_path, "net", x)
    assert "hy_run(hy, k" in (tmp_path / "net.c").read_text()
    (tmp_path / "many.c").write_text(MANY)
    x.asnumpy().tofile(tmp_path / "x.bin")
    wanted[0].tofile(tmp_path / "y.bin")
    build(tmp_path, "net.c", "many.c", flags=tuple(_flags().split()), out="many")
    done = subprocess.run(["./many"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "128 calls\n"), done
    build(tmp_path, "net.c", "many.c", flags=("-O1", "-g", "-march=native", "-DLOOSE", "-fsanitize=thread"), out="many")
    done = subprocess.run(["./many"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "128 calls\n"), done


MANY = """
#include "net.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef LOOSE                             /* another compiler's flags give other last digits */
#define SIZE 0
#else
#define SIZE sizeof y
#endif
static float x[2 * 8 * 40 * 40], wanted[20];
static net_model *model;
static void *call(void *given) {
  float y[20];
  const void *inputs[] = {x};
  void *outputs[] = {y}, *workspace = malloc(net_workspace_bytes(model) + 8);
  (void)given;
  for (int i = 0; i < 2; i++) {
    if (net_run_in(model, (char *)workspace + 8 * (i & 1), inputs, outputs) || memcmp(y, wanted, SIZE)) exit(3);
  }
  free(workspace);
  return NULL;
}
int main(void) {
  FILE *a = fopen("x.bin", "rb"), *b = fopen("y.bin", "rb");
  if (!a || !b || fread(x, 1, sizeof x, a) != sizeof x || fread(wanted, 1, sizeof wanted, b) != sizeof wanted) return 1;
  fclose(a), fclose(b);
  int error;
  model = net_load("net.weights", &error);
  if (!model || net_set_threads(model, 3)) return 2;
  pthread_t threads[64];
  for (int i = 0; i < 64; i++) if (pthread_create(&threads[i], NULL, call, NULL)) return 4;
  for (int i = 0; i < 64; i++) pthread_join(threads[i], NULL);
  float y[20];
  const void *inputs[] = {x};
  void *outputs[] = {x}, *none[] = {NULL};
  if (net_run(model, inputs, outputs) != NET_ERROR_OVERLAP) return 5;
  if (net_run(model, inputs, none) != NET_ERROR_ARGUMENT) return 5;
  outputs[0] = y;
  if (net_run(NULL, inputs, outputs) != NET_ERROR_ARGUMENT || net_set_threads(model, 0) != NET_ERROR_ARGUMENT) return 6;
  net_free(model);
  printf("128 calls\\n");
  return 0;
}
"""


CPP = """
#include "mlp.hpp"
#include <array>
#include <cstdio>
int main() {
  std::vector<float> x(16);
  for (int i = 0; i < 16; i++) x[i] = i / 7.5f - 1;
  std::array<float, 6> y{};
  mlp::model model("mlp.weights", 1);
  model.run(x, y);
  std::printf("%.9g\\n", y[0]);
  try { model.run(std::vector<float>(3), y); } catch (const std::length_error &e) { std::puts(e.what()); }
  try { mlp::model other("none"); } catch (const mlp::error &e) {
    std::puts(e.what());
    return e.code() != MLP_ERROR_FILE;
  }
}
"""


def test_the_header_for_cpp_has_spans_and_exceptions(mlp: Path) -> None:
    (mlp / "user.cpp").write_text(CPP)
    done = subprocess.run(["gcc", "-std=c11", "-O1", "-c", "mlp.c"], cwd=mlp)
    build(mlp, "user.cpp", "mlp.o", cc="g++", flags=("-std=c++17",), out="user")
    done = subprocess.run(["./user"], cwd=mlp, capture_output=True, text=True)
    assert done.returncode == 0, done
    number, length, missing = done.stdout.splitlines()
    np.testing.assert_allclose(float(number), np.fromfile(mlp / "wanted.bin", np.float32)[0], rtol=1e-4)
    assert length == "data has 16 elements, got 3" and missing.startswith("none: the file cannot be opened")


@pytest.mark.parametrize("cc", ["gcc", "tcc"])
def test_the_plain_form_needs_no_words_of_gnu(tmp_path: Path, cc: str) -> None:
    if shutil.which(cc) is None:
        pytest.skip(f"needs {cc}")
    net, x = lenet(), nd.random.normal(shape=(1, 1, 28, 28))
    net.initialize(mx.init.Xavier())
    wanted = net(x).asnumpy()
    net.export_c(tmp_path, x, name="lenet", plain=True)
    text = (tmp_path / "lenet.c").read_text()
    outside = re.sub(r"#if [^\n]*__GNUC__.*?#(?:else|endif)", "", text, flags=re.S)
    assert not re.search(r"__attribute__|__builtin|__asm__|\(\{|__extension__|\blong \w+ =", outside)
    if shutil.which("clang"):
        check_for_msvc(tmp_path, "lenet.c", "example.c")
    build(tmp_path, "lenet.c", "example.c", cc=cc, flags=("-O1",) if cc != "tcc" else ())
    (got,) = run_example(tmp_path, "lenet", [x], [wanted])
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
