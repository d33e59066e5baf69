"""The C compiler: found once, run on generated text, its output cached by content."""
from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import select
import sys
import tempfile
import threading
import time
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Any, Callable, Iterator

from hybrid.codegen import targets
from hybrid.kernels import text as kernel_text

from ..base import config, forking, system
from ..base.errors import CompileError
from . import cache, compilers, scratch, tiles
from .net_ffi import ffi

FLAGS = ("-O2", "-fno-math-errno", "-fno-trapping-math", "-fno-stack-protector", "-fno-plt", *system.SHARED,
         "-Werror=implicit-function-declaration")
FSF = "Free Software Foundation"                  # what GCC says of itself, whatever it is called
# for texts that include nothing, which use no library but libm: linking takes half the time
ALONE = "-nostdlib"
# in every text that can be compiled in units (hybrid.codegen.program.kernel_deduplication)
UNITS = "#if HY_UNIT == HY_UNITS - 1"
X86 = ("x86_64", "amd64", "AMD64", "i686")
# units at most, and characters that are worth one: each takes the time to start the compiler
MOST_UNITS, UNIT = 8, 20_000
LONG = 30.0                                       # seconds that a compiler takes for nothing small
EXTENSIONS = """typedef float v __attribute__((vector_size(16))); typedef int w __attribute__((vector_size(16)));
static inline __attribute__((always_inline)) v most(v a, v b) { w m = (w)(a < b); return (v)((m & (w)b) | (~m & (w)a)); }
__attribute__((visibility("hidden"))) int hy_count;
int trial(int n) { v a = {1, 2, 3, 4}, b = a * 2; b = __builtin_convertvector((w)(b > a), v) + most(a, b); hy_count = (int)b[0];
  return __builtin_fabsf(({ float f = b[1]; f; })) > 0 ? n + hy_count : n; }
void net(void **p) { *(int *)p[0] = trial(*(int *)p[1]); }
"""                                               # what programs are written in, beside C  # noqa: E501
PARALLEL = """void net(void **p) {
#pragma omp parallel for num_threads(hy_threads)
  for (int i = 0; i < 64; i++) ((int *)p[0])[i] = i;
}
"""                                               # what becomes of it goes to programs' own threads (kernels/c/pool.h)
_build_lock = forking.lock()
_useless: dict[str, str] = {}                     # compilers that were tried in vain, and why
_refused: list[str] = []
_building: dict[str, forking.LongLock] = {}
_warned: list[bool] = []
_running: list[Any] = []                          # compilers, until they were waited for
forking.in_child(_running.clear)
_made_here: set[str] = set()                      # shared objects that the compiler made for this process


def found_compiler() -> str | None:
    """Path of the C compiler (compilers.py says which), or None."""
    return compilers.find(os.environ.get("HYBRID_CC"), os.environ.get("PATH"), frozenset(_useless))


def compiler() -> str | None:
    """Path of the C compiler, or None; then one warning says how to get one."""
    found = found_compiler()
    if found is None and not _warned:
        _warned.append(True)
        warnings.warn(f"{compilers.missing(os.environ.get('HYBRID_CC'))}, so hybridized programs run on NumPy without "
                      f"fusion. {compilers.GET_ONE}, or set HYBRID_CC.", RuntimeWarning, stacklevel=3)
    return found


@lru_cache(maxsize=1)
def _processor() -> tuple[str, str]:
    """What Linux says of the processor's features, and of who made it."""
    vendor = ""
    try:
        with open("/proc/cpuinfo") as lines:                     # the first processor's lines are enough
            for line in lines:
                if line.startswith("vendor_id"):
                    vendor = line
                if line.startswith(("flags", "Features")):
                    return line.rstrip("\n"), vendor
    except OSError:
        pass
    return "", vendor


@lru_cache(maxsize=1)
def cpu_features() -> str:
    """What makes machine code of one machine unfit for another."""
    return _processor()[0] or platform.processor()              # starts a process, so it is the last resort


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
    path = (cache.folder() / f"cc-{cache.digest(what, cc, str(real), str(stat.st_mtime_ns), str(stat.st_size), cpu_features())}.txt")  # noqa: E501
    try:
        answer, kept = cache.read_text(path).rsplit("\n", 1)
        if kept == checksum(_bytes(answer)):
            return answer
    except (OSError, ValueError):
        pass                                             # not there, or damaged
    if not _asking.allowed:
        raise NotAtHand
    answer = ask()
    cache.write(path, _bytes(f"{answer}\n{checksum(_bytes(answer))}"))
    return answer


