"""How the C compiler is found, run and tried (toolchain, compiler_process, compiler_trial, shared_objects of runtime):
beside forks, in processes with closed streams or ignored signals, interrupted, gone."""
from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from hybrid import hybridize, nd
from hybrid.base import system
from hybrid.base.errors import CompileError
from hybrid.runtime import compiler_process, shared_objects, toolchain

pytestmark = pytest.mark.skipif(toolchain.compiler() is None or not hasattr(os, "fork"), reason="needs a compiler")
LONG = 60                       # seconds that nothing here takes

STRANGE = """
import os, signal
os.close(0), os.close(1)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
from hybrid.errors import CompileError
from hybrid.runtime import shared_objects
so, c = shared_objects.build("void net(void **b) { }")
wrong = ""
try:
    shared_objects.build("void net(void **b) { no_such_thing; }")
except CompileError as err:
    wrong = str(err)
os.write(2, f"{so.exists()} {'no_such_thing' in wrong}".encode())
"""


def test_closed_streams_and_ignored_children(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", STRANGE], stderr=subprocess.PIPE,
                          env={**os.environ, "HYBRID_CACHE": str(tmp_path)}, timeout=300)
    assert done.stderr == b"True True"


@pytest.mark.skipif(sys.platform != "linux", reason="looks at open files as Linux lists them")
@pytest.mark.parametrize("session", [False, True])
def test_compilers_have_no_files_of_other_libraries_open(session: bool) -> None:
    """As the connection of an MPI library to its launcher, which waits until the last program has closed it."""
    reads, writes = os.pipe()
    os.set_inheritable(writes, True)
    with open(os.devnull, "w") as nowhere:
        process = system.start(["/bin/sleep", str(LONG)], 1, nowhere.fileno(), dict(os.environ), session)
    try:
        os.close(writes)
        assert select.select([reads], [], [], 10)[0] and os.read(reads, 1) == b""
    finally:
        os.close(reads)
        system.kill(process)
        system.waited(process)


def test_a_process_forked_meanwhile_holds_nothing_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HYBRID_CACHE", str(tmp_path))
    children: list[int] = []
    spawn = os.posix_spawn

    def and_fork(*args: Any, **kwargs: Any) -> int:
        started = spawn(*args, **kwargs)
        child = os.fork()
        if not child:
            time.sleep(LONG)
            os._exit(0)
        children.append(child)
        return started
    monkeypatch.setattr(os, "posix_spawn", and_fork)
    begin = time.monotonic()
    try:
        so, _ = shared_objects.build("void net(void **b) { /* beside a fork */ }")
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    assert so.exists() and children and time.monotonic() - begin < LONG


def test_an_interrupt_ends_the_compilers(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    spawn = os.posix_spawn

    def noted(*args: Any, **kwargs: Any) -> int:
        started.append(spawn(*args, **kwargs))
        return started[-1]
    monkeypatch.setattr(os, "posix_spawn", noted)

    def interrupt() -> None:
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)
    before, begin = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0, time.monotonic()
    thread = threading.Thread(target=interrupt)
    # a shell's background jobs ignore interrupts
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            shared_objects.run([["/bin/sleep", str(LONG)], ["/bin/sleep", str(LONG)]], Path("x.c"))
        thread.join()
    finally:
        signal.signal(signal.SIGINT, handler)
    assert time.monotonic() - begin < LONG
    assert len(started) == 2
    for process in started:                                  # none is left
        with pytest.raises(ChildProcessError):
            os.waitpid(process, os.WNOHANG)
    assert not before or len(os.listdir("/proc/self/fd")) <= before       # what earlier tests left may be closed


