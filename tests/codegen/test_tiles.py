"""Tile registers (AMX): products of few bits by them (codegen/printers/convolutions/packed_tiles.py), and by the
model of their instructions in C (kernels/c/tiles.h)."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import nd
from hybrid.contrib import quantization
from hybrid.gluon import nn
from hybrid.runtime import tiles, toolchain

from ..passes.test_low_precision import layer, rounded

pytest.importorskip("ml_dtypes")
pytestmark = pytest.mark.skipif(toolchain.compiler() is None or toolchain.is_clang() or toolchain.vector_bytes() < 16,
                                reason="programs have no products of words by this compiler")
# a vector of filters, two, three and four of them; parts that overlap, that go beyond the last line, that are one
# pixel; rows of tiles of less than 16 words
LAYERS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "one pixel": (lambda: nn.Dense(200, in_units=700), (1, 700)),
    "few pixels": (lambda: nn.Dense(100, in_units=512), (5, 512)),
    "overlap": (lambda: nn.Dense(65, in_units=130), (67, 130)),
    "one vector": (lambda: nn.Dense(16, in_units=256), (150, 256)),
    "three vectors": (lambda: nn.Dense(48, in_units=96), (50, 96)),
    "lines": (lambda: nn.Conv2D(32, 3, padding=1, in_channels=32), (2, 32, 7, 7)),
    "lines inside": (lambda: nn.Conv2D(32, 3, in_channels=32), (1, 32, 9, 13)),
    "parts of a line": (lambda: nn.Conv2D(40, 3, 1, 1, in_channels=16), (1, 16, 3, 83)),
    "strided": (lambda: nn.Conv2D(64, 5, 2, 2, in_channels=16), (1, 16, 21, 39)),
    "strided line": (lambda: nn.Conv2D(64, 1, 2, in_channels=64), (2, 64, 13, 13)),
    "stem": (lambda: nn.Conv2D(64, 7, 2, 3, in_channels=3), (1, 3, 40, 40)),
    "groups": (lambda: nn.Conv2D(64, 3, padding=1, groups=2, in_channels=64), (1, 64, 17, 17)),
    "volume": (lambda: nn.Conv3D(16, 3, padding=1, in_channels=16), (1, 16, 4, 5, 18)),
}


@pytest.fixture
def model(monkeypatch: Any) -> None:
    monkeypatch.setenv("HYBRID_AMX", "model")


def text(net: Any) -> str:
    """The C of a network's program."""
    report = str(net.report())
    return Path(report.split("source: ")[1].split("\n")[0]).read_text()


@pytest.mark.parametrize("name", LAYERS)
def test_the_model_gives_the_sums(name: str, model: None) -> None:
    """Of bfloat16 numbers nothing is rounded but sums."""
    make, shape = LAYERS[name]
    net, x = layer(make), rounded(np.random.default_rng(1).standard_normal(shape))
    eager = net(x).asnumpy()
    if name == "groups":                                  # that precision="bf16" leaves alone
        net.cast("bfloat16")
        x = x.astype("bfloat16")
    net.hybridize(precision="bf16")
    near = 2e-5 if name != "groups" else 2**-7
    np.testing.assert_allclose(net(x).asnumpy().astype("f4"), eager, rtol=near, atol=near * np.abs(eager).max())
    assert "HYT_DOT_BF16(" in text(net)


@pytest.mark.parametrize("units", [16, 70])
def test_sums_of_bytes(units: int, monkeypatch: Any) -> None:
    """By tiles, by their model and by vectors, whole numbers are the same."""
    net = nn.HybridSequential()
    net.add(nn.Dense(units, in_units=260, activation="relu"), nn.Dense(48, in_units=units))
    net.initialize(mx.init.Normal(0.1))
    x = nd.random.normal(shape=(37, 260))
    net(x)
    results = []
    for setting in ("model", "", "0"):
        monkeypatch.setenv("HYBRID_AMX", setting)
        fast = quantization.quantize_net_v2(net, calib_data=[x], calib_mode="naive")
        fast.hybridize()
        results.append(fast(x).asnumpy())
        assert setting != "model" or "tiles" in str(fast.report())
        assert setting != "0" or "HYT_" not in text(fast)
    np.testing.assert_allclose(results[0], results[1], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(results[0], results[2], rtol=0.02, atol=0.02 * np.abs(results[2]).max())


def test_too_small_numbers_are_zero_and_others_stay(model: None) -> None:
    """As the instruction has it: denormals count as 0, infinities and NaN reach the sums of their own row alone."""
    net = layer(lambda: nn.Dense(32, in_units=256, use_bias=False))
    x = np.zeros((40, 256), "f4")
    x[0], x[1, 3], x[2, 3] = 1e-39, np.inf, np.nan
    net.hybridize(precision="bf16")
    y = net(nd.array(x)).asnumpy()
    assert not y[0].any() and not y[3:].any()
    assert np.isinf(y[1]).any() and not np.isfinite(y[1]).any() and np.isnan(y[2]).all()


def test_without_permission_there_are_none(monkeypatch: Any) -> None:
    monkeypatch.delenv("HYBRID_AMX", raising=False)
    monkeypatch.setattr(tiles, "permitted", lambda: False)
    assert not tiles.wanted(sorted(tiles.FEATURES))
    monkeypatch.setattr(tiles, "permitted", lambda: True)
    assert tiles.wanted(sorted(tiles.FEATURES)) and not tiles.wanted(["amx_tile"])
    monkeypatch.setenv("HYBRID_AMX", "0")
    assert not tiles.wanted(sorted(tiles.FEATURES)) and "tiles" not in toolchain.words()


def test_programs_for_other_machines_have_none(model: None, tmp_path: Path) -> None:
    net = layer(lambda: nn.Dense(64, in_units=256))
    net.hybridize(precision="bf16")
    net(nd.ones((64, 256)))
    net.export_c(str(tmp_path), (64, 256))
    assert not any("HYT_" in p.read_text(errors="replace") for p in tmp_path.rglob("*") if p.suffix in (".c", ".h"))
