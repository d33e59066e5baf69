"""What the disk cache may believe (hybrid/runtime/trust.py), what takes its place, and what is left of processes that
were killed."""
from __future__ import annotations

import errno
import gc
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

import hybrid as mx
from hybrid.base import config
from hybrid import nd
from hybrid.runtime import cache, compiler_process, cpu, launcher, scratch, shared_objects, toolchain, trust

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid") or toolchain.compiler() is None,
                                reason="needs users and a compiler")
ROOT = pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() != 0,
                          reason="only the administrator can give files away")
ON_CPU = pytest.mark.skipif(os.environ.get("HYBRID_DEVICE", "cpu") != "cpu", reason="a matter of the CPU")
STRANGER = 12345
TEXT = "void net(void **b) { *(int *)b[0] = 1; }"


@pytest.fixture(autouse=True)
def nothing_said_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_fallback", [])
    monkeypatch.setattr(cache, "_checked", {})


def replaced(monkeypatch: pytest.MonkeyPatch, wanted: Path, why: str) -> Path:
    """The folder that is used in the place of one that is not; one warning names that one and the reason."""
    monkeypatch.setenv("HYBRID_CACHE", str(wanted))
    with pytest.warns(RuntimeWarning, match=why) as seen:
        found = cache.folder()
        assert cache.folder() == found
    assert len(seen) == 1 and str(wanted) in str(seen[0].message) and "Set HYBRID_CACHE" in str(seen[0].message)
    assert found.stat().st_mode & 0o077 == 0 and wanted not in (found, *found.parents)
    return found


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o722], ids=oct)
def test_a_folder_that_others_can_write(mode: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What lies in it is not loaded, and nothing is written there."""
    wanted = tmp_path / "cache"
    monkeypatch.setenv("HYBRID_CACHE", str(wanted))
    so, _ = shared_objects.build(TEXT)
    assert so.parent == wanted
    wanted.chmod(mode)
    before = sorted(wanted.iterdir())
    replaced(monkeypatch, wanted, "can be written by other users")
    other, c = shared_objects.build(TEXT)
    assert other.name == so.name and wanted not in (other.parent, c.parent) and sorted(wanted.iterdir()) == before


@ROOT
def test_folders_and_links_of_other_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o755)
    os.chown(theirs, STRANGER, STRANGER)
    replaced(monkeypatch, theirs, f"belongs to user {STRANGER}")
    replaced(monkeypatch, theirs / "new", f"belongs to user {STRANGER}")                # as root with a user's HOME
    assert not (theirs / "new").exists()
    mine = tmp_path / "mine"
    mine.mkdir(mode=0o700)
    link = tmp_path / "link"
    link.symlink_to(mine)
    monkeypatch.setenv("HYBRID_CACHE", str(link))
    assert cache.folder() == mine
    os.chown(link, STRANGER, STRANGER, follow_symlinks=False)
    monkeypatch.setattr(cache, "_checked", {})
    replaced(monkeypatch, link, f"the link {link} belongs to user {STRANGER}")


def test_a_folder_within_one_that_others_can_write(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    open_to_all = tmp_path / "open"
    (open_to_all / "cache").mkdir(parents=True, mode=0o700)
    open_to_all.chmod(0o777)
    replaced(monkeypatch, open_to_all / "cache", "can be written by other users")
    (tmp_path / "link").symlink_to(open_to_all / "cache")
    replaced(monkeypatch, tmp_path / "link", "can be written by other users")
    # as /tmp: entries belong to their owners
    open_to_all.chmod(0o1777)
    monkeypatch.setenv("HYBRID_CACHE", str(open_to_all / "cache"))
    assert cache.folder() == open_to_all / "cache"


def test_a_change_while_the_process_runs_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wanted = tmp_path / "cache"
    monkeypatch.setenv("HYBRID_CACHE", str(wanted))
    assert cache.folder() == wanted and wanted.stat().st_mode & 0o777 == 0o700
    wanted.chmod(0o777)
    replaced(monkeypatch, wanted, "can be written")
    wanted.chmod(0o700)
    assert cache.folder() == wanted


def _linked(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def _piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


SPOILED: dict[str, Callable[[Path], None]] = {
    "writable": lambda path: path.chmod(0o666),
    "link": _linked,
    "pipe": _piped,
    "given away": lambda path: os.chown(path, STRANGER, STRANGER),
}


@pytest.mark.parametrize("how", SPOILED)
@pytest.mark.parametrize("suffix", [".so", ".txt"])
def test_files_that_others_may_have_written(how: str, suffix: str, monkeypatch: pytest.MonkeyPatch,
                                            tmp_path: Path) -> None:
    """They are compiled again, and the new ones take their place."""
    if how == "given away" and os.geteuid():
        pytest.skip("only the administrator can give files away")
    monkeypatch.setenv("HYBRID_CACHE", str(tmp_path))
    so, _ = shared_objects.build(TEXT)
    assert shared_objects.intact(so)
    SPOILED[how](so.with_suffix(suffix))
    assert not shared_objects.intact(so)
    assert shared_objects.build(TEXT)[0] == so and shared_objects.intact(so) and not so.is_symlink()


@pytest.mark.parametrize("name", ["-fplugin=x.so", "@list", "two words", "two\nlines", "ümlaut",
                                  os.fsdecode(b"\xff\xfe"), "'\"$(touch x)"],
                         ids=["option", "at", "space", "newline", "umlaut", "bytes", "quotes"])
def test_names_of_folders_that_compilers_could_misread(name: str, monkeypatch: pytest.MonkeyPatch,
                                                       tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HYBRID_CACHE", name)
    started: list[list[str]] = []
    start = compiler_process.start
    monkeypatch.setattr(compiler_process, "start",
                        lambda command, *rest: started.append(command) or start(command, *rest))
    so, c = shared_objects.build(TEXT)
    assert so.parent == c.parent == config.cache_dir() == tmp_path / name and shared_objects.intact(so)
    cc = started[0][0]
    assert started and all(part.startswith("/") or part in toolchain.flags(cc) + toolchain.quick(cc)
                           or part in ("-o", "-lm", "-lgcc", "-nostdlib", "--version")
                           for command in started for part in command)
    assert sorted(p.name for p in tmp_path.iterdir()) == [name]


@ON_CPU
def test_a_program_in_a_folder_of_strange_bytes_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HYBRID_CACHE", str(tmp_path / os.fsdecode(b"\xff\xfe")))
    f = mx.hybridize(lambda x: x * 2 + nd.sin(x * 0))
    assert f(nd.array([3.])).asscalar() == 6


@pytest.mark.parametrize("wanted", ["/" + "x" * 300, "/".join(["", *["x" * 200] * 30])], ids=["name", "path"])
def test_names_that_are_too_long(wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    replaced(monkeypatch, Path(wanted), "cannot be written .File name too long")


@ON_CPU
def test_a_compiler_in_a_folder_of_strange_bytes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"-\xff bin")
    folder.mkdir()
    cc = toolchain.compiler()
    assert cc is not None
    (folder / "-cc").write_text(f'#!/bin/sh\nexec {cc} "$@"\n')
    (folder / "-cc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HYBRID_CC", "-cc")
    assert toolchain.compiler() == str(folder / "-cc") and shared_objects.intact(shared_objects.build(TEXT)[0])


def test_functions_with_long_names() -> None:
    def plain(x: Any) -> Any:
        return x + 1
    plain.__name__ = plain.__qualname__ = "n" * 1000 + "ü\udcff"
    assert mx.hybridize(plain)(nd.ones((2,))).asnumpy().tolist() == [2, 2]


def test_a_full_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HYBRID_CACHE", str(tmp_path))
    make = tempfile.mkstemp

    def full(*args: Any, dir: Any = None, **kwargs: Any) -> Any:        # noqa: A002  the parameter's name
        if Path(dir) == tmp_path:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return make(*args, dir=dir, **kwargs)
    monkeypatch.setattr(tempfile, "mkstemp", full)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for number in range(3):
            assert shared_objects.build(f"{TEXT} // {number}")[0].parent != tmp_path
    assert len(seen) == 1 and "cannot be written (No space left on device)" in str(seen[0].message)


def test_temporary_files_where_others_cannot_reach(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A TMPDIR that everybody may write, without the sticky bit, is no place to compile in."""
    tmp_path.chmod(0o777)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(scratch, "_made", {})
    path = scratch.folder()
    assert tmp_path not in Path(path).parents and os.stat(path).st_mode & 0o077 == 0 and not list(tmp_path.iterdir())
    scratch._remove(os.getpid())
    assert not os.path.exists(path)


SLOW = ("#!/bin/sh\ncase \"$*\" in *--version*) exec {cc} \"$@\";; esac\necho > $TMPDIR/of-the-compiler.s\ntouch "
        "{flag}\nsleep 60\n")
START = "from hybrid.runtime import shared_objects\nshared_objects.build('int x;')\n"


@pytest.fixture
def slow(tmp_path: Path) -> Iterator["tuple[dict[str, str], Path, Path]"]:
    """Surroundings whose compiler takes long; what exists once it runs, and the folder for temporary files."""
    cc, flag, temporary = tmp_path / "cc", tmp_path / "started", tmp_path / "tmp"
    cc.write_text(SLOW.format(cc=toolchain.compiler(), flag=flag))
    cc.chmod(0o755)
    temporary.mkdir(mode=0o700)
    yield {**os.environ, "HYBRID_WARM": "", "HYBRID_CACHE": str(tmp_path / "cache"), "HYBRID_CC": str(cc),
           "TMPDIR": str(temporary)}, flag, temporary


def _begun(env: dict[str, str], flag: Path) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen([sys.executable, "-c", START], env=env, stderr=subprocess.DEVNULL,
                               start_new_session=True)
    until = time.monotonic() + 60
    while not flag.exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert flag.exists()
    return process


def test_what_killed_processes_leave_is_removed(slow: "tuple[dict[str, str], Path, Path]") -> None:
    env, flag, temporary = slow
    killed = _begun(env, flag)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    flag.unlink()
    (left,) = temporary.iterdir()
    assert list(left.rglob("of-the-compiler.s")), "the compiler's own files lie in the folder too"
    (temporary / "hybrid-thesis").mkdir()                                # what is not ours stays
    running = _begun(env, flag)
    try:
        assert not left.exists()
        (alive,) = [p for p in temporary.iterdir() if p.name != "hybrid-thesis"]
        scratch.sweep(str(temporary))
        assert alive.exists() and (temporary / "hybrid-thesis").exists()        # another process works there
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    scratch.sweep(str(temporary))
    assert not alive.exists()


# ---- memory maps
def mapped(folder: Path) -> int:
    """Programs of a cache folder that this process has mapped."""
    lines = Path("/proc/self/maps").read_text(errors="replace").splitlines()
    return len({line.split(None, 5)[5] for line in lines if str(folder) in line and ".so" in line})


@ON_CPU
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
@pytest.mark.parametrize("dynamic, programs", [(False, 8), (True, 2)])
def test_programs_that_are_dropped_are_unmapped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, dynamic: bool,
                                                programs: int) -> None:
    """And those whose function is asked no more: a program for each of many shapes, or for size 1 and for any size."""
    launcher.load()                                                      # of another folder, and never unloaded
    monkeypatch.setenv("HYBRID_CACHE", str(tmp_path))
    most = 0
    for number in range(3):
        f = mx.hybridize(lambda x: x * 2 + number, dynamic=dynamic)      # noqa: B023  called at once
        for size in range(1, 9):
            for _ in range(2):
                assert f(nd.ones((size,))).asnumpy().tolist() == [2 + number] * size
        most = max(most, mapped(tmp_path))
        del f
        gc.collect()
    assert programs <= most <= programs + 1 and mapped(tmp_path) <= 1    # the pool


@ON_CPU
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
def test_a_program_stays_while_somebody_can_call_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A launcher alone, which another thread may be calling, keeps the program's code."""
    if launcher.load() is None:
        pytest.skip("no launcher here")
    monkeypatch.setenv("HYBRID_CACHE", str(tmp_path))
    found: list[Any] = []
    make = cpu.Bound.launcher
    monkeypatch.setattr(cpu.Bound, "launcher", lambda *args, **kwargs: found.append(make(*args, **kwargs)) or found[-1])
    f = mx.hybridize(lambda x: x * 3)
    for _ in range(4):
        f(nd.ones((5,)))
    assert found and found[-1] is not None
    before = mapped(tmp_path)
    del f
    gc.collect()
    assert mapped(tmp_path) == before >= 1
    assert found[-1](nd.ones((5,))).asnumpy().tolist() == [3] * 5
    found.clear()
    gc.collect()
    assert mapped(tmp_path) < before


def test_the_check_reads_what_it_checked(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    assert trust.read(path) == b"content"
    path.chmod(0o602)
    with pytest.raises(trust.Distrusted, match="can be written by other users .mode 602"):
        trust.read(path)
