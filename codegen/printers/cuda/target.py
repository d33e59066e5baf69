"""The GPU that text is printed for, where forms depend on it."""
from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import Iterable, Iterator

import numpy as np

from hybrid.base.records import dataclass
from hybrid.ir import Node

# whose tensor cores multiply float32 (as tf32) at least four times as fast as their other units: data centre GPUs
FAST_TF32 = frozenset({80, 90, 100, 103})
NO_MAPS = "this program passes pointers only (exported programs have no tensor maps)"


@dataclass(frozen=True)
class Target:
    """A GPU's architecture (80 stands for sm_80), and the values that may be written where inputs lie. processors:
    blocks that run at once, one a multiprocessor, and may wait for each other; 0 where none may. no_maps: why launches
    take no tensor maps, empty where they do."""
    number: int = 90
    written: frozenset[Node] = frozenset()
    warpgroups: bool = False                               # whether it has products of warpgroups (sm_90a)
    processors: int = 0
    no_maps: str = NO_MAPS

    @property
    def tf32(self) -> bool:
        """Whether three products of tensor cores take less time than one of float32."""
        return self.number in FAST_TF32

    def halves(self, d: np.dtype) -> bool:
        """Whether its tensor cores multiply a type of 16 bits: before sm_80 they know float16 alone."""
        return d.name == "float16" or d.name == "bfloat16" and self.number >= 80


_current: ContextVar[Target] = ContextVar("target")
_USUAL = Target()


def current() -> Target:
    """The target of what is being printed."""
    return _current.get(_USUAL)


@contextmanager
def printing_for(arch: str, written: Iterable[Node] = (), processors: int = 0,
                 no_maps: str = NO_MAPS) -> Iterator[None]:
    """Scope in which kernels are printed for an architecture, as ``sm_90a``. written: new values of inputs. processors,
    no_maps: see ``Target``."""
    number = int("".join(filter(str.isdecimal, arch)))
    token = _current.set(Target(number, frozenset(written), arch == "sm_90a", processors, no_maps))
    try:
        yield
    finally:
        _current.reset(token)
