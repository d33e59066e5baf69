"""Elementwise programs as steps of NumPy's own inner loops, for what calls these without NumPy's dispatching
(kernels/c/launcher_elementwise.h).

What a scalar function does is recorded from its definition (``Scalar.np``), which is called with values that note what
is done with them; so the numbers are those of the definition to the last bit.
"""
from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import Any, Callable, Mapping, NamedTuple, Sequence

import numpy as np

from .direct import BOOLEAN_ARITHMETIC, boolean_arithmetic, constants
from .node import Node
from .program import Program
from .scalar import SCALARS


class NoLoops(Exception):
    """Raised where a function is computed by other means than universal functions, casts and choices."""


class Step(NamedTuple):
    """One inner loop: a universal function, or the name of a loop in kernels/c/launcher_loops.h; the registers of its
    arguments and, last, of its result; their dtypes."""
    function: Any
    registers: tuple[int, ...]
    dtypes: tuple[np.dtype, ...]


class Loops(NamedTuple):
    """A program of inner loops. inputs: the dtype of each, and whether it has the result's elements (or just one).
    Registers are numbered: inputs, constants, temporaries, the result."""
    inputs: tuple[tuple[np.dtype, bool], ...]
    constants: tuple[np.ndarray, ...]
    temporaries: int
    result: tuple[np.dtype, tuple[int, ...]]
    steps: tuple[Step, ...]


_FLOATS = tuple(np.dtype(t) for t in ("float32", "float64"))
_INTEGERS = tuple(np.dtype(t) for t in ("int8", "uint8", "int32", "int64"))
# scalar functions that have a loop of their own, by the dtypes
_OWN = {**dict.fromkeys(("round", "direction", "sign"), (np.dtype("float16"), *_FLOATS)), "quotient": _INTEGERS}
# of integers the choice of the second where the first compares so, else the first
_LIMITS: dict[np.ufunc, str] = {np.less: "maximum", np.greater: "minimum"}
_COMPARISONS = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)


@lru_cache(1024)
def _result_dtype(ufunc: np.ufunc, dtype: np.dtype) -> np.dtype:
    """The dtype that a universal function gives of arrays of one dtype."""
    try:
        return np.dtype(ufunc(*(np.empty(0, dtype),) * ufunc.nin).dtype)
    except TypeError as err:
        raise NoLoops from err


class Value:
    """The result of a step, an input or a number, in a definition that is being recorded."""
    __slots__ = ("dtype", "recorder", "step")

    def __init__(self, recorder: Recorder, dtype: np.dtype, step: int = -1) -> None:
        self.recorder, self.dtype, self.step = recorder, np.dtype(dtype), step

    __hash__ = object.__hash__                           # comparisons are steps: tables know values by themselves

    def astype(self, dtype: Any, copy: bool = True) -> Value:
        """The value in another dtype."""
        return self.recorder.cast(self, np.dtype(dtype))


def _operator(ufunc: np.ufunc, back: bool = False) -> Callable[..., Value]:
    def method(self: Value, *others: Any) -> Value:
        return self.recorder.call(ufunc, *(reversed((self, *others)) if back else (self, *others)))
    return method


_BOTH_WAYS: dict[str, np.ufunc] = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide,
                                   "and": np.bitwise_and, "or": np.bitwise_or}
_ONE_WAY: dict[str, np.ufunc] = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
                                 "gt": np.greater, "ge": np.greater_equal, "neg": np.negative, "invert": np.invert}
for _name, _ufunc in (_BOTH_WAYS | _ONE_WAY).items():
    setattr(Value, f"__{_name}__", _operator(_ufunc))
for _name, _ufunc in _BOTH_WAYS.items():
    setattr(Value, f"__r{_name}__", _operator(_ufunc, back=True))


_Noted = tuple[Any, tuple[Value, ...], Value]            # a function, its arguments and its result


