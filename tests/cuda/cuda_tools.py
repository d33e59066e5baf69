"""For tests of CUDA sources: compile for real GPUs, run in the emulator in every order of threads, and on a GPU if
any."""
from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from hybrid import ir, runtime
from hybrid.codegen import cuda as printer
from hybrid.codegen.printers.cuda import contraction, warpgroup
from hybrid.codegen.printers.cuda.shares import Division
from hybrid.codegen.printers.cuda.target import current, printing_for
from hybrid.base.device import array_module, find_cupy, gpu
from hybrid.runtime.cuda import nvrtc, watch
from hybrid.runtime.cuda.cupy_driver import CuPyDriver
from hybrid.runtime.cuda.emulator import EmulatorDriver
from hybrid.runtime.cuda.program import SPILLED

ARCHS = ("sm_80", "sm_90")
ORDERS = (("forward", 1), ("reverse", 1), ("random", 1), ("random", 2))     # of threads, in the emulator
PLACES = ORDERS + ((("gpu", 0),) if find_cupy() is not None else ())
THREE = ("forward", "reverse", "random:3") if find_cupy() is None else ("gpu",)    # what whole programs run in
GUARD = 256                                                                 # bytes before and after each array


def check_cuda_source(source: str, kernels: Sequence[str], archs: Sequence[str] = ARCHS,
                      spills: int = 0) -> dict[str, dict[str, nvrtc.Resources]]:
    """Compile a source with NVRTC for each architecture; every kernel must be there and put no more than ``SPILLED``
    bytes of registers into memory.

    Returns each architecture's resources by kernel. ``spills``: bytes of spill stores that are expected.
    """
    found = {}
    for arch in archs:
        compiled = nvrtc.compile(source, arch)
        assert compiled.cubin[:4] == b"\x7fELF", f"{arch}: not a cubin"
        missing = sorted(set(kernels) - set(compiled.resources))
        assert not missing, f"{arch}: no kernel {', '.join(missing)} in {compiled.source_path}"
        for name in kernels:
            r = compiled.resources[name]
            assert r.spill_stores <= max(spills, SPILLED), (f"{arch}: {name} spills {r.spill_stores} bytes with "
                                                            f"{r.registers} registers; source {compiled.source_path}")
        found[arch] = compiled.resources
    return found


_BEGIN = 'extern "C" __global__'
_checked: set[str] = set()


def check_new_kernels(source: str, printed_for: str = "sm_90") -> None:
    """``check_cuda_source`` for those kernels of a generated source that no other test has brought under whatever name,
    on one of the architectures in turn: with thousands of kernels each form meets both. On all that HYBRID_TEST_ARCHS
    names (``sm_75,sm_80``), where that is set; on none where it is ``none``. Where other forms are printed for an
    architecture, the source must compile there, and may spill.
    """
    if os.environ.get("HYBRID_TEST_ARCHS") == "none":
        return
    head, *texts = source.split(_BEGIN)
    new, names = [], []
    for text in texts:
        name = re.match(r" void (?:__launch_bounds__\([\d, ]+\) )?(\w+)\(", text)
        assert name, f"no kernel begins with {text[:80]!r}"
        key = head + re.sub(rf"\b{name[1]}\b", "kernel", text)
        if key not in _checked:
            _checked.add(key)
            new.append(text)
            names.append(name[1])
    if new:
        archs = _in_turn(len(_checked))
        if any("hy_wgmma" in text for text in new):            # printed for the one that has them
            archs = ("sm_90a",)
        for arch in archs:
            check_cuda_source(_BEGIN.join([head, *new]), names, (arch,), 0 if _alike(arch, printed_for) else 1 << 16)


def _in_turn(number: int) -> Sequence[str]:
    every = os.environ.get("HYBRID_TEST_ARCHS", "")
    return every.split(",") if every not in ("", "none") else (ARCHS[number % len(ARCHS)],)


def _alike(arch: str, other: str) -> bool:
    """Whether kernels without products of warpgroups are printed the same for two architectures."""
    forms = []
    for name in (arch, other):
        with printing_for(name):
            forms.append((current().tf32, current().number >= 80))
    return forms[0] == forms[1]


_spills: dict[str, dict[str, int]] = {}


def spilled(source: str, kernel: str, printed_for: str) -> int:
    """Bytes that a launch of several kernels puts into memory on one of the architectures in turn, or the most of all
    that HYBRID_TEST_ARCHS names: what a GPU's module says of itself, for the emulator's."""
    if os.environ.get("HYBRID_TEST_ARCHS") == "none":
        return 0
    head, *texts = source.split(_BEGIN)
    last = max((i for i, text in enumerate(texts) if re.match(r" void [^(]*\([^)]*\) stages", text)), default=-1)
    text = _BEGIN.join([head, *texts[:last + 1]])
    if text not in _spills:
        archs = [arch for arch in _in_turn(len(_spills)) if _alike(arch, printed_for)] or [printed_for]
        found = [nvrtc.compile(text, arch).resources for arch in (["sm_90a"] if "hy_wgmma" in text else archs)]
        _spills[text] = {name: max(r[name].spill_stores for r in found) for name in found[0]}
    return _spills[text].get(kernel, 0)


