"""Settings, each read from an environment variable when it is asked for.

| variable | meaning |
|---|---|
| HYBRID_DEVICE | default device: ``cpu``, ``gpu`` or ``gpu(1)`` |
| HYBRID_DEBUG | 0 quiet, 1 kernels and reasons, 2 memory map, 3 generated source, 4 cache misses |
| HYBRID_NAN | 1: a NaN or an infinity that an operator makes is an error, with the line (``debug.check_finite``) |
| HYBRID_PROGRESS | 0: no line on a terminal about a compilation that takes more than half a second |
| HYBRID_VERIFY | 1: check the graph between passes |
| HYBRID_CACHE | folder of compiled programs (default ``~/.cache/hybrid``) |
| HYBRID_CACHE_SIZE | megabytes that folder may grow to (default 1024; 0: no limit); what was not used for longest goes
first |
| HYBRID_CC | C compiler (default: gcc, clang or cc, whichever is found first, else the one of
``pip install ziglang``; ``none`` for no compiler) |
| HYBRID_COMPILE | ``background`` (default): a program that is not in the cache runs without a compiler until processes
beside this one have compiled it, and large eager operators that come again and again are compiled too; ``now``: the
first call waits for the compiler; ``never``: nothing is compiled |
| HYBRID_DEFER | 0: calls of a training loop are made one by one, never put off to be one program with the step |
| HYBRID_DETERMINISTIC | 1: the same bits on every run of a program with the same seed, machine and number of threads
(``hybrid.deterministic``) |
| HYBRID_NUM_THREADS | threads a compiled CPU program may use (default: OMP_NUM_THREADS, or all cores) |
| HYBRID_CUDA | ``emulator``: run CUDA kernels on the CPU, for tests without a GPU |
| HYBRID_CUDA_GRAPHS | 0: launch kernels one by one, never as a CUDA graph |
| HYBRID_CUDA_SYNC | 1: wait for the GPU after each kernel, so that an error names the kernel that failed |
| HYBRID_SIGNATURES | how many programs of a function may have been used for one call only (default 8; 0: no limit).
From then on, a new signature runs eagerly the first time and is compiled when it comes again |
| HYBRID_AMX | 0: products of bfloat16 and 8 bits do not use tile registers (AMX); ``model``: C does what those do |
| HYBRID_SKIP_ZEROS | 0: products never leave out factors that are zero, so that the order of additions does not depend
on numbers |
| HYBRID_WARM | folder of programs that were compiled beforehand (``python -m hybrid.warm``), which is only read |
| HYBRID_TF32 | 1: products of float32 on a GPU's tensor cores keep 11 bits of each factor (tf32); errors are about 1e-3
of the terms |
| HYBRID_TUNE | seconds a process may spend on autotuning: timing the forms in which a kernel can be computed (default
0.5); 0: a heuristic chooses, the same on every run |
"""
from __future__ import annotations

import contextlib
import functools
import os
import threading
import warnings
from pathlib import Path
from typing import Callable, Iterator, TypeVar

from . import system

Number = TypeVar("Number", int, float)


@functools.lru_cache(64)
def _number(name: str, text: str, kind: Callable[[str], Number], least: Number, default: Number) -> Number:
    """The number that a variable's text stands for. No text: the default; a text that is no number, or one below
    ``least``: also, with a warning, once."""
    if not text.strip():
        return default
    try:
        value = kind(text)
        if value >= least:
            return value
    except ValueError:
        pass
    wanted = f"{'a whole number' if kind is int else 'a number'} from {least} on"
    warnings.warn(f"{name}={text!r} is not {wanted}: {default} is used instead; set it to one, or leave it out",
                  RuntimeWarning, stacklevel=2)
    return default


def _setting(name: str, kind: Callable[[str], Number], least: Number, default: Number) -> Number:
    return _number(name, os.environ.get(name, ""), kind, least, default)


def debug_level() -> int:
    """HYBRID_DEBUG as an integer; anything that is not a number counts as 1."""
    text = os.environ.get("HYBRID_DEBUG", "0") or "0"
    return int(text) if text.isdigit() else 1


def verify() -> bool:
    """Whether graphs are checked between passes."""
    return os.environ.get("HYBRID_VERIFY", "0") not in ("", "0")


def nan() -> bool:
    """Whether a NaN or an infinity that an operator makes is an error (``debug.check_finite``)."""
    return os.environ.get("HYBRID_NAN", "0") not in ("", "0")


def progress() -> bool:
    """Whether a compilation that takes a while says so, where standard error is a terminal."""
    return os.environ.get("HYBRID_PROGRESS", "1") != "0"


