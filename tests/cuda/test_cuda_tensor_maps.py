"""Copies of boxes through tensor maps: places of elements, zeros outside, bytes that barriers count."""
from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pytest

from hybrid.base.device import find_cupy
from hybrid.codegen.cuda import TensorMap
from hybrid.runtime.cuda import EmulatorError, nvrtc

from . import kernels_everywhere
from .cuda_async_texts import BOXES
from .cuda_tools import ORDERS, check_cuda_source, run_cuda
from .ptx_driver import run_ptx

pytestmark = pytest.mark.skipif(find_cupy() is not None, reason="there is a GPU, which runs the kernels themselves")
ELEMENTS = {"float16": "unsigned short", "float32": "float", "float64": "double"}
TURNS = 3
# dtype, sizes of the array (the last one along memory), elements that an axis is a part of, box, swizzle, first element
# of turn i
CASES: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], int, list[str]]] = {
    "a line": ("float32", (141,), (64,), 0, ["i * 50 - 3"]),
    "lines": ("float16", (13, 70), (8, 24), 0, ["i * 24 - 1", "i * 5"]),
    "lines of 32 bytes": ("float32", (50, 12), (40, 8), 32, ["i * 4", "i * 20 - 7"]),
    "lines of 64 bytes": ("float64", (20, 13), (16, 8), 64, ["i * 5", "i * 9 - 4"]),
    "lines of 128 bytes": ("float16", (30, 150), (24, 64), 128, ["i * 50", "i * 12 - 5"]),
    "several matrices": ("float16", (3, 9, 72), (2, 8, 64), 128, ["i * 8", "3 - i * 2", "i - 1"]),
}


HEAD = '#include "hybrid_tensor_maps.cuh"\n'
NAMES = {name: f"boxes{i}" for i, name in enumerate(CASES)}


def text_of(name: str) -> str:
    dtype, _, box, _, place = CASES[name]
    return (BOXES.replace("ELEMENT", ELEMENTS[dtype]).replace("BOX", str(np.prod(box))).replace("TURNS", str(TURNS))
            .replace("PLACE", ", ".join(place)).replace(" boxes(", f" {NAMES[name]}("))


EVERY = HEAD + "".join(map(text_of, CASES))


