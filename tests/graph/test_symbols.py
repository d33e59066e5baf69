"""Symbols by themselves: names, attributes, inference, composition, running. The expected answers are MXNet 1.9.1's."""
from __future__ import annotations

import copy
import pickle

import numpy as onp
import pytest

import hybrid as mx
from hybrid import nd, sym

A, B = sym.var("a"), sym.var("b", shape=(2, 3))
FC = sym.FullyConnected(A, num_hidden=4, name="fc")

# what MXNet writes: the text of the value that was given
WRITTEN = [
    ("list", lambda a: sym.Convolution(a, kernel=[3, 3], num_filter=2), {"kernel": "[3, 3]", "num_filter": "2"}),
    ("numpy numbers", lambda a: sym.FullyConnected(a, num_hidden=onp.int64(3), flatten=1),
     {"num_hidden": "3", "flatten": "1"}),
    ("numpy in tuples", lambda a: sym.Pooling(a, kernel=(onp.int64(2), 2)), {"kernel": "(2, 2)"}),
    ("none", lambda a: sym.sum(a, axis=None), {"axis": "None"}),
    ("none of slice_axis", lambda a: a.slice_axis(axis=0, begin=0, end=None),
     {"axis": "0", "begin": "0", "end": "None"}),
    ("squeeze", lambda a: a.squeeze(), {"axis": "None"}),
    ("method without", lambda a: a.mean(), {}),
    ("reshape", lambda a: a.reshape((0, -1)), {"shape": "(0, -1)"}),
    ("reshape of a list", lambda a: a.reshape(shape=[0, -1]), {"shape": "[0, -1]"}),
    ("transpose", lambda a: a.transpose([1, 0]), {"axes": "[1, 0]"}),
    ("scalar", lambda a: a * onp.float32(2.5), {"scalar": "2.5"}),
    ("integer scalar", lambda a: a + onp.int64(3), {"scalar": "3"}),
    ("bool scalar", lambda a: a + True, {"scalar": "1"}),
    ("dtype", lambda a: a.astype(onp.int32), {"dtype": "int32"}),
    ("zeros", lambda a: sym.zeros([2, 3]), {"shape": "[2, 3]", "dtype": "float32"}),
    ("zeros of a number", lambda a: sym.zeros(5), {"shape": "5", "dtype": "float32"}),
    ("full", lambda a: sym.full((2,), 3), {"shape": "(2,)", "value": "3.0", "dtype": "float32"}),
    ("arange", lambda a: sym.arange(3), {"start": "3", "stop": "None", "step": "1.0", "repeat": "1",
                                         "infer_range": "False", "dtype": "float32"}),
    ("split_v2", lambda a: sym.split_v2(a, (1, 3), axis=1),
     {"indices": "[0, 1, 3]", "sections": "0", "axis": "1", "squeeze_axis": "False"}),
    ("random", lambda a: sym.random.normal(shape=(2,)), {"loc": "0", "scale": "1", "shape": "(2,)"}),
    ("random without shape", lambda a: sym.random.uniform(0, 1), {"low": "0", "high": "1"}),
    ("random operator", lambda a: sym.random_uniform(shape=(3,)), {"shape": "(3,)"}),
    ("mean to rate", lambda a: sym.random.exponential(2.0, shape=(2,)), {"lam": "0.5", "shape": "(2,)"}),
    ("sample", lambda a: sym.random.uniform(a, a), {}),
]


@pytest.mark.parametrize(("make", "attrs"), [row[1:] for row in WRITTEN],
                         ids=[row[0].replace(" ", "-") for row in WRITTEN])
def test_attributes_are_written_as_given(make, attrs):
    s = make(A)
    assert s.list_attr() == attrs
    assert sym.load_json(s.tojson()).tojson() == s.tojson()


