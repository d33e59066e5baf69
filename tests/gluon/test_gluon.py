"""Layers, parameters, files of gluon; layers against what MXNet 1.9.1 gives (data/gluon_layers.npz, written by
oracle/gluon_layers.py)."""
from __future__ import annotations

import importlib.util

import numpy as onp
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.gluon import nn

from ..paths import DATA, TESTS

_spec = importlib.util.spec_from_file_location("gluon_layers", TESTS / "oracle" / "gluon_layers.py")
oracle = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(oracle)
STORED = onp.load(DATA / "gluon_layers.npz")
HybridError = mx.errors.HybridError


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
@pytest.mark.parametrize("case", oracle.CASES)
def test_layer_against_mxnet(case, hybridized):
    got = oracle.run(mx, autograd, gluon.contrib.nn, case, hybridized)
    want = {k.split("|")[1]: STORED[k] for k in STORED.files if k.split("|")[0] == case}
    assert str(got.pop("repr")) == str(want.pop("repr"))
    assert set(got) == set(want)
    if case == "selu":
        want.pop("grad.x")                                   # MXNet's is wrong on the CPU; see the next test
    for k, v in want.items():
        assert got[k].shape == v.shape and got[k].dtype == v.dtype, k
        onp.testing.assert_allclose(got[k], v, rtol=2e-4, atol=2e-5, err_msg=k)


def test_selu_gradient_by_formula():
    x = nd.array(onp.linspace(-2, 2, 9))
    x.attach_grad()
    with autograd.record():
        y = nn.SELU()(x)
    y.backward()
    scale, alpha, v = 1.0507009873554805, 1.6732632423543772, x.asnumpy()
    onp.testing.assert_allclose(x.grad.asnumpy(), onp.where(v > 0, scale, scale * alpha * onp.exp(v)), rtol=1e-5)


# ---- real weights
class LeNet(gluon.HybridBlock):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.conv1, self.pool1 = nn.Conv2D(6, kernel_size=5), nn.MaxPool2D(pool_size=2)
            self.conv2, self.pool2 = nn.Conv2D(16, kernel_size=5), nn.MaxPool2D(pool_size=2)
            self.fc1, self.fc2 = nn.Dense(120), nn.Dense(84)
            self.fc3_weight = self.params.get("fc3_weight", shape=(10, 84))

    def hybrid_forward(self, F, x, fc3_weight):
        x = self.pool1(F.relu(self.conv1(x)))
        x = self.pool2(F.relu(self.conv2(x)))
        x = F.relu(self.fc1(x.reshape((0, -1))))
        return F.dot(F.relu(self.fc2(x)), fc3_weight, transpose_b=True)


@pytest.mark.parametrize("hybridized", [False, True])
def test_the_lenet_that_mxnet_trained(hybridized):
    data = onp.load(DATA / "digits.npz")
    images, labels = (data[k] for k in sorted(data.files, key=lambda k: -data[k].ndim))
    pixels = images[-360:].reshape(-1, 8, 8).astype("float32") / 16
    x = onp.pad(pixels.repeat(3, 1).repeat(3, 2), ((0, 0), (2, 2), (2, 2)))[:, None]
    net = LeNet()
    net.load_parameters(DATA / "lenet_digits.gluon.params")
    if hybridized:
        net.hybridize()
    logits = net(nd.array(x)).asnumpy()
    onp.testing.assert_allclose(logits, onp.load(DATA / "lenet_digits.test_logits.npy"), atol=1e-4)
    assert int((logits.argmax(1) == labels.ravel()[-360:]).sum()) == 338


# ---- parameters
def mlp(*units, **kwargs):
    net = nn.HybridSequential(**kwargs)
    with net.name_scope():
        net.add(*(nn.Dense(n) for n in units))
    return net


X = nd.array(onp.linspace(-1, 1, 6).reshape(2, 3))


def saved(tmp_path, *units):
    net = mlp(*units)
    net.initialize(mx.init.Xavier())
    y = net(X)
    net.save_parameters(tmp_path / "p.params")
    return net, y.asnumpy(), tmp_path / "p.params"


def test_shapes_are_found_at_the_first_call():
    net = mlp(4, 2)
    net.initialize()
    assert net[0].weight.shape == (4, 0) and repr(net[0]) == "Dense(None -> 4, linear)"
    with pytest.raises(mx.errors.DeferredInitializationError, match="shape is not known"):
        net[0].weight.data()
    net(X)
    assert net[0].weight.shape == (4,
                                   3) and net[1].weight.data().shape == (2,
            4) and repr(net[0]) == "Dense(3 -> 4, linear)"


def test_save_and_load(tmp_path):
    _, y, file = saved(tmp_path, 4, 2)
    for hybridized in (False, True):
        net = mlp(4, 2)
        net.load_parameters(file)                                    # without initialize()
        if hybridized:
            net.hybridize()
        onp.testing.assert_allclose(net(X).asnumpy(), y, rtol=1e-5)
    assert sorted(nd.load(str(file))) == ["0.bias", "0.weight", "1.bias", "1.weight"]


