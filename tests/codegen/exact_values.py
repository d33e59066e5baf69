"""Compiled CPU programs beside the same primitives in float64."""
from __future__ import annotations

from typing import Sequence

import numpy as np
import pytest

from hybrid import ir
from hybrid.ir import Node, Program
from hybrid.runtime import cpu, reference
from hybrid.runtime import threads as threads_of
from hybrid.runtime.cpu import CpuProgram


def exact(p: Program, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Results of the same program on float64."""
    wide = {leaf: ir.input(i, leaf.shape, np.float64) for i, leaf in enumerate(p.inputs)}
    new: dict[Node, Node] = {}
    for n in p.order():
        new[n] = wide[n] if n in wide else ir.const(n.attrs["value"],
                                                    np.float64) if n.prim == "const" else ir.make(n.prim,
                tuple(new[a] for a in n.args), **n.attrs)
    q = Program(tuple(wide.values()), tuple(new[o] for o in p.outputs))
    return reference.run(q, [a.astype(np.float64) for a in arrays], np)[0]


def compare(got: list[np.ndarray], want: list[np.ndarray]) -> None:
    for k, (a, b) in enumerate(zip(got, want, strict=True)):
        assert np.abs(a - b).max() <= 1e-5 * np.abs(b).max(), f"output {k}: {np.abs(a - b).max() / np.abs(b).max()}"


def checked(p: Program, arrays: list[np.ndarray], monkeypatch: pytest.MonkeyPatch,
            threads: Sequence[str] = ("1", "2")) -> CpuProgram:
    """A program, compiled; its results are right with each number of threads."""
    exe, want = cpu.compiled(p), exact(p, arrays)
    for count in threads:
        monkeypatch.setenv("HYBRID_NUM_THREADS", count)
        threads_of.share(exe._lib)
        compare(exe(arrays), want)
    return exe
