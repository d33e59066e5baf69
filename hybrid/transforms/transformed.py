"""What a transformation gives: a callable object that pickles, and is copied, as the function that it is made of."""
from __future__ import annotations

import copy
import functools
from types import MethodType
from typing import Any, Callable

from ..base.errors import DTypeError, shortened, user_location
from ..base.pickles import name_of


class Transformed:
    """A function made of another one, with that one's name, docstring and signature; also works as a method."""
    what = "a transformation"

    def __init__(self, fn: Callable[..., Any], **settings: Any):
        if not callable(fn):
            raise DTypeError(f"{user_location()}: {self.what} takes a function or a Block, got {type(fn).__name__}: "
                             "give the function itself, and call what comes back with the arguments")
        functools.update_wrapper(self, fn, updated=())
        self._fn, self._settings = fn, settings
        self.__dict__.update(settings)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._called(args, kwargs)
        except Exception as err:
            shortened(err)
            raise

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a call."""
        raise NotImplementedError

    def __get__(self, owner: Any, cls: type | None = None) -> Any:
        return self if owner is None else MethodType(self, owner)

    def __repr__(self) -> str:
        inner = self._fn
        named = None if isinstance(inner, Transformed) else getattr(inner, "__qualname__", None)
        return f"<{self.what} of {named or repr(inner)}>"

    def __deepcopy__(self, memo: Any) -> "Transformed":
        """Itself, as copies of functions are, but of a copy of what has arrays of its own: a Block, a partial."""
        fn = copy.deepcopy(self._fn, memo)
        return self if fn is self._fn else type(self)(fn, **self._settings)

    def __reduce__(self) -> Any:
        """By its name, as functions are pickled; without one, made anew of its function, which may lead to it."""
        name = name_of(self)
        return name if name is not None else (type(self).__new__, (type(self),), (self._fn, self._settings))

    def __setstate__(self, state: tuple[Callable[..., Any], dict[str, Any]]) -> None:
        fn, settings = state
        self.__init__(fn, **settings)                             # type: ignore[misc]
