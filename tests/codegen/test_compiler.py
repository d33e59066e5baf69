"""Every program of programs.py through every backend, against the reference."""
from __future__ import annotations

import numpy as np
import pytest

from hybrid.base import config
from hybrid.base.device import gpu
from hybrid.ir import Program
from hybrid.ir.text import from_text, to_text
from hybrid.passes.pipeline import plan
from hybrid.runtime import reference
from hybrid.runtime.cpu import CpuProgram

from ..programs import CASES, _simple, inputs, normal


def close(got: np.ndarray, want: np.ndarray) -> None:
    assert got.shape == want.shape and got.dtype == want.dtype
    rtol, atol = (2e-2, 1e-2) if got.dtype.itemsize == 2 else (1e-5, 2e-5)
    if got.dtype.kind == "f":
        np.testing.assert_allclose(got.astype("float64"), want.astype("float64"), rtol=rtol, atol=atol)
    else:
        np.testing.assert_array_equal(got, want)


def check(exe: object, program: Program, arrays: list[np.ndarray]) -> None:
    want, updates = reference.run(program, [a.copy() for a in arrays], np)
    given = [a.copy() for a in arrays]
    for g, w in zip(exe(given), want, strict=True):                       # type: ignore[operator]
        close(g, np.asarray(w))
    for (slot, _), value in zip(program.updates, updates):
        close(given[slot], value)


@pytest.mark.parametrize("name", CASES)
def test_c_equals_reference(name: str) -> None:
    program, arrays = CASES[name]
    check(CpuProgram(plan(program)), program, arrays)


@pytest.mark.parametrize("name", CASES)
def test_cuda_equals_reference(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from hybrid.runtime.cuda.program import CudaProgram
    monkeypatch.setenv("HYBRID_CUDA", "emulator")
    assert config.cuda_emulated()
    program, arrays = CASES[name]
    exe = CudaProgram(plan(program), gpu(0))
    for order in ("forward", "reverse", "random"):
        monkeypatch.setenv("HYBRID_EMU_ORDER", order)
        check(exe, program, arrays)


@pytest.mark.parametrize("name", CASES)
def test_text_parses_back(name: str) -> None:
    program, _ = CASES[name]
    again = from_text(to_text(program))
    assert again.outputs == program.outputs and again.updates == program.updates and again.inputs == program.inputs


@pytest.mark.parametrize("name, kernels", [("chain", 1), ("softmax", 1), ("softmax 3d", 1), ("layer norm", 1),
                                           ("batch norm", 1), ("dense", 1),
                                           ("dense wide", 1), ("swish", 1), ("conv pad stride", 1),
                                           ("conv residual", 1), ("conv pool", 2),
                                           ("dense softmax", 2), ("dropout", 1), ("concat", 1), ("two results", 2)])
def test_number_of_kernels(name: str, kernels: int) -> None:
    fused = plan(CASES[name][0]).fused
    assert len(fused.kernels) <= kernels, [(k.kind, k.reason) for k in fused.kernels]


def test_seed_chain_memory() -> None:
    """c = b * a; d = c + 1 over ten doubles: one new array of 80 bytes, no intermediate."""
    report = CpuProgram(plan(CASES["chain"][0])).report
    assert (len(report.kernels), report.arena_bytes, report.planned_bytes, report.eager_bytes) == (1, 0, 80, 160)


def test_memory_is_reused() -> None:
    def deep(x: object, *ws: object) -> object:
        from hybrid import ir
        for w in ws:
            x = ir.map("relu", ir.dot(x, w, ((1,), (1,))))               # type: ignore[arg-type]
        return x
    program, _ = _simple(deep, normal(32, 64), *(normal(64, 64) for _ in range(6)))
    planned = plan(program)
    assert planned.memory.arena == planned.memory.bound == 2 * 32 * 64 * 4


def test_in_place() -> None:
    """An elementwise kernel takes the place of an intermediate that dies in it."""
    from hybrid import ir
    arrays = [normal(512, 16), normal(256, 16), normal(8, 512)]
    leaves = inputs(*arrays)
    x, w, v = leaves
    big = ir.dot(x, w, ((1,), (1,)))
    top = ir.reduce("max", big, (0, 1), True)
    then = ir.map("exp", big - top)
    out = ir.dot(v, then, ((1,), (0,)))
    planned = plan(Program(tuple(leaves), (out,)))
    assert planned.memory.in_place, [k.kind for k in planned.fused.kernels]
    check(CpuProgram(planned), planned.source, arrays)


def test_bound_program_and_slow_path() -> None:
    program, arrays = CASES["dense"]
    exe = CpuProgram(plan(program))
    bound = exe.bind((1, 2), arrays[1:])
    assert bound is not None
    close(bound(arrays[0])[0], exe(arrays)[0])                            # type: ignore[index]
    assert bound(np.asfortranarray(arrays[0])) is None and bound(arrays[0].astype("float64")) is None
    close(exe([np.asfortranarray(arrays[0]), *arrays[1:]])[0], exe(arrays)[0])
    with pytest.raises(ValueError, match="compiled for"):
        exe([arrays[0][:2], *arrays[1:]])


def test_threads_share_a_program() -> None:
    import threading
    program, arrays = CASES["dense softmax"]
    exe = CpuProgram(plan(program))
    want = exe(arrays)[0]
    wrong: list[int] = []

    def work() -> None:
        for _ in range(200):
            if not np.array_equal(exe(arrays)[0], want):
                wrong.append(1)
    workers = [threading.Thread(target=work) for _ in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not wrong


def test_elementary_functions_over_all_exponents() -> None:
    """exp, log, tanh, erf within 2 ulp of float64 on a sweep of all floats; NaN and infinity as NumPy."""
    import math
    from hybrid import ir
    v = np.arange(0, 2**32, 65537, dtype=np.uint64).astype(np.uint32).view(np.float32).copy()
    wide = v.astype("float64")
    want = {"exp": np.exp, "log": np.log, "tanh": np.tanh, "erf": np.vectorize(math.erf), "sqrt": np.sqrt}
    for fn, ref in want.items():
        x = ir.input(0, v.shape, v.dtype)
        got = CpuProgram(plan(Program((x,), (ir.map(fn, x),))))([v])[0]
        with np.errstate(all="ignore"):
            exact = ref(wide)
            near = exact.astype("float32")
        both = np.isfinite(near) & np.isfinite(got)
        ulp = np.abs(got[both] - exact[both]) / np.spacing(np.abs(near[both]))
        assert ulp.max() <= 2, (fn, ulp.max(), v[both][ulp.argmax()])
        assert np.array_equal(np.isnan(got), np.isnan(near)) and np.array_equal(np.isinf(got), np.isinf(near)), fn
