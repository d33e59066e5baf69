"""Each wait between streams, and each memory that a stream has for itself, is needed: without it numbers are wrong
where streams run late (tests/stand_in/cuda/streams.c), and with it they are right.

Over the stand-in for CuPy, with two GPUs."""
from __future__ import annotations

import atexit
import functools
import importlib.machinery
import importlib.util
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import hybrid
import hybrid as mx
from hybrid import autograd, gluon, kernels, nd
from hybrid.base import device, pending
from hybrid.buffers import array as arrays
from hybrid.jit.deferred import rounds
from hybrid.passes import channels_last
from hybrid.runtime import cuda, launcher, toolchain
from hybrid.runtime.cuda import Launch, bound, cupy_driver, native, program

from . import fake_cupy
from .fake_cupy import Device, Stream
from .test_cuda_cupy import stand_in  # noqa: F401  a fixture
from .test_cuda_late import IN_TURN, LEAST, OTHERS_FIRST

pytestmark = pytest.mark.skipif(launcher.load() is None, reason="no headers of Python")
ORDERS = (LEAST, OTHERS_FIRST, IN_TURN)
SET = native.FUNCTIONS.index("cuGraphExecKernelNodeSetParams_v2")


@pytest.fixture(autouse=True)
def two_gpus(stand_in: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:  # noqa: F811
    monkeypatch.setattr(fake_cupy.STATE, "devices", 2)
    yield
    for number in range(2):
        with Device(number):
            fake_cupy.library().cudaDeviceSynchronize()


@contextmanager
def late(order: int) -> Iterator[None]:
    """Streams run late, in one of the orders; all is done before and afterwards."""
    lib = fake_cupy.library()
    nd.waitall()
    lib.stand_in_late = order
    try:
        yield
    finally:
        for number in range(2):
            with Device(number):
                lib.cudaDeviceSynchronize()
        lib.stand_in_late = 0


def needed(computed: Callable[[], tuple[np.ndarray, np.ndarray]], remove: Callable[[pytest.MonkeyPatch], None],
           wrong: tuple[int, ...]) -> None:
    """Numbers are those expected in all orders; without something, in some orders, they are not.

    computed: the numbers found and those expected."""
    for order in ORDERS:
        with late(order):
            np.testing.assert_allclose(*computed(), rtol=1e-4, atol=1e-5)
    for order in wrong:
        with pytest.MonkeyPatch.context() as patch, late(order):
            remove(patch)
            found, expected = computed()
            assert not np.allclose(found, expected, rtol=1e-3), f"nothing is wrong in order {order}"


def doubled() -> tuple[Any, np.ndarray]:
    """A compiled function on gpu(0), which was called, and its argument."""
    f, x = mx.hybridize(lambda a: nd.tanh(a) * 2), nd.arange(64, ctx=mx.gpu(0)) / 64
    for _ in range(3):
        f(x).wait_to_read()
    return (lambda: f(x)), np.tanh(np.arange(64) / 64) * 2


# ---- copies between GPUs
def test_a_copy_waits_for_the_other_gpus_stream() -> None:
    f, expected = doubled()

    def copied() -> tuple[np.ndarray, np.ndarray]:
        with Stream(non_blocking=True):
            y = f()
            with Device(1), Stream(non_blocking=True):
                return y.as_in_context(mx.gpu(1)).asnumpy(), expected
    needed(copied, lambda patch: patch.setattr(Stream, "wait_event", lambda self, event: None), (LEAST,))


def test_what_comes_later_waits_for_the_copy() -> None:
    """The array's memory is given to another one, which is written while the copy still waits for its turn."""
    def copied() -> tuple[np.ndarray, np.ndarray]:
        with Stream(non_blocking=True):
            x = nd.full((64,), 3, ctx=mx.gpu(0))
            with Device(1), Stream(non_blocking=True):
                y = x.as_in_context(mx.gpu(1))
                del x
                with Device(0):
                    nd.full((64,), 5, ctx=mx.gpu(0)).wait_to_read()
                return y.asnumpy(), np.full(64, 3)

    def without_the_second(patch: pytest.MonkeyPatch) -> None:
        wait = Stream.wait_event
        patch.setattr(Stream, "wait_event", lambda self, event: wait(self, event) if self._home == 1 else None)
    needed(copied, without_the_second, (LEAST,))


def test_parts_of_arrays_are_copied_in_one_piece() -> None:
    """CuPy copies nothing else between GPUs; the piece is made on the array's GPU before the copy begins."""
    x = nd.array(np.arange(24).reshape(4, 6), ctx=mx.gpu(0))
    for part in (x.T, mx.np.array(np.arange(24).reshape(4, 6), ctx=mx.gpu(0))[:, 1:3]):
        with Stream(non_blocking=True), Device(1), Stream(non_blocking=True):
            assert np.array_equal(part.as_in_context(mx.gpu(1)).asnumpy(), part.asnumpy())


# ---- the host
def test_numbers_are_taken_from_the_arrays_own_stream() -> None:
    """Whichever device is the current one."""
    f, given = mx.hybridize(lambda a: nd.tanh(a) * 2), [nd.full((64,), k / 8, ctx=mx.gpu(1)) for k in range(16)]
    for x in given[:3]:
        f(x)
    numbers = iter(list(range(16)) * 4)                       # the memory of results holds those of earlier calls
    with Device(1), Stream(non_blocking=True):
        def taken(how: Callable[[Any], Any]) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
            def found() -> tuple[np.ndarray, np.ndarray]:
                k = next(numbers)
                y = f(given[k])
                with Device(0):
                    return np.array(how(y)), np.full(64, np.tanh(k / 8) * 2)
            return found

        def waited(y: Any) -> np.ndarray:
            y.wait_to_read()
            return y._data._a                                 # the memory itself

        def waited_for_all(y: Any) -> np.ndarray:
            nd.waitall()
            return y._data._a

        def elsewhere(patch: pytest.MonkeyPatch) -> None:
            patch.setattr(arrays, "from_gpu", lambda raw: raw.get())
            patch.setattr(arrays, "on", lambda ctx: device._NOTHING)
            patch.setattr(hybrid.nd, "_wait_for_gpus", lambda: Device().synchronize())
        for how in (lambda y: y.asnumpy(), waited, waited_for_all):
            needed(taken(how), elsewhere, (LEAST,))


# ---- compiled programs
def prepared_and_called(monkeypatch: pytest.MonkeyPatch) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    """A network whose prepared values are computed on the stream of one call, and read on another stream's."""
    monkeypatch.setattr(channels_last, "LEAST_PRODUCTS", 1)
    mx.random.seed(5)
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Conv2D(8, 3, padding=1, in_channels=4), gluon.nn.BatchNorm(in_channels=8),
            gluon.nn.Activation("relu"), gluon.nn.Conv2D(4, 3, in_channels=8))
    net.initialize(mx.init.Xavier(), ctx=mx.gpu(0))
    x = nd.random.uniform(shape=(2, 4, 6, 6), ctx=mx.gpu(0))
    streams = [Stream(non_blocking=True) for _ in range(2)]
    right: dict[float, np.ndarray] = {}
    for value in (0.25, 0.5):
        net[0].weight.data()[:] = value
        right[value] = net(x).asnumpy()
    net.hybridize()
    for _ in range(4):
        net(x).wait_to_read()
    values = iter([0.25, 0.5] * 8)

    def called() -> tuple[np.ndarray, np.ndarray]:
        value = next(values)
        net[0].weight.data()[:] = value
        nd.waitall()
        with streams[0]:
            net(x)
        with streams[1]:
            return net(x).asnumpy(), right[value]
    return called