class Recorder:
    """Takes NumPy's place in definitions, and notes the steps."""

    def __init__(self) -> None:
        self.steps: list[_Noted] = []
        self.numbers: dict[Value, np.ndarray] = {}
        self._known: dict[tuple[np.dtype, bytes], Value] = {}

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name, None)
        if isinstance(found, np.ufunc):
            return lambda *args: self.call(found, *args)
        if isinstance(found, float):
            return found
        raise NoLoops(name)

    def number(self, x: Any, dtype: np.dtype) -> Value:
        """A number, of the dtype of the arrays beside it."""
        own = getattr(x, "dtype", None)
        fits = own == dtype if own is not None else type(x) is float and dtype.kind == "f" or (
            type(x) is int and dtype.kind in "iuf")
        if not fits or own is not None and x.size != 1:
            raise NoLoops
        number = np.array(x, dtype).reshape(())
        value = self._known.setdefault((dtype, number.tobytes()), Value(self, dtype))
        self.numbers[value] = number
        return value

    def _values(self, args: Sequence[Any]) -> tuple[Value, ...]:
        dtypes = {x.dtype for x in args if isinstance(x, Value)}
        if len(dtypes) != 1:
            raise NoLoops
        dtype, = dtypes
        return tuple(x if isinstance(x, Value) else self.number(x, dtype) for x in args)

    def step(self, function: Any, args: tuple[Value, ...], dtype: np.dtype) -> Value:
        """The result of one more step."""
        out = Value(self, dtype, len(self.steps))
        self.steps.append((function, args, out))
        return out

    def call(self, ufunc: np.ufunc, *args: Any) -> Value:
        """A universal function of values and numbers."""
        if len(args) != ufunc.nin or ufunc.nout != 1:
            raise NoLoops
        values = self._values(args)
        dtype = values[0].dtype
        own = ufunc is np.copysign and dtype in _FLOATS or ufunc in (np.maximum, np.minimum) and dtype in _INTEGERS
        return self.step(ufunc.__name__ if own else ufunc, values, _result_dtype(ufunc, dtype))

    def where(self, condition: Value, a: Any, b: Any) -> Value:
        """a where the condition holds, else b."""
        if not isinstance(condition, Value) or condition.dtype != bool:
            raise NoLoops
        values = self._values((a, b))
        return self.step("where", (condition, *values), values[0].dtype)

    def cast(self, x: Value, dtype: np.dtype) -> Value:
        """A value in another dtype."""
        return x if x.dtype == dtype else self.step("cast", (x,), dtype)

    def copy(self, x: Value) -> Value:
        """The same numbers in other memory."""
        return self.step("cast", (x,), x.dtype)


def _power(recorder: Recorder, n: Node, a: Value, b: Value) -> Value:
    """A power as ``special.power`` computes it of arrays: of some numbers by another function."""
    number = recorder.numbers.get(b)
    exponent = None if number is None else number[()]
    if a.dtype.kind != "f":
        if a.dtype != b.dtype or a.dtype not in _INTEGERS:
            raise NoLoops
        return recorder.call(np.square, a) if exponent == 2 else recorder.step("power", (a, b), a.dtype)
    if exponent == 0.5:
        return _root(recorder, a)
    if exponent is not None and exponent in (2, 1, -1):
        return a if exponent == 1 else recorder.call(np.square if exponent == 2 else np.reciprocal, a)
    base = recorder.numbers.get(a)
    if base is not None and base == 2 and n.size > 1 and a.dtype == b.dtype:
        return recorder.call(np.exp2, b)
    return recorder.call(np.power, a, b)


def _root(recorder: Recorder, a: Value) -> Value:
    """The power 0.5: the root, but 0 of -0.0 and inf of -inf."""
    if a.dtype in _FLOATS:
        return recorder.step("root", (a,), a.dtype)
    root = recorder.call(np.add, recorder.call(np.sqrt, a), 0.0)
    return recorder.where(recorder.call(np.equal, a, -np.inf), np.inf, root)


