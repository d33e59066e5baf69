"""Reductions of rows that the kernels of products carry on a GPU: a softmax's greatest score and sum of exponentials,
sums and maxima."""
from __future__ import annotations

import math

import numpy as np
import pytest

from hybrid import gpu as gpu_context, ir
from hybrid.codegen.printers.cuda import mma, plain_tiles, shares
from hybrid.ir.kernel import Kernel
from hybrid.passes import tile_statistics
from hybrid.passes.differentiate import cotangents
from hybrid.runtime.cuda.emulator import EmulatorDriver
from hybrid.runtime.cuda.program import CudaProgram, planned_for

from .carried import check_orders, printed_arch  # noqa: F401  the fixture arch
from .cuda_forms import Form, normal, program
from .test_cuda_kernels import check

pytestmark = pytest.mark.usefixtures("any_size")


@pytest.fixture
def any_size(cuda_device: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small products carry reductions, too, and use the tiles of large ones."""
    monkeypatch.setattr(tile_statistics, "LEAST", 1)
    monkeypatch.setattr(mma, "TILES", mma.TILES[:5])
    monkeypatch.setattr(plain_tiles, "SIDES", plain_tiles.SIDES[:5])


def planned(form: Form) -> list[Kernel]:
    return planned_for(program([form])[0], gpu_context(0)).fused.kernels


def carried(form: Form) -> list[str]:
    """The reductions that products' kernels carry."""
    return [n.attrs["op"] for k in planned(form) if k.dot is not None for n, _ in k.sides]


def scores(x: ir.Node, w: ir.Node, b: ir.Node) -> ir.Node:
    y = ir.dot(x, w, ((x.ndim - 1,), (1,)))
    return ir.cast(y + ir.expand(b, y.shape), np.float32)


def log_of_sum(y: ir.Node) -> ir.Node:
    """The logarithm of the sum of a row's exponentials."""
    most = ir.reduce("max", y, (y.ndim - 1,), True)
    return ir.map("log", ir.reduce("sum", ir.map("exp", y - most), (y.ndim - 1,), True)) + most


def loss(x: ir.Node, w: ir.Node, b: ir.Node) -> tuple[ir.Node, ...]:
    return (log_of_sum(scores(x, w, b)),)


def trained(x: ir.Node, w: ir.Node, b: ir.Node, head: ir.Node) -> tuple[ir.Node, ...]:
    """A loss and its gradients."""
    total = log_of_sum(scores(x, w, b))
    return (total, *cotangents([total], [head], [x, w, b]))


def arrays(rows: int, classes: int, depth: int = 32, dtype: str = "float32") -> list[np.ndarray]:
    return [normal(*s, dtype=dtype) for s in ((rows, depth), (classes, depth), (classes,))]


@pytest.mark.parametrize(("dtype", "rows", "classes"), [
    ("float32", 37, 133), ("float16", 32, 128), pytest.param("bfloat16", 37, 133, marks=pytest.mark.thorough),
    pytest.param("float16", 37, 133, marks=pytest.mark.thorough)])
def test_exponentials_of_scores(arch: str, dtype: str, rows: int, classes: int) -> None:
    """Nobody reads the scores again, also where they fill no tile and no group."""
    form = Form(loss, arrays(rows, classes, dtype=dtype), tol=1e-5 if dtype == "float32" else 2e-2)
    assert carried(form) == ["max", "sum"]
    (k,) = (k for k in planned(form) if k.dot is not None)
    assert not any(k.root in other.reads for other in planned(form))
    check([form])


def test_gradients_of_a_loss(arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without races, and with the same bits in both orders of threads in which tensor cores add alike."""
    monkeypatch.setenv("HYBRID_EMU_WATCH", "races")
    form = Form(trained, [*arrays(48, 72), normal(48, 1)], tol=2e-5)
    assert carried(form) == ["max", "sum"]
    check_orders(form)


def reductions_of_a_function(x: ir.Node, w: ir.Node, z: ir.Node) -> tuple[ir.Node, ...]:
    """Reductions of the rows of what is computed from a product's result and another array."""
    y = ir.dot(x, w, ((x.ndim - 1,), (0,))) * z
    return ir.reduce("sum", y, (y.ndim - 1,)), ir.reduce("max", y, (y.ndim - 1,))


def reductions_of_the_product(x: ir.Node, w: ir.Node, z: ir.Node) -> tuple[ir.Node, ...]:
    """Reductions of the rows of a product's result."""
    y = ir.dot(x, w, ((x.ndim - 1,), (0,)))
    return y * z, ir.reduce("min", y, (y.ndim - 1,)), ir.reduce("sum", y, (y.ndim - 1,))


@pytest.mark.parametrize(("rows", "columns"), [((33,), 75), ((2, 24), 64)])
def test_sums_and_maxima(arch: str, rows: tuple[int, ...], columns: int) -> None:
    forms = [Form(fn, [normal(*rows, 32), normal(32, columns), normal(*rows, columns)], tol=2e-5)
             for fn in (reductions_of_a_function, reductions_of_the_product)]
    assert [carried(form) for form in forms] == [["sum", "max"], ["min", "sum"]]
    check(forms)


def test_what_is_masked_or_beyond_float32(arch: str) -> None:
    """Groups, and all, of -infinity alone; scores whose exponentials are infinite, or 0."""
    x, w, b = arrays(32, 128)
    masked, nan = b.copy(), x.copy()
    masked[32:100], nan[5] = -np.inf, np.nan
    check([Form(loss, [nan, w, masked], tol=1e-5), Form(loss, [x, w, np.full_like(b, -np.inf)], tol=1e-5),
           Form(loss, [x, w, b + np.float32(1000)], tol=1e-5), Form(loss, [x, w, b - np.float32(1000)], tol=1e-5)])


def test_tiles_in_equal_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """The block that finishes a tile has the whole sums."""
    monkeypatch.setattr(EmulatorDriver, "processors", property(lambda self: 5))
    monkeypatch.setattr(EmulatorDriver, "arch", "sm_80")
    monkeypatch.setattr(mma, "TILES", mma.TILES[3:4])
    monkeypatch.setattr(shares, "LEAST_GAIN", math.inf)
    monkeypatch.setattr(shares, "LEAST_TIME", 0)

    def both(x: ir.Node, w: ir.Node, b: ir.Node) -> tuple[ir.Node, ...]:
        y = scores(x, w, b)
        return y, log_of_sum(y)
    form = Form(both, arrays(130, 200, 128), tol=1e-5)
    assert carried(form) == ["max", "sum"]
    check([form])
    assert "hy_wait_for((unsigned *)tickets" in CudaProgram(planned_for(program([form])[0], gpu_context(0)),
                                                            gpu_context(0)).report.source


def softmax(x: ir.Node, w: ir.Node, b: ir.Node) -> tuple[ir.Node, ...]:
    y = scores(x, w, b)
    e = ir.map("exp", y - ir.reduce("max", y, (1,), True))
    return (e / ir.reduce("sum", e, (1,), True),)


def crossed(x: ir.Node, w: ir.Node, b: ir.Node) -> tuple[ir.Node, ...]:
    """Exponentials of differences from the greatest value of another row."""
    y = scores(x, w, b)
    return (ir.reduce("sum", ir.map("exp", y - ir.reshape(ir.reduce("max", y, (1,)), (1, y.shape[1]))), (1,)),)


def test_the_report_says_why_a_reduction_is_not_carried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the rows are read in any case, are short, or stay in the cache, the report says so."""
    def reasons(form: Form) -> str:
        assert not carried(form)
        check([form])
        return str(CudaProgram(planned_for(program([form])[0], gpu_context(0)), gpu_context(0)).report)
    assert "reads all elements in any case" in reasons(Form(softmax, arrays(32, 128), tol=1e-5))
    assert "shorter than a group" in reasons(Form(loss, arrays(32, 24), tol=1e-5))
    assert "do not lie side by side in a tile" in reasons(Form(
        lambda x, w, b: loss(x, ir.reshape(w, (8, 32, 32)), ir.reshape(b, (8, 32))), arrays(32, 256), tol=1e-5))
    check([Form(crossed, arrays(64, 64), tol=1e-5)])
    monkeypatch.setattr(tile_statistics, "LEAST", 1 << 20)
    assert "still in the cache when it is read again" in reasons(Form(loss, arrays(32, 128), tol=1e-5))
    monkeypatch.setattr(tile_statistics, "LEAST", 1)
    monkeypatch.setattr(tile_statistics, "IN_REGISTERS", 64)
    assert carried(Form(softmax, arrays(32, 128))) == ["max", "sum"]


@pytest.mark.parametrize("sizes", [(0, 64, 32), (64, 0, 32), (64, 64, 0)], ids=str)
def test_an_empty_product_beside_one_that_carries(sizes: tuple[int, int, int]) -> None:
    rows, columns, depth = sizes

    def both(x: ir.Node, w: ir.Node, b: ir.Node, y: ir.Node, v: ir.Node) -> tuple[ir.Node, ...]:
        empty = ir.dot(y, v, ((1,), (0,)))
        return (*loss(x, w, b), ir.map("exp", empty), ir.reduce("sum", empty, (0,)), ir.reduce("sum", empty, (1,)))
    form = Form(both, [*arrays(32, 128), normal(rows, depth), normal(depth, columns)], tol=1e-5)
    assert carried(form)[:2] == ["max", "sum"]
    check([form])