def array_of(name: str) -> np.ndarray:
    """Numbers in lines that are filled up to multiples of 16 bytes."""
    dtype, shape, _, _, _ = CASES[name]
    each = 16 // np.dtype(dtype).itemsize
    padded = (*shape[:-1], -(-shape[-1] // each) * each)
    return np.arange(1, np.prod(padded) + 1).reshape(padded).astype("u2" if dtype == "float16" else dtype)


def map_of(name: str) -> TensorMap:
    dtype, shape, box, swizzle, _ = CASES[name]
    return TensorMap(dtype, shape[::-1], array_of(name).strides[-2::-1], box[::-1], swizzle)


def launch_of(name: str, first: int = 0, *changed: TensorMap) -> tuple[Any, ...]:
    """first: the number of its first array."""
    m = changed[0] if changed else map_of(name)
    return NAMES[name], (1, 1, 1), (64, 1, 1), 0, (first, first, first + 1), False, ((1, m),)


def given(name: str) -> list[np.ndarray]:
    x = array_of(name)
    return [x, np.zeros((TURNS, np.prod(CASES[name][2])), x.dtype)]


ARRAYS = [a for name in CASES for a in given(name)]
LAUNCHES = [launch_of(name, 2 * i) for i, name in enumerate(CASES)]


def expected(name: str) -> np.ndarray:
    """Element by element: zeros outside, 16-byte pieces of a swizzle's line mixed with the line's number."""
    _, shape, box, swizzle, place = CASES[name]
    x = array_of(name)
    out = np.zeros((TURNS, np.prod(box)), x.dtype)
    for i in range(TURNS):
        first = [eval(p, {"i": i}) for p in place][::-1]
        for number, within in enumerate(np.ndindex(*box)):
            at = tuple(f + w for f, w in zip(first, within))
            byte = number * x.itemsize
            if swizzle:
                byte ^= (byte >> 7 & swizzle // 16 - 1) << 4
            if all(0 <= a < n for a, n in zip(at, shape)):
                out[i, byte // x.itemsize] = x[at]
    return out


def test_boxes_land_where_the_swizzle_says() -> None:
    wanted = [expected(name) for name in CASES]
    assert all(0 < (w == 0).sum() < w.size for w in wanted)                # some of each is outside
    for order in ORDERS:
        found = run_cuda(EVERY, LAUNCHES, ARRAYS, *order)[1::2]
        assert all(map(np.array_equal, found, wanted))


@pytest.mark.skipif(not nvrtc.available(), reason="no NVRTC (pip install nvidia-cuda-nvrtc)")
def test_they_do_so_in_ptx() -> None:
    for name, found in zip(CASES, run_ptx(EVERY, LAUNCHES, ARRAYS)[1::2]):
        assert np.array_equal(found, expected(name)), name


@pytest.mark.skipif(not nvrtc.available(), reason="no NVRTC (pip install nvidia-cuda-nvrtc)")
def test_the_same_texts_compile_for_gpus() -> None:
    check_cuda_source(EVERY, list(NAMES.values()), ("sm_90", "sm_90a", "sm_120"))


WAITS, EXPECTS, COPIES, ARRIVES = (re.findall(rf"{what}.*;", text_of("lines of 128 bytes"))[0] for what in (
    r"hy_mbarrier_wait\(hy_shared_of\(&full", "hy_mbarrier_expect", "hy_copy_box", "hy_mbarrier_arrive"))
NOWHERE = "hy_copy_box(hy_shared_of(slot[s]), map, hy_shared_of(&full[s]), 0, 0);"
WRONG = {                                                  # what is changed to what, and what is said
    "no wait for the box": (WAITS, "", "no thread waited|nobody completes"),
    "no wait for the slot": ("hy_mbarrier_wait(hy_shared_of(&empty[s]), (i / 2 + 1) & 1);", "", "race|more arrivals"),
    "bytes not announced": (EXPECTS, "", "nobody completes"),
    "an arrival without bytes": (EXPECTS, "hy_mbarrier_arrive(hy_shared_of(&full[s]));", "race|no thread waited"),
    "too many bytes": (EXPECTS, EXPECTS.replace("size", "size + 16"), "nobody completes"),
    "too few bytes": (EXPECTS, EXPECTS.replace("size", "size - 16"), "nobody completes"),
    "bytes of one of two boxes": (COPIES, NOWHERE + COPIES, "fewer bytes were announced|race"),
    "no arrival": (ARRIVES, "", "nobody completes"),
    "no fence behind the initialisation": ("hy_proxy_fence();", "", "no hy_proxy_fence"),
    "no barrier behind it": ("__syncthreads();", "", "race|not initialised"),
    "other dimensions": (COPIES, re.sub(r"\), [^()]*\);", "), i);", COPIES), "other dimensions"),
    "a place on no boundary": (COPIES, COPIES.replace("slot[s]", "slot[s] + 8"), "takes addresses on 128-byte"),
}


def with_mistakes() -> str:
    """A text that makes the mistake whose number is in the environment."""
    text = text_of("lines of 128 bytes")
    for statement in {before for before, _, _ in WRONG.values()}:
        ways = [f"if (made({i})) {{ {after} }} else" for i, (before, after, _) in enumerate(WRONG.values())
                if before == statement]
        assert text.count(statement) == 1
        text = text.replace(statement, f"{' '.join(ways)} {{ {statement} }}")
    return f'#include <stdlib.h>\n{HEAD}static bool made(int i) {{ return atoi(getenv("MISTAKE")) == i; }}\n{text}'


@pytest.mark.unwatched
def test_each_mistake_is_seen_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRID_EMU_WATCH", "races")
    text, launches, arrays = with_mistakes(), [launch_of("lines of 128 bytes")], given("lines of 128 bytes")
    for i, (mistake, (_, _, said)) in enumerate({"none": ("", "", ""), **WRONG}.items(), -1):
        monkeypatch.setenv("MISTAKE", str(i))
        found = []
        for order in ("reverse", "forward"):
            try:
                run_cuda(text, launches, arrays, order)
            except EmulatorError as err:
                found.append(str(err))
        assert any(re.search(said, t) for t in found) if said else not found, (mistake, found)


@pytest.mark.parametrize("changed", [
    {"sizes": (150, 0)}, {"strides": (24,)}, {"strides": (0,)}, {"box": (64, 257)}, {"box": (60, 24), "swizzle": 0},
    {"box": (72, 24)}, {"box": (32, 24)}, {"offset": 8}])
def test_maps_that_the_driver_does_not_make(changed: dict[str, Any]) -> None:
    """Sizes that are 0, strides and addresses between multiples of 16 bytes, boxes that are too large or longer than
    the swizzle's span."""
    wrong = dataclasses.replace(map_of("lines of 128 bytes"), **changed)
    with pytest.raises(EmulatorError, match="a tensor map that the driver does not make"):
        run_cuda(EVERY, [launch_of("lines of 128 bytes", 0, wrong)], given("lines of 128 bytes"))


REGISTERS = HEAD + """
extern "C" __global__ void __launch_bounds__(384, 1) registers(const int *order, int *y) {
    if (threadIdx.x >= 256) {
        if (*order < 2) hy_fewer_registers<40>(); else hy_fewer_registers<176>();
    } else {
        if (*order == 0) hy_more_registers<232>(); else hy_more_registers<240>();
        y[threadIdx.x] = threadIdx.x;
    }
}
"""


@pytest.mark.parametrize("order, said", [(0, ""), (1, "waits for registers that nobody gives back"),
                                         (2, "setmaxnreg.dec of more")])
def test_registers_are_shared_anew(order: int, said: str) -> None:
    """As many as a multiprocessor has; more than others give back are waited for without end."""
    launch = [("registers", (1, 1, 1), (384, 1, 1), 0, (0, 1))]
    arrays = [np.array([order], np.int32), np.zeros(256, np.int32)]
    for way in ORDERS:
        if not said:
            assert np.array_equal(run_cuda(REGISTERS, launch, arrays, *way)[1], np.arange(256))
            continue
        with pytest.raises(EmulatorError, match=said):
            run_cuda(REGISTERS, launch, arrays, *way)


@pytest.mark.skipif(not nvrtc.available(), reason="no NVRTC (pip install nvidia-cuda-nvrtc)")
def test_registers_are_of_one_architecture() -> None:
    """Who compiles a text by hand for all GPUs, or interprets it, takes the one that shares registers anew."""
    launch = [("registers", (1, 1, 1), (384, 1, 1), 0, (0, 1))]
    assert np.array_equal(run_ptx(REGISTERS, launch, [np.zeros(1, np.int32), np.zeros(256, np.int32)])[1],
                          np.arange(256))
    assert kernels_everywhere.architectures(REGISTERS) == ("sm_90a",)
