"""Tensor cores, their loads and asynchronous copies in the emulator: fragments, sums, bytes that come late."""
from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hybrid.runtime.cuda import EmulatorError, nvrtc
from hybrid.runtime.cuda.emulator import EmulatorDriver

from . import cuda_async_texts as texts
from .cuda_tools import ORDERS, PLACES, check_cuda_source, run_cuda

everywhere = pytest.mark.parametrize("order, seed", PLACES)
every_order = pytest.mark.parametrize("order, seed", ORDERS)
KINDS = {"hy_mma_half": (np.float16, 16), "hy_mma_bf16": (ml_dtypes.bfloat16, 16), "hy_mma_tf32": (np.float32, 8),
         "hy_mma_half_k8": (np.float16, 8), "hy_mma_bf16_k8": (ml_dtypes.bfloat16, 8),
         "hy_mma_tf32_k4": (np.float32, 4)}
RING = {"cp.async": ("32", texts.BY_LANES, "sm_80"), "bulk": ("1", texts.IN_BULK, "sm_90")}


def values(rng: np.random.Generator, shape: tuple[int, ...], kind: Any) -> np.ndarray:
    x = rng.standard_normal(shape).astype(np.float32)
    return (x.view(np.uint32) & 0xffffe000).view(np.float32) if kind is np.float32 else x.astype(kind)


