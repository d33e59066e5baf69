"""BatchNorm's statistics of a convolution on a GPU, from the tiles that its kernel has in registers."""
from __future__ import annotations

import math

import numpy as np
import pytest

from hybrid import gpu as gpu_context, ir
from hybrid.codegen.printers.cuda import mma, shares, warpgroup
from hybrid.ir.kernel import Kernel
from hybrid.passes import channels_last, tile_statistics
from hybrid.passes.differentiate import cotangents
from hybrid.runtime.cuda.emulator import EmulatorDriver
from hybrid.runtime.cuda.program import CudaProgram, planned_for

from .cuda_forms import Form, normal, program
from ..programs import conv
from .cuda_tools import run_program
from .test_cuda_kernels import check

pytestmark = pytest.mark.usefixtures("any_size")


@pytest.fixture
def any_size(cuda_device: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small convolutions store statistics, too, and use the tiles of large ones."""
    monkeypatch.setattr(channels_last, "LEAST_PRODUCTS", 1)
    monkeypatch.setattr(tile_statistics, "LEAST", 1)
    monkeypatch.setattr(mma, "TILES", mma.TILES[:5])


def normed(x: ir.Node, w: ir.Node, b: ir.Node, pad: int = 1, stride: int = 1) -> tuple[ir.Node, ir.Node, ir.Node]:
    """A convolution, normalized by its mean and variance; these as well."""
    y = conv(x, w, b, pad, stride)
    y = ir.cast(y, np.float32)
    count = y.size // y.shape[1]
    mean = ir.reduce("sum", y, (0, 2, 3)) / count
    d = y - ir.reshape(mean, (1, y.shape[1], 1, 1))
    variance = ir.reduce("sum", d * d, (0, 2, 3)) / count
    out = d * ir.reshape(ir.map("rsqrt", variance + 1e-5), (1, y.shape[1], 1, 1))
    return ir.cast(out, x.dtype), mean, variance


def kernels(form: Form) -> list[Kernel]:
    return [k for g in planned_for(program([form])[0], gpu_context(0)).groups for k in g.kernels]


def with_statistics(form: Form) -> list[Kernel]:
    return [k for k in kernels(form) if k.dot is not None and k.sides]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("filters", [64, 40])
def test_of_a_convolution(arch: str, dtype: str, filters: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its kernel stores two numbers for each 16 pixels and filter, and nobody sums its result again."""
    monkeypatch.setattr(EmulatorDriver, "arch", arch)
    if arch == "sm_90a":
        monkeypatch.setattr(warpgroup, "best_cost", lambda p: math.inf)
    form = Form(normed, [normal(2, 16, 12, 14, dtype=dtype), normal(filters, 16, 3, 3, dtype=dtype),
                         normal(filters, dtype=dtype)], tol={"float32": 1e-5, "float16": 1e-2}[dtype])
    (k,) = with_statistics(form)
    assert [n.shape for n, _ in k.sides] == [(2 * 12 * 14 // 16, filters)] * 2
    assert not any(r is k.root for other in kernels(form) for m in other.members for r in m.args if m.prim == "reduce")
    check([form])


@pytest.mark.parametrize("tile", range(5))
def test_each_tile(tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns in the order of the fragments, and in that of operands whose neighbours lie along the depth."""
    monkeypatch.setattr(mma, "TILES", mma.TILES[tile:tile + 1])
    x, b = normal(2, 16, 8, 12), normal(72)
    forms = [Form(lambda x, w, b, pad=pad: normed(x, w, b, pad), [x, normal(72, 16, n, n), b])
             for pad, n in ((0, 1), (1, 3))]
    assert all(with_statistics(form) for form in forms)
    check(forms)


def test_no_digits_are_lost() -> None:
    """The mean is ten thousand times the deviation, where sums of squares would lose them."""
    x = normal(2, 16, 8, 8) * np.float32(1e-3) + 10
    w = np.abs(normal(64, 16, 1, 1))
    form = Form(lambda x, w, b: normed(x, w, b, 0)[2], [x, w, normal(64)])
    assert with_statistics(form)
    y = np.einsum("nchw,oc->nohw", x.astype(np.float64), w[:, :, 0, 0].astype(np.float64))
    for _, (got,), _ in run_program(*program([form])[:2]):
        np.testing.assert_allclose(got, y.var((0, 2, 3)), rtol=2e-2)


def test_two_layers_and_their_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    def step(x: ir.Node, w: ir.Node, b: ir.Node, v: ir.Node, c: ir.Node,
             head: ir.Node) -> tuple[ir.Node, ...]:
        y, *_ = normed(x, w, b)
        z, mean, variance = normed(ir.map("relu", y), v, c, 1, 2)
        return (z, mean, variance, *cotangents([z], [head], [w, v]))
    shapes = (2, 4, 12, 16), (64, 4, 3, 3), (64,), (64, 64, 3, 3), (64,), (2, 64, 6, 8)
    form = Form(step, [normal(*s) for s in shapes], tol=2e-5)
    assert len(with_statistics(form)) == 2                 # also where blocks share the depth in one launch
    check([form])
    monkeypatch.setattr(EmulatorDriver, "processors", 0)
    assert len(with_statistics(form)) == 1


def test_of_tiles_in_equal_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """The block that finishes a tile has the whole sums."""
    monkeypatch.setattr(EmulatorDriver, "processors", property(lambda self: 5))
    monkeypatch.setattr(EmulatorDriver, "arch", "sm_80")
    monkeypatch.setattr(mma, "TILES", mma.TILES[3:4])
    monkeypatch.setattr(shares, "LEAST_GAIN", math.inf)
    monkeypatch.setattr(shares, "LEAST_TIME", 0)
    form = Form(normed, [normal(2, 16, 12, 14), normal(72, 16, 3, 3), normal(72)])
    assert with_statistics(form)
    check([form])
    assert "hy_wait_for((unsigned *)tickets" in CudaProgram(planned_for(program([form])[0], gpu_context(0)),
                                                            gpu_context(0)).report.source


def test_what_keeps_its_sums() -> None:
    """Pixels that do not fill groups of 16, sums without a mean, a function of the result: they get no statistics."""
    x, w, b = normal(2, 16, 9, 7), normal(64, 16, 3, 3), normal(64)
    even = normal(2, 16, 8, 8)
    for fn, data in ((normed, x), (lambda x, w, b: ir.reduce("sum", conv(x, w, b, 1, 1), (0, 2, 3)), even)):
        form = Form(fn, [data, w, b])
        assert not with_statistics(form)
        check([form])
