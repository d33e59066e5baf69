"""Numbers among the arguments of hybridized calls: constants of a program, until they have changed twice.

A number is a constant first, and another number another program. One that has changed twice becomes an input where the
code allows it (graph/traced_number.py): then one program serves all its values. Where the code looks at the number, it
stays a constant, and that is remembered for this kind of call: the same nesting of arguments.
"""
from __future__ import annotations

from typing import Any, Callable, Sequence

import numpy as np

from ..base import dtype as dt
from ..base.device import Context
from ..base.errors import TraceError
from ..base.pytree import LEAF
from ..buffers.array import NDArray, wrap
from ..buffers.moving import move
from ..graph.traced_number import NumberTrace, is_real
from .compile_policy import REMEMBERED

CHANGES = 2                            # of a number, after which it may become an input
_CLASSES = (float, int)
Replace = Callable[[int, Any], Any]


class LookedAt(TraceError):
    """Traced code looked at numbers that were to be inputs, or keeps them: they are constants. ``why``: by place among
    those."""

    def __init__(self, why: dict[int, str]):
        super().__init__("; ".join(why.values()))
        self.why = why


class NotWithInputs(TraceError):
    """An error of traced code some of whose numbers are inputs: without them it may be another one, or none."""


class OtherInputs(TraceError):
    """Numbers that are computed from the arguments are inputs too: the code is traced again with them. ``wanted``: the
    places and dtypes of all that are."""

    def __init__(self, wanted: tuple[tuple[int, np.dtype], ...]):
        super().__init__("other numbers are inputs")
        self.wanted = wanted


def _is_number(structure: Any) -> bool:
    return bool(structure[0] == "value") and (structure[1] in _CLASSES
                                              or issubclass(structure[1], (np.floating, np.integer)))


def replaced(structure: Any, change: Replace) -> Any:
    """A structure (base/pytree.py) with what ``change(place, node)`` gives in the place of each number's node; numbers
    are counted in their order."""
    count = [0]

    def walk(s: Any) -> Any:
        if s == LEAF or s[0] == "object":
            return s
        if s[0] == "value":
            if not _is_number(s):
                return s
            count[0] += 1
            return change(count[0] - 1, s)
        if s[0] == "dict":
            return (s[0], tuple((k, walk(v)) for k, v in s[1]), *s[2:])
        return (s[0], tuple(map(walk, s[1])), *s[2:])
    return walk(structure)


def _open(node: Any) -> Any:
    """What stands in a signature for a number that is an input: its class alone."""
    return ("number", node[1])


class Kind:
    """What is known of the numbers in calls of one kind."""

    def __init__(self, structure: Any, count: int):
        self.labels = labels_of(structure)
        self.seen: list[set[str]] = [set() for _ in range(count)]
        self.inputs: frozenset[int] = frozenset()
        self.constants: dict[int, str] = {}              # why and where the code looked at them
        self.never = False                               # its programs are right for one call alone


class GivenNumbers:
    """The numbers of one call that are inputs. places: theirs among all numbers of the call."""

    def __init__(self, places: tuple[int, ...], values: list[Any]):
        self.places, self.values = places, values
        self._ready: list[Any] | None = None             # what the program is given

    def fit(self, inputs: "NumberInputs") -> bool:
        """Whether a program is the one for these numbers."""
        self._ready = inputs.values(self.values)
        return self._ready is not None

    def arrays(self, inputs: "NumberInputs", ctx: Context) -> list[NDArray]:
        """The inputs of a program that fits."""
        assert self._ready is not None
        return inputs.arrays(self._ready, ctx)

    def first(self) -> tuple[tuple[int, np.dtype], ...]:
        """Places and dtypes of the inputs where the code uses the numbers as they are."""
        return tuple((i, dt.float64 if is_real(type(v)) else dt.int64) for i, v in enumerate(self.values))


NO_NUMBERS = GivenNumbers((), [])