def _bytes(text: str) -> bytes:
    """Text as bytes; it may hold some that are no UTF-8, as paths do."""
    return text.encode("utf-8", "surrogatepass")


def _paper() -> int:
    """A file in memory, or else a temporary one, that a program may write to."""
    paper = system.paper()
    if paper is None:
        with tempfile.TemporaryFile(dir=scratch.folder()) as f:
            return os.dup(f.fileno())
    return paper


def _start(command: list[str], stream: int = 2, folder: str | None = None) -> tuple[Any, int]:
    """Start a program: its process, and a file with what it writes to a stream. CompileError where it is no program.
    folder: for its temporary files, which go with that also where it is killed."""
    paper = _paper()
    try:
        process = system.start(command, stream, paper, compilers.environment(command[0], folder))
        _running.append(process)
        return process, paper
    except OSError as err:
        os.close(paper)
        raise CompileError(f"{command[0]} cannot be run: {err.strerror}. Set HYBRID_CC to a C compiler, or to none.") from err  # noqa: E501


def _ended(process: Any, doubt: Callable[[], None] | None = None, cc: str = "") -> int:
    """Wait for a process: its status, negative where a signal ended it. doubt: called where it takes very long for the
    compiler that it is; it may end the process."""
    try:
        _wait(process, doubt, LONG * compilers.patience(cc))
        return system.waited(process)
    except ChildProcessError:                            # somebody ignores SIGCHLD: the status is lost
        return 0
    finally:
        with contextlib.suppress(ValueError):
            _running.remove(process)


def end_compilers() -> None:
    """End the compilers that this process runs now: its threads do not wait for them any more."""
    for process in list(_running):
        system.kill(process)


def _wait(process: Any, doubt: Callable[[], None] | None, most: float) -> None:
    """Wait for a process, a tenth of a second at a time where the system can: a signal that arrives just before
    ``waitpid`` does not end that."""
    try:
        end = os.pidfd_open(process)
    except (AttributeError, OSError, TypeError):
        return
    try:
        poll = select.poll()
        poll.register(end, select.POLLIN)
        late = time.monotonic() + most
        while not poll.poll(100):
            if doubt is not None and time.monotonic() > late:
                doubt()
                doubt = None
    finally:
        os.close(end)


def _said(paper: int) -> str:
    """All that was written to a file, which is closed."""
    return system.content(paper).decode(errors="replace")


def _ask(command: list[str], stream: int = 1, folder: str | None = None) -> tuple[int, str]:
    """A short run of the compiler: its status, and what it prints. CompileError where it does not end."""
    process, paper = _start(command, stream, folder)

    def doubt() -> None:
        system.kill(process)
        late.append(True)
    late: list[bool] = []
    try:
        status = _ended(process, doubt, command[0])
    finally:
        text = _said(paper)
    if late:
        most = LONG * compilers.patience(command[0])
        raise CompileError(f"{command[0]} did not end within {most:.0f} seconds; is it a C compiler? Set HYBRID_CC to "
                           "one, or to none.")
    return status, text


@lru_cache(maxsize=8)
def compiler_version(cc: str) -> str:
    """First line of --version, with the path."""
    return _remembered(cc, "version", lambda: _version(cc))


def _version(cc: str) -> str:
    lines = _ask([*compilers.command(cc), "--version"])[1].splitlines()
    return f"{cc} {lines[0] if lines else ''}"


@lru_cache(maxsize=8)
def machine_flags(cc: str) -> tuple[str, ...]:
    """Flags for this machine's vectors and for OpenMP, as far as the compiler takes them."""
    return tuple(_remembered(cc, f"flags by line {own_threads()}", lambda: "\n".join(_machine_flags(cc))).splitlines())


@lru_cache(maxsize=1)
def own_threads() -> str:
    """What tells versions of the threads' header apart, by which parallel loops are tried."""
    return checksum(kernel_text("c", "pool.h").encode())


def _takes_all(cc: str) -> bool:
    """Whether a compiler is one that is known to take all flags: GCC from 9 on, for Linux on usual processors."""
    said = _ask([*compilers.command(cc), "--version"])[1]
    version = re.match(r".* (\d+)\.\d+\.\d+\b", said)
    return sys.platform == "linux" and _machine() in ("x86_64",
                                                      "aarch64") and FSF in said and version is not None and int(
            version[1]) >= 9


