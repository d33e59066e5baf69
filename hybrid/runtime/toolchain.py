"""The C compiler: which one it is, the flags it takes, and what it knows of this machine."""
from __future__ import annotations

import contextlib
import os
import platform
import re
import sys
import threading
from functools import lru_cache
from pathlib import Path
from typing import Callable, Iterator

from hybrid.codegen import targets
from hybrid.kernels import text as kernel_text

from ..base.errors import warn_user
from ..base import system
from . import cache, compiler_process, compilers, scratch, tiles
from .net_ffi import ffi
from .once import once

FLAGS = ("-O2", "-fno-math-errno", "-fno-trapping-math", "-fno-stack-protector", "-fno-plt", *system.SHARED,
         "-Werror=implicit-function-declaration")
# behind FLAGS, so that -O1 replaces -O2, for programs whose kernels are vectors already: the passes left out take a
# third of GCC's time and make those no faster. The others inline calls within tiles, fuse products and sums, keep
# constants in registers and let them stay there over calls of the program's own functions (without -fipa-ra Adam's
# step of a perceptron took 3 % longer); the last two leave out slow passes of -O1
QUICK = ("-O1", "-finline-functions", "-finline-small-functions", "-fstrict-aliasing", "-fexpensive-optimizations",
         "-ftree-loop-vectorize", "-fvect-cost-model=cheap", "-fgcse", "-fcaller-saves", "-fpeephole2",
         "-fcse-follow-jumps", "-frerun-cse-after-loop", "-fipa-ra", "-fno-tree-ccp", "-fno-tree-dominator-opts")
FSF = "Free Software Foundation"                  # what GCC says of itself, whatever it is called
X86 = ("x86_64", "amd64", "AMD64", "i686")
PARALLEL = """void net(void **p) {
#pragma omp parallel for num_threads(hy_threads)
  for (int i = 0; i < 64; i++) ((int *)p[0])[i] = i;
}
"""                                               # what becomes of it goes to programs' own threads (kernels/c/pool.h)
useless: dict[str, str] = {}                     # compilers that were tried in vain, and why
warned: list[bool] = []


def found_compiler() -> str | None:
    """Path of the C compiler (compilers.py says which), or None."""
    return compilers.find(os.environ.get("HYBRID_CC"), os.environ.get("PATH"), frozenset(useless))


def compiler() -> str | None:
    """Path of the C compiler, or None; then one warning says how to get one."""
    found = found_compiler()
    if found is None and not warned:
        warned.append(True)
        warn_user(f"{compilers.missing(os.environ.get('HYBRID_CC'))}, so hybridized programs run on NumPy without "
                  f"fusion. {compilers.GET_ONE}, or set HYBRID_CC.", RuntimeWarning)
    return found


@lru_cache(maxsize=1)
def cpu_features() -> str:
    """What makes machine code of one machine unfit for another."""
    said = system.processor()
    return said.get("flags") or said.get("Features") or platform.processor()    # which starts a process


def _machine() -> str:
    """The kind of processor that this process runs on: one that is emulated may read of another one's features."""
    return os.uname().machine if hasattr(os, "uname") else platform.machine()


class NotAtHand(Exception):                             # noqa: N818  no error: somebody else asks the compiler
    """What is to be known of a compiler is known only when it has run."""


class _Asking(threading.local):
    allowed = True


_asking = _Asking()


@contextlib.contextmanager
def at_hand() -> Iterator[None]:
    """Scope in which this thread runs no compiler to find out about it: NotAtHand where it would have to."""
    before, _asking.allowed = _asking.allowed, False
    try:
        yield
    finally:
        _asking.allowed = before


def _remembered(cc: str, what: str, ask: Callable[[], str]) -> str:
    """An answer about a compiler, asked once for each build of it and kept in the cache folder."""
    real = Path(cc).resolve()
    stat = real.stat()
    name = cache.digest(what, cc, str(real), str(stat.st_mtime_ns), str(stat.st_size), cpu_features())
    path = cache.folder() / f"cc-{name}.txt"
    answer = _kept(path)
    if answer is None and not _asking.allowed:
        raise NotAtHand
    if answer is None:
        with once(path.name):
            answer = _kept(path)
            if answer is None:
                answer = ask()
                cache.write(path, cache.encoded(f"{answer}\n{cache.checksum(cache.encoded(answer))}"))
    return answer


