"""Exported networks whose sizes a call gives: results, error codes, and what cannot have such sizes."""
from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import nd
from hybrid.export import export_c
from hybrid.export.__main__ import main
from hybrid.gluon import nn

from ..gluon import golden_models
from ..c_tools import build
from .test_export_c import Encoder

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
FAST = ("-O1", "-march=native")
CHECKED = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def called(folder: Path, sizes: tuple[int, ...], *inputs: Any, program: str = "example",
           threads: int = 1) -> subprocess.CompletedProcess[str]:
    for i, x in enumerate(inputs):
        x.tofile(folder / f"in{i}.bin")
    return subprocess.run([f"./{program}", "net.weights", str(threads), *map(str, sizes),
                           *(f"in{i}.bin" for i in range(len(inputs))), "out.bin"], cwd=folder, capture_output=True,
                          text=True)


def same(folder: Path, net: Any, sizes: tuple[int, ...], *inputs: np.ndarray, **how: Any) -> None:
    """A call in C gives what one in Python gives."""
    done = called(folder, sizes, *inputs, **how)
    assert done.returncode == 0, done
    wanted = net(*(nd.array(x, dtype=x.dtype) for x in inputs)).asnumpy()
    got = np.fromfile(folder / "out.bin", wanted.dtype).reshape(wanted.shape)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5 * float(np.abs(wanted).max()))


def _convolutions() -> nn.HybridSequential:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(6, 3, activation="relu", in_channels=1), nn.BatchNorm(in_channels=6), nn.MaxPool2D(2, 2),
            nn.Flatten(), nn.Dense(7, activation="tanh"), nn.Dense(5))
    net.initialize(mx.init.Xavier())
    net(nd.ones((1, 1, 12, 12)))
    return net


@pytest.mark.parametrize("plain, flags", [(False, FAST), (True, CHECKED), pytest.param(
    False, (*FAST, *CHECKED), marks=pytest.mark.thorough)])
def test_any_batch(tmp_path: Path, plain: bool, flags: tuple[str, ...]) -> None:
    """From one row on, without a wrong address; sizes out of range are an error code."""
    net = _convolutions()
    net.export_c(tmp_path, ("batch", 1, 12, 12), name="net", plain=plain)
    build(tmp_path, "net.c", "example.c", flags=flags)
    for n in (1, 2, 3, 8, 37):
        same(tmp_path, net, (n,), np.random.RandomState(n).randn(n, 1, 12, 12).astype(np.float32), threads=1 + n % 2)
    for n in (0, -1, 1 << 40):
        assert "not made for sizes like these" in called(tmp_path, (n,)).stderr
    header = (tmp_path / "net.h").read_text()
    assert "int net_run(const net_model *model, int64_t n_batch, const void *const *inputs" in header


def test_convolutions_of_any_number_of_images(tmp_path: Path) -> None:
    """Strides, groups, one filter a channel, many channels, small images: all of them in vectors, without a wrong
    address."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(32, 3, padding=1, in_channels=16), nn.Conv2D(64, 1, strides=2, activation="relu"),
            nn.Conv2D(64, 3, padding=1, groups=64), nn.Conv2D(64, 3, padding=1, groups=8), nn.Conv2D(512, 1),
            nn.Conv2D(64, 3, strides=2, padding=1), nn.Conv2D(64, 3, padding=1, activation="relu"))
    net.initialize(mx.init.Xavier())
    net(nd.ones((1, 16, 14, 14)))
    net.export_c(tmp_path, ("batch", 16, 14, 14), name="net")
    assert len(re.findall(r"/\* convolution [13]x[13]: ", (tmp_path / "net.c").read_text())) == 7
    build(tmp_path, "net.c", "example.c", flags=(*FAST, *CHECKED))
    for n in (1, 2, 5):
        same(tmp_path, net, (n,), np.random.RandomState(n).randn(n, 16, 14, 14).astype(np.float32), threads=1 + n % 2)


def test_few_channels_have_the_forms_of_constant_sizes(tmp_path: Path) -> None:
    """Pixels or filters in lanes, and pools in vectors of a line: of any number of images, nothing is gathered."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(6, 5, padding=2, activation="relu", in_channels=1), nn.MaxPool2D(2, 2), nn.Conv2D(4, 3),
            nn.AvgPool2D(3, 1), nn.Conv2D(3, 3, strides=2, padding=1, activation="tanh"))
    net.initialize(mx.init.Xavier())
    net(nd.ones((1, 1, 28, 28)))
    net.export_c(tmp_path, ("batch", 1, 28, 28), name="net")
    assert "hy_tile_" not in (tmp_path / "net.c").read_text()
    build(tmp_path, "net.c", "example.c", flags=(*FAST, *CHECKED))
    for n in (1, 2, 5):
        same(tmp_path, net, (n,), np.random.RandomState(n).randn(n, 1, 28, 28).astype(np.float32), threads=1 + n % 2)


