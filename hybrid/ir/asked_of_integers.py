"""What code of the user's asks of a symbolic size or of its class, as it could of an integer and of ``int``.

Where no answer could be that of an integer, ``Specialised`` is raised: each size has a program of its own then. Python
asks neither of them for ``type(size) is int`` and ``issubclass(type(size), int)``, which are found in the code
(jit/code_reads.py), nor in ``int``'s own methods, such as ``(6).__eq__(size)``.
"""
from __future__ import annotations

import sys
from typing import Any

from ..base.errors import asked_by_user, of_python, of_user, user_location
from .dimension import ASKED, Specialised

_OF_INTEGERS = frozenset(dir(int))
# ``dtype`` is what NumPy asks a class for to make a dtype of it
_OF_CLASSES = frozenset({*dir(int), *dir(type), "dtype"})
_OF_ARRAYS = frozenset({"__array__", "__array_interface__", "__array_struct__"})     # by which NumPy converts objects
_FOR_THEMSELVES = ("abc", "numpy")        # modules that look classes up: for caches, for arrays to compute with
_TYPE = type.__getattribute__


def _class_is_asked(frame: Any) -> bool:
    """Whether a frame asks, for the user's code, what a size's class is."""
    return asked_by_user(frame) and frame.f_globals.get("__name__", "").split(".")[0] not in _FOR_THEMSELVES


def _refuse_class() -> None:
    """Raises Specialised where the user's code asks something of the class of a size."""
    if ASKED.traced and _class_is_asked(sys._getframe(2)):
        raise Specialised(f"{user_location()}: the code asks what type() gives for a size")


class ClassOfSizes(type):
    """The class of a class that stands for integers."""

    def __eq__(cls, other: object) -> bool:
        _refuse_class()
        return cls is other

    def __hash__(cls) -> int:
        _refuse_class()
        return type.__hash__(cls)

    def __repr__(cls) -> str:
        _refuse_class()
        return type.__repr__(cls)

    def __getattribute__(cls, name: str) -> Any:
        if name in _OF_CLASSES:
            _refuse_class()
        return _TYPE(cls, name)


class AskedAsInteger(metaclass=ClassOfSizes):
    """A number that stands for an integer: it has not all of its attributes, and NumPy makes no array of integers of
    it."""
    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if ASKED.traced:
            frame = sys._getframe(1)
            if name in _OF_INTEGERS and asked_by_user(frame):
                raise Specialised(f"{user_location()}: the code needs {name} of a size")
            if name in _OF_ARRAYS and of_user(frame) and not of_python(frame):     # numpy.prod(shape) computes
                raise Specialised(f"{user_location()}: NumPy makes an array of a size")
        raise AttributeError(f"'int' object has no attribute {name!r}", name=name, obj=self)
