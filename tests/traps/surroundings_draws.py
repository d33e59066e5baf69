"""Generators of numbers, clocks, files and the environment, read while tracing."""
from __future__ import annotations

import datetime
import logging
import os
import random
import sys
import tempfile
import time
import types
import uuid
from pathlib import Path

import numpy as onp

from hybrid import gluon, nd
from hybrid.gluon import nn

from .tools import arr, trap

scale, table, weight, config = 1., {"k": 1.}, None, types.SimpleNamespace(k=1.)


def helper(x):
    return x * scale


def other(x):
    return x * 100


def differ(f):
    """Whether two calls give different numbers."""
    a, b, c = (f(nd.ones((50,))).asnumpy() for _ in range(3))
    return bool((a != b).any() and (b != c).any())


@trap
def numpy_random(H):
    yield differ(H(lambda x: x * onp.random.rand()))


@trap
def numpy_random_array(H):
    yield differ(H(lambda x: x * nd.array(onp.random.rand(50))))


@trap
def numpy_random_seeded(H):
    f = H(lambda x: x * onp.random.rand())
    for _ in range(2):
        onp.random.seed(3)
        yield f(arr(1.)), f(arr(1.))


@trap
def numpy_generator_global(H):
    rng = onp.random.default_rng(0)
    yield differ(H(lambda x: x * rng.random()))


@trap
def numpy_generator_argument(H):
    f = H(lambda x, rng: x * rng.random())
    rng = onp.random.default_rng(0)
    yield f(arr(1.), rng), f(arr(1.), rng), f(arr(1.), onp.random.default_rng(5))


@trap
def numpy_random_state(H):
    rng = onp.random.RandomState(0)
    yield differ(H(lambda x: x * nd.array(rng.rand(50))))


@trap
def numpy_generator_attribute(H):
    class Net(gluon.HybridBlock):
        def forward(self, x):
            return x * self.rng.uniform()
    net = Net()
    net.rng = onp.random.default_rng(1)
    H(net)
    yield net(arr(1.)), net(arr(1.)), net(arr(1.))


@trap
def numpy_generator_made_inside(H):
    f = H(lambda x: x * onp.random.default_rng(7).random())
    yield f(arr(1.)), f(arr(1.))


@trap
def numpy_generator_unseeded_inside(H):
    yield differ(H(lambda x: x * onp.random.default_rng().random()))


@trap
def numpy_shuffle(H):
    @H
    def f(x):
        order = onp.arange(8)
        onp.random.shuffle(order)
        return x[nd.array(order, dtype="int32")]
    yield f(nd.arange(8)), f(nd.arange(8)), f(nd.arange(8))


@trap
def python_random(H):
    yield differ(H(lambda x: x * random.random()))


@trap
def python_random_choice(H):
    f = H(lambda x: x * random.choice([1., 2., 3., 4., 5.]))
    yield [f(arr(1.)) for _ in range(8)]


@trap
def python_random_branch(H):
    f = H(lambda x: x * 2 if random.random() < .5 else x * 3)
    yield [f(arr(1.)) for _ in range(8)]


@trap
def python_random_object(H):
    rng = random.Random(3)
    f = H(lambda x: x * rng.random())
    yield [f(arr(1.)) for _ in range(3)]


@trap
def python_random_argument(H):
    f = H(lambda x, rng: x * rng.random())
    rng = random.Random(3)
    yield [f(arr(1.), rng) for _ in range(3)]


@trap
def stochastic_depth(H):
    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.body = nn.Dense(2, in_units=2)

        def forward(self, x):
            return x if random.random() < .5 else x + self.body(x)
    net = Net()
    net.initialize("ones")
    H(net)
    yield [net(nd.ones((1, 2))) for _ in range(8)]


@trap
def secrets_bytes(H):
    yield differ(H(lambda x: x + os.urandom(1)[0] + os.urandom(1)[0] * 256 + os.urandom(1)[0] * 1000))


@trap
def uuid_value(H):
    yield differ(H(lambda x: x * (uuid.uuid4().int % 1000003)))


@trap
def time_value(H):
    yield differ(H(lambda x: x * 0 + time.perf_counter_ns() % 9999991))


@trap
def time_monotonic(H):
    yield differ(H(lambda x: x * 0 + (time.monotonic() * 1e6) % 999983))


@trap
def datetime_value(H):
    yield differ(H(lambda x: x * 0 + datetime.datetime.now().microsecond))


@trap
def time_imported_name(H):
    from time import time_ns as now
    yield differ(H(lambda x: x * 0 + now() % 9999991))


@trap
def file_read(H):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "k"
        f = H(lambda x: x * float(path.read_text()))
        for k in "125":
            path.write_text(k)
            yield f(arr(1.))


@trap
def file_opened(H):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "k")

        @H
        def f(x):
            with open(path) as lines:
                return x * float(lines.read())
        for k in "125":
            Path(path).write_text(k)
            yield f(arr(1.))


@trap
def file_exists(H):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "flag")
        f = H(lambda x: x * 2 if os.path.exists(path) else x * 3)
        yield f(arr(1.))
        Path(path).touch()
        yield f(arr(1.))


@trap
def array_loaded(H):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "w")
        f = H(lambda x: x * nd.load(path)[0])
        for k in (1., 5.):
            nd.save(path, [arr(k)])
            yield f(arr(1.))


@trap
def folder_changed(H):
    with tempfile.TemporaryDirectory(suffix="_with_a_name_of_its_own") as folder:
        f = H(lambda x: x * len(os.getcwd()))
        yield f(arr(1.))
        os.chdir(folder)
        yield f(arr(1.))
        os.chdir("/")


@trap
def environ_item(H):
    f = H(lambda x: x * float(os.environ["TRAP_K"]))
    for k in "125":
        os.environ["TRAP_K"] = k
        yield f(arr(1.))


@trap
def environ_in(H):
    f = H(lambda x: x * 2 if "TRAP_K" in os.environ else x)
    yield f(arr(1.))
    os.environ["TRAP_K"] = "1"
    yield f(arr(1.))


@trap
def argv(H):
    f = H(lambda x: x * len(sys.argv))
    yield f(arr(1.))
    sys.argv.append("more")
    yield f(arr(1.))
    sys.argv.pop()


@trap
def logging_level(H):
    log = logging.getLogger("traps")
    f = H(lambda x: x * log.level)
    for level in (10, 20):
        log.setLevel(level)
        yield f(arr(1.))