def _machine_flags(cc: str) -> tuple[str, ...]:
    flags: list[str] = []
    wide = ["-mprefer-vector-width=512"] if vector_bytes() == 64 else []
    usual = ["-march=native", *wide, "-fopenmp", "-Wl,--as-needed"]
    if _takes_all(cc):                                   # it is not run
        return tuple(usual)
    for group in (["-march=native"], wide):
        if group and _accepts(cc, group):
            flags += group
    # to clang's parser alone: its driver would link OpenMP's library, which programs do not need
    parallel = ["-Xclang", "-fopenmp"] if "clang" in _version(cc) else ["-fopenmp"]
    text = f"#define HY_PARALLEL\n{kernel_text('c', 'pool.h')}{PARALLEL}"
    if _tried(cc, [*parallel, *system.SHARED], text) is None:
        flags += parallel
        # programs have their own threads: OpenMP's library is not loaded
        if _accepts(cc, ["-Wl,--as-needed"]):
            flags.append("-Wl,--as-needed")
    elif _accepts(cc, ["-fopenmp-simd"]):
        flags.append("-fopenmp-simd")
    return tuple(flags)


def _accepts(cc: str, flags: list[str]) -> bool:
    return _tried(cc, [*flags, "-Werror", *system.SHARED], "int x;", False) is None


def _tried(cc: str, flags: list[str], text: str, load: bool = True) -> str | None:
    """What is wrong with what a compiler makes of a small text; None where it compiles and, if wanted, can be loaded
    and has ``net``."""
    with scratch.work() as d:
        Path(d, "x.c").write_text(text)
        status, said = _ask([*compilers.command(cc), *flags, f"{d}/x.c", "-o", f"{d}/x.so"], 2, d)
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
    return _words(cc, flags(cc), tiles.wanted(cpu_features().split()))


@lru_cache(maxsize=8)
def _words(cc: str, flags: tuple[str, ...], in_tiles: bool) -> frozenset[str]:
    features = cpu_features().split() if vector_bytes() == 64 else []
    there = [name for name, (feature, _) in WORDS.items() if feature in features]

    def known() -> str:
        checks = {name: f"#ifndef {WORDS[name][1]}\n#error none\n#endif\n" for name in there}
        if in_tiles and not tiles.flags() and _tried(cc, [*flags, *system.SHARED], "".join(checks.values())
                                                     + tiles.TEXT, False) is None:
            return " ".join([*WORDS, "tiles"])            # as a rule: one run of the compiler for all
        with scratch.work() as d:
            found = []
            for name in there:
                Path(d, "w.c").write_text(checks[name])
                if not _ask([*compilers.command(cc), *flags, "-fsyntax-only", f"{d}/w.c"], 2, d)[0]:
                    found.append(name)
        if in_tiles and (tiles.flags() or _tried(cc, [*flags, *system.SHARED], tiles.TEXT, False) is None):
            return " ".join([*WORDS, "tiles"])
        return " ".join(n for n in found if n != "bfloat16" or not slow_pairs())
    found = _remembered(cc, f"words by {flags} {in_tiles}", known) if there or in_tiles else ""
    return frozenset(found.split())


def slow_pairs() -> bool:
    """Whether the processor's product of pairs of bfloat16 takes longer than two of float32: Intel's issue one in two
    cycles, beside four of float32."""
    return "avx512_bf16" in cpu_features() and "GenuineIntel" in _processor()[1]


@lru_cache(maxsize=8)
def _usual_flags(cc: str, usual: tuple[str, ...]) -> tuple[str, ...]:
    """Of the flags that every compiler should take, those that one takes."""
    return tuple(_remembered(cc, f"usual by line {usual}", lambda: "\n".join(_taken(cc, usual))).splitlines())


def _taken(cc: str, usual: tuple[str, ...]) -> list[str]:
    if _takes_all(cc) or _accepts(cc, list(usual)):
        return list(usual)
    return [f for f in usual if f in system.SHARED or _accepts(cc, [f])]


def flags(cc: str) -> tuple[str, ...]:
    """All flags that programs are compiled with."""
    slow = ("-DHYV_PAIRS_SLOW",) if slow_pairs() else ()
    return _usual_flags(cc, FLAGS) + machine_flags(cc) + slow + tiles.flags()


