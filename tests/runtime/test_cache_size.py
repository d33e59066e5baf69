"""The size of the disk cache: what was not used for longest goes first, nothing else is touched, and what goes is made
again."""
from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hybrid.base import config
from hybrid.runtime import cache
from hybrid.runtime.cpu import has_compiler

HOUR = 3600.0


def put(folder: Path, name: str, size: int, hours: float) -> Path:
    """A file that was used so many hours ago."""
    path = folder / name
    path.write_bytes(b"x" * size)
    then = time.time() - hours * HOUR
    os.utime(path, (then, then))
    return path


def left(folder: Path) -> set[str]:
    return {p.name for p in folder.iterdir()}


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    """A program goes with all of its files, or stays with all; four fifths of the limit remain."""
    for number, hours in enumerate((5, 1, 9, 3)):
        for kind in ("so", "c", "txt"):
            put(tmp_path, f"{number:032x}.{kind}", 100, hours if kind == "so" else 99)
    put(tmp_path, f"plan-{9:032x}.txt", 100, 0)
    assert cache.tidy(tmp_path, 1000) == 700
    assert left(tmp_path) == {f"{n:032x}.{k}" for n in (1, 3) for k in ("so", "c", "txt")} | {f"plan-{9:032x}.txt"}


@pytest.mark.parametrize("limit", [0, 300], ids=["none", "met"])
def test_below_the_limit_all_stays(limit: int, tmp_path: Path) -> None:
    for number in range(3):
        put(tmp_path, f"{number:032x}.so", 100, 1000)
    assert cache.tidy(tmp_path, limit) == 300
    assert len(left(tmp_path)) == 3


def test_files_of_others_are_never_touched(tmp_path: Path) -> None:
    """Someone may name a folder that holds more; of writes that were cut off, only old ones are."""
    mine = [put(tmp_path, name, 10_000, 10_000).name for name in ("thesis.txt", "net.so", f"{1:032x}.so.backup2",
                                                                  f"{1:031x}.so", f"{1:032x}.params",
                                                                  f"copy {1:032x}.so")]
    (tmp_path / f"{3:032x}.so").mkdir()
    put(tmp_path, f"{1:032x}.so.abcd_123", 10, 25)
    put(tmp_path, f"{2:032x}.so.abcd_123", 10, 1)
    cache.tidy(tmp_path, 1)
    assert left(tmp_path) == {*mine, f"{2:032x}.so.abcd_123", f"{3:032x}.so"}


@pytest.mark.parametrize("text, size", [("", 1 << 30), ("5", 5 << 20), ("0", 0), ("-3", 1 << 30), ("much", 1 << 30)],
                         ids=["unset", "five", "none", "negative", "word"])
def test_the_limit_is_a_setting(text: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRID_CACHE_SIZE", text)
    assert config.cache_bytes() == size


PROGRAM = """
import hybrid as mx
from hybrid import nd
print(mx.hybridize(lambda x: nd.sqrt(x) + {0})(nd.ones((3,))).asnumpy().tolist())
"""


@pytest.mark.thorough
@pytest.mark.skipif(not has_compiler(), reason="needs a compiler")
def test_a_process_looks_after_the_folder_once_an_hour(tmp_path: Path) -> None:
    """At its end, and what it or another still needs is compiled again."""
    def run(number: int, **variables: Any) -> str:
        environment = {**os.environ, "HYBRID_CACHE": str(tmp_path), **variables}
        return subprocess.run([sys.executable, "-c", PROGRAM.format(number)], env=environment, check=True,
                              capture_output=True, text=True).stdout
    old = put(tmp_path, f"{7:032x}.so", 2 << 20, 100)
    assert run(1, HYBRID_CACHE_SIZE="1") == "[2.0, 2.0, 2.0]\n" and not old.exists()
    assert sum(p.suffix == ".so" for p in tmp_path.iterdir()) >= 1              # what was just made is below the limit
    old = put(tmp_path, f"{8:032x}.so", 2 << 20, 100)
    run(2, HYBRID_CACHE_SIZE="1")
    assert old.exists()                                                         # the same hour
    for path in tmp_path.glob("*.so"):
        path.unlink()
    assert run(1) == "[2.0, 2.0, 2.0]\n"


def test_a_process_that_writes_much_looks_before_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever it has written an eighth of the limit; what it wrote last stays."""
    monkeypatch.setattr(config, "cache_bytes", lambda: 8000)
    old = put(tmp_path, f"{99:032x}.so", 7000, 100)
    for number in range(9):
        cache.write(tmp_path / f"{number:032x}.so", b"x" * 900)
        assert sum(p.stat().st_size for p in tmp_path.glob("*.so")) <= 8000 + 1000
    assert not old.exists() and (tmp_path / f"{8:032x}.so").exists()
