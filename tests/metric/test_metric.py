"""Metrics against what MXNet 1.9.1 gives (data/metrics.json, written by oracle/record_metrics.py), their configs, and
bad input."""
from __future__ import annotations

import importlib.util
import json
import math
from collections import OrderedDict

import numpy as onp
import pytest

import hybrid as mx
from hybrid import gluon, metric, nd

from ..paths import DATA, TESTS

_spec = importlib.util.spec_from_file_location("record_metrics", TESTS / "oracle" / "record_metrics.py")
oracle = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(oracle)
STORED = json.loads((DATA / "metrics.json").read_text())


def close(got, want, where):
    """Equal nested lists; numbers to the precision of MXNet's float32 sums."""
    assert type(got) is type(want) or isinstance(got,
                                                 (int, float)) and isinstance(want, (int, float)), (where, got, want)
    if isinstance(want, dict):
        assert set(got) == set(want), where
        for k in want:
            close(got[k], want[k], f"{where}.{k}")
    elif isinstance(want, list):
        assert len(got) == len(want), (where, got, want)
        for a, b in zip(got, want):
            close(a, b, where)
    elif isinstance(want, float):
        assert math.isnan(want) and math.isnan(got) or got == pytest.approx(want, rel=1e-5, abs=1e-7), (where, got,
                want)
    else:
        assert got == want, where


@pytest.mark.parametrize("case", [c for c in oracle.CASES if c not in ("pearson_micro", "f1_micro", "mcc_micro",
                                                                       "top_k_name")])
def test_metric_against_mxnet(case):
    close(oracle.plain(oracle.run(mx, case)), STORED[case], case)


@pytest.mark.parametrize("case", ["f1_micro", "mcc_micro"])
def test_micro_averages_stay_in_the_config(case):
    got, want = oracle.plain(oracle.run(mx, case)), dict(STORED[case])
    # MXNet leaves it out, and makes a macro average of the config
    assert got["config"].pop("average") == "micro"
    close(got, want, case)


def test_top_k_name():
    """MXNet writes the name with the number into the config, and makes near_3_3 of it."""
    got, want = oracle.plain(oracle.run(mx, "top_k_name")), STORED["top_k_name"]
    assert got.pop("config")["name"] == "near" and want["config"]["name"] == "near_3"
    close(got, {k: v for k, v in want.items() if k != "config"}, "top_k_name")
    assert metric.create("top_k_acc", top_k=3).get_config()["name"] == "top_k_accuracy_3"


def test_micro_correlation():
    """MXNet's reset_local does not reset it and its get_global gives 0; here local and global are what they are
    called."""
    got, want = oracle.plain(oracle.run(mx, "pearson_micro")), STORED["pearson_micro"]
    for step in ("one", "two", "three"):
        close(got[step][1], want[step][0], step)
    close(got["two"][0], want["two"][0], "two")
    assert math.isnan(got["local"][0][1]) and got["local"][1][1] == got["two"][1][1]
    rng = onp.random.RandomState(sum(map(ord, "pearson_micro")))
    third = [oracle.update("numbers", rng) for _ in range(3)][2]
    assert got["three"][0][1] == pytest.approx(onp.corrcoef(third[0][0].ravel(), third[1][0].ravel())[0, 1], rel=1e-5)


def test_numpy_arrays_and_lists_work_too():
    for case in ("accuracy", "rmse", "perplexity", "custom_pair"):
        close(oracle.plain(oracle.run(mx, case, onp.asarray)), STORED[case], case)


def test_np_arrays_work():
    m = metric.Accuracy()
    m.update(mx.np.array([0, 1, 1]), mx.np.array([[0.3, 0.7], [0, 1.0], [0.4, 0.6]]))
    assert m.get() == ("accuracy", 2 / 3) and type(m.get()[1]) is float


def test_str():
    m = metric.create(["acc", "mae"])
    m.update([nd.array([1, 0])], [nd.array([1, 0])])
    assert str(m) == "EvalMetric: {'accuracy': 1.0, 'mae': 0.0}"
    assert str(metric.MSE()) == "EvalMetric: {'mse': nan}"


# ---- names, configs, registration
@pytest.mark.parametrize("case", [c for c in oracle.CASES if not c.startswith(("custom", "created_function"))])
def test_config_makes_the_same_metric(case):
    code = oracle.CASES[case][0]
    first = eval(code if code.startswith("m.") else f"m.{code}", {"m": metric, "pair": oracle.pair})
    config = json.loads(json.dumps(first.get_config()))       # plain enough to be written down
    again = metric.create(**config)
    assert type(again) is type(first) and again.get_config() == first.get_config()
    rng = onp.random.RandomState(0)
    for m in (first, again):
        rng.seed(3)
        m.update(*oracle.update(oracle.CASES[case][1], rng))
    close(oracle.plain(again.get()), oracle.plain(first.get()), case)


def test_update_dict_and_names():
    labels = OrderedDict(a=nd.array([0, 1]), b=nd.array([1, 1]))
    preds = OrderedDict(x=nd.array([0, 1]), y=nd.array([0, 0]))
    m = metric.Accuracy(output_names=["y"], label_names=["a"])
    m.update_dict(labels, preds)
    assert m.get() == ("accuracy", 0.5)
    both = metric.Accuracy()
    both.update_dict(labels, preds)
    assert both.get() == ("accuracy", 0.5)
    c = metric.CompositeEvalMetric([metric.Accuracy()], output_names=["x"], label_names=["a"])
    c.update_dict(labels, preds)
    assert c.get() == (["accuracy"], [1.0])
    assert c.get_metric(0).num_inst == 2
    with pytest.raises(ValueError, match="output 'z' is not among 'x', 'y'"):
        metric.MAE(output_names=["z"]).update_dict(labels, preds)
    with pytest.raises(ValueError, match="Metric index 3 is out of range 0 and 1"):
        c.get_metric(3)


