"""Mixed precision: casts by MXNet's lists, loss scaling that survives overflow, converted models, accuracy as in
float32."""
from __future__ import annotations

import gzip
import hashlib
import json
import pickle
import sys
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, errors, gluon, nd, sym
from hybrid.contrib import amp
from hybrid.gluon import nn

from ..paths import DATA, ROOT

pytest.importorskip("ml_dtypes")

RECORDED = json.loads(gzip.decompress((DATA / "amp.json.gz").read_bytes()))
HALF = {"float16": np.float16, "bfloat16": nd.zeros((1,), dtype="bfloat16").dtype}
DTYPES = sorted(HALF)


@pytest.fixture(autouse=True)
def switched_off() -> Iterator[None]:
    yield
    amp.off()


def dense(units: int = 3, hybridized: bool = False) -> Any:
    mx.random.seed(3)
    net = nn.Dense(units, in_units=4)
    net.initialize(mx.init.Xavier())
    net.hybridize(hybridized)
    return net


# ---- lists
def test_the_names_are_mxnets() -> None:
    assert set(RECORDED["names"]) <= set(amp.__all__)


@pytest.mark.parametrize("name", sorted(RECORDED["lists"]))
def test_lists_are_mxnets(name: str) -> None:
    for dtype, expected in RECORDED["lists"][name].items():
        found = getattr(amp, name)(dtype)
        digest = "None" if found is None else hashlib.sha256("\n".join(sorted(map(str, found))).encode()).hexdigest()
        assert digest == expected, f"{name}({dtype!r})"


def test_no_operator_is_in_two_lists() -> None:
    for dtype in DTYPES:
        every = [*amp.list_lp16_ops(dtype), *amp.list_fp32_ops(dtype), *amp.list_lp16_fp32_ops(dtype),
                 *amp.list_widest_type_cast(dtype)]
        assert len(every) == len(set(every)) > 500


# ---- casts
CALLS: list[tuple[str, Any, str]] = [
    ("fully_connected", lambda x, w, h: nd.FullyConnected(x, w, no_bias=True, num_hidden=4), "low"),
    ("numpy_interface", lambda x, w, h: mx.npx.fully_connected(x, w, no_bias=True, num_hidden=4), "low"),
    ("exp", lambda x, w, h: nd.exp(h), "float32"), ("softmax", lambda x, w, h: nd.softmax(h), "float32"),
    ("mean", lambda x, w, h: h.mean(), "float32"),
    ("np_mean", lambda x, w, h: mx.np.mean(h), "float32"), ("relu", lambda x, w, h: nd.relu(h), "low"),
    ("relu32", lambda x, w, h: nd.relu(x), "float32"),
    ("add", lambda x, w, h: x + h, "float32"), ("add_low", lambda x, w, h: h + h, "low"),
    ("dot", lambda x, w, h: nd.dot(x, h), "float32"),
    ("concat_mixed", lambda x, w, h: nd.add_n(h, x), "float32"),
    ("softrelu", lambda x, w, h: nd.Activation(h, act_type="softrelu"), "float32"),
    ("tanh", lambda x, w, h: nd.Activation(h, act_type="tanh"), "low"),
    ("elu", lambda x, w, h: nd.LeakyReLU(h, act_type="elu"), "float32"),
    ("leaky", lambda x, w, h: nd.LeakyReLU(h, act_type="leaky"), "low"),
    ("float64", lambda x, w, h: nd.exp(x.astype("float64")), "float64"),
    ("integers", lambda x, w, h: nd.FullyConnected(x.astype("int32"), w.astype("int32"), no_bias=True, num_hidden=4),
     "int32"),
]


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("call, kind", [row[1:] for row in CALLS], ids=[row[0] for row in CALLS])
def test_operators_run_in_the_type_of_their_list(call: Any, kind: str, dtype: str, hybridized: bool) -> None:
    x, w = nd.array(np.arange(16).reshape(4, 4) / 16), nd.array(np.eye(4))
    h = x.astype(dtype)
    expected = call(x, w, x)
    amp.init(dtype)
    out = (mx.hybridize(lambda a, b, c: call(a, b, c)) if hybridized else call)(x, w, h)
    assert out.dtype == (HALF[dtype] if kind == "low" else np.dtype(kind).type)
    np.testing.assert_allclose(out.astype("float32").asnumpy(), expected.astype("float32").asnumpy(), rtol=2e-2,
                               atol=2e-2)


