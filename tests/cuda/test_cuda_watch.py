"""The watchers of emulated kernels: races, accesses outside of arrays, misaligned vectors, bank conflicts, sectors,
each with its line. ``make check-all`` runs all tests of CUDA with them."""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hybrid import hybridize, ir, nd, runtime
from hybrid.base.device import find_cupy, gpu
from hybrid.codegen.printers.cuda import plain_tiles
from hybrid.base.errors import HybridError
from hybrid.runtime.cuda import EmulatorError, emulator, nvrtc, watch
from hybrid.runtime.cuda.emulator import EmulatorDriver

from . import cuda_async_texts as tensor, cuda_texts as texts
from .cuda_forms import Form, normal, program
from .ptx_beside import remember
from .test_cuda_async import ring, warpgroup
from .watch_each import in_all_orders
from ..paths import ROOT

pytestmark = [
    pytest.mark.skipif(not shutil.which("g++") or not shutil.which("addr2line"), reason="no g++ or addr2line"),
    pytest.mark.skipif(find_cupy() is not None, reason="there is a GPU, which runs the kernels themselves")]
BEGIN = 'extern "C" __global__ void k(float *x) {\n'
ONES = [np.ones((64, 64), ml_dtypes.bfloat16)] * 2 + [np.zeros((64, 64), np.float32)]
HALVES = [np.ones((64, 64), np.float16)] * 2 + [np.zeros((64, 64), np.float32)]
FLOATS = [np.zeros(6 * 256, np.float32)] * 2


@pytest.fixture(autouse=True)
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRID_EMU_WATCH", "traffic")


def run(text: str, name: str, threads: int, arrays: list[np.ndarray], blocks: int = 1, shared: int = 0,
        cooperative: bool = False) -> None:
    from .cuda_tools import run_cuda  # noqa: PLC0415
    run_cuda(text, [(name, (blocks, 1, 1), (threads, 1, 1), shared, tuple(range(len(arrays))), cooperative)], arrays)


