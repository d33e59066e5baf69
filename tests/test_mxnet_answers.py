"""Answers and refusals of MXNet 1.9.1 about modules, recorded functions, notes on Symbols and small arguments."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd, sym

X = sym.var("x")


# ---- modules
def generated(key: int) -> Any:
    fc = sym.FullyConnected(sym.var("data"), num_hidden=2, name="fc", flatten=False)
    return sym.SoftmaxOutput(sym.sum(fc, axis=1), name="softmax"), ["data"], ["softmax_label"]


def batch(key: int) -> mx.io.DataBatch:
    return mx.io.DataBatch([nd.arange(6 * key).reshape((2, key, 3)) / 10], [nd.array([0, 1])], bucket_key=key,
                           provide_data=[("data", (2, key, 3))], provide_label=[("softmax_label", (2,))])


def test_a_bucketing_module_from_files(tmp_path: Path) -> None:
    mod = mx.mod.BucketingModule(generated, default_bucket_key=4)
    mod.bind([("data", (2, 4, 3))], [("softmax_label", (2,))])
    mod.init_params(mx.init.Uniform(1))
    mod.forward(batch(2), is_train=False)
    wanted = mod.get_outputs()[0].asnumpy()
    prefix = str(tmp_path / "b")
    mod.save_checkpoint(prefix, 3)
    assert {p.name for p in tmp_path.iterdir()} >= {"b-0003.params", "b-2-symbol.json", "b-4-symbol.json", "b.buckets"}
    keys, = nd.load(prefix + ".buckets")
    assert keys.dtype.__name__ == "int32" and keys.asnumpy().tolist() == [4, 2]

    again = mx.mod.BucketingModule.load(prefix, 3, sym_gen=generated, default_bucket_key=4)
    again.bind([("data", (2, 4, 3))], [("softmax_label", (2,))], for_training=False)
    again.forward(batch(2), is_train=False)
    assert again.get_outputs()[0].asnumpy() == pytest.approx(wanted)
    with pytest.raises(mx.MXNetError, match="sym_gen must be given"):
        mx.mod.BucketingModule.load(prefix, 3, default_bucket_key=4)


# ---- recorded functions
class Same(autograd.Function):
    def forward(self, x: Any) -> Any:
        return x

    def backward(self, dy: Any) -> Any:
        return dy * 3


def test_a_function_that_returns_its_input() -> None:
    """The input keeps its own gradient."""
    x = nd.array([1.0, 2.0])
    x.attach_grad()
    with autograd.record():
        y = Same()(x) * x
    y.backward()
    assert x.grad.asnumpy().tolist() == [4, 8]
    with autograd.record():
        y = x * 2
    y.backward()
    assert x.grad.asnumpy().tolist() == [2, 2]


# ---- Symbols
@pytest.mark.parametrize("make", [
    lambda: sym.sum(X, attr={"mood": "happy"}),
    lambda: sym.sum(X)._set_attr(mood="happy"),
    lambda: scoped()], ids=["attr", "_set_attr", "AttrScope"])
def test_notes_on_operators_have_underscores(make: Any) -> None:
    with pytest.raises(mx.MXNetError, match="has no attribute 'mood'.*called __mood__"):
        make()


def scoped() -> Any:
    with mx.AttrScope(mood="happy"):
        return sym.sum(X)


def test_notes_that_stay() -> None:
    with mx.AttrScope(mood="happy", lr_mult="0.5"):
        v = sym.var("v")
    assert v.attr("mood") == "happy" and v.attr("lr_mult") == "0.5"
    fc = sym.FullyConnected(X, num_hidden=2, name="f", attr={"__wd_mult__": 1, "ctx_group": "a"})
    assert fc.attr("wd_mult") == "1" and fc.attr("ctx_group") == "a"


@pytest.mark.parametrize("make", [
    lambda: sym.var("s", stype="dense"), lambda: gluon.SymbolBlock(X + 1, [X + 1]),
    lambda: nd.random.uniform(2, 1)], ids=["stype", "inputs of a SymbolBlock", "uniform"])
def test_refused(make: Any) -> None:
    with pytest.raises(mx.MXNetError, match="stype must be one of|inputs must be variables|low must not be above high"):
        make()


def test_initializers_without_arguments() -> None:
    for make in (mx.init.Zero, mx.init.One):
        with pytest.raises(TypeError, match="foo"):
            make(foo=1)
