"""Long rows sorted by many blocks."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from hybrid import ir
from hybrid.codegen import cuda
from hybrid.codegen.printers.cuda import select
from hybrid.passes.pipeline import plan
from hybrid.runtime.cuda import nvrtc
from hybrid.runtime.cuda.emulator import EmulatorDriver

from .cuda_forms import Form, normal, program
from .cuda_tools import run_cuda
from .ptx_driver import run_ptx
from .test_cuda_kernels import check

pytestmark = pytest.mark.usefixtures("cuda_device")
rng = np.random.default_rng(5)


def order(descending: bool, x: np.ndarray) -> Form:
    return Form(lambda x: ir.argsort(x, descending), [x])


@pytest.mark.parametrize("descending", [False, True])
def test_long_rows(descending: bool) -> None:
    """Every kind of key; equal keys keep their order, NaN is the greatest, zeros are equal; rows of one tile and of
    several."""
    x = normal(2, 5000)
    x[0, 7], x[0, 3000], x[1, 9], x[1, 11], x[1, 40] = np.nan, np.inf, -0.0, 0.0, -np.inf
    keys = [x, normal(1100, dtype="float16"), rng.integers(-100, 100, (3, 1500)).astype("int8"),
            rng.integers(-30000, 30000, (4100,)).astype("int16"), rng.integers(-5, 5, (9000,)).astype("int32"),
            rng.integers(0, 2**32, (2000,)).astype("uint32"), rng.integers(0, 2, (2000,)).astype("bool")]
    check([order(descending, k) for k in keys])


def test_blocks_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles move their pairs while others find their places."""
    monkeypatch.setenv("HYBRID_EMU_BLOCKS", "3")
    check([order(False, rng.integers(0, 60000, (2, 5 * 4096 - 7)).astype("uint16"))])


def test_the_form() -> None:
    """A row of a million is the work of many blocks, in a launch a digit and two before; short rows and keys of 64 bits
    have one block each."""
    def launches(x: np.ndarray) -> list[tuple[str, int]]:
        return [(launch.name, launch.blocks) for launch in
                cuda.print_program(plan(program([order(False, x)])[0]).groups).launches]
    million = launches(np.zeros(10**6, "float32"))
    assert len(million) == 6 and ("k0_move3", 245) in million
    assert launches(np.zeros((7, 500), "float32")) == [("k0", 7)]
    assert launches(np.zeros((2, 5000), "float64")) == [("k0", 2)]


def first(count: int, descending: bool, x: np.ndarray) -> Form:
    """The first of each row alone are read."""
    return Form(lambda x: ir.slice(ir.argsort(x, descending), (0,) * x.ndim, (*x.shape[:-1], count)), [x])


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU of three multiprocessors: up to six blocks share a row."""
    monkeypatch.setattr(EmulatorDriver, "processors", property(lambda self: 3))
    monkeypatch.setattr(select, "PROCESSORS", 3)


@pytest.mark.parametrize("descending", [False, True])
def test_the_first_of_long_rows(descending: bool, three: None) -> None:
    """Every kind of key, one tile and several in a block, rows that blocks share and rows with a block each."""
    x = normal(2, 9000)
    x[0, 7], x[0, 3000], x[1, 9], x[1, 11], x[1, 40] = np.nan, np.inf, -0.0, 0.0, -np.inf
    halves, few = normal(30000, dtype="float16"), rng.integers(-5, 5, (3, 12000)).astype("int32")
    check([first(5, descending, x), first(1, descending, x), first(1000, descending, halves),
           first(700, descending, few), first(300, descending, rng.integers(-100, 100, (7, 5000)).astype("int8")),
           first(128, descending, rng.integers(0, 2, (2, 40000)).astype("bool")),
           first(64, descending, rng.integers(0, 2**32, (20000,)).astype("uint32"))])


def test_the_first_of_equal_keys(three: None) -> None:
    """They are taken in the order in which they stand, also where the last of them lie in several blocks."""
    check([first(1024, False, np.zeros((2, 40000), "float32")), first(1024, True, np.ones((1, 8192), "int8"))])


def test_the_first_while_blocks_take_turns(monkeypatch: pytest.MonkeyPatch, three: None) -> None:
    monkeypatch.setenv("HYBRID_EMU_BLOCKS", "6")
    monkeypatch.setenv("HYBRID_EMU_WATCH", "races")
    check([first(40, False, rng.integers(0, 300, (2, 6 * 4096 - 7)).astype("uint16"))])


def test_the_form_of_the_first() -> None:
    """One launch, whose blocks share a row; each row has one where there are many; all are sorted where no blocks may
    wait for each other, and where many are read."""
    def launches(x: np.ndarray, count: int, processors: int = 132) -> list[tuple[int, bool]]:
        printed = cuda.print_program(plan(program([first(count, True, x)])[0]).groups, processors=processors)
        return [(launch.blocks, launch.cooperative) for launch in printed.launches if launch.name != "k1"]
    million, rows = np.zeros(10**6, "float32"), np.zeros((200, 5000), "float32")
    assert launches(million, 100) == [(245, True)] and launches(rows, 100) == [(200, False)]
    assert launches(rows, 100, 0) == [(200, False)] and len(launches(million, 100, 0)) == 6
    assert len(launches(million, 1025)) == 6 and len(launches(rows, 1000)) == 6


# Tiles in the order in which their blocks begin; each thread has a digit.
BEFORE = """#include "hybrid_sort.cuh"
extern "C" __global__ void before(unsigned *states, const unsigned *own, unsigned *out, const int *tiles,
                                  unsigned *ticket) {
  const int tile = tiles[hy_radix_ticket(ticket)], at = tile * 256 + threadIdx.x;
  out[at] = hy_radix_before(states + threadIdx.x, tile, own[at]);
}"""


def _sums_before(direction: str, tiles: list[int], run: Callable[..., list[np.ndarray]]) -> None:
    own = rng.integers(0, 4096, (len(tiles), 256)).astype("uint32")
    arrays = [np.zeros_like(own), own, np.zeros_like(own), np.array(tiles, "int32"), np.zeros(1, "uint32")]
    launch = ("before", (len(tiles), 1, 1), (256, 1, 1), 0, (0, 1, 2, 3, 4))
    states, _, out, _, _ = run(BEFORE, [launch], arrays, **({"order": direction} if direction else {}))
    np.testing.assert_array_equal(out, np.cumsum(own, 0, "uint32") - own)
    np.testing.assert_array_equal(states, np.cumsum(own, 0, "uint32") + np.uint32(1 << 31))


@pytest.mark.parametrize("count", [1, 4, 11])
def test_tiles_wait_for_those_before_them(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All tiles are resident, and later ones begin first: they spin until each earlier one has said its count. Where
    they run one after the other, from the first, none waits."""
    monkeypatch.setenv("HYBRID_EMU_WATCH", "races")
    _sums_before("forward", list(range(count)), run_cuda)
    monkeypatch.setenv("HYBRID_EMU_BLOCKS", str(count))
    for direction in ("forward", "reverse", "random"):
        _sums_before(direction, list(range(count))[::-1], run_cuda)
        _sums_before(direction, list(rng.permutation(count)), run_cuda)


@pytest.mark.skipif(not nvrtc.available(), reason="no NVRTC (pip install nvidia-cuda-nvrtc)")
def test_the_interpreter_of_ptx_finds_the_same_sums() -> None:
    _sums_before("", list(range(3)), run_ptx)
