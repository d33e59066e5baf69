"""The small modules that users' code calls: mx.model, mx.test_utils, mx.attribute, nd._internal, nd.op."""
from __future__ import annotations

import numpy as onp
import pytest

import hybrid as mx
from hybrid import gluon, nd, sym


def test_checkpoints(tmp_path):
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(3, in_units=4), gluon.nn.BatchNorm(in_channels=3))
    net.initialize()
    x = nd.ones((2, 4))
    want = net(x).asnumpy()
    net.export(str(tmp_path / "net"), epoch=3)
    symbol, args, aux = mx.model.load_checkpoint(str(tmp_path / "net"), 3)
    assert set(args) == set(symbol.list_arguments()) - {"data"} and set(aux) == set(symbol.list_auxiliary_states())
    # files give them on the CPU
    onp.testing.assert_allclose(symbol.eval(data=x.as_in_context(mx.cpu()), **args, **aux)[0].asnumpy(), want,
                                rtol=1e-5)
    mx.model.save_checkpoint(str(tmp_path / "again"), 3, symbol, args, aux)
    for name in ("symbol.json", "0003.params"):
        assert sorted((tmp_path / f"again-{name}").read_bytes()) == sorted((tmp_path / f"net-{name}").read_bytes())
    nd.save(str(tmp_path / "plain-0000.params"), {"w": x})
    with pytest.raises(mx.errors.FileFormatError, match="is no checkpoint"):
        mx.model.load_params(str(tmp_path / "plain"), 0)


def test_test_utils():
    t = mx.test_utils
    assert len(t.list_gpus()) == mx.num_gpus() and t.default_context() == mx.current_context()
    assert t.same(nd.ones((2,)), onp.ones(2)) and not t.same(nd.ones((2,)), nd.zeros((2,)))
    assert t.almost_equal(nd.ones((2,)), nd.ones((2,)) + 1e-6) and not t.almost_equal(nd.ones((2,)), nd.ones((3,)))
    t.assert_almost_equal(nd.ones((2,)), nd.ones((2,)) + 1e-5)
    with pytest.raises(AssertionError, match="left=1.*right=2"):
        t.assert_almost_equal(nd.ones((2,)), nd.ones((2,)) + 1, names=("left", "right"))
    assert t.rand_ndarray((2, 3)).shape == (2, 3) and len(t.rand_shape_nd(3)) == 3


def test_internal_names():
    assert nd._internal._plus_scalar(nd.ones((2,)), scalar=2).asnumpy().tolist() == [3, 3]
    assert nd.op.relu(nd.array([-1, 1])).asnumpy().tolist() == [0, 1]
    assert (sym._internal._mul(sym.var("a"), sym.var("b")).list_arguments() == ["a", "b"]
            and sym.empty((2,)).infer_shape()[1] == [(2,)])
    assert mx.attribute.AttrScope is mx.AttrScope and sym.var("a").tostype("default").name == "a"
    with pytest.raises(AttributeError, match="nosuch"):
        nd._internal.nosuch                                  # noqa: B018


@pytest.mark.skipif(bool(mx.num_gpus()), reason="there is a GPU")
def test_memory_of_a_gpu_that_is_not_there():
    with pytest.raises(mx.errors.DeviceError, match="no GPU was found"):
        mx.gpu_memory_info(0)


def test_a_folder_that_is_not_there(tmp_path):
    for write in (lambda path: nd.save(path, nd.ones((1,))), lambda path: sym.var("a").save(path)):
        with pytest.raises(FileNotFoundError, match=r"cannot write .*none/x: there is no folder"):
            write(str(tmp_path / "none" / "x"))
