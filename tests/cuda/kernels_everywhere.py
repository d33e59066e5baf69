"""All kernels of the tests, compiled for all GPUs.

As a plugin of pytest (``-p tests.cuda.kernels_everywhere``): programs that tests compile for gpu(0) are printed for
each kind of GPU, as they would be there, merged launches too, and computed by the reference instead of the emulator;
other texts that tests load are taken as they are. Each kernel is noted once in the file that HYBRID_KERNELS names.
``python -m tests.cuda.kernels_everywhere FILE`` compiles them with NVRTC for each architecture, some dozens at a time,
and tells what does not compile, and what spills; what is right is noted (``watch_record``) and left out next time.
"""
from __future__ import annotations

import fcntl
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import numpy as np

from hybrid.base.errors import CompileError, DeviceError
from hybrid.runtime import cache, reference
from hybrid.runtime.cuda import emulator, interface, nvrtc, program, sources

from . import watch_record as record
from .cuda_tools import _alike
from .ptx_beside import texts
from .watch_record import pytest_runtest_setup  # noqa: F401  a hook

ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120")
PROCESSORS = {"sm_75": 40, "sm_80": 108, "sm_86": 84, "sm_90a": 132}       # of a T4, A100, A10, H100
TOGETHER = 40                                              # kernels of a compilation
# what texts by hand use: the first architecture that has it, or the only one
NEEDS = {"hy_wgmma": "sm_90a", "hy_cp_async_bulk": "sm_90a", "hy_mbarrier_expect": "sm_90a", "hy_copy_box": "sm_90a",
         "_registers<": "sm_90a", "by_lanes": "sm_75",
         "hy_mbarrier": "sm_80", "cp_async": "sm_80", "hy_mma_bf16(": "sm_80", "hy_mma_bf16_k8": "sm_80",
         "hy_mma_tf32": "sm_80"}
ONLY = ("hy_wgmma", "hy_cp_async_bulk", "hy_mbarrier_expect", "hy_copy_box", "_registers<", "by_lanes")
BEGIN = 'extern "C" __global__'
found: dict[str, dict[str, bool]] = {}                     # by text: for what it is compiled, and whether it may spill
printed_for: ContextVar[Any] = ContextVar("printed_for", default=None)          # the driver of a kind of GPU
within_program = ContextVar("within_program", default=False)


def kinds() -> dict[str, list[str]]:
    """By the first of them, the architectures for which the same is printed."""
    out: dict[str, list[str]] = {}
    for arch in ARCHS:
        out.setdefault(next((a for a in out if _alike(a, arch) and "sm_90a" not in (a, arch)), arch), []).append(arch)
    return out


def architectures(source: str) -> tuple[str, ...]:
    """Those that a text by hand is compiled for."""
    word = next((word for word in NEEDS if word in source), "")
    return ARCHS[ARCHS.index(NEEDS.get(word, "sm_75")):][:1 if word in ONLY else None]