class NumberArguments:
    """What one hybridized function knows of the numbers among its arguments."""

    def __init__(self) -> None:
        self._kinds: dict[Any, Kind] = {}
        self._some = False                               # whether any number is an input

    def of(self, structure: Any) -> tuple[Any, GivenNumbers]:
        """A call's structure as signatures have it, and its numbers that are inputs."""
        if not self._some:
            return structure, NO_NUMBERS
        numbers: list[Any] = []
        known = self._kinds.get(_kind(structure, numbers))
        if known is None or not known.inputs:
            return structure, NO_NUMBERS
        places = tuple(sorted(known.inputs))
        return (replaced(structure, lambda i, s: _open(s) if i in known.inputs else s),
                GivenNumbers(places, [numbers[p] for p in places]))

    def new_program(self, structure: Any) -> bool:
        """Note that no program is known for a call. Whether a number becomes an input by that."""
        numbers: list[Any] = []
        key = _kind(structure, numbers)
        if not numbers:
            return False
        known = self._kinds.get(key)
        if known is None:
            if len(self._kinds) >= REMEMBERED:
                self._kinds.clear()
            known = self._kinds[key] = Kind(structure, len(numbers))
        before = known.inputs
        for i, (seen, x) in enumerate(zip(known.seen, numbers)):
            if len(seen) <= CHANGES:
                seen.add(repr(x))
            if len(seen) > CHANGES and i not in known.constants and not known.never:
                known.inputs |= {i}
        self._some = self._some or bool(known.inputs)
        return known.inputs != before

    def keep(self, structure: Any, numbers: GivenNumbers, why: dict[int, str]) -> None:
        """Some numbers stay constants in calls of this kind. why: by their place among those that were to be inputs."""
        known = self._kinds[_kind(structure, [])]
        known.constants = {**known.constants, **{numbers.places[i]: text for i, text in why.items()}}
        known.inputs -= known.constants.keys()

    def never(self, structure: Any) -> None:
        """No number becomes an input in calls of this kind: what is compiled for them is right for one call alone."""
        known = self._kinds.get(_kind(structure, []))
        if known is not None:
            known.never, known.inputs = True, frozenset()

    def lines(self) -> list[str]:
        """What became of numbers that changed, in words."""
        lines: dict[str, None] = {}
        for known in self._kinds.values():
            lines.update({f"{known.labels[i]} is an input: one program for all its values": None
                          for i in sorted(known.inputs)})
            lines.update({f"{known.labels[i]} is a constant, a program for each value: {known.constants[i]}": None
                          for i in sorted(known.constants)})
            lines.update({f"{known.labels[i]} is a constant: what is compiled for such calls is right for one call "
                          f"alone": None for i, seen in enumerate(known.seen) if known.never and len(seen) > CHANGES})
        return list(lines)

    def clear(self) -> None:
        """Nothing is known."""
        self._kinds.clear()
        self._some = False


def _kind(structure: Any, numbers: list[Any]) -> Any:
    """A structure without its numbers, which are put into the list."""
    def change(place: int, node: Any) -> Any:
        numbers.append(node[2])
        return _open(node)
    return replaced(structure, change)


