"""Products in loops with matrices that stay: packed once, before the loop, or done for all steps at once."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, ir, nd
from hybrid.gluon import nn, rnn
from hybrid.ir import Node, Program
from hybrid.passes.loop_products import FEW, LEAST_DEPTH
from hybrid.runtime import cpu

from ..cpu_kernels import random, vectors_of
from ..codegen.exact_values import compare

# rows, units, width of the inputs
SIZES = {"one_row": (1, 65, 17), "two_rows": (2, 131, 5), "five_rows": (5, 17, 33), "six_rows": (6, 64, 3),
         "nine_rows": (9, 63, 16), "many_rows": (31, 48, 7)}


def step(state: Any, parts: Any, constants: Any) -> Any:
    """A cell whose matrices lie either way, one of them computed from a constant."""
    (h,), (x,), (own, given, scale) = state, parts, constants
    new = ir.map("tanh", ir.dot(x, given, ((1,), (1,))) + ir.dot(h, own * scale, ((1,), (0,))))
    return [new], [new + ir.dot(new, own, ((1,), (1,)))]


def program(rows: int, units: int, width: int, steps: int = 5, reverse: bool = False,
            frozen: bool = True) -> tuple[Program, list[np.ndarray]]:
    arrays = [random(steps, rows, width), random(rows, units), random(units, units) * 0.1, random(units, width),
              random(units, units)]
    x, h, *constants = leaves = [ir.input(i, a.shape, a.dtype) for i, a in enumerate(arrays)]
    last, stacked = ir.loop(step, [h], [x], constants, reverse=reverse)
    return Program(tuple(leaves), (last[0], stacked[0]), (),
                   {"frozen": frozenset({2, 3, 4})} if frozen else {}), arrays


def exact(arrays: list[np.ndarray], reverse: bool = False) -> list[np.ndarray]:
    """The same in float64."""
    x, h, own, given, scale = (a.astype(np.float64) for a in arrays)
    rows = []
    for part in x[::-1] if reverse else x:
        h = np.tanh(part @ given.T + h @ (own * scale))
        rows.append(h + h @ own.T)
    return [h, np.stack(rows[::-1] if reverse else rows)]


def body(exe: Any) -> list[Node]:
    """The nodes of the loop's body."""
    loop = next(k for k in exe.planned.fused.kernels if k.kind == "loop")
    return loop.root.attrs["body"].order()


@pytest.mark.parametrize(("width", "frozen"), ((64, True), (32, False), (16, True)),
                         ids=("64_parameters", "32_inputs", "16_parameters"))
@pytest.mark.parametrize("size", SIZES)
def test_values(size: str, width: int, frozen: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors_of(width, monkeypatch)
    p, arrays = program(*SIZES[size], reverse=width == 32, frozen=frozen)
    exe = cpu.compiled(p)
    compare(exe(arrays), exact(arrays, width == 32))
    prims, (rows, _, depth) = [n.prim for n in body(exe)], SIZES[size]
    products = 3 if rows > FEW else 2                # that of a few rows of inputs is done before the loop
    packed = products - (rows > FEW and depth < LEAST_DEPTH) if frozen else 0
    assert (prims.count("conv"), prims.count("dot")) == (packed, products - packed)


def test_parameters_alone_are_packed() -> None:
    """To pack matrices at every call takes longer than it saves, in long loops as well."""
    for steps, frozen, packed in ((2, True, 2), (2, False, 0), (40, False, 0)):
        p, arrays = program(2, 33, 5, steps=steps, frozen=frozen)
        exe = cpu.compiled(p)
        compare(exe(arrays), exact(arrays))
        assert [n.prim for n in body(exe)].count("conv") == packed


@pytest.mark.parametrize(("rows", "steps", "turned"),
                         ((1, 90, True), (1, 9, False), (3, 40, True), (3, 1, False), (33, 40, True)),
                         ids=("one_row", "one_row_few_steps", "few_rows", "one_step", "many_rows"))
def test_matrices_in_doubles_are_transposed_where_counted_cycles_say_so(rows: int, steps: int, turned: bool) -> None:
    """What is not packed is laid out as the form of its product that needs fewest cycles reads it."""
    arrays = [a.astype(np.float64) for a in (random(steps, rows, 63), random(rows, 63), random(63, 63) * 0.1)]
    x, h, w = leaves = [ir.input(i, a.shape, a.dtype) for i, a in enumerate(arrays)]
    last, _ = ir.loop(lambda state, parts, constants: ([ir.map("tanh", parts[0] + ir.dot(state[0], constants[0], ((1,), (1,))))], []), [h], [x], [w])  # noqa: E501
    exe = cpu.compiled(Program(tuple(leaves), (last[0],)))
    want = arrays[1]
    for part in arrays[0]:
        want = np.tanh(part + want @ arrays[2].T)
    np.testing.assert_allclose(exe(arrays)[0], want, rtol=1e-10, atol=1e-12)
    assert [n.prim for n in body(exe)].count("permute") == turned


def test_parameters_are_packed_again_when_they_change() -> None:
    net = nn.HybridSequential()
    net.add(rnn.GRU(20))
    net.initialize()
    x = nd.array(random(6, 3, 4))
    net(x)
    f = mx.hybridize(lambda a: net(a))
    for k in range(3):
        for p in net.collect_params().values():
            p.set_data(nd.array(random(*p.shape) * 0.1 * (k + 1)))
        np.testing.assert_allclose(f(x).asnumpy(), net(x).asnumpy(), rtol=1e-5, atol=1e-6)
    assert "of a loop packed as" in str(f.report())


@pytest.mark.parametrize("layer", (rnn.LSTM, rnn.GRU, rnn.RNN), ids=lambda c: c.__name__)
def test_gradients(layer: Any) -> None:
    """A recorded call and a whole step as one program give what eager code gives."""
    net = layer(19, num_layers=2, bidirectional=True)
    net.initialize(mx.init.Uniform(0.3))
    x, target = nd.array(random(5, 3, 11)), nd.array(random(5, 3, 38))
    net(x)

    def grads(f: Any) -> list[np.ndarray]:
        x.attach_grad()
        with autograd.record():
            loss = (f(x) * target).sum()
        loss.backward()
        return [x.grad.asnumpy(), *(p.grad().asnumpy() for p in net.collect_params().values())]
    want = grads(net)
    net.hybridize()
    for got, wanted in zip(grads(net), want, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5 * max(1.0, float(np.abs(wanted).max())))
