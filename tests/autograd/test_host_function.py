"""autograd.Function whose Python code wants real arrays, inside hybridized blocks."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, ir, nd
from hybrid.base.device import cpu
from hybrid.ir import Program
from hybrid.runtime import compile as compile_program
from hybrid.runtime import launcher
from hybrid.runtime.staged import StagedProgram


class Rounded(autograd.Function):
    """round(10 x) with a gradient that needs what forward kept."""

    def forward(self, x: Any) -> Any:
        self.k = np.round(x.asnumpy() * 10)
        self.save_for_backward(x)
        return nd.array(self.k)

    def backward(self, dy: Any) -> Any:
        x, = self.saved_tensors
        return dy * nd.array(self.k) * x


class Scaled(autograd.Function):
    """Two results, of which one depends on a number."""

    def forward(self, x: Any, y: Any) -> Any:
        self.s = float(x.sum().asscalar())
        return x * self.s, y + 1

    def backward(self, a: Any, b: Any) -> Any:
        return a * self.s, b


class Net(gluon.HybridBlock):
    def __init__(self) -> None:
        super().__init__()
        self.fc = gluon.nn.Dense(3)

    def forward(self, x: Any) -> Any:
        a, b = Scaled()(Rounded()(self.fc(x).tanh()), x)
        return (a * 0.01).sum() + b.sum() * a.mean()


def gradients(net: Any) -> list[np.ndarray]:
    xs = [nd.array(np.random.RandomState(k).rand(2, 4)) for k in (1, 2)]
    for x in xs:
        x.attach_grad()
    with autograd.record():
        # both forward before the first backward: each keeps its own state
        ys = [net(x) for x in xs]
    out = []
    for x, y in zip(xs, ys):
        y.backward()
        out += [y.asnumpy(), x.grad.asnumpy(), net.fc.weight.grad().asnumpy()]
    return [*out, net(xs[0]).asnumpy()]


def test_a_function_that_wants_arrays_runs_within_the_program() -> None:
    mx.random.seed(1)
    net = Net()
    net.initialize(mx.init.Xavier())
    eager = gradients(net)
    net.hybridize()
    for a, b in zip(eager, gradients(net)):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)
    assert any("autograd.Function" in name for name, _ in net.report().refusals)


def test_a_wrong_number_of_gradients_is_an_error() -> None:
    class One(Scaled):
        def backward(self, a: Any, b: Any) -> Any:
            return a

    class Bad(gluon.HybridBlock):
        def forward(self, x: Any) -> Any:
            return One()(x, x)[0]
    net = Bad()
    net.hybridize()
    x = nd.ones((2,))
    x.attach_grad()
    with autograd.record():
        y = net(x)
    with pytest.raises(mx.HybridError, match="returned 1 gradients for 2 inputs"):
        y.backward()


def test_grad_gives_a_list_and_counts_heads() -> None:
    x = nd.array([1.0, 2.0])
    x.attach_grad()
    with autograd.record():
        y = x * x
        found = autograd.grad(y, x, create_graph=True)
    assert isinstance(found, list) and found[0].asnumpy().tolist() == [2, 4]
    with pytest.raises(AssertionError, match="2 heads and 1 gradients"):
        autograd.backward([y, y], [nd.ones((2,))])


def test_heads_must_be_arrays() -> None:
    with pytest.raises(TypeError, match="heads must be an array or a list of arrays, got int"):
        autograd.backward(3)


@pytest.mark.parametrize("build", ["compiled", "reference"])
def test_updates_of_the_last_stretch_are_written_in_place(build: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs and results of calls that are results or new values too are those of before; memory that a call writes
    again is copied where it would be given away."""
    if build == "reference":
        monkeypatch.setenv("HYBRID_COMPILE", "never")
    lent = np.zeros((40,), np.float32)

    def run(xp: Any, arrays: Any) -> Any:
        lent[:] = arrays[0] * 2
        return [lent]
    w, x, y = leaves = tuple(ir.input(i, (40,), np.float32) for i in range(3))
    twice, = ir.host(ir.HostCall("twice", run, (((40,), np.dtype(np.float32)),), lends=True), [x])
    program = Program(leaves, (w, twice, twice + w), ((0, w - twice), (1, w), (2, twice)))
    staged = StagedProgram(program, np, lambda part: compile_program(part, cpu()))
    part = staged.parts()[-1]
    assert len(part.updates) == 1 and len(part.outputs) == 1
    a, b, c = arrays = [np.full(40, k, np.float32) for k in (5, 3, 0)]
    expected = np.array([5.0, 3.0])
    for _ in range(3):
        old, twice_b = expected[0], 2 * expected[1]
        found = staged(arrays)
        assert [f.tolist() for f in found] == [[old] * 40, [twice_b] * 40, [old + twice_b] * 40]
        expected = np.array([old - twice_b, old])
        assert a.tolist() == [expected[0]] * 40 and b.tolist() == [old] * 40 and c.tolist() == [twice_b] * 40
        lent[:] = -1                                     # as the next call does
        assert found[1].tolist() == [twice_b] * 40


