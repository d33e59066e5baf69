"""Every test run has a compile cache of its own and checks graphs between passes. Every CUDA text it makes is compiled
for GPUs, where NVRTC is installed.
"""
from __future__ import annotations

import gc
import os
import random
import shutil
import signal
import sys
import tempfile
import zlib
from typing import Any, Iterator

import numpy as np
import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:          # as shells start jobs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)
# hundreds of tests start processes that import hybrid: from sources alone that takes a second, else 0.3
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
_cache = tempfile.TemporaryDirectory(prefix="hybrid-tests-")
os.environ["HYBRID_CACHE"] = _cache.name
os.environ.setdefault("HYBRID_VERIFY", "1")
os.environ.setdefault("HYBRID_COMPILE", "now")              # test_background.py sets its own
os.environ.setdefault("HYBRID_TUNE", "0")                   # the same kernels in every run; test_tune.py measures
# every call of a loop over shapes is compiled; test_compile_policy.py sets its own
os.environ.setdefault("HYBRID_SIGNATURES", "0")

from .cuda.cuda_tools import check_new_kernels, spilled, cuda_device  # noqa: E402, F401  after the settings


def pytest_configure(config: pytest.Config) -> None:
    """The launcher and the pool are compiled once, for all processes of the run, whatever cache each of them has. With
    HYBRID_WARM the first call is traced: tests of compiling in the background unset it."""
    if "HYBRID_WARM" in os.environ:                             # the user's, or of the process that began this one
        return
    from hybrid.runtime import launcher, threads, warmed  # noqa: PLC0415  after the settings

    libraries = tempfile.TemporaryDirectory(prefix="hybrid-tests-libraries-")
    config.add_cleanup(libraries.cleanup)
    warmed.begin(libraries.name)
    threads.built()
    launcher.built()
    warmed.end()
    os.environ["HYBRID_WARM"] = libraries.name


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """Nothing that is imported and collected becomes garbage: the collector does not look for it meanwhile."""
    gc.disable()
    yield
    gc.enable()


@pytest.hookimpl(tryfirst=True)                             # before -m selects by markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that take long, and all but a share of the cases of long tables, are left to ``make check-all``."""
    for item in items:
        share = item.get_closest_marker("share") if hasattr(item, "callspec") else None
        if share and zlib.crc32(item.name.encode()) % share.args[0]:
            item.add_marker("thorough")
        if item.get_closest_marker("thorough") and not os.environ.get("HYBRID_CHECK_ALL"):
            item.add_marker(pytest.mark.skip(reason="takes long: make check-all runs it"))


EACH = 6                                                    # so many tests of CUDA, one of them with watched kernels


def watched(item: Any) -> bool:
    """Whether the emulator looks for races and for accesses outside of arrays in this test: ``make check-all`` does in
    all of them, other runs in those whose names say so by chance."""
    left = item.get_closest_marker("unwatched") or any(
        v in os.environ for v in ("HYBRID_EMU_WATCH", "HYBRID_CHECK_ALL", "HYBRID_STAND_IN"))
    return bool("cuda" in item.path.parts and not left and zlib.crc32(item.nodeid.encode()) % EACH == 0
                and shutil.which("g++") and shutil.which("addr2line"))


@pytest.fixture(scope="module", autouse=True)
def old_objects_are_not_looked_at_again() -> Iterator[None]:
    """Python's collector looks at a module's own objects only, not at the millions of tests that wait and of programs
    that earlier modules left: each time it took two seconds. ``gc.get_freeze_count``, which the library calls in each
    trace, tells only whether a test froze objects; counting the millions takes as long as looking at them."""
    gc.freeze()
    freeze, unfreeze, count = gc.freeze, gc.unfreeze, 0

    def freeze_and_count() -> None:
        nonlocal count
        freeze()
        count = 1

    def unfreeze_and_count() -> None:
        nonlocal count
        unfreeze()
        count = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "get_freeze_count", lambda: count)
        patch.setattr(gc, "freeze", freeze_and_count)
        patch.setattr(gc, "unfreeze", unfreeze_and_count)
        yield
    gc.collect()


@pytest.fixture(autouse=True)
def settings_end_with_the_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """Environment variables that a test sets, or that commands set which it calls, are gone after it."""
    before = dict(os.environ)
    if request.node.get_closest_marker("unwatched"):            # kernels that are wrong on purpose
        os.environ.pop("HYBRID_EMU_WATCH", None)
    if watched(request.node):
        os.environ["HYBRID_EMU_WATCH"] = "races"
    yield
    if dict(os.environ) != before:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(autouse=True)
def the_same_draws_in_every_run(request: pytest.FixtureRequest) -> None:
    """Weights and inputs that a test draws without a seed of its own depend on its name alone."""
    from hybrid.base import rng  # noqa: PLC0415  only where tests run

    number = zlib.crc32(request.node.nodeid.encode())
    rng.seed(number)
    np.random.seed(number)
    random.seed(number)


@pytest.fixture(scope="session", autouse=True)
def generated_cuda_compiles() -> Iterator[None]:
    """What is run in the emulator must also be CUDA: NVRTC compiles it for sm_80 or sm_90, and no register is
    spilled."""
    from hybrid.codegen import cuda  # noqa: PLC0415  only where tests run
    from hybrid.runtime.cuda import emulator, nvrtc  # noqa: PLC0415

    real, load = cuda.print_program, emulator.EmulatorDriver.load

    def print_and_compile(groups: Any, moves: Any = (), arch: str = "sm_90", *more: Any, **keywords: Any) -> Any:
        printed = real(groups, moves, arch, *more, **keywords)
        if printed.launches and nvrtc.available():
            check_new_kernels(printed.source, arch)
        return printed

    def load_and_tell(driver: Any, source: str, kernels: Any) -> Any:
        module = load(driver, source, kernels)
        if nvrtc.available():                                  # launches of several kernels take a form by it
            module.spilled = lambda kernel: spilled(source, kernel, driver.arch)  # type: ignore[method-assign]
        return module
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda, "print_program", print_and_compile)
        patch.setattr(emulator.EmulatorDriver, "load", load_and_tell)
        yield