def _flags_of(cc: str, source: str) -> tuple[str, ...]:
    """The flags that a text is compiled with."""
    every = flags(cc)
    alone = sys.platform == "linux" and "-Wl,--as-needed" in every and not is_clang() and "#include" not in source
    return (*every, ALONE) if alone and not any(f.startswith("-fsanitize") for f in every) else every


def checksum(content: bytes) -> str:
    return f"{len(content)} {hashlib.blake2b(content, digest_size=16).hexdigest()}"


def intact(so: Path) -> bool:
    """Whether a shared object of the cache is what the compiler wrote: loading half of one may end the process."""
    try:
        whole = cache.read_text(so.with_suffix(".txt")) == checksum(cache.read(so))
    except (OSError, ValueError):
        return False
    if whole:
        cache.used(so)
    return whole


def keep(so: Path, content: bytes) -> Path:
    """Put a shared object into the cache, with what tells that it is whole; where it went."""
    so = cache.write(so, content)
    cache.write(so.with_suffix(".txt"), checksum(content).encode())
    return so


def build(source: str, extra: tuple[str, ...] = (), salt: str = "") -> tuple[Path, Path]:
    """Shared object of a C text, and the file its source is in. CompileError names that file.

    extra: more flags. salt: what else the result depends on (versions of headers).

    Two threads that ask for one text compile it once; two processes both may, and the last rename wins with equal
    content.
    """
    cc = compiler()
    if cc is None:
        raise CompileError(f"there is no C compiler: {compilers.GET_ONE}")
    source = "\n".join(t for t in (target().before(), source) if t)
    every = _flags_of(cc, source) + extra
    key = cache.digest(source, compiler_version(cc), " ".join(every), cpu_features(), salt)
    where = cache.folder()
    so, c = where / f"{key}.so", where / f"{key}.c"
    if intact(so):
        return so, c
    with _build_lock:
        lock = _building.setdefault(key, forking.LongLock())
    with lock:
        if not intact(so):
            so = _compile(cc, every, source, so, c)
            _made_here.add(so.name)
    return so, so.with_suffix(".c")


def ran(so: Path) -> bool:
    """Whether the compiler made a shared object since this was asked for it last."""
    made = so.name in _made_here
    _made_here.discard(so.name)
    return made


def begin(source: str) -> Callable[[], tuple[Path, Path]]:
    """Begin to build a text beside what this thread does next; the function gives what ``build`` gives, or raises its
    error."""
    done: list[tuple[Path, Path]] = []
    wrong: list[Exception] = []

    def work() -> None:
        try:
            done.append(build(source))
        except Exception as err:                         # raised where the program is wanted
            wrong.append(err)
    thread = threading.Thread(target=work, name="hybrid-compiler", daemon=True)
    thread.start()

    def finish() -> tuple[Path, Path]:
        thread.join()
        if wrong:
            raise wrong[0]
        return done[0]
    return finish


def cores() -> int:
    """Processors that this process may use."""
    return system.cores()


