"""Quantization in steps (hybrid/contrib/quantization/in_steps.py): quantize_graph, a collector, calib_graph."""
from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import nd
from hybrid.contrib import quantization
from hybrid.contrib.quantization import calibration

Model = tuple[Any, dict[str, Any], dict[str, Any], Any]


@pytest.fixture(scope="module")
def model() -> Model:
    """A graph, its arguments and states, and examples."""
    x = mx.sym.Convolution(mx.sym.Variable("data"), num_filter=32, kernel=(3, 3), name="conv")
    x = mx.sym.Activation(mx.sym.BatchNorm(x, name="norm", fix_gamma=False), act_type="relu", name="relu")
    x = mx.sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max", name="pool")
    sym = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(x, num_hidden=10, name="dense"), name="softmax")
    rng = np.random.default_rng(0)
    examples = mx.io.NDArrayIter(rng.standard_normal((32, 3, 12, 12)).astype("f4"), np.zeros(32), batch_size=8)
    mx.random.seed(0)
    module = mx.mod.Module(sym)
    module.bind(examples.provide_data, examples.provide_label, for_training=False)
    module.init_params(mx.init.Xavier())
    args, aux = module.get_params()
    args |= {"norm_gamma": nd.array(rng.uniform(0.5, 1.5, 32)), "norm_beta": nd.array(rng.standard_normal(32) * 0.2)}
    aux |= {"norm_moving_mean": nd.array(rng.standard_normal(32) * 0.2)}
    return sym, args, aux, examples


def run(sym: Any, args: Any, aux: Any, examples: Any, collector: Any = None) -> np.ndarray:
    """The results for all examples, by a Module."""
    module = mx.mod.Module(sym)
    module.bind(examples.provide_data, examples.provide_label, for_training=False)
    module.set_params(args, aux)
    if collector is not None:
        module._exec_group.execs[0].set_monitor_callback(collector.collect, monitor_all=True)
    examples.reset()
    out = []
    for batch in examples:
        module.forward(batch, is_train=False)
        out.append(module.get_outputs()[0].asnumpy())
    return np.concatenate(out)


@pytest.mark.parametrize(("dtype", "grain"), [("int8", "tensor-wise"), ("auto", "channel-wise")])
def test_in_steps_as_in_one(dtype: str, grain: str, model: Model) -> None:
    """In steps, the graph and parameters are those that quantize_model makes from the same examples."""
    sym, args, aux, examples = model
    qsym, q_args, q_aux, collector = quantization.quantize_graph(
        sym, args, aux, calib_mode="naive", quantized_dtype=dtype, quantize_granularity=grain)
    assert collector.include_layer == ["data", "pool_output"]
    exact = run(sym, args, aux, examples, collector)
    qsym, q_args, q_aux = quantization.calib_graph(mx.sym.load_json(qsym.tojson()), args, q_aux, collector, "naive",
                                                    dtype)
    want, want_args, want_aux = quantization.quantize_model(
        sym, args, aux, calib_mode="naive", calib_data=examples, quantized_dtype=dtype, quantize_granularity=grain)
    here, there = qsym.attr_dict(), want.attr_dict()
    assert here.keys() == there.keys() and qsym.list_inputs() == want.list_inputs()
    for name, attrs in here.items():
        for key, value in attrs.items():              # one network ran operator by operator, the other one compiled
            assert value == there[name][key] or abs(float(value) / float(there[name][key]) - 1) < 1e-5, (name, key)
    assert q_aux.keys() == want_aux.keys() and q_args.keys() == want_args.keys()
    for name, x in q_args.items():
        np.testing.assert_array_equal(x.asnumpy(), want_args[name].asnumpy(), err_msg=name)
    assert abs(run(qsym, q_args, q_aux, examples) - exact).max() < 0.03


def test_with_thresholds(model: Model) -> None:
    """The default mode."""
    sym, args, aux, examples = model
    qsym, *_, collector = quantization.quantize_graph(sym, args, aux)
    exact = run(sym, args, aux, examples, collector)
    qsym, q_args, q_aux = quantization.calib_graph(qsym, args, aux, collector)
    assert abs(run(qsym, q_args, q_aux, examples) - exact).max() < 0.03
    ends = qsym.attr_dict()["data_quantize"]
    assert float(ends["min_calib_range"]) == -float(ends["max_calib_range"])


def test_without_calibration(model: Model) -> None:
    sym, args, aux, examples = model
    for mode in ("none", None):
        qsym, q_args, q_aux, collector = quantization.quantize_graph(sym, args, aux, calib_mode=mode)
        assert collector is None
    assert abs(run(qsym, q_args, q_aux, examples) - run(sym, args, aux, examples)).max() < 0.03


def test_a_collector_of_the_users(model: Model) -> None:
    """With MXNet's ``min_max_dict``."""
    class Widest:
        def __init__(self) -> None:
            self.min_max_dict: dict[str, tuple[float, float]] = {}

        def collect(self, name: str, x: Any) -> None:
            self.min_max_dict[name] = (-4.0, 4.0)
    sym, args, aux, examples = model
    mine = Widest()
    qsym, *_, given = quantization.quantize_graph(sym, args, aux, calib_mode="customize", LayerOutputCollector=mine)
    assert given is mine
    run(sym, args, aux, examples, mine)
    qsym, *_ = quantization.calib_graph(qsym, args, aux, mine, calib_mode="customize")
    attrs = qsym.attr_dict()
    assert attrs["pool_output_quantize"]["min_calib_range"] == "-4.0"
    examples.reset()
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(32))
    net.initialize()
    x = nd.ones((4, 32))
    net(x)
    fast = quantization.quantize_net_v2(net, calib_data=[x], calib_mode="customize", LayerOutputCollector=Widest())
    assert '"max_calib_range": "4.0"' in fast._symbol().tojson()


