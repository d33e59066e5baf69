"""Programs for any size that are compiled in the background: by a process, or by a thread."""
from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Callable, Iterator, Sequence

import numpy
import pytest

import hybrid as mx
from hybrid import autograd, nd
from hybrid.ir.asked import Asked
from hybrid.ir.text import from_text, to_text
from hybrid.jit import trace
from hybrid.runtime import background, cache, coming, plans

pytestmark = pytest.mark.skipif(os.environ.get("HYBRID_CC") == "none", reason="needs a compiler")


@pytest.fixture(autouse=True)
def in_background(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Programs are compiled in the background, in an empty cache."""
    for name, value in {"HYBRID_CACHE": str(tmp_path / "cache"), "HYBRID_COMPILE": "background", "HYBRID_VERIFY": "0",
                        "HYBRID_DEBUG": "0"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("HYBRID_WARM", raising=False)
    background.shut_down()
    yield
    coming._waiting.clear()
    while coming._builder:                               # with the last one that it began
        time.sleep(0.01)
    background.shut_down()


def rows(x: Any) -> Any:
    """Rows that sum to one, without the mean row."""
    y = nd.softmax(x * 3 + 1)
    return y - y.sum(axis=0, keepdims=True) / x.shape[0]


def checked(f: Any, *counts: int) -> None:
    """Calls with so many rows give what plain Python gives."""
    for n in counts:
        x = nd.array(numpy.random.RandomState(n).randn(n, 9))
        numpy.testing.assert_allclose(f(x).asnumpy(), rows(x).asnumpy(), rtol=1e-5, atol=1e-6)


def until_compiled(f: Any, call: Callable[[], Any]) -> Any:
    """The program for any size, once calls have it."""
    end = time.monotonic() + 60
    while True:
        found = [p for p in f.programs if "n0" in p.sizes[0]]
        if found and found[0].state == "compiled":
            return found[0]
        assert time.monotonic() < end, f.programs
        call()


def test_a_process_builds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def here(self: Any) -> Any:
        raise AssertionError("a thread builds it")
    monkeypatch.setattr(coming.ComingSized, "_here", here)
    f = mx.hybridize(rows)
    checked(f, 4, 5, 7, 8, 8, 8, 8, 8)
    info = until_compiled(f, lambda: checked(f, 6, 11))
    assert (info.waited, info.background) == (0, 1)
    checked(f, 3, 8, 200, 6)
    assert len(f.programs) <= 3


def test_a_later_process_knows_which_sizes_vary(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call of one row is traced, as always; the next one has the program for any size, and that one alone."""
    first = mx.hybridize(rows)
    checked(first, 1, 4, 5, 7)
    assert [p.sizes[0] for p in first.programs] == ["float32[4, 9]", "float32[n0, 9]"]     # 1 was plain Python
    notes = [*cache.folder().glob("sizes-*.txt")]
    assert len(notes) == 1
    later = mx.hybridize(rows)
    checked(later, 1, 1, 6, 9)
    assert [p.sizes[0] for p in later.programs] == ["float32[1, 9]", "float32[n0, 9]"]
    for text in (b"", b"{}", b"[[[3]]]", b"[[[\"x\", 1]]]", b"[[3]]", b"[[[1e999, 1]]]", b"7"):  # damaged or misfit
        notes[0].write_bytes(text)
        other = mx.hybridize(rows)
        checked(other, 1, 1, 6, 9)
        assert [p.sizes[0] for p in other.programs] == ["float32[1, 9]", "float32[6, 9]", "float32[n0, 9]"], text
    monkeypatch.setenv("HYBRID_COMPILE", "now")                  # the same programs whatever was noted
    notes[0].write_text("[[[2, 9]], [[3, 9]]]")
    same = mx.hybridize(rows)
    checked(same, 1, 6)
    assert [p.sizes[0] for p in same.programs] == ["float32[1, 9]", "float32[6, 9]"]


def test_a_note_serves_networks_of_other_sizes() -> None:
    """Networks of the same code share a note, which says only which sizes vary. What varies later is noted, too."""
    rng = numpy.random.default_rng(0)

    def programs(features: int, calls: Sequence[tuple[int, int]]) -> list[str]:
        net = mx.gluon.nn.HybridSequential()
        net.add(mx.gluon.nn.Dense(3, flatten=False), mx.gluon.nn.Activation("relu"))
        net.initialize()
        net.hybridize()
        for size in calls:
            x = nd.array(rng.standard_normal((*size, features)))
            got = net(x).asnumpy()
            wanted = numpy.maximum(x.asnumpy() @ net[0].weight.data().asnumpy().T, 0)
            numpy.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
        return [p.sizes[0] for p in net.programs]
    assert programs(9, [(4, 7), (4, 7), (5, 7)]) == ["float32[4, 7, 9]", "float32[n0, 7, 9]"]
    assert programs(20, [(4, 6), (4, 6), (6, 6)]) == ["float32[4, 6, 20]", "float32[n0, 6, 20]"]
    assert programs(20, [(4, 6), (4, 6), (4, 8), (8, 9)])[-1] == "float32[n0, n1, 20]"
    assert programs(11, [(1, 1), (1, 1), (8, 9)]) == ["float32[1, 1, 11]", "float32[n0, n1, 11]"]


def test_a_thread_builds_it_where_processes_have_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "MAX_QUEUE_WAIT", 0.05)
    taken: list[Any] = []
    monkeypatch.setattr(background.Queue, "take", lambda self: taken.append(self) or time.sleep(0.01))
    f = mx.hybridize(rows)
    checked(f, 4, 5, 7, 8)
    assert until_compiled(f, lambda: checked(f, 6, 11)).background == 1 and taken
    checked(f, 3, 8, 200, 6)


def test_sizes_that_come_seldom_run_as_plain_python_until_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coming.ComingSized, "is_ripe", lambda self: False)           # it never is
    ran: list[Any] = []
    monkeypatch.setattr(trace, "call_uncompiled", lambda job, call: ran.append(call()) or ran[-1])
    f = mx.hybridize(rows)
    checked(f, 4, 5, 7)
    ran.clear()
    checked(f, 9, 10, 9, 9, 9, 9)
    assert [len(x) for x in ran] == [9, 10, 9, 9]        # then by what is compiled without it


def test_gradients_of_sizes_until_it_is_there() -> None:
    f = mx.hybridize(rows)
    for n in (4, 5, 7, 7, 8):
        x, z = (nd.array(numpy.random.RandomState(n).randn(n, 9)) for _ in range(2))
        for way, a in ((f, x), (rows, z)):
            a.attach_grad()
            with autograd.record():
                y = (way(a) * a).sum()
            y.backward()
        numpy.testing.assert_allclose(x.grad.asnumpy(), z.grad.asnumpy(), rtol=1e-4, atol=1e-5)


def test_text_of_a_program_for_any_size_parses_back() -> None:
    f = mx.hybridize(lambda x, y: nd.concat(rows(x), y.sum(axis=1, keepdims=True) * x[:1], dim=0).reshape((-1,)))
    for n, m in ((4, 5), (6, 7), (8, 3)):
        f(nd.ones((n, 9)), nd.ones((m, 9)))
    program = next(e.family.entry.program for e in f._engine.entries.values() if e.family is not None)
    with Asked().answering(False):
        again = from_text(to_text(program))
    assert to_text(again) == to_text(program) and "dim n0" in to_text(program)
    assert plans.program_text(again) == plans.program_text(program)
