"""Calls of operators that were made before with arrays of the same shapes and dtypes and the same attributes: what the
dispatcher found out about them then is not found out again.
"""
from __future__ import annotations

import contextlib
from typing import Any, Callable, Mapping, NamedTuple, Sequence

import numpy as np

from ..base import pending
from ..base.dtype import SUPPORTED
from ..base.scope import CASTS, SCOPE
from ..buffers.array import NP_CLASS, NDArray
from ..ir import Program
from ..ir.direct import own
from ..ir.evaluate import single, straight
from ..ir.inner_loops import loops, own_loop
from ..ir.strided import places
from ..ir.quiet import WARNINGS, quiet, quietly
from ..ops.attributes import told_apart
from ..ops.registry import OPS, Attrs, OpDef
from ..runtime import launcher
from ..runtime.repeated import worth_compiling

MOST = 4096                                             # calls that are remembered of an operator
OTHER_DTYPES = "other dtypes"                           # noted of programs whose dtypes its own way does not give
# calls that go through Python before it is asked again whether C can do them, and for how many one of many elements in
# several steps counts
PATIENCE, COSTLY = 500, 32
# at most one: in C, what ``find`` and ``by_function`` do; kernels/c/launcher_eager.h
IN_C: list[Callable[..., Any]] = []
NUMPY_IN_C: list[Callable[..., Any]] = []               # at most one: a call of NumPy's own function; launcher_numpy.h
INTO: list[Callable[..., Any]] = []                     # at most one: an operator into an array; launcher_items.h
READY: list[Callable[[], None]] = []                    # each is called once, when the lists above are filled
_slow = [0]


class Known(NamedTuple):
    """What a call computes: its program, its attributes, the operator's own way, a function of the raw arrays that
    does all of it, and how many results the caller sees."""
    program: Program
    attrs: Attrs
    eager: Callable[..., Any] | None
    function: Callable[..., Any] | None
    visible: int


