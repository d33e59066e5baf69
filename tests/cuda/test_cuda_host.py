"""Calls of compiled programs on the GPU, from Python's side: launches, graphs, memory, streams and what goes wrong.

Over the stand-in for CuPy and NVIDIA's libraries (fake_cupy.py): real CuPy takes the same way.
"""
from __future__ import annotations

import gc
import threading
from typing import Any, Iterator

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, device, gluon, ir, nd, runtime
from hybrid.base.errors import DeviceError, DTypeError, OutOfMemoryError
from hybrid.runtime import cuda, launcher
from hybrid.ir.parse import parse
from hybrid.ir.stmt import text_of
from hybrid.runtime.cuda import bound, cupy_driver, driver_api, emulator, native, texts

from . import fake_cupy
from .fake_cupy import STATE, Device
from .test_cuda_cupy import stand_in  # noqa: F401  a fixture

pytestmark = pytest.mark.skipif(launcher.load() is None, reason="no headers of Python")


def counted(*names: str) -> dict[str, int]:
    return {n: getattr(STATE, n) for n in names}


class Mlp:
    """A network of three kernels, called often enough that its launcher and its graph are there."""

    def __init__(self) -> None:
        net = gluon.nn.HybridSequential()
        net.add(gluon.nn.Dense(16, activation="relu", in_units=8), gluon.nn.Dense(8, activation="relu", in_units=16),
                gluon.nn.Dense(3, in_units=8))
        mx.random.seed(0)
        net.initialize(mx.init.Xavier())
        x = nd.random.uniform(shape=(2, 8))
        eager = net(x).asnumpy()
        net.hybridize()
        for _ in range(5):
            assert np.allclose(net(x).asnumpy(), eager, atol=1e-6)
        self.net, self.x, self.eager = net, x, eager


@pytest.fixture(scope="module")
def mlp(stand_in: Any) -> Iterator[Mlp]:  # noqa: F811
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(Device.attributes, "MultiProcessorCount", 0)              # launches stay as many
        yield Mlp()


