"""Blocks of gluon: hooks, children, casts, printed forms, attributes, export."""
from __future__ import annotations

import numpy as onp
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd, sym
from hybrid.gluon import nn

from .test_gluon import X, mlp

HybridError = mx.errors.HybridError


@pytest.mark.parametrize("hybridized", [False, True])
def test_hooks(hybridized):
    net, seen = nn.Dense(2, in_units=3), []
    net.initialize()
    if hybridized:
        net.hybridize()
    before = net.register_forward_pre_hook(lambda block, inputs: seen.append(("before", block is net, len(inputs))))
    after = net.register_forward_hook(lambda block, inputs, out: seen.append(("after", inputs[0] is X, out.shape)))
    net(X)
    net(X)
    assert seen == [("before", True, 1), ("after", True, (2, 2))] * 2
    before.detach()
    net(X)
    assert len(seen) == 5
    with after:
        pass
    net(X)
    assert len(seen) == 5


def test_apply_and_children():
    net, names = mlp(4, 2, prefix="n_"), []
    assert net.apply(lambda b: names.append(b.name)) is net
    assert names == ["n_dense0", "n_dense1", "n"]
    assert (len(net) == 2 and [b.name for b in net] == names[:2] and net[-1].name == "n_dense1"
            and [b.name for b in net[:1]] == ["n_dense0"])
    assert list(net._children) == ["0", "1"]


def test_cast():
    net = nn.HybridSequential()
    net.add(nn.Dense(4), nn.BatchNorm())
    net.initialize()
    net(X)
    net.hybridize()
    net.cast("float16")
    assert net(X.astype("float16")).dtype == onp.float16
    assert net[0].weight.data().dtype == onp.float16 and net[1].running_mean.data().dtype == onp.float32
    net.cast("float64")
    assert net(X.astype("float64")).dtype == onp.float64


REPR = """HybridSequential(
  (0): Conv2D(3 -> 4, kernel_size=(3, 3), stride=(1, 1), Activation(relu))
  (1): BatchNorm(axis=1, eps=1e-05, momentum=0.9, fix_gamma=False, use_global_stats=False, in_channels=4)
  (2): MaxPool2D(size=(2, 2), stride=(2, 2), padding=(0, 0), ceil_mode=False, global_pool=False, pool_type=max, layout=NCHW)
  (3): Flatten
  (4): HybridSequential(
    (0): Dense(36 -> 5, linear)
  )
  (5): Dropout(p = 0.5, axes=())
)"""  # noqa: E501

SUMMARY = """--------------------------------------------------------------------------------
        Layer (type)                                Output Shape         Param #
================================================================================
               Input                                (2, 3, 8, 8)               0
        Activation-1                                (2, 4, 6, 6)               0
            Conv2D-2                                (2, 4, 6, 6)             112
         BatchNorm-3                                (2, 4, 6, 6)              16
         MaxPool2D-4                                (2, 4, 3, 3)               0
           Flatten-5                                     (2, 36)               0
             Dense-6                                      (2, 5)             185
           Dropout-7                                      (2, 5)               0
================================================================================
Parameters in forward computation graph, duplicate included
   Total params: 313
   Trainable params: 305
   Non-trainable params: 8
Shared params in forward computation graph: 0
Unique parameters in model: 313
--------------------------------------------------------------------------------
"""


def test_repr_and_summary(capsys):
    inner = nn.HybridSequential()
    inner.add(nn.Dense(5))
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, activation="relu"), nn.BatchNorm(), nn.MaxPool2D(), nn.Flatten(), inner, nn.Dropout(0.5))
    net.initialize()
    net.summary(nd.ones((2, 3, 8, 8)))
    assert capsys.readouterr().out == SUMMARY
    assert repr(net) == REPR
    net.hybridize()
    with pytest.raises(AssertionError, match="before hybridize"):
        net.summary(nd.ones((2, 3, 8, 8)))


def test_attributes_keep_their_kind():
    class Net(gluon.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.a = nn.Dense(2)

        def hybrid_forward(self, F, x):
            return self.a(x)
    net = Net()
    net.a = nn.Dense(3)
    net.initialize()
    assert net(X).shape == (2, 3) and len(net.collect_params()) == 2
    net.hybridize()
    net(X)
    net.a = nn.Dense(4)
    net.initialize()
    assert net(X).shape == (2, 4)
    with pytest.raises(TypeError, match="Dense and cannot become int"):
        net.a = 3
    with pytest.raises(ValueError, match="must be HybridBlocks"):
        net.b = gluon.Block()
    net.hybridize(False)
    with pytest.raises(TypeError, match="nd.array"):
        net(onp.ones((2, 3)))


def test_a_plain_block_hybridizes_its_children():
    class Net(gluon.Block):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.a, self.b = mlp(4), nn.Dense(1)

        def forward(self, x):
            return self.b(self.a(x)) if float(x.sum().asscalar()) < 100 else x
    net = Net()
    net.initialize()
    y = net(X).asnumpy()
    net.hybridize(static_alloc=True, static_shape=True)
    onp.testing.assert_allclose(net(X).asnumpy(), y, rtol=1e-5)
    assert net.a._active and net.b._active
    with pytest.warns(UserWarning, match="no option bogus"):
        net.hybridize(bogus=1)


def test_dropout_trains_and_predicts():
    for hybridized in (False, True):
        net, x = nn.Dropout(0.5), nd.ones((100, 100))
        if hybridized:
            net.hybridize()
        assert (net(x).asnumpy() == 1).all()
        with autograd.record():
            a, b = net(x).asnumpy(), net(x).asnumpy()
        assert set(onp.unique(a)) == {0, 2} and abs(a.mean() - 1) < 0.05 and (a != b).any()


def test_symbols_through_layers():
    net = mlp(4, 2, prefix="net_")
    y = net(sym.var("data"))
    assert y.list_arguments() == ["data", "net_dense0_weight", "net_dense0_bias", "net_dense1_weight",
                                  "net_dense1_bias"]
    assert y.infer_shape(data=(2, 3))[1] == [(2, 2)]


def test_export_before_the_first_call(tmp_path):
    net = mlp(2)
    net.initialize()
    with pytest.raises(HybridError, match="once with data before export"):
        net.export(str(tmp_path / "m"))