def _kept(path: Path) -> str | None:
    """An answer in the cache folder; None where it is not there, or damaged."""
    with contextlib.suppress(OSError, ValueError):
        answer, kept = cache.read_text(path).rsplit("\n", 1)
        if kept == cache.checksum(cache.encoded(answer)):
            return answer
    return None


@lru_cache(maxsize=8)
def compiler_version(cc: str) -> str:
    """First line of --version, with the path."""
    return _remembered(cc, "version", lambda: _version(cc))


def _version(cc: str) -> str:
    lines = _said(cc).splitlines()
    return f"{cc} {lines[0] if lines else ''}"


def _said(cc: str) -> str:
    """The output of ``cc --version``, asked once of each file."""
    return _version_text(cc, Path(cc).stat().st_mtime_ns)


@lru_cache(maxsize=8)
def _version_text(cc: str, mtime: int) -> str:
    """Returns the output of ``cc --version``. mtime only keys the cache, so that a replaced compiler is asked again."""
    return compiler_process.ask([*compilers.command(cc), "--version"])[1]


@lru_cache(maxsize=8)
def machine_flags(cc: str) -> tuple[str, ...]:
    """Flags for this machine's vectors and for OpenMP, as far as the compiler takes them."""
    return tuple(_remembered(cc, f"flags by line {own_threads()}", lambda: "\n".join(_machine_flags(cc))).splitlines())


@lru_cache(maxsize=1)
def own_threads() -> str:
    """What tells versions of the threads' header apart, by which parallel loops are tried."""
    return cache.checksum(kernel_text("c", "pool.h").encode())


def _takes_all(cc: str, least: int = 9) -> bool:
    """Whether a compiler is one that is known to take all flags: GCC from ``least`` on, for Linux on usual
    processors."""
    said = _said(cc)
    version = re.match(r".* (\d+)\.\d+\.\d+\b", said)
    return sys.platform == "linux" and _machine() in ("x86_64",
                                                      "aarch64") and FSF in said and version is not None and int(
            version[1]) >= least


def _machine_flags(cc: str) -> tuple[str, ...]:
    flags: list[str] = []
    wide = ["-mprefer-vector-width=512"] if vector_bytes() == 64 else []
    usual = ["-march=native", *wide, "-fopenmp", "-Wl,--as-needed"]
    if _takes_all(cc):                                   # it is not run
        return tuple(usual)
    for group in (["-march=native"], wide):
        if group and accepts(cc, group):
            flags += group
    # to clang's parser alone: its driver would link OpenMP's library, which programs do not need
    parallel = ["-Xclang", "-fopenmp"] if "clang" in _version(cc) else ["-fopenmp"]
    text = f"#define HY_PARALLEL\n{kernel_text('c', 'pool.h')}{PARALLEL}"
    if tried(cc, [*parallel, *system.SHARED], text) is None:
        flags += parallel
        # programs have their own threads: OpenMP's library is not loaded
        if accepts(cc, ["-Wl,--as-needed"]):
            flags.append("-Wl,--as-needed")
    elif accepts(cc, ["-fopenmp-simd"]):
        flags.append("-fopenmp-simd")
    return tuple(flags)


def accepts(cc: str, flags: list[str]) -> bool:
    return tried(cc, [*flags, "-Werror", *system.SHARED], "int x;", False) is None


def tried(cc: str, flags: list[str], text: str, load: bool = True) -> str | None:
    """What is wrong with what a compiler makes of a small text; None where it compiles and, if wanted, can be loaded
    and has ``net``."""
    with scratch.work() as d:
        Path(d, "x.c").write_text(text)
        status, said = compiler_process.ask([*compilers.command(cc), *flags, f"{d}/x.c", "-o", f"{d}/x.so"], 2, d)
        if status:
            return said.strip()[-2000:] or f"it said nothing and ended with status {status}"
        library = None
        try:
            if load:
                library = ffi.dlopen(f"{d}/x.so")
                ffi.addressof(library, "net")
            return None if os.path.isfile(f"{d}/x.so") else "it ended without an error but wrote no program"
        except (OSError, AttributeError) as err:
            return f"it ended without an error, but what it wrote is no program: {err}"
        finally:
            if library is not None:
                ffi.dlclose(library)