def test_calls_of_python_code_take_the_fast_path() -> None:
    """The launcher checks such a call, calls the code, and gives its errors on."""
    if launcher.load() is None:
        pytest.skip("Python's headers are not here")

    class Noted(autograd.Function):
        def forward(self, x: Any, w: Any) -> Any:
            if float(x.asnumpy()[0]) < 0:
                raise ArithmeticError("negative")
            return x * w.asnumpy()

        def backward(self, dy: Any) -> Any:
            return dy, dy
    w = nd.array([2.0, 4.0])

    @mx.hybridize
    def f(x: Any) -> Any:
        y = Noted()(x + 1, w)
        return y * 2, y
    x = nd.array([1.0, 2.0])
    slow = type(f._engine).slow_path
    missed = []
    f._engine.slow_path = lambda *args: (missed.append(1), slow(f._engine, *args))[1]
    for _ in range(8):
        slowly = len(missed)
        twice, once = f(x)
        assert once.asnumpy().tolist() == [4, 12] and twice.asnumpy().tolist() == [8, 24]
        once[:] = 0
    assert len(missed) == slowly
    w[:] = 3                                             # what is captured is read at each call
    assert f(x)[1].asnumpy().tolist() == [6, 9]
    slowly = len(missed)
    with pytest.raises(ArithmeticError, match="negative"):
        f(nd.array([-3.0, 0.0]))
    assert len(missed) == slowly                         # it is not called again
    assert f(nd.array([1.0, 2.0, 3.0])[:2])[1].asnumpy().tolist() == [6, 9]


@pytest.mark.parametrize("shows", [False, True])
def test_updates_of_the_first_stretch_are_written_in_place(shows: bool) -> None:
    """Where nothing reads the old values later, and no code of the user's is given the new ones, which it may keep."""
    kept: list[Any] = []

    def run(xp: Any, arrays: Any) -> Any:
        kept[:] = arrays
        return [arrays[0] * 2]
    w, x, y = leaves = tuple(ir.input(i, (40,), np.float32) for i in range(3))
    new, other = w + x, w * x
    twice, = ir.host(ir.HostCall("twice", run, (((40,), np.dtype(np.float32)),), shows=shows), [new, other])
    program = Program(leaves, (new - twice,), ((0, new), (1, other), (2, twice + x)))
    staged = StagedProgram(program, np, lambda part: compile_program(part, cpu()))
    assert len(staged.parts()[0].updates) == (0 if shows else 1)     # x is read once more behind the call
    a, b, c = arrays = [np.full(40, k, np.float32) for k in (5, 3, 0)]
    for w0, x0 in ((5, 3), (8, 15)):
        assert staged(arrays)[0].tolist() == [-(w0 + x0)] * 40
        assert [v[0] for v in arrays] == [w0 + x0, w0 * x0, 2 * (w0 + x0) + x0]
        assert (kept[0] is a) != shows and kept[1] is not b
