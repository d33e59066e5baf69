"""CUDA kernels on the CPU: right results in every order of threads, and races and deadlocks that are seen."""
from __future__ import annotations

import subprocess
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from hybrid.base.errors import CompileError
from hybrid.runtime.cuda import EmulatorError, Launch, emulator, nvrtc
from hybrid.runtime.cuda.emulator import EmulatorDriver

from . import cuda_texts as texts
from .cuda_tools import ORDERS, PLACES, check_cuda_source, run_cuda

everywhere = pytest.mark.parametrize("order, seed", PLACES)
every_order = pytest.mark.parametrize("order, seed", ORDERS)
needs_nvrtc = pytest.mark.skipif(not nvrtc.available(), reason="no NVRTC (pip install nvidia-cuda-nvrtc)")
MATMUL = texts.MATMUL.replace("NEXT_TILE_BARRIER", "__syncthreads();")


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


def one(kernel: str, block: int, *args: int, grid: int = 1, **more: int) -> Launch:
    return Launch(kernel, (grid, 1, 1), (block, 1, 1), args=args, **more)


@everywhere
def test_elementwise(order, seed):
    a, b = normal(100003), normal(100003)[::-1].copy()
    *_, o, o4 = run_cuda(texts.ELEMENTWISE, [one("fused", 256, 0, 1, 2, grid=391),
                                             one("fused4", 128, 0, 1, 3, grid=64)],
                             [a, b, np.full_like(a, np.nan), np.zeros(100000, np.float32)], order, seed)
    v = np.maximum(a.astype(np.float64) * b + 1, 0)
    assert np.abs(o - np.tanh(v) * np.exp(-v)).max() < 1e-6
    assert np.array_equal(o4, a[:100000] * b[:100000])


def test_a_kernel_without_barriers_never_switches_threads():
    driver = EmulatorDriver("forward")
    module = driver.load(texts.ELEMENTWISE, ["fused", "fused4"])
    x = [normal(100000) for _ in range(3)]
    module.plan([one("fused4", 128, 0, 1, 2, grid=64)]).run([driver.pointer(a) for a in x])
    assert module.switches() <= 3 * 64


@everywhere
def test_block_reductions(order, seed):
    x = normal(3, 5000)
    whole = (x * 1000).astype(np.int16)
    wide = np.round(x.astype(np.float64), 1)                # many equal values: the first must win
    wide[1, 4000] = wide[1, 77] = np.nan
    launches = [one("block_sum", 256, 0, 1, grid=3), one("block_argmax", 512, 2, 3, grid=3),
                one("block_range", 96, 4, 5, grid=3),
                one("softmax", 1024, 0, 6, grid=3, shared=4 * 5000)]
    _, total, _, where, _, bounds, soft = run_cuda(
        texts.REDUCE, launches, [x, np.zeros(3, np.float32), wide, np.zeros(3, np.int64), whole,
                                 np.zeros((3, 2), np.int16),
                                 np.full_like(x, np.nan)], order, seed)
    assert np.abs(total - x.astype(np.float64).sum(1)).max() < 1e-3
    assert np.array_equal(where, wide.argmax(1)) and where[1] == 77
    assert np.array_equal(bounds, np.stack([whole.min(1), whole.max(1)], 1))
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    assert np.abs(soft - e / e.sum(1, keepdims=True)).max() < 1e-7


def test_reductions_are_the_same_bits_in_every_order():
    x = normal(3, 5000)
    results = [run_cuda(texts.REDUCE, [one("block_sum", 256, 0, 1, grid=3)], [x, np.zeros(3, np.float32)], *o)[1]
               for o in PLACES]
    assert all(np.array_equal(results[0], r) for r in results)


def matmul(text: str, order: str, seed: int) -> float:
    a, b, bias = normal(130, 50), normal(50, 77), normal(77)
    c = run_cuda(text, [Launch("matmul", (2, 3, 1), (256, 1, 1), 0, (0, 1, 2, 3))],
                     [a, b, bias, np.full((130, 77), np.nan, np.float32)], order, seed)[3]
    return float(np.abs(c - np.maximum(a.astype(np.float64) @ b + bias, 0)).max())


@everywhere
def test_tiled_matmul(order, seed):
    assert matmul(MATMUL, order, seed) < 1e-4


