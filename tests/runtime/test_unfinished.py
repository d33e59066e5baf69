"""Programs whose compilation was cut off: later processes go on from what the disk cache has of them."""
from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import ir, nd
from hybrid.base.errors import CompileError
from hybrid.ir import Program, size
from hybrid.runtime import build, cpu, once, plans, shared_objects, sized, toolchain, tune, unfinished

pytestmark = pytest.mark.skipif(toolchain.compiler() is None or os.environ.get("HYBRID_DEVICE", "cpu") != "cpu",
                                reason="a matter of compiled CPU programs")
DATA = np.linspace(0, 1, 12, dtype="float32").reshape(3, 4)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A disk cache of a test's own; passes that are checked would keep no recipe."""
    for name, value in {"HYBRID_VERIFY": "0", "HYBRID_DEBUG": "0", "HYBRID_COMPILE": "now"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HYBRID_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir(mode=0o700)
    return tmp_path / "cache"


def program() -> Program:
    """A program as each process has it: nothing derived from it yet."""
    x = ir.input(0, (3, 4), "float32")
    return Program((x,), (ir.map("exp", x * 1.25),))


def cut_off(monkeypatch: pytest.MonkeyPatch, make: Any) -> None:
    """Make something up to the compiler."""
    def ends(*_: Any) -> Path:
        raise KeyboardInterrupt
    with monkeypatch.context() as m:
        m.setattr(shared_objects, "_compile", ends)
        with pytest.raises(KeyboardInterrupt):
            make()


def without_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on nothing is planned or printed."""
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("planned anew")
    monkeypatch.setattr(build, "build", refuse)


def test_the_next_process_plans_and_prints_nothing(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    cut_off(monkeypatch, lambda: cpu.compiled(program()))
    assert len([*folder.glob("unfinished-*.txt")]) == 1 and not [*folder.glob("plan-*")]
    without_passes(monkeypatch)
    made = cpu.compiled(program())
    np.testing.assert_allclose(made([DATA])[0], np.exp(DATA * 1.25), rtol=1e-6)
    assert made.compiled_here == 1 and not [*folder.glob("unfinished-*")] and len([*folder.glob("plan-*")]) == 1
    assert cpu.compiled(program()).compiled_here == 0


def test_nothing_is_left_of_a_program_that_was_compiled(folder: Path) -> None:
    cpu.compiled(program())
    assert not [*folder.glob("unfinished-*")]


def test_a_program_for_any_size(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    def function() -> Any:
        return mx.hybridize(lambda x: nd.exp(x * 1.5), dynamic={"x": {0: "n"}})
    f = function()
    f(nd.array(DATA))                                    # the second size makes it one for any size
    cut_off(monkeypatch, lambda: f(nd.array(DATA[:2])))
    assert len([*folder.glob("unfinished-*.txt")]) == 1
    without_passes(monkeypatch)
    f = function()
    for n in (3, 2):
        np.testing.assert_allclose(f(nd.array(DATA[:n])).asnumpy(), np.exp(DATA[:n] * 1.5), rtol=1e-6)
    assert [p.waited for p in f.programs][-1] == 1 and not [*folder.glob("unfinished-*")]


@pytest.mark.parametrize("what", ["recipe", "text", "no text"])
def test_what_is_not_whole_is_made_anew(what: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    cut_off(monkeypatch, lambda: cpu.compiled(program()))
    left, = folder.glob("unfinished-*.txt" if what == "recipe" else "*.c")
    left.write_text(left.read_text()[:-2]) if what != "no text" else left.unlink()
    np.testing.assert_allclose(cpu.compiled(program())([DATA])[0], np.exp(DATA * 1.25), rtol=1e-6)
    assert not [*folder.glob("unfinished-*")]


def test_deferred_choices_stay_deferred(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    with tune.deferred():
        tune.defer(["a", "b"])
        cut_off(monkeypatch, lambda: cpu.compiled(program()))
    assert unfinished.go_on(lambda: None) and not unfinished.go_on(lambda: None)
    assert not [*folder.glob("plan-*")]                  # who asks for the program tells that it is to be tuned
    with tune.deferred() as choices:
        cpu.compiled(program())
    assert choices == ["a", "b"] and len([*folder.glob("plan-*")]) == 1


# ---- processes that have nothing else to do
def test_an_idle_process_goes_on(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    assert not unfinished.go_on(lambda: None)
    cut_off(monkeypatch, lambda: cpu.compiled(program()))
    assert unfinished.go_on(lambda: None) and not [*folder.glob("unfinished-*")]
    assert plans.read(plans.key(program(), frozenset())) is not None
    assert not unfinished.go_on(lambda: None)


def test_it_leaves_what_another_library_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_off(monkeypatch, lambda: cpu.compiled(program()))
    monkeypatch.setattr(plans, "conditions", lambda: "others")
    assert not unfinished.go_on(lambda: None)


def test_it_leaves_what_another_process_works_on(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_off(monkeypatch, lambda: cpu.compiled(program()))
    with monkeypatch.context() as m:
        m.setattr(once._File, "take", lambda self, byte, patience: patience > 0)
        assert not unfinished.go_on(lambda: None)
    assert unfinished.go_on(lambda: None)


def test_it_stops_for_a_job_and_keeps_what_is_done(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    class JobCame(Exception):
        pass

    def stop() -> None:
        raise JobCame
    monkeypatch.setattr(shared_objects, "LONG_UNIT", 400)
    monkeypatch.setattr(shared_objects.system, "idle_cores", lambda: 1)
    units = "".join(f"#if HY_UNIT == {i}\nint x{i};\n#endif\n" for i in range(4))
    name = shared_objects.begun(f"{units}{shared_objects.UNITS}\n#endif\n/*{'-' * 1200}*/\n")
    with pytest.raises(JobCame):
        shared_objects.finish(name, stop)
    assert len([*folder.glob("unit-*.o")]) == 1
    assert shared_objects.finish(name) and not [*folder.glob("unit-*.o")]


def test_what_does_not_compile_is_tried_once(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    cut_off(monkeypatch, lambda: cpu.compiled(program()))

    def fails(*_: Any) -> Path:
        raise CompileError("no")
    monkeypatch.setattr(shared_objects, "_compile", fails)
    assert unfinished.go_on(lambda: None)
    assert not [*folder.glob("unfinished-*")] and not unfinished.go_on(lambda: None)


# ---- what a compiler refuses, and what ends those that compile it
@pytest.mark.parametrize("any_size", [False, True])
def test_nothing_is_left_of_a_program_that_a_compiler_refuses(any_size: bool, monkeypatch: pytest.MonkeyPatch,
                                                              folder: Path) -> None:
    kept: list[Any] = []

    def fails(*_: Any) -> Path:
        kept.extend(folder.glob("unfinished-*"))
        raise CompileError("no")
    monkeypatch.setattr(shared_objects, "_compile", fails)
    x = ir.input(0, (size.size(size.Dim("n")), 4) if any_size else (3, 4), "float32")
    made = Program((x,), (ir.map("exp", x * 1.75),))
    with pytest.raises(CompileError, match="no"):
        sized.SizedProgram(made) if any_size else cpu.compiled(made)
    assert kept and not [*folder.glob("unfinished-*")]


def test_a_program_that_ends_those_that_compile_it_is_tried_so_often_and_no_more(monkeypatch: pytest.MonkeyPatch,
                                                                                 folder: Path) -> None:
    cut_off(monkeypatch, lambda: cpu.compiled(program()))
    for _ in range(unfinished.MOST_TRIES):
        cut_off(monkeypatch, lambda: unfinished.go_on(lambda: None))
        assert len([*folder.glob("unfinished-*")]) == 1
    with monkeypatch.context() as m:
        m.setattr(shared_objects, "_compile", lambda *_: pytest.fail("tried once more"))
        unfinished.go_on(lambda: None)
    assert not [*folder.glob("unfinished-*")]
    np.testing.assert_allclose(cpu.compiled(program())([DATA])[0], np.exp(DATA * 1.25), rtol=1e-6)


def test_tries_that_come_further_do_not_count(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Each of many short processes compiles a unit of a long program."""
    cut_off(monkeypatch, lambda: cpu.compiled(program()))
    path, = folder.glob("unfinished-*")

    def comes_further(*given: Any) -> Path:
        given[-1]()                                      # a unit is compiled
        raise AssertionError("nobody stopped it")

    def stop() -> None:
        raise KeyboardInterrupt
    with monkeypatch.context() as m:
        m.setattr(shared_objects, "_compile", comes_further)
        for _ in range(unfinished.MOST_TRIES + 1):
            with pytest.raises(KeyboardInterrupt):
                unfinished.go_on(stop)
    assert path.exists() and unfinished.go_on(lambda: None) and not path.exists()


def test_what_is_compiled_already_is_not_left(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    cut_off(monkeypatch, lambda: cpu.compiled(program()))
    path, = folder.glob("unfinished-*")
    text = path.read_bytes()
    cpu.compiled(program())
    path.write_bytes(text)
    assert not unfinished.go_on(lambda: None) and not path.exists()
