"""Parameters and block attributes: what MXNet 1.9.1 does where user code relies on it, and what a compiled block
notices."""
from __future__ import annotations

import tracemalloc
import types
import warnings

import numpy as onp
import pytest

import hybrid as mx
from hybrid import gluon, nd
from hybrid.gluon import nn

X = nd.array(onp.linspace(-1, 1, 6).reshape(2, 3))


# ---- parameters
def test_dtype_is_shown_as_it_was_given():
    dense, conv = nn.Dense(2), nn.Conv2D(2, 3)
    assert repr(dense.weight).endswith("_weight (shape=(2, 0), dtype=float32)")
    assert repr(conv.weight).endswith("_weight (shape=(2, 0, 3, 3), dtype=<class 'numpy.float32'>)")
    assert repr(gluon.Constant("c", nd.ones((2,)))) == "Constant c (shape=(2,), dtype=<class 'numpy.float32'>)"
    dense.cast("float16")
    assert dense.weight.dtype == "float16"
    assert repr(gluon.ParameterDict("p_")) == "p_ (\n\n)"


def test_the_default_initializer_does_not_ask_for_the_name():
    block = gluon.Block()
    for name in ("w", "bias", "transitions"):
        block.params.get(name, shape=(2, 3))
    block.initialize()
    for p in block.params.values():
        assert 0 < abs(p.data().asnumpy()).max() <= 0.07, p
    block.initialize(mx.init.Constant(4), force_reinit=True)
    assert all((p.data().asnumpy() == 4).all() for p in block.params.values())


def test_users_initializers():
    seen = []

    class Mine(mx.init.Initializer):
        def _init_weight(self, name, data):
            seen.append((str(name), data.shape))
            data[:] = nd.random.uniform(low=-10, high=10, shape=data.shape)
            data *= data.abs() >= 5
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(4), nn.Dense(1, weight_initializer=mx.init.One()))
    net.initialize(Mine())
    net(X)
    assert seen == [("net_dense0_weight", (4, 3))]
    w = abs(net[0].weight.data().asnumpy())
    assert ((w == 0) | (w >= 5)).all() and w.any()
    assert (net[1].weight.data().asnumpy() == 1).all() and (net[0].bias.data().asnumpy() == 0).all()


def test_asking_again_for_a_parameter():
    d = gluon.ParameterDict("net_")
    w = d.get("w", shape=(2, 3))
    assert d.get("w", init="ones", dtype="float32") is w and w.init == "ones"
    for wrong in ({"init": "zeros"}, {"dtype": "float16"}, {"grad_req": "add"}, {"lr_mult": 2.0}):
        with pytest.raises(mx.errors.AttributeValueError, match=f"exists with {next(iter(wrong))}="):
            d.get("w", **wrong)
    c = d.get_constant("c", nd.array([1, 2]))
    assert d.get_constant("c", nd.array([1, 2])) is c
    with pytest.raises(mx.errors.AttributeValueError, match="another value"):
        d.get_constant("c", nd.array([1, 3]))
    with pytest.raises(KeyError, match="net_none"):
        d.get_constant("none")
    with pytest.warns(UserWarning, match="no gradient"):
        c.grad_req = "write"
    assert c.grad_req == "null"


def test_load_dict():
    d = gluon.ParameterDict("net_")
    w = d.get("w", shape=(2, 0), allow_deferred_init=True)
    d.load_dict({"arg:w": nd.ones((2, 3))}, restore_prefix="net_")
    assert w.data().shape == (2, 3)
    with pytest.raises(mx.errors.FileFormatError, match="the dict holds 'other'"):
        d.load_dict({"net_w": nd.ones((2, 3)), "other": nd.ones((1,))})
    with pytest.raises(mx.errors.HybridError, match=r"stype.*use data\(\)"):
        w.row_sparse_data(nd.array([0]))


def test_deduplicated_files_have_mxnets_names(tmp_path):
    first = nn.Dense(3, in_units=3)
    net = nn.HybridSequential()
    net.add(first, nn.Dense(3, in_units=3, params=first.params))
    net.initialize()
    net.save_parameters(tmp_path / "p", deduplicate=True)
    assert sorted(nd.load(str(tmp_path / "p"))) == ["1.bias", "1.weight"]


# ---- blocks
def test_attributes_before_super_init():
    class Net(gluon.HybridBlock):
        def __init__(self, units):
            self.units, self.sizes = units, [units]
            super().__init__()
            self.fc = nn.Dense(self.sizes[0])

        def hybrid_forward(self, F, x):  # noqa: N803
            return self.fc(x) * self.sizes[0]
    net = Net(2)
    net.initialize(mx.init.One())
    net.hybridize()
    assert net(X).shape == (2, 2)

    class Wrong(gluon.HybridBlock):
        def __init__(self):
            self.fc = nn.Dense(2)
            super().__init__()
    with pytest.raises(AttributeError, match=r"Wrong\.fc: call super\(\)\.__init__"):
        Wrong()


