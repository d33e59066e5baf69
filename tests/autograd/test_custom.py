"""Operators written in Python: eager, recorded, inside hybridized nets, in Symbols and their files."""
from __future__ import annotations

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd, sym
from hybrid.base.errors import AttributeValueError, HybridError, ShapeError

CALLS = []


class Softmax(mx.operator.CustomOp):
    """MXNet's own example of a custom operator: softmax with the gradient of the cross entropy."""

    def forward(self, is_train, req, in_data, out_data, aux):
        CALLS.append(("forward", is_train))
        x = in_data[0].asnumpy()
        y = np.exp(x - x.max(axis=1, keepdims=True))
        self.assign(out_data[0], req[0], mx.nd.array(y / y.sum(axis=1, keepdims=True)))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        CALLS.append(("backward", tuple(req)))
        label = in_data[1].asnumpy().ravel().astype(int)
        y = out_data[0].asnumpy()
        y[np.arange(label.shape[0]), label] -= 1.0
        self.assign(in_grad[0], req[0], mx.nd.array(y))


@mx.operator.register("test_softmax")
class SoftmaxProp(mx.operator.CustomOpProp):
    def __init__(self):
        super().__init__(need_top_grad=False)

    def list_arguments(self):
        return ["data", "label"]

    def infer_shape(self, in_shape):
        return [in_shape[0], (in_shape[0][0],)], [in_shape[0]], []

    def create_operator(self, ctx, in_shapes, in_dtypes):
        return Softmax()


class ScaledParts(mx.operator.CustomOp):
    """Two outputs of two dtypes, a count in an auxiliary state, a state of its own between forward and backward."""

    def __init__(self, scale):
        self.scale = scale

    def forward(self, is_train, req, in_data, out_data, aux):
        x, w = in_data
        self.mask = x > 0
        self.assign(out_data[0], req[0], x * w * self.scale * self.mask)
        self.assign(out_data[1], req[1], self.mask)
        aux[0][:] += 1

    def backward(self, in_grad, out_grad, req, in_data, out_data, aux):                  # arguments come by name
        assert not autograd.is_recording() and out_grad[1].dtype == np.int32
        x, w = in_data
        self.assign(in_grad[0], req[0], out_grad[0] * w * self.scale * self.mask)
        self.assign(in_grad[1], req[1], (out_grad[0] * x * self.scale * self.mask).sum(axis=0))


@mx.operator.register("test_parts")
class ScaledPartsProp(mx.operator.CustomOpProp):
    def __init__(self, scale="1.0", deep="False"):
        super().__init__()
        assert isinstance(scale, str) and deep in ("False", "True")
        self.scale = float(scale)

    def list_arguments(self):
        return ["data", "weight"]

    def list_outputs(self):
        return ["scaled", "mask"]

    def list_auxiliary_states(self):
        return ["count"]

    def infer_shape(self, in_shape):
        return [in_shape[0], in_shape[0][1:]], [in_shape[0], in_shape[0]], [(1,)]

    def infer_type(self, in_type):
        return in_type, [in_type[0], np.int32], [np.float32]

    def create_operator(self, ctx, in_shapes, in_dtypes):
        # as MXNet calls it
        assert isinstance(ctx, mx.Context) and in_shapes == [[4, 3], [3], [1]] and in_dtypes == [0, 0, 0]
        return ScaledParts(self.scale)


X = np.random.RandomState(0).uniform(-1, 1, (4, 3)).astype("float32")
LABEL = np.array([0, 2, 1, 1], "float32")


def softmax(x):
    y = np.exp(x - x.max(axis=1, keepdims=True))
    return y / y.sum(axis=1, keepdims=True)


