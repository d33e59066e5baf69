"""Every error the library raises on purpose, and the user's own line for it."""
from __future__ import annotations

import contextlib
import sys
import warnings
from opcode import opmap
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, TypeVar

import numpy
from numpy.linalg import LinAlgError

from . import config

# also through links
_HERE = tuple(dict.fromkeys(str(place.parents[2] / name) + "/"
                            for place in (Path(__file__), Path(__file__).resolve())
                            for name in ("hybrid", "codegen", "kernels")))
# what is typed into Python or IPython, beside files
_TYPED = ("<stdin>", "<python-input", "<ipython-input")
_NUMPY = str(Path(numpy.__file__).parent) + "/"
_PYTHON = str(Path(contextlib.__file__).parent) + "/"                      # its own modules; packages lie deeper


class HybridError(RuntimeError):
    """Base of all errors raised by this library (MXNet's name for it is ``MXNetError``)."""


MXNetError = HybridError


# MXNet checks arguments with assert, with ValueError and with TypeError, and programs catch what it raises: these are
# all of them.
class ShapeError(HybridError, ValueError, AssertionError):
    """Shapes that do not fit an operator or a parameter."""


class SingularMatrixError(HybridError, LinAlgError):
    """A matrix that has no inverse, or is not positive definite where it must be."""


class RangeError(HybridError, IndexError):
    """An index that is not within an array."""


class KeyKindError(RangeError, ValueError):
    """What is no index at all: text, a number with a fraction (NumPy's error and MXNet's)."""


class DTypeError(HybridError, TypeError, AssertionError):
    """A dtype that an operator does not take."""


class AttributeValueError(HybridError, ValueError, TypeError, AssertionError):
    """An argument or attribute that is unknown, missing or out of range."""


class TraceError(HybridError, TypeError):
    """Python code asked a traced value for something that is known only when the program runs."""


class NotImplementedForSymbol(HybridError):
    """A method of arrays that Symbols do not have."""

    def __init__(self, function: Any, alias: str | None = None, *args: Any):
        super().__init__(f"Function {getattr(function, '__name__', function)}"
                         + (f" (namely operator \"{alias}\")" if alias else "") +
                         (f" with arguments ({', '.join(str(type(a)) for a in args)})" if args
                          else "") + " is not implemented for Symbol and only available in NDArray.")


class NotSupportedForSparseNDArray(AttributeValueError):
    """What dense arrays can do and sparse ones cannot. function: its name, or the function."""

    def __init__(self, function: Any, alias: str | None = None, *args: Any):
        super().__init__(f"Function {getattr(function, '__name__', function)} is not supported for sparse arrays: use "
                         f"x.tostype('default') first")


class UnevaluatedError(TraceError, NotImplementedForSymbol):
    """Numbers asked for of a value that has none yet."""

    def __init__(self, text: str):
        HybridError.__init__(self, text)


class NonFiniteError(HybridError, FloatingPointError):
    """A NaN or an infinity, while they are looked for (``debug.check_finite``)."""


class TooLargeError(HybridError, MemoryError):
    """An array or a program's memory that is larger than the system gives."""


class OrderError(HybridError, AssertionError):
    """A call in the wrong order, or on an object that was made for another use (a file opened for reading is written).
    """


class DeviceError(HybridError):
    """A device that is not there, or arrays on two devices in one call."""


class OutOfMemoryError(DeviceError, MemoryError):
    """A device has too little free memory."""


class DeferredInitializationError(HybridError, ValueError):
    """A parameter whose shape is not known yet."""


class CompileError(HybridError):
    """The C or CUDA compiler refused a generated program; the message names the source file."""


class FileFormatError(HybridError, ValueError, AssertionError):
    """A model file that is truncated, hostile, of an unknown format or of another model."""


class InternalError(HybridError):
    """An error of the library itself; MXNet's name, for programs that catch it."""


class MissingFileError(HybridError, FileNotFoundError):
    """A file that is not there, or a folder to write to (MXNet raises MXNetError)."""


def _of_user(frame: FrameType | None) -> tuple[FrameType | None, int]:
    """The innermost frame of the user's code, this one or one that called it, None where there is none; and the number
    of frames before it."""
    between = 0
    while frame is not None and _OWNERS[frame.f_code.co_filename] != "user":
        frame, between = frame.f_back, between + 1
    return frame, between


