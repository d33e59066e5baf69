"""What compiled calls write into arrays while ``autograd.record()`` is on."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

from hybrid import autograd, hybridize, nd


def _whole(x: Any, cache: Any) -> Any:
    cache[:] = (cache + x) * 3
    return (cache * cache).sum()


def _number(x: Any, cache: Any) -> Any:
    cache[:] = 3
    return (cache * cache * x).sum()


def _chosen(x: Any, cache: Any) -> Any:
    cache[:] = nd.where(nd.array([0, 1, 0]), x, cache)
    return (cache * cache * x).sum()


@pytest.mark.parametrize("of_range", [False, True], ids=["whole", "range"])
@pytest.mark.parametrize("f", [_whole, _number, _chosen])
def test_later_uses_go_on_from_what_a_call_wrote(f: Callable[[Any, Any], Any], of_range: bool) -> None:
    """An array with a gradient that a function writes: used before the call, written by two calls, used after them.
    MXNet refuses it; compiled and eager calls give what the same code gives where nothing is written in place."""
    found = []
    for call in (f, hybridize(f)):
        x, cache = nd.array([1, 2, 3]), nd.ones((5,))[1:4] if of_range else nd.ones((3,))
        x.attach_grad()
        cache.attach_grad()
        for _ in range(2):
            with autograd.record():
                y = (cache * cache * x).sum() + call(x, cache) + call(x * 2, cache) + (cache * x).sum()
            y.backward()
            found.append([v.asnumpy() for v in (y, x.grad, cache.grad, cache)])
    for eager, compiled in zip(found[:2], found[2:]):
        for a, b in zip(eager, compiled):
            np.testing.assert_allclose(a, b, rtol=1e-5)
    if f is _whole:                                          # of its first element: (1 + 1) 3 = 6, (6 + 2) 3 = 24
        np.testing.assert_array_equal(found[0][3][0], 24)
        np.testing.assert_array_equal(found[0][2][0], 2 + 2 * 6 * 3 + 2 * 24 * 9 + 9)
