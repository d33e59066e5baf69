"""Scope in which products of float32 with parameters are made as products whose operands may be rounded to bfloat16;
their gradients, which follow from them (vjp.py), may too."""
from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import Container, Iterator

import numpy as np

from .node import Node


class _Now(threading.local):
    parameters: "Parameters | None" = None


_now = _Now()


class Parameters:
    """Called with a value: True where parameters are the only inputs that it depends on, False where it depends on
    others too or is random, None where it depends on none."""

    def __init__(self, slots: Container[int]):
        self._slots = slots
        self._known: dict[Node, bool | None] = {}

    def __call__(self, n: Node) -> bool | None:
        waiting = [n]
        while waiting:
            m = waiting[-1]
            left = [a for a in m.args if a not in self._known]
            if left and m not in self._known:
                waiting += left
                continue
            waiting.pop()
            if m not in self._known:
                self._known[m] = m.attrs["slot"] in self._slots if m.prim == "input" else self._of(m)
        return self._known[n]

    def _of(self, n: Node) -> bool | None:
        found = {False} if n.prim == "random_bits" else {self._known[a] for a in n.args}
        return False if False in found else True if True in found else None


@contextmanager
def rounding(slots: Container[int]) -> Iterator[None]:
    """Scope in which products with parameters may round their operands. slots: of the parameters among the program's
    inputs."""
    before, _now.parameters = _now.parameters, Parameters(slots)
    try:
        yield
    finally:
        _now.parameters = before


def may_round(a: Node, b: Node) -> bool:
    """Whether the operands of a product may be rounded: one of them is of parameters, the other is not."""
    of = _now.parameters
    return of is not None and a.dtype == b.dtype == np.float32 and {of(a), of(b)} == {True, False}
