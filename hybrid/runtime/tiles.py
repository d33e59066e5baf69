"""Tile registers (AMX): whether this process may use them. Linux gives them to processes that ask."""
from __future__ import annotations

import ctypes
import sys
from functools import lru_cache
from typing import Sequence

from ..base import config

FEATURES = frozenset({"amx_tile", "amx_bf16", "amx_int8"})
# of Linux for x86-64: arch_prctl(ARCH_REQ_XCOMP_PERM, state of tiles)
PRCTL, ASK, DATA = 158, 0x1023, 18
# what an assembler must know
TEXT = 'void net(void **p) { (void)p; __asm__ volatile("tilezero %tmm0"); }'


@lru_cache(maxsize=1)
def permitted() -> bool:
    """Whether the system lets this process, its threads and its children use tiles, from now on."""
    if sys.platform != "linux" or sys.maxsize < 2**32:
        return False
    try:
        return ctypes.CDLL(None).syscall(ctypes.c_long(PRCTL), ctypes.c_long(ASK), ctypes.c_long(DATA)) == 0
    except (OSError, AttributeError):
        return False


def wanted(features: Sequence[str]) -> bool:
    """Whether there are tiles for this process: the processor's (some of its ``features``), or their model in C."""
    setting = config.amx()
    return setting == "model" or setting != "0" and FEATURES.issubset(features) and permitted()


def flags() -> tuple[str, ...]:
    """Flags of the C compiler that put the model in the place of the instructions."""
    return ("-DHYT_MODEL",) if config.amx() == "model" else ()