@pytest.mark.unwatched
def test_a_missing_barrier_changes_the_result():
    wrong = [not matmul(texts.MATMUL.replace("NEXT_TILE_BARRIER", ""), *o) < 1e-4 for o in ORDERS]
    assert sum(wrong) >= 3


@everywhere
def test_cooperative_launch(order, seed):
    w, x = normal(3, 64, 64) / 8, normal(64)
    *_, b, _ = run_cuda(texts.PERSISTENT, [one("mlp", 64, 0, 1, 2, 3, grid=6, cooperative=True)],
                            [w, x, np.zeros(64, np.float32), np.zeros(1, np.uint32)], order, seed)
    h = x.astype(np.float64)
    for layer in w:
        h = np.maximum(layer @ h, 0)
    assert np.abs(b - h).max() < 1e-5
    out, _ = run_cuda(texts.PERSISTENT, [one("spin", 64, 0, 1, grid=4, cooperative=True)],
                          [np.full(512, -1, np.int32), np.zeros(1, np.uint32)], order, seed)
    assert np.array_equal(out[256:], np.arange(256)[::-1])


def test_grid_sync_needs_a_cooperative_launch():
    with pytest.raises(EmulatorError, match="cooperatively"):
        run_cuda(texts.PERSISTENT, [one("mlp", 64, 0, 1, 2, 3, grid=6)],
                     [normal(3, 64, 64), normal(64), normal(64), np.zeros(1, np.uint32)])