def test_prepared_values_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are computed on the stream of one call, and another stream's reads them."""
    called = prepared_and_called(monkeypatch)

    def without(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(program.Preparation, "run_part", lambda self, given, results: self._run(
            [given[s] for s in range(self.given)], [results[k] for k in self._order]) and None)
    needed(called, without, (LEAST,))


def test_binding_waits_for_values_that_are_in_no_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are computed into memory of their own, when a parameter was written."""
    monkeypatch.setattr(program, "one_part", lambda source: [])
    called = prepared_and_called(monkeypatch)
    needed(called, lambda patch: patch.setattr(cupy_driver.CuPyDriver, "synchronize", lambda self: None), (LEAST,))


def test_each_stream_has_working_memory_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupy_driver.CuPyDriver, "processors", 0)              # each kernel is a launch
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(300, activation="relu", in_units=40), gluon.nn.Dense(300, activation="tanh", in_units=300),
            gluon.nn.Dense(3, in_units=300))
    mx.random.seed(3)
    net.initialize(mx.init.Xavier(), ctx=mx.gpu(0))
    given = [nd.random.uniform(-1, 1, shape=(70, 40), ctx=mx.gpu(0)) for _ in range(2)]
    right = np.stack([net(x).asnumpy() for x in given])
    net.hybridize()
    streams = [Stream(non_blocking=True) for _ in range(2)]
    for _ in range(4):
        for x in given:
            net(x).wait_to_read()

    def called() -> tuple[np.ndarray, np.ndarray]:
        results = []
        for stream, x in zip(streams, given):
            with stream:
                results.append(net(x))
        found = []
        for stream, y in zip(streams, results):
            with stream:
                found.append(y.asnumpy())
        return np.stack(found), right

    needed(called, lambda patch: None, ())
    own = bound.Bound._arena
    monkeypatch.setattr(bound.Bound, "_arena", lambda self, stream: own(self, 0))
    net.hybridize()                                           # a launcher holds its stream's memory
    for _ in range(4):
        net(given[0]).wait_to_read()
    with late(IN_TURN):
        found, expected = called()
    assert not np.allclose(found, expected, rtol=1e-3)


@functools.cache
def compiled_without(text: str, part: str, *options: str) -> str:
    """The shared object of a C text without a part of it."""
    assert text.count(part) == 1
    folder = tempfile.TemporaryDirectory(prefix="compiled-without-")
    atexit.register(folder.cleanup)
    so = f"{folder.name}/made.so"
    subprocess.run(["gcc", "-w", "-O0", "-shared", "-fPIC", *options, "-x", "c", "-", "-o", so, "-lpthread"],
                   input=text.replace(part, ""), text=True, check=True)
    return so


@functools.cache
def launcher_without(condition: str) -> Any:
    """The C launcher's class without a condition."""
    text = kernels.self_contained("c", "launcher.c")
    so = compiled_without(text, condition, f"-I{launcher._headers()}", f"-I{np.get_include()}",
                          *toolchain.vectorizing())
    loader = importlib.machinery.ExtensionFileLoader(launcher.NAME, so)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(launcher.NAME, loader))
    loader.exec_module(module)
    return module.Launcher


