"""The compiler of ``pip install ziglang`` (the package ziglang) is found by itself where there is no
other one, and programs that it compiles compute what eager code computes."""
from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hybrid.runtime import compilers, toolchain

from ..codegen.test_clang import PROGRAM as EVERY_KIND
from .test_toolchain import ON_CPU, PROGRAM, put

# a stand-in that is started as zig is: ``zig cc ...``
ZIG = '#!/bin/sh\nfirst=$1; shift; [ "$first" = cc ] || exit 9\nPATH={path} exec {cc} "$@"\n'


def ran(program: str, tmp_path: Path, **env: str) -> "subprocess.CompletedProcess[str]":
    """A program where no compiler is on the path."""
    (tmp_path / "empty").mkdir()
    around = {k: v for k, v in os.environ.items() if k not in ("HYBRID_CC", "HYBRID_VERIFY", "HYBRID_WARM")}
    return subprocess.run([sys.executable, "-c", program],
                          env={**around, "PATH": str(tmp_path / "empty"), "HYBRID_CACHE": str(tmp_path / "cache"),
                               **env}, capture_output=True, text=True, check=False, timeout=600)


def stand_in(tmp_path: Path) -> str:
    """A folder for PYTHONPATH with a package ziglang, and what was there before."""
    real = os.path.realpath(toolchain.compiler() or "")
    put(tmp_path / "site", (), "")
    put(tmp_path / "site" / "ziglang", ("zig",), ZIG.format(cc=real, path=os.environ["PATH"]))
    (tmp_path / "site" / "ziglang" / "__init__.py").write_text("raise ImportError('it is not imported')")
    return os.pathsep.join([str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")])


@ON_CPU
@pytest.mark.skipif(toolchain.compiler() is None, reason="needs a compiler")
def test_the_packaged_compiler_is_found_where_there_is_no_other(tmp_path: Path) -> None:
    done = ran(PROGRAM, tmp_path, PYTHONPATH=stand_in(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{tmp_path / 'site' / 'ziglang' / 'zig'}|0\n"


@ON_CPU
def test_without_any_the_warning_says_how_to_get_one(tmp_path: Path) -> None:
    hidden = "import sys\nsys.modules['ziglang'] = None\n" + PROGRAM
    done = ran(hidden, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("None|1|no C compiler was found, so hybridized programs run on NumPy without fusion. "
                                  "pip install ziglang brings one;"), done.stdout


def test_zig_is_started_as_a_c_compiler() -> None:
    assert compilers.command("/x/zig")[:2] == ["/x/zig", "cc"]
    assert compilers.command("/usr/bin/gcc") == ["/usr/bin/gcc"]
    assert "ZIG_GLOBAL_CACHE_DIR" in compilers.environment("/x/zig", None)
    assert "ZIG_GLOBAL_CACHE_DIR" not in compilers.environment("/usr/bin/gcc", None).keys() - os.environ.keys()


@ON_CPU
@pytest.mark.skipif(importlib.util.find_spec("ziglang") is None or not os.environ.get("HYBRID_CHECK_ALL"),
                    reason="make check-all runs it: zig first builds its own library, for half a minute")
def test_zig_computes_what_eager_code_does(tmp_path: Path) -> None:
    done = ran(f"{EVERY_KIND}\nfrom hybrid.runtime import launcher\nassert launcher.load() is not None", tmp_path,
               HYBRID_NUM_THREADS="2")
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith("done")