def is_clang() -> bool:
    """Whether the C compiler is clang, under whatever name."""
    cc = compiler()
    return cc is not None and "clang" in compiler_version(cc)


def vectorizing() -> tuple[str, ...]:
    """Flags under which GCC makes vectors of loops at -O2. Clang does so by itself and does not know them all."""
    cc = compiler()
    known = cc is not None and FSF in _said(cc)
    return ("-ftree-vectorize", "-fvect-cost-model=dynamic") if known else ()


def target() -> targets.Row:
    """The row of the C compiler (hybrid.codegen.targets); GNU C where there is none."""
    cc = found_compiler()
    return targets.GNU if cc is None else targets.row_of(compiler_version(cc))


def vector_bytes() -> int:
    """Width of a vector register, as far as the compiler has vectors."""
    features = cpu_features() if _machine() in X86 else ""
    return min(64 if "avx512f" in features else 32 if "avx2" in features else 16, target().vector)


WORDS = {"bfloat16": ("avx512_bf16", "__AVX512BF16__"), "uint8": ("avx512_vnni", "__AVX512VNNI__")}


def words() -> frozenset[str]:
    """Types that the processor multiplies by words of 32 bits, as far as the compiler knows the instructions
    (kernels/c/words.h); and "tiles" where it does so by tile registers (kernels/c/tiles.h)."""
    cc = compiler()
    if cc is None or vector_bytes() < 16 or is_clang():
        return frozenset()
    return _words(cc, flags(cc), tiles.wanted(cpu_features().split()), vector_bytes())


@lru_cache(maxsize=8)
def _words(cc: str, flags: tuple[str, ...], in_tiles: bool, vector: int) -> frozenset[str]:
    features = cpu_features().split() if vector == 64 else []
    there = [name for name, (feature, _) in WORDS.items() if feature in features]

    def known() -> str:
        checks = {name: f"#ifndef {WORDS[name][1]}\n#error none\n#endif\n" for name in there}
        if in_tiles and not tiles.flags() and tried(cc, [*flags, *system.SHARED], "".join(checks.values())
                                                     + tiles.TEXT, False) is None:
            return " ".join([*WORDS, "tiles"])            # as a rule: one run of the compiler for all
        with scratch.work() as d:
            found = []
            for name in there:
                Path(d, "w.c").write_text(checks[name])
                if not compiler_process.ask([*compilers.command(cc), *flags, "-fsyntax-only", f"{d}/w.c"], 2, d)[0]:
                    found.append(name)
        if in_tiles and (tiles.flags() or tried(cc, [*flags, *system.SHARED], tiles.TEXT, False) is None):
            return " ".join([*WORDS, "tiles"])
        return " ".join(n for n in found if n != "bfloat16" or not slow_pairs())
    found = _remembered(cc, f"words by {flags} {in_tiles}", known) if there or in_tiles else ""
    return frozenset(found.split())


def slow_pairs() -> bool:
    """Whether the processor's product of pairs of bfloat16 takes longer than two of float32: Intel's issue one in two
    cycles, beside four of float32."""
    return "avx512_bf16" in cpu_features() and system.processor().get("vendor_id") == "GenuineIntel"


@lru_cache(maxsize=8)
def _usual_flags(cc: str, usual: tuple[str, ...]) -> tuple[str, ...]:
    """Of the flags that every compiler should take, those that one takes."""
    return tuple(_remembered(cc, f"usual by line {usual}", lambda: "\n".join(_taken(cc, usual))).splitlines())


def _taken(cc: str, usual: tuple[str, ...]) -> list[str]:
    if _takes_all(cc) or accepts(cc, list(usual)):
        return list(usual)
    return [f for f in usual if f in system.SHARED or accepts(cc, [f])]


def flags(cc: str) -> tuple[str, ...]:
    """All flags that C is compiled with; programs of vectors take those of ``quick``, too."""
    slow = ("-DHYV_PAIRS_SLOW",) if slow_pairs() else ()
    return _usual_flags(cc, FLAGS) + machine_flags(cc) + slow + tiles.flags()


@lru_cache(maxsize=8)
def quick(cc: str) -> tuple[str, ...]:
    """``QUICK`` for GCC from 12 on (Linux, x86-64 or aarch64); no flags for other compilers."""
    return tuple(_remembered(cc, f"quick {QUICK}", lambda: "\n".join(QUICK if _takes_all(cc, 12) else ())).splitlines())