def test_loading_into_a_hybridized_net_is_seen(tmp_path):
    _, y, file = saved(tmp_path, 4, 2)
    net = mlp(4, 2)
    net.initialize()
    net.hybridize()
    before = net(X).asnumpy()
    net.load_parameters(file)
    assert not onp.allclose(before, y)
    onp.testing.assert_allclose(net(X).asnumpy(), y, rtol=1e-5)


def test_full_names(tmp_path):
    net, y, file = saved(tmp_path, 4, 2)
    net.collect_params().save(file)
    assert set(nd.load(str(file))) == set(net.collect_params().keys())
    net.initialize(mx.init.One(), force_reinit=True)
    net.collect_params().load(file)
    onp.testing.assert_allclose(net(X).asnumpy(), y, rtol=1e-5)
    net.save_params(file)                                            # without the prefix: fits a net of another prefix
    twin = mlp(4, 2, prefix="twin_")
    twin.load_params(file)
    onp.testing.assert_allclose(twin(X).asnumpy(), y, rtol=1e-5)
    with pytest.raises(ValueError, match="prefix"):
        net.collect_params().save(file, strip_prefix="other_")


def test_missing_extra_and_mismatched(tmp_path):
    _, _, file = saved(tmp_path, 4, 2)
    net = mlp(4, 2, 1)
    with pytest.raises(HybridError, match=r"no value for '2.weight', '2.bias'.*allow_missing=True"):
        net.load_parameters(file)
    net.load_parameters(file, allow_missing=True)
    with pytest.raises(HybridError, match="initialize"):
        net(X)
    net = mlp(4)
    with pytest.raises(HybridError, match=r"'1.weight', '1.bias'.*ignore_extra=True"):
        net.load_parameters(file)
    net.load_parameters(file, ignore_extra=True)
    assert net(X).shape == (2, 4)
    net = mlp(4, 3)
    net.initialize()
    with pytest.raises(mx.errors.ShapeError, match=r"'1.weight' has shape \(3, 0\), the loaded value \(2, 4\)"):
        net.load_parameters(file)
    with pytest.raises(FileNotFoundError):
        net.load_parameters(tmp_path / "none.params")


def test_dtypes_of_files(tmp_path):
    _, _, file = saved(tmp_path, 4, 2)
    net = mlp(4, 2)
    net.cast("float64")
    with pytest.raises(HybridError, match="cast_dtype=True"):
        net.load_parameters(file)
    net.load_parameters(file, cast_dtype=True)
    assert net[0].weight.data().dtype == onp.float64
    net.load_parameters(file, cast_dtype=True, dtype_source="saved")
    assert net[0].weight.data().dtype == onp.float32 and net[0].weight.dtype == onp.float32


def test_shared_parameters(tmp_path):
    first = nn.Dense(3, in_units=3)
    net = nn.HybridSequential()
    net.add(first, nn.Dense(3, in_units=3, params=first.params))
    net.initialize()
    assert net[0].weight is net[1].weight and len(net.collect_params()) == 2
    y = net(X).asnumpy()
    for deduplicate in (False, True):
        net.save_parameters(tmp_path / "p", deduplicate=deduplicate)
        assert len(nd.load(str(tmp_path / "p"))) == (2 if deduplicate else 4)
        net.initialize(mx.init.One(), force_reinit=True)
        net.load_parameters(tmp_path / "p")
        onp.testing.assert_allclose(net(X).asnumpy(), y, rtol=1e-5)
    with autograd.record():
        loss = net(X).sum()
    loss.backward()
    w, b = first.weight.data().asnumpy(), first.bias.data().asnumpy()
    hidden = X.asnumpy() @ w.T + b
    onp.testing.assert_allclose(first.weight.grad().asnumpy(),
                                onp.ones((3, 1)) * hidden.sum(0) + w.sum(0)[:, None] * X.asnumpy().sum(0), rtol=1e-4)


@pytest.mark.parametrize("hybridized", [False, True])
def test_uninitialized(hybridized):
    net = mlp(2)
    if hybridized:
        net.hybridize()
    for _ in range(2):
        with pytest.raises(HybridError, match=r"dense0_weight' has not been initialized: call net.initialize\(\)"):
            net(X)
    net.initialize()
    assert net(X).shape == (2, 2)


@pytest.mark.parametrize("hybridized", [False, True])
def test_wrong_input_size(hybridized):
    net = nn.Dense(2, in_units=5)
    net.initialize()
    if hybridized:
        net.hybridize()
    with pytest.raises(mx.errors.ShapeError, match=r"\(2, 3\).*\(2, 5\)"):
        net(X)
    assert net(nd.ones((1, 5))).shape == (1, 2)


