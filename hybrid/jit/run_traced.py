"""Traced code runs: on Symbols, watched for what it reads and changes, and refused where a program cannot do that."""
from __future__ import annotations

import operator
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Sequence

from ..base import collector, names
from ..base.errors import DeferredInitializationError, HybridError, TraceError
from ..base.pytree import flatten, unflatten
from ..buffers.array import NP_CLASS, NDArray
from ..graph.symbol import Symbol
from ..graph.traced_number import TracedNumber
from ..ir.dimension import Specialised, refuse_swallowed
from . import foreign_rng
from .changes import Change, Changes, traced_in
from .concealed import holds_traced, refuse_concealed
from .number_arguments import LookedAt, NotWithInputs, OtherInputs
from .numbers_of_trace import NumbersOfTrace
from .plain_calls import PlainAlways, PlainOnce, PlainOnly
from .reads import Reader
from .trace_state import Trace, active
from .traced_results import separate
from .watches import MENTIONED


@contextmanager
def _errors_of(name: str, assigned: Changes, trace: Trace) -> Iterator[None]:
    """TraceError in the place of an error that carries traced values to the caller; where arrays or states had been
    changed before it was raised, the code runs as plain Python, which changes them."""
    try:
        yield
    except HybridError:
        raise
    except Exception as err:
        if trace.changed() or trace.stateful:                    # running statistics, generators of random numbers
            raise PlainOnce(f"{assigned.first_line()}: {name} raises a {type(err).__name__}") from err
        if any(True for _ in traced_in([*err.args, *vars(err).values()])):
            raise TraceError(f"{assigned.first_line()}: {name} raises a {type(err).__name__} that holds values which "
                             "are known only when the compiled program runs. Raise it without arrays, or call this "
                             "block or function without hybridize.") from None
        raise


def _as_given(arguments: Any, structure: Any, symbols: Sequence[Symbol]) -> bool:
    """Whether the containers among traced arguments hold what they held."""
    leaves, now = _nested(arguments)
    return bool(now == structure) and len(leaves) == len(symbols) and all(map(operator.is_, leaves, symbols))


def _nested(arguments: Any) -> tuple[list[Any], Any]:
    """The traced values and numbers among traced arguments, and how they are nested."""
    leaves: list[Any] = []
    return leaves, flatten(arguments, lambda v: type(v) is TracedNumber or isinstance(v, Symbol), leaves,
                           by_identity=True)


@contextmanager
def _restoring(reader: Reader, name: str, trace: Trace) -> Iterator[None]:
    """Puts back what traced code has changed, where it runs again; TraceError where that cannot be done."""
    try:
        yield
    except Exception as err:
        again = isinstance(err, (PlainOnly, LookedAt, NotWithInputs, OtherInputs, Specialised,
                                 DeferredInitializationError))
        left = reader.restore() if again or trace.symbolic or isinstance(err, TraceError) else ""
        if left and (again or trace.symbolic):
            raise TraceError(f"{reader.line()}: {name or 'this function'} changes {left} and has to run once more, "
                             f"which would change it twice ({err}). Change it outside of the hybridized code."
                             ) from None
        raise


def _inputs(trace: Trace, structure: Any, arrays: Sequence[NDArray], held: Sequence[NDArray], numbers: NumbersOfTrace,
            shapes: Any) -> Any:
    """The arguments with traced values in the place of arrays and numbers."""
    titles = ["data"] if len(arrays) == 1 else [f"data{i}" for i in range(len(arrays))]
    symbols = [trace.variable(n, None, s, a._data.dtype)
               for n, a, s in zip(titles, arrays, shapes or [a.shape for a in arrays])]
    first = {id(a): s for a, s in zip(reversed(arrays), reversed(symbols))}
    symbols = [first[id(a)] for a in arrays]                     # one array given twice is one value
    for i, h in enumerate(held):
        own = trace.variable(f"state{i}", None, h.shape, h._data.dtype)
        trace.known[id(h)] = first.get(id(h), own)
    numbers.make_variables()
    return unflatten(numbers.put_into(structure), iter(symbols))


def _refuse_looks_at_callers(reader: Reader, name: str) -> None:
    if reader.callers:
        raise TraceError(f"{reader.callers}: {name} looks at the code that called it, which a compiled program cannot "
                         "know. Give it as an argument what it needs, or call this block or function without "
                         "hybridize.")


def _refuse_looks_at_types(reader: Reader, name: str) -> None:
    if reader.types:
        line, variable, how = reader.types[0]
        raise PlainOnly(f"{line}: {name} asks what {variable} is by {how}(), whose answer is not the one for array "
                        f"while it is compiled: such calls run as plain Python. Use isinstance({variable}, NDArray).")


