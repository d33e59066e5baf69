"""The numbers among the arguments of one trace that are to be inputs of its program: their variables, and what the code
did with them."""
from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import Any, Callable, Iterator

import numpy as np

from ..base import dtype as dt
from ..base.errors import DeferredInitializationError
from ..base.scope import SCOPE
from ..buffers.array import wrap
from ..graph.traced_number import NumberTrace, is_real
from .number_arguments import GivenNumbers, LookedAt, NotWithInputs, NumberInputs, OtherInputs, paths_of, replaced


class NumbersOfTrace:
    """Those of one trace. wanted: the places and dtypes of its inputs among all numbers that the code computes."""

    def __init__(self, trace: Any, given: GivenNumbers, wanted: tuple[tuple[int, np.dtype], ...]):
        self._trace, self._given, self._wanted = trace, given, wanted
        self._planned: dict[int, Any] = {}
        self._of = NumberTrace(given.values, self._variable)
        self._structure: Any = None

    def make_variables(self) -> None:
        """Make the variables of the inputs, which come after those of the arrays."""
        for at, dtype in self._wanted:
            self._planned[at] = self._trace.variable(f"number{at}", None, (), dtype)
            self._trace.given.append(wrap(np.zeros((), dtype), self._trace.ctx))

    def _variable(self, at: int, dtype: np.dtype) -> Any:
        found = self._planned.get(at)
        return found if found is not None and found.dtype == dtype else self._trace.variable(
            f"number{at}", None, (), dtype)

    def put_into(self, structure: Any) -> Any:
        """A call's structure with traced numbers in the place of those that are inputs."""
        self._structure = structure
        at = {p: i for i, p in enumerate(self._given.places)}
        return replaced(structure, lambda place, node: ("value", node[1], self._of.numbers[at[place]]) if place in at
                        else node) if at else structure

    @contextmanager
    def watched(self, line: Callable[[], str]) -> Iterator[None]:
        """Scope in which the code runs. NotWithInputs in the place of an error."""
        was = SCOPE.numbers
        if not self._given.places:
            SCOPE.numbers = self._trace.symbolic             # sizes become numbers
            try:
                yield
            finally:
                SCOPE.numbers = was
                self._put_back()
            return
        before = self._references()
        SCOPE.numbers = True
        try:
            yield
        except DeferredInitializationError:
            raise
        except Exception as err:
            raise NotWithInputs(f"{line()}: the code raises {type(err).__name__} when it is an input") from err
        finally:
            SCOPE.numbers = was
            self._put_back()
        for i, (a, b) in enumerate(zip(before, self._references())):
            if b > a:
                self._of.looked.setdefault(i, f"{line()}: the code keeps or returns it")
        for bases in self._of.kept():
            for i in bases:
                self._of.looked.setdefault(i, f"{line()}: the code keeps or returns what it computes from it")

    def _put_back(self) -> None:
        while self._trace.put_back:
            self._trace.put_back.pop()()

    def _references(self) -> list[int]:
        return [sys.getrefcount(x) for x in self._of.numbers]

    def settle(self) -> None:
        """LookedAt where the code looked at numbers, OtherInputs where it needs more inputs than there are."""
        if self._of.looked:
            raise LookedAt(dict(self._of.looked))
        if not self._of.inputs.keys() <= self._planned.keys():
            raise OtherInputs(tuple((k, dt.float64 if is_real(type(self._of.values[k])) else dt.int64)
                                    for k in sorted(self._of.inputs)))

    def inputs(self) -> NumberInputs | None:
        """What later calls give the program; None where no number is an input."""
        if not self._given.places:
            return None
        return NumberInputs(self._of, [at for at, _ in self._wanted], paths_of(self._structure, self._given.places))