def _mapped(recorder: Recorder, n: Node, args: list[Value]) -> Value:
    fn = n.attrs["fn"]
    try:
        own = n.dtype in _OWN.get(fn, ()) and all(x.dtype == n.dtype for x in args)
        out = (recorder.step(fn, tuple(args), n.dtype) if own else _power(recorder, n, *args) if fn == "pow" else
               SCALARS[fn].np(recorder, *args))
    except (AttributeError, TypeError) as err:           # asks the numbers themselves
        raise NoLoops from err
    if not isinstance(out, Value):
        raise NoLoops
    return out.astype(n.dtype)


def _of_truths(recorder: Recorder, n: Node, args: list[Value]) -> Value:
    """A function of two truth values that are cast to wide integers, computed in bytes."""
    narrow = [recorder.cast(x, np.dtype(np.int8)) for x in args]
    return recorder.cast(recorder.call(BOOLEAN_ARITHMETIC[n.attrs["fn"]], *narrow), n.dtype)


def _live(root: Node, known: dict[Node, Any]) -> set[Node]:
    """The nodes that a result is computed of, numbers included, but not what those are computed of."""
    found, ahead = {root}, [root]
    while ahead:
        n = ahead.pop()
        for a in () if n in known else n.args:
            if a not in found:
                found.add(a)
                ahead.append(a)
    return found


def _recorded(program: Program, root: Node, inputs: list[Value], recorder: Recorder) -> Value:
    """The result's value. Every other one has as many elements, or is an input or a number that is stretched."""
    order = program.order()
    known = constants(n for n in order if n is not root)
    live, values = _live(root, known), dict[Node, Value]()
    for n in order:
        if n not in live:
            continue
        if n in known:
            values[n] = recorder.number(known[n][(slice(0, 1),) * n.ndim], n.dtype)
        elif n.prim == "input":
            values[n] = inputs[n.attrs["slot"]]
        elif n.prim in ("reshape", "expand", "detach", "with_grad") and n.args[0].size in (n.size, 1):
            values[n] = values[n.args[0]]
        elif n.size == root.size and n.prim == "cast":
            values[n] = recorder.cast(values[n.args[0]], n.dtype)
        elif n.size == root.size and n.prim == "map":
            truths = boolean_arithmetic(n)
            values[n] = (_of_truths(recorder, n, [values[a] for a in truths[1]])
                         if truths is not None and all(a in values for a in truths[1]) else
                         _mapped(recorder, n, [values[a] for a in n.args]))
        else:
            raise NoLoops(n.prim)
    return values[root]


def _joined(steps: list[_Noted], numbers: dict[Value, np.ndarray]) -> list[_Noted]:
    """The steps, where comparisons whose truth values one step reads are joined with that: a cast of floats to their
    own dtype, a choice of two of them, a limit of integers."""
    readers = Counter(x for _, args, _ in steps for x in args)
    made: dict[Value, tuple[Any, tuple[Value, ...]]] = {}
    gone = set[Value]()
    for f, args, out in steps:
        compared, of = made.get(args[0], (None, ())) if f in ("cast", "where") else (None, ())
        if compared in _COMPARISONS and readers[args[0]] == 1 and of[0].dtype == out.dtype:
            if out.dtype in _FLOATS:
                gone.add(args[0])
                f, args = f"{compared.__name__} {f}", (*of, *args[1:])
                if (lower := _between(f, args, made, readers)) is not None:
                    gone.add(args[3])
                    f, args = "clip", (args[0], lower, args[1])
            elif out.dtype.kind in "iu" and f == "where" and (limit := _limit(compared, of, args, made, numbers)):
                gone.add(args[0])
                f, args = limit
        made[out] = f, args
    return [(*made[out], out) for _, _, out in steps if out not in gone]