RIGHT: dict[str, tuple[Any, ...]] = {
    "barrier": (texts.MISUSE, "no_race", 256, [np.zeros(256, np.float32)]),
    "pipeline": (tensor.PIPELINE, "product", 128, ONES, 1, 3 * 4096),
    "cp.async and mbarriers": (ring("cp.async"), "ring", 64, FLOATS),
    "bulk copies": (ring("bulk"), "ring", 64, FLOATS),
    "products of a warpgroup": (warpgroup(64, "half"), "product", 128, HALVES),
    "barriers of the grid": (texts.PERSISTENT, "mlp", 64, [
        np.zeros((3, 64, 64), np.float32), *[np.zeros(64, np.float32)] * 2, np.zeros(1, np.uint32)], 6, 0, True),
    "atomic sums": (BEGIN + "  atomicAdd(x + threadIdx.x % 4, 1.f);\n}", "k", 64, [np.zeros(4, np.float32)], 3),
    "flags between blocks": (
        'extern "C" __global__ void k(float *x, volatile int *ready) {\n  if (blockIdx.x == 0) {\n    x[0] = 1;\n'
        '    __threadfence();\n    ready[0] = 1;\n  } else {\n    while (!ready[0]) __nanosleep(9);\n    x[1] = x[0];\n'
        '  }\n}', "k", 1, [np.zeros(2, np.float32), np.zeros(1, np.int32)], 2, 0, True),
    "halves of a word": (BEGIN + "  ((unsigned short *)x)[threadIdx.x] = 1;\n}", "k", 64, [np.zeros(32, np.float32)]),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_kernels_are_left_alone(name: str) -> None:
    run(*RIGHT[name])


WRONG: dict[str, tuple[str, tuple[Any, ...]]] = {
    "no barrier": (r"race in shared memory: write at kernel.cu:13, read at kernel.cu:14",
                   (texts.MISUSE, "race", 256, [np.zeros(256, np.float32)])),
    "no barrier in a pipeline": (
        r"race in shared memory: read at kernel.cu:24 \(hybrid_async.cuh:\d+\), write at kernel.cu:11",
        (tensor.PIPELINE.replace("__syncthreads();", ""), "product", 128, ONES, 1, 3 * 4096)),
    "a slot not waited for": (
        r"race in shared memory: read at kernel.cu:\d+, write at kernel.cu:23",
        (ring("bulk").replace("hy_mbarrier_wait(used, (i / 2 - 1) % 2)", ""), "ring", 64, FLOATS)),
    "no barrier before products of a warpgroup": (
        r"race in shared memory: write at kernel.cu:\d+ \(hybrid_async.cuh:\d+\), read at kernel.cu:22",
        (warpgroup(64, "half").replace("__syncthreads();", ""), "product", 128, HALVES)),
    "a tile changed under a product": (
        r"race in shared memory: read at kernel.cu:22 \(hybrid_wgmma.cuh:\d+\), write at kernel.cu:25",
        (warpgroup(64, "half", "if (t == 77) b[700] = 0; hy_wgmma_wait<0>();"), "product", 128, HALVES)),
    "no proxy fence before products": (
        r"a read by the asynchronous proxy at kernel.cu:22 \(hybrid_wgmma.cuh:\d+\) may miss what was written at "
        r"kernel.cu:\d+", (warpgroup(64, "half").replace("hy_proxy_fence();", ""), "product", 128, HALVES)),
    "blocks": ("race in global memory: write at kernel.cu:2, write at kernel.cu:2",
               (BEGIN + "  x[threadIdx.x] = blockIdx.x;\n}", "k", 32, [np.zeros(32, np.float32)], 2)),
    "atomic and plain": ("race in global memory", (
        BEGIN + "  atomicAdd(x, 1.f);\n  if (threadIdx.x == 5) x[0] = 3;\n}", "k", 32, [np.zeros(1, np.float32)])),
    "lanes": ("race in shared memory", (
        BEGIN + "  __shared__ float s[32];\n  s[threadIdx.x] = x[0];\n  x[threadIdx.x] = s[31 - threadIdx.x];\n}", "k",
        32, [np.zeros(32, np.float32)])),
    "reading outside": (r"a read outside of the arrays of the launch, at kernel.cu:2 \(1 times\)",
                        (BEGIN + "  float y = x[threadIdx.x + 1];\n  if (y > 0) x[threadIdx.x] = 1;\n}", "k", 32,
                         [np.zeros(32, np.float32)])),
    "misaligned": ("a vector at kernel.cu:2 is 4 bytes behind a boundary of its 16 bytes",
                   (BEGIN + "  float4 q = *(float4 *)(x + 1);\n  x[0] = q.x;\n}", "k", 1, [np.zeros(16, np.float32)])),
}


@pytest.mark.parametrize("name", WRONG)
def test_mistakes_are_named_with_their_lines(name: str) -> None:
    message, case = WRONG[name]
    with pytest.raises(EmulatorError, match=message):
        run(*case)


def test_bank_conflicts_and_sectors() -> None:
    """Times the least that the bytes could cost, by line: a column of a square of floats meets one bank, each in a
    sector of its own."""
    run('extern "C" __global__ void columns(float *x) {\n  __shared__ float s[32][32];\n'
        '  s[threadIdx.x][3] = x[threadIdx.x];\n  __syncwarp();\n  float y = s[3][threadIdx.x];\n'
        '  x[threadIdx.x * 32] = y;\n'
        '  *(float4 *)(x + 1024 + threadIdx.x * 4) = *(float4 *)(x + 1536 + threadIdx.x * 4);\n}',
        "columns", 32, [np.zeros(2048, np.float32)])
    flows = [f for f in watch.traffic() if f.kernel == "columns"]
    found = {(int(f.line[10:]), f.space, f.access): (f.factor, f.cost) for f in flows}
    assert found[3, "shared", "write"] == (32, 32) and found[3, "global", "read"] == (1, 4)
    assert found[5, "shared", "read"] == (1, 1) and found[6, "global", "write"] == (8, 32)
    assert found[7, "global", "read"] == (1, 16) == found[7, "global", "write"]


def test_an_asynchronous_copy_has_banks_and_sectors() -> None:
    """Sixteen bytes a lane, to lines of 128 bytes: eight lanes at a time meet the same four banks."""
    run('#include "hybrid_async.cuh"\nextern "C" __global__ void spread(float *x) {\n'
        '  __shared__ __align__(16) float s[32 * 32];\n'
        '  hy_cp_async<16>(hy_shared_of(&s[threadIdx.x * 32]), x + threadIdx.x * 4);\n  hy_cp_async_commit();\n'
        '  hy_cp_async_wait<0>();\n  x[128 + threadIdx.x] = s[threadIdx.x * 32];\n}', "spread", 32,
        [np.zeros(160, np.float32)])
    found = {(f.space, f.access): f.factor for f in watch.traffic() if f.kernel == "spread" and ":4" in f.line}
    assert found == {("shared", "write"): 8, ("global", "read"): 1}


def test_programs_of_each_kind(cuda_device: Any) -> None:
    """A generated product, sum and loop: no race, nothing outside, no misaligned vector."""
    x, w = ir.input(0, (40, 72), "float32"), ir.input(1, (72, 24), "float32")
    outputs = ir.dot(x, w, ((1,), (0,))), ir.reduce("sum", ir.map("exp", x), (1,)), ir.map("tanh", x)
    program = ir.Program((x, w), outputs)
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(n.shape).astype(np.float32) for n in program.inputs]
    product = runtime.compile(program, gpu(0))(arrays)[0]
    np.testing.assert_allclose(product, arrays[0] @ arrays[1], atol=1e-4)