def text_of(function: str) -> str:
    kind, depth = KINDS[function]
    return texts.MMA.replace("FUNCTION", function).replace("WORDS", str(depth * np.dtype(kind).itemsize // 16))


@pytest.mark.parametrize("sums", ["rounded", "truncated"])
@pytest.mark.parametrize("function", KINDS)
def test_fragments_and_sums(function: str, sums: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every shape: elements where PTX puts them, and an error inside the bound of the sums' form."""
    monkeypatch.setenv("HYBRID_EMU_SUMS", sums)
    kind, depth = KINDS[function]
    rng = np.random.default_rng(depth)
    a, b = values(rng, (16, depth), kind), values(rng, (8, depth), kind)
    launch = [("product", (1, 1, 1), (32, 1, 1), 0, (0, 1, 2))]
    c = run_cuda(text_of(function), launch, [a, b, np.zeros((16, 8), np.float32)])[2]
    terms = a.astype(np.float64)[:, None] * b.astype(np.float64)[None]
    bound = (depth + 2) * 2.0**-23 * np.abs(terms).sum(-1)
    error = np.abs(c - terms.sum(-1))
    assert (error <= bound).all() and error.max() > 0
    whole = [np.round(v.astype(np.float32) * 4).astype(kind) for v in (a, b)]            # whole numbers: no error
    c = run_cuda(text_of(function), launch, [*whole, np.zeros((16, 8), np.float32)])[2]
    assert np.array_equal(c, whole[0].astype(np.float64) @ whole[1].astype(np.float64).T)


def test_truncated_sums_are_those_that_were_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """What falls below the 24 bits of the largest term is lost, in a group and not between groups."""
    a, b = np.zeros((16, 16), np.float16), np.ones((8, 16), np.float16)
    a[0, 0], a[0, 1:3] = 1, 2.0**-24                        # 1 + 2 x 2^-24: exact is 1 + 2^-23
    a[1, 0], a[1, 8:10] = 1, 2.0**-24                       # the same terms in the next group, beside the sum so far
    a[2, 8:10], a[2, 0] = 2.0**-24, 0                       # small ones alone are exact
    a[3, 0], a[3, 1] = -1, 2.0**-24                         # cut off towards zero
    launch = [("product", (1, 1, 1), (32, 1, 1), 0, (0, 1, 2))]
    monkeypatch.setenv("HYBRID_EMU_SUMS", "truncated")
    c = run_cuda(text_of("hy_mma_half"), launch, [a, b, np.zeros((16, 8), np.float32)])[2][:, 0]
    assert c[:4].tolist() == [1, 1, 2.0**-23, -1]
    a[4, :2] = np.inf, -np.inf
    a[5, :2] = 60000, 60000
    c = run_cuda(text_of("hy_mma_half"), launch, [a, b * 2, np.zeros((16, 8), np.float32)])[2][:, 0]
    assert np.isnan(c[4]) and c[5] == 4 * np.float32(np.float16(60000))


@everywhere
@pytest.mark.parametrize("sums", ["rounded", "truncated"])
def test_a_pipeline_of_copies_ldmatrix_and_products(order: str, seed: int, sums: str,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRID_EMU_SUMS", sums)
    rng = np.random.default_rng(2)
    a, b = (values(rng, (64, 64), ml_dtypes.bfloat16) for _ in range(2))
    launch = [("product", (1, 1, 1), (128, 1, 1), 3 * 4096, (0, 1, 2))]
    c = run_cuda(texts.PIPELINE, launch, [a, b, np.zeros((64, 64), np.float32)], order, seed)[2]
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), atol=1e-4)


@pytest.mark.unwatched
@every_order
@pytest.mark.parametrize("mistake", [("hy_cp_async_wait<1>", "hy_cp_async_wait<2>"),         # one stage too early
                                     ("s % 3 * 4096;\n            hy_cp", "s % 2 * 4096;\n            hy_cp")])
def test_mistakes_in_a_pipeline_are_seen(order: str, seed: int, mistake: tuple[str, str]) -> None:
    """Waits that are too short, barriers that are missing, stages that are used again too early give NaN."""
    assert mistake[0] in texts.PIPELINE
    ones = np.ones((64, 64), ml_dtypes.bfloat16)
    launch = [("product", (1, 1, 1), (128, 1, 1), 3 * 4096, (0, 1, 2))]
    with pytest.raises((AssertionError, EmulatorError)):
        c = run_cuda(texts.PIPELINE.replace(*mistake), launch, [ones, ones, np.zeros((64, 64), np.float32)], order,
                     seed)[2]
        assert (c == 64).all()


@pytest.mark.unwatched
def test_a_barrier_that_is_missing_is_seen_where_warps_run_ahead() -> None:
    text, ones = texts.PIPELINE.replace("__syncthreads();", ""), np.ones((64, 64), ml_dtypes.bfloat16)
    launch = [("product", (1, 1, 1), (128, 1, 1), 3 * 4096, (0, 1, 2))]
    wrong = [not (run_cuda(text, launch, [ones, ones, np.zeros((64, 64), np.float32)], *o)[2] == 64).all()
             for o in (("random", 1), ("random", 3))]
    assert all(wrong)


def ring(how: str, wait: str = "hy_mbarrier_wait(ready, i / 2 % 2);") -> str:
    count, copy, _ = RING[how]
    return texts.PRODUCER.replace("FULL", count).replace("COPY", copy).replace("WAIT", wait)


@everywhere
@pytest.mark.parametrize("how", RING)
def test_a_warp_that_copies_for_another(how: str, order: str, seed: int) -> None:
    x = np.arange(6 * 256, dtype=np.float32)
    y = run_cuda(ring(how), [("ring", (1, 1, 1), (64, 1, 1), 0, (0, 1))], [x, np.zeros_like(x)], order, seed)[1]
    assert np.array_equal(y.reshape(6, 256), x.reshape(6, 256)[:, ::-1])


@pytest.mark.parametrize("how", RING)
def test_mistakes_with_mbarriers_are_seen(how: str) -> None:
    x = np.arange(6 * 256, dtype=np.float32)
    launch = [("ring", (1, 1, 1), (64, 1, 1), 0, (0, 1))]
    with pytest.raises(EmulatorError, match="no thread waited|nobody completes|more arrivals than"):
        run_cuda(ring(how, wait=""), launch, [x, np.zeros_like(x)])
    with pytest.raises(EmulatorError, match="not initialised"):
        run_cuda(ring(how).replace("__syncthreads();", "").replace("if (threadIdx.x < 2)", "if (threadIdx.x > 62)"),
                 launch, [x, np.zeros_like(x)])


@everywhere
def test_copies_are_filled_up_with_zeros(order: str, seed: int) -> None:
    x = np.arange(1, 129, dtype=np.float32)
    text = texts.PARTLY.replace("WRONG", "")
    y = run_cuda(text, [("partly", (1, 1, 1), (32, 1, 1), 0, (0, 1))], [x, np.zeros_like(x)], order, seed)[1]
    kept = np.arange(4) < np.arange(32)[:, None] % 5
    assert np.array_equal(y.reshape(32, 4), np.where(kept, x.reshape(32, 4), 0))


@pytest.mark.parametrize("wrong, what", [
    ("hy_cp_async<16>(hy_shared_of(&line[2]), x); hy_cp_async_wait<0>();", "cp.async takes .* 16-byte .* 8 bytes"),
    ("hy_cp_async<8>(hy_shared_of(&line[2]), x + 1); hy_cp_async_wait<0>();", "cp.async takes .* 8-byte .* 4 bytes"),
    ("unsigned w[4]; hy_ldmatrix<4>(w, hy_shared_of(&line[threadIdx.x + 1])); y[0] = w[0];", "ldmatrix takes"),
    ("hy_mbarrier_init(hy_shared_of(&line[1]), 1);", "an mbarrier takes"),
])
def test_misaligned_addresses_are_errors(wrong: str, what: str) -> None:
    with pytest.raises(EmulatorError, match=what):
        run_cuda(texts.PARTLY.replace("WRONG", wrong), [("off", (1, 1, 1), (32, 1, 1), 0, (0, 1))],
                 [np.zeros(64, np.float32), np.zeros(64, np.float32)])


@pytest.mark.unwatched
@pytest.mark.parametrize("blocks, most", [("1", 1), ("3", 3), ("8", 5)])
def test_blocks_take_turns(blocks: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRID_EMU_BLOCKS", blocks)
    found = run_cuda(texts.TURNS, [("turns", (5, 1, 1), (64, 1, 1), 0, (0, 1))], [np.zeros(1, np.int32)] * 2)
    assert found[0][0] == 0 and found[1][0] == most


@pytest.mark.parametrize("name, value", [("HYBRID_EMU_SUMS", "wide"), ("HYBRID_EMU_BLOCKS", "many")])
def test_wrong_settings_are_errors(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(EmulatorError, match=f"{name}='{value}': write"):
        EmulatorDriver().load(texts.TURNS, ["turns"]).plan([("turns", (1, 1, 1), (32, 1, 1), 0, (0, 0))]).run([0])


def warpgroup(n: int, kind: str, wait: str = "hy_wgmma_wait<0>();") -> str:
    text = texts.WARPGROUP.replace("FUNCTION", f"hy_wgmma_{kind}_n{n}").replace("WAIT", wait)
    return text.replace("#include", f"#define COLUMNS {n}\n#include", 1)


@pytest.mark.parametrize("n, kind, dtype", [(64, "half", np.float16), (128, "bf16", ml_dtypes.bfloat16)])
def test_products_of_a_warpgroup(n: int, kind: str, dtype: Any) -> None:
    """Swizzled tiles in shared memory, fragments of 64 rows; what is not waited for is not there."""
    rng = np.random.default_rng(3)
    a, b = values(rng, (64, 64), dtype), values(rng, (n, 64), dtype)
    launch, c = [("product", (1, 1, 1), (128, 1, 1), 0, (0, 1, 2))], np.zeros((64, n), np.float32)
    expected = a.astype(np.float64) @ b.astype(np.float64).T
    for order in ORDERS:
        got = run_cuda(warpgroup(n, kind), launch, [a, b, c], *order)[2]
        np.testing.assert_allclose(got, expected, atol=1e-4)
    with pytest.raises(EmulatorError, match="wgmma products that it did not wait for"):
        run_cuda(warpgroup(n, kind, "hy_wgmma_wait<1>();"), launch, [a, b, c])


@pytest.mark.skipif(not nvrtc.available(), reason="no NVRTC (pip install nvidia-cuda-nvrtc)")
def test_the_same_texts_compile_for_gpus() -> None:
    for function in KINDS:
        check_cuda_source(text_of(function), ["product"], ("sm_80", "sm_90a", "sm_120"))
    check_cuda_source(text_of("hy_mma_half_k8"), ["product"], ("sm_75",))
    check_cuda_source(texts.PIPELINE, ["product"], ("sm_80", "sm_89", "sm_100"))
    check_cuda_source(texts.PARTLY.replace("WRONG", ""), ["partly"], ("sm_80",))
    for how, (_, _, arch) in RING.items():
        check_cuda_source(ring(how), ["ring"], (arch, "sm_90a", "sm_120"))
    check_cuda_source(warpgroup(64, "half"), ["product"], ("sm_90a",))
    check_cuda_source(warpgroup(128, "bf16"), ["product"], ("sm_90a",))