@pytest.mark.parametrize("order, seed", PLACES[3:])
def test_half_types_round_as_numpy_and_ml_dtypes(order, seed):
    bits = np.random.default_rng(3).integers(0, 2**32, 1 << 16, dtype=np.uint32)
    near = (np.arange(1 << 16, dtype=np.uint32) << 13) + 0x33000000           # all around the subnormals and half ways
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 65504, 65519.99, 65520, 6e-8, 2.98e-8, 2.99e-8, 1e-40],
                       np.float32)
    x = np.concatenate([bits.view(np.float32), near.view(np.float32), special, normal((1 << 16) - special.size)])
    with np.errstate(over="ignore", invalid="ignore"):
        half, bf16 = x.astype(np.float16), x.astype(ml_dtypes.bfloat16)
    n = x.size
    _, h, b, back, back_b = run_cuda(texts.HALF, [one("to_half", 256, 0, 1, 2, 3, 4, grid=n // 256)],
                                         [x, np.zeros(n, np.uint16), np.zeros(n, np.uint16), np.zeros_like(x),
                                          np.zeros_like(x)], order, seed)
    good = ~np.isnan(x)
    assert np.array_equal(h[good], half.view(np.uint16)[good]) and np.array_equal(b[good], bf16.view(np.uint16)[good])
    assert np.array_equal(back, half.astype(np.float32), equal_nan=True)
    assert np.array_equal(back_b, bf16.astype(np.float32), equal_nan=True)
    every = np.arange(1 << 16, dtype=np.uint16)
    _, out = run_cuda(texts.HALF, [one("from_half", 256, 0, 1, grid=256)], [every, np.zeros(1 << 16, np.float32)],
                      order, seed)
    assert np.array_equal(out, every.view(np.float16).astype(np.float32), equal_nan=True)


@pytest.mark.unwatched                              # what is read before an exchange may be old: it is tried again
@everywhere
def test_atomic_sums(order, seed):
    rng = np.random.default_rng(5)
    at, x = rng.integers(0, 9, 512).astype(np.int32), rng.integers(-2, 3, 512).astype(np.float32)
    kinds = [np.float32, np.float64, np.int64, np.float16, ml_dtypes.bfloat16, np.int8]
    out = run_cuda(texts.HALF, [one("scatter", 128, *range(8), grid=4)], [at, x, *(np.zeros(12, k) for k in kinds)],
                   order, seed)
    expected = np.zeros(12)
    np.add.at(expected, at, x)
    for array in out[2:]:
        assert np.array_equal(array.astype(np.float64), expected), array.dtype


@everywhere
def test_tensor_cores(order, seed):
    a, b = normal(32, 64).astype(ml_dtypes.bfloat16), normal(24, 64).astype(ml_dtypes.bfloat16)
    c = run_cuda(texts.TENSOR_CORES, [Launch("mma", (3, 2, 1), (32, 1, 1), args=(0, 1, 2))],
                 [a, b, np.zeros((32, 24), np.float32)],
                 order, seed)[2]
    assert np.abs(c - a.astype(np.float64) @ b.astype(np.float64).T).max() < 1e-4


@everywhere
def test_asynchronous_copies(order, seed):
    x = normal(1024)
    text = texts.COPIES.replace("WAIT", "hy_cp_async_wait<1>();")
    assert np.array_equal(run_cuda(text, [one("pipeline", 32, 0, 1)], [x, np.zeros_like(x)], order, seed)[1], x)


@pytest.mark.unwatched
@every_order
def test_a_copy_that_nobody_waits_for_has_not_arrived(order, seed):
    x = normal(1024)
    text = texts.COPIES.replace("WAIT", "hy_cp_async_wait<2>();")
    assert np.isnan(run_cuda(text, [one("pipeline", 32, 0, 1)], [x, np.zeros_like(x)], order, seed)[1]).any()
    with pytest.raises(EmulatorError, match="did not wait for"):
        run_cuda(text.replace("<0>", "<1>").replace("i < 7", "true"), [one("pipeline", 32, 0, 1)],
                 [normal(1152), np.zeros_like(x)], order, seed)


@pytest.mark.unwatched
@pytest.mark.parametrize("kernel, block, message", [
    ("divergent", 32, r"deadlock in block \(0,0,0\): 16 threads at __syncthreads; 16 threads at a warp collective"),
    ("wrong_mask", 64, "deadlock.*__shfl_xor_sync mask ffffffff arrived 0000ffff"),
    ("not_in_mask", 32, "mask does not name it"),
    ("no_race", 2048, "block size"),
])
def test_misuse_is_an_error(kernel, block, message):
    with pytest.raises(EmulatorError, match=message) as e:
        run_cuda(texts.MISUSE, [one(kernel, block, 0)], [normal(2048)])
    assert f"kernel {kernel}" in str(e.value)


@pytest.mark.unwatched
def test_writing_outside_an_array_is_seen():
    with pytest.raises(AssertionError, match="array 0 was written outside its bounds"):
        run_cuda(texts.MISUSE, [one("no_race", 256, 0)], [normal(255)])


def test_an_error_leaves_the_module_usable():
    driver, x = EmulatorDriver(), normal(256)
    module = driver.load(texts.MISUSE, ["divergent", "no_race"])
    with pytest.raises(EmulatorError):
        module.launch_list([("divergent", (1, 1, 1), (32, 1, 1), 0, [driver.pointer(x)])])
    y = x.copy()
    module.launch_list([("no_race", (1, 1, 1), (256, 1, 1), 0, [driver.pointer(y)])])
    assert np.array_equal(y, x[::-1])


@pytest.mark.unwatched
@every_order
def test_a_race_is_seen_and_a_barrier_ends_it(order, seed):
    x = normal(256)
    assert np.isnan(run_cuda(texts.MISUSE, [one("race", 256, 0)], [x], order, seed)[0]).any()
    assert np.array_equal(run_cuda(texts.MISUSE, [one("no_race", 256, 0)], [x], order, seed)[0], x[::-1])


@everywhere
def test_warp_collectives_of_parts_of_a_warp(order, seed):
    x = np.ones(64, np.float32)
    assert (run_cuda(texts.MISUSE, [one("half_warps", 64, 0)], [x], order, seed)[0] == 16**3 + 16).all()
    assert np.isfinite(run_cuda(texts.MISUSE, [one("many_masks", 64, 0)], [x], order, seed)[0]).all()


@pytest.mark.unwatched
def test_shared_memory_starts_as_nan():
    out = run_cuda(texts.MISUSE, [one("no_race", 256, 0), one("uses_garbage", 32, 0)], [normal(256)])[0]
    assert np.isnan(out[:32]).all()


@pytest.mark.unwatched
def test_order_of_threads_by_argument_and_environment(monkeypatch):
    def seen(driver: EmulatorDriver) -> list[int]:
        count, order = np.zeros(1, np.int32), np.zeros(256, np.int32)
        driver.load(texts.MISUSE, ["arrivals"]).plan([one("arrivals", 256, 0,
                                                          1)]).run([driver.pointer(count), driver.pointer(order)])
        assert sorted(order) == list(range(256))
        return order.tolist()
    assert seen(EmulatorDriver("forward")) == list(range(256))
    backwards = seen(EmulatorDriver("reverse"))
    shuffled = seen(EmulatorDriver("random", 1))
    assert len({tuple(o) for o in (backwards, shuffled, list(range(256)))}) == 3
    assert seen(EmulatorDriver("random", 1)) == shuffled != seen(EmulatorDriver("random", 2))
    monkeypatch.setenv("HYBRID_EMU_ORDER", "reverse")
    assert seen(EmulatorDriver()) == backwards
    monkeypatch.setenv("HYBRID_EMU_ORDER", "random:2")
    assert seen(EmulatorDriver()) == seen(EmulatorDriver("random", 2))
    monkeypatch.setenv("HYBRID_EMU_ORDER", "sideways")
    with pytest.raises(EmulatorError, match="forward, reverse, random"):
        seen(EmulatorDriver())


@pytest.mark.unwatched                                      # the watcher does not know the threads' own stacks
@pytest.mark.parametrize("cooperative", [False, True])
def test_without_assembly(cooperative):
    """Machines that are neither x86-64 nor arm64 switch stacks with ucontext."""
    driver = EmulatorDriver("random", 3, flags=["-DEMU_UCONTEXT"])
    for count in (1, 3):                                    # the second launch needs more stacks
        x = normal(count, 256)
        y = x.copy()
        plan = driver.load(texts.MISUSE, ["reverse_rows"]).plan([one("reverse_rows", 256, 0, grid=count,
                                                                     cooperative=cooperative)])
        plan.run([driver.pointer(y)])
        assert np.array_equal(y, x[:, ::-1])


def test_a_text_that_does_not_compile_names_its_saved_source():
    with pytest.raises(CompileError, match="no_such_name") as e:
        EmulatorDriver().load('extern "C" __global__ void k(float *x) {\n  x[0] = no_such_name; }', ["k"])
    assert "kernel.cu:2" in str(e.value) and ".cpp" in str(e.value)


def test_wrong_launches_are_refused():
    module = EmulatorDriver().load(texts.MISUSE, ["race"])
    with pytest.raises(KeyError, match="no kernel 'other'; it has race"):
        module.plan([one("other", 32, 0)])
    with pytest.raises(ValueError, match="takes 1 pointers, the launch gives 2"):
        module.plan([one("race", 32, 0, 1)])
    with pytest.raises(ValueError, match="use 4 pointers, 1 were given"):
        module.plan([one("race", 32, 3)]).run([0])


@needs_nvrtc
@pytest.mark.parametrize("text, kernels", [
    (texts.ELEMENTWISE, ["fused", "fused4"]),
    (texts.REDUCE, ["block_sum", "block_argmax", "block_range", "softmax"]),
    (MATMUL, ["matmul"]),
    (texts.HALF, ["to_half", "from_half", "scatter"]),
    (texts.PERSISTENT, ["mlp", "spin"]),
    (texts.MISUSE, ["race", "many_masks"]),
    (texts.TENSOR_CORES, ["mma"]),
    (texts.COPIES.replace("WAIT", "hy_cp_async_wait<1>();"), ["pipeline"]),
], ids=["elementwise", "reduce", "matmul", "half", "persistent", "misuse", "tensor cores", "copies"])
def test_the_same_text_compiles_for_gpus(text, kernels):
    found = check_cuda_source(text, kernels, ("sm_80", "sm_90", "sm_90a"))
    assert all(r[k].registers > 0 for r in found.values() for k in kernels)


def test_the_header_is_parsed_once_for_many_modules() -> None:
    """From the FEW-th module on, and g++ says that it takes it so."""
    kernels = [f'extern "C" __global__ void k(float *x) {{ x[threadIdx.x] = {k}; }}' for k in range(emulator.FEW)]
    for k, text in enumerate(kernels):
        assert (run_cuda(text, [one("k", 8, 0)], [np.full(8, -1, np.float32)])[0] == k).all()
    folders = {f for found in emulator._headers.values() for f in found}
    assert folders and all((Path(f[2:]) / "cuda_on_cpu.h.gch").is_file() for f in folders)
    if "g++" not in Path(emulator.compiler()).name:
        pytest.skip("which compiler it is says how it takes headers")
    (_, flags, _), found = next(iter(emulator._headers.items()))
    done = subprocess.run([emulator.compiler(), *flags, *found, "-fsyntax-only", "-H", "-x", "c++", "-"], text=True,
                          input='#include "cuda_on_cpu.h"', capture_output=True, check=True)
    assert f"! {found[0][2:]}" in done.stderr
