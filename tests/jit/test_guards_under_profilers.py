"""Guards see the code of a trace while a profiler of the user's watches too."""
from __future__ import annotations

import pstats
import sys

import numpy as onp
import pytest

from hybrid import hybridize, nd

X = nd.array([1.0])


def test_a_profiler_sees_the_code_too():
    seen = []
    sys.setprofile(lambda frame, event, arg: seen.append(frame.f_code.co_name))
    try:
        hybridize(lambda x: nd.relu(x))(X)
    finally:
        hook = sys.getprofile()
        sys.setprofile(None)
    assert "<lambda>" in seen and hook is not None


@pytest.mark.parametrize("profiler", ["cProfile", "profile", "function"])
def test_a_profiler_may_watch_a_trace(profiler: str) -> None:
    """Traced code is found by Python's profile hook, which a user's profiler has before."""
    @hybridize
    def f(x):
        return x * 2
    seen: list[str] = []
    if profiler == "function":
        sys.setprofile(lambda frame, event, arg: seen.append(event))
        try:
            out = f(nd.ones((2,)))
        finally:
            still = sys.getprofile()
            sys.setprofile(None)
        assert still is not None and "call" in seen
    else:
        watch = __import__(profiler).Profile()
        out = watch.runcall(f, nd.ones((2,)))
        assert any(name == "slow_path" for _, _, name in pstats.Stats(watch).stats)
    assert sys.getprofile() is None
    onp.testing.assert_array_equal(out.asnumpy(), [2, 2])
