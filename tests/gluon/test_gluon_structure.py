"""What is around a block's computation: op hooks, save and load of its structure, sparse arguments, warnings, names."""
from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.gluon import nn


class Net(gluon.HybridBlock):
    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        with self.name_scope():
            self.a, self.b = nn.Dense(5), nn.HybridSequential()
            self.b.add(nn.Dense(2), nn.BatchNorm())

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        return self.b(F.relu(self.a(x)))


def made(**kwargs: Any) -> Net:
    net = Net(**kwargs)
    net.initialize()
    return net


def test_op_hooks_see_what_mxnet_shows() -> None:
    net, seen = made(prefix="n_"), []
    net.register_op_hook(lambda name, op, x: seen.append((name.decode(), op.decode(), x.shape)), monitor_all=False)
    x = nd.ones((2, 3))
    plain = net(x)
    assert seen == []                                        # only hybridized blocks show their operators, as in MXNet
    net.hybridize()
    np.testing.assert_allclose(net(x).asnumpy(), plain.asnumpy(), rtol=1e-5)
    with mx.name.NameManager():
        again = [row[:2] for row in seen]
    assert [op for _, op in again] == ["FullyConnected", "relu", "FullyConnected", "BatchNorm"]
    assert [name.split("_", 1)[1] for name, _ in again] == ["dense0_fwd_output", "relu0_0", "dense1_fwd_output",
                                                            "batchnorm0_fwd_output"]
    assert [shape for *_, shape in seen] == [(2, 5), (2, 5), (2, 2), (2, 2)]
    seen.clear()
    net.register_op_hook(lambda name, op, x: seen.append(name.decode()), monitor_all=True)
    net(x)
    assert [n[2:] for n in seen[:6]] == ["dense0_fwd_data", "dense0_fwd_weight", "dense0_fwd_bias",
                                         "dense0_fwd_output", "relu0_input0", "relu0_0"]


def test_gradients_flow_through_a_watched_call() -> None:
    net = made()
    net.hybridize()
    net(nd.ones((2, 3)))
    x = nd.array(np.random.RandomState(0).rand(2, 3))
    x.attach_grad()
    found = []
    for watched in (False, True):
        if watched:
            net.register_op_hook(lambda name, op, value: None)
        with autograd.record(train_mode=False):
            y = (net(x) ** 2).sum()
        y.backward(train_mode=False)
        found.append(x.grad.asnumpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-7)


def test_save_and_load_of_structure(tmp_path: Path) -> None:
    net, x = made(), nd.ones((2, 3))
    net.hybridize()
    y = net(x)
    net.save(str(tmp_path / "m"))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m-model.json", "m-model.params"]
    other = Net()
    other.load(str(tmp_path / "m"))
    assert other._active and (other(x) == y).asnumpy().all()
    with pytest.raises(KeyError, match="made by the same code"):
        nn.HybridSequential().load(str(tmp_path / "m"))
    (tmp_path / "m-model.json").write_text("{")
    with pytest.raises(ValueError, match="no JSON"):
        Net().load(str(tmp_path / "m"))


class Chain(nn.Block):
    """Layers that are held under names which count the layers of the process."""

    def add(self, block: Any) -> Any:
        self._children[block.name + str(len(self._children))] = block
        return self

    def forward(self, x: Any) -> Any:
        for block in self._children.values():
            x = block(x)
        return x


def test_load_of_structure_takes_over_names(tmp_path: Path) -> None:
    """As MXNet's: of the blocks, of what holds them, and of parameters in dictionaries."""
    def chain() -> Any:
        return Chain().add(Chain().add(nn.Dense(2))).add(nn.Dense(3))
    net, other, x = chain(), chain(), nd.ones((1, 4))
    net.initialize()
    y = net(x)
    net.save(str(tmp_path / "m"))
    other.load(str(tmp_path / "m"))
    assert (other(x) == y).asnumpy().all()
    assert other.name == net.name and list(other._children) == list(net._children)
    assert list(other.collect_params()) == list(net.collect_params())


@pytest.mark.parametrize("layer", [lambda: nn.Embedding(5, 3, sparse_grad=True),
                                   lambda: gluon.contrib.nn.SparseEmbedding(5, 3)], ids=["embedding", "contrib"])
def test_sparse_embeddings_train(layer: Any) -> None:
    net = layer()
    net.initialize(mx.init.One())
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    with autograd.record():
        y = net(nd.array([1, 3, 1]))
    y.backward()
    trainer.step(1)
    value = net.weight.data() if net.weight.stype == "default" else net.weight.row_sparse_data(nd.arange(5))
    assert value.asnumpy()[:, 0].tolist() == [1, 0, 1, 0.5, 1]
    assert net.weight.grad().indices.asnumpy().tolist() == [1, 3]


def test_sequential_warns_that_it_could_be_one_program() -> None:
    net = nn.Sequential()
    net.add(nn.Dense(2))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        net.hybridize()
    assert len(seen) == 1 and "HybridSequential" in str(seen[0].message)


def test_transposed_convolutions_are_named_conv() -> None:
    for layer in (nn.Conv1DTranspose, nn.Conv2DTranspose, nn.Conv3DTranspose):
        assert layer(1, 1).name.startswith("conv") and "transpose" not in layer(1, 1).name


def test_repr_of_sync_batch_norm_and_relu() -> None:
    layer = gluon.contrib.nn.SyncBatchNorm(num_devices=2, prefix="s_", in_channels=3)
    assert (repr(layer) == "SyncBatchNorm(eps=1e-05, momentum=0.9, fix_gamma=False, use_global_stats=False, ndev=2, "
                           "key='s_', in_channels=3)")
    net = nn.BatchNormReLU(in_channels=2)
    net.initialize()
    assert (net(nd.array([[-1.0, 2.0]])).asnumpy() >= 0).all()


def test_notes_of_a_variable_do_not_count_in_a_symbol_block() -> None:
    """As in MXNet 1.9.1: factors of an exported net are not those of the imported one, whatever stands there."""
    out = mx.sym.var("x") * mx.sym.var("w", lr_mult=2, wd_mult=3, init=mx.init.One())
    for value in ("2", "x", "1e999"):
        symbol = mx.sym.load_json(out.tojson().replace('"__lr_mult__": "2"', f'"__lr_mult__": "{value}"'))
        (p,) = gluon.SymbolBlock(symbol, [mx.sym.var("x")]).collect_params().values()
        assert (p.name, p.lr_mult, p.wd_mult, p.init) == ("w", 1.0, 1.0, None)
        assert symbol.attr_dict()["w"]["__lr_mult__"] == value


def test_layers_are_not_given_to_a_constructor() -> None:
    with pytest.raises(ValueError, match=r"prefix of a block \(hybridsequential\) must be a string or None, got Dense; "
                                         r"layers are given to a network's add"):
        nn.HybridSequential(nn.Dense(3))