def test_lists_of_ones_own() -> None:
    x = nd.ones((2, 4))
    amp.init("float16", target_precision_ops=["exp"], fp32_ops=["relu"],
             conditional_fp32_ops=[("Activation", "act_type", ["tanh"])])
    half = nd.exp(x)
    assert half.dtype == np.float16 and nd.relu(half).dtype == np.float32 and nd.softmax(half).dtype == np.float16
    assert nd.Activation(half,
                         act_type="tanh").dtype == np.float32 and nd.Activation(half,
            act_type="softrelu").dtype == np.float16
    assert dense()(x).dtype == np.float32


def test_parameters_and_gradients_stay_float32() -> None:
    for hybridized in (False, True):
        amp.init("float16")
        net = nn.HybridSequential()
        # shapes are found out through the casts
        net.add(nn.Dense(5, activation="relu"), nn.BatchNorm(), nn.Dense(2))
        net.initialize()
        net.hybridize(hybridized)
        with autograd.record():
            out = net(nd.ones((3, 4)))
        out.backward()
        assert out.dtype == np.float16 and net[0].weight.shape == (5, 4)
        for p in net.collect_params().values():
            assert p.data().dtype == np.float32 and (p.grad_req == "null" or p.grad().dtype == np.float32)


def test_compiled_programs_follow_the_switch() -> None:
    net, x = dense(hybridized=True), nd.ones((2, 4))
    f = mx.hybridize(lambda a: nd.relu(net(a)))
    seen = []
    for change in (lambda: None, lambda: amp.init("float16"), lambda: amp.init("bfloat16"),
                   lambda: amp.init("bfloat16"), amp.off):
        change()
        for _ in range(3):
            out = net(x)
        seen.append((out.dtype, f(x).dtype))
    assert seen == [(d, d) for d in (np.float32, np.float16, HALF["bfloat16"], HALF["bfloat16"], np.float32)]
    assert len(net.cache_misses) == 4 == len(f.cache_misses) and all("mixed precision" in m
                                                                     for m in net.cache_misses[1:])


def test_symbols_get_casts_and_files_do_not(tmp_path: Path) -> None:
    amp.init("float16")
    fc = sym.FullyConnected(sym.var("data"), num_hidden=3, name="fc")
    out = sym.softmax(fc, name="out")
    assert out.list_arguments() == ["data", "fc_weight", "fc_bias"]
    assert out.infer_shape(data=(2, 5)) == ([(2, 5), (3, 5), (3,)], [(2, 3)], [])
    assert out.tojson(remove_amp_cast=False).count('"amp_cast"') == 4 and "amp_cast" not in out.tojson()
    assert pickle.loads(pickle.dumps(out)).tojson(remove_amp_cast=False) == out.tojson(remove_amp_cast=False)
    net = dense(hybridized=True)
    net(nd.ones((1, 4)))
    net.export(str(tmp_path / "plain"))
    assert "amp_cast" not in (tmp_path / "plain-symbol.json").read_text()
    net.export(str(tmp_path / "cast"), remove_amp_cast=False)
    assert "amp_cast" in (tmp_path / "cast-symbol.json").read_text()
    both = [gluon.SymbolBlock.imports(tmp_path / f"{n}-symbol.json", ["data"], tmp_path / f"{n}-0000.params")
            for n in ("plain", "cast")]
    amp.off()
    assert [b(nd.ones((1, 4))).dtype for b in both] == [np.float32, np.float16]


# ---- values
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("act", [None, "relu", "tanh"], ids=["none", "relu", "tanh"])
@pytest.mark.parametrize("sizes", [(1, 5, 3), (2, 40, 7), (3, 1, 9), (7, 33, 29), (16, 128, 64), (65, 31, 1),
                                   (1, 1, 1), (17, 64, 100)], ids=str)
def test_products_of_halves_compiled(dtype: str, act: str | None, sizes: tuple[int, int, int]) -> None:
    n, k, m = sizes
    mx.random.seed(n)
    net = nn.Dense(m, in_units=k, activation=act)
    net.initialize(mx.init.Normal(0.3))
    net.cast(dtype)
    x = nd.array(np.random.RandomState(k).randn(n, k)).astype(dtype)
    eager = net(x).astype("float32").asnumpy()
    net.hybridize()
    np.testing.assert_allclose(net(x).astype("float32").asnumpy(), eager, rtol=4e-3 if dtype == "float16" else 3e-2,
                               atol=1e-2 * abs(eager).max())


