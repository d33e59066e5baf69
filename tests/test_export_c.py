"""Networks as C: what the files give when a compiler builds them, and what damaged weights give."""
from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import pytest

import hybrid as mx
from hybrid import nd
from hybrid.export import _flags, export_c
from hybrid.gluon import nn

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
STRICT = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
LIBRARIES = ["-lm", "-lpthread"]


def build(folder: Path, *sources: str, cc: str = "gcc", flags: tuple[str, ...] = (), out: str = "example") -> Path:
    """Compile without a warning; the program."""
    command = [cc, *(STRICT if cc != "g++" else STRICT[1:]), *flags, *sources, "-o", out, *LIBRARIES]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]
    return folder / out


def run_example(folder: Path, name: str, inputs: list[Any], outputs: list[Any], threads: int = 1,
                program: str = "example") -> list[np.ndarray]:
    """What the example program gives for inputs; outputs: arrays of the shapes and dtypes that are expected."""
    paths = []
    for i, x in enumerate(inputs):
        x.asnumpy().tofile(folder / f"in{i}.bin")
        paths.append(f"in{i}.bin")
    targets = [f"out{i}.bin" for i in range(len(outputs))]
    done = subprocess.run([f"./{program}", f"{name}.weights", str(threads), *paths, *targets], cwd=folder,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [np.fromfile(folder / t, y.dtype).reshape(y.shape) for t, y in zip(targets, outputs)]


def exported(net: Any, folder: Path, name: str, *inputs: Any) -> list[np.ndarray]:
    """Export a network; what Python's compiled call gives."""
    net.initialize(mx.init.Xavier())
    net(*inputs)
    net.export_c(folder, *inputs, name=name)
    net.hybridize()
    y = net(*inputs)
    return [a.asnumpy() for a in (y if isinstance(y, (list, tuple)) else [y])]


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


def test_lenet_gives_the_same_bits(tmp_path: Path) -> None:
    same_bits(lenet(), tmp_path, "lenet", nd.random.normal(shape=(8, 1, 28, 28)), threads=(1, 2))
    text = (tmp_path / "lenet.c").read_text()
    assert "k1_conv_add_relu(" in text and "/* convolution: conv" in text and "#pragma omp parallel" not in text
    assert "GOMP" not in text and "hyv_tanh" not in text                 # what no kernel uses is left out


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
    for (int k = 0; i % 3 && k < 1 + i % 5; k++) copy[draw(i % 2 ? (unsigned)n : header + 8)] = (unsigned char)draw(256);
    mlp *m = mlp_load_bytes(copy, n, &error);
    if (!m != (error != MLP_OK) || !*mlp_error_text(error)) return 2;
    codes[error]++;
    mlp_free(m);
    free(copy);
  }
  for (int i = 0; i < 16; i++) printf("%d ", codes[i]);
  return 0;
}
"""


def test_damaged_weights_are_an_error_code(mlp: Path) -> None:
    (mlp / "fuzz.c").write_text(DRIVER)
    build(mlp, "mlp.c", "fuzz.c", flags=("-O1", "-g", "-march=native", "-fsanitize=address,undefined",
                                         "-fno-sanitize-recover=all"), out="fuzz")
    done = subprocess.run(["./fuzz"], cwd=mlp, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]
    codes = list(map(int, done.stdout.split()))
    assert codes[0] < 300 and sum(c > 0 for c in codes) >= 6, codes      # spaces of the JSON text may change


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
        export_c(net, tmp_path, ("a", 2), name="model")
    with pytest.raises(mx.errors.HybridError, match="shapes of the inputs"):
        export_c(net, tmp_path, name="model")