def _product(dtype: str) -> Form:
    return Form(lambda a, b: ir.dot(a, b, ((1,), (0,))), [np.ones((150, 40), dtype), np.ones((40, 140), dtype)])


@pytest.mark.parametrize(("form", "tile"), [
    (_product("int32"), (8, 8)), (_product("int32"), (4, 2)), (_product("float64"), (2, 4)),
    (Form(lambda a: ir.argsort(a), [normal(9000)]), (1, 1))])
def test_no_bank_is_met_more_than_twice_as_often_as_bytes_need(form: Form, tile: tuple[int, int], cuda_device: Any,
                                                                monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of products, and counts and places of digits, whatever the digits are."""
    monkeypatch.setattr(watch, "_flows", {})
    monkeypatch.setattr(plain_tiles, "tiles_for", lambda p: [plain_tiles.PlainTile(*tile)])
    runtime.compile(program([form])[0], gpu(0))(form.arrays)
    flows = [f for f in watch.traffic() if f.space == "shared"]
    assert len(flows) > 3 and all(f.factor <= 2 for f in flows), [f for f in flows if f.factor > 2]


def test_what_a_team_knows_is_stored_by_one_of_it(cuda_device: Any) -> None:
    """A sum over three elements, which each thread of a row's team computes, is one of the results."""
    @hybridize
    def scaled(x: nd.NDArray, w: nd.NDArray) -> tuple[nd.NDArray, nd.NDArray]:
        s = x.sum(axis=1)
        return s, nd.gamma(s).reshape((2, 1)) * w
    x, w = nd.ones((2, 3), ctx=gpu(0)), nd.ones((2, 40), ctx=gpu(0))
    s, y = scaled(x, w)
    np.testing.assert_allclose(s.asnumpy(), 3)
    np.testing.assert_allclose(y.asnumpy(), 2, rtol=1e-6)


@pytest.mark.parametrize(("statement", "right"), [
    ("x[atomicAdd(n, 1)] = threadIdx.x;", False), ("x[threadIdx.x] = atomicAdd(n, 0);", True)])
def test_results_that_hang_on_the_order_of_threads(statement: str, right: bool) -> None:
    """They are no race, and found where each kernel runs in all orders (``make watch-gpu``); memory is as the first run
    leaves it."""
    text = f'extern "C" __global__ void k(int *x, int *n) {{ {statement} }}'
    driver, arrays = EmulatorDriver(), [np.zeros(64, np.int32), np.zeros(1, np.int32)]
    module = driver.load(text, ["k"])
    plan = module.plan([("k", (1, 1, 1), (64, 1, 1), 0, (0, 1), False)])
    pointers = [driver.pointer(a) for a in arrays]
    for a in arrays:
        remember(a)
    options = emulator.ffi.new("struct EmuOptions *", emulator._options("forward", 1))
    table = emulator.ffi.new("void *[]", [emulator.ffi.cast("void *", p) for p in pointers])

    def run() -> None:
        assert not module.library.emu_run(plan._native, 1, plan._index, table, options)
    watch.begin(module.watcher, pointers, True)
    found = in_all_orders(run, options, pointers, module.watcher, text)
    assert found == "" if right else found.startswith("order (1, 1, 1): ")
    if right:
        assert (arrays[0] == 0).all()


GRIDS = """import numpy as np
import pytest
from tests.cuda.cuda_tools import run_cuda

@pytest.mark.parametrize("blocks", [2, 2, 3])
def test_cuda(blocks):
    text = 'extern "C" __global__ void k(float *x) { x[blockIdx.x * 32 + threadIdx.x] += 1; }'
    run_cuda(text, [("k", (blocks, 1, 1), (32, 1, 1), 0, (0,))], [np.zeros(96, np.float32)])

def test_no_kernel(): raise AssertionError
"""


def plugins_say(tmp_path: Path, tests: str) -> tuple[str, list[str]]:
    """What pytest says of tests with the plugins of ``make watch-gpu``, and what of it was watched. They must pass."""
    (tmp_path / "test_some.py").write_text(tests)
    names = "watch_summary", "ptx_beside", "watch_each", "cuda_alone"
    plugins = [word for name in names for word in ("-p", f"tests.cuda.{name}")]
    orders = "HYBRID_EMU_ORDER", "HYBRID_EMU_BLOCKS", "HYBRID_EMU_SUMS"            # with others, more runs are counted
    env = {k: v for k, v in os.environ.items() if k not in orders}
    env.update(HYBRID_WATCHED=str(tmp_path / "watched.txt"), PYTHONPATH=str(ROOT))
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugins,
                           str(tmp_path / "test_some.py")], cwd=ROOT, text=True, capture_output=True, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, [line for line in done.stdout.splitlines() if line.startswith("watched: ")]