def test_layers_in_a_list_are_reported():
    class Net(gluon.Block):
        def __init__(self):
            super().__init__()
            self.layers = [nn.Dense(2), {"b": nn.Dense(3)}]

        def forward(self, x):
            return self.layers[0](x)
    with pytest.warns(UserWarning, match=r"Net\.layers holds layers"):
        Net().collect_params()
    net = Net()
    net.register_child(net.layers[0])
    net.register_child(net.layers[1]["b"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(net.collect_params()) == 4


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
def test_first_input_in_a_list(hybridized):
    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.fc = nn.Dense(2)
                self.scale = self.params.get("scale", shape=(0, 2), init="ones", allow_deferred_init=True)

        def hybrid_forward(self, F, pair, more=None, scale=None):  # noqa: N803
            a, b = pair
            out = F.broadcast_mul(self.fc(a) + self.fc(b), F.broadcast_add(scale, F.zeros_like(self.fc(a))))
            return out if more is None else out + more["bias"]
    net = Net()
    net.scale.shape = (2, 2)
    net.initialize(mx.init.One())
    if hybridized:
        net.hybridize()
    want = (X.asnumpy().sum(1) * 2)[:, None] * onp.ones((1, 2))
    onp.testing.assert_allclose(net([X, X]).asnumpy(), want, atol=1e-6)
    onp.testing.assert_allclose(net([X, X], {"bias": nd.ones((2, 2))}).asnumpy(), want + 1, atol=1e-6)
    net.hybridize(False)
    with pytest.raises(TypeError, match="got list: wrap it"):
        net([1, 2])


# ---- what a compiled block notices
class Loose(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        self.scales, self.table, self.config = [1, 2], {"a": 1}, types.SimpleNamespace(alpha=1)
        self.arrays, self.raw = [nd.ones((2,))], onp.ones((2,), "float32")
        self.nested, self.unused = ([1],), []
        self.blocks = [nn.Dense(2, in_units=2)]
        self.blocks[0].initialize(mx.init.One())

    def hybrid_forward(self, F, x):  # noqa: N803
        y = self.blocks[0](x) * self.scales[0] * self.table["a"] * self.factor() * self.arrays[0] * F.array(self.raw)
        return sum(y * n for n in self.nested[0])

    def factor(self):
        return self.config.alpha


def _dense_of_twos():
    new = nn.Dense(2, in_units=2)
    new.initialize(mx.init.Constant(2))
    return new


CHANGES = {
    "list": lambda n: n.scales.__setitem__(0, 10),
    "dict": lambda n: n.table.update(a=10),
    "object": lambda n: setattr(n.config, "alpha", 10),
    "array in a list": lambda n: n.arrays.__setitem__(0, nd.ones((2,)) * 10),
    "contents of an array": lambda n: n.arrays[0].__setitem__(slice(None), 10),
    "numpy array": lambda n: n.raw.fill(10),
    "list in a tuple": lambda n: n.nested[0].append(9),
    "layer in a list": lambda n: n.blocks.__setitem__(0, _dense_of_twos()),
    "attribute of a layer in a list": lambda n: setattr(n.blocks[0], "_flatten", False),
    "new list": lambda n: setattr(n, "scales", [7]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_contents_of_attributes_are_never_stale(change):
    net, x = Loose(), nd.array([[1.0, 2.0]])
    net.hybridize()
    net(x), net(x)
    assert len(net.cache_misses) == 1
    CHANGES[change](net)
    got = [net(x).asnumpy() for _ in range(2)]
    net.hybridize(False)
    want = net(x).asnumpy()
    onp.testing.assert_allclose(got[0], want)
    onp.testing.assert_allclose(got[1], want)


def test_attributes_that_no_method_reads_compile_nothing():
    net, x = Loose(), nd.array([[1.0, 2.0]])
    net.hybridize()
    for _ in range(5):
        net.unused.append(net(x))
    assert len(net.cache_misses) == 1


# ---- smaller things
def test_infer_shape_of_a_whole_network():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(3, 3), nn.BatchNorm(), nn.Dense(4))
    net.infer_shape(nd.ones((2, 5, 8, 8)))
    assert [p.shape for p in net.collect_params().values()] == [(3, 5, 3, 3), (3,), (3,), (3,), (3,), (3,), (4, 108),
                                                                (4,)]
    with pytest.raises(mx.errors.HybridError, match="not been initialized"):
        net[0].weight.data()
    net.initialize()
    assert net(nd.ones((2, 5, 8, 8))).shape == (2, 4)


def test_symbol_block_shows_its_graph():
    x = mx.sym.var("x")
    assert repr(gluon.SymbolBlock(mx.sym.relu(x, name="r"), x)) == "SymbolBlock(\n<Symbol r> : 1 -> 1\n)"


def test_wrong_arguments(tmp_path):
    net = nn.Dense(2, in_units=3)
    net.initialize()
    net.save_parameters(tmp_path / "p")
    with pytest.raises(ValueError, match="dtype_source must be current or saved, got 'foo'"):
        net.load_parameters(tmp_path / "p", cast_dtype=True, dtype_source="foo")
    for register in (net.register_forward_hook, net.register_forward_pre_hook):
        with pytest.raises(TypeError, match="a hook must be a function, got 5"):
            register(5)


def test_assignment_from_another_device():
    if mx.num_gpus():
        x = nd.zeros((2, 3), ctx=mx.gpu(0))
        x[0] = nd.ones((3,), ctx=mx.cpu())
        assert x.asnumpy().sum() == 3 and x.context == mx.gpu(0)


def test_summary_of_several_inputs_and_nested_results(capsys):
    class Two(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.d, self.e = nn.Dense(3, in_units=4), nn.Dense(2, in_units=4)

        def hybrid_forward(self, F, x, y):  # noqa: N803
            return self.d(x), [self.e(y)]
    net = Two()
    net.initialize()
    net.summary(nd.ones((1, 4)), nd.ones((2, 4)))
    rows = [line.split("  ", 1)[-1].rsplit("  ", 1)[0].strip() for line in capsys.readouterr().out.splitlines()[3:7]]
    assert [r.split("  ")[-1].strip() for r in rows] == ["(1, 4), (2, 4)", "(1, 3)", "(2, 2)", "(1, 3), [(2, 2)]"]


# ---- loading
def test_loaded_values_are_in_memory_once(tmp_path):
    path = tmp_path / "w"
    saved = nn.Dense(256, in_units=512)
    saved.initialize()
    saved.save_parameters(path)
    net, size = nn.Dense(256, in_units=512), path.stat().st_size
    tracemalloc.start()
    net.load_parameters(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (net.weight.data().asnumpy() == saved.weight.data().asnumpy()).all()
    assert peak < 1.5 * size, f"{peak} bytes for a file of {size}"


def test_arrays_that_are_given_stay_the_givers():
    weight, net = nd.ones((64, 64)), nn.Dense(64, in_units=64, use_bias=False, prefix="d_")
    net.collect_params().load_dict({"d_weight": weight})
    net.weight.data()[:] = 3
    assert (weight.asnumpy() == 1).all()
    weight[:] = 5
    assert (net.weight.data().asnumpy() == 3).all()


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "hybridized"])
def test_a_sampled_weight_in_the_place_of_a_parameter(compiled):
    """Bayes by backprop as programs for MXNet have it (``param._data[i] = w``): the gradient goes to what the weight
    was computed from."""
    net, mean = nn.Dense(1, in_units=3, use_bias=False), nd.array([[1.0, 2.0, 3.0]])
    net.initialize()
    if compiled:
        net.hybridize()
    net(X), mean.attach_grad()
    ctx = mx.cpu()
    for scale in (2.0, 3.0):
        with mx.autograd.record():
            place = net.weight._ctx_map[ctx.device_typeid & 1][ctx.device_id]
            net.weight._data[place] = mean * scale
            y = net(X)
        y.backward()
        assert y.asnumpy() == pytest.approx((X.asnumpy() * [scale, 2 * scale, 3 * scale]).sum(1, keepdims=True),
                                            rel=1e-6)
        assert mean.grad.asnumpy() == pytest.approx(scale * X.asnumpy().sum(0, keepdims=True), rel=1e-6)
    assert nn.Dense(1).weight._ctx_map == [[], []]


class _Keeps(gluon.HybridBlock):
    """A running sum in a parameter, written as MXFusion writes results."""

    def __init__(self):
        super().__init__()
        self.total = self.params.get("total", shape=(3,), init="zeros", grad_req="null")

    def hybrid_forward(self, F, x, total):  # noqa: N803
        self.total.set_data(total + x.sum(axis=0))
        return x * total


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "hybridized"])
def test_set_data_within_a_block(compiled):
    net = _Keeps()
    net.initialize()
    if compiled:
        net.hybridize()
    outs = [net(nd.ones((2, 3))).asnumpy()[0, 0] for _ in range(3)]
    assert outs == [2, 4, 6] and net.total.data().asnumpy().tolist() == [6, 6, 6]