NAMES = [(lambda a: 2 % a, "_rmodscalar"), (lambda a: 2**a, "_rpower_scalar"),
         (lambda a: sym.power(2, a), "_rpowerscalar"), (lambda a: 2 / a, "_rdivscalar"),
         (lambda a: a - 1, "_minusscalar"), (lambda a: -a, "_mulscalar"), (lambda a: 1 > a, "_lesser_scalar"),
         (lambda a: a**a, "_power"),
         (lambda a: sym.hypot(2, a), "_hypotscalar"), (lambda a: sym.pow(a, a), "_power"),
         (lambda a: sym.random.uniform(), "_random_uniform"),
         (lambda a: sym.random_uniform(), "random_uniform"), (lambda a: sym.random.uniform(a, a), "_sample_uniform"),
         (lambda a: sym.Concat(a, a), "concat"),
         (lambda a: sym.stop_gradient(a), "stop_gradient"), (lambda a: a.reshape((1,)), "reshape"),
         (lambda a: sym.arange(2), "_arange")]


@pytest.mark.parametrize(("make", "hint"), NAMES, ids=[f"{i}-{row[1]}" for i, row in enumerate(NAMES)])
def test_automatic_names(make, hint):
    with mx.name.NameManager():
        assert make(A).name == hint + "0"


# ---- attributes and notes
def test_list_attr_and_notes():
    v = sym.Variable("v", shape=(2,), lr_mult=2, wd_mult=0, dtype="float16", init=mx.init.One(), __mine__="x")
    assert v.list_attr() == {"__shape__": "(2,)", "__lr_mult__": "2", "lr_mult": "2", "__wd_mult__": "0",
                             "wd_mult": "0", "__dtype__": "2",
                             "__init__": '["one", {}]', "__mine__": "x"}
    assert v.attr("lr_mult") == "2" and v.attr("name") == "v" and v.attr("nothing") is None
    assert FC.attr_dict()["fc"] == {"num_hidden": "4"}
    with mx.AttrScope(ctx_group="dev1", note="n"):
        with mx.AttrScope(lr_mult="3"):
            inner = sym.relu(sym.var("z"))
        outer = sym.var("y", attr={"note": "own"})
    assert (inner.attr("ctx_group") == "dev1" and inner.attr("__lr_mult__") == "3" and outer.attr("lr_mult") is None
            and outer.attr("note") == "own")
    assert sym.var("free").list_attr() == {}
    inner._set_attr(mood="x")
    assert inner.attr("mood") == "x"
    with pytest.raises(ValueError, match="takes text"):
        mx.AttrScope(lr_mult=3)
    with pytest.raises(ValueError, match="two underscores"):
        sym.var("v", mine="x")


# ---- inference
def test_infer_shape():
    c = A + B
    assert c.infer_shape() == ([(2, 3), (2, 3)], [(2, 3)], [])
    assert FC.infer_shape(a=(2, 3)) == ([(2, 3), (4, 3), (4,)], [(2, 4)], []) == FC.infer_shape((2, 3))
    assert FC.infer_shape() == (None, None, None)
    assert FC.infer_shape_partial() == ([(), (), ()], [()], [])
    assert sym.BatchNorm(A, name="bn").infer_shape(a=(2, 3, 4)) == ([(2, 3, 4), (3,), (3,)], [(2, 3, 4)], [(3,), (3,)])
    assert A.infer_shape() == (None, None, None)                       # c told nobody else
    with pytest.raises(mx.errors.ShapeError, match=r"node '_plus\d+'.*\(2, 4\) and \(2, 3\)"):
        c.infer_shape(a=(2, 4))
    with pytest.raises(ValueError, match="no variable 'zz'; it has a, b"):
        c.infer_shape(zz=(2, 3))
    with pytest.raises(ValueError, match="3 values for 2 arguments"):
        c.infer_shape((1,), (1,), (1,))


