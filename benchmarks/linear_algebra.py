"""Hybridized linear algebra beside eager: ``np.linalg`` and ``nd.linalg`` of matrices of 4 to 400 rows, one thread.

    python benchmarks/linear_algebra.py [--gradients] [--compile] [SIZE …]

Rows are those where the hybridized function takes more than 1.03 of the eager one's time: the least of interleaved
runs, measured again where it seems slow. ``--gradients``: forward and backward passes, of the sum of the squares of
all results. ``--compile``: compile alone, so that the next run measures at once.
"""
from __future__ import annotations

import argparse
import os
import re
import time
from typing import Any, Callable, Iterator

os.environ |= {"HYBRID_COMPILE": "now", "OMP_NUM_THREADS": "1", "HYBRID_NUM_THREADS": "1", "HYBRID_SIGNATURES": "0"}

import numpy as onp  # noqa: E402

from hybrid import autograd, hybridize, nd, np  # noqa: E402
from hybrid.autograd import known_calls  # noqa: E402
from hybrid.runtime import launcher  # noqa: E402

# a: a square matrix, s: positive definite, l: its Cholesky factor, b: with n / 4 columns, v: a vector, t: two matrices
NUMPYS = """norm(a)|norm(a, 1)|norm(a, axis=1)|norm(a, 2)|norm(a, "nuc")|det(a)|slogdet(a)|inv(s)|solve(s, b)
solve(s, v)|cholesky(s)|qr(a)|svd(a)|eigh(s)|eigvalsh(s)|eig(s)|eigvals(s)|pinv(a)|tensorinv(s, 1)|tensorsolve(s, v)
multi_dot([a, s, a])|matrix_power(a, 3)|inv(t)|det(t)|solve(t, t)""".replace("\n", "|").split("|")
MXNETS = """gemm(a, s, a)|gemm2(a, s)|potrf(s)|potri(l)|trsm(l, a)|trmm(l, a)|sumlogdiag(s)|syrk(a)|gelqf(a)|syevd(s)
inverse(s)|det(a)|slogdet(a)|extractdiag(a)|makediag(v)|extracttrian(a)|trsm(l, a, rightside=True)
trsm(l, a, transpose=True)""".replace("\n", "|").split("|")


def matrices(n: int) -> dict[str, onp.ndarray]:
    """The arrays that the expressions name, with n rows."""
    draw = onp.random.default_rng(0).standard_normal
    a = draw((n, n))
    s = a @ a.T / n + onp.eye(n)
    made = {"a": a, "s": s, "l": onp.linalg.cholesky(s), "b": draw((n, max(1, n // 4))), "v": draw(n),
            "t": draw((2, n, n))}
    return {name: x.astype("float32") for name, x in made.items()}


def with_gradient(run: Callable[..., Any], given: list[Any]) -> Callable[[], None]:
    """A call of the function and the backward pass of it."""
    for x in given:
        x.attach_grad()

    def both() -> None:
        with autograd.record():
            found = run(*given)
            found = list(found) if isinstance(found, (tuple, list)) else [found]
            total = sum(((x * x).sum() for x in found[1:]), (found[0] * found[0]).sum())
        total.backward()
    return both


def pairs(sizes: list[int], gradients: bool) -> Iterator[tuple[str, Callable[[], Any], Callable[[], Any]]]:
    """Names, and the hybridized and the eager way to compute each."""
    for space, make, calls in ((np, np.array, NUMPYS), (nd, nd.array, MXNETS)):
        for call in calls:
            for n in sizes:
                values = matrices(n)
                names = [name for name in values if re.search(rf"\b{name}\b", call.split("(", 1)[1])]
                plain = eval(f"lambda {', '.join(names)}: linalg.{call}", {"linalg": space.linalg})
                made = hybridize(plain)
                ways = []
                for run in (made, plain):
                    given = [make(values[name]) for name in names]
                    ways.append(with_gradient(run, given) if gradients
                                else lambda run=run, given=given: run(*given))
                try:
                    for way in ways * 3:
                        way()
                except NotImplementedError:                          # without a gradient
                    continue
                if made.programs:
                    yield f"{space.__name__.split('.')[-1]}.linalg.{call} {n}", *ways


def least(ways: tuple[Callable[[], Any], ...]) -> list[float]:
    """Seconds of one call of each."""
    start = time.perf_counter()
    ways[1]()
    one = time.perf_counter() - start
    times, rounds, best = max(1, min(50, int(2e-4 / one))), 12 if one < 2e-2 else 3, [float("inf")] * 2
    for again in range(3):
        for _ in range(rounds):
            for side, run in enumerate(ways):
                start = time.perf_counter()
                for _ in range(times):
                    run()
                best[side] = min(best[side], (time.perf_counter() - start) / times)
        if best[0] <= 1.03 * best[1]:
            break
    return best


def main() -> None:
    """Print the rows where the hybridized function is slower, the slowest first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", nargs="*", type=int, default=[4, 32, 128, 400])
    parser.add_argument("--gradients", action="store_true", help="forward and backward passes")
    parser.add_argument("--compile", action="store_true", help="measure nothing")
    given = parser.parse_args()
    launcher.load()
    known_calls.switch_to_c()
    found = list(pairs(given.sizes, given.gradients))
    if given.compile:
        return
    measured = [(ours / theirs, name, ours, theirs) for name, *ways in found for ours, theirs in [least((*ways,))]]
    slow = sorted((row for row in measured if row[0] > 1.03), reverse=True)
    for ratio, name, ours, theirs in slow:
        print(f"{name:40} {ours * 1e6:10.1f} us   eager {theirs * 1e6:10.1f} us   {ratio:5.2f}")
    print(f"{len(measured)} rows, {len(slow)} slower than eager")


if __name__ == "__main__":
    main()