def run_cuda(source: str, launches: Sequence[Sequence[object]], arrays: Sequence[np.ndarray], order: str = "forward",
             seed: int = 1) -> list[np.ndarray]:
    """Run launches on copies of arrays; a launch's args are positions in ``arrays``. Returns the copies.

    ``order`` and ``seed``: one of PLACES. Around each array lie bytes 0xFF, which are NaN to whoever reads them and
    must be there still when the kernels are done.
    """
    driver = CuPyDriver(find_cupy()) if order == "gpu" else EmulatorDriver(order, seed)
    module = driver.load(source, sorted({str(launch[0]) for launch in launches}))
    memory = [driver.alloc(a.nbytes + 2 * GUARD) for a in arrays]
    for m, a in zip(memory, arrays):
        m[:] = 0xFF
        raw = np.frombuffer(np.ascontiguousarray(a).tobytes(), np.uint8)
        m[GUARD:GUARD + a.nbytes] = raw if order != "gpu" else find_cupy().asarray(raw)
    starts = [driver.pointer(m) + GUARD for m in memory]
    if watch.mode():
        watch.forget()
        for start, a in zip(starts, arrays):
            watch.know(start, a.nbytes)
    module.plan(launches).run(starts)
    driver.synchronize()
    host = [m if order != "gpu" else m.get() for m in memory]
    for i, (h, a) in enumerate(zip(host, arrays)):
        assert (h[:GUARD] == 0xFF).all() and (h[GUARD
                                                + a.nbytes:] == 0xFF).all(), f"array {i} was written outside its bounds"
    return [np.frombuffer(h[GUARD:GUARD + a.nbytes].tobytes(), a.dtype).reshape(a.shape).copy()
            for h, a in zip(host, arrays)]


@pytest.fixture
def cuda_device(monkeypatch: pytest.MonkeyPatch) -> Any:
    """gpu(0): CuPy's where there is one, else the emulator's."""
    if find_cupy() is None:
        monkeypatch.setenv("HYBRID_CUDA", "emulator")
    return gpu(0)


def orders() -> Iterator[str]:
    """Each order of threads in turn, set for the emulator while the caller's loop body runs.

    In the random one, blocks take turns at their barriers, and tensor cores add as exactly as NVIDIA's do at worst.
    """
    for order in THREE:
        with pytest.MonkeyPatch.context() as patch:
            if order != "gpu":
                patch.setenv("HYBRID_EMU_ORDER", order)
            if order.startswith("random"):
                patch.setenv("HYBRID_EMU_BLOCKS", "3")
                patch.setenv("HYBRID_EMU_SUMS", "truncated")
            yield order


def host(a: Any) -> np.ndarray:
    """A NumPy array of an array of any device."""
    return a if isinstance(a, np.ndarray) else a.get()


def run_program(program: ir.Program, arrays: Sequence[np.ndarray]) -> Iterator[tuple[str, list[np.ndarray], list[np.ndarray]]]:  # noqa: E501
    """Compile for gpu(0) and run in every order: (order, outputs, inputs afterwards)."""
    xp = array_module(gpu(0))
    executable = runtime.compile(program, gpu(0))
    for order in orders():
        given = [xp.array(a) for a in arrays]
        outputs = [host(y) for y in executable(given)]
        yield order, outputs, [host(a) for a in given]


def break_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA sources printed from now on name an array element that does not exist."""
    real = printer.print_program

    def broken(*args: Any, **keywords: Any) -> Any:
        text = real(*args, **keywords)
        text.source = text.source.replace("p0[t] =", "p0[nowhere] =")
        return text
    monkeypatch.setattr(printer, "print_program", broken)


# ---- products whose slices come through tensor maps
def slices_through_maps(patch: pytest.MonkeyPatch) -> None:
    """Every product is one of warpgroups whose slices a warpgroup of their own copies."""
    patch.setattr(contraction, "pick_warpgroup", lambda p: Division(warpgroup.TILES[3], 0))
    patch.setattr(warpgroup, "specializes", lambda *_: True)
    patch.setattr(contraction, "columns_first", lambda k: False)


def two_products() -> ir.Program:
    """relu(x @ w.T) @ w.T of 64 x 64 halves: two launches, which are a graph."""
    x, w = (ir.input(i, (64, 64), "float16") for i in range(2))
    inner = ir.map("relu", ir.dot(x, w, ((1,), (1,))))
    return ir.Program((x, w), (ir.dot(inner, w, ((1,), (1,))),), ())


def factors(seed: int) -> list[np.ndarray]:
    """What ``two_products`` takes: whole numbers, whose products are exact."""
    return [np.random.default_rng(seed).integers(-2, 3, (64, 64)).astype(np.float16) for _ in range(2)]


def product_of(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """What ``two_products`` gives."""
    return np.maximum(x.astype(np.float32) @ w.T, 0) @ w.T