def key_of(raws: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """What a call depends on, beside its numbers. TypeError where attributes cannot be compared."""
    training = SCOPE.training
    if len(raws) == 1:
        raw = raws[0]
        key: Any = (raw.shape, raw.dtype, training)
    elif len(raws) == 2:
        raw, other = raws
        key = (raw.shape, raw.dtype, other.shape, other.dtype, training)
    else:
        key = (training, *[(raw.shape, raw.dtype) for raw in raws])
    if not attrs:
        return key
    values = attrs.values()
    return (key, *attrs, *values, *map(told_apart, values))


def raws_of(inputs: Sequence[Any]) -> list[np.ndarray] | None:
    """The raw arrays of inputs that are all there, dense, on the CPU and of one device; None for others."""
    ctx = None
    raws = []
    for x in inputs:
        kind = type(x)
        if kind is not NDArray and kind not in NP_CLASS:
            return None
        raw = x._data
        if type(raw) is not np.ndarray or ctx is not None and x._ctx is not ctx and x._ctx != ctx:
            return None
        ctx = x._ctx
        raws.append(raw)
    return raws or None


def remember(d: OpDef, inputs: Sequence[Any], given: Mapping[str, Any], attrs: Attrs, program: Program) -> None:
    """Note what a call computes, if it draws no random numbers and changes none of its inputs."""
    if CASTS or program.updates or len(program.inputs) != len(inputs) or (raws := raws_of(inputs)) is None:
        return
    try:
        key = key_of(raws, given)
        hash(key)
    except TypeError:
        return
    if len(d.known) >= MOST:
        d.known.clear()
    eager = None if OTHER_DTYPES in program.memo else d.eager
    visible = d.num_visible(attrs)
    compiles = (eager is None or not d.gathers) and worth_compiling(program)
    function = None
    if visible == 1 and (eager is None or d.same_bits is not None):
        function = elementwise(program, d.same_bits or "" if eager is not None else "") or moved(program)
    if function is not None and compiles:                # until it is compiled
        eager, function = _all_of_it(function), None
    elif function is None:
        function = single(program) if eager is None and not compiles else None
        if function is None and visible == 1 and not compiles:
            function = straight(program)
            if eager is not None and function is not None:
                function = _of_operator(eager, attrs, function)
    d.known[key] = Known(program, attrs, eager, function, visible)


def elementwise(program: Program, loop: str = "") -> Callable[..., Any] | None:
    """A program of elementwise functions as a function in C of raw arrays (kernels/c/launcher_elementwise.h); None for
    other programs, and while the launcher is not there. loop: the name of one that does all of it, of some dtypes."""
    made = launcher.part("Elementwise")
    if made is None:
        return None
    otherwise = single(program) or straight(program)
    for steps in ((own_loop(program, loop) if loop else None), loops(program)):
        with contextlib.suppress(ValueError):            # a step has no inner loop
            if steps is not None:
                return made(*steps, otherwise, np.ufunc)                         # type: ignore[no-any-return]
    return None


def moved(program: Program) -> Callable[..., Any] | None:
    """A program that moves the elements of one small array as a function in C (kernels/c/launcher_strided.h); None for
    other programs, and while the launcher is not there."""
    made = launcher.part("Strided")
    found = None if made is None else places(program)
    with contextlib.suppress(ValueError):                # a dtype that is not NumPy's
        if found is not None:
            return made(*found, straight(program))                               # type: ignore[no-any-return]
    return None


def _all_of_it(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of raw arrays as an operator's own way."""
    return lambda xp, raws, attrs: [function(*raws)]


def _of_operator(eager: Callable[..., Any], attrs: Attrs, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """An operator's own way as a function of raw arrays. Where that gives nothing, having checked what the arrays hold
    perhaps, ``otherwise`` does it."""
    def function(*raws: np.ndarray) -> Any:
        found = eager(np, list(raws), attrs)
        return otherwise(*raws) if found is None else own(found[0], raws, np)
    return function


def counted(calls: int = 1) -> None:
    """Count calls that went through Python; after some of them those to come go through C, once that is built."""
    _slow[0] += calls
    if _slow[0] >= PATIENCE and not IN_C:
        _slow[0] = 0
        switch_to_c()


def switch_to_c() -> bool:
    """Have known calls done in C from now on, if the launcher is built; else it is being built, in the background.
    Whether they are done in C."""
    if WARNINGS is not None and not IN_C and (found := launcher.known_call(SCOPE, NDArray, NP_CLASS, *WARNINGS)):
        IN_C.append(found)
        launcher.part("numpys_types")([d.num for d in SUPPORTED])
        NUMPY_IN_C.append(launcher.part("numpys_call"))
        INTO.append(launcher.part("known_into"))
        for d in OPS.values():                           # what was noted has functions in Python, not those in C
            d.known.clear()
        for call in READY:
            call()
    return bool(IN_C)


def find(d: OpDef, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Known, list[np.ndarray]] | None:
    """What is known of a call, and the raw arrays of its inputs."""
    raws = raws_of(inputs)
    if raws is None:
        return None
    try:
        known = d.known.get(key_of(raws, attrs))
    except TypeError:
        return None
    return None if known is None else (known, raws)


def into(d: OpDef, inputs: Sequence[Any], attrs: Mapping[str, Any], out: Any) -> bool:
    """Compute a call straight into an array, where it is known to be one of NumPy's universal functions and the array
    has its result's shape and dtype. Whether that was done: then nothing has to be copied."""
    if CASTS or SCOPE.traces or SCOPE.symbolic or SCOPE.recording:
        return False
    if not isinstance(out, NDArray) or out._ag is not None:
        return False
    if INTO and not pending.PUT_OFF[0] and INTO[0](d.known, inputs, attrs, out):
        out._bump()
        return True
    call = find(d, inputs, attrs)
    target = raws_of((out, *inputs)) if call is not None else None
    function = getattr(call[0].function, "otherwise", call[0].function) if call is not None else None
    if call is None or target is None or not isinstance(function, np.ufunc):
        return False
    raw, = call[0].program.outputs
    if target[0].shape != raw.shape or target[0].dtype != raw.dtype:
        return False
    if pending.PUT_OFF[0]:
        pending.before_write(target[0])
    token = quiet()
    try:
        function(*call[1], out=target[0])
    finally:
        quietly(token)
    out._bump()
    return True


def by_function(function: Callable[..., Any], raws: Sequence[np.ndarray]) -> np.ndarray:
    """The result of what ``Known`` has as a function of raw arrays, in C order."""
    token = quiet()
    try:
        out = function(*raws)
    finally:
        quietly(token)
    return out if out.flags.c_contiguous else np.ascontiguousarray(out)
