"""Compiled programs on gpu(0) with every kind of input: views, odd addresses, no elements, no axes; updates; clear
errors."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, device, gluon, ir, nd, runtime
from hybrid.base.device import array_module, gpu
from hybrid.base.errors import CompileError, DeviceError
from hybrid.runtime import reference
from hybrid.runtime.cuda.emulator import EmulatorDriver

from .cuda_tools import break_kernels, host, orders

rng = np.random.default_rng(2)


def leaf(slot: int, *shape: int, dtype: str = "float32") -> ir.Node:
    return ir.input(slot, shape, dtype)


def normal(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype("float32")


def run(program: ir.Program, arrays: list[Any]) -> list[np.ndarray]:
    return [host(y) for y in runtime.compile(program, gpu(0))(arrays)]


VIEWS: dict[str, Callable[[Any], Any]] = {
    "as it is": lambda a: a, "every second": lambda a: a[::2], "backwards": lambda a: a[::-1],
    "transposed": lambda a: a.T, "a column": lambda a: a[:, 3],
    "one element on": lambda a: a.reshape(-1)[1:33], "broadcast": lambda a: a[:1] * 1 + 0 * a[:1],
    "no rows": lambda a: a[:0], "no axes": lambda a: a[2, 3],
    "one element": lambda a: a[2:3, 3:4]}


@pytest.mark.parametrize("view", VIEWS)
def test_inputs(view: str, cuda_device: Any) -> None:
    """An input may be any view: of another order, beginning anywhere, of any size."""
    xp = array_module(gpu(0))
    base = normal(8, 12)
    x = xp.asarray(VIEWS[view](xp.asarray(base)))
    program = ir.Program((leaf(0, *x.shape),), (ir.map("exp", leaf(0, *x.shape)) + 1,
                                                ir.reduce("sum", leaf(0, *x.shape), tuple(range(x.ndim)))))
    expected = reference.run(program, [host(x)], np)[0]
    for order in orders():
        for g, e in zip(run(program, [x]), expected, strict=True):
            np.testing.assert_allclose(g, e, rtol=1e-5, atol=1e-5, err_msg=order)
            assert g.shape == np.shape(e)
    np.testing.assert_array_equal(host(x), VIEWS[view](base))


@pytest.mark.parametrize("view", [v for v in VIEWS if v != "broadcast"])
def test_updates_reach_the_callers_array(view: str, cuda_device: Any) -> None:
    """A view that is updated changes in place, and nothing beside it."""
    xp = array_module(gpu(0))
    base = xp.asarray(np.pad(normal(8, 12), 0))
    want = host(base).copy()
    x = VIEWS[view](base) if view != "no axes" else base[2:3, 3:4].reshape(())
    shape = x.shape
    program = ir.Program((leaf(0, *shape),), (leaf(0, *shape) * 3,), ((0, leaf(0, *shape) * 2 + 1),))
    got = run(program, [x])[0]
    target = VIEWS[view](want) if view != "no axes" else want[2:3, 3:4].reshape(())
    np.testing.assert_allclose(got, target * 3, rtol=1e-6)
    target[...] = target * 2 + 1
    np.testing.assert_allclose(host(base), want, rtol=1e-6)


def test_updates_and_results_in_any_combination(cuda_device: Any) -> None:
    """A new value may be an input, a result, a constant, or the old value; two inputs may change places."""
    x, y, z = leaf(0, 5), leaf(1, 5), leaf(2, 5)
    programs = [ir.Program((x, y, z), (x, y * 2), ((0, y), (1, x))),
                ir.Program((x, y, z), (x + 1, x), ((0, x + 1), (2, x + 1))),
                ir.Program((x, y, z), (x * 2, x * 2, ir.reshape(x * 2, (5, 1))), ((1, ir.full(7, (5,), "float32")),)),
                ir.Program((x, y, z), (), ((0, x), (1, y * y + x), (2, ir.data(np.arange(5, dtype="float32"))))),
                ir.Program((x, y, z), (ir.slice(x, (4,), (5,), (-1,)),),
                           ((0, ir.slice(x, (4,), (5,), (-1,))), (1, z), (2, y + z)))]
    xp = array_module(gpu(0))
    for program in programs:
        for order in orders():
            start = [normal(5) for _ in range(3)]
            outputs, updates = ([np.array(v) for v in part]
                                for part in reference.run(program, [a.copy() for a in start], np))
            given = [xp.asarray(a) for a in start]
            for g, e in zip(run(program, given), outputs, strict=True):
                np.testing.assert_allclose(g, e, rtol=1e-6, err_msg=order)
            want = {slot: value for (slot, _), value in zip(program.updates, updates)}
            for slot, a in enumerate(given):
                np.testing.assert_allclose(host(a), want.get(slot, start[slot]), rtol=1e-6,
                                           err_msg=f"{order}: input {slot}")


def test_results_are_new_arrays(cuda_device: Any) -> None:
    """No result is an input or another result, so that changing one changes nothing else."""
    xp = array_module(gpu(0))
    x = xp.asarray(normal(6))
    out = runtime.compile(ir.Program((leaf(0, 6),), (leaf(0, 6), leaf(0, 6) * 2, leaf(0, 6) * 2)), gpu(0))([x])
    before = [host(v).copy() for v in (x, *out)]
    out[1][...] = 0
    for v, b in zip((x, out[0], out[2]), (before[0], before[1], before[3])):
        np.testing.assert_array_equal(host(v), b)


def test_a_wrong_array_is_a_clear_error(cuda_device: Any) -> None:
    executable = runtime.compile(ir.Program((leaf(0, 6),), (leaf(0, 6) * 2,)), gpu(0))
    with pytest.raises(ValueError, match=r"input 0 is float64\(6,\), the program was compiled for float32\(6,\)"):
        executable([array_module(gpu(0)).zeros(6)])


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
def test_batch_norm_keeps_its_statistics_in_prediction(hybridized: bool, cuda_device: Any) -> None:
    """Running statistics change in training alone, and prediction leaves no garbage in them."""
    net = gluon.nn.BatchNorm(in_channels=5)
    net.initialize(ctx=mx.gpu(0))
    net.hybridize(hybridized)
    x = nd.array(normal(4, 5, 3) + 2, ctx=mx.gpu(0))
    for _ in range(3):
        net(x)
    assert (net.running_mean.data().asnumpy() == 0).all() and (net.running_var.data().asnumpy() == 1).all()
    with autograd.record():
        net(x)
    mean = x.asnumpy().mean((0, 2)) * 0.1
    np.testing.assert_allclose(net.running_mean.data().asnumpy(), mean, rtol=1e-5)
    y = net(x).asnumpy()
    np.testing.assert_allclose(net.running_mean.data().asnumpy(), mean, rtol=1e-5)
    assert np.isfinite(y).all()


def test_a_net_runs_where_its_arrays_are(cuda_device: Any) -> None:
    net = gluon.nn.Dense(3, in_units=4)
    net.initialize(ctx=mx.gpu(0))
    net.hybridize()
    assert net(nd.ones((2, 4), ctx=mx.gpu(0))).ctx == mx.gpu(0)
    with pytest.raises((DeviceError, RuntimeError), match="cpu"):
        net(nd.ones((2, 4), ctx=mx.cpu()))


def test_no_gpu_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays and compiled programs alike."""
    monkeypatch.delenv("HYBRID_CUDA", raising=False)
    monkeypatch.setitem(device._probe, "cupy", None)
    with pytest.raises(DeviceError, match=r"gpu\(0\) was asked for, but no GPU was found: install"):
        nd.zeros((2,), ctx=mx.gpu(0))
    with pytest.raises(DeviceError, match="install"):
        runtime.compile(ir.Program((leaf(0, 6),), (leaf(0, 6) * 2,)), gpu(0))
    with pytest.raises(DeviceError, match="install"):
        gluon.nn.Dense(3, in_units=4).initialize(ctx=mx.gpu(0))


