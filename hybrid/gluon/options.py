"""Keyword arguments that layers hand on, for type checkers: a name that is none of them is an error."""
from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from .parameter import ParameterDict


class BlockOptions(TypedDict, total=False):
    """What every block takes."""
    prefix: str | None
    params: ParameterDict | None
