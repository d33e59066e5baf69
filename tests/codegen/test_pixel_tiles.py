"""Which tiles convolutions with pixels in lanes have."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hybrid import ir
from hybrid.codegen.printers.convolutions.pixels_in_lanes import PixelsInLanes
from hybrid.ir import Program
from hybrid.ir.convolution import convolve
from hybrid.runtime import cpu

from ..cpu_kernels import vectors_of


@pytest.mark.parametrize("filters", [64, 128, 144])
def test_tiles_of_whole_vectors_have_few_lines(filters: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A vector of 64 bytes that begins anywhere is of two lines of the cache: of few filters times many lines of an
    image, loads take longer than products."""
    vectors_of(64, monkeypatch)
    monkeypatch.setenv("HYBRID_TUNE", "0")
    found: list[Any] = []
    finish = PixelsInLanes.finish

    def noted(self: PixelsInLanes) -> Any:
        found.append(self.tile)
        return finish(self)
    monkeypatch.setattr(PixelsInLanes, "finish", noted)
    rng = np.random.default_rng(filters)
    x, w = (rng.standard_normal(s).astype("float32") for s in ((1, 8, 16, 16), (filters, 8, 3, 3)))
    leaves = ir.input(0, x.shape, x.dtype), ir.input(1, w.shape, w.dtype)
    y, = cpu.compiled(Program(leaves, (convolve(*leaves, 1, (1, 1), (1, 1), (1, 1)),), ()))([x, w])
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), (2, 3))
    np.testing.assert_allclose(y, np.einsum("ocij,nchwij->nohw", w, windows), rtol=1e-4, atol=1e-4)
    assert found and all(t.r * t.nv <= 4 <= t.mr for t in found)