F16, F32, F64, I32 = onp.float16, onp.float32, onp.float64, onp.int32
TYPES = [
    ("variable", lambda: A, "float16", ([F16], [F16], [])),
    ("cast", lambda: sym.cast(A, dtype="float16"), "float32", ([F32], [F16], [])),
    ("add", lambda: A + sym.var("x"), "float64", ([F64, F64], [F64], [])),
    ("dense", lambda: FC, "float16", ([F16, F16, F16], [F16], [])),
    ("embedding", lambda: sym.Embedding(A, input_dim=3, output_dim=4), "int32", ([I32, F32], [F32], [])),
    ("embedding16", lambda: sym.Embedding(A, input_dim=3, output_dim=4, dtype="float16"), "int32",
     ([I32, F16], [F16], [])),
    ("batchnorm", lambda: sym.BatchNorm(A), "float16", ([F16, F32, F32], [F16], [F32, F32])),
    ("one-hot", lambda: sym.one_hot(A, depth=3), "int32", ([I32], [F32], [])),
]


@pytest.mark.parametrize(("make", "given", "want"), [row[1:] for row in TYPES], ids=[row[0] for row in TYPES])
def test_infer_type(make, given, want):
    assert make().infer_type(a=given) == want


def test_infer_type_of_nothing():
    assert (A + sym.var("x")).infer_type() == (None, None, None)


# ---- parts and composition
def test_outputs_by_name_and_number():
    g = sym.Group([A + B, FC])
    assert g["fc_output"].name == "fc" and g[1].name == "fc" and [s.name for s in g][1] == "fc" and len(g) == 2
    with pytest.raises(ValueError, match="0 outputs are named 'nosuch'"):
        g["nosuch"]
    with pytest.raises(IndexError, match="output 2 of a Symbol with 2 outputs"):
        g[2]
    inside = FC.get_internals()
    assert inside.list_outputs() == ["a", "fc_weight", "fc_bias", "fc_output"]
    assert inside["fc_weight"].name == "fc_weight" and inside[1:3].list_outputs() == ["fc_weight", "fc_bias"]
    assert FC.get_children().list_outputs() == ["a", "fc_weight", "fc_bias"] and A.get_children() is None


def test_composition():
    c = FC(a=A + B, name="comp")
    assert c.name == "comp" and c.list_arguments() == ["a", "b", "fc_weight", "fc_bias"] and FC.name == "fc"
    with pytest.raises(ValueError, match="no variable 'zz'"):
        FC(zz=A)
    with pytest.raises(ValueError, match=r"got NDArray; run it with eval\(\)"):
        FC(a=nd.ones((2, 3)))


def test_sym_functions_make_variables_and_never_run():
    assert sym.FullyConnected(num_hidden=4, name="x").list_arguments() == ["x_data", "x_weight", "x_bias"]
    assert sym.BatchNorm(name="bn").list_auxiliary_states() == ["bn_moving_mean", "bn_moving_var"]
    with pytest.raises(ValueError, match="cannot be combined with NDArray"):
        sym.relu(nd.ones((2,)))


def test_copies():
    for other in (copy.copy(FC), copy.deepcopy(FC), pickle.loads(pickle.dumps(FC))):
        assert isinstance(other, mx.Symbol) and other.tojson() == FC.tojson()


# ---- running
def test_eval():
    out = (A + B).eval(a=nd.ones((2, 3)), b=nd.full((2, 3), 2))
    assert len(out) == 1 and out[0].asnumpy().tolist() == [[3, 3, 3]] * 2
    assert (A * 2).eval(ctx=mx.current_context(), a=nd.array([1, 2], dtype="int32"))[0].dtype == onp.int32
    with pytest.raises(ValueError, match="no arrays given for 'b'"):
        (A + B).eval(a=nd.ones((2, 3)))