class Net(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.weight = self.params.get("weight", shape=(3,), init=mx.init.Constant(0.5))
            self.count = self.params.get("count", shape=(1,), init="zeros", grad_req="null", differentiable=False)

    def hybrid_forward(self, F, x, weight, count):
        before = F.tanh(x) * 2
        y, mask = F.Custom(before, weight, count, op_type="test_parts", scale=1.5, deep=True)
        return F.exp(y) + before, mask


def run(net, x):
    x = nd.array(x)
    x.attach_grad()
    with autograd.record():
        y, mask = net(x)
        loss = (y * y).sum()
    loss.backward()
    return [v.asnumpy() for v in (y, mask, x.grad, net.weight.grad(), net.count.data())]


@pytest.mark.parametrize("ctx_name", ["cpu", "emulated"])
def test_a_hybridized_net_equals_the_eager_one(ctx_name, monkeypatch):
    if ctx_name == "emulated":
        monkeypatch.setenv("HYBRID_CUDA", "emulator")
    ctx = mx.gpu(0) if ctx_name == "emulated" else mx.cpu()
    with ctx:
        net = Net()
        net.initialize(ctx=ctx)
        eager = run(net, X)
        assert eager[1].dtype == np.int32 and eager[-1].tolist() == [1]
        t = np.tanh(X) * 2
        want = np.exp(t * 0.75 * (t > 0)) + t
        np.testing.assert_allclose(eager[0], want, rtol=1e-5)
        net.hybridize()
        for turn in (2, 3):
            found = run(net, X)
            assert found[-1].tolist() == [turn]
            for a, b in zip(found[:-1], eager):
                assert a.dtype == b.dtype
                np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)
        y, _ = net(nd.array(X))                              # not recorded: other parts, the same numbers
        np.testing.assert_allclose(y.asnumpy(), want, rtol=2e-5)
        assert net.count.data().asscalar() == 4


def test_mxnets_example_eager_and_hybridized():
    x, label = nd.array(X), nd.array(LABEL)
    x.attach_grad()
    del CALLS[:]
    with autograd.record():
        y = nd.Custom(x, label, op_type="test_softmax", name="softmax")
    y.backward()
    np.testing.assert_allclose(y.asnumpy(), softmax(X), rtol=1e-6)
    expected = softmax(X)
    expected[np.arange(4), LABEL.astype(int)] -= 1
    np.testing.assert_allclose(x.grad.asnumpy(), expected, rtol=1e-5, atol=1e-7)
    assert CALLS == [("forward", True), ("backward", ("write", "null"))]

    @mx.hybridize
    def step(x, label):
        return nd.Custom(x * 2, label=label, op_type="test_softmax")
    for scale in (1, 2):                                       # the code runs at each call, on that call's numbers
        np.testing.assert_allclose(step(nd.array(X * scale), label).asnumpy(), softmax(X * 2 * scale), rtol=1e-6)
    assert CALLS[2:] == [("forward", False)] * 2
    with autograd.record():
        y = step(x, label)
    y.backward()
    expected = softmax(X * 2)
    expected[np.arange(4), LABEL.astype(int)] -= 1
    np.testing.assert_allclose(x.grad.asnumpy(), expected * 2, rtol=1e-5, atol=1e-6)
    assert nd.Custom(x, label, op_type="test_softmax", out=nd.zeros((4, 3))).shape == (4, 3)


def test_two_calls_keep_states_of_their_own():
    class Twice(gluon.HybridBlock):
        def hybrid_forward(self, F, x, weight, count):
            first, _ = F.Custom(x, weight, count, op_type="test_parts")
            second, _ = F.Custom(-x, weight, count, op_type="test_parts", scale=2)
            return first + second
    weight, count = nd.array([1.0, 2.0, 3.0]), nd.zeros((1,))
    found = []
    for hybridized in (False, True):
        net = Twice()
        net.hybridize(hybridized)
        x = nd.array(X)
        x.attach_grad()
        with autograd.record():
            y = net(x, weight, count)
        y.backward()
        found.append((y.asnumpy(), x.grad.asnumpy()))
    w = np.array([1.0, 2.0, 3.0], "float32")
    np.testing.assert_allclose(found[0][1], np.where(X > 0, 1, -2) * w, rtol=1e-6)
    for a, b in zip(*found):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    assert count.asscalar() == 4


