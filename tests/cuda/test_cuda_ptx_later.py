"""Copies, mbarriers and products of warpgroups in the interpreter of PTX, by themselves and beside the emulator."""
from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hybrid.base.device import find_cupy
from hybrid.codegen.printers.cuda import contraction, warpgroup
from hybrid.codegen.printers.cuda.shares import Division
from hybrid.codegen.printers.cuda.target import current
from hybrid.runtime import cuda
from hybrid.runtime.cuda import nvrtc

from .cuda_forms import FORMS
from .cuda_tools import run_cuda
from .ptx_driver import PtxDriver, run_ptx
from .ptx_text import PtxError
from .ptx_warpgroup import places
from .test_cuda_async import ring, values, warpgroup as of_warpgroup
from .test_cuda_ptx import check
from .test_cuda_tensor import LAYOUTS, TOLERANCE, product

pytestmark = [pytest.mark.skipif(not nvrtc.available(), reason="no NVRTC (pip install nvidia-cuda-nvrtc)"),
              pytest.mark.skipif(find_cupy() is not None, reason="there is a GPU, which runs the kernels themselves")]
RING = [("ring", (1, 1, 1), (64, 1, 1), 0, (0, 1))]
PRODUCT = [("product", (1, 1, 1), (128, 1, 1), 0, (0, 1, 2))]
X = np.arange(6 * 256, dtype=np.float32)


@pytest.mark.parametrize("how", ["cp.async", "bulk"])
def test_a_warp_that_copies_for_another(how: str) -> None:
    """By arrivals of threads and by bytes; who does not wait gets none of them, or arrives too often."""
    y = run_ptx(ring(how), RING, [X, np.zeros_like(X)])[1]
    assert np.array_equal(y.reshape(6, 256), X.reshape(6, 256)[:, ::-1])
    with pytest.raises((PtxError, AssertionError), match="more arrivals than|bytes that did not come"):
        assert np.isfinite(run_ptx(ring(how, wait=""), RING, [X, np.zeros_like(X)])[1]).all(), "bytes that did not come"
    early = ring(how).replace("hy_mbarrier_arrive(used);", "").replace("if (i >= 2)", "if (i > 1)")
    with pytest.raises(PtxError, match="nobody else comes"):
        run_ptx(early, RING, [X, np.zeros_like(X)])


@pytest.mark.parametrize("change, error", [
    (("hy_mbarrier_init(hy_shared_of(&empty[threadIdx.x]), 32);", ""), "was not initialised"),
    (("hy_mbarrier_expect(ready, 1024)", "hy_mbarrier_expect(ready, 1008)"), "nobody else comes"),
    (("x + i * 256, 1024", "x + i * 256 + 1, 1024"), "misaligned"),
    (("x + i * 256, 1024", "x + i * 256, 1 << 20"), "outside of shared")])
def test_mistakes_with_mbarriers(change: tuple[str, str], error: str) -> None:
    assert change[0] in ring("bulk")
    with pytest.raises(PtxError, match=error):
        run_ptx(ring("bulk").replace(*change), RING, [X, np.zeros_like(X)])


@pytest.mark.parametrize("n, kind, dtype", [(64, "half", np.float16), (128, "bf16", ml_dtypes.bfloat16)])
def test_products_of_a_warpgroup(n: int, kind: str, dtype: Any) -> None:
    rng = np.random.default_rng(3)
    a, b = values(rng, (64, 64), dtype), values(rng, (n, 64), dtype)
    given = [a, b, np.zeros((64, n), np.float32)]
    got = run_ptx(of_warpgroup(n, kind), PRODUCT, given)[2]
    np.testing.assert_allclose(got, a.astype(np.float64) @ b.astype(np.float64).T, atol=1e-5)
    np.testing.assert_allclose(got, run_cuda(of_warpgroup(n, kind), PRODUCT, given)[2], atol=1e-4)
    with pytest.raises(PtxError, match="under way was changed"):
        run_ptx(of_warpgroup(n, kind, "a[0] ^= 1; hy_wgmma_wait<0>();"), PRODUCT, given)
    with pytest.raises(PtxError, match="without wgmma.fence"):
        run_ptx(of_warpgroup(n, kind).replace("hy_wgmma_fence();", ""), PRODUCT, given)
    early = of_warpgroup(n, kind).replace("hy_cp_async_wait<0>();", "")
    assert np.isnan(run_ptx(early, PRODUCT, given)[2]).all()


def test_where_matrices_lie() -> None:
    """The layouts without a swizzle, that of 32 bytes, and those of 128 bytes with neighbours at one depth, by hand."""
    lead, stride = 4096, 256
    words = lead >> 4 << 16 | stride >> 4 << 32
    plain = places(words | 64 >> 4, 2, 64, 16, False)
    assert plain[9, 3].tolist() == [64 + 256 + 16 + 6, 64 + 256 + 16 + 7]       # eight rows of 16 bytes are together
    assert plain[0, 8, 0] == 64 + 4096
    assert places(words, 2, 64, 16, True)[9, 11, 0] == 256 + 4096 + 3 * 16 + 2
    assert places(words | 3 << 62, 2, 64, 16, False)[4, 0, 0] == 4 * 32 + 16    # the line at 128 has its halves changed
    turned = places(words | 1 << 62, 2, 128, 16, True)
    assert turned[64, 9, 0] == 4096 + 256 + 128 + (0 ^ 3) * 16                  # bits 7 to 9 of the address are 3
    with pytest.raises(PtxError, match="does not begin"):
        places(1 << 49, 2, 64, 16, False)


@pytest.fixture
def hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRID_CUDA", "emulator")
    monkeypatch.setattr(PtxDriver, "arch", "sm_90a")
    monkeypatch.setattr(contraction, "columns_first", lambda k: False)
    monkeypatch.setitem(cuda._drivers, ("emulator", 0), PtxDriver())


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_kernels_with_products_of_warpgroups(dtype: str, layout: str, hopper: None,
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    tile = warpgroup.TILES[(LAYOUTS.index(layout) + list(TOLERANCE).index(dtype)) % 4]
    monkeypatch.setattr(contraction, "pick_warpgroup", lambda p: Division(tile, 0) if current().warpgroups else None)
    monkeypatch.setitem(FORMS, "product", product(tile.rows + 8, tile.columns, 136, dtype, layout))
    check("product")


@pytest.mark.parametrize("layout", ["NT", "NN"])
def test_kernels_whose_slices_are_copied_by_a_warpgroup_of_their_own(layout: str, hopper: None,
                                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contraction, "pick_warpgroup", lambda p: Division(warpgroup.TILES[3], 0))
    monkeypatch.setattr(warpgroup, "specializes", lambda *_: True)
    monkeypatch.setitem(FORMS, "product", product(64, 72, 392, "float16", layout))
    check("product")
