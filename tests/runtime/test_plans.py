"""Recipes of compiled programs in the disk cache: found by the next process, never stale, never damaged; the same
results and reports."""
from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest

import hybrid.codegen
from hybrid import ir
from hybrid.ir import Program
from hybrid.runtime import cache, cpu, plans, recipe, shared_objects, toolchain

from ..programs import CASES, conv, inputs, normal
from ..codegen.test_compiler import check

pytestmark = pytest.mark.skipif(os.environ.get("HYBRID_CC") == "none"
                                or os.environ.get("HYBRID_DEVICE", "cpu") != "cpu",
                                reason="a matter of compiled CPU programs")


@pytest.fixture(autouse=True)
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes that are checked must run: the tests turn that on, these here turn it off."""
    monkeypatch.setenv("HYBRID_VERIFY", "0")
    monkeypatch.setenv("HYBRID_DEBUG", "0")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A disk cache of a test's own."""
    monkeypatch.setenv("HYBRID_CACHE", str(tmp_path))
    return tmp_path


def found(exe: cpu.CpuProgram) -> bool:
    """Whether a program came from the disk cache."""
    return exe._report is None


def copied(p: Program, frozen: frozenset[int] = frozenset()) -> Program:
    """The program as another process has it: nothing derived from it yet."""
    return Program(p.inputs, p.outputs, p.updates, {"frozen": frozen} if frozen else {})


def small() -> tuple[Program, list[np.ndarray]]:
    x, w, b = inputs(normal(1, 32, 12, 12), normal(32, 32, 3, 3), normal(32))
    return Program((x, w, b), (ir.map("relu", conv(x, w, b, 1)),)), [normal(1, 32, 12, 12), normal(32, 32, 3, 3),
                                                                     normal(32)]


# ---- found again
@pytest.mark.parametrize("name", CASES)
def test_a_program_of_the_cache_gives_the_same(name: str) -> None:
    program, arrays = CASES[name]
    cpu.compiled(copied(program))
    again = cpu.compiled(copied(program))
    assert found(again)
    check(again, program, arrays)


def test_prepared_values_come_from_the_cache_too(folder: Path) -> None:
    program, arrays = small()
    first, again = (cpu.compiled(copied(program, frozenset({1, 2}))) for _ in range(2))
    assert not found(first) and found(again) and again.prepare is not None and found(again.prepare)
    np.testing.assert_array_equal(first(arrays)[0], again(arrays)[0])
    bound = again.bind([1, 2], arrays[1:])
    assert bound is not None
    np.testing.assert_array_equal(bound(arrays[0])[0], first(arrays)[0])           # type: ignore[index]


def test_the_report_is_the_same(folder: Path) -> None:
    program, _ = small()
    first, again = (cpu.compiled(copied(program, frozenset({1, 2}))) for _ in range(2))
    assert found(again)
    one, two = (dataclasses.replace(e.report, compile_seconds=0.0) for e in (first, again))
    assert one == two and str(one) == str(two) and "void net(" in two.source and Path(two.source_path).is_file()
    assert not found(again) and again.report is again.report


NEXT = """
import sys
import numpy as np
import hybrid as mx
net = mx.gluon.nn.HybridSequential()
net.add(mx.gluon.nn.Conv2D(8, 3, in_channels=3, activation="relu"), mx.gluon.nn.Flatten(), mx.gluon.nn.Dense(4, in_units=288))
net.initialize(mx.init.One())
net.hybridize()
x = mx.nd.arange(3 * 64).reshape((1, 3, 8, 8))
print(net(x).asnumpy().tolist(), sorted(m for m in sys.modules if m in ("hybrid.codegen.c", "hybrid.runtime.build", "subprocess", "hybrid.codegen.printers.products.attention",
    "hybrid.codegen.printers.rows.cumulate", "hybrid.codegen.printers.cuda.pieces")))
"""  # noqa: E501


