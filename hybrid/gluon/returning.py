"""What a call of a block gives, for type checkers: ``Block[tuple[NDArray, NDArray]]`` is a block that gives two arrays,
a plain ``Block`` gives one."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..buffers.array import NDArray

if TYPE_CHECKING:
    from typing import Generic

    from typing_extensions import TypeVar

    Result = TypeVar("Result", default=NDArray)

    class Returning(Generic[Result]):
        """Base of Block: the type of a call's result."""

        def __call__(self, *args: Any, **kwargs: Any) -> Result: ...
else:
    Result = NDArray

    class Returning:
        """Base of Block: ``Block[type]`` is Block itself when a program runs."""

        def __class_getitem__(cls, result):
            return cls

__all__ = ["Result", "Returning"]