def test_a_parameter_by_itself():
    p = gluon.Parameter("w", shape=(2, 3))
    assert repr(p) == "Parameter w (shape=(2, 3), dtype=<class 'numpy.float32'>)"
    with pytest.raises(HybridError, match="not been initialized"):
        p.data()
    p.initialize(init="ones")
    assert p.data().asnumpy().tolist() == [[1, 1, 1]] * 2 and p.grad().asnumpy().sum() == 0
    assert p.list_ctx() == [p.data().context] and len(p.list_data()) == len(p.list_grad()) == 1
    p.set_data(nd.full((2, 3), 5))
    assert p.data().asnumpy().max() == 5
    with pytest.raises(mx.errors.ShapeError, match="does not fit"):
        p.set_data(nd.ones((3, 2)))
    p.cast("float16")
    assert p.data().dtype == p.grad().dtype == onp.float16 and p.data().asnumpy().max() == 5
    p.grad_req = "null"
    with pytest.raises(HybridError, match="grad_req is 'null'"):
        p.grad()
    with pytest.raises(ValueError, match="write, add or null"):
        p.grad_req = "sometimes"


def test_gradients_that_add():
    net = nn.Dense(1, in_units=3, use_bias=False)
    net.initialize()
    net.collect_params().setattr("grad_req", "add")
    for _ in range(3):
        with autograd.record():
            y = net(X).sum()
        y.backward()
    onp.testing.assert_allclose(net.weight.grad().asnumpy()[0], 3 * X.asnumpy().sum(0), rtol=1e-5, atol=1e-6)
    net.collect_params().zero_grad()
    assert net.weight.grad().asnumpy().any() == False                 # noqa: E712


def test_dictionaries_of_parameters():
    d = gluon.ParameterDict("net_")
    w = d.get("w", shape=(2, 0), init="ones", allow_deferred_init=True)
    assert d.get("w", shape=(2, 3)) is w and w.shape == (2, 3) and "net_w" in d and list(d) == ["net_w"] and len(d) == 1
    with pytest.raises(mx.errors.ShapeError, match="does not fit"):
        d.get("w", shape=(3, 3))
    c = d.get_constant("c", [[1.0, 2.0]])
    d.initialize()
    assert c.data().asnumpy().tolist() == [[1, 2]] and c.grad_req == "null" and d.get_constant("c") is c
    assert "net_w" in repr(d)
    other = gluon.ParameterDict("net_")
    other.get("w", shape=(2, 3))
    with pytest.raises(ValueError, match="net_w"):
        d.update(other)


def test_initializers():
    def made(init, shape=(400, 300)):
        mx.random.seed(1)
        p = gluon.Parameter("weight", shape=shape)
        p.initialize(init=init)
        return p.data().asnumpy()
    assert abs(made(mx.init.Uniform(0.3))).max() <= 0.3 < abs(made(mx.init.Uniform(0.31))).max() * 1.05
    assert made(mx.init.Normal(0.5)).std() == pytest.approx(0.5, rel=0.02)
    bound = onp.sqrt(3 / 350)
    assert bound * 0.99 < abs(made(mx.init.Xavier())).max() <= bound
    assert made(mx.init.Xavier(rnd_type="gaussian", factor_type="in",
                               magnitude=2)).std() == pytest.approx(onp.sqrt(2 / 300), rel=0.02)
    assert made(mx.init.MSRAPrelu(slope=0)).std() == pytest.approx(onp.sqrt(2 / 350), rel=0.02)
    q = made(mx.init.Orthogonal(scale=1.0), (5, 8))
    onp.testing.assert_allclose(q @ q.T, onp.eye(5), atol=1e-5)
    assert (made("zeros") == 0).all() and (made("ones") == 1).all() and (made(mx.init.Constant(3)) == 3).all()
    assert made(mx.init.Bilinear(), (1, 1, 4, 4))[0, 0, 1].tolist() == [0.1875, 0.5625, 0.5625, 0.1875]
    with pytest.raises(ValueError, match=r"unknown initializer 'xavierr' \(nearest: xavier\); known: .*zeros"):
        made("xavierr")
    with pytest.raises(ValueError, match="four axes"):
        made(mx.init.Bilinear(), (4, 4))


def test_what_initializes_what():
    net = nn.HybridSequential()
    net.add(nn.Dense(2, in_units=3, weight_initializer="ones", bias_initializer=mx.init.Constant(4)),
            nn.Dense(2, in_units=2), nn.BatchNorm(in_channels=2))
    net.initialize(mx.init.Constant(7))
    assert (net[0].weight.data().asnumpy() == 1).all() and (net[0].bias.data().asnumpy() == 4).all()
    assert (net[1].weight.data().asnumpy() == 7).all() and (net[1].bias.data().asnumpy() == 0).all()
    assert (net[2].gamma.data().asnumpy() == 1).all() and (net[2].running_var.data().asnumpy() == 1).all()
    with pytest.warns(UserWarning, match="force_reinit=True"):
        net.initialize(mx.init.Constant(8))                          # no second time
    assert (net[1].weight.data().asnumpy() == 7).all()
    net.initialize(mx.init.Constant(8), force_reinit=True)
    assert (net[1].weight.data().asnumpy() == 8).all()
    net[1].weight.initialize(init=mx.init.Constant(9), force_reinit=True)
    assert (net[1].weight.data().asnumpy() == 9).all()
