"""Answers and refusals of MXNet 1.9.1 about modules, recorded functions, notes on Symbols and small arguments."""
from __future__ import annotations

import json
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


def test_items_of_symbols_under_numpy_rules() -> None:
    x = mx.np.arange(6).reshape(3, 2)
    with mx.util.np_shape(True), mx.util.np_array(True):
        for key in (0, -1, slice(0, 1), slice(1, None)):
            y = X.as_np_ndarray()[key]
            assert y.infer_shape(x=(3, 2))[1] == [x[key].shape]
            assert y.eval(x=x)[0].asnumpy().tolist() == x[key].asnumpy().tolist()
    assert X[0].list_outputs() == ["x"]                              # of a plain Symbol the first output


def test_bilinear_upsampling_makes_its_weight() -> None:
    y = sym.UpSampling(X, scale=2, sample_type="bilinear", num_filter=3, name="u")
    assert y.list_arguments() == ["x", "u_weight"] and y.attr_dict()["u_weight"]["__init__"] == '["bilinear", {}]'
    assert y.infer_shape(x=(1, 3, 4, 4)) == ([(1, 3, 4, 4), (3, 1, 4, 4)], [(1, 3, 8, 8)], [])


def test_bind_takes_a_context() -> None:
    with pytest.raises(TypeError, match="ctx must be a Context"):
        (X + 1).simple_bind("cpu", x=(2,))


def test_automatic_names() -> None:
    with mx.name.NameManager():
        made = [sym.random.multinomial(X), sym.random.shuffle(X), sym.sparse.retain(X, X)]
        assert [s.name for s in made] == ["_sample_multinomial0", "_shuffle0", "retain0"]


# ---- operators
ROWS = nd.ones((2, 3))
MISSING: list[tuple[str, Any]] = [
    ("bias", lambda: nd.FullyConnected(ROWS, ROWS, num_hidden=2)),
    ("bias", lambda: nd.Convolution(nd.ones((1, 1, 3)), nd.ones((1, 1, 2)), kernel=(2,), num_filter=1)),
    ("sequence_length", lambda: nd.SequenceMask(ROWS, use_sequence_length=True)),
    ("sequence_length", lambda: nd.SequenceLast(ROWS, use_sequence_length=True)),
    ("length", lambda: nd.softmax(ROWS, use_length=True)),
    ("data_lengths", lambda: nd.CTCLoss(nd.ones((3, 2, 4)), nd.ones((2, 2)), use_data_lengths=True))]


@pytest.mark.parametrize(("name", "call"), MISSING)
def test_inputs_that_attributes_ask_for(name: str, call: Any) -> None:
    with pytest.raises(mx.MXNetError, match=f"needs the input '{name}'"):
        call()


def test_inputs_that_attributes_do_not_ask_for() -> None:
    assert nd.FullyConnected(ROWS, ROWS, num_hidden=2, no_bias=True).asnumpy().tolist() == [[3, 3], [3, 3]]
    assert nd.SequenceLast(ROWS).shape == (3,)


def test_where_takes_one_shape() -> None:
    with pytest.raises(mx.MXNetError, match="x and y must have one shape"):
        nd.where(ROWS, nd.ones((2, 1)), ROWS)
    assert nd.where(nd.array([1, 0]), ROWS, ROWS * 2).asnumpy().tolist() == [[1, 1, 1], [2, 2, 2]]


class Factors(gluon.HybridBlock):
    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.linalg.potrf(x), F.linalg_inverse(x)


def test_matrices_without_an_answer() -> None:
    """Errors eagerly and compiled, where a NaN would be no answer."""
    sound, net = nd.array([[4, 0], [0, 1]]), Factors()
    for _ in range(2):
        assert [y.asnumpy().tolist() for y in net(sound)] == [[[2, 0], [0, 1]], [[0.25, 0], [0, 1]]]
        with pytest.raises(mx.MXNetError, match="not positive definite"):
            net(-sound)
        net.hybridize()
    with pytest.raises(mx.MXNetError, match="linalg.inverse: the matrix is singular"):
        nd.linalg.inverse(nd.zeros((2, 2)))
    with pytest.raises(mx.MXNetError, match="triangular matrix is singular"):
        nd.linalg.potri(nd.zeros((2, 2)))
    assert sym.linalg.potrf(X).infer_shape(x=(2, 2))[1] == [(2, 2)]


# ---- the profiler
class Square(mx.operator.CustomOp):
    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        self.assign(out_data[0], req[0], in_data[0] * in_data[0])

    def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        self.assign(in_grad[0], req[0], 2 * in_data[0] * out_grad[0])


@mx.operator.register("square_seen_by_the_profiler")
class SquareProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> Any:
        return Square()


def test_custom_operators_in_the_profiler() -> None:
    name = "square_seen_by_the_profiler"
    x = nd.array([1.0, 2.0])
    x.attach_grad()
    mx.profiler.set_state("run")
    try:
        with autograd.record():
            y = nd.Custom(x, op_type=name)
        y.backward()
        sym.Custom(X, op_type=name).eval(x=x)
    finally:
        mx.profiler.set_state("stop")
    found = json.loads(mx.profiler.dumps(reset=True, format="json"))["Time"]["Custom Operator"]
    assert set(found) == {f"{name}::pure_python", f"{name}::elemwise_mul", f"_backward_{name}::pure_python",
                          f"_backward_{name}::elemwise_mul", f"_backward_{name}::_mul_scalar"}
    assert found[f"{name}::pure_python"]["Count"] == 2
    with pytest.raises(mx.MXNetError, match="scope is global"):
        mx.profiler.Domain("d").new_marker("m").mark("somewhere")