@pytest.mark.parametrize("dtype", DTYPES)
def test_halves_are_rounded_after_every_function(dtype: str) -> None:
    """A value that one kernel stores and another computes again must be the same: pooling's gradient asks which
    elements equal the maximum."""
    a, b = (nd.array(np.random.RandomState(s).randn(6, 50)).astype(dtype) for s in (1, 2))

    def f(a: Any, b: Any) -> Any:
        total = a + b
        return total, total - a, total * b - a, (total - a == b).astype("float32")
    for eager, compiled in zip(f(a, b), mx.hybridize(f)(a, b)):
        assert compiled.dtype == eager.dtype
        np.testing.assert_array_equal(compiled.astype("float32").asnumpy(), eager.astype("float32").asnumpy())
    assert 0.1 < f(a, b)[3].mean().asscalar() < 0.9


def digits(count: int) -> tuple[np.ndarray, np.ndarray]:
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        from shared import digits as every
    finally:
        sys.path.pop(0)
    images, labels = every()
    return images[:count], labels[:count]


def train_lenet(dtype: str, epochs: int) -> float:
    """Accuracy of LeNet on digits that it has not seen."""
    amp.off()
    if dtype != "float32":
        amp.init(dtype)
    images, labels = digits(1200)
    mx.random.seed(1)
    net = nn.HybridSequential()
    net.add(nn.Conv2D(6, 5, activation="relu"), nn.MaxPool2D(), nn.Conv2D(16, 5, activation="relu"), nn.MaxPool2D(),
            nn.Dense(84, activation="relu"), nn.Dense(10))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.002})
    if dtype == "float16":
        amp.init_trainer(trainer)
    loss_of, order = gluon.loss.SoftmaxCrossEntropyLoss(), np.random.RandomState(1)
    for _ in range(epochs):
        for part in np.split(order.permutation(960), 15):
            with autograd.record():
                loss = loss_of(net(nd.array(images[part])), nd.array(labels[part]))
                if dtype == "float16":
                    with amp.scale_loss(loss, trainer) as scaled:
                        scaled.backward()
                else:
                    loss.backward()
            trainer.step(len(part))
    assert np.isfinite(loss.asnumpy()).all() and loss.dtype == np.float32
    return float((net(nd.array(images[960:])).asnumpy().argmax(1) == labels[960:]).mean())


def test_lenet_learns_as_well_in_half_precision() -> None:
    found = {dtype: train_lenet(dtype, 8) for dtype in ("float32", *DTYPES)}
    assert found["float32"] > 0.9 and all(abs(a - found["float32"]) <= 0.03 for a in found.values()), found


# ---- converted models
def described(nodes: Any) -> list[Any]:
    """Nodes as (operator, name, attributes, inputs). MXNet writes ``_0`` where an operator does not name its
    outputs."""
    return [(n["op"], n["name"].replace("_0_amp", "_output_amp"), n.get("attrs", {}), [i[:2] for i in n["inputs"]])
            for n in nodes]


def nodes_of(symbol: Any) -> list[Any]:
    return described(json.loads(symbol.tojson(remove_amp_cast=False))["nodes"])


@pytest.mark.parametrize("name", sorted(RECORDED["cases"]))
def test_converted_symbols_are_mxnets(name: str) -> None:
    case = RECORDED["cases"][name]
    out = amp.convert_symbol(sym.load_json(case["symbol"]), **case["kwargs"])
    assert nodes_of(out) == described(case["nodes"])
    assert nodes_of(amp.convert_symbol(out, **case["kwargs"])) == nodes_of(out)                  # again: nothing more


@pytest.mark.parametrize("name", sorted(RECORDED["models"]))
def test_converted_models_are_mxnets(name: str) -> None:
    case = RECORDED["models"][name]
    args = {k: nd.zeros(s) for k, s in case["shapes"].items() if k not in ("data", "softmax_label")}
    aux = {k: args.pop(k) for k in case["aux"]}
    out, new_args, new_aux = amp.convert_model(sym.load_json(case["symbol"]), args, aux,
                                               cast_optional_params=case["offline"])
    assert nodes_of(out) == described(case["nodes"])
    assert {k: np.dtype(v.dtype).name for k, v in {**new_args, **new_aux}.items()} == case["dtypes"]
    assert all(v.dtype == np.float32 for v in args.values())                                    # what was given stays


