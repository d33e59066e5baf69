"""From a call of an operator to its result: eager on arrays, symbolic on Symbols and while tracing."""
from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

import numpy as np

from . import known_calls
from .known_calls import IN_C
from ..base import pending, rng
from ..graph import symbol
from ..graph.traced_number import looked_at_in
from ..buffers import tape
from ..buffers.array import NDArray, array, wrap
from ..base.device import Context, array_module, current_context, on, refuse_apart
from ..base.errors import AttributeValueError, DTypeError, HybridError, TooLargeError, shortened, user_location
from ..ir import Program
from ..ir.direct import own
from ..ops.attributes import told_apart
from ..ops.registry import Attrs, OpDef
from ..passes.partition import partition
from ..runtime import reference, repeated
from ..runtime.observers import OBSERVERS, observed
from ..base.scope import CASTS, SCOPE, tracing

_parsed: dict[Any, Attrs] = {}
# set by the profiler and by debug.check_finite: timer(call, operator, other arguments), the first one outermost
TIMERS: list[Callable[..., Any]] = []
# what a traced operator demands of its indices (demands.py)
DEMANDS: list[Callable[..., None]] = []
# what writes traced results into arrays (traced_indexing.py)
TRACED_OUT: list[Callable[..., Any]] = []
# what gives an array a new value on the tape (nd/operators.py)
NEW_VALUE: list[Callable[..., Any]] = []
# by the name of an operator with an array and a number: a function that takes a traced number (nd/operators.py)
OF_NUMBER: dict[str, Callable[[Any, Any], Any]] = {}
# at most one, set once sparse arrays exist (sparse/rules.py)
ROUTE: list[Callable[..., Any]] = []


def parse(d: OpDef, attrs: Mapping[str, Any]) -> Attrs:
    """Attributes, parsed once for each set of values."""
    try:
        key = (d, tuple(attrs.items()), tuple(map(told_apart, attrs.values())))
        hit = _parsed.get(key)
    except TypeError:                                       # a list among them
        return d.parse(attrs)
    if hit is None:
        if len(_parsed) > 20000:
            _parsed.clear()
        hit = _parsed[key] = d.parse(attrs)
    return hit


def common_context(name: str, arrays: Sequence[NDArray]) -> Context:
    """The one device of some arrays; of several that are parts of the CPU the first, as in MXNet."""
    ctx = arrays[0]._ctx
    for a in arrays[1:]:
        if a._ctx != ctx:
            refuse_apart(f"{name}: arrays", ctx, a._ctx)
    return ctx


def as_inputs(d: OpDef, values: Sequence[Any], ctx: Context | None) -> list[NDArray | None]:
    """Arrays from what was passed: numbers and NumPy arrays are taken in."""
    out: list[NDArray | None] = []
    for v in values:
        if v is None or isinstance(v, NDArray):
            out.append(v)
        elif isinstance(v, (list, tuple)) and hasattr(v, "__array_ufunc__"):         # complex: a pair, not rows
            raise DTypeError(f"operator {d.shown} takes real arrays, got one of {getattr(v, 'dtype', type(v))}; "
                             f"compute with z.real and z.imag")
        elif isinstance(v, (np.ndarray, np.generic, int, float, bool, list, tuple)):
            out.append(array(v, ctx))
        else:
            raise DTypeError(f"operator {d.name} takes arrays, got {type(v).__name__}: {v!r}")
    return out


def invoke(d: OpDef, inputs: Sequence[Any], attrs: Mapping[str, Any], out: Any = None, name: str | None = None,
           cls: Any = None,
           hint: str | None = None, told: bool = False) -> Any:
    """Call an operator. inputs: one value per input (None: absent). out: array(s) to write into. told: whether the
    training loop that is watched knows of the call."""
    if pending.WATCHED[0] and not told and not SCOPE.traces:
        track = pending.STATE[0].track
        if track is not None and (made := track.operator(d, inputs, attrs, cls, out)) is not NotImplemented:
            if type(made) is tuple or track.at == track.events:
                made = pending.LATER[0].given_back(track, made)
            return made if out is None else out
        return pending.LATER[0].operator(d, inputs, attrs, cls, out,
                                         lambda given: invoke(d, given, attrs, out, name, cls, hint, True))
    if out is None and d.known and not (CASTS or TIMERS):
        if IN_C and (found := IN_C[0](d.known, inputs, attrs, cls)) is not None:
            return found
        if not (SCOPE.traces or SCOPE.symbolic) and (call := known_calls.find(d, inputs, attrs)) is not None:
            found = _again(d, *call, inputs, cls)
            if found is not None:
                return found
    if out is not None and into(d, inputs, attrs, out):
        return out
    return _invoke(d, inputs, attrs, out, name, cls, hint)


def into(d: OpDef, inputs: Sequence[Any], attrs: Mapping[str, Any], out: Any) -> bool:
    """Whether a call was computed straight into an array (``known_calls.into``)."""
    return bool(d.known) and not TIMERS and known_calls.into(d, inputs, attrs, out)


