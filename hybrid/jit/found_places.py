"""The places that a trace has found to be read, and what they held when they were found."""
from __future__ import annotations

from collections import deque
from array import array as Buffer
from types import CodeType, FunctionType, GeneratorType
from typing import Any, Callable, Iterable

import numpy as np

from ..buffers.array import NDArray
from ..graph.symbol import Symbol
from .free_variables import Contents, Place
from .replaced import LibraryClass, of_library
from .undoing import undoing

_ALWAYS = frozenset({"forward", "hybrid_forward", "__call__"})       # of blocks: this library calls them
_NOTED = (dict, list, tuple, set, frozenset, deque, bytearray, Buffer, np.ndarray)     # what changes.py puts back


class FoundPlaces:
    """What was found so far, and by which names code reads."""

    def __init__(self, note_array: Callable[[NDArray, Place], Any]):
        # told of each array and where it is, before the code reads it
        self._note_array = note_array
        self.names: set[str] = set(_ALWAYS)
        self._of_forwards: set[str] = set()                    # functions of nd that hybrid_forward names
        self.asked: set[str] = set()                           # names given to getattr
        self.every = False                                     # whether code reads attributes that no name tells of
        self.compares = False                                  # whether it compares or prints objects
        self.tells_apart = False                               # whether code asks which object a variable is
        self.tells_types = False                               # whether it may ask by ``type`` which is an integer
        self.places: dict[Any, Any] = {}
        self._undo: dict[Any, Any] = {}                        # what puts back the state of some of them
        self.values: dict[Any, Any] = {}                       # what they held when they were found
        self._codes: dict[int, CodeType] = {}                  # of the user's that ran
        self._others: dict[int, CodeType] = {}
        self._functions: dict[int, list[FunctionType]] = {}    # found, by their code
        self._fresh: dict[int, Any] = {}                       # objects that the code itself makes
        self._done: dict[int, Any] = {}
        self._roots: list[Any] = []
        self._spaces: list[tuple[dict[str, Any], frozenset[str]]] = []
        self.drew: list[str] = []                              # generators of random numbers that code drew from
        # (line, variable, how) of traced values of which code asks what they are
        self.types: list[tuple[str, str, str]] = []
        self.weak = False                                      # whether code looks through a weak reference
        self._called_in_error = False                          # whether an error was being handled then
        self.profiler = ""                                     # the line that asks for Python's profile hook
        self._given_out: list[Any] = []                        # what functions of libraries gave the code
        self.callers = ""                                      # the line that looks at what called the function
        self.outside: dict[str, str] = {}                      # what of the machine it read: where
        self._stood: list[tuple[Any, Any]] = []                # (what can be drawn from, where it stood)
        self._resumable: dict[int, GeneratorType[Any, Any, Any]] = {}     # generators among them, by their frames' id
        self._resumed: dict[int, str] = {}                     # those that ran on, and their lines
        self._at = ""
        self._opaque: dict[int, Any] = {}                      # objects whose state nothing shows
        self._blocks: dict[int, Any] = {}                      # blocks that can be reached
        self._memos: list[Any] = []                            # functions with a cache
        self._finished = False

    # ---- places
    def library(self, classes: Iterable[type]) -> None:
        """Note the classes of this library that some classes are or come from, in which methods may be replaced."""
        for cls in classes:
            ours = of_library(cls)
            if ours is not None:
                place = LibraryClass(ours)
                if place.key not in self.places:
                    self.places[place.key], self.values[place.key] = place, place.get()

    def _put(self, place: Any) -> Any:
        value = place.get()
        if place.key not in self.places and not isinstance(value, Symbol):
            self.places[place.key], self.values[place.key] = place, value
            if isinstance(place, Contents) and not self._finished and not isinstance(place.where, _NOTED):
                self._undo[place.key] = undoing(place.where)
            if isinstance(value, NDArray) and value._ag is None:
                self._note_array(value, place)
        return value

    def _ask(self, place: Any) -> None:
        if place is not None:
            self._put(place)

    def line(self) -> str:
        """Where the code begins."""
        return next((f"{c.co_filename}:{c.co_firstlineno}" for c in self._codes.values()), "<unknown>")
