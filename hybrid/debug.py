"""What HYBRID_DEBUG prints: 1 kernels and reasons, 2 memory map, 3 source, 4 cache misses. To standard error."""
from __future__ import annotations

import sys

from . import config
from .runtime.report import Report


def _print(text: str) -> None:
    print(text, file=sys.stderr)


def compiled(name: str, report: Report) -> None:
    """A program was compiled."""
    level = config.debug_level()
    if level >= 1:
        _print(f"hybrid: compiled {name} in {report.compile_seconds:.3f} s\n{report}")
    if level >= 2:
        for what, at, size in report.offsets:
            _print(f"  arena {at:>10} … {at + size:<10} {what}")
        for what, donor in report.in_place:
            _print(f"  in place: {what} over {donor}")
    if level >= 3:
        _print(report.source)


def missed(name: str, field: str) -> None:
    """A call matched no compiled program."""
    if config.debug_level() >= 4:
        _print(f"hybrid: {name}: cache miss, {field}")