def _invoke(d: OpDef, inputs: Sequence[Any], attrs: Mapping[str, Any], out: Any, name: str | None, cls: Any,
            hint: str | None) -> Any:
    if SCOPE.numbers:
        attrs = looked_at_in(d.name, attrs)
    if SCOPE.symbolic or tracing() is not None or any(isinstance(x, symbol.Symbol) for x in inputs):
        if d.within is not None and tracing() is not None:
            DEMANDS[0](d, inputs, parse(d, attrs))
        made = symbol.create(d, list(inputs), attrs, name, hint, CASTS)
        # of graphs alone MXNet ignores it
        return made if out is None or not SCOPE.traces else TRACED_OUT[0](d, made, out)
    if ROUTE and (found := ROUTE[0](d, inputs, attrs, out, name, hint)) is not NotImplemented:
        return found
    given = attrs
    if d.arity_attr and d.arity_attr not in attrs:
        attrs = {**attrs, d.arity_attr: len(inputs)}
    if CASTS:
        attrs = CASTS[0].attrs(d, attrs)
    a = parse(d, attrs)
    ctx = _context(d, inputs, attrs)
    arrays = as_inputs(d, inputs, ctx)
    _require(d, arrays, a)
    if d.takes:
        d.refuse_unread(arrays, a)
    if CASTS:
        arrays = CASTS[0].arrays(d, a, arrays)
    present = [x for x in arrays if x is not None]
    if len(present) > 1:
        common_context(f"operator {d.name}", present)
    try:
        results = _timed(TIMERS, d, a, arrays, present, ctx, cls) if TIMERS else _eager(d, a, arrays, present, ctx, cls)
    except MemoryError as err:
        if isinstance(err, HybridError):
            raise
        raise TooLargeError(f"{user_location()}: operator {d.name}: {err}. Make the arrays smaller, or compute them "
                            f"in parts") from err
    except Exception as err:
        shortened(err)
        raise
    if not CASTS and len(present) == len(inputs):
        known_calls.remember(d, inputs, given, a, d.program([x._data.shape for x in present],
                                                            [x._data.dtype for x in present], a, SCOPE.training))
    if out is not None:
        return _write(d, results, out)
    results = results[:d.num_visible(a)]
    return results[0] if len(results) == 1 else results


def _again(d: OpDef, known: known_calls.Known, raws: list[np.ndarray], inputs: Sequence[Any], cls: Any) -> Any:
    """The result of a call of which all but the numbers is known; None where memory is short."""
    program, attrs, eager, function, visible = known
    try:
        if function is not None:
            results = [wrap(known_calls.by_function(function, raws), inputs[0]._ctx, cls or type(inputs[0]))]
        else:
            found = repeated.of_arrays(program, raws)
            if found is None and eager is not None:
                found = eager(np, raws, attrs)
            if found is None:
                found, _ = reference.run(program, raws, np)
            results = [wrap(own(r, raws, np), inputs[0]._ctx, cls or type(inputs[0])) for r in found]
    except MemoryError:
        return None
    if SCOPE.recording:
        tape.record_call(program, list(inputs), results, reference_runner, origin=(d, attrs, [True] * len(raws)))
    elif not IN_C:
        known_calls.counted(1 if function is not None else known_calls.COSTLY)
    return results[0] if visible == 1 else results[:visible]


def _own_way(eager: Callable[..., Any], program: Program, xp: Any, raws: Sequence[Any], a: Attrs) -> Any:
    """What an operator's faster way gives; None where it gives none, or other dtypes than the operator has compiled:
    inputs of several dtypes meet by NumPy's rule there. Calls that are known then (``known_calls``) do without it."""
    found = eager(xp, raws, a)
    if found is not None and any(x.dtype != n.dtype for x, n in zip(found, program.outputs)):
        program.memo[known_calls.OTHER_DTYPES] = True
        return None
    return found


def _require(d: OpDef, arrays: Sequence[Any], a: Attrs) -> None:
    if d.variadic:
        if not arrays:
            raise AttributeValueError(f"operator {d.name} needs at least one array")
        return
    for i, name in enumerate(d.inputs):
        if (i >= len(arrays) or arrays[i] is None) and name not in d.optional:
            raise AttributeValueError(f"operator {d.name} needs the input {name!r} (inputs: {', '.join(d.inputs)})")
    if d.takes:
        # of several optional inputs the next takes an absent one's place: it counts how many there are
        given = sum(x is not None for x in arrays) - (len(d.inputs) - len(d.optional))
        for name in [name for name in d.takes if d.takes[name](a)][max(given, 0):]:
            raise AttributeValueError(f"{user_location()}: operator {d.name} with the attributes {a.given()} needs the "
                                      f"input {name!r}: give it, or the attribute that does without"
                                      f"{' (no_bias=True)' if name == 'bias' else ''}")


