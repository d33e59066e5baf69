"""Products whose depth several blocks share in one launch: the block that is done last adds up the parts."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import ir, nd, runtime
from hybrid.base.device import array_module, gpu
from hybrid.codegen import cuda
from hybrid.codegen.printers.cuda import plain_tiles, shares
from hybrid.passes.pipeline import plan
from hybrid.runtime.cuda.emulator import EmulatorDriver
from hybrid.runtime.cuda.program import CudaProgram

from .cuda_forms import Form, normal, program
from .cuda_tools import host, orders, run_program
from .test_cuda_kernels import check

pytestmark = pytest.mark.usefixtures("cuda_device")


def product(rows: int, columns: int, depth: int, dtype: str = "float32") -> Form:
    """With an epilogue that reads another array, from both sides' last axes."""
    return Form(lambda x, w, z: ir.map("relu", ir.dot(x, w, ((1,), (1,))) + z),
                [normal(rows, depth, dtype=dtype), normal(columns, depth, dtype=dtype),
                 normal(rows, columns, dtype=dtype)], tol=1e-5 if dtype == "float32" else 2e-2)


def printed(form: Form, arch: str, processors: int) -> cuda.PrintedCuda:
    return cuda.print_program(plan(program([form])[0]).groups, arch=arch, processors=processors)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_one_launch(arch: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tiles, whole and at the edges, in all orders of threads and blocks."""
    monkeypatch.setattr(EmulatorDriver, "arch", arch)
    form = product(40, 70, 530, dtype)
    text, two = printed(form, arch, 132), printed(form, arch, 0)
    (launch,) = text.launches
    assert launch.args[-2:] == [cuda.SCRATCH, cuda.TICKETS] and text.tickets > 1 and text.scratch >= two.scratch
    assert [x.name for x in two.launches] == ["k0_parts", "k0"] and not two.tickets
    check([form])


def test_the_same_sums_as_of_two_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of the parts does not depend on which block is last."""
    monkeypatch.setattr(EmulatorDriver, "arch", "sm_80")
    whole, arrays, _, _ = program([product(64, 40, 800)])
    one = [got[0] for _, got, _ in run_program(whole, arrays)]
    monkeypatch.setattr(EmulatorDriver, "processors", 0)
    two = [got[0] for _, got, _ in run_program(program([product(64, 40, 800)])[0], arrays)]
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("apart", [False, True])
def test_the_next_call_counts_anew(apart: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Working memory that is kept has tickets of 0 again, and fresh memory has them too. Launches of few blocks are
    stages of one, or each its own."""
    monkeypatch.setattr(EmulatorDriver, "arch", "sm_80")
    monkeypatch.setattr(EmulatorDriver, "processors", 1 if apart else 132)
    rows = 24
    x, w, v = (ir.input(i, s, "float32") for i, s in enumerate([(rows, 600), (600, 64), (64, 600)]))
    y = ir.dot(ir.map("tanh", ir.dot(ir.dot(x, w, ((1,), (0,))), v, ((1,), (0,))) * 0.1), w, ((1,), (0,)))
    whole = ir.Program((x, w, v), (y,))
    exe: Any = runtime.compile(whole, gpu(0))
    assert isinstance(exe, CudaProgram) and "tickets" in exe.report.source
    kept: dict[int, Any] = {}
    fresh = CudaProgram.working_memory
    monkeypatch.setattr(CudaProgram, "working_memory", lambda self, n: kept.setdefault(n, fresh(self, n)))
    arrays = [normal(*n.shape) for n in whole.inputs]
    given = [array_module(gpu(0)).asarray(a) for a in arrays]
    expected = np.tanh(arrays[0] @ arrays[1] @ arrays[2] * np.float32(0.1)) @ arrays[1]
    for order in orders():
        for _ in range(2):
            got = host(exe(given)[0])
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-3, err_msg=order)
    assert len(kept) == 1


def test_in_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that are launches of their own share the tickets."""
    monkeypatch.setattr(EmulatorDriver, "arch", "sm_80")
    monkeypatch.setattr(EmulatorDriver, "processors", 2)

    @mx.hybridize
    def steps(v: Any, w: Any, c: Any) -> Any:
        x = nd.zeros((2, 16, 1), ctx=w.context)
        return nd.contrib.foreach(lambda x, s: (x, nd.tanh(nd.dot(nd.dot(s, v), w) + x)), x, c)[1]
    v, w, c = normal(32, 520) / 20, normal(520, 32) / 20, normal(16, 32)
    expected = c
    for _ in range(2):
        expected = np.tanh(expected @ v @ w)
    for order in orders():
        got = steps(*(nd.array(a, ctx=mx.gpu(0)) for a in (v, w, c))).asnumpy()
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4, err_msg=order)
    assert "tickets" in steps.report().source


def test_large_tiles_of_many_parts_take_two_launches() -> None:
    """One block would add up for longer than another launch takes."""
    form = product(128, 128, 128 * 300)
    assert len(printed(form, "sm_80", 132).launches) == 2


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_tiles_without_tensor_cores(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are shared in the same ways: the last block of a tile adds up its parts, or a second launch does; or blocks
    have equal shares of all k-iterations."""
    monkeypatch.setattr(EmulatorDriver, "arch", "sm_86")
    rng = np.random.default_rng(5)

    def operand(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) * 4).astype(dtype)
    form = Form(lambda x, w, z: ir.map("maximum", ir.dot(x, w, ((1,), (1,))) + z, z),
                [operand(40, 1100), operand(70, 1100), operand(40, 70)], tol=2e-5 if dtype == "float32" else 1e-12)
    assert [len(printed(form, "sm_86", n).launches) for n in (132, 0)] == [1, 2]
    check([form])
    monkeypatch.setattr(EmulatorDriver, "processors", property(lambda self: 4))
    monkeypatch.setattr(plain_tiles, "SIDES", ((2, 2),))
    for name, value in (("LEAST_GAIN", float("inf")), ("LEAST_DEPTH", 1), ("LEAST_TIME", 0)):
        monkeypatch.setattr(shares, name, value)
    form = Form(form.fn, [operand(40, 90), operand(70, 90), operand(40, 70)], tol=form.tol)
    assert "hy_wait_for((unsigned *)tickets" in printed(form, "sm_86", 4).source
    monkeypatch.setenv("HYBRID_EMU_WATCH", "races")
    monkeypatch.setenv("HYBRID_EMU_BLOCKS", "4")
    check([form])
