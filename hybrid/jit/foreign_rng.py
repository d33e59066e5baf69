"""Random numbers of Python's and NumPy's own generators: drawn by traced code they become constants of the compiled
program, which is said."""
from __future__ import annotations

import ctypes
import struct
import sys
import warnings
from typing import Any

import numpy as np

from ..base.errors import user_location


_FRESH = struct.pack("i", 623)               # the place in a state that was just seeded


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


def warn_if_moved(before: dict[str, Any], name: str) -> None:
    """A warning where a generator stands elsewhere than before a trace of something called ``name``."""
    after = states()
    moved = [kind for kind, state in after.items()
             if (state != before[kind] if kind in before else kind == "numpy.random" and state[-4:] != _FRESH)]
    if moved:
        warnings.warn(f"{user_location()}: {name or 'this function'} drew random numbers from {' and '.join(moved)} "
                      f"while it was compiled: they stay the same "
                      "at every call. Draw them by hybrid.nd.random (F.random), or outside of it and give them as "
                      "arguments.", stacklevel=2)