def test_metrics_of_ones_own():
    class Largest(metric.EvalMetric):
        def __init__(self, name="largest", **kwargs):
            super().__init__(name, **kwargs)

        def update(self, labels, preds):
            labels, preds = metric.check_label_shapes(labels, preds, True)
            for p in preds:
                self.sum_metric += p.max().asscalar()
                self.num_inst += 1
    try:
        metric.alias("biggest")(metric.register(Largest))
        m = metric.create("biggest", name="big")
        m.update([nd.array([0])], [nd.array([3])])
        assert m.get() == ("big", 3.0) == m.get_global() and m.get_global_name_value() == [("big", 3.0)]
        with pytest.warns(UserWarning, match="metric 'largest' was"):
            metric.register(type("Largest", (Largest,), {}))
        assert isinstance(metric.create(Largest), Largest) and metric.create(m) is m
    finally:
        for name in ("largest", "biggest"):
            metric.base._registry.pop(name, None)
    with pytest.raises(NotImplementedError, match="EvalMetric must define update"):
        metric.EvalMetric("x").update([], [])


def test_where_it_is():
    assert mx.metric is metric is gluon.metric
    assert {"metric"} <= set(dir(mx)) and {"metric", "loss"} <= set(dir(gluon))


# ---- bad input
L, P = nd.array([0, 1, 1]), nd.array([[0.3, 0.7], [0, 1], [0.4, 0.6]])
BAD = {
    "counts": (metric.Accuracy, [L, L], [P], "Shape of labels 2 does not match shape of predictions 1"),
    "list_and_array": (metric.Accuracy, L, [P], "give both as arrays, or both as lists"),
    "accuracy_length": (metric.Accuracy, [L], [P[:2]], r"labels \(3,\) does not match shape of predictions \(2, 2\)"),
    "accuracy_axis": (metric.Accuracy, [L], [nd.array([1, 0])], "axis 1"),
    "top_k": (lambda: metric.TopKAccuracy(2), [L], [L], r"predictions \(batch, classes\)"),
    "f1_scores": (metric.F1, [L], [L], r"predictions \(batch, 2\)"),
    "f1_classes": (metric.F1, [nd.array([0, 1, 2])], [P],
                   r"only supports binary classification, got labels \[0, 1, 2\]"),
    "mcc_length": (metric.MCC, [L[:2]], [P], "MCC: Shape of labels"),
    "pcc_negative": (metric.PCC, [nd.array([-1, 1, 1])], [P], "must not be negative"),
    "perplexity_length": (lambda: metric.Perplexity(None), [L[:2]], [P], "one label for each row"),
    "cross_entropy_range": (metric.CrossEntropy, [L + 1], [P], "classes from 0 to 1, got 1 to 2"),
    "cross_entropy_negative": (metric.CrossEntropy, [L - 3], [P], "classes from 0 to 1, got -3 to -2"),
    "nll_length": (metric.NegativeLogLikelihood, [L], [P[:2]], "NegativeLogLikelihood: Shape of labels"),
    "mse_length": (metric.MSE, [L], [L[:2]], "MSE: Shape of labels"),
    "pearson": (metric.PearsonCorrelation, [L], [P],
                r"Shape of labels \(3,\) does not match shape of predictions \(3, 2\)"),
    "custom": (lambda: metric.np(oracle.pair), [L], [L, L], "Shape of labels 1 does not match shape of predictions 2"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    make, labels, preds, text = BAD[case]
    m = make()
    with pytest.raises(ValueError, match=text):
        m.update(labels, preds)
    assert math.isnan(m.get()[1])                             # nothing was counted


@pytest.mark.parametrize("make, text", [
    (lambda: metric.create("acuracy"), "nearest: accuracy"), (lambda: metric.create(3), "got 3"),
    (lambda: metric.create("{"), "cannot be read"),
    (lambda: metric.create(metric.MAE(), name="x"), "is a metric already"),
    (lambda: metric.TopKAccuracy(1), "Please use Accuracy"),
    (lambda: metric.F1(average="all"), "macro or micro, got 'all'"),
    (lambda: metric.register(int), "subclass of EvalMetric"),
], ids=["unknown", "number", "json", "instance", "top_1", "average", "register"])
def test_bad_construction(make, text):
    with pytest.raises(ValueError, match=text):
        make()


def test_all_ones_of_top_k_with_few_classes():
    m = metric.TopKAccuracy(5)
    m.update(nd.array([1, 0]), nd.array([[1, 2, 3], [1, 2, 3]]))
    assert m.get() == ("top_k_accuracy_5", 1.0)


def test_examples_of_the_docstrings():
    m = metric.Accuracy()
    m.update(nd.array([1, 0]), nd.array([[0.2, 0.8], [0.1, 0.9]]))
    assert m.get() == ("accuracy", 0.5)
    m = metric.Perplexity(ignore_label=None)
    m.update(nd.array([0, 1, 1]), P)
    assert round(m.get()[1], 5) == 1.7711


def test_regression_labels_and_predictions_of_other_shapes_broadcast_with_a_warning():
    for label, pred, wanted in (([1.], [[.5, 3]], [1.25, 2.125, 1.457738]),
                                ([1., 0], [[.5, 3], [2, 1]], [1.375, 2.3125, 1.52069]),):
        for make, value in zip((metric.MAE, metric.MSE, metric.RMSE), wanted):
            m = make()
            with pytest.warns(UserWarning, match="does not match shape of predictions"):
                m.update(nd.array(label), nd.array(pred))
            assert m.get()[1] == pytest.approx(value, rel=1e-5)