def _commands(cc: str, flags: tuple[str, ...], source: str, c: Path,
              folder: str) -> tuple[list[list[str]], list[str] | None]:
    """Compiler runs that may take place at the same time, and the one that links what they give."""
    libraries, start = ["-lm", "-lgcc"] if ALONE in flags else ["-lm"], compilers.command(cc)
    count = min(cores(), MOST_UNITS, max(2, len(source) // UNIT)) if UNITS in source else 1
    if count == 1:
        return [[*start, *flags, str(c), "-o", f"{folder}/net.so", *libraries]], None
    objects = [f"{folder}/{i}.o" for i in range(count)]
    separate = [*start, *(f for f in flags if f != "-shared"), f"-DHY_UNITS={count}", "-c", str(c)]
    runs = [[*separate, f"-DHY_UNIT={i}", "-o", o] for i, o in enumerate(objects)]
    return runs, [*start, *flags, *objects, "-o", f"{folder}/net.so", *libraries]


def _run(commands: list[list[str]], c: Path, folder: str | None = None) -> str:
    """Run them at the same time: what they say. CompileError with what the first says that fails, or that nothing comes
    of them."""
    runs: list[tuple[Any, int]] = []
    status: list[int] = []

    def doubt() -> None:
        """After a while: whether the compiler ends at all."""
        wrong = _wrong(commands[0][0])
        if wrong is not None:
            raise CompileError(f"{commands[0][0]} does not end, and it is no working C compiler: {wrong}")
    try:
        for command in commands:
            runs.append(_start(command, 2, folder))
        for process, _ in runs:
            status.append(_ended(process, doubt, commands[0][0]))
    finally:
        for process, _ in runs[len(status):]:            # interrupted
            system.kill(process)
            with contextlib.suppress(ChildProcessError):
                _ended(process)
        said = [_said(paper) for _, paper in runs]
    wrong = next(((text, code) for text, code in zip(said, status) if code), None)
    if wrong is not None:
        text, code = wrong
        if any(full in text for full in ("No space left on device", "File size limit exceeded", "File too large")):
            raise OSError(f"nothing of the size of a program can be written to {os.path.dirname(scratch.folder())}, "
                          f"where {commands[0][0]} works:\n{text[-2000:].strip()}\n"
                          "Set TMPDIR to a folder that can be written.")
        silent = f"It said nothing and ended with status {code}" + (" (killed: is there too little memory?)"
                                                                    if code == -9 else "")
        raise CompileError(f"{commands[0][0]} refused the generated program {c}:\n{text[-4000:].strip() or silent}")
    return "".join(said)


def _wrong(cc: str) -> str | None:
    """What is wrong with a compiler that cannot make a program of the least text; None where it can."""
    try:
        return _tried(cc, ["-shared", "-fPIC"], "void net(void **p) { *(int *)p[0] = 1; }")
    except CompileError as err:
        return str(err)


def _plain(cc: str) -> bool:
    """Whether a compiler takes C alone, without the extensions that programs are written in."""
    with contextlib.suppress(CompileError):
        return _tried(cc, ["-shared", "-fPIC"], EXTENSIONS) is not None
    return False


def _judged(cc: str) -> str | None:
    """What is against using a compiler at all; None where it makes programs of such texts as are given to it."""
    wrong = _wrong(cc)
    if wrong is not None:
        return f"does not work ({wrong.splitlines()[0]})"
    return "has no vectors (GCC's extensions of C)" if _plain(cc) else None


def set_aside(err: CompileError) -> bool:
    """After a program did not compile: whether that is the compiler's fault and it is asked no more, so that another
    one may be tried, or none is there. False: it is this program alone, which runs on NumPy. One warning says which.
    The error is raised where somebody asked for this very compiler (HYBRID_CC) and it does not work, and where programs
    are checked (HYBRID_VERIFY).
    """
    cc, asked = compiler(), os.environ.get("HYBRID_CC")
    if cc is None:
        return True
    fault = _judged(cc)
    if fault is None:
        if asked or config.verify():
            raise err
        if not _refused:
            _refused.append(cc)
            warnings.warn(f"a program runs on NumPy without fusion, because it did not compile. Please report "
                          f"this:\n{err}",
                          RuntimeWarning, stacklevel=3)
        return False
    if asked and "does not work" in fault:
        raise CompileError(f"the C compiler {cc} (HYBRID_CC={asked!r}) {fault}. Set HYBRID_CC to one that does, or to "
                           f"none.") from err
    with _build_lock:
        new, _useless[cc] = cc not in _useless, fault
    if new:
        _say(cc, fault, asked)
    return True


def _say(cc: str, fault: str, asked: str | None) -> None:
    """Warn once, of a compiler that is not used and of what takes its place."""
    path = os.environ.get("PATH")
    while ((other := compilers.find(asked, path, frozenset(_useless))) is not None
           and (wrong := _judged(other)) is not None):
        _useless[other] = wrong
    if not _warned:
        _warned.append(True)
        then = f"{other} is used instead" if other else "hybridized programs run on NumPy without fusion"
        warnings.warn(f"the C compiler {cc} {fault}, so {then}. {compilers.GET_ONE}, or set HYBRID_CC.",
                      RuntimeWarning, stacklevel=4)


def _compile(cc: str, flags: tuple[str, ...], source: str, so: Path, c: Path) -> Path:
    c = cache.write(c, _bytes(source))
    with scratch.work() as d:
        runs, link = _commands(cc, flags, source, c, d)
        said = _run(runs, c, d)
        if link is not None:
            said += _run([link], c, d)
        out = Path(d) / "net.so"
        if not out.is_file():
            raise CompileError(f"{cc} ended without an error but wrote no program; is HYBRID_CC a C "
                               f"compiler?\n{said[-4000:].strip()}".rstrip())
        return keep(so, out.read_bytes())
