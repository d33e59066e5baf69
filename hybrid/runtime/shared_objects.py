"""Shared objects of generated C texts: compiled in units at the same time, cached by content."""
from __future__ import annotations

import contextlib
import os
import sys
import threading
from pathlib import Path
from typing import Any, Callable

from hybrid.codegen.targets import ALL_PASSES

from ..base import system
from ..base.errors import CompileError
from . import cache, compiler_process, compilers, scratch, toolchain
from .compiler_trial import wrong_with
from .once import once

# for texts that include nothing, which use no library but libm: linking takes half the time
ALONE = "-nostdlib"
# in every text that can be compiled in units (hybrid.codegen.program.kernel_deduplication)
UNITS = "#if HY_UNIT == HY_UNITS - 1"
# units that are compiled at the same time at most, and characters that are worth one: each takes the time to start the
# compiler
MOST_UNITS, UNIT = 8, 20_000
# characters of a unit at most (about 0.2 s): a process that ends before a long text is compiled leaves the units
# that it has in the cache, and the next one goes on from there. Twenty units take 5 % longer than one
LONG_UNIT = 40_000
# functions that are told how many units of a long text are compiled, of how many
watchers: list[Callable[[int, int], Any]] = []
_made_here: set[str] = set()                      # shared objects that the compiler made for this process


def _flags_of(cc: str, source: str) -> tuple[str, ...]:
    """The flags that a text is compiled with."""
    every = toolchain.flags(cc) + (toolchain.quick(cc) if ALL_PASSES not in source else ())
    alone = (sys.platform == "linux" and "-Wl,--as-needed" in every and not toolchain.is_clang()
             and "#include" not in source)
    return (*every, ALONE) if alone and not any(f.startswith("-fsanitize") for f in every) else every


def intact(so: Path) -> bool:
    """Whether a shared object of the cache is what the compiler wrote: loading half of one may end the process."""
    try:
        whole = cache.read_text(so.with_suffix(".txt")) == cache.checksum(cache.read(so))
    except (OSError, ValueError):
        return False
    if whole:
        cache.used(so)
    return whole


def keep(so: Path, content: bytes) -> Path:
    """Put a shared object into the cache, with what tells that it is whole; where it went."""
    so = cache.write(so, content)
    cache.write(so.with_suffix(".txt"), cache.checksum(content).encode())
    return so


def build(source: str, extra: tuple[str, ...] = (), salt: str = "", units: int = 0,
          go_on: Callable[[], Any] = lambda: None) -> tuple[Path, Path]:
    """Shared object of a C text, and the file its source is in. CompileError names that file.

    extra: more flags. salt: what else the result depends on (versions of headers). units: in so many units, one after
    the other; 0: in as many as its length and idle cores allow. go_on: called after each of several units, which is in
    the disk cache then; what it raises ends the work.

    Threads, and processes, that ask for one text compile it once.
    """
    cc, source = _compiler(), _whole(source)
    every = _flags_of(cc, source) + extra
    so = _made(cc, every, source, _name(cc, every, source, salt), units, go_on)
    return so, so.with_suffix(".c")


def _made(cc: str, flags: tuple[str, ...], source: str, name: str, units: int, go_on: Callable[[], Any]) -> Path:
    """The shared object of a name: as the disk cache has it, or else compiled from a whole text."""
    so = cache.folder() / name
    if not intact(so):
        with once(name):
            if not intact(so):
                so = _compile(cc, flags, source, so, so.with_suffix(".c"), units, go_on)
                _made_here.add(so.name)
    return so


def _compiler() -> str:
    cc = toolchain.compiler()
    if cc is None:
        raise CompileError(f"there is no C compiler: {compilers.GET_ONE}")
    return cc


def _whole(source: str) -> str:
    """A text with what the target puts before each."""
    return "\n".join(t for t in (toolchain.target().before(), source) if t)


def _name(cc: str, flags: tuple[str, ...], source: str, salt: str = "") -> str:
    """The file name of the shared object of a whole text."""
    key = cache.digest(source, toolchain.compiler_version(cc), " ".join(flags), toolchain.cpu_features(), salt)
    return f"{key}.so"


def begun(source: str) -> str:
    """Put a text into the disk cache, if that can be written, so that ``finish`` can compile it: the file name of its
    shared object."""
    cc, source = _compiler(), _whole(source)
    so = cache.folder() / _name(cc, _flags_of(cc, source), source)
    with contextlib.suppress(OSError):
        cache.write(so.with_suffix(".c"), cache.encoded(source))
    return so.name


