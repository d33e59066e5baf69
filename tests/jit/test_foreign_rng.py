"""Draws from NumPy's and Python's global generators: those of the traced code count, those of other threads do not."""
import contextlib
import random
import sys
import threading
import warnings

import numpy as onp
import pytest

from hybrid import gluon, hybridize, nd

X = nd.ones((3,))
_uniform = onp.random.uniform


class Holds(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        self.generator = onp.random

    def forward(self, x):
        return x * self.generator.uniform(0, 1)


@contextlib.contextmanager
def _another_thread_draws():
    """A thread draws all the time, as that of a loader which augments images does, and takes turns with this one."""
    ended = threading.Event()
    begun = threading.Event()

    def draw():
        while not ended.is_set():
            onp.random.rand()
            random.random()
            begun.set()

    thread = threading.Thread(target=draw)
    interval = sys.getswitchinterval()
    thread.start()
    try:
        assert begun.wait(60)
        sys.setswitchinterval(1e-6)
        yield
    finally:
        sys.setswitchinterval(interval)
        ended.set()
        thread.join()


@pytest.mark.parametrize("draws", [
    lambda x: x * onp.random.rand(), lambda x: x * _uniform(), lambda x: x * float(onp.random.normal(size=1)[0]),
    lambda x: x * random.random(), lambda x: x * random.randint(1, 9), Holds()],
    ids=["numpy", "bound", "normal", "python", "randint", "attribute"])
def test_draws_of_the_code_are_said_also_where_another_thread_draws(draws):
    with _another_thread_draws(), pytest.warns(UserWarning, match="drew random numbers"):
        hybridize(draws)(X)


def test_draws_of_another_thread_leave_networks_compiled():
    with _another_thread_draws(), warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(10):
            net = gluon.nn.HybridSequential()
            net.add(gluon.nn.Dense(8, activation="relu"), gluon.nn.Dropout(0.5), gluon.nn.Dense(2))
            net.initialize()
            net.hybridize()
            net(nd.ones((2, 3)))
            assert [p.state for p in net.programs] == ["compiled"]
