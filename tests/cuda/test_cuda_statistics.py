"""Reductions that the kernels of products carry on a GPU, from the tiles that they have at hand: BatchNorm's statistics
of a convolution, gradients of biases, and others."""
from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from hybrid import gpu as gpu_context, ir
from hybrid.codegen.printers.cuda import mma, shares, warpgroup
from hybrid.ir.kernel import Kernel
from hybrid.passes import channels_last, tile_statistics
from hybrid.passes.differentiate import cotangents
from hybrid.runtime.cuda.emulator import EmulatorDriver
from hybrid.runtime.cuda.program import CudaProgram, planned_for

from .carried import check_orders, printed_arch  # noqa: F401  the fixture arch
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


@pytest.mark.parametrize("of", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("filters", [64, 40])
def test_of_a_convolution(of: str, dtype: str, filters: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its kernel stores two numbers for each 16 pixels and filter, and nobody sums its result again."""
    monkeypatch.setattr(EmulatorDriver, "arch", of)
    if of == "sm_90a":
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


# ---- of gradients, and of what is computed from results
def dense(x: ir.Node, w: ir.Node, b: ir.Node) -> ir.Node:
    y = ir.dot(x, w, ((x.ndim - 1,), (1,)))
    return y + ir.expand(b, y.shape)


def trained(x: ir.Node, w: ir.Node, b: ir.Node, v: ir.Node, c: ir.Node, head: ir.Node) -> tuple[ir.Node, ...]:
    """Gradients of two layers: the first bias's is the sum of what the second one's data gradient gives."""
    y = dense(ir.map("relu", dense(x, w, b)), v, c)
    return tuple(cotangents([y], [head], [w, b, v, c]))


def layers(rows: int, width: int = 40, dtype: str = "float32") -> list[np.ndarray]:
    shapes = (rows, 24), (width, 24), (width,), (32, width), (32,), (rows, 32)
    return [normal(*s, dtype=dtype) for s in shapes]


def largest(x: ir.Node, w: ir.Node, z: ir.Node) -> tuple[ir.Node, ...]:
    """The greatest and the least of each column of a product's result and another array."""
    y = ir.dot(x, w, ((1,), (0,))) * z
    return y, ir.reduce("max", y, (0,)), ir.reduce("min", y, (0,))


def test_a_gradient_of_a_bias(arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is summed where the gradient of the layer's result is computed: without races, in the same order each time."""
    monkeypatch.setenv("HYBRID_EMU_WATCH", "races")
    form = Form(trained, layers(144))
    (k,) = with_statistics(form)
    assert [n.shape for n, _ in k.sides] == [(9, 40)]
    check_orders(form)


def test_other_reductions(arch: str) -> None:
    """The greatest and the least, with rows and columns that do not fill tiles."""
    form = Form(largest, [normal(48, 32), normal(32, 72), normal(48, 72)], tol=2e-5)
    (k,) = with_statistics(form)
    assert [n.attrs["op"] for n, _ in k.sides] == ["max", "min"]
    check([form])


def computed(x: ir.Node, w: ir.Node, z: ir.Node) -> tuple[ir.Node, ...]:
    """Reductions of what is computed from a product's result and another array."""
    y = ir.dot(x, w, ((2,), (0,))) * z
    return y, ir.reduce("max", y, (0, 1)), ir.reduce("sum", y, (0, 1))


def itself(x: ir.Node, w: ir.Node, z: ir.Node) -> tuple[ir.Node, ...]:
    """Reductions of a product's result."""
    y = ir.dot(x, w, ((2,), (0,)))
    return y * z, ir.reduce("min", y, (0, 1)), ir.reduce("sum", y, (0, 1))


def mean_and_squares(x: ir.Node, w: ir.Node, z: ir.Node) -> tuple[ir.Node, ...]:
    """A mean and a variance."""
    y = ir.dot(x, w, ((2,), (0,)))
    mean = ir.reduce("sum", y, (0, 1)) / (y.shape[0] * y.shape[1])
    d = y - ir.reshape(mean, (1, 1, y.shape[2]))
    return y * z, mean, ir.reduce("sum", d * d, (0, 1))


@pytest.mark.parametrize("fn", [computed, itself, mean_and_squares])
@pytest.mark.parametrize("rows", [(48, 1), (3, 16), (2, 32)])
def test_rows_of_two_axes(fn: Callable[..., tuple[ir.Node, ...]], rows: tuple[int, int],
                          monkeypatch: pytest.MonkeyPatch) -> None:
    """A value whose second axis has as many elements as a tile has rows needs no other shape for its reductions."""
    forms = [Form(fn, [normal(*rows, 32), normal(32, 40), normal(*rows, 40)], tol=2e-5)]
    for of in "sm_80", "sm_86":
        monkeypatch.setattr(EmulatorDriver, "arch", of)
        assert with_statistics(forms[0])
        check(forms)


def test_differences_from_the_means_of_other_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row i minus the mean of column i: that is no variance."""
    monkeypatch.setattr(EmulatorDriver, "arch", "sm_80")

    def crossed(x: ir.Node, w: ir.Node) -> tuple[ir.Node, ...]:
        y = ir.dot(x, w, ((1,), (0,)))
        d = y - ir.reshape(ir.reduce("sum", y, (0,)) / 48, (48, 1))
        return d, ir.reduce("sum", d * d, (0,))
    check([Form(crossed, [normal(48, 32), normal(32, 48)], tol=2e-5)])


def test_statistics_of_other_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums, and squared differences from their mean, where no tensor cores multiply."""
    monkeypatch.setattr(EmulatorDriver, "arch", "sm_86")

    def centred(x: ir.Node, w: ir.Node, b: ir.Node) -> tuple[ir.Node, ...]:
        y = dense(x, w, b)
        d = y - ir.reshape(ir.reduce("sum", y, (0,)) / y.shape[0], (1, y.shape[1]))
        return d, ir.reduce("sum", d * d, (0,)) / y.shape[0]
    form = Form(centred, layers(144)[:3], tol=2e-5)
    assert len(with_statistics(form)[0].sides) == 2
    check([form])


@pytest.mark.parametrize(("of", "dtype"), [("sm_80", "float32"), ("sm_90a", "float16")])
def test_gradients_of_statistics(of: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """BatchNorm's two sums over the gradient of its result, which reads the result of the forward pass, too."""
    monkeypatch.setattr(EmulatorDriver, "arch", of)

    def step(x: ir.Node, w: ir.Node, v: ir.Node, b: ir.Node, head: ir.Node) -> tuple[ir.Node, ...]:
        y, *_ = normed(x, w, b)
        z = conv(ir.map("relu", y), v, b, 1, 1)
        return tuple(cotangents([z], [head], [w, v]))
    shapes = (2, 16, 8, 8), (40, 16, 3, 3), (40, 40, 3, 3), (40,), (2, 40, 8, 8)
    form = Form(step, [normal(*s, dtype=dtype) for s in shapes], tol=2e-5 if dtype == "float32" else 4e-2)
    assert [len(k.sides) for k in with_statistics(form)] == [2, 2]
    check([form])


def test_statistics_beside_other_reductions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel carries a sum and squares alone; what else is reduced over tiles is read again."""
    monkeypatch.setattr(EmulatorDriver, "arch", "sm_80")

    def both(x: ir.Node, w: ir.Node, b: ir.Node) -> tuple[ir.Node, ...]:
        y = dense(x, w, b)
        d = y - ir.reshape(ir.reduce("sum", y, (0,)) / y.shape[0], (1, y.shape[1]))
        return y, ir.reduce("max", ir.reshape(y, (3, 16, 40)), (1,)), ir.reduce("sum", d * d, (0,)) / y.shape[0]
    form = Form(both, layers(48)[:3], tol=2e-5)
    (k,) = with_statistics(form)
    assert [n.attrs["op"] for n, _ in k.sides] == ["sum", "sum"]
    check([form])


def later(x: ir.Node, w: ir.Node, v: ir.Node) -> tuple[ir.Node, ...]:
    """The sums of two products' results, the second of which is computed from the first."""
    y = ir.dot(x, w, ((1,), (0,)))
    z = ir.map("relu", ir.dot(y, v, ((1,), (0,))))
    return y, z, ir.reduce("sum", y * z, (0,))


def test_what_keeps_its_sums() -> None:
    """Pixels that do not fill groups of 16, and functions of what is stored later: their kernels carry nothing."""
    x, w, b = normal(2, 16, 9, 7), normal(64, 16, 3, 3), normal(64)

    for fn, arrays, carried in ((normed, [x, w, b], 0), (later, [normal(32, 64), normal(64, 32), normal(32, 32)], 1)):
        form = Form(fn, arrays, tol=1e-4)
        assert len(with_statistics(form)) == carried        # the second product's kernel has both
        check([form])