def test_symbols_and_files():
    data = sym.var("data")
    s = sym.Custom(data, op_type="test_softmax", name="out")
    assert s.list_arguments() == ["data", "out_label"] and s.list_outputs() == ["out_output"]
    assert s.infer_shape(data=(4, 3))[0] == [(4, 3), (4,)]
    for graph in (s, sym.load_json(s.tojson())):
        assert graph.eval(data=nd.array(X), out_label=nd.array(LABEL))[0].shape == (4, 3)
        exe = graph.simple_bind(mx.cpu(), data=(4, 3))
        exe.forward(is_train=True, data=nd.array(X), out_label=nd.array(LABEL))
        exe.backward()
        np.testing.assert_allclose(exe.outputs[0].asnumpy(), softmax(X), rtol=1e-6)
        assert abs(exe.grad_dict["data"].asnumpy().sum()) < 1e-5
    assert '"op": "Custom"' in s.tojson() and '"op_type": "test_softmax"' in s.tojson()
    parts = sym.Custom(data, sym.var("w"), sym.var("c"), op_type="test_parts", scale=2.5)
    assert len(parts.list_outputs()) == 2 and '"scale": "2.5"' in parts.tojson()


class Bad(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        raise KeyError("the user's own error")


@mx.operator.register("test_bad")
class BadProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, in_shapes, in_dtypes):
        return Bad()


def test_bad_input():
    x = nd.array(X)
    with pytest.raises(AttributeValueError, match="no custom operator 'nosuch' is registered"):
        nd.Custom(x, op_type="nosuch")
    with pytest.raises(AttributeValueError, match="needs op_type"):
        nd.Custom(x)
    with pytest.raises(AttributeValueError, match="needs data, label; missing: label"):
        nd.Custom(x, op_type="test_softmax")
    with pytest.raises(AttributeValueError, match="takes 2 arrays"):
        nd.Custom(x, x, x, op_type="test_softmax")
    with pytest.raises(AttributeValueError, match="does not take colour"):
        nd.Custom(x, x, op_type="test_softmax", colour="red")
    with pytest.raises(AttributeValueError, match="has no input bias; it has data, label"):
        nd.Custom(x, x, bias=x, op_type="test_softmax")
    with pytest.raises(ShapeError, match="infer_shape wants inputs of shapes"):
        nd.Custom(x, x, op_type="test_softmax")
    for call in (lambda: nd.Custom(x, op_type="test_bad"),
                 lambda: mx.hybridize(lambda v: nd.Custom(v, op_type="test_bad") + 1)(x)):
        with pytest.raises(KeyError, match="the user's own error"):
            call()
    with pytest.raises(ShapeError, match="the target has shape"):
        Bad().assign(nd.zeros((2, 3)), "write", nd.zeros((3, 2)))
    with pytest.raises(HybridError, match="req must be"):
        Bad().assign(nd.zeros((2,)), "fill", nd.zeros((2,)))
    added = nd.ones((2,))
    Bad().assign(added, "add", nd.ones((2,)))
    Bad().assign(added, "null", nd.zeros((2,)))
    assert added.asnumpy().tolist() == [2, 2]


def test_the_report_says_where_the_program_is_cut():
    f = mx.hybridize(lambda x, label: nd.Custom(nd.tanh(x), label, op_type="test_softmax") * 2 + 1)
    f(nd.array(X), nd.array(LABEL))
    report = f.report()
    assert len(report.kernels) == 2 and ("custom operator 'test_softmax'",
                                         "Python code, called between compiled parts") in report.refusals


class Squared(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], nd.array(in_data[0].asnumpy() ** 2))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], 2 * in_data[0] * out_grad[0])


@mx.operator.register("test_squared")
class SquaredProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, in_shapes, in_dtypes):
        return Squared()


def squared(x):
    return nd.Custom(x, op_type="test_squared")


