"""How code at hand spells the library's functions, for hints in errors: ``F.where`` in ``hybrid_forward``, ``nd.where``
or ``np.where`` elsewhere, by the names under which the user imported them."""
from __future__ import annotations

import ast
import linecache
import sys
from types import FrameType, ModuleType
from typing import Any

from .errors import of_user

_SPACES = {"hybrid.ndarray": "nd", "hybrid.nd": "nd", "hybrid.numpy": "np"}


def user_frame() -> FrameType | None:
    """The innermost frame of code outside of this library."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not of_user(frame):
        frame = frame.f_back
    return frame


def functions(numpy: bool = False) -> str:
    """The name of the functions' module in the user's code that runs: ``F``, ``nd``, ``mx.np``, …

    numpy: whether those of ``hybrid.np`` are meant.
    """
    frame, wanted = user_frame(), "np" if numpy else "nd"
    if frame is None:
        return f"hybrid.{wanted}"
    if "F" in frame.f_code.co_varnames[:frame.f_code.co_argcount] or "F" in frame.f_code.co_freevars:
        return "F.np" if numpy else "F"
    known: dict[str, Any] = {**frame.f_globals, **frame.f_locals}
    for name, value in known.items():
        if isinstance(value, ModuleType) and _SPACES.get(value.__name__) == wanted and not name.startswith("_"):
            return name
    whole = next((k for k, v in known.items() if isinstance(v, ModuleType) and v.__name__ in ("hybrid", "mxnet")
                  and hasattr(v, wanted)), "hybrid")
    return f"{whole}.{wanted}"


def statement() -> str:
    """The kind of statement whose condition, or what it loops over, is at the user's line: while, if, assert, for;
    nothing where its source is not at hand."""
    frame = user_frame()
    if frame is None:
        return ""
    text = "".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals))
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return ""
    found: tuple[int, str] = (0, "")
    for node in ast.walk(tree):
        if isinstance(node, (ast.While, ast.If, ast.Assert, ast.IfExp, ast.For, ast.comprehension)):
            asked = node.iter if isinstance(node, (ast.For, ast.comprehension)) else node.test
            if asked.lineno <= frame.f_lineno <= (asked.end_lineno or asked.lineno) and asked.lineno >= found[0]:
                kind = type(node).__name__.lower()
                found = asked.lineno, {"ifexp": "if", "comprehension": "for"}.get(kind, kind)
    return found[1]
