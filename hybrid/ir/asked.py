"""The guards of a program with symbolic sizes: what was asked of its sizes while it was made, and the answers."""
from __future__ import annotations

from contextlib import contextmanager
from typing import Iterator, Mapping

from ..base.errors import user_location
from .dimension import ASKED
from .size import Atom, Size, Specialised, answering


class Asked:
    """The guards of one symbolic trace, or of what was made of it: (comparison, expression) -> (answer, the user's
    line)."""

    def __init__(self) -> None:
        self.facts: dict[tuple[str, Size], tuple[bool, str]] = {}
        self._least: dict[Atom, int] = {}                # of atoms, as far as guards say
        # whether the user's code ran to its end: what failed came after it, and other sizes would fail too
        self.ran = False

    def answer(self, kind: str, x: Size, at_trace: bool) -> bool:
        """The answer at the trace, recorded as a guard. Specialised: an equality that holds, since it would fix the
        size. Passes and printers go by what is equal for all sizes: they hear that others are not, and that is no
        guard."""
        if kind == "==" and not ASKED.traced:
            return False
        if kind == "==" and at_trace:
            raise Specialised(f"{user_location()}: the code needs {x.c_text()} == 0")
        if kind == "<":
            self._note_least(x, at_trace)
        return self.facts.setdefault((kind, x), (at_trace, user_location()))[0]

    def _note_least(self, x: Size, negative: bool) -> None:
        """If x is a + c or c - a for one atom a, note the least value of a that the answer to ``x < 0`` implies; later
        proofs use it."""
        (atoms, c), *rest = x.terms
        if len(atoms) == 1 and c == (-1 if negative else 1) and (not rest or len(rest) == 1 and not rest[0][0]):
            more = rest[0][1] if rest else 0
            least = more + 1 if negative else -more
            self._least[atoms[0]] = max(least, self._least.get(atoms[0], least))

    def hold(self, values: Mapping[str, int]) -> bool:
        """Whether a call with these values passes all guards."""
        return all((x.value(values) == 0 if kind == "==" else x.value(values) < 0) == answer
                   for (kind, x), (answer, _) in self.facts.items())

    def lines(self) -> list[str]:
        """The guards as text, for ``programs``."""
        return [f"{'' if answer else 'not '}{x.c_text()} {kind} 0 ({at})"
                for (kind, x), (answer, at) in self.facts.items()]

    @contextmanager
    def answering(self, traced: bool) -> Iterator[None]:
        """Scope in which comparisons are answered and recorded so. traced: whether the user's code runs."""
        with answering(self.answer, traced, self._least):
            yield
        self.ran |= traced
