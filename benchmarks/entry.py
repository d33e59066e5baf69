"""What a call costs around its C code: a compiled network of 20 parameters on small arrays, timed as ``net(x)`` and as
a loop in C over the same program, taking turns. Beside them stands an empty call of a Python function, as a measure of
the machine. Below: whole calls of small functions.

python benchmarks/entry.py [--seconds 3]
"""
from __future__ import annotations

import os

os.environ.setdefault("HYBRID_NUM_THREADS", "1")
os.environ.setdefault("HYBRID_COMPILE", "now")        # what is timed is compiled

import argparse  # noqa: E402
import time  # noqa: E402
from typing import Any, Callable  # noqa: E402

import cffi  # noqa: E402
import numpy as np  # noqa: E402

import hybrid as mx  # noqa: E402
from hybrid import nd  # noqa: E402
from hybrid.gluon import nn  # noqa: E402
from hybrid.runtime import shared_objects  # noqa: E402
from hybrid.runtime.cpu import Bound  # noqa: E402

CALLS = 4000
LOOP = ("typedef void (*Net)(void **); void repeat(void *net, void **table, long n) { for (long i = 0; i < n; i++) "
        "((Net)net)(table); }")


class Programs:
    """The tables with which programs are bound to their parameters."""

    def __init__(self) -> None:
        self.bound: list[Bound] = []
        real = Bound.__init__

        def made(bound: Bound, *args: Any) -> None:
            real(bound, *args)
            self.bound.append(bound)
        Bound.__init__ = made                                    # type: ignore[method-assign]


def in_c(bound: Bound, x: np.ndarray) -> Callable[[int], None]:
    """The bound program, called so many times from C."""
    ffi = cffi.FFI()
    ffi.cdef("void repeat(void *net, void **table, long n);")
    library = ffi.dlopen(str(shared_objects.build(LOOP)[0]))
    table, arena = bound._table()
    fresh = [np.empty(shape, dtype) for shape, dtype in bound.program._new]
    for i, a in [*((i, x) for i, _, _ in bound._checks), *((bound._first + k, a) for k, a in enumerate(fresh))]:
        table[i] = ffi.cast("void *", a.ctypes.data)
    net, kept = ffi.cast("void *", int(ffi.cast("uintptr_t", bound.program._net))), (table, arena, fresh, x)

    def run(n: int) -> None:
        assert kept
        library.repeat(net, ffi.cast("void **", table), n)
    return run


def main() -> None:
    """The figures."""
    options = argparse.ArgumentParser()
    options.add_argument("--seconds", type=float, default=3)
    seconds = options.parse_args().seconds
    programs = Programs()
    net = nn.HybridSequential()
    net.add(*[nn.Dense(4, activation="relu", in_units=4) for _ in range(10)])
    net.initialize(mx.init.Xavier())
    net.hybridize(static_alloc=True, static_shape=True)
    x = nd.ones((1, 4))
    for _ in range(5):
        net(x)
    c = in_c(programs.bound[-1], x.asnumpy())

    def nothing(a: Any) -> Any:
        return a

    def python(function: Callable[[Any], Any]) -> float:
        begin = time.perf_counter()
        for _ in range(CALLS):
            function(x)
        return (time.perf_counter() - begin) / CALLS

    def inside() -> float:
        begin = time.perf_counter()
        c(CALLS)
        return (time.perf_counter() - begin) / CALLS
    turns: list[tuple[float, float, float]] = []
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop:
        turns.append((python(net), inside(), python(nothing)))
    for name, pick in (("medians", np.median), ("least", np.min)):
        call, code, empty = (float(pick([t[i] for t in turns])) * 1e6 for i in range(3))
        print(f"{name:8} call {call:.3f} us, its C code {code:.3f} us, around it {call - code:.3f} us; an empty "
              f"function {empty:.3f} us")
    print(f"{len(net.collect_params())} parameters, {len(turns)} turns of {CALLS} calls")
    for name, function in (("x * x + 1", lambda x: x * x + 1), ("x * 2, x + 1", lambda x: (x * 2, x + 1))):
        compiled = mx.hybridize(function)
        python(compiled)
        print(f"{name:14} {min(python(compiled) for _ in range(20)) * 1e6:.3f} us a call, NumPy "
              f"{min(python_numpy(function, x) for _ in range(20)) * 1e6:.3f} us")


def python_numpy(function: Callable[[Any], Any], x: Any) -> float:
    """Seconds of a call on NumPy arrays."""
    a = x.asnumpy()
    begin = time.perf_counter()
    for _ in range(CALLS):
        function(a)
    return (time.perf_counter() - begin) / CALLS


if __name__ == "__main__":
    main()
