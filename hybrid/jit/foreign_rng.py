"""Random numbers of Python's and NumPy's own generators: a program cannot draw them, so that code which does runs as
plain Python, which is said."""
from __future__ import annotations

import ctypes
import struct
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.errors import user_location, warn_user

if TYPE_CHECKING:
    from .reads import Reader


_FRESH = struct.pack("i", 623)               # the place in a state that was just seeded


def _global_generator(kind: str) -> Any:
    """The object behind the functions of a module: of numpy.random, else of Python's random."""
    return np.random.mtrand._rand if kind == "numpy.random" else sys.modules["random"]._inst   # type: ignore[attr-defined]


def states() -> dict[str, Any]:
    """Where the global generators stand; what nobody imported is left out."""
    out: dict[str, Any] = {}
    if "random" in sys.modules:
        out["Python's random"] = sys.modules["random"].getstate()
    # NumPy imports it when somebody uses it, which takes long
    if "numpy.random" in sys.modules:
        find = getattr(np.random, "get_bit_generator", None)     # since NumPy 1.24
        generator = (find() if find is not None
                     else np.random.mtrand._rand._bit_generator)     # type: ignore[attr-defined]
        # its 624 words and the place among them: get_state() takes 30 times as long
        if type(generator) is np.random.MT19937:
            out["numpy.random"] = ctypes.string_at(generator.ctypes.state_address, 625 * 4)
    return out


def drawn_from(before: dict[str, Any], reader: "Reader") -> list[str]:
    """The generators whose state has changed since ``before`` a trace, and which the traced code can have drawn from as
    far as ``reader`` saw: another thread, as of a loader that augments images, may have drawn meanwhile."""
    elsewhere = [kind for kind, state in states().items()
                 if (state != before[kind] if kind in before else kind == "numpy.random" and state[-4:] != _FRESH)]
    if len(sys._current_frames()) == 1:
        return elsewhere
    return [kind for kind in elsewhere if reader.reaches(_global_generator(kind))]


def warn(kinds: list[str], name: str) -> None:
    """Say that something called ``name`` drew from generators, and what follows."""
    warn_user(f"{user_location()}: {name or 'this function'} drew random numbers from {' and '.join(kinds)}, which "
              f"a compiled program cannot do: such calls run as plain Python. Draw them by hybrid.nd.random, "
              f"or outside of it and give them as arguments.")
