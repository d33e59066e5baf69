"""Errors from a block's computation say which block it is, where in the user's file, and how ``hybrid_forward`` is
called."""
from __future__ import annotations

import inspect
from typing import Any, Iterable

from ..base.names import module_of
from ..base.errors import AttributeValueError, DTypeError, ShapeError, raised_at, user_location


def blame(block: Any, err: Exception, inputs: int, params: Iterable[str]) -> None:
    """Complete an error that came out of ``block.hybrid_forward``, called with so many inputs and these parameters;
    innermost blocks come first."""
    if getattr(err, "block", None) is not None or not err.args:
        return
    if isinstance(err, (ShapeError, DTypeError, AttributeValueError)):
        err.args = (f"{err} [in {type(block).__name__} {block.name}, at {raised_at(err) or user_location()}]",
                    *err.args[1:])
    elif type(err) is TypeError and _of_library(type(block)) and _takes(block, params) not in (None, inputs):
        err.args = (f"{user_location()}: {type(block).__name__} takes {_takes(block, params)} input"
                    f"{'s' * (_takes(block, params) != 1)}, got {inputs}",
                    *err.args[1:])
    elif type(err) is TypeError and err.__traceback__ is not None and err.__traceback__.tb_next is None:
        # the call itself
        names = list(params)
        given = "F, the input" if inputs == 1 else f"F, {inputs} inputs"
        every = ", ".join(["self", "F", *(["x"] if inputs == 1 else [f"x{i}" for i in range(inputs)]), *names])
        err.args = (f"{err}. It is called with {given} and the block's parameters by name "
                    f"({', '.join(names) or 'none'}): "
                    f"def hybrid_forward({every})", *err.args[1:])
    else:
        return
    setattr(err, "block", block.name)


def _of_library(cls: type) -> bool:
    return module_of(cls).split(".")[0] == "hybrid"


def _takes(block: Any, params: Iterable[str]) -> int | None:
    """How many inputs a block's ``hybrid_forward`` takes; None where that differs from call to call."""
    given = inspect.signature(block.hybrid_forward).parameters
    own = [p for k, p in given.items() if k not in set(params)]
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) or p.default is not p.empty for p in own):
        return None
    return len(own) - 1                                          # without F