@pytest.mark.parametrize("without_memory", [False, True], ids=["memory", "disk"])
def test_what_compilers_say(without_memory: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if without_memory:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    says = tmp_path / "cc"
    says.write_text("#!/bin/sh\necho out; echo wrong >&2; exit $1\n")
    says.chmod(0o755)
    assert compiler_process.ask([str(says), "3"]) == (3, "out\n")
    assert shared_objects.run([[str(says), "0"]] * 2, Path("x.c")) == "wrong\nwrong\n"
    with pytest.raises(CompileError, match=r"refused the generated program x\.c:\nwrong"):
        shared_objects.run([[str(says), "0"], [str(says), "1"]], Path("x.c"))
    says.unlink()
    with pytest.raises(CompileError,
                       match="cc cannot be run: No such file or directory. Set HYBRID_CC to a C compiler, or to none"):
        shared_objects.run([[str(says), "0"]], Path("x.c"))


def test_a_compiler_that_is_killed(tmp_path: Path) -> None:
    dies = tmp_path / "cc"
    dies.write_text("#!/bin/sh\nkill -9 $$\n")
    dies.chmod(0o755)
    with pytest.raises(CompileError, match=r"ended with status -9 \(killed: is there too little memory\?\)"):
        shared_objects.run([[str(dies)]], Path("x.c"))


# ---- compilers that do not do what programs need
PROGRAM = """
import warnings
from hybrid import hybridize, nd
from hybrid.runtime import toolchain
f = hybridize(lambda x: nd.softmax(x * 2 + 1))
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    for _ in range(3):
        assert abs(f(nd.ones((4,))).asnumpy() - 0.25).max() < 1e-6
    assert hybridize(lambda x: x + 1)(nd.ones((2,))).asnumpy().tolist() == [2, 2]
print(toolchain.compiler(), len(seen), *[w.message for w in seen], sep="|")
"""
BROKEN = {
    "fails": "#!/bin/sh\necho no assembler >&2\nexit 1\n",
    "silent": "#!/bin/sh\nexit 0\n",
    "garbage": '#!/bin/sh\nwhile [ $# -gt 0 ]; do [ "$1" = -o ] && echo garbage > "$2"; shift; done\n',
    "crashes": "#!/bin/sh\nkill -SEGV $$\n",
    "no program": "words\n",
}
ON_CPU = pytest.mark.skipif(os.environ.get("HYBRID_DEVICE", "cpu") != "cpu", reason="a matter of the CPU")


def put(folder: Path, names: tuple[str, ...], text: str) -> None:
    """Programs of a text, in a folder."""
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)


def tried(tmp_path: Path, **env: str) -> "subprocess.CompletedProcess[str]":
    around = {k: v for k, v in os.environ.items() if k not in ("HYBRID_CC", "HYBRID_VERIFY", "HYBRID_WARM")}
    return subprocess.run([sys.executable, "-c", PROGRAM],
                          env={**around, "HYBRID_CACHE": str(tmp_path / "cache"), **env}, capture_output=True,
                          text=True,
                          check=False, timeout=300)