@pytest.mark.unwatched
def test_a_kernel_that_does_not_compile_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the compiler's log and the path of the source, and no other way is taken in silence."""
    monkeypatch.setenv("HYBRID_CUDA", "emulator")
    break_kernels(monkeypatch)
    with pytest.raises(CompileError, match=r"(?s)Source: \S+\.cpp.*nowhere"):
        runtime.compile(ir.Program((leaf(0, 6),), (ir.map("sinh", leaf(0, 6)),)), gpu(0))


def test_memory_is_not_what_it_was(cuda_device: Any) -> None:
    """The arena holds garbage between calls: a program must not depend on it."""
    if array_module(gpu(0)) is not np:
        pytest.skip("the emulator's allocator alone fills memory with NaN")
    x = leaf(0, 40, 30)
    h = ir.dot(x, x, ((1,), (1,)))
    program = ir.Program((x,), (ir.dot(ir.map("tanh", h), h, ((1,), (0,))),))
    executable = runtime.compile(program, gpu(0))
    assert executable.planned.memory.arena and np.isnan(EmulatorDriver().alloc(64).view("float32")).all()
    a = normal(40, 30)
    np.testing.assert_allclose(executable([a])[0], reference.run(program, [a], np)[0][0], rtol=1e-4, atol=1e-3)