def _context(d: OpDef, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Context:
    for x in inputs:
        if isinstance(x, NDArray):
            return x._ctx
    given = attrs.get("ctx")
    if isinstance(given, str) and given:
        kind, _, number = given.partition("(")
        return Context(kind, int(number.rstrip(")") or 0))
    return given if isinstance(given, Context) else current_context()


def _eager(d: OpDef, a: Attrs, arrays: Sequence[NDArray | None], present: list[NDArray], ctx: Context,
           cls: Any) -> list[NDArray]:
    if ctx.device_type != "gpu":
        return _computed(d, a, arrays, present, ctx, cls)
    with on(ctx):
        return _computed(d, a, arrays, present, ctx, cls)


def _computed(d: OpDef, a: Attrs, arrays: Sequence[NDArray | None], present: list[NDArray], ctx: Context,
              cls: Any) -> list[NDArray]:
    shapes = [None if x is None else x._data.shape for x in arrays]
    dtypes = [None if x is None else x._data.dtype for x in arrays]
    program = d.program(shapes, dtypes, a, SCOPE.training)
    raw = [x._data for x in present]
    fast = None
    xp = array_module(ctx)
    if d.eager is not None:
        fast = _own_way(d.eager, program, xp, [None if x is None else x._data for x in arrays], a)
    inputs: list[Any] = list(present)
    if fast is None:
        if draws := int(d.random(a, SCOPE.training)):
            key = xp.asarray(rng.next_key(draws))
            raw.append(key)
            inputs.append(wrap(key, ctx))
        fast, updates = reference.run(program, raw, xp)
        for (slot, _), value in zip(program.updates, updates):
            present[slot]._write(value)
    results = [wrap(own(r, raw, xp), ctx, cls or _result_class(present)) for r in fast]
    if SCOPE.recording:
        tape.record_call(program, inputs, results, reference_runner, origin=(d, a, [x is not None for x in arrays]))
    return results


def _timed(timers: Sequence[Callable[..., Any]], d: OpDef, *args: Any) -> list[NDArray]:
    """``_eager`` with some timers around it."""
    rest = timers[1:]
    return timers[0]((lambda d, *a: _timed(rest, d, *a)) if rest else _eager, d, args)


def _result_class(arrays: Sequence[NDArray]) -> Any:
    return type(arrays[0]) if arrays else None


def _write(d: OpDef, results: list[NDArray], out: Any) -> Any:
    targets = list(out) if isinstance(out, (list, tuple)) else [out]
    for r, t in zip(results, targets):
        if t.shape != r.shape:
            raise AttributeValueError(f"operator {d.name}: out has shape {t.shape}, the result {r.shape}")
        if SCOPE.recording and t._ag is not None and (t._ag.part is not None or t._ag.parts or t._ag.entry is not None):
            # on the tape ranges and what they are of are arrays apart, and what was computed of the old value needs it
            t[:] = r                       # type: ignore[index]
            continue
        t._write(r._data)
        # a new value of what has a gradient is still that variable
        if SCOPE.recording or t._ag is None or t._ag.grad is None:
            t._ag = r._ag
    return out


def reference_runner(program: Program, raw: list[Any]) -> list[Any]:
    """Run any program on the reference backend, on the device where the arrays are; a large one that comes again and
    again by its compiled form."""
    if not OBSERVERS and (made := repeated.of_arrays(program, raw)) is not None:
        return made

    def run(arrays: Sequence[Any]) -> list[Any]:
        away = next((x for x in arrays if not isinstance(x, np.ndarray)), None)
        ctx = Context("cpu") if away is None else Context("gpu", int(away.device.id))
        xp = array_module(ctx)
        with on(ctx):
            outputs, _ = reference.run(program, arrays, xp)
            return [own(o, arrays, xp) for o in outputs]
    return observed(program, run, raw) if OBSERVERS else run(raw)


Runner = Callable[[Program, list[Any]], list[Any]]


def apply_program(program: Program, inputs: list[NDArray], runner: Runner | None = None, cls: Any = None,
                  origin: Any = None) -> list[NDArray]:
    """Run a program on arrays as one recorded call. runner(program, raw arrays) -> raw outputs, updates written in
    place.

    A recorded call with a runner of its own (a compiled one) keeps what its backward pass wants of it.
    """
    run = runner or reference_runner
    ctx = common_context("program", inputs) if inputs else current_context()
    wrt = tape.wanted(program, [x._ag for x in inputs],
                      [x._data for x in inputs]) if SCOPE.recording and runner is not None else ()
    parts = partition(program, wrt, ctx.device_type == "cpu",
                      tape.rows_wanted(wrt, [x._ag for x in inputs])) if wrt else None
    raw = run(parts.forward if parts else program, [x._data for x in inputs])
    results = [wrap(r, ctx, cls or _result_class(inputs)) for r in raw[:program.count]]
    for slot in program.written:
        inputs[slot]._bump()
    if SCOPE.recording:
        tape.record_call(program, inputs, results, run, (parts, raw[program.count:]) if parts else None, origin)
    return results