PROGRAMS = {"chain": lambda x: squared(squared(x) + 1) * 2, "twice": lambda x: squared(x) + squared(x),
            "alone": squared, "constant": lambda x: squared(nd.ones((3,)) * 2) + x,
            "branches": lambda x: nd.exp(x).sum() * squared(nd.tanh(x)).sum() + squared(x).max()}


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_cuts_of_programs(name):
    x = nd.array([0.5, 1.0, 1.5])
    x.attach_grad()
    found = []
    for f in (PROGRAMS[name], mx.hybridize(PROGRAMS[name])):
        with autograd.record():
            y = f(x)
        y.backward()
        found.append((f(x).asnumpy(), y.asnumpy(), x.grad.asnumpy()))
    for a, b in zip(*found):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_whole_steps_exports_and_loops(tmp_path):
    @mx.hybridize
    def step(x):
        with autograd.record():
            y = squared(x * 2).sum()
        y.backward()
        return y
    x = nd.array([1.0, 2.0, 3.0])
    x.attach_grad()
    assert step(x).asscalar() == 56 and x.grad.asnumpy().tolist() == [8, 16, 24]

    class Trained(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.dense, self.norm = gluon.nn.Dense(3, in_units=3), gluon.nn.BatchNorm(in_channels=3)

        def hybrid_forward(self, F, x):
            return self.norm(F.Custom(self.dense(x), op_type="test_squared"))
    net = Trained()
    net.initialize()
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    data = nd.array(X)
    before = net.dense.weight.data().asnumpy()
    for _ in range(2):
        with autograd.record():
            loss = (net(data) * nd.array(X)).mean()
        loss.backward()
        trainer.step(4)
    assert (np.abs(net.norm.running_mean.data().asnumpy()).min() > 0
            and np.abs(net.dense.weight.data().asnumpy() - before).max() > 1e-6)
    want = net(data).asnumpy()
    net.export(str(tmp_path / "net"))
    again = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params"))
    np.testing.assert_allclose(again(data).asnumpy(), want, rtol=1e-5)
    with pytest.raises(HybridError, match="cannot be called from inside a compiled loop"):
        mx.hybridize(lambda d: nd.contrib.foreach(lambda v, s: (squared(v) + s, s), d,
                                                  nd.zeros((1,)))[0])(nd.ones((12, 1)))


class Counting(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        aux[0][:] = aux[0] + 1
        self.assign(out_data[0], req[0], in_data[0] * in_data[0])

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], 2 * in_data[0] * out_grad[0] * aux[0])


@mx.operator.register("test_counting")
class CountingProp(mx.operator.CustomOpProp):
    def list_auxiliary_states(self):
        return ["calls"]

    def infer_shape(self, in_shape):
        return in_shape, [in_shape[0]], [in_shape[0]]

    def create_operator(self, ctx, in_shapes, in_dtypes):
        assert len(in_shapes) == len(in_dtypes) == 2                  # states included, as MXNet tells them
        return Counting()


def test_states_of_symbols():
    y = sym.Custom(sym.var("data"), name="c", op_type="test_counting")
    again = sym.load_json(y.tojson())
    for s in (y, again):
        assert s.list_arguments() == ["data"] and s.list_auxiliary_states() == ["c_calls"]
        assert s.infer_shape(data=(2,)) == ([(2,)], [(2,)], [(2,)])
        exe = s.simple_bind(mx.cpu(), data=(2,))
        for calls in (1, 2):                                          # backward sees the states as forward left them
            exe.forward(True, data=nd.array([1, 2]))
            exe.backward(nd.ones((2,)))
            assert exe.aux_dict["c_calls"].asnumpy().tolist() == [calls] * 2
            assert exe.grad_dict["data"].asnumpy().tolist() == [2 * calls, 4 * calls]
    named = sym.Custom(sym.var("data"), sym.var("aux"), op_type="test_counting")
    assert named.list_auxiliary_states() == ["aux"]


def test_names_of_all_operators():
    found = mx.operator.get_all_registered_operators()
    assert {"Custom", "FullyConnected", "_plus_scalar"} <= set(found) and "test_counting" not in found