def test_for_a_cpu(model: Model, tmp_path: Path) -> None:
    sym, args, aux, examples = model
    given = {"calib_mode": "naive", "calib_data": examples}
    one = mx.contrib.quant.quantize_model_mkldnn(sym.get_backend_symbol("MKLDNN_QUANTIZE"), args, aux, **given)
    assert one[0].tojson() == quantization.quantize_model(sym, args, aux, **given)[0].tojson()
    mx.model.save_checkpoint(str(tmp_path / "q"), 0, *one)
    saved, q_args, q_aux = mx.model.load_checkpoint(str(tmp_path / "q"), 0)
    np.testing.assert_array_equal(run(saved, q_args, q_aux, examples), run(one[0], one[1], one[2], examples))
    with pytest.raises(ValueError, match=r"is for one CPU, got gpu\(0\)"):
        quantization.quantize_model_mkldnn(sym, args, aux, ctx=mx.gpu(0), **given)


def test_a_histogram_grows() -> None:
    """MXNet's numbers for the same calls: whole bins of the old width on both sides."""
    counts, edges = np.histogram([1.0, -1.0, 0.0], bins=5, range=(-1, 1))
    new, wider, low, high, wide = quantization.combine_histogram((counts, edges, -1.0, 1.0, 1.0),
                                                                 np.array([1.5, 0.0]), 0.0, 1.5, 1.5)
    assert new.tolist() == [0, 0, 1, 0, 2, 0, 1, 0, 1]
    assert (low, high, round(wide, 6), len(wider)) == (-1.0, 1.5, 1.8, 10)


IN_STEPS = "sym arg_params aux_params ctx excluded_sym_names excluded_op_names calib_mode quantized_dtype " \
        "quantize_mode quantize_granularity LayerOutputCollector logger"
WHOLE = "sym arg_params aux_params data_names label_names ctx excluded_sym_names excluded_op_names calib_mode " \
        "calib_data num_calib_examples quantized_dtype quantize_mode quantize_granularity logger"
SIGNATURES = {"quantize_graph": (IN_STEPS, {"calib_mode": "entropy", "quantize_mode": "full"}),
              "quantize_model": (WHOLE, {"calib_mode": "entropy", "quantized_dtype": "int8", "quantize_mode": "smart"}),
              "quantize_model_mkldnn": (WHOLE, {"calib_mode": "entropy", "quantize_mode": "smart"}),
              "calib_graph": ("qsym arg_params aux_params collector calib_mode quantized_dtype logger",
                              {"calib_mode": "entropy", "quantized_dtype": "int8"})}


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures_are_mxnets(name: str) -> None:
    order, defaults = SIGNATURES[name]
    found = inspect.signature(getattr(quantization, name)).parameters
    assert " ".join(found) == order
    assert {k: found[k].default for k in defaults} == defaults


def test_wrong_uses(model: Model) -> None:
    sym, args, aux, _ = model
    refused: list[tuple[dict[str, Any], str]] = [
        ({"calib_mode": "best"}, "calib_mode is one of"), ({"quantized_dtype": "int4"}, "got 'int4'"),
        ({"quantize_mode": "some"}, "got 'some'"), ({"calib_mode": "customize"}, "LayerOutputCollector"),
        ({"excluded_sym_names": "conv"}, "layers to exclude are a list, got the text 'conv'"),
        ({"excluded_op_names": "Convolution"}, "operators to exclude are a list")]
    for given, message in refused:
        with pytest.raises(ValueError, match=message):
            quantization.quantize_graph(sym, args, aux, **given)
    qsym, q_args, q_aux, collector = quantization.quantize_graph(sym, args, aux, calib_mode="naive")
    with pytest.raises(ValueError, match="takes the parameters of the float32 network.*conv_bias, conv_weight"):
        quantization.calib_graph(qsym, q_args, q_aux, collector, calib_mode="naive")
    with pytest.raises(ValueError, match="the Symbol that quantize_graph gave"):
        quantization.calib_graph(sym, args, aux, collector, calib_mode="naive")
    with pytest.raises(ValueError, match="a graph without calibration is what"):
        quantization.calib_graph(qsym, args, aux, collector, calib_mode="none")
    with pytest.warns(UserWarning, match="has not seen data, pool_output"):
        quantization.calib_graph(qsym, args, aux, collector, calib_mode="naive")


@pytest.mark.parametrize("first", [0.0, 1e-30, 1e-4])
def test_histograms_stay_small_when_elements_become_much_larger(first: float) -> None:
    """As where an activation is dead for the first batch: whole bins of its width would take terabytes."""
    collector = calibration.Histograms("int8")
    x = np.random.default_rng(0).standard_normal(10000)
    collector.collect("x", np.full(3, first))
    collector.collect("x", np.zeros((0, 4)))
    collector.collect("x", x)
    counts, edges, low, high, wide = collector.hist_dict["x"]
    assert len(counts) == calibration.BINS == len(edges) - 1 and counts.sum() == 10003
    assert (low, high, wide) == (x.min(), max(first, x.max()), abs(x).max())
    alone = calibration.Histograms("int8")
    alone.collect("x", x)
    np.testing.assert_allclose(collector.ends()["x"], alone.ends()["x"], rtol=0.02)


@pytest.mark.parametrize("collector", ["naive", "entropy"])
@pytest.mark.parametrize("strange", [np.nan, np.inf])
def test_what_has_no_range_is_an_error(collector: str, strange: float) -> None:
    with pytest.raises(mx.base.MXNetError, match="relu_output has elements that are infinite or no numbers"):
        calibration.COLLECTORS[collector]("int8").collect("relu_output", nd.array([1, strange]))