def _between(f: str, args: tuple[Value, ...], made: Mapping[Value, Any], readers: Mapping[Value, int]) -> Value | None:
    """The lower limit, where a step (x > high ? high : y) puts an upper one on floats and y puts a lower one on the
    same x: both are one ``clip`` then. None for other steps."""
    if f != "greater where":
        return None
    x, high, chosen, other = args
    inner, of = made.get(other, (None, ()))
    fits = inner == "less where" and chosen is high and readers[other] == 1 and of[0] is x is of[3] and of[1] is of[2]
    return of[1] if fits else None


def _limit(compared: np.ufunc, of: tuple[Value, ...], args: tuple[Value, ...], made: Mapping[Value, Any],
           numbers: Mapping[Value, np.ndarray]) -> tuple[str, tuple[Value, ...]] | None:
    """The choice of b where a compares so with it, else a, as a function of two integers. In the place of a there may
    be a with a limit on the other side, if the limits are in order."""
    name, (a, b) = _LIMITS.get(compared), of
    if name is None or args[1] is not b:
        return None
    if args[2] is a:
        return name, of
    other, inner = made.get(args[2], (None, ()))
    if other in _LIMITS.values() and other != name and inner[0] is a and b in numbers and inner[1] in numbers:
        low, high = (inner[1], b) if name == "minimum" else (b, inner[1])
        return (name, (args[2], b)) if numbers[low] <= numbers[high] else None
    return None


def _numbered(recorder: Recorder, inputs: list[Value], result: Value) -> tuple[list[Value], int, tuple[Step, ...]]:
    """The numbers that steps read, how many temporaries there are, and the steps that lead to a result."""
    wanted, steps = {result}, list[_Noted]()
    for step in reversed(recorder.steps):
        if step[2] in wanted:
            wanted.update(step[1])
            steps.insert(0, step)
    steps = _joined(steps, recorder.numbers)
    numbers = [x for x in recorder.numbers if x in wanted]
    place = {x: i for i, x in enumerate([*inputs, *numbers])}
    first, free, count = len(place), list[int](), 0
    last = {x: i for i, (_, args, _) in enumerate(steps) for x in args}
    for i, (_, args, out) in enumerate(steps):
        if out is not result:
            if not free:
                free.append(first + count)
                count += 1
            place[out] = free.pop()
        free += {place[x] for x in args if x.step >= 0 and last[x] == i}
    place[result] = first + count
    return numbers, count, tuple(Step(f, tuple(place[x] for x in (*args, out)), tuple(x.dtype for x in (*args, out)))
                                 for f, args, out in steps)


def _loops(program: Program) -> Loops | None:
    root = program.outputs[0]
    if program.updates or len(program.outputs) != 1 or not root.size or not program.inputs:
        return None
    if any(leaf.size not in (1, root.size) for leaf in program.inputs):
        return None
    recorder = Recorder()
    inputs = [Value(recorder, leaf.dtype) for leaf in program.inputs]
    try:
        result = _recorded(program, root, inputs, recorder)
    except NoLoops:
        return None
    if result in recorder.numbers:                       # programs of numbers fill arrays
        return None
    if result.step < 0:                                  # an input itself
        result = recorder.copy(result)
    numbers, count, steps = _numbered(recorder, inputs, result)
    return Loops(tuple((leaf.dtype, leaf.size == root.size) for leaf in program.inputs),
                 tuple(recorder.numbers[x] for x in numbers), count, (root.dtype, root.shape), steps)


def loops(program: Program) -> Loops | None:
    """The inner loops of a program of elementwise functions with one result; None for others. Made once."""
    if "loops" not in program.memo:
        program.memo["loops"] = _loops(program)
    return program.memo["loops"]                         # type: ignore[no-any-return]


def own_loop(program: Program, name: str) -> Loops:
    """One loop of a name, of an array of the result's shape and dtype."""
    dtype, root = program.inputs[0].dtype, program.outputs[0]
    return Loops(((dtype, True),), (), 0, (root.dtype, root.shape), (Step(name, (0, 1), (dtype, root.dtype)),))
