"""``debug.print`` and ``debug.breakpoint``: real values, eagerly and at each call of a compiled program."""
from __future__ import annotations

import ast
import builtins
import os
import pdb
import sys
from types import FrameType
from typing import Any, TypeVar

from ..base.errors import AttributeValueError, of_user, user_location
from ..base.scope import tracing
from ..buffers.array import NDArray
from ..graph.symbol import Symbol

T = TypeVar("T")
_OWN = "__debug_values__"


def print(x: T, name: str = "", file: Any = None) -> T:  # noqa: A001  the name that Python has for it
    """Print the line, name, dtype, shape and numbers of an array; give it back.

    In hybridized code the numbers are printed at each call of the compiled program, which gives the value beside its
    results. In the body of a loop such calls run as plain Python, and a warning says so. Under ``vmap`` the value of
    each example is printed. file: where to, by default standard output.

    >>> import hybrid as mx
    >>> from hybrid import debug, nd
    >>> @mx.hybridize
    ... def f(x):
    ...     y = debug.print(x * 2, "y")
    ...     return y + 1
    >>> for k in (1, 2):
    ...     total = f(nd.full((3,), k)).sum()
    y float32(3,): [2. 2. 2.]
    y float32(3,): [4. 4. 4.]
    """
    title = name or user_location()

    def say(value: Any) -> None:
        builtins.print(_text(title, value), file=file if file is not None else sys.stdout)
    _given(x, say, "debug.print")
    return x


def _text(title: str, value: Any) -> str:
    if not isinstance(value, NDArray):
        return f"{title}: {value!r}"
    numbers = str(value.asnumpy())
    return f"{title} {value._data.dtype}{value.shape}:{chr(10) if chr(10) in numbers else ' '}{numbers}"


def _given(values: Any, call: Any, what: str) -> None:
    """Call a function with values: now, or in traced code at each call of the program."""
    trace = tracing()
    if trace is not None:
        trace.watch(values, call, what, user_location())
    elif isinstance(values, Symbol):
        raise AttributeValueError(f"{user_location()}: {what} was given a Symbol, which has no numbers: bind it, or "
                                  f"call "
                                  "the block with arrays")
    else:
        call(values)


def breakpoint(*values: Any, when: Any = None) -> None:  # noqa: A001  the name that Python has for it
    """Stop in the debugger (pdb, or what PYTHONBREAKPOINT names) with the numbers of this moment.

    Eagerly it stops as ``breakpoint()`` does. In hybridized code it stops at each call of the compiled program, when
    that has run, with the variables of the function as they were at this line, arrays instead of traced values; the
    function cannot be stepped through; under ``vmap`` it stops for each example. values: shown as ``values`` too, which
    need no variable. when: one number, an array or traced; it stops only where that is not 0.
    """
    frame = _user_frame()
    if tracing() is None:
        if when is None or bool(when):
            _stop_in(frame)
        return
    names = {k: v for k, v in {**frame.f_locals}.items() if _can_be_shown(v)}
    file, line, outside = frame.f_code.co_filename, frame.f_lineno, frame.f_globals

    def stop(found: Any) -> None:
        shown, given, wanted = found
        if wanted is None or float(wanted.asnumpy().reshape(()) if isinstance(wanted, NDArray) else wanted):
            _stop_among({**outside, **shown, "values": given}, file, line)
    _given((names, values, when), stop, "debug.breakpoint")


def _can_be_shown(value: Any) -> bool:
    """Whether a variable is an array, a traced value, or containers of them and of plain values."""
    if isinstance(value, (list, tuple)):
        return all(map(_can_be_shown, value))
    if isinstance(value, dict):
        return all(isinstance(k, str) and _can_be_shown(v) for k, v in value.items())
    return isinstance(value, (Symbol, NDArray, int, float, str, bool, type(None)))


def _user_frame() -> FrameType:
    frame: Any = sys._getframe(1)
    while not of_user(frame) and frame.f_back is not None:
        frame = frame.f_back
    return frame


def _stop_in(frame: FrameType) -> None:
    """Stop in a frame that runs."""
    if sys.breakpointhook is sys.__breakpointhook__ and os.environ.get("PYTHONBREAKPOINT", "") in ("", "pdb.set_trace"):
        pdb.Pdb().set_trace(frame)
    else:
        sys.breakpointhook()


def _stop_among(variables: dict[str, Any], file: str, line: int) -> None:
    """Stop at a line of a function that is not running, with variables as they were there."""
    code = ast.parse(f"{_OWN}()\nNone")
    ast.increment_lineno(code, max(line, 1) - 1)
    exec(compile(code, file, "exec"), {**variables, _OWN: sys.breakpointhook})