def test_memory_of_a_result_is_used_again_on_its_own_stream_alone() -> None:
    """A result that was let go may still be written on the stream that computes it."""
    given = [nd.full((64,), value, ctx=mx.gpu(0)) for value in (0.25, 0.5)]
    streams = [Stream(non_blocking=True) for _ in range(2)]

    def called() -> tuple[np.ndarray, np.ndarray]:
        f, g = mx.hybridize(lambda a: nd.tanh(a) * 2), mx.hybridize(lambda a: nd.square(a) + 1)
        with streams[0]:
            for _ in range(6):
                g(f(given[0])).wait_to_read()
            z = g(f(given[0]))
        with streams[1]:
            y = f(given[1])
        with streams[0]:
            found = z.asnumpy()
        with streams[1]:
            return np.stack([found, y.asnumpy()]), np.stack([np.full(64, (np.tanh(0.25) * 2) ** 2 + 1),
                                                             np.full(64, np.tanh(0.5) * 2)])

    def without(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(launcher, "_loaded", [launcher_without("s->stream == stream && ")])
    needed(called, without, (OTHERS_FIRST, IN_TURN))


# ---- threads
def graph_of_two_threads(lib: native.Library) -> list[float]:
    """What two threads find that launch one graph at once, each with arrays of its own: 5 added to 10, and to 20. The
    driver takes its time to set the arguments of a kernel."""
    @native.ffi.callback("int(void *, void *, void *)")
    def set_slowly(graph: Any, node: Any, kernel: Any) -> int:
        time.sleep(0.005)
        return int(real(graph, node, kernel))
    functions = [*lib.driver.function]
    real = native.ffi.cast("int(*)(void *, void *, void *)", functions[SET])
    functions[SET] = native.ffi.cast("void *", set_slowly)
    slow = native.Library(lib.c, native.ffi.new("Driver *", {"function": functions}))
    text = ('#include "hybrid_cuda.cuh"\nextern "C" __global__ void one(const float *x, float *y) '
            '{ y[threadIdx.x] = x[threadIdx.x] + 1; }\n')
    launches = [Launch("one", (1, 1, 1), (32, 1, 1), 0, (i, i + 1)) for i in range(5)]
    plan = native.NativePlan(slow, cuda.driver().load(text, ["one"]).ready(launches), 6)
    given = [[np.full(32, start, np.float32) for _ in range(6)] for start in (0, 10, 20)]

    def run(arrays: list[np.ndarray]) -> None:
        plan.run([a.ctypes.data for a in arrays], 0)
    for _ in range(4):
        run(given[0])
    threads = [threading.Thread(target=run, args=(arrays,)) for arrays in given[1:]]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    cuda.driver().synchronize()
    assert plan.counts()["graphs"] == 1
    return [float(arrays[-1][0]) for arrays in given[1:]]


def test_threads_do_not_mix_the_arguments_of_a_graph() -> None:
    """The graph's launch is behind the lock under which its kernels' arguments are set."""
    lib = native.library()
    assert lib is not None and graph_of_two_threads(lib) == [15, 25]
    text = kernels.self_contained("c", "device_plan.c")
    so = compiled_without(text.replace("pthread_mutex_unlock(&p->lock);", ""), "pthread_mutex_lock(&p->lock);")
    assert graph_of_two_threads(native.Library(native.ffi.dlopen(so), lib.driver)) != [15, 25]


# ---- rounds of training loops
def test_a_round_is_done_before_another_stream_looks() -> None:
    other = Stream(non_blocking=True)
    x, y = nd.array(np.ones((4, 6)), ctx=mx.gpu(0)), nd.array(np.ones((4, 3)), ctx=mx.gpu(0))

    def trained() -> np.ndarray:
        net = gluon.nn.Dense(3, in_units=6)
        net.initialize(mx.init.One(), ctx=mx.gpu(0))
        net.hybridize()
        trainer, loss_of = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01}), gluon.loss.L2Loss()
        found = []
        for _ in range(9):
            with autograd.record():
                loss = loss_of(net(x), y)
            loss.backward()
            Stream.null.synchronize()
            with other:                                        # behind what the null stream was given
                put_off = pending.PUT_OFF[0]
                found.append(loss.asnumpy())
            trainer.step(4)
        assert put_off
        return np.stack(found)
    expected = trained()
    needed(lambda: (trained(), expected), lambda patch: patch.setattr(rounds, "as_on_null_stream", on_null), (LEAST,))


@contextmanager
def on_null(ctx: Any) -> Iterator[None]:
    """The null stream is the current one, and nobody waits for it."""
    with device.on(ctx), Stream.null:
        yield
