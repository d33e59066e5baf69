"""Monitor: statistics of a network's values and parameters while a module is trained."""
from __future__ import annotations

import logging
import re
from typing import Any, Callable

from ..buffers.array import NDArray
from .executor import Executor
from ..nd.functions import resolve


def size(x: NDArray) -> NDArray:
    """The norm of an array over the root of its size."""
    return resolve("nd", "norm")(x) / x.size ** 0.5


class Monitor:
    """Watches executors every ``interval`` batches.

    stat_func: from an array to an array or number (by default norm / sqrt(size)). pattern: regular expression of the
    names to watch: outputs of operators, arguments, states. sort: results by name. monitor_all: inputs of operators
    too.

    >>> mod.fit(train, num_epoch=1, monitor=Monitor(100, pattern=".*weight"))                    # doctest: +SKIP
    """

    def __init__(self, interval: int, stat_func: Callable[[NDArray], Any] | None = None, pattern: str = ".*",
                 sort: bool = False, monitor_all: bool = False):
        self.interval, self.stat_func, self.sort, self.monitor_all = interval, stat_func or size, sort, monitor_all
        self.re_prog = re.compile(pattern)
        self.exes: list[Executor] = []
        self.activated, self.step = False, 0
        self._inside: list[tuple[str, NDArray]] = []

    def install(self, exe: Executor) -> None:
        """Watch an executor too."""
        if exe not in self.exes:
            self.exes.append(exe)
            if self.activated:
                exe.set_monitor_callback(self._note, self.monitor_all)

    def tic(self) -> None:
        """Call before a batch: collects the statistics of this one if it is its turn."""
        self.activated = self.step % self.interval == 0
        self.step += 1
        self._inside = []
        for exe in self.exes if self.activated else ():
            exe.set_monitor_callback(self._note, self.monitor_all)

    def _note(self, name: str, value: NDArray) -> None:
        """Keep a value inside of a forward, before the parameters change."""
        if self.activated:
            self._inside.append((name, value))

    def toc(self) -> list[tuple[int, str, str]]:
        """Call after a batch: (number of the batch, name, statistic as text) of what was watched."""
        if not self.activated:
            return []
        self.activated = False
        now = [row for exe in self.exes if exe.outputs for row in (*exe.arg_dict.items(), *exe.aux_dict.items())]
        found = [(name, x) for name, x in (*self._inside, *now) if self.re_prog.match(name)]
        for exe in self.exes:
            exe._monitor = None
        if self.sort:
            found.sort(key=lambda row: row[0])
        return [(self.step, name, _text(self.stat_func(x))) for name, x in found]

    def toc_print(self) -> None:
        """``toc``, logged."""
        for step, name, value in self.toc():
            logging.info("Batch: %7d %-30s %s", step, name, value)


def _text(value: Any) -> str:
    values = value if isinstance(value, (list, tuple)) else [value]
    return "".join(f"{str(v.asnumpy().ravel()[0] if v.size == 1 else v.asnumpy()) if isinstance(v, NDArray) else v}\t"
                   for v in values)


__all__ = ["Monitor"]