@pytest.mark.parametrize("offline", [False, True], ids=["", "offline"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_converted_net_reads_the_digits(dtype: str, offline: bool) -> None:
    data = ROOT / "examples" / "data"
    images, labels = digits(1797)
    net = gluon.SymbolBlock.imports(data / "lenet_digits-symbol.json", ["data"], data / "lenet_digits-0025.params")
    x = nd.array(images[-360:])
    expected = net(x).asnumpy()
    made = amp.convert_hybrid_block(net, dtype, cast_optional_params=offline)
    kinds = {p.data().dtype for p in made.collect_params().values()}
    assert kinds == ({np.float32, HALF[dtype]} if offline else {np.float32})
    for hybridized in (False, True):
        made.hybridize(hybridized)
        out = made(x)
        assert out.dtype == np.float32
        assert abs(out.asnumpy() - expected).max() < (0.05 if dtype == "float16" else 0.5)
        assert abs(int((out.asnumpy().argmax(1) == labels[-360:]).sum()) - 338) <= 2
    assert nd.load(str(data / "lenet_digits-0025.params")).keys() and net(x).asnumpy().tolist() == expected.tolist()


def test_a_block_of_several_inputs_is_converted(tmp_path: Path) -> None:
    class Two(nn.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Dense(4), nn.Dense(4)

        def hybrid_forward(self, F: Any, x: Any, y: Any) -> Any:  # noqa: N803
            return F.softmax(self.a(x) - 2 * self.b(y))
    net = Two()
    net.initialize()
    x, y = nd.array([[1.0, 2.0]]), nd.array([[3.0, -1.0, 0.5]])
    expected = net(x, y).asnumpy()
    amp.init("float16")                                       # the graph that is converted is the float32 one
    made = amp.convert_hybrid_block(net, "bfloat16")
    amp.off()
    np.testing.assert_allclose(made(x, y).asnumpy(), expected, atol=0.02)
    made.export(str(tmp_path / "made"), remove_amp_cast=False)
    again = gluon.SymbolBlock.imports(tmp_path / "made-symbol.json", ["data0", "data1"], tmp_path / "made-0000.params")
    assert again(x, y).asnumpy().tolist() == made(x, y).asnumpy().tolist()


# ---- bad input
BAD: list[tuple[str, Any, type[Exception], str]] = [
    ("dtype", lambda: amp.init("float64"), errors.DTypeError, "float16' or 'bfloat16', got 'float64"),
    ("unknown", lambda: amp.init("float16", fp32_ops=["Convlution"]), errors.AttributeValueError,
     "'Convlution' is not known.*Convolution"),
    ("text", lambda: amp.init("float16", fp32_ops="exp"), errors.AttributeValueError, "list of names, got 'exp'"),
    ("twice", lambda: amp.init("float16", target_precision_ops=["exp"]), errors.AttributeValueError,
     "one list alone, but exp"),
    ("conditions", lambda: amp.init("float16", conditional_fp32_ops=["exp"]), errors.AttributeValueError,
     "operator, attribute, list of values"),
    ("list", lambda: amp.list_lp16_ops("int8"), errors.DTypeError, "got 'int8'"),
    ("early", lambda: amp.init_trainer(None), errors.HybridError, r"call amp.init\(\) before"),
    ("symbol", lambda: amp.convert_symbol("x"), errors.AttributeValueError, "takes a Symbol, got str"),
    ("excluded", lambda: amp.convert_symbol(sym.exp(sym.var("x"), name="e"), excluded_sym_names=["f"]),
     errors.AttributeValueError, "no node 'f'"),
    ("unlisted", lambda: amp.convert_symbol(sym.var("x"), fp32_ops=["mish"]), errors.AttributeValueError,
     "mish: in none of the lists"),
    ("arguments", lambda: amp.convert_model(sym.var("x"), [], {}), errors.AttributeValueError,
     "arg_params must be a dict"),
    ("block", lambda: amp.convert_hybrid_block(nn.Sequential()), errors.AttributeValueError,
     "takes a HybridBlock, got Sequential"),
    ("uncalled", lambda: amp.convert_hybrid_block(dense()), errors.HybridError, "call the block once"),
    ("scaler", lambda: amp.LossScaler(init_scale=-1), errors.AttributeValueError, "init_scale > 0"),
]


@pytest.mark.parametrize("call, error, text", [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_input_is_a_clear_error(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()
    # nothing was switched on
    assert nd.FullyConnected(nd.ones((1, 2)), nd.ones((1, 2)), no_bias=True, num_hidden=1).dtype == np.float32


def test_trainers_that_cannot_be_scaled() -> None:
    amp.init("float16")
    with pytest.raises(TypeError, match="only compatible with Gluon Trainer"):
        amp.init_trainer(mx.optimizer.SGD())
    with pytest.raises(TypeError, match="instead is str"):
        amp.init_trainer("sgd")
    trainer = gluon.Trainer(dense().collect_params(), "sgd")
    with pytest.raises(errors.HybridError,
                       match="did you forget to call amp.init_trainer"), amp.scale_loss(nd.ones((1,)), trainer):
        pass
    with pytest.raises(errors.HybridError, match="did you forget to call amp.init_trainer"):
        amp.unscale(trainer)