def _refuse_reads(reader: Reader, name: str, line: str) -> None:
    """Has code run as plain Python that reads what no program can: methods that were replaced, weak references."""
    if reader.methods():
        raise PlainOnly(f"{line}: {name} runs where {reader.methods()} is not this library's any more, and a compiled "
                        "program has the library's own: such calls run as plain Python. Give what takes its place a "
                        "name of its own.")
    if reader.profiler:
        raise PlainAlways(f"{reader.profiler}: {name} looks at Python's profile hook, which this library uses while "
                          "code is compiled: such calls run as plain Python.")
    if reader.weak and not reader.outside:
        raise PlainAlways(f"{line}: {name} looks through a weak reference, and a program that looks at an object keeps "
                          "it alive: such calls run as plain Python. Give the object itself.")


def _refuse_changed_variables(trace: Trace, name: str, line: str) -> None:
    if any(map(trace.collects, trace.paused())):
        raise PlainOnly(f"{line}: {name} changes, in autograd.pause(), an array that collects a gradient, which later "
                        "uses of it add to: such calls run as plain Python. Change it outside of this code.")


def _taken_apart(result: Any, name: str, line: str) -> tuple[list[Any], Any]:
    """The arrays and traced values of a result, and how it is put together."""
    leaves: list[Any] = []
    try:
        return leaves, flatten(result, lambda v: isinstance(v, (Symbol, NDArray)), leaves, objects=holds_traced)
    except TypeError as err:
        raise TraceError(f"{line}: {name} returns something that is neither an array of hybrid nor hashable ({err}). "
                         "Return arrays made by hybrid's functions (nd.array(x) of a NumPy array), numbers, text, or "
                         "lists, tuples and dicts of them.") from None


@collector.waits
def run_traced(fn: Callable[..., Any], name: str, trace: Trace, structure: Any, arrays: Sequence[NDArray],
               held: Sequence[NDArray], numbers: NumbersOfTrace, shapes: Any = None,
               ) -> tuple[list[Symbol], Any, Reader, list[Change]]:
    """The results of the traced code, how they are put together, what the code read and what it assigned. shapes: of
    the arrays, where they are others than those (with sizes that are known at the call)."""
    trace.symbolic = shapes is not None
    with active(trace):
        args, kwargs = _inputs(trace, structure, arrays, held, numbers, shapes)
        nested, form = _nested((args, kwargs))
        drawn = foreign_rng.states()
        reader = Reader(lambda x, place: trace.places.setdefault(id(x), place))
        reader.start(fn, (args, kwargs))
        with names.kept():
            with _restoring(reader, name, trace), Changes(trace, fn, args, kwargs) as assigned:
                with reader, _errors_of(name, assigned, trace), numbers.watched(assigned.first_line):
                    result = fn(*args, **kwargs)
                if trace.refused:                            # and code of the user's went on without the value
                    raise trace.refused[0]
                refuse_swallowed()
                _refuse_looks_at_callers(reader, name)
                numbers.settle()
                trace.settle_sizes()
                _refuse_looks_at_types(reader, name)
                if not _as_given((args, kwargs), form, nested):
                    raise PlainOnly(
                        f"{assigned.first_line()}: {name} changes a list or dict among its arguments, which a compiled "
                        f"program cannot do again: such calls run as plain Python. Return a new one.")
                refuse_concealed(result, f"{name} returns", assigned.first_line(), trace.texts, True)
                changes = assigned.settle()
                written = reader.written()
                _refuse_changed_variables(trace, name, assigned.first_line())
                trace.writes = written and (assigned.first_line(), written)
            trace.names = assigned.mentioned()
            MENTIONED.update(trace.names)
            result = separate(assigned.own(result))
        reader.finish(name)
        reader.tell(trace.blocks)
        reader.library({NDArray, *map(type, trace.given), *([NP_CLASS[0]] if trace.np_semantics else [])})
        _refuse_reads(reader, name, assigned.first_line())
        for place, x in assigned.settled_places({*trace.known, *map(id, trace.numbers)}):
            reader.places.setdefault(place.key, place)
            reader.values.setdefault(place.key, x)
        trace.drew, trace.outside = foreign_rng.drawn_from(drawn, reader) or reader.drew, reader.outside
        leaves, out_structure = _taken_apart(result, name, assigned.first_line())
        return [trace.capture(x) if isinstance(x, NDArray) else x for x in leaves], out_structure, reader, changes
