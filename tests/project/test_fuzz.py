"""Some random programs of a fixed seed, and the fuzzer's own parts: its oracle sees what differs, its minimiser keeps
it."""
from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from typing import Any

import numpy as onp
import pytest

import hybrid as mx
from hybrid import nd

from ..fuzz import loops, minimise, oracle
from ..fuzz.__main__ import programs
from ..fuzz.program import Input, Program, call, plain

X = Input("x0", (3, 4), "float32", "normal", 1)
TWO = Program((X, Input("x1", (4,), "float32", "ties", 2)),
              ("v0 = x0 * 2", "v1 = nd.exp(v0)", "v2 = v1 + x0", "v3 = v2.sum(axis=0)"), ("v3", "v1"))


@pytest.mark.parametrize("kind,count", [("graph", 8), ("casts", 8), ("network", 8), ("sized", 2)])
def test_random_programs(kind: str, count: int) -> None:
    for k, program in programs(20, (kind,)):
        if k == count:
            break
        found = oracle.fault(program)
        assert not found, f"{found}\n{minimise.smaller(program).alone()}"


def test_random_loops() -> None:
    """Some of them join their iterations, so that it is known to be tried."""
    before = loops.JOINED[1]
    for k, one in programs(20, ("loop",)):
        if k == 5:
            break
        found = loops.fault(one)
        assert not found, f"{found}\n{loops.smaller(one).alone()}"
    assert loops.JOINED[1] > before


def test_a_loop_that_differs_is_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    run = loops.run

    def broken(given: loops.Loop, on: bool, joined: bool, folder: str) -> Any:
        seen, ended, rounds = run(given, on, joined, folder)
        return [v * 2 for v in seen] if joined and "momentum" in given.alone() else seen, ended, rounds
    monkeypatch.setattr(loops, "run", broken)
    one = next(p for _, p in programs(1, ("loop",)) if "momentum" in p.alone())
    assert "value" in loops.fault(one)
    assert len(loops.smaller(one, 20).body) < len(one.body)


def test_the_command_runs_compiled_programs() -> None:
    """It once compared eager with eager, where programs are compiled in the background."""
    env = {k: v for k, v in os.environ.items() if k != "HYBRID_COMPILE"}
    done = subprocess.run([sys.executable, "-m", "tests.fuzz", "-n", "3", "--seed", "1", "--kind", "network"], env=env,
                          capture_output=True, text=True, check=True)
    assert "3 programs, 0 bad, 3 ran compiled" in done.stdout


def test_a_program_of_a_seed_is_always_the_same() -> None:
    first, second = (next(p for k, p in programs(3) if k == 2) for _ in range(2))
    assert first == second


def test_a_difference_is_seen_and_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(fn):
        def f(*args):
            return tuple(v * 1.001 if "exp" in TEXT else v for v in fn(*args))
        return f
    monkeypatch.setattr(mx, "hybridize", broken)
    TEXT = "exp"
    found = oracle.fault(TWO)
    assert "call 0: result 0" in found
    small = minimise.smaller(TWO)
    assert len(small.statements) <= 1 and len(small.inputs) == 1 and small.inputs[0].shape == (1, 1)


def test_excess_precision_is_no_difference() -> None:
    """A chain of halves that is computed in float32 between its ends stays within roundings of halves; a lost factor
    does not."""
    x = dataclasses.replace(X, dtype="float16")
    program = Program((x,), ("v0 = x0 * 3", "v1 = v0 - x0 * 2", "v2 = v1 - x0 * 0.5"), ("v2",))
    given = x.make()
    eager = (given * 3 - given * 2 - given * 0.5).asnumpy()
    exact = (given.asnumpy().astype("float32") * 0.5).astype("float16")
    assert not oracle._differ(program, [eager], [exact], 0)
    assert oracle._differ(program, [eager], [(exact * 1.25).astype("float16")], 0)


def test_gradients_that_cancel_where_an_array_is_used_twice_are_no_better_known_than_these() -> None:
    program = Program((dataclasses.replace(X, kind="ties"),),
                      ("v0 = x0 - x0", "v1 = v0 * 1000", "v2 = nd.square(x0) * 0.3", "v3 = v1 + v2"), ("v3",), True)
    eager = call(program, plain(program), None)
    for off, differs in ((1e-5, False), (1e-2, True)):
        got = [eager[0], eager[1] * onp.float32(1 + off)]
        assert bool(oracle._differ(program, eager, got, 0)) == differs


def test_a_printed_program_runs_alone() -> None:
    several = dataclasses.replace(TWO, rows=(3, 0, 5))
    for program in (several, dataclasses.replace(TWO, gradient=True), next(p for _, p in programs(1, ("network",)))):
        done = subprocess.run([sys.executable, "-c", program.alone()], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("\n") > 1


def test_inputs_of_all_kinds() -> None:
    for kind in ("normal", "ties", "odd"):
        made = dataclasses.replace(X, kind=kind).make(rows=7)
        assert made.shape == (7, 4) and isinstance(made, nd.NDArray) and made.dtype == onp.float32
