"""Errors as a person sees them: a traceback that ends a program, a thread or a cell of a notebook shows the user's
frames and the first one of this library's. HYBRID_DEBUG=1 shows all of them.

Code that catches an error finds its traceback as Python made it, but for errors of operators and compiled calls, which
are shortened where they are raised. Nothing here runs while there is no error.
"""
from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import Any, Callable

from .errors import of_python, of_user, shortened


def install() -> None:
    """Show errors so, through whatever shows them now."""
    if not getattr(sys.excepthook, "_shortens", False):
        sys.excepthook = _shortening(sys.excepthook)
        threading.excepthook = _in_threads(threading.excepthook)
    if "IPython" in sys.modules:
        _in_ipython(sys.modules["IPython"].get_ipython())


def shown(err: BaseException) -> TracebackType | None:
    """The traceback of an error. What runs a program of the user's (``python -m hybrid.as_mxnet``) is no part of it."""
    at = program = shortened(err).__traceback__
    while program is not None and not (of_user(program.tb_frame) and not of_python(program.tb_frame)):
        program = program.tb_next
    if program is not None and at is not None and not of_user(at.tb_frame):
        err.__traceback__ = program
    return err.__traceback__


def _shortening(show: Callable[..., Any]) -> Callable[..., Any]:
    def hook(kind: type[BaseException], err: BaseException, trace: TracebackType | None) -> None:
        """Show an error that nobody caught."""
        show(kind, err, shown(err) if err is not None and err.__traceback__ is trace else trace)
    hook._shortens = True  # type: ignore[attr-defined]
    return hook


def _in_threads(show: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def hook(given: Any) -> None:
        """Show an error that ended a thread."""
        if given.exc_value is not None and given.exc_value.__traceback__ is given.exc_traceback:
            err = given.exc_value
            given = threading.ExceptHookArgs((given.exc_type, err, shown(err), given.thread))
        show(given)
    return hook


def _in_ipython(shell: Any) -> None:
    """IPython shows errors by itself, those of cells and of programs that it runs."""
    show = getattr(shell, "showtraceback", None)
    if show is None or getattr(show, "_shortens", False):
        return

    def showtraceback(exc_tuple: Any = None, *args: Any, **options: Any) -> None:
        """Show an error, the current one if none is given."""
        err = (exc_tuple or sys.exc_info())[1]
        show((type(err), err, shown(err)) if isinstance(err, BaseException) else exc_tuple, *args, **options)
    showtraceback._shortens = True  # type: ignore[attr-defined]
    shell.showtraceback = showtraceback
