"""Products of warpgroups (wgmma, sm_90a): tiles, layouts, digits, and that the compiler lets them run together."""
from __future__ import annotations

import re
import shutil
from typing import Any

import numpy as np
import pytest

from hybrid import ir, runtime
from hybrid.base.device import find_cupy, gpu
from hybrid.codegen import cuda
from hybrid.codegen.printers.cuda import contraction, warpgroup
from hybrid.codegen.printers.cuda.product import Product
from hybrid.codegen.printers.cuda.shares import Division
from hybrid.codegen.printers.cuda.stages import Tile
from hybrid.codegen.printers.cuda.target import current
from hybrid.passes.pipeline import plan
from hybrid.runtime.cuda import nvrtc
from hybrid.runtime.cuda.emulator import EmulatorDriver, EmulatorError

from .cuda_async_texts import HEAD
from .cuda_forms import Form, normal, program
from .cuda_tools import check_cuda_source, run_cuda, run_program
from .test_cuda_kernels import check
from .test_cuda_tensor import LAYOUTS, TOLERANCE, product

pytestmark = pytest.mark.usefixtures("hopper")


@pytest.fixture
def hopper(cuda_device: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """The emulator as a GPU that has them, and every product done by one."""
    monkeypatch.setattr(EmulatorDriver, "arch", "sm_90a")
    monkeypatch.setattr(contraction, "columns_first", lambda k: False)
    take(monkeypatch, warpgroup.TILES[3])


def take(monkeypatch: pytest.MonkeyPatch, tile: Tile) -> None:
    """Every product takes a tile, where it is printed for a GPU that has them."""
    monkeypatch.setattr(contraction, "pick_warpgroup", lambda p: Division(tile, 0) if current().warpgroups else None)


def text_of(form: Form) -> str:
    text = cuda.print_program(plan(program([form])[0]).groups, arch="sm_90a", no_maps=EmulatorDriver().no_maps).source
    assert "hy_wgmma" in text.partition("__global__")[2]
    return text


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_tiles(dtype: str, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tile each, more slices than are under way at once, whole and at the edges."""
    tile = warpgroup.TILES[(LAYOUTS.index(layout) + list(TOLERANCE).index(dtype)) % 4]
    take(monkeypatch, tile)
    form = product(tile.rows + 8, tile.columns, 136, dtype, layout)
    text_of(form)
    check([form])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_wide_tiles(dtype: str, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """256 columns by one product, whole and at the edges."""
    take(monkeypatch, warpgroup.WIDE)
    form = product(136, 264, 136, dtype, layout)
    assert "_n256<" in text_of(form)
    check([form])


WAYS = {"maps": "hy_copy_box", "copies of 16 bytes": "hy_cp_async_arrive"}


def specialized(monkeypatch: pytest.MonkeyPatch, way: str = "maps") -> None:
    """Slices of every tile are copied by a producer warpgroup."""
    monkeypatch.setattr(warpgroup, "specializes", lambda *_: True)
    monkeypatch.setattr(EmulatorDriver, "no_maps", "" if way == "maps" else "not here")


@pytest.mark.parametrize("tile, layout, dtype, way", [
    (3, "NN", "float16", "maps"), (1, "NT", "bfloat16", "maps"), (2, "TT", "float16", "maps"),
    pytest.param(0, "TN", "bfloat16", "maps", marks=pytest.mark.thorough),
    (3, "TN", "bfloat16", "copies of 16 bytes"),
    pytest.param(0, "NT", "bfloat16", "copies of 16 bytes", marks=pytest.mark.thorough)])
def test_slices_copied_by_a_warpgroup_of_their_own(tile: int, layout: str, dtype: str, way: str,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    """More slices than lie in shared memory at once, whole and at the edges."""
    specialized(monkeypatch, way)
    take(monkeypatch, warpgroup.TILES[tile])
    form = product(72, warpgroup.TILES[tile].columns, 328, dtype, layout)
    assert WAYS[way] in text_of(form).partition("__global__")[2]
    check([form])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("apart", [False, True])
def test_parts_of_the_depth_whose_slices_are_copied(apart: bool, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second launch adds the parts' sums, or the block that is last."""
    specialized(monkeypatch, way)
    monkeypatch.setattr(EmulatorDriver, "processors", 0 if apart else 132)
    form = Form(lambda x, w: ir.map("relu", ir.dot(x, w, ((0,), (0,)))),
                [normal(520, 24, dtype="float16"), normal(520, 40, dtype="float16")], tol=2e-2)
    check([form])


def kernel_of(form: Form) -> Any:
    (kernel,) = plan(program([form])[0]).fused.kernels
    with cuda.printing_for("sm_90a", no_maps=""):
        kernel.printed = cuda.print_kernel(kernel, "k0")
    return kernel


def test_batches_and_parts_of_arrays_come_through_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A map has the matrices of a batch as its third axis; one that all of them share has two. A part of an array
    begins inside of it."""
    specialized(monkeypatch)
    shared = Form(lambda x, w: ir.dot(x, w, ((2,), (1,))) * 2,
                  [normal(2, 24, 40, dtype="float16"), normal(16, 40, dtype="float16")], tol=2e-2)
    batch = Form(lambda x, w: ir.dot(x, w, ((2,), (2,)), ((0,), (0,))) * 2,
                 [normal(2, 24, 40, dtype="bfloat16"), normal(2, 16, 40, dtype="bfloat16")], tol=2e-2)
    part = Form(lambda x, w: ir.dot(ir.slice(x, (1, 8), (24, 40)), w, ((1,), (1,))) * 2,
                [normal(32, 64, dtype="float16"), normal(16, 40, dtype="float16")], tol=2e-2)
    maps = [[m for _, m in kernel_of(form).printed.launches[0].maps] for form in (shared, batch, part)]
    assert [[len(m.sizes) for m in each] for each in maps] == [[2, 2], [3, 3], [2, 2]]
    assert maps[2][0].offset == (64 + 8) * 2 and maps[2][0].sizes == (40, 24)
    check([shared, batch, part])


@pytest.mark.parametrize("way", WAYS)
def test_reports_say_how_slices_come(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    specialized(monkeypatch, way)
    form = product(64, 64, 328, "float16")
    whole, arrays, _, _ = program([form])
    executable = runtime.compile(whole, gpu(0))
    said = str(executable.report)
    assert ("not as slices through tensor maps: not here" in said) == (way != "maps")
    assert ("as slices through tensor maps\n" in said) == (way == "maps")


NEEDED = {                                                 # statement, and what is said without it
    r"hy_mbarrier_wait\(full.*?;": "race in shared memory|no thread waited|more arrivals",
    r"hy_mbarrier_wait\(used.*?;": "race in shared memory|nobody completes|more arrivals",
    r"hy_proxy_fence\(\);": "a read by the asynchronous proxy .* may miss what was written",
    r"if \(lane == 0\) hy_mbarrier_arrive\(.*?;": "nobody completes",
    r"hy_wgmma_wait<0>\(\);": "wgmma products that it did not wait for",
    r"hy_wgmma_fence\(\);": "without wgmma.fence",
    r"hy_mbarrier_init\(used.*?;": "not initialised",
    r"hy_mbarrier_init\(full.*?;": "not initialised",
    r"__syncthreads\(\);": "not initialised|race in shared memory",
}
OWN = {"copies of 16 bytes": {r"hy_cp_async_arrive\(.*?;": "nobody completes"},
       "maps": {r"hy_mbarrier_expect\(.*?;": "nobody completes", r"hy_copy_box\(to \+ 0,.*?;": "nobody completes"}}
REMOVED = """#include <stdlib.h>
static bool stays(int number) { return atoi(getenv("REMOVED")) != number; }
"""


@pytest.mark.skipif(not shutil.which("g++") or not shutil.which("addr2line"), reason="no g++ or addr2line")
@pytest.mark.skipif(find_cupy() is not None, reason="there is a GPU, which runs the kernels themselves")
@pytest.mark.unwatched
@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_too_much(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each wait, arrival and fence of blocks whose slices are copied by a warpgroup of their own is needed: the
    emulator or its watcher tells of the kernel without it, in one of two orders of threads."""
    specialized(monkeypatch, way)
    monkeypatch.setenv("HYBRID_EMU_WATCH", "races")
    monkeypatch.setenv("HYBRID_TEST_ARCHS", "none")
    form, needed = product(64, 64, 328, "float16"), {**NEEDED, **OWN[way]}
    printed = cuda.print_program(plan(program([form])[0]).groups, arch="sm_90a", no_maps=EmulatorDriver().no_maps)
    head, mark, kernel = printed.source.partition('extern "C" __global__')
    for number, statement in enumerate(needed):
        kernel, count = re.subn(f"({statement})", rf"if (stays({number})) {{ \1 }}", kernel)
        assert count == 1, statement
    (launch,) = printed.launches
    order = list(dict.fromkeys(launch.args))
    launches = [(launch.name, (launch.blocks, 1, 1), (launch.threads, 1, 1), launch.shared,
                 tuple(map(order.index, launch.args)), False, launch.maps)]
    arrays = [np.zeros((64, 64), np.float16), *form.arrays[2:], *form.arrays[:2]]            # bias first, as it is read
    for number, (statement, said) in enumerate([("none", ""), *needed.items()], -1):
        monkeypatch.setenv("REMOVED", str(number))
        found = []
        for threads in ("reverse", "forward"):
            try:
                run_cuda(head + REMOVED + mark + kernel, launches, arrays, threads)
            except EmulatorError as err:
                found.append(str(err))
        assert any(re.search(said, text) for text in found) if said else not found, (statement, found)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_wide_tiles_are_of_large_products_of_halves(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with cuda.printing_for("sm_90a"):
        ways = [warpgroup.pick_warpgroup(Product(plan(program([product(n, n, n, dtype)])[0]).fused.kernels[0], "k"))
                for n in (4096, 256)]
    large, small = (way.tile if way is not None else None for way in ways)
    assert (large == warpgroup.WIDE) == (dtype == "float16") and small != warpgroup.WIDE


def test_parts_batches_and_epilogues() -> None:
    deep = Form(lambda x, w: ir.map("relu", ir.dot(x, w, ((0,), (0,)))), [normal(520, 24), normal(520, 40)])
    assert "k0_parts" in text_of(deep)
    check([deep, Form(lambda x, w: ir.dot(x, w, ((2,), (2,)), ((0,), (0,))) * 2,
                      [normal(2, 24, 40, dtype="bfloat16"), normal(2, 16, 40, dtype="bfloat16")], tol=2e-2)])


@pytest.mark.parametrize("sums", ["rounded", "truncated"])
def test_float32_keeps_its_digits(sums: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Positive factors, the worst case for sums that are cut off: the error is that of 32 products."""
    monkeypatch.setenv("HYBRID_EMU_SUMS", sums)
    form = product(16, 16, 1024, "float32")
    form.arrays[:] = [abs(a) for a in form.arrays]
    x, w, z = (a.astype(np.float64) for a in form.arrays)
    whole, arrays, _, _ = program([form])
    for _, (got,), _ in run_program(whole, arrays):
        assert np.abs(got / (x @ w.T + z) - 1).max() < 2e-6


def test_one_term(monkeypatch: pytest.MonkeyPatch) -> None:
    """HYBRID_TF32=1: one product, 11 bits of each factor."""
    monkeypatch.setenv("HYBRID_TF32", "1")
    form = product(40, 48, 64, "float32")
    x, w, z = (a.astype(np.float64) for a in form.arrays)
    whole, arrays, _, _ = program([form])
    for _, (got,), _ in run_program(whole, arrays):
        error = np.abs(got - (x @ w.T + z)) / (np.abs(x) @ np.abs(w.T) + np.abs(z))
        assert 1e-6 < error.max() < 2.0**-10


@pytest.mark.skipif(not nvrtc.available(), reason="no NVRTC (pip install nvidia-cuda-nvrtc)")
def test_the_compiler_lets_products_run_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """No spills, and no remark that it makes products wait for each other, or does not share registers anew."""
    monkeypatch.undo()
    monkeypatch.setattr(EmulatorDriver, "no_maps", "")
    for dtype, layout in (("float16", "TN"), ("bfloat16", "NT"), ("float32", "NT"), ("float32", "TN")):
        text = text_of(product(4096, 4096, 4096, dtype, layout))
        assert "hy_mma" not in text.partition("__global__")[2]
        check_cuda_source(text, ["k0"], ("sm_90a",))
        log = nvrtc.compile(text, "sm_90a").log
        assert "serialized" not in log and "setmaxnreg" not in log


CHANGED = HEAD + r"""
#include "hybrid_wgmma.cuh"
extern "C" __global__ void __launch_bounds__(128) product(float *C) {
    __shared__ __align__(512) unsigned char b[64 * 64];
    float d[32];
    unsigned a[4] = {1, 2, 3, 4};
    hy_wgmma_fence();
    hy_wgmma_tf32_n64(d, a, hy_matrix_of(hy_shared_of(b), 512, 16, 64), 0);
    hy_wgmma_commit();
    a[threadIdx.x % 4]++;
    hy_wgmma_wait<0>();
    C[threadIdx.x] = d[0] + a[0];
}
"""


def test_registers_of_a_product_under_way_stay() -> None:
    with pytest.raises(EmulatorError, match="registers of a wgmma under way were changed"):
        run_cuda(CHANGED, [("product", (1, 1, 1), (128, 1, 1), 0, (0,))], [np.zeros(128, np.float32)])
