"""Products of which each block has an equal share: one of several blocks that have parts of a tile finishes it."""
from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from hybrid import ir, runtime
from hybrid.base.device import array_module, find_cupy, gpu
from hybrid.codegen import cuda
from hybrid.codegen.printers.cuda import grid, mma, shares, warpgroup
from hybrid.passes.pipeline import plan
from hybrid.runtime.cuda.emulator import EmulatorDriver, EmulatorError
from hybrid.runtime.cuda.program import CudaProgram
from hybrid.runtime.cuda.sources import device_headers

from .cuda_forms import Form, normal, program
from .cuda_tools import host, orders, run_program
from .test_cuda_kernels import check

pytestmark = pytest.mark.usefixtures("small")


@pytest.fixture
def small(cuda_device: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU of three multiprocessors that multiplies small tiles, in equal shares whether they pay or not."""
    monkeypatch.setattr(EmulatorDriver, "processors", property(lambda self: 3))
    monkeypatch.setattr(EmulatorDriver, "arch", "sm_80")
    monkeypatch.setattr(mma, "TILES", mma.TILES[-1:])
    monkeypatch.setattr(warpgroup, "TILES", warpgroup.TILES[-1:])
    monkeypatch.setattr(warpgroup, "best_cost", lambda p: math.inf)
    monkeypatch.setattr(shares, "LEAST_GAIN", math.inf)
    monkeypatch.setattr(shares, "LEAST_DEPTH", 1)
    monkeypatch.setattr(shares, "LEAST_TIME", 0)


def product(rows: int, columns: int, depth: int, dtype: str = "float32", batch: int = 1) -> Form:
    """With an epilogue that reads another array."""
    shapes = [(batch, rows, depth), (batch, columns, depth), (batch, rows, columns)]
    return Form(lambda x, w, z: ir.map("relu", ir.dot(x, w, ((2,), (2,)), ((0,), (0,))) + z),
                [normal(*s, dtype=dtype) for s in shapes], tol=1e-5 if dtype == "float32" else 2e-2)


def printed(form: Form, processors: int = 3, arch: str = "sm_80") -> cuda.PrintedCuda:
    return cuda.print_program(plan(program([form])[0]).groups, arch=arch, processors=processors)


@pytest.mark.parametrize(("rows", "columns", "depth", "batch", "arch"), [
    (32, 64, 200, 1, "sm_80"),          # two tiles, each of three blocks' parts
    (40, 110, 61, 1, "sm_80"),          # eight tiles, of which six shares have one or two parts; edges
    (100, 60, 90, 2, "sm_80"),          # sixteen tiles of a batch: ten in shares, six of a block each
    (70, 60, 90, 3, "sm_80"),           # eighteen tiles: whole waves
    (60, 190, 200, 1, "sm_90a"),        # three tiles of warpgroups
    (130, 150, 100, 1, "sm_90a")])      # nine of them
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_each_division(rows: int, columns: int, depth: int, batch: int, arch: str, dtype: str,
                       monkeypatch: pytest.MonkeyPatch) -> None:
    """Right in all orders of threads, blocks one after the other and in turns; the order of sums never changes."""
    monkeypatch.setattr(EmulatorDriver, "arch", arch)
    side = 64 if arch == "sm_90a" else 32
    columns += 0 if side == 32 else -columns % 8            # which are copied whole
    form = product(rows, columns, depth + (-depth % 8 if side == 64 else 0), dtype, batch)
    text = printed(form, arch=arch)
    assert ("hy_wait_for" in text.source) == (batch * -(-rows // side) * -(-columns // side) % 6 != 0)
    assert ("hy_wgmma" in text.source) == (side == 64)
    check([form])
    whole, arrays, *_ = program([form])
    first, *others = [got[0] for _, got, _ in run_program(whole, arrays)]
    for other in others[:1]:                                # the last order cuts sums off; on a GPU there is one
        np.testing.assert_array_equal(first, other)


def test_late_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that finishes a tile waits for those that began before it, in whatever order they go on."""
    form = product(32, 64, 200)
    whole, arrays, *_ = program([form])
    monkeypatch.setenv("HYBRID_EMU_BLOCKS", "6")
    got = [g[0] for _, g, _ in run_program(whole, arrays)]
    monkeypatch.setenv("HYBRID_EMU_BLOCKS", "2")
    got += [g[0] for _, g, _ in run_program(whole, arrays)][:2]
    for other in (got[1], *got[3:]):
        np.testing.assert_array_equal(got[0], other)


def test_no_race(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between blocks, and between the tiles of one."""
    monkeypatch.setenv("HYBRID_EMU_WATCH", "races")
    monkeypatch.setenv("HYBRID_EMU_BLOCKS", "6")
    check([product(40, 110, 61)])


@pytest.mark.unwatched
@pytest.mark.parametrize(("method", "statement"), [
    ("_wait_and_add", "  if (threadIdx.x == 0) hy_wait_for((unsigned *)tickets + 1 + other);"),
    ("_publish", "__syncthreads();"), ("_wait_and_add", "  __syncthreads();")])
@pytest.mark.skipif(find_cupy() is not None, reason="there is a GPU, which runs the kernels themselves")
def test_nothing_is_too_much(method: str, statement: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a wait or barrier around a flag the emulator's watcher tells of a race, or numbers are wrong."""
    real = getattr(grid.Grid, method)

    def without(self: grid.Grid, share: str) -> list[str]:
        lines = real(self, share)
        lines.remove(statement)
        return lines
    monkeypatch.setattr(grid.Grid, method, without)
    monkeypatch.setenv("HYBRID_EMU_WATCH", "races")
    monkeypatch.setenv("HYBRID_EMU_BLOCKS", "6")
    with pytest.raises((EmulatorError, AssertionError), match="race|Mismatched"):
        check([product(32, 64, 200)])


def test_a_fence_is_before_the_flag() -> None:
    """The emulator's memory is in order, so that it cannot tell of a fence that is not there: the text is looked at."""
    source = printed(product(32, 64, 200)).source
    assert re.search(r"__syncthreads\(\);\s+if \(threadIdx.x == 0\) \{\s+__threadfence\(\);\s+"
                     r"\(\(volatile unsigned \*\)tickets\)\[1 \+ ", source)
    assert re.search(r"while \(\*state == 0\)[^}]*?__threadfence\(\);\s+\*state = 0;",
                     device_headers()["hybrid_tiles.cuh"])


def test_the_next_call_counts_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Working memory that is kept has numbers and words of 0 again; products one after the other share them."""
    x, w, v = (ir.input(i, s, "float32") for i, s in enumerate([(64, 120), (120, 64), (64, 120)]))
    y = ir.dot(ir.dot(x, w, ((1,), (0,))), v, ((1,), (0,)))
    whole = ir.Program((x, w, v), (y,))
    exe: Any = runtime.compile(whole, gpu(0))
    assert isinstance(exe, CudaProgram) and exe.report.source.count("hy_wait_for((unsigned *)tickets") == 2
    kept: dict[int, Any] = {}
    fresh = CudaProgram.working_memory
    monkeypatch.setattr(CudaProgram, "working_memory", lambda self, n: kept.setdefault(n, fresh(self, n)))
    arrays = [normal(*n.shape) for n in whole.inputs]
    given = [array_module(gpu(0)).asarray(a) for a in arrays]
    for order in orders():
        for _ in range(2):
            np.testing.assert_allclose(host(exe(given)[0]), arrays[0] @ arrays[1] @ arrays[2], rtol=1e-4, atol=1e-3,
                                       err_msg=order)
    assert len(kept) == 1


def test_where_they_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wave and a little of an H100 are shared; whole waves, short depths and small gains are not, with the reason in
    the report; neither is anything without the number of processors."""
    monkeypatch.undo()

    def kernel(rows: int, columns: int, depth: int, processors: int = 132) -> Any:
        form = Form(lambda x, w: ir.dot(x, w, ((1,), (0,))), [np.zeros((rows, depth), "float32"),
                                                              np.zeros((depth, columns), "float32")])
        planned = plan(program([form])[0])
        cuda.print_program(planned.groups, arch="sm_90a", processors=processors)
        return planned.groups[0].kernels[0]
    assert kernel(14 * 128, 10 * 128, 4096).form == shares.FORM
    for given, why in (((12 * 128, 11 * 128, 4096), "whole waves of 132 blocks"),
                       ((16 * 128, 16 * 128, 4096), "sharing would take"),
                       ((14 * 128, 10 * 128, 128), "is short"),
                       ((14 * 128, 10 * 128, 4096, 0), "no cooperative launches")):
        k = kernel(*given)
        assert k.form != shares.FORM and why in dict(k.not_taken)[shares.FORM], given