def note(text: str, archs: dict[str, bool]) -> None:
    """A kernel, and whether it may spill where; once in the file."""
    if record.on_purpose:
        return
    known = found.setdefault(text, {})
    new = {arch: may for arch, may in archs.items() if known.get(arch) != may}
    if new:
        known.update(new)
        with open(os.environ["HYBRID_KERNELS"], "a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(json.dumps([text, new]) + "\n")


def note_all(source: str, kernels: Sequence[str], archs: Sequence[str], may: bool) -> None:
    """The kernels of a source. What was to be without spills once is so."""
    for name, text in texts(source).items():
        if name in kernels:
            note(text, {arch: found.get(text, {}).get(arch, may) for arch in archs})


class _Plan(interface.Plan):
    def run(self, pointers: Sequence[int]) -> None:
        """Nothing."""

    def freeze(self, pointers: Sequence[int]) -> Any:
        """Nothing."""
        return lambda: None


class _Module(interface.Module):
    """Kernels that are noted, and not run."""

    def __init__(self, source: str, kernels: Sequence[str], archs: Sequence[str]):
        self.source_path, self.kernels, self._source, self._archs = "not run", tuple(kernels), source, archs
        note_all(source, kernels, archs, False)

    def plan(self, launches: Sequence[Sequence[Any]]) -> _Plan:
        """See ``Module.plan``."""
        return _Plan()

    def resident(self, kernel: str, threads: int, shared: int) -> int:
        """As many as a launch wants."""
        return 1 << 20

    def spilled(self, kernel: str) -> int:
        """The most bytes of all its architectures; where that is too much, another form is taken there."""
        text = texts(self._source)[kernel]
        spills = {arch: nvrtc.compile(text, arch).resources["kernel"].spill_stores for arch in self._archs
                  if key_of(text, arch, False) not in record.known}
        note(text, {arch: True for arch, n in spills.items() if n > program.SPILLED})
        record.note(*(key_of(text, arch, False) for arch, n in spills.items() if n <= program.SPILLED))
        return max(spills.values(), default=0)


class _Driver(emulator.EmulatorDriver):
    """A GPU for which kernels are printed."""

    def __init__(self, archs: Sequence[str]):
        super().__init__()
        self._archs = archs

    @property
    def arch(self) -> str:
        """What kernels are printed for."""
        return self._archs[0]

    @property
    def processors(self) -> int:
        """Its multiprocessors."""
        return PROCESSORS[self.arch]

    def load(self, source: str, kernels: Sequence[str]) -> Any:
        """See ``Driver.load``."""
        return _Module(source, kernels, self._archs)

    def alloc(self, nbytes: int) -> np.ndarray:
        """Memory that nobody reads."""
        return np.empty(max(nbytes, 1), np.uint8)


class _Computed:
    """How programs are computed meanwhile: by the reference."""

    def __init__(self) -> None:
        self.wholes: dict[int, tuple[Any, Any]] = {}       # by number of the planned program

    def run(self, executable: Any, arrays: Sequence[Any]) -> list[Any]:
        """The results; updated inputs are written."""
        whole = self.wholes[id(executable.planned)][1]
        outputs, updates = reference.run(whole, [np.array(a) for a in arrays], np)
        for (slot, _), value in zip(whole.updates, updates):
            arrays[slot][...] = value
        return [np.array(y) for y in outputs]


def pytest_sessionstart() -> None:
    """From here on kernels are noted."""
    record.read()
    plan, load, driver = program.planned_for, emulator.EmulatorDriver.load, program.current_driver
    few, computed = program.CudaProgram._load_few, _Computed()

    def planned_for(whole: Any, ctx: Any, *frozen: frozenset[int]) -> Any:
        for archs in kinds().values():
            token = printed_for.set(_Driver(archs))
            try:
                with suppress(DeviceError):                # a program that GPUs do not take is the test's matter
                    program.CudaProgram(plan(whole, ctx, *frozen), ctx)
            finally:
                printed_for.reset(token)
        planned = plan(whole, ctx, *frozen)
        computed.wholes[id(planned)] = planned, whole
        return planned

    def load_few(self: Any, *args: Any) -> Any:
        token = within_program.set(True)
        try:
            return few(self, *args)
        finally:
            within_program.reset(token)

    def load_and_note(self: Any, source: str, kernels: Sequence[str]) -> Any:
        if within_program.get():
            return _Module(source, kernels, ())
        module = load(self, source, kernels)
        note_all(source, kernels, architectures(source), True)
        return module
    cuda_program: Any = program.CudaProgram
    cuda_program._load_few = load_few
    cuda_program._run = lambda self, arrays: computed.run(self, arrays)
    cuda_program.bind = lambda *_: None
    program.planned_for = planned_for
    program.current_driver = lambda i=0: printed_for.get() or driver(i)
    emulator.EmulatorDriver.load = load_and_note                       # type: ignore[method-assign]


# ---- compiling
def batches(kernels: dict[str, dict[str, bool]], arch: str) -> list[list[str]]:
    """Texts for an architecture, those with the same functions before them together."""
    heads: dict[str, list[str]] = {}
    for text in sorted(t for t, archs in kernels.items() if arch in archs):
        heads.setdefault(text.partition(BEGIN)[0], []).append(text)
    return [some[i:i + TOGETHER] for some in heads.values() for i in range(0, len(some), TOGETHER)]


def compiled(some: Sequence[str], arch: str) -> list[Any]:
    """The resources of each kernel, or why it does not compile."""
    head = some[0].partition(BEGIN)[0]
    names = [f"k{i}" for i in range(len(some))]
    bodies = [text[len(head):].replace(" kernel(", f" {name}(", 1) for text, name in zip(some, names)]
    try:
        resources = nvrtc.compile(head + "".join(bodies), arch).resources
        return [resources[name] for name in names]
    except CompileError as err:
        if len(some) == 1:
            return [str(err)]
        return [one for text in some for one in compiled([text], arch)]


def key_of(text: str, arch: str, may: bool) -> str:
    """A name of a kernel that was compiled for an architecture, and of what compiled it."""
    return cache.digest(str((nvrtc.version(), arch, may)), *sources.device_headers().values(), text)[:24]


def check(kernels: dict[str, dict[str, bool]], arch: str) -> int:
    """Compile what is not known to be right for an architecture: how many are wrong."""
    new = {text: archs for text, archs in kernels.items() if arch in archs}
    known = [text for text, archs in new.items() if key_of(text, arch, archs[arch]) in record.known]
    for text in known:
        del new[text]
    wrong = count = most = 0
    for some in batches(new, arch):
        right = []
        for text, r in zip(some, compiled(some, arch)):
            spills = 0 if isinstance(r, str) or kernels[text][arch] else r.spill_stores
            count, most = count + 1, max(most, spills)
            if isinstance(r, str) or spills > program.SPILLED:
                wrong += 1
                print(f"{arch}: {r if isinstance(r, str) else f'{r.spill_stores} bytes are spilled'}\n{text}\n")
            else:
                right.append(key_of(text, arch, kernels[text][arch]))
        record.note(*right)
    print(f"{arch}: {count} kernels, {len(known)} known;, at most {most} bytes of registers in memory", flush=True)
    return wrong


def main(path: str, archs: Sequence[str]) -> int:
    """Compile all of a file; the exit status."""
    kernels: dict[str, dict[str, bool]] = {}
    with open(path) as file:
        for text, where in map(json.loads, file):
            kernels.setdefault(text, {}).update(where)
    record.read()
    wrong = sum(check(kernels, arch) for arch in archs)
    print(f"{len(kernels)} kernels of the tests, {wrong} times wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:] or ARCHS))
