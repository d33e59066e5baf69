"""Choice by measurement: results do not depend on the winner, the disk cache remembers it, nothing is measured when it
must not be."""
from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any, Mapping

import numpy as np
import pytest

from hybrid import ir, nd
from hybrid.codegen.schedule import convolution
from hybrid.base.errors import CompileError
from hybrid.gluon import nn
from hybrid.ir import Program
from hybrid.passes.differentiate import vjp_program
from hybrid.runtime import background, build, cache, tune, worker
from hybrid.runtime.cpu import CpuProgram, has_compiler

from ..cpu_kernels import conv, random
from ..codegen.exact_values import compare, exact

pytestmark = pytest.mark.skipif(not has_compiler(), reason="needs a compiler")
FORMS = ("direct", "winograd", "winograd4")
RULE = "winograd4"                       # of network()


@pytest.fixture(autouse=True)
def measuring(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A process that has measured nothing yet, with a cache of its own."""
    monkeypatch.setenv("HYBRID_TUNE", "60")
    monkeypatch.setenv("HYBRID_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tune, "_known", {})
    monkeypatch.setattr(tune, "_spent", [0.0])
    monkeypatch.setattr(tune, "LEAST_WORK", 1)


def network() -> tuple[Program, list[np.ndarray]]:
    """A convolution that may have either form."""
    arrays = [random(1, 32, 18, 18), random(32, 32, 3, 3)]
    leaves = tuple(ir.input(i, a.shape, a.dtype) for i, a in enumerate(arrays))
    return Program(leaves, (ir.map("relu", conv(leaves[0], leaves[1], 1)),)), arrays


def form_of(p: Program) -> str:
    """The form that is planned."""
    notes = [n for n in build.planned(p, frozenset({1})).notes if "channels last" in n]
    if not notes:
        pytest.skip("vectors are too short for packed convolutions here")
    return next(f for f in FORMS if f"channels last, {f}," in notes[0])


def as_measured(monkeypatch: pytest.MonkeyPatch, seconds: Mapping[str, float]) -> list[int]:
    """Let the forms have taken so many seconds; the list grows with each measurement."""
    counted: list[int] = []

    def times(calls: Mapping[str, Any]) -> dict[str, float]:
        counted.append(len(calls))
        return {form: seconds.get(form, 3.0) for form in calls}
    monkeypatch.setattr(tune, "_times", times)
    return counted


@pytest.mark.parametrize("winner", FORMS)
def test_results_do_not_depend_on_the_winner(winner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    as_measured(monkeypatch, {form: 1.0 if form == winner else 2.0 for form in FORMS})
    p, arrays = network()
    assert form_of(p) == winner
    compare(CpuProgram(build.planned(p, frozenset({1})))(arrays), exact(p, arrays))


SHAPES = {"short_lines": ((3, 8, 11, 7), (16, 8, 3, 3), 1, 1), "one_channel": ((5, 1, 19, 23), (13, 1, 5, 5), 0, 1),
          "strided": ((2, 9, 13, 17), (10, 9, 3, 3), 1, 2),
          "wide": ((1, 4, 6, 65), (17, 4, 3, 3), 1, 1)}


@pytest.mark.parametrize("winner", ["pixels in lanes", "channels in lanes", "shift-and-add", "gathered windows"])
@pytest.mark.parametrize("shape", SHAPES)
def test_forms_of_unpacked_convolutions(shape: str, winner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Training's: whatever form is fastest, values and gradients are right; what cannot be printed is no candidate."""
    monkeypatch.setattr(convolution, "NEAR", 1e9)
    measured: list[set[str]] = []

    def times(calls: Mapping[str, Any]) -> dict[str, float]:
        for call in calls.values():
            call()
        measured.append(set(calls))
        return {form: 1.0 if form == winner else 2.0 for form in calls}
    monkeypatch.setattr(tune, "_times", times)
    x, w, pad, stride = SHAPES[shape]
    arrays = [random(*x), random(*w)]
    leaves = tuple(ir.input(i, a.shape, a.dtype) for i, a in enumerate(arrays))
    forward = Program(leaves, (ir.map("relu", conv(*leaves, pad, stride)),))
    compare(CpuProgram(build.planned(forward, frozenset()))(arrays), exact(forward, arrays))
    back = vjp_program(forward, (0, 1))
    arrays.append(random(*forward.outputs[0].shape))
    compare(CpuProgram(build.planned(back, frozenset()))(arrays), exact(back, arrays))
    assert measured and all({"pixels in lanes", "gathered windows"} & forms and len(forms) > 1 for forms in measured)


def test_it_is_really_measured() -> None:
    p, _ = network()
    form_of(p)
    (form, why), = tune._known.values()
    assert form in FORMS and all(f"{f} " in why and " ms" in why for f in FORMS)
    assert why in str(build.planned(p, frozenset({1})).notes)
    assert 0 < tune._spent[0] < 60


def test_the_next_process_does_not_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = as_measured(monkeypatch, {"direct": 1.0, "winograd": 2.0})
    p, _ = network()
    assert form_of(p) == "direct"
    as_measured(monkeypatch, {"direct": 2.0, "winograd": 1.0})
    assert form_of(p) == "direct"
    monkeypatch.setattr(tune, "_known", {})
    assert form_of(p) == "direct" and counted == [len(FORMS)]


@pytest.mark.parametrize("content", ["", "x", "x\ny\nz", "wrong\nwinograd\nmeasured: never", "\x00\xff"],
                         ids=["empty", "word", "lines", "wrong_check", "binary"])
def test_a_damaged_file_is_measured_again(content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    as_measured(monkeypatch, {"direct": 1.0, "winograd": 2.0})
    p, _ = network()
    assert form_of(p) == "direct"
    (path,) = cache.folder().glob("choice-*.txt")
    path.write_text(content, "latin-1")
    monkeypatch.setattr(tune, "_known", {})
    counted = as_measured(monkeypatch, {"direct": 1.0, "winograd": 2.0})
    assert form_of(p) == "direct" and counted == [len(FORMS)]


def test_a_file_of_another_form_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune, "_measured", lambda rule, forms: ("magic", "measured: never"))
    forms: dict[str, Any] = dict.fromkeys(FORMS)
    assert tune.choose("direct", "a choice", forms, 1)[0] == "magic"
    (path,) = cache.folder().glob("choice-*.txt")
    name = path.stem.removeprefix("choice-")
    assert tune._read(name, forms) is None and tune._read(name,
                                                          {**forms,
                                                           "magic": None}) == ("magic",
            "measured: never")      # type: ignore[dict-item]


def test_a_cache_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("HYBRID_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(cache, "_fallback", [])
    as_measured(monkeypatch, {"direct": 1.0, "winograd": 2.0})
    p, arrays = network()
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        assert form_of(p) == "direct"
    compare(CpuProgram(build.planned(p, frozenset({1})))(arrays), exact(p, arrays))


@pytest.mark.parametrize("why", ["HYBRID_TUNE", "small", "budget"])
def test_nothing_is_measured(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And then the choice is the rule's, also where the cache says otherwise."""
    p, _ = network()
    as_measured(monkeypatch, {"direct": 1.0, "winograd": 2.0})
    if why != "budget":
        assert form_of(p) == "direct"
    counted = as_measured(monkeypatch, {"direct": 1.0, "winograd": 2.0})
    monkeypatch.setattr(tune, "_known", {})
    if why == "HYBRID_TUNE":
        monkeypatch.setenv("HYBRID_TUNE", "0")
    elif why == "small":
        monkeypatch.setattr(tune, "LEAST_WORK", 1 << 60)
    else:
        monkeypatch.setattr(tune, "_spent", [60.0])
    assert form_of(p) == RULE and counted == []
    sources = {CpuProgram(build.planned(p, frozenset({1}))).report.source for _ in range(2)}
    assert len(sources) == 1


@pytest.mark.parametrize("direct, form", [(0.97, RULE), (0.9, "direct")], ids=["a_little", "clearly"])
def test_another_form_must_be_clearly_faster(direct: float, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    as_measured(monkeypatch, {"direct": direct, RULE: 1.0})
    assert form_of(network()[0]) == form


def test_a_form_that_does_not_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> None:
        raise CompileError("no")
    monkeypatch.setattr(tune, "_call", refuse)
    assert form_of(network()[0]) == RULE
    assert not list(cache.folder().glob("choice-*.txt"))


def test_threads_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that measure at once may find different winners; both take the first one's."""
    turn = iter([{"direct": 1.0, "winograd": 2.0}, {"direct": 2.0, "winograd": 1.0}])
    begin = threading.Barrier(2)

    def times(calls: Mapping[str, Any]) -> dict[str, float]:
        begin.wait(60)
        return {**dict.fromkeys(calls, 3.0), **next(turn)}
    monkeypatch.setattr(tune, "_times", times)
    p, _ = network()
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(form_of(p))) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 2 and found[0] == found[1]


def test_in_the_background_nobody_waits_for_measurements(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in {"HYBRID_CACHE": str(tmp_path), "HYBRID_COMPILE": "background", "HYBRID_TUNE": "0.5",
                        "HYBRID_VERIFY": "0", "HYBRID_DEBUG": "0"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("HYBRID_WARM", raising=False)
    background.shut_down()
    net = nn.Conv2D(64, 3, padding=1, in_channels=64)
    net.initialize()
    net.hybridize()
    x, end = nd.ones((1, 64, 32, 32)), time.monotonic() + 100
    try:
        while not net.programs or net.programs[0].state != "compiled":
            net(x)
            assert time.monotonic() < end
        assert not [*tmp_path.glob("choice-*.txt")]
        plan, = tmp_path.glob("plan-*.txt")
        while not [*tmp_path.glob("choice-*.txt")] or [*tmp_path.glob(worker.PENDING_TUNE)]:
            time.sleep(0.05)
            assert time.monotonic() < end
        assert plan.exists()
    finally:
        background.shut_down()