def start(folder: Path, **env: str) -> list[str]:
    settings = {**os.environ, "HYBRID_CACHE": str(folder), "HYBRID_VERIFY": "0", "HYBRID_DEBUG": "0", **env}
    run = subprocess.run([sys.executable, "-c", NEXT], env=settings, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    result, modules = run.stdout.strip().rsplit(" [", 1)
    return [result, modules]


def test_the_next_process_loads_neither_passes_nor_printers(tmp_path: Path) -> None:
    first, again = start(tmp_path), start(tmp_path)
    # nor does the first load printers that it has no use for
    assert first[1] == "'hybrid.codegen.c', 'hybrid.runtime.build']" and again == [first[0], "]"]
    # passes are checked: they run
    assert "hybrid.codegen.c" in start(tmp_path, HYBRID_VERIFY="1")[1]


# ---- damaged
def damages(whole: bytes) -> list[bytes]:
    flipped = [whole[:k] + bytes([whole[k] ^ 1]) + whole[k + 1:]
               for k in range(0, len(whole), max(len(whole) // 40, 1))]
    return [*(whole[:k] for k in range(0, len(whole), max(len(whole) // 20, 1))), *flipped, whole + b" ",
            b"\xff" * len(whole), b"[" * 100_000]


def test_damaged_recipes_are_made_again(folder: Path) -> None:
    program, arrays = CASES["softmax"]
    want = cpu.compiled(copied(program))(arrays)[0]
    path, = folder.glob("plan-*.txt")
    whole = path.read_bytes()
    for content in damages(whole):
        path.write_bytes(content)
        exe = cpu.compiled(copied(program))
        assert not found(exe), content[:80]
        np.testing.assert_array_equal(exe(arrays)[0], want)
        assert path.read_bytes() == whole


@pytest.mark.parametrize("size", (None, 0, 100, 5000, -1), ids=("absent", "empty", "head", "part", "one byte less"))
def test_damaged_libraries_are_made_again(folder: Path, size: int | None) -> None:
    program, arrays = CASES["softmax"]
    want = cpu.compiled(copied(program))(arrays)[0]
    so = folder / cpu.compiled(copied(program)).recipe.library
    whole = so.read_bytes()
    so.unlink()                                                  # a program that is running keeps its own
    if size is not None:
        so.write_bytes(whole[:size])
    exe = cpu.compiled(copied(program))
    assert not found(exe) and shared_objects.intact(so)
    np.testing.assert_array_equal(exe(arrays)[0], want)
    assert found(cpu.compiled(copied(program)))


def test_a_recipe_of_another_program_is_not_taken(folder: Path) -> None:
    (one, arrays), (two, _) = CASES["softmax"], CASES["layer norm"]
    cpu.compiled(copied(one))
    first, = folder.glob("plan-*.txt")
    cpu.compiled(copied(two))
    second, = set(folder.glob("plan-*.txt")) - {first}
    first.write_bytes(second.read_bytes())
    exe = cpu.compiled(copied(one))
    assert not found(exe)
    check(exe, one, arrays)


def test_a_folder_that_cannot_be_written_is_no_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> Any:
        raise OSError("no space left")
    program, arrays = CASES["softmax"]
    made = cpu.compiled(copied(program))
    for path in folder.glob("plan-*.txt"):
        path.unlink()
    monkeypatch.setattr(cache, "write", full)
    exe = cpu.compiled(copied(program))
    np.testing.assert_array_equal(exe(arrays)[0], made(arrays)[0])


# ---- keys
def chain(fn: str = "exp", value: Any = 1.5, shape: tuple[int, ...] = (3, 4), dtype: str = "float32",
          flipped: bool = False) -> Program:
    x, y = ir.input(0, shape, dtype), ir.input(1, shape, dtype)
    a, b = (y, x) if flipped else (x, y)
    return Program((x, y), (ir.map("sub", ir.map(fn, a), b * value),))


OTHERS: dict[str, Callable[[], Program]] = {
    "function": lambda: chain("tanh"), "constant": lambda: chain(value=1.5000000000000002),
    "sign of zero": lambda: chain(value=-0.0), "zero": lambda: chain(value=0.0),
    "shape": lambda: chain(shape=(4, 3)), "dtype": lambda: chain(dtype="float64"),
    "order of arguments": lambda: chain(flipped=True),
    "one more result": lambda: Program(chain().inputs, (*chain().outputs, *chain().outputs)),
    "update": lambda: Program(chain().inputs, (), ((0, chain().outputs[0]),)),
    "update of another": lambda: Program(chain().inputs, (), ((1, chain().outputs[0]),)),
    "unused input": lambda: Program((*chain().inputs, ir.input(2, (3,), "float32")), chain().outputs),
    "data": lambda: Program((), (ir.data(np.arange(3, dtype="int32")),)),
    "other data": lambda: Program((), (ir.data(np.arange(3, dtype="int32") + 1),)),
    "data of another dtype": lambda: Program((), (ir.data(np.arange(3, dtype="uint32")),)),
    "turned": lambda: Program(chain().inputs, (ir.permute(chain().inputs[0], (1, 0)),)),
}


def test_programs_that_differ_have_different_keys() -> None:
    programs = [chain(), *(make() for make in OTHERS.values()), *(p for p, _ in CASES.values())]
    texts = {plans.program_text(p) for p in programs}
    assert len(texts) == len({(p.inputs, p.outputs, p.updates) for p in programs})
    assert plans.program_text(chain()) == plans.program_text(chain())
    assert plans.key(chain(), frozenset()) != plans.key(chain(), frozenset({1}))


def test_what_is_no_plain_data_has_no_key() -> None:
    class Thing:
        pass
    with pytest.raises(TypeError, match="Thing has no text"):
        plans._text(Thing())


CHANGES: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "flags": lambda m: m.setattr(toolchain, "FLAGS", (*toolchain.FLAGS, "-g")),
    "vectors": lambda m: m.setattr(toolchain, "vector_bytes", lambda: 8),
    "environment": lambda m: m.setenv("HYBRID_TUNE", "0.25"),
    "compiler": lambda m: m.setattr(toolchain, "compiler_version", lambda cc: "another"),
    "processor": lambda m: m.setattr(toolchain, "cpu_features", lambda: "another"),
    "numpy": lambda m: m.setattr(np, "__version__", "another"),
    "own files": lambda m: m.setattr(plans, "own_files", lambda: "another"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_key_depends_on(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = plans.key(chain(), frozenset())
    toolchain.flags(str(toolchain.compiler()))                   # remembered, before the processor seems another one
    CHANGES[name](monkeypatch)
    plans._digest.cache_clear()
    after = plans.key(chain(), frozenset())
    plans._digest.cache_clear()
    assert before and after and before != after


def test_own_files_are_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def state() -> str:
        plans.own_files.cache_clear()
        return plans.own_files()
    monkeypatch.setattr(hybrid.codegen, "__path__", [str(tmp_path)])
    seen = [state()]
    (tmp_path / "c.py").write_text("1")
    seen.append(state())
    (tmp_path / "c.py").write_text("2")
    os.utime(tmp_path / "c.py", ns=(1, 1))
    seen.append(state())
    monkeypatch.setattr(hybrid.codegen, "__path__", [str(tmp_path / "none")])
    assert "" not in seen and len(set(seen)) == 3 and state() == ""
    plans.own_files.cache_clear()


@pytest.mark.parametrize("setting", ("HYBRID_VERIFY", "HYBRID_DEBUG"))
def test_passes_that_are_watched_run(setting: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cpu.compiled(chain())
    monkeypatch.setenv(setting, "1")
    assert plans.key(chain(), frozenset()) is None and not found(cpu.compiled(chain()))


# ---- the text
def test_recipes_parse_back(folder: Path) -> None:
    program, _ = small()
    made = cpu.compiled(copied(program, frozenset({1, 2}))).recipe
    again = recipe.from_text(recipe.to_text(made))
    assert (recipe.to_text(again) == recipe.to_text(made) and again.inputs == made.inputs
            and again.prepare.inputs == made.prepare.inputs)       # type: ignore[union-attr]


BAD: dict[str, dict[str, Any]] = {
    "library": {"library": "../x.so"}, "no library": {"library": "x.txt"}, "shape": {"inputs": [[[-1], "<f4"]]},
    "dtype": {"fresh": [[[1], "nonsense"]]},
    "place": {"results": [[99, [1]]]}, "slot": {"updates": [[9, 0, [1]]]}, "size": {"arena_bytes": -1},
    "text": {"arena_bytes": "1"}, "object": {"constants": [[[1], "O", ""]]},
    "written": {"written": [7]}, "none": {"inputs": None}, "given": {"given": 8},
}


@pytest.mark.parametrize("name", BAD)
def test_texts_that_are_no_recipes(name: str, folder: Path) -> None:
    good = json.loads(recipe.to_text(cpu.compiled(chain()).recipe))
    with pytest.raises(ValueError):
        recipe.from_text(json.dumps({**good, **BAD[name]}))