def finish(name: str, go_on: Callable[[], Any] = lambda: None) -> bool:
    """Compile the text of a shared object, which is in the disk cache, as ``build`` does, if that is not done. False
    where the text is not there, or not whole."""
    so = cache.folder() / name
    if intact(so):
        return True
    cc = _compiler()
    try:
        source = cache.read_text(so.with_suffix(".c"))
    except (OSError, ValueError):
        return False
    flags = _flags_of(cc, source)
    if name != _name(cc, flags, source):
        return False
    _made(cc, flags, source, name, 0, go_on)
    return True


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


def _commands(cc: str, flags: tuple[str, ...], source: str, c: Path, folder: str,
              least: int) -> tuple[dict[Path, list[str]], list[str] | None]:
    """The compiler's commands by the file that each writes, and the command that links these files, None for one file
    that is the shared object itself. least: so many units at least."""
    libraries, start = ["-lm", "-lgcc"] if ALONE in flags else ["-lm"], compilers.command(cc)
    count = max(least, -(-len(source) // LONG_UNIT)) if UNITS in source else 1
    if count == 1:
        return {Path(folder, "net.so"): [*start, *flags, str(c), "-o", f"{folder}/net.so", *libraries]}, None
    objects = [f"{folder}/{i}.o" for i in range(count)]
    separate = [*start, *(f for f in flags if f != "-shared"), f"-DHY_UNITS={count}", "-c", str(c)]
    runs = {Path(o): [*separate, f"-DHY_UNIT={i}", "-o", o] for i, o in enumerate(objects)}
    return runs, [*start, *flags, *objects, "-o", f"{folder}/net.so", *libraries]


def _at_once(source: str) -> int:
    """The number of compilers that work for a text at the same time."""
    return min(system.idle_cores(), MOST_UNITS, max(2, len(source) // UNIT)) if UNITS in source else 1


def run(commands: list[list[str]], c: Path, folder: str | None = None, at_once: int = MOST_UNITS,
        each: Callable[[int], Any] | None = None) -> str:
    """Runs commands, ``at_once`` of them at the same time, and returns what they print. CompileError with what the
    first says that fails, or that it says nothing. each: is called with the index of each command that succeeds."""
    runs: list[tuple[Any, int]] = []
    status: list[int] = []

    def doubt() -> None:
        """After a while: whether the compiler ends at all."""
        wrong = wrong_with(commands[0][0])
        if wrong is not None:
            raise CompileError(f"{commands[0][0]} does not end, and it is no working C compiler: {wrong}")
    try:
        for command in commands:
            while len(runs) < min(len(status) + at_once, len(commands)):
                runs.append(compiler_process.start(commands[len(runs)], 2, folder))
            status.append(compiler_process.ended(runs[len(status)][0], doubt, command[0]))
            if status[-1]:
                break
            if each is not None:
                each(len(status) - 1)
    finally:
        for process, _ in runs[len(status):]:            # interrupted
            system.kill(process)
            with contextlib.suppress(ChildProcessError):
                compiler_process.ended(process)
        said = [compiler_process.said(paper) for _, paper in runs]
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


def _compile(cc: str, flags: tuple[str, ...], source: str, so: Path, c: Path, units: int,
             go_on: Callable[[], Any]) -> Path:
    c = cache.write(c, cache.encoded(source))
    with scratch.work() as d:
        at_once = _at_once(source) if not units else 1
        runs, link = _commands(cc, flags, source, c, d, max(units, at_once))
        said = _run_all(runs, so, c, d, at_once, go_on)
        if link is not None:
            said += run([link], c, d)
        out = Path(d) / "net.so"
        if not out.is_file():
            raise CompileError(f"{cc} ended without an error but wrote no program; is HYBRID_CC a C "
                               f"compiler?\n{said[-4000:].strip()}".rstrip())
        return keep(so, out.read_bytes())


def _run_all(runs: dict[Path, list[str]], so: Path, c: Path, folder: str, at_once: int,
             go_on: Callable[[], Any]) -> str:
    """Compiles the units of a text. Where there are more than are compiled at the same time, object files are kept in
    the disk cache until all are there, so that a later process continues from them. at_once: how many compilers run."""
    if len(runs) <= at_once:
        return run([*runs.values()], c, folder)
    kept = {made: so.with_name(f"unit-{cache.digest(so.stem, str(i), str(len(runs)))}.o")
            for i, made in enumerate(runs)}
    for made in runs:
        if intact(kept[made]):
            made.write_bytes(cache.read(kept[made]))
    new = [made for made in runs if not made.exists()]

    def tell(done: int) -> None:
        for watcher in watchers:
            watcher(len(runs) - len(new) + done, len(runs))

    def each(i: int) -> None:
        keep(kept[new[i]], new[i].read_bytes())
        tell(i + 1)
        go_on()
    tell(0)
    said = run([runs[made] for made in new], c, folder, at_once, each)
    for path in kept.values():
        for part in (path, path.with_suffix(".txt")):
            with contextlib.suppress(OSError):
                part.unlink()
    return said