def defer() -> bool:
    """Whether equal rounds of a training loop become one program (jit/deferred)."""
    return os.environ.get("HYBRID_DEFER", "1") != "0"


def default_device() -> str | None:
    """The device named by HYBRID_DEVICE, or None."""
    return os.environ.get("HYBRID_DEVICE") or None


def cuda_emulated() -> bool:
    """Whether ``gpu(0)`` is the CUDA-on-CPU emulator."""
    return os.environ.get("HYBRID_CUDA", "") == "emulator"


class _Limit(threading.local):
    threads = 0


# a thread that sets ``threads`` loads programs for no more than so many; 0: no limit
LIMIT = _Limit()


def cuda_graphs() -> bool:
    """Whether runs that come again with the same arrays become CUDA graphs."""
    return os.environ.get("HYBRID_CUDA_GRAPHS", "1") != "0"


def tf32() -> bool:
    """Whether products of float32 on a GPU may keep 11 bits of each factor."""
    return os.environ.get("HYBRID_TF32", "0") not in ("", "0")


def cuda_sync() -> bool:
    """Whether each kernel is waited for, so that an error names the one that failed."""
    return os.environ.get("HYBRID_CUDA_SYNC", "0") not in ("", "0")


def deterministic() -> bool:
    """Whether programs give the same bits on every run (jit/determinism.py)."""
    return os.environ.get("HYBRID_DETERMINISTIC", "0") not in ("", "0")


def skip_zeros() -> bool:
    """Whether products may leave out factors that are zero, where a look at the numbers says that many are."""
    return not deterministic() and os.environ.get("HYBRID_SKIP_ZEROS", "1") != "0"


def amx() -> str:
    """``0``: no tile registers (AMX). ``model``: what they do is done in C. Else they are used where there are any."""
    return os.environ.get("HYBRID_AMX", "")


def tune_seconds() -> float:
    """Seconds that a process may spend measuring forms of kernels that compete."""
    return 0.0 if deterministic() else _setting("HYBRID_TUNE", float, 0.0, 0.5)


MODES = ("background", "now", "never")                    # the first is the default


class _AtOnce(threading.local):
    scopes = 0


_at_once = _AtOnce()


@functools.lru_cache(16)
def _mode(text: str) -> str:
    if text and text not in MODES:
        warnings.warn(f"HYBRID_COMPILE={text!r} is none of {', '.join(MODES)}: {MODES[0]} is used instead; set it to "
                      "one of them, or leave it out", RuntimeWarning, stacklevel=3)
    return text if text in MODES else MODES[0]


def compile_mode() -> str:
    """When programs are compiled: now (the caller waits), in the background, or never."""
    mode = _mode(os.environ.get("HYBRID_COMPILE", "").strip().lower())
    # a call that may or may not meet the compiled program rounds one way or the other
    return "now" if mode == "background" and (_at_once.scopes or deterministic()) else mode


@contextlib.contextmanager
def at_once() -> Iterator[None]:
    """Scope in which this thread waits for the programs that it asks for, where they are compiled at all: it measures
    them, or looks into them."""
    _at_once.scopes += 1
    try:
        yield
    finally:
        _at_once.scopes -= 1


def compiles_eager() -> bool:
    """Whether large eager operators that come again and again are compiled in the background."""
    return compile_mode() == "background"


def signatures() -> int:
    """Programs of a function that may be made for a single call; 0 for all."""
    return _setting("HYBRID_SIGNATURES", int, 0, 8)


def cache_bytes() -> int:
    """What the cache folder may grow to; 0 for no limit."""
    return _setting("HYBRID_CACHE_SIZE", int, 0, 1024) << 20


def num_threads() -> int:
    """Threads for compiled CPU programs."""
    if LIMIT.threads:
        return LIMIT.threads
    return _setting("HYBRID_NUM_THREADS", int, 1, _openmp_threads())


def _openmp_threads() -> int:
    """Threads by OpenMP's own setting, which NumPy's BLAS, MXNet and PyTorch follow, too; all cores without it."""
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(first) if first.isdecimal() and int(first) else system.cores()


def usable_cores() -> int:
    """Cores that this process may keep busy: its affinity, and the quota of its control group."""
    with contextlib.suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return max(1, min(system.cores(), int(quota) // int(period)))
    return system.cores()


def cache_dir() -> Path:
    """Folder of compiled programs, from the root on; its mode is 0700. It need not exist or be writable."""
    given = os.environ.get("HYBRID_CACHE")
    if given:
        return Path(os.path.abspath(given))      # no compiler takes it for an option
    return system.cache_root() / "hybrid"