def test_many_small_images_of_a_constant_size(tmp_path: Path) -> None:
    """The loop that puts them together is shared by threads."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(64, 3, padding=1, activation="relu", in_channels=32))
    net.initialize(mx.init.Xavier())
    x = np.random.RandomState(0).randn(64, 32, 4, 4).astype(np.float32)
    net.export_c(tmp_path, x.shape, name="net")
    build(tmp_path, "net.c", "example.c", flags=FAST)
    same(tmp_path, net, (), x, threads=2)


def test_two_sizes_of_one_input(tmp_path: Path) -> None:
    net = nn.HybridSequential()
    net.add(nn.Embedding(50, 16), Encoder(16), nn.Dense(4, flatten=False, in_units=16))
    net.initialize(mx.init.Xavier())
    net.export_c(tmp_path, ((None, None), "int32"), name="net", plain=True)
    build(tmp_path, "net.c", "example.c", flags=CHECKED)
    for b, n in ((1, 1), (2, 9), (3, 70)):
        same(tmp_path, net, (b, n), np.random.RandomState(n).randint(0, 50, (b, n)).astype(np.int32), threads=2)


def test_one_name_is_one_size(tmp_path: Path) -> None:
    def both(a: Any, b: Any) -> Any:
        return (a + b).sum(axis=1) * 2
    export_c(both, tmp_path, ("rows", 4), ("rows", 4), name="net")
    build(tmp_path, "net.c", "example.c", flags=FAST)
    a = np.arange(20, dtype=np.float32).reshape(5, 4)
    same(tmp_path, both, (5,), a, a[::-1])
    with pytest.raises(mx.MXNetError, match=r"n0, n1 open \(.*== 0\): give numbers"):
        export_c(both, tmp_path, (None, 4), (None, 4), name="net")


def test_code_that_looks_at_a_size_holds_for_the_sizes_that_take_its_way(tmp_path: Path) -> None:
    def net(a: Any) -> Any:
        return a.sum(axis=1) if a.shape[0] > 3 else a.sum(axis=0)
    export_c(net, tmp_path, ("rows", 2), name="net")
    build(tmp_path, "net.c", "example.c", flags=FAST)
    for n in (4, 9):
        same(tmp_path, net, (n,), np.arange(2 * n, dtype=np.float32).reshape(n, 2))
    for n in (1, 3):
        assert "not made for sizes like these" in called(tmp_path, (n,)).stderr


CPP = """
#include "net.hpp"
#include <cstdio>
#include <vector>
int main() {
  net::model model("net.weights", 2);
  std::vector<float> x(3 * 144, 0.5f), y(15);
  model.run(3, x, y);
  std::printf("%.9g\\n", y[14]);
  int64_t shape[4];
  if (net_output_shape(0, 3, shape) != 2 || shape[0] != 3 || shape[1] != 5) return 2;
  if (net_input_bytes(0, 3) != 3 * 576) return 2;
  if (net_output_shape(1, 3, shape) != -1 || net_output_bytes(0, 0) || net_workspace_bytes(model.get(), 0)) return 3;
  if (net_inputs[0].shape[0] != -1 || net_inputs[0].shape[3] != 12 || net_inputs[0].bytes) return 4;
  try { model.run(4, x, y); } catch (const std::length_error &e) { return std::puts(e.what()) < 0; }
  return 5;
}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_the_header_for_cpp_and_the_tables(tmp_path: Path) -> None:
    net = _convolutions()
    net.export_c(tmp_path, ("batch", 1, 12, 12), name="net", plain=True)
    (tmp_path / "use.cpp").write_text(CPP)
    build(tmp_path, "net.c", "use.cpp", cc="g++", flags=(*FAST, "-x", "c++"), out="use")
    done = subprocess.run(["./use"], cwd=tmp_path, capture_output=True, text=True)
    wanted = float(net(nd.ones((3, 1, 12, 12)) / 2)[2, 4].asscalar())
    assert done.returncode == 0 and "data has 576 elements, got 432" in done.stdout, done
    np.testing.assert_allclose(float(done.stdout.split()[0]), wanted, rtol=1e-4, atol=1e-5)


def test_the_command_line_takes_open_lengths(tmp_path: Path) -> None:
    """A network of MXNet with a label, which is as long as the batch."""
    net, pixels, _, logits = golden_models.lenet(mx.cpu())
    files = [str(golden_models.DATA / f"lenet_digits{end}") for end in ("-symbol.json", "-0025.params")]
    assert main([*files, "--shape", "data=?,1,28,28", "-o", str(tmp_path), "--name", "net"]) == 0
    build(tmp_path, "net.c", "example.c", flags=FAST)
    for n in (1, 20):
        same(tmp_path, net, (n,), pixels[:n].asnumpy())


def test_what_needs_numbers_says_so(tmp_path: Path) -> None:
    net = _convolutions()
    with pytest.raises(mx.MXNetError, match="n_batch: sizes that calls give are for networks in C"):
        net.export_c(tmp_path, ("batch", 1, 12, 12), device=True)
    with pytest.raises(mx.MXNetError, match="a name of lower case letters"):
        net.export_c(tmp_path, ("Batch!", 1, 12, 12))
    with pytest.raises(mx.MXNetError, match="n_batch open .it computes other numbers"):
        export_c(lambda x: x / x.shape[0] ** 0.5, tmp_path, ("batch", 2), name="net")
    with pytest.raises(mx.MXNetError, match="n_batch open"):
        export_c(lambda x: nd.array(np.ones(x.shape)) * x, tmp_path, ("batch", 2), name="net")