class NumberInputs:
    """The inputs of a program that are numbers, or computed from numbers, of a call's arguments. wanted: their places
    among all numbers that the trace met; paths: where the numbers stand in the call, None where they are nested."""

    def __init__(self, trace: NumberTrace, wanted: Sequence[int], paths: Sequence[tuple[int, Any]] | None):
        self.steps, self.wanted, self.paths = trace.steps, tuple(wanted), paths
        self.given = trace.given
        self.types = [type(v) for v in trace.values]
        self.bounds = [None if is_real(self.types[k]) else trace.bounds.get(k, (-2**63, 2**63 - 1)) for k in wanted]
        self._now = trace.now if trace.asked_for else None
        self._compute = self._written()

    def _written(self) -> Callable[..., list[Any] | None]:
        """The steps as one Python function of the arguments' numbers: ``[v0, v2]``, or None where a number is of
        another class or beyond its bounds."""
        space: dict[str, Any] = {f"t{k}": t for k, t in enumerate(self.types)}
        lines = [f"def compute({', '.join(f'v{k}' for k in range(self.given))}):"]
        tests = [f"type(v{k}) is not t{k}" for k in range(self.given)]
        for k, (function, operands) in enumerate(self.steps, self.given):
            space.update({f"f{k}": function, **{f"c{k}_{i}": x for i, (_, x) in enumerate(operands)}})
            given = ", ".join(f"v{x}" if traced else f"c{k}_{i}" for i, (traced, x) in enumerate(operands))
            lines += [f" if {' or '.join(tests)}: return None"] if tests else []
            lines += [f" v{k} = f{k}({given})"]
            tests = [f"type(v{k}) is not t{k}"]
        tests += [f"not {bound[0]} <= v{k} <= {bound[1]}" for k, bound in zip(self.wanted, self.bounds) if bound]
        lines += [f" if {' or '.join(tests)}: return None", f" return [{', '.join(f'v{k}' for k in self.wanted)}]"]
        exec("\n".join(lines), space)  # noqa: S102  names and numbers of its own alone
        return space["compute"]                                  # type: ignore[no-any-return]

    def values(self, numbers: Sequence[Any]) -> list[Any] | None:
        """The numbers of the inputs; None where the program is not the one for these numbers, or Python's rules make
        them an error."""
        try:
            return self._compute(*numbers)                       # type: ignore[no-any-return]
        except Exception:  # noqa: BLE001  the code itself will raise it
            return None

    def arrays(self, values: Sequence[Any], ctx: Context) -> list[NDArray]:
        """The inputs."""
        self._tell(values)
        return [wrap(move(np.array(v, dt.float64 if b is None else dt.int64), ctx, False), ctx)
                for v, b in zip(values, self.bounds)]

    def _tell(self, values: Sequence[Any]) -> None:
        if self._now is not None:
            self._now.update(zip(self.wanted, values))

    # ---- the fast path
    def form(self, structure: Any, numbers: GivenNumbers, arrays: int) -> Any:
        """A structure as the launcher knows it: in the place of a number ("number", its input or -1, class, least,
        greatest), and those that are computed after the arguments by position. arrays: how many there are."""
        at = {p: i for i, p in enumerate(numbers.places)}
        computed = tuple(self._node(k, arrays) for k in self.wanted if k >= self.given)
        (first, by_position), rest = replaced(structure, lambda place, node: self._node(at[place], arrays)
                                              if place in at else node)[1]
        return structure[0], ((first, (*by_position, *computed)), rest)

    def _node(self, k: int, arrays: int) -> Any:
        if k not in self.wanted:
            return ("number", -1, self.types[k], None, None)
        i = self.wanted.index(k)
        return ("number", arrays + i, self.types[k], *(self.bounds[i] or (None, None)))

    def computing(self, launched: Callable[..., Any]) -> Callable[..., Any] | None:
        """A fast path that computes what the program is given beside the arguments; None where there is none."""
        if all(k < self.given for k in self.wanted) and self._now is None:
            return launched
        if self.paths is None:
            return None
        paths, values, tell = list(self.paths), self.values, self._tell
        direct = sum(k < self.given for k in self.wanted)         # which the launcher takes from the arguments

        def fast(*args: Any, **kwargs: Any) -> Any:
            try:
                numbers = values([(kwargs if kind else args)[where] for kind, where in paths])   # type: ignore[index]
            except LookupError:
                return None
            if numbers is None:
                return None
            tell(numbers)
            return launched(*args, *numbers[direct:], **kwargs) if kwargs else launched(*args, *numbers[direct:])
        return fast


def paths_of(structure: Any, places: Sequence[int]) -> list[tuple[int, Any]] | None:
    """Where some numbers stand in a call: (0, position) or (1, name); None where one is nested."""
    (_, by_position), (_, by_name) = structure[1]
    found: list[Any] = []
    for kind, items in ((0, enumerate(by_position)), (1, by_name)):
        for where, s in items:
            if s != LEAF and s[0] == "value":
                found += [(kind, where)] if _is_number(s) else []
            else:
                found += [None] * len(labels_in(s))
    chosen = [found[p] for p in places]
    return None if None in chosen else chosen


def labels_in(structure: Any) -> list[Any]:
    """The numbers in a structure."""
    numbers: list[Any] = []
    _kind(structure, numbers)
    return numbers


def labels_of(structure: Any) -> list[str]:
    """What each number of a call is called, in their order: ``argument 1``, ``argument lr``."""
    by_position, by_name = structure[1]
    out: list[str] = []
    for label, s in [*((str(i), s) for i, s in enumerate(by_position[1])), *((str(k), s) for k, s in by_name[1])]:
        count = len(labels_in(s))
        out += [f"argument {label}" + (f" (number {i} in it)" if s[0] != "value" else "") for i in range(count)]
    return out