def launched_by(run: Any, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the C launcher alone takes a call."""
    with monkeypatch.context() as patch:
        patch.setattr(bound.Bound, "__call__", lambda *a: pytest.fail("not the launcher"))
        patch.setattr(runtime, "compile", lambda *a: pytest.fail("not the launcher"))
        run()
    return True


def test_a_call_is_one_graph_from_c(mlp: Mlp, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither Python's way nor a capture nor a copy; fresh inputs in rotation set one kernel each."""
    inputs = [mlp.x * k for k in range(6)]
    before = counted("graphs", "replays", "sets", "copies", "waits")
    assert launched_by(lambda: [mlp.net(x) for x in inputs], monkeypatch)
    now = counted("graphs", "replays", "sets", "copies", "waits")
    assert {k: now[k] - before[k] for k in now if k != "sets"} == {"graphs": 0, "replays": 6, "copies": 0, "waits": 0}
    assert 6 <= now["sets"] - before["sets"] <= 12                       # the kernels of the input and of the result
    for k, x in enumerate(inputs):
        np.testing.assert_allclose(mlp.net(x).asnumpy(), mlp.net(mlp.x * k).asnumpy())


def address(y: Any) -> int:
    return int(y._data.data.ptr)


def test_a_graph_takes_cooperative_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small stages behind a large kernel, in one graph."""
    monkeypatch.setitem(Device.attributes, "MultiProcessorCount", 2)
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(600, activation="relu"), gluon.nn.Dense(8, activation="relu"), gluon.nn.Dense(2))
    net.initialize(mx.init.Xavier())
    x = nd.random.uniform(shape=(16, 64))
    want = net(x).asnumpy()
    net.hybridize()
    before = STATE.graphs
    for _ in range(6):
        assert np.allclose(net(x).asnumpy(), want, atol=1e-5)
    assert STATE.graphs == before + 1


def test_results_take_memory_that_nobody_holds(mlp: Mlp) -> None:
    """An array, a view of it or a DLPack capsule that is held keeps its numbers; what was let go is used again."""
    first = address(mlp.net(mlp.x))
    assert first in {address(mlp.net(mlp.x)) for _ in range(8)}
    held = [mlp.net(mlp.x * k) for k in range(8)]
    assert len({address(y) for y in held}) == 8
    values = [y.asnumpy() for y in held]
    for keep in (lambda y: y[1:], lambda y: y._data.reshape(3, 2), lambda y: y._data.__dlpack__(),
                 lambda y: nd.from_dlpack(y.to_dlpack_for_read())):
        y = mlp.net(mlp.x)
        at, kept = address(y), keep(y)
        del y
        gc.collect()
        assert at not in {address(mlp.net(mlp.x * 2)) for _ in range(12)}
        del kept
    for y, expected in zip(held, values, strict=True):
        np.testing.assert_array_equal(y.asnumpy(), expected)


def test_each_stream_has_memory_of_its_own(mlp: Mlp) -> None:
    """A result that was let go on one stream may still be read there: another stream gets other memory."""
    mine = {address(mlp.net(mlp.x)) for _ in range(8)}
    with fake_cupy.CUPY.cuda.Stream(non_blocking=True):
        assert not mine & {address(mlp.net(mlp.x)) for _ in range(8)}


def test_threads_share_a_program(mlp: Mlp) -> None:
    wrong: list[int] = []

    def work(k: int) -> None:
        x = mlp.x * k
        expected = mlp.net(x).asnumpy()
        wrong.extend(k for _ in range(100) if not np.array_equal(mlp.net(x).asnumpy(), expected))
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_captured_call_keeps_its_memory(mlp: Mlp) -> None:
    """A graph of the user's writes where the call wrote: nothing else may lie there afterwards."""
    with fake_cupy.CUPY.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        y = mlp.net(mlp.x)
        at, graph = address(y), stream.end_capture()
    del y
    gc.collect()
    others = [mlp.net(mlp.x * k) for k in range(8)] + [nd.zeros((2, 3)) for _ in range(8)]
    values = [o.asnumpy() for o in others]
    replays = STATE.replays
    graph.launch()
    assert at not in set(map(address, others)) and STATE.replays == replays + 1
    for o, expected in zip(others, values, strict=True):
        np.testing.assert_array_equal(o.asnumpy(), expected)


def test_working_memory_outlives_a_capture() -> None:
    """Also on the slow path, which takes fresh memory for each call."""
    x = ir.input(0, (64, 64), "float32")
    program = ir.Program((x,), (ir.dot(ir.dot(x, x, ((1,), (0,))), x, ((1,), (0,))),))
    exe: Any = runtime.compile(program, mx.gpu(0))
    a = nd.ones((64, 64))._data
    exe([a])
    with fake_cupy.CUPY.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        exe([a])
        stream.end_capture()
    assert [k.nbytes >= 64 * 64 * 4 for k in exe._kept] == [True, True]      # working memory and the result


def test_a_first_call_while_capturing_says_what_to_do() -> None:
    f = mx.hybridize(lambda x: nd.exp(x) * 3)
    x = nd.arange(6)
    with fake_cupy.CUPY.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        with pytest.raises(DeviceError, match="before begin_capture"):
            f(x)
        stream.end_capture()
    assert f(x).shape == (6,)


def test_constants_are_there_before_another_stream_reads() -> None:
    """They are copied on the stream of the first call, and another one may run the program right away."""
    table = np.arange(64, dtype="float32")
    x = ir.input(0, (64,), "float32")
    exe: Any = None
    waits = STATE.waits
    with fake_cupy.CUPY.cuda.Stream(non_blocking=True):
        exe = runtime.compile(ir.Program((x,), (x * ir.data(table),)), mx.gpu(0))
    assert STATE.waits > waits and exe([nd.ones((64,))._data])[0].get().tolist() == table.tolist()


def failing(kernel: bytes) -> Any:
    fake_cupy.library().stand_in_fails = kernel


def test_an_error_names_its_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """HYBRID_CUDA_SYNC=1 waits for each kernel; without it a later launch meets the error and says so, where the
    kernel has run by then."""
    monkeypatch.setattr(fake_cupy.library(), "stand_in_late", 0)
    f = mx.hybridize(lambda x: nd.softmax(nd.dot(nd.tanh(x), nd.cosh(x))))
    x = nd.ones((24, 24))
    f(x)
    names = f.report().source.count("__global__")
    assert names > 1
    text = mx.hybridize(lambda x: nd.softmax(nd.dot(nd.tanh(x), nd.cosh(x)), axis=0))
    monkeypatch.setenv("HYBRID_CUDA_SYNC", "1")
    failing(b"k0")
    try:
        with pytest.raises(DeviceError, match=r"kernel k0 failed on the GPU: CUDA_ERROR_ILLEGAL_ADDRESS.*source.cu"):
            text(x)
        monkeypatch.setenv("HYBRID_CUDA_SYNC", "0")
        with pytest.raises(DeviceError, match="launching kernel .* an earlier kernel: run again with HYBRID_CUDA_SYNC"):
            mx.hybridize(lambda x: nd.softmax(nd.dot(nd.tanh(x), nd.cosh(x)), axis=0) + 1)(x)
    finally:
        failing(b"")
        fake_cupy.library().cuStreamSynchronize(fake_cupy.ffi.NULL)


def test_an_error_that_a_wait_meets_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel failed before the wait; CuPy's error has only CUDA's name for it."""
    f, x = mx.hybridize(lambda x: nd.tanh(x) * 2), nd.ones((4, 4))
    f(x).wait_to_read()
    failing(b"k0")
    try:
        y = f(x)
        with pytest.raises(DeviceError, match=r"host.py:\d+: gpu\(0\) failed: .* earlier .*HYBRID_CUDA_SYNC=1"):
            y.wait_to_read()
    finally:
        failing(b"")


def test_a_training_step_copies_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rates and counts of Adam go with the launch, by value: the same weights as on the CPU, where each step has other
    numbers."""
    def train(ctx: Any, steps: int) -> tuple[Any, Any, Any]:
        net = gluon.nn.Dense(4, in_units=6)
        net.initialize(mx.init.One(), ctx=ctx)
        net.hybridize()
        trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1})
        data = nd.array(np.arange(12).reshape(2, 6) / 12, ctx=ctx)

        @mx.hybridize
        def step(x: Any) -> Any:
            with autograd.record():
                loss = (net(x) ** 2).mean()
            loss.backward()
            trainer.step(1)
            return loss
        with autograd.record():                              # the optimizer's states are made here
            loss = (net(data) ** 2).mean()
        loss.backward()
        trainer.step(1)
        for k in range(steps):
            trainer.set_learning_rate(0.1 / (k + 1))
            step(data)
        return net, step, data
    expected = train(mx.cpu(), 8)[0].weight.data().asnumpy()
    net, step, data = train(mx.gpu(0), 8)
    np.testing.assert_allclose(net.weight.data().asnumpy(), expected, rtol=1e-5, atol=1e-6)
    before = counted("copies", "graphs", "replays")
    assert launched_by(lambda: [step(data) for _ in range(4)], monkeypatch)
    now = counted("copies", "graphs", "replays")
    assert {k: now[k] - before[k] for k in now} == {"copies": 0, "graphs": 0, "replays": 4}