def user_location() -> str:
    """``file.py:12`` of the innermost frame outside this library and NumPy, or ``<unknown>``."""
    frame, _ = _of_user(sys._getframe(1))
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "<unknown>"


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Give a warning that shows the user's line, as ``user_location`` finds it; if there is none, the caller's line."""
    frame, between = _of_user(sys._getframe(1))
    warnings.warn(message, category, stacklevel=between + 2 if frame is not None else 2)


def line_of(function: Any) -> str:
    """``file.py:12``, where a function of the user's begins; where it is called, if it is none of Python's code."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else user_location()


def raised_at(err: BaseException) -> str:
    """``file.py:12`` of the innermost frame outside this library that an error came through, or nothing."""
    found, at = "", err.__traceback__
    while at is not None:
        if of_user(at.tb_frame):
            found = f"{at.tb_frame.f_code.co_filename}:{at.tb_lineno}"
        at = at.tb_next
    return found


_All = TypeVar("_All", bound=BaseException)


def shortened(err: _All) -> _All:
    """An error whose traceback shows the user's frames and the first one of this library's, as do those of its causes.

    Frames of this library stay where an error is none that it raises on purpose, and with HYBRID_DEBUG.
    """
    if config.debug_level() or not (isinstance(err, HybridError) or _raised_by_user(err) or _on_purpose(err)):
        return err
    seen: set[int] = set()
    one: BaseException | None = err
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        one.__traceback__ = _users(one.__traceback__, one is err)
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
    return err


def _raised_by_user(err: BaseException) -> bool:
    """Whether an error came out of a frame of the user's, or of another library called from one."""
    at, own = err.__traceback__, False
    while at is not None:
        own = at.tb_frame.f_code.co_filename.startswith(_HERE)
        at = at.tb_next
    return not own


def _on_purpose(err: BaseException) -> bool:
    """Whether a ``raise`` of this library raised an error of Python's own, such as an IndexError."""
    at = err.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return (at is not None and at.tb_frame.f_code.co_filename.startswith(_HERE)
            and at.tb_frame.f_code.co_code[at.tb_lasti] == opmap["RAISE_VARARGS"])


def _users(at: TracebackType | None, with_first: bool) -> TracebackType | None:
    """A traceback without this library's frames, but for the first of them, and without those of Python and NumPy below
    them."""
    kept, entered = [], False
    while at is not None:
        ours = at.tb_frame.f_code.co_filename.startswith(_HERE)
        if with_first and not entered if ours else not (entered and of_python(at.tb_frame)):
            kept.append(at)
        entered, at = entered or ours, at.tb_next
    below: TracebackType | None = None
    for entry in reversed(kept):
        below = TracebackType(below, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return below


class _Owners(dict[str, str]):
    """Whose code a source file holds: "library", "numpy" or "user". Every frame of every stack is asked for it, so each
    file is looked at once."""

    def __missing__(self, name: str) -> str:
        typed = name.startswith(_TYPED) or name == "<string>" and sys.argv[:1] == ["-c"]
        ours = name.startswith(_HERE) or name.startswith("<") and not typed
        self[name] = owner = "library" if ours else "numpy" if name.startswith(_NUMPY) else "user"
        return owner


_OWNERS = _Owners()


def of_user(frame: FrameType) -> bool:
    """Whether a frame runs code outside of this library."""
    return _OWNERS[frame.f_code.co_filename] != "library"


def of_python(frame: FrameType) -> bool:
    """Whether a frame runs code of Python's own modules, or of NumPy."""
    name = frame.f_code.co_filename
    return name.startswith((_PYTHON, _NUMPY)) and "site-packages" not in name.removeprefix(_NUMPY) or (
        name.startswith("<frozen "))


def asked_by_user(frame: FrameType | None) -> bool:
    """Whether the caller is code of the user's, directly or through Python's or NumPy's modules. frame: the frame that
    made the call."""
    while frame is not None and not frame.f_code.co_filename.startswith(_HERE):
        if not of_python(frame):
            return of_user(frame)
        frame = frame.f_back
    return False


def given_symbols(frame: FrameType) -> bool:
    """Whether code of the user's runs for a ``hybrid_forward``, which Gluon's contract gives Symbols when it is
    compiled."""
    at: FrameType | None = frame
    while at is not None and of_user(at):
        if at.f_code.co_name == "hybrid_forward":
            return True
        at = at.f_back
    return False