def test_what_was_found_right_is_not_watched_again(tmp_path: Path) -> None:
    """``make watch-gpu``: a kernel is watched with each grid, and interpreted, once; tests without kernels are left
    out."""
    (output, first), (_, second) = [plugins_say(tmp_path, GRIDS) for _ in range(2)]
    assert "3 passed, 1 deselected" in output
    assert first == ["watched: 1 kernels watched, 2 launches watched, 2 modules known before, 1 modules watched, "
                     "1 modules watched for other grids, 4 runs in other orders"]
    assert second == ["watched: 3 modules known before"]
    keys = (tmp_path / "watched.txt").read_text().split()
    assert len(keys) == len(set(keys)) == (4 if nvrtc.available() else 3)          # the text, two grids, its PTX


MAPS = """from tests.cuda.cuda_tools import run_cuda
from tests.cuda.test_cuda_tensor_maps import ARRAYS, EVERY, LAUNCHES

def test_cuda_boxes():
    run_cuda(EVERY, LAUNCHES[:1], ARRAYS)
"""
ON_PURPOSE = """import numpy as np
import pytest
from hybrid.base.errors import HybridError
from tests.cuda.cuda_tools import run_cuda

TEXT = '''#include <stdlib.h>
extern "C" __global__ void k(float *x) {
  __shared__ float s[32];
  s[threadIdx.x] = threadIdx.x;
  if (atoi(getenv("RIGHT"))) __syncthreads();
  x[threadIdx.x] = s[31 - threadIdx.x];
}'''

@pytest.mark.unwatched
@pytest.mark.parametrize("right", [True, False])
def test_cuda(right, monkeypatch):
    monkeypatch.setenv("HYBRID_EMU_WATCH", "races")
    monkeypatch.setenv("HYBRID_TEST_ARCHS", "none")
    monkeypatch.setenv("RIGHT", str(int(right)))
    try:
        run_cuda(TEXT, [("k", (1, 1, 1), (32, 1, 1), 0, (0,))], [np.zeros(32, np.float32)])
    except HybridError as err:
        assert not right and "race in shared memory" in str(err)
    else:
        assert right
"""


@pytest.mark.parametrize("tests, count", [(MAPS, 1), (ON_PURPOSE, 2)], ids=["tensor maps", "wrong on purpose"])
def test_plugins_pass_tensor_maps_and_skip_tests_marked_unwatched(tests: str, count: int, tmp_path: Path) -> None:
    """Tensor maps reach kernels that are watched and interpreted; of a text that is right, and then wrong on purpose,
    each run is watched."""
    assert f"{count} passed" in plugins_say(tmp_path, tests)[0]


def test_a_wrong_setting_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRID_EMU_WATCH", "all")
    with pytest.raises(HybridError, match="HYBRID_EMU_WATCH='all': write races or traffic"):
        watch.mode()