def test_out_of_memory_says_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    f = mx.hybridize(lambda x: nd.dot(x, x) + 1)
    x = nd.ones((256, 256))
    f(x)

    def none(*_: Any, **__: Any) -> Any:
        raise MemoryError("cudaErrorMemoryAllocation")
    with monkeypatch.context() as patch:
        patch.setattr(fake_cupy.CUPY, "empty", none, raising=False)
        with pytest.raises(OutOfMemoryError, match=r"takes 0\.\d MB .* of results.* are free\. Take a smaller batch"):
            mx.hybridize(lambda x: nd.dot(x, x) + 2)(x)
        patch.setattr(cupy_driver.CuPyDriver, "memory", none)              # as after a kernel that failed
        with pytest.raises(OutOfMemoryError, match=r"takes 0\.\d MB .* of inputs\. Take a smaller batch"):
            mx.hybridize(lambda x: nd.dot(x, x) + 3)(x)


def test_bfloat16_needs_cupy_14(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ml_dtypes")
    monkeypatch.setattr(fake_cupy.CUPY, "__version__", "13.6.0", raising=False)
    with pytest.raises(DTypeError, match=r"test_cuda_host.py:\d+: bfloat16 arrays on gpu\(0\) need CuPy 14"):
        nd.array([1, 2], dtype="bfloat16")
    monkeypatch.setattr(fake_cupy.CUPY, "__version__", "14.0.0", raising=False)
    device.check_dtype(np.dtype("float32"), mx.gpu(0))


def test_more_arrays_than_a_launch_takes() -> None:
    """700 arrays are 5.6 KB of parameters, which CUDA takes from 12.1 on; before that the error says so."""
    text = ('extern "C" __global__ void last(' + ", ".join(f"const float *p{i}" for i in range(700))
            + ", float *to) {\n  to[0] = p0[0] + p699[0];\n}\n")
    arrays = [np.full(1, k, np.float32) for k in range(701)]
    launch = ("last", (1, 1, 1), (1, 1, 1), 0, tuple(range(701)))
    for driver in (cuda.driver(), emulator.EmulatorDriver()):
        arrays[700][:] = 0
        driver.load(text, ["last"]).plan([launch]).run([a.ctypes.data for a in arrays])
        driver.synchronize()
        assert arrays[700][0] == 699
    fake_cupy.library().stand_in_version = 12000
    driver_api.version.cache_clear()
    try:
        with pytest.raises(mx.errors.CompileError, match=r"takes 701 arrays, and a launch .* at most 512 .*12\.1"):
            cuda.driver().load(text, ["last"]).plan([launch])
    finally:
        fake_cupy.library().stand_in_version = 13000
        driver_api.version.cache_clear()


def test_equal_kernels_are_one_function() -> None:
    """Layers of the same sizes give the same text but for its name."""
    def layers(x: Any) -> Any:
        for _ in range(4):
            x = nd.tanh(nd.dot(x, x))
        return x
    f = mx.hybridize(layers)
    x = nd.array(np.random.default_rng(0).standard_normal((16, 16)))
    np.testing.assert_allclose(f(x).asnumpy(), layers(x).asnumpy(), rtol=1e-4, atol=1e-5)
    source = f.report().source
    names = [n for n in emulator.re.findall(r"__global__ void (?:__launch_bounds__\([\d, ]+\) )?(\w+)\(", source)]
    shared, stands = texts.share_functions(parse(source), names)
    assert len(names) == 4 and len(set(stands)) < 4 and text_of(shared).count("__global__") == len(set(stands))
    helper = 'static __device__ int two() {\n  return 2;\n}\n'
    kernel = 'extern "C" __global__ void %s(int *x) {\n  x[0] = two();\n}\n'
    code, stands = texts.share_functions(parse(helper + kernel % "a" + helper + kernel % "b"), ["b", "a"])
    text = text_of(code)
    assert stands == ["a", "a"] and text.count("two() {") == 2 and "void b(" not in text


@pytest.mark.parametrize("parts", [[1], [2, 2], [4, 4, 5]], ids=str)
def test_kernels_are_compiled_side_by_side(monkeypatch: pytest.MonkeyPatch, parts: list[int]) -> None:
    """A text is several modules, each with some of the kernels."""
    texts_of: list[str] = []
    compile_one = fake_cupy.compile_for_fake
    monkeypatch.setattr(cupy_driver.nvrtc, "compile",
                        lambda text, arch: texts_of.append(text) or compile_one(text, arch))
    monkeypatch.setattr(cupy_driver.config, "usable_cores", lambda: 3)
    kernel = 'extern "C" __global__ void __launch_bounds__(32) %s(float *x) {\n  x[0] += %d;\n}\n'
    names = [f"k{i}" for i in range(sum(parts))]
    module = cuda.driver().load("".join(kernel % (n, i) for i, n in enumerate(names, 1)), names)
    x = np.zeros(1, np.float32)
    module.plan([(n, (1, 1, 1), (1, 1, 1), 0, (0,)) for n in names]).run([x.ctypes.data])
    cuda.driver().synchronize()
    assert x[0] == sum(range(1, sum(parts) + 1))
    assert sorted(t.count("__global__") for t in texts_of) == parts


def test_a_first_result_does_not_wait_for_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is compiled beside the first calls, which go through Python meanwhile."""
    ready, asked = threading.Event(), threading.Event()
    monkeypatch.setattr(launcher, "_loaded", [])
    monkeypatch.setattr(launcher, "_build", lambda: (asked.set(), ready.wait(60)) and None)
    monkeypatch.setattr(launcher.warmed, "known", lambda name: None)
    monkeypatch.setattr(launcher.atexit, "register", lambda *_: None)
    f = mx.hybridize(lambda x: nd.dot(x, x) * 5)
    try:
        assert [f(nd.ones((3, 3))).asnumpy()[0, 0] for _ in range(3)] == [15] * 3
        assert asked.is_set() and launcher.coming()
    finally:
        ready.set()
        launcher._coming[0].thread.join()


def test_without_a_c_compiler_cupy_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "library", lambda: None)
    f = mx.hybridize(lambda x: nd.dot(x, x) - 1)
    x = nd.ones((4, 4))
    assert [f(x).asnumpy()[0, 0] for _ in range(5)] == [3] * 5