@ON_CPU
@pytest.mark.parametrize("how", BROKEN)
def test_compilers_that_are_broken(how: str, tmp_path: Path) -> None:
    """All that are found: NumPy, and one warning. One that was asked for: an error that names it."""
    put(tmp_path / "bin", ("gcc", "clang", "cc"), BROKEN[how])
    found = tried(tmp_path, PATH=f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith(f"None|1|the C compiler {tmp_path / 'bin' / 'gcc'} does not work ("), found.stdout
    assert "run on NumPy without fusion" in found.stdout
    asked = tried(tmp_path, HYBRID_CC=str(tmp_path / "bin" / "gcc"))
    assert (asked.returncode == 1 and "CompileError" in asked.stderr
            and f"the C compiler {tmp_path / 'bin' / 'gcc'} (HYBRID_CC=" in asked.stderr)


@ON_CPU
def test_another_compiler_takes_the_place_of_a_broken_one(tmp_path: Path) -> None:
    put(tmp_path / "bin", ("gcc",), BROKEN["fails"])
    put(tmp_path / "bin", ("clang",), f'#!/bin/sh\nexec {toolchain.compiler()} "$@"\n')
    found = tried(tmp_path, PATH=f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert found.stdout.startswith(f"{tmp_path / 'bin' / 'clang'}|1|the C compiler {tmp_path / 'bin' / 'gcc'} does "
                                   f"not work (no assembler), so "
                                   f"{tmp_path / 'bin' / 'clang'} is used instead"), found.stdout + found.stderr


PLAIN = """#!/bin/sh
for a in "$@"; do
  case "$a" in *.c) if grep -q __attribute__ "$a"; then echo "error: ';' expected (got \\"__attribute__\\")" >&2; exit 1; fi;; esac
done
exec {cc} "$@"
"""  # noqa: E501


@ON_CPU
def test_a_compiler_without_vectors(tmp_path: Path) -> None:
    """It is no error, also where it was asked for: NumPy, and one warning that says why."""
    put(tmp_path / "bin", ("small",), PLAIN.format(cc=toolchain.compiler()))
    found = tried(tmp_path, HYBRID_CC=str(tmp_path / "bin" / "small"))
    assert found.returncode == 0, found.stderr
    path, count, said = found.stdout.split("|")
    assert (path, count) == ("None", "1") and "small has no vectors" in said and "run on NumPy" in said


@ON_CPU
def test_a_compiler_that_does_not_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    put(tmp_path / "bin", ("cc",), "#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(compiler_process, "LONG", 0.3)
    cc = str(tmp_path / "bin" / "cc")
    begin = time.monotonic()
    with pytest.raises(CompileError, match="cc did not end within"):
        compiler_process.ask([cc, "--version"])
    with pytest.raises(CompileError, match="cc does not end, and it is no working C compiler"):
        shared_objects.run([[cc, "x.c"]], Path("x.c"))
    assert time.monotonic() - begin < LONG


@ON_CPU
def test_flags_that_a_compiler_does_not_know(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """They are left out, and so is OpenMP where its library is not there."""
    put(tmp_path / "bin", ("cc",),
        '#!/bin/sh\nfor a in "$@"; do case "$a" in -fno-plt|-fopenmp|-march=*) exit 1;; esac; done\n'
        f'[ "$1" = --version ] && {{ echo another compiler 1; exit 0; }}\nexec {toolchain.compiler()} "$@"\n')
    monkeypatch.setenv("HYBRID_CC", str(tmp_path / "bin" / "cc"))
    monkeypatch.setenv("HYBRID_CACHE", str(tmp_path / "cache"))
    taken = toolchain.flags(str(tmp_path / "bin" / "cc"))
    assert not {"-fno-plt", "-fopenmp", "-march=native"} & set(taken) and {"-O2", "-shared", "-fPIC"} <= set(taken)
    assert shared_objects.intact(shared_objects.build("void net(void **b) { /* without */ }")[0])


@ON_CPU
def test_passes_of_the_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """GCC from 12 on leaves out passes where kernels are vectors, and has them all where they sort; what nothing is
    known of has them all too."""
    cc = str(tmp_path / "bin" / "cc")
    for said, leaves_out in (("cc (GCC) 11.4.0\nFree Software Foundation", False),
                             ("cc (GCC) 12.2.0\nFree Software Foundation", True), ("clang 14.0.0", False)):
        put(tmp_path / "bin", ("cc",), f'#!/bin/sh\n[ "$1" = --version ] && {{ echo "{said}"; exit 0; }}\nexit 1\n')
        monkeypatch.setenv("HYBRID_CACHE", str(tmp_path / said[:14].replace(" ", "")))
        for known in (toolchain.quick, toolchain.compiler_version, toolchain._version_text):
            known.cache_clear()
        assert toolchain.quick(cc) == (toolchain.QUICK if leaves_out and sys.platform == "linux" else ())
    monkeypatch.undo()
    monkeypatch.setattr(toolchain, "quick", lambda cc: ("-O1",))
    real, x = toolchain.compiler(), nd.array([[3.0, 1.0], [2.0, 4.0]])
    assert real is not None
    for f, all_passes in ((lambda x: nd.tanh(x) * 2, False), (lambda x: nd.sort(x), True)):
        source = _source(f, x)
        assert ("-O1" in shared_objects._flags_of(real, source)) != all_passes


CALLS = """typedef float V __attribute__((vector_size(32)));
static __attribute__((noinline)) void row(float *y, const float *x) {
  V a = *(const V *)x, b = *(const V *)(x + 8);
  for (long i = 0; i < 64; i++) a += b * a;
  *(V *)y = a;
}
void net(void **p) {
  float *y = p[0], *x = p[1]; const V k = *(const V *)p[2];
  for (long i = 0; i < 640; i += 8) { row(y + i, x + i); *(V *)(y + i) = *(V *)(y + i) * k; }
}
"""


@ON_CPU
def test_vectors_stay_in_registers_over_calls(tmp_path: Path) -> None:
    """The caller of a product's rows keeps the numbers of the update that follows each row."""
    cc = toolchain.compiler()
    if cc is None or not toolchain.quick(cc) or toolchain.vector_bytes() < 32:
        pytest.skip("for GCC from 12 on and vectors of 32 bytes")
    (tmp_path / "x.c").write_text(CALLS)
    flags = [f for f in (*toolchain.flags(cc), *toolchain.quick(cc)) if f != "-shared"]
    shared_objects.run([[cc, *flags, "-S", str(tmp_path / "x.c"), "-o", str(tmp_path / "x.s")]], tmp_path / "x.c")
    stores = [line for line in (tmp_path / "x.s").read_text().splitlines() if "ymm" in line and "(%rsp)" in line]
    assert not stores, stores


def _source(f: Any, x: Any) -> str:
    """C of a function's program."""
    compiled = hybridize(f)
    compiled(x)
    return compiled.report().source


@ON_CPU
def test_compilers_that_nobody_waits_for_have_a_low_priority(tmp_path: Path) -> None:
    put(tmp_path, ("cc",), f"#!/bin/sh\nsleep 0.2; nice > {tmp_path}/nice\n")
    own, found = os.getpriority(os.PRIO_PROCESS, 0), []
    for scope in (contextlib.nullcontext(), compiler_process.low_priority(), contextlib.nullcontext()):
        with scope:
            compiler_process.ask([str(tmp_path / "cc")])
        found.append(int((tmp_path / "nice").read_text()) - own)
    assert found == [0, min(compiler_process.COMPILER_NICE, 19 - own), 0]                # Linux knows none above 19


@ON_CPU
def test_a_question_to_a_compiler_is_not_interrupted(tmp_path: Path) -> None:
    """Its answer is kept, so a program that is compiled first must not spoil it."""
    put(tmp_path, ("cc",), f"#!/bin/sh\ntouch {tmp_path}/began; sleep 0.3; echo 12\n")
    answers: list[Any] = []

    def ask() -> None:
        with compiler_process.low_priority():
            answers.append(compiler_process.ask([str(tmp_path / "cc")]))
    thread = threading.Thread(target=ask)
    thread.start()
    while not (tmp_path / "began").exists():
        time.sleep(0.01)
    compiler_process.end_low_priority()
    thread.join(60)
    assert answers == [(0, "12\n")]


@ON_CPU
def test_a_compiler_is_asked_for_its_version_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    put(tmp_path / "bin", ("cc",), f'#!/bin/sh\n[ "$1" = --version ] && echo asked >> {tmp_path}/asked\n'
                                   f'exec {toolchain.compiler()} "$@"\n')
    monkeypatch.setenv("HYBRID_CACHE", str(tmp_path / "cache"))
    cc = str(tmp_path / "bin" / "cc")
    assert toolchain.compiler_version(cc).startswith(cc) and toolchain.flags(cc)
    assert (tmp_path / "asked").read_text() == "asked\n"


@pytest.mark.skipif(sys.platform != "linux", reason="what Linux says")
def test_what_linux_says_of_the_processor() -> None:
    said = system.processor()
    assert toolchain.cpu_features() == (said.get("flags") or said.get("Features"))
    assert system.splits_wide_vectors() == (said.get("vendor_id") == "AuthenticAMD" and said["cpu family"] == "25")
