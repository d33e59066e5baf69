"""``python -m hybrid.warm``: programs compiled beforehand are found, in a folder that is only read, without a
compiler; what is not whole, not for this machine, or open to others is not used."""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import hybrid as mx
from hybrid import nd, warm
from hybrid.runtime import cpu, toolchain, warmed

pytestmark = pytest.mark.skipif(toolchain.compiler() is None, reason="needs a C compiler")
SCRIPT = """
    import sys
    import hybrid as mx
    from hybrid import gluon, nd
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(16, activation="relu"), gluon.nn.Dense(3))
    net.initialize(mx.init.Constant(0.1))
    net.hybridize()
    f = mx.hybridize(lambda x: nd.softmax(x) * 13)
    for _ in range(3):
        out = net(nd.arange(10).reshape((2, 5))), f(nd.arange(4))
    print([x.asnumpy().tobytes().hex() for x in out], type(list(f._engine.entries.values())[0].exe).__name__)
    sys.exit(int(sys.argv[1]))
"""


def run(folder: Path, *command: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    around = {k: v for k, v in os.environ.items() if not k.startswith("HYBRID_")}
    own = folder / "cache"
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=150,
                          env={**around, "HYBRID_TUNE": "0", "HYBRID_CACHE": str(own), **settings})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str]:
    """A folder that was filled, the script, and what the command printed."""
    where = tmp_path_factory.mktemp("warm")
    where.chmod(0o755)
    script = where / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    ran = run(where / "first", "-m", "hybrid.warm", str(where / "compiled"), str(script), "0")
    assert ran.returncode == 0, ran.stderr
    return where / "compiled", script, ran.stdout


def test_the_command_says_what_was_compiled(made: tuple[Path, Path, str]) -> None:
    folder, _, said = made
    assert "2 programs in" in said and "(float32[2, 5])" in said and f"HYBRID_WARM={folder}" in said
    assert len(list(folder.glob("plan-*.txt"))) == 2


def test_what_cannot_be_done_is_said(made: tuple[Path, Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                     capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HYBRID_VERIFY", "1")
    for script, message in (("nowhere.py", "no script nowhere.py"), (str(made[1]), "HYBRID_VERIFY")):
        with pytest.raises(SystemExit):
            warm.main([str(tmp_path / "x"), script])
        assert message in capsys.readouterr().err


def test_programs_are_found_without_a_compiler(made: tuple[Path, Path, str], tmp_path: Path) -> None:
    """The same bits, by compiled code; nothing is said of the compiler that is not there."""
    folder, script, said = made
    before = {p.name: p.stat().st_mtime_ns for p in folder.iterdir()}
    folder.chmod(0o555)
    try:
        ran = run(tmp_path, str(script), "0", HYBRID_WARM=str(folder), HYBRID_CC="none")
    finally:
        folder.chmod(0o755)
    assert ran.returncode == 0 and not ran.stderr, ran.stderr
    assert ran.stdout.strip() == said.splitlines()[0] and "CpuProgram" in ran.stdout
    assert {p.name: p.stat().st_mtime_ns for p in folder.iterdir()} == before


@pytest.fixture
def copied(made: tuple[Path, Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the folder that this process is to use, and an empty cache."""
    folder = tmp_path / "compiled"
    shutil.copytree(made[0], folder)
    (tmp_path / "cache").mkdir(mode=0o700)
    for name, value in (("HYBRID_CACHE", str(tmp_path / "cache")), ("HYBRID_WARM", str(folder)),
                        ("HYBRID_VERIFY", "0"), ("HYBRID_TUNE", "0")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HYBRID_COMPILE", "now")                  # what is not in the folder is compiled at once
    monkeypatch.delenv("HYBRID_SIGNATURES", raising=False)
    warmed._usable.cache_clear()
    return folder


def call(monkeypatch: pytest.MonkeyPatch) -> bool:
    """Call the small function of the script: whether its program was there, and not compiled."""
    built, real = [], cpu._build
    monkeypatch.setattr(cpu, "_build", lambda planned, *more: built.append(planned) or real(planned, *more))
    f = mx.hybridize(lambda x: nd.softmax(x) * 13)
    np.testing.assert_allclose(f(nd.arange(4)).asnumpy().sum(), 13, rtol=1e-5)
    assert type(list(f._engine.entries.values())[0].exe) is cpu.CpuProgram
    return not built


TAKEN = """
import hybrid as mx
from hybrid import nd
from hybrid.runtime import cpu
built, real = [], cpu._build
cpu._build = lambda planned, *more: built.append(planned) or real(planned, *more)
f = mx.hybridize(lambda x: nd.softmax(x) * 13)
print(round(float(f(nd.arange(4)).asnumpy().sum()), 4), len(built))
"""


def test_a_process_with_a_compiler_takes_them_too(copied: Path, tmp_path: Path) -> None:
    done = run(tmp_path / "other", "-c", TAKEN, HYBRID_WARM=str(copied))
    assert done.stdout == "13.0 0\n", done.stdout + done.stderr
    assert list((tmp_path / "other" / "cache").glob("plan-*.txt"))    # the next process finds it in its own cache


@pytest.mark.parametrize("harm", ["half", "plan", "gone"])
def test_what_is_not_whole_is_compiled_anew(copied: Path, harm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in copied.glob("*.so" if harm != "plan" else "plan-*.txt"):
        content = path.read_bytes()
        if harm == "gone":
            path.unlink()
        else:
            path.write_bytes(content[:len(content) // 2])
    assert not call(monkeypatch)


@pytest.mark.parametrize("wrong", ["open", "elsewhere", "nothing"])
def test_a_folder_of_no_use_is_named_once(copied: Path, wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = copied / warmed.MANIFEST
    if wrong == "open":
        copied.chmod(0o777)
    elif wrong == "nothing":
        manifest.unlink()
    else:
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "processor": "of another kind"}))
    reason = {"open": "can be written by other users", "elsewhere": "made for another processor", "nothing": "No such"}
    with pytest.warns(RuntimeWarning, match=f"HYBRID_WARM=.*{reason[wrong]}"):
        assert warmed.folder() is None
    assert not call(monkeypatch)


SIZES = """
    import hybrid as mx
    from hybrid import autograd, gluon, nd
    net = gluon.nn.Dense(3, in_units=4)
    net.initialize(mx.init.Constant(0.1))
    net.hybridize()
    for n in (8, 5, 7, 9):
        x = nd.arange(n * 4).reshape((n, 4))
        with autograd.record():
            y = net(x)
        y.backward()
        out = net(x)
    print(out.asnumpy().tobytes().hex(), net.weight.grad().asnumpy().tobytes().hex(), len(net.programs))
"""


@pytest.mark.parametrize("mode", ["now", "background"])
def test_programs_for_any_size_need_no_compiler_either(mode: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    script, folder = tmp_path / "sizes.py", tmp_path / "compiled"
    script.write_text(textwrap.dedent(SIZES))
    filled = run(tmp_path / "first", "-m", "hybrid.warm", str(folder), str(script))
    assert filled.returncode == 0 and "n0, 4" in filled.stdout, filled.stderr
    found = run(tmp_path / "second", str(script), HYBRID_WARM=str(folder), HYBRID_CC="none", HYBRID_COMPILE=mode)
    assert found.returncode == 0 and "no C compiler" not in found.stderr, found.stderr
    assert found.stdout == filled.stdout.splitlines(keepends=True)[0]