def test_simple_bind_trains():
    ex = FC.simple_bind(mx.current_context(), a=(2, 3), grad_req={"fc_weight": "write", "fc_bias": "add"})
    assert {k: v.shape for k, v in ex.arg_dict.items()} == {"a": (2, 3), "fc_weight": (4, 3), "fc_bias": (4,)}
    assert [n for n, g in ex.grad_dict.items() if g is not None] == ["fc_weight", "fc_bias"]
    ex.copy_params_from({"fc_weight": nd.ones((4, 3))})
    for _ in range(2):
        out = ex.forward(is_train=True, a=nd.full((2, 3), 2))
        ex.backward(nd.ones((2, 4)))
    assert (out[0].asnumpy() == 6).all() and ex.output_dict["fc_output"] is out[0]
    assert (ex.grad_dict["fc_weight"].asnumpy() == 4).all() and (ex.grad_dict["fc_bias"].asnumpy() == 4).all()
    assert ex.grad_arrays[0] is None and [x.shape for x in ex.arg_arrays] == [(2, 3), (4, 3), (4,)]
    with pytest.raises(mx.errors.ShapeError, match="allow_up_sizing"):
        ex.reshape(a=(5, 3))
    wider = ex.reshape(a=(5, 3), allow_up_sizing=True)
    assert wider.forward()[0].shape == (5, 4) and (wider.arg_dict["fc_weight"].asnumpy() == 1).all()
    with pytest.raises(mx.errors.ShapeError, match=r"bound with shape \(2, 3\), got \(4, 3\)"):
        ex.forward(a=nd.ones((4, 3)))
    with pytest.raises(ValueError, match="no argument 'q'"):
        ex.forward(q=nd.ones((4, 3)))
    with pytest.raises(ValueError, match="allow_extra_params"):
        ex.copy_params_from({"q": nd.ones((1,))})
    with pytest.raises(mx.errors.ShapeError, match="do not tell the shape of a, fc_weight"):
        FC.simple_bind(mx.current_context())


def test_bind_with_states_and_random_operators():
    bn = sym.BatchNorm(A, name="bn", fix_gamma=False, momentum=0.5)
    x = nd.array(onp.arange(8).reshape(4, 2))
    states = {"bn_moving_mean": nd.zeros((2,)), "bn_moving_var": nd.ones((2,))}
    ex = bn.bind(mx.current_context(), [x, nd.ones((2,)), nd.zeros((2,))], aux_states=states)
    ex.forward()
    assert states["bn_moving_mean"].asnumpy().tolist() == [0, 0]
    out = ex.forward(is_train=True)[0].asnumpy()
    assert ex.aux_dict["bn_moving_mean"].asnumpy().tolist() == [1.5,
                                                                2.0] and ex.aux_arrays[0] is states["bn_moving_mean"]
    onp.testing.assert_allclose(out.mean(0), 0, atol=1e-6)
    drop = sym.Dropout(A, p=0.5).bind(mx.current_context(), {"a": nd.ones((50, 50))})
    a, b = drop.forward(is_train=True)[0].asnumpy(), drop.forward(is_train=True)[0].asnumpy()
    assert set(onp.unique(a)) == {0, 2} and (a != b).any() and (drop.forward()[0].asnumpy() == 1).all()


def test_deferred_shapes_next_to_arrays():
    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.c = nd.ones((1, 3))
            self.weight = self.params.get("weight", shape=(2, 0), allow_deferred_init=True, init="ones")
            self.scale = self.params.get("scale", shape=(0, 0), allow_deferred_init=True, init="ones")

        def hybrid_forward(self, F, x, weight, scale):  # noqa: N803
            x = x * self.c + F.broadcast_add(x, self.c) * scale + F.relu(self.c)
            return F.FullyConnected(x, weight, num_hidden=2, no_bias=True)
    for hybridized in (False, True):
        net = Net()
        net.initialize()
        net.hybridize(hybridized)
        assert net(nd.ones((2, 3))).asnumpy().tolist() == [[12, 12]] * 2
        assert net.weight.shape == (2, 3) and net.scale.shape == (2, 3)
