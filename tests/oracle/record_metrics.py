"""Metrics as MXNet 1.9.1 computes them. Recorded by ``MXNET_MKLDNN_ENABLED=0 ORACLE_PYTHON
tests/oracle/record_metrics.py``.

The cases and their updates are made here for both libraries; only results are stored, in data/metrics.json: what get,
get_global, the lists of pairs, str and get_config give after two updates, after reset_local and one more, and after
reset.
"""
from __future__ import annotations

import json
import pathlib

import numpy as np

# metric, kind of its updates
CASES = {
    "accuracy": ("Accuracy()", "scores"),
    "accuracy_classes": ("Accuracy(name='hits')", "classes"),
    "accuracy_axis": ("Accuracy(axis=2)", "scores_last"),
    "accuracy_several": ("Accuracy()", "several"),
    "accuracy_column": ("Accuracy()", "column"),
    "accuracy_bare": ("Accuracy()", "bare"),
    "top_k": ("TopKAccuracy(top_k=2)", "scores"),
    "top_k_name": ("TopKAccuracy(3, name='near')", "scores"),
    "f1": ("F1()", "binary"),
    "f1_micro": ("F1(average='micro')", "binary"),
    "f1_several": ("F1()", "binary_several"),
    "f1_nothing": ("F1()", "negatives"),
    "mcc": ("MCC()", "binary"),
    "mcc_micro": ("MCC(average='micro')", "binary"),
    "mcc_nothing": ("MCC()", "negatives"),
    "pcc": ("PCC()", "scores"),
    "pcc_classes": ("PCC()", "classes"),
    "pcc_binary": ("PCC()", "binary"),
    "pcc_local": ("PCC(has_global_stats=False)", "scores"),
    "perplexity": ("Perplexity(None)", "probabilities"),
    "perplexity_ignore": ("Perplexity(ignore_label=0)", "probabilities"),
    "perplexity_zero": ("Perplexity(-1)", "certain"),
    "cross_entropy": ("CrossEntropy()", "probabilities"),
    "cross_entropy_eps": ("CrossEntropy(eps=0.01)", "certain"),
    "cross_entropy_zero": ("CrossEntropy()", "certain"),
    "nll": ("NegativeLogLikelihood()", "probabilities"),
    "mae": ("MAE()", "numbers"),
    "mae_vector": ("MAE()", "vector"),
    "mse": ("MSE()", "numbers"),
    "mse_mixed": ("MSE()", "mixed"),
    "rmse": ("RMSE()", "numbers"),
    "rmse_cube": ("RMSE()", "cube"),
    "pearson": ("PearsonCorrelation()", "numbers"),
    "pearson_micro": ("PearsonCorrelation(average='micro')", "numbers"),
    "loss": ("Loss()", "numbers"),
    "loss_bare": ("Loss(name='mean')", "bare_number"),
    "torch": ("Torch()", "numbers"),
    "caffe": ("Caffe()", "numbers"),
    "custom": ("CustomMetric(lambda label, pred: abs(label - pred).sum())", "vector"),
    "custom_pair": ("np(pair)", "vector"),
    "custom_extra": ("np(pair, name='own', allow_extra_outputs=True)", "extra"),
    "composite": ("CompositeEvalMetric([m.Accuracy(), 'ce', m.TopKAccuracy(2)])", "probabilities"),
    "created": ("create(['acc', 'mcc', 'F1'])", "binary"),
    "created_nll": ("create('nll_loss', eps=0.1)", "probabilities"),
    "created_json": ("create('[\"acc\", {\"axis\": 1, \"name\": \"a\"}]')", "scores"),
    "created_dict": ("create({'metric': 'top_k_acc', 'top_k': 2})", "scores"),
    "created_function": ("create(pair)", "vector"),
}


def pair(label, pred):
    """A metric that gives (sum, count)."""
    return (label * pred).sum(), label.size


def update(kind: str, rng: np.random.RandomState) -> tuple:
    """Labels and predictions of one update."""
    n, classes = rng.randint(12, 20), 5
    score = rng.uniform(size=(n, classes))
    label = rng.randint(0, classes, n)
    numbers = rng.normal(size=(n, 3)), rng.normal(size=(n, 3))
    some = lambda k: rng.uniform(size=(n, k))                    # noqa: E731
    made = {
        "scores": lambda: ([label], [score]),
        "classes": lambda: ([label], [rng.randint(0, classes, n)]),
        "scores_last": lambda: ([rng.randint(0, 3, (n, 2))], [rng.uniform(size=(n, 2, 3))]),
        "several": lambda: ([label, label[:3]], [score, some(classes)[:3]]),
        "column": lambda: ([label.reshape(-1, 1)], [score]),
        "bare": lambda: (label, score),
        "bare_number": lambda: (label, some(2)),
        "binary": lambda: ([label % 2], [some(2)]),
        "binary_several": lambda: ([label % 2, label[:3] % 2], [some(2), some(2)[:3]]),
        "negatives": lambda: ([label * 0], [np.array([[0.9, 0.1]] * n)]),
        "probabilities": lambda: ([label], [score / score.sum(1, keepdims=True)]),
        "certain": lambda: ([label], [np.eye(classes)[rng.randint(0, classes, n)]]),
        "numbers": lambda: ([numbers[0]], [numbers[1]]),
        "vector": lambda: ([numbers[0][:, 0]], [numbers[1][:, 0]]),
        "mixed": lambda: ([numbers[0][:, 0]], [numbers[1][:, :1]]),
        "cube": lambda: ([rng.normal(size=(n, 2, 2))], [rng.normal(size=(n, 2, 2))]),
        "extra": lambda: ([numbers[0]], [numbers[1], numbers[0]]),
    }
    return made[kind]()


def run(mx, case: str, wrap=None) -> dict:
    """Everything a metric says on its way through updates and resets."""
    code, kind = CASES[case]
    m = mx.metric
    metric = eval(code if code.startswith("m.") else f"m.{code}", {"m": m, "pair": pair})
    rng = np.random.RandomState(sum(map(ord, case)))
    wrap = wrap or mx.nd.array
    said: dict = {"empty": [metric.get(), metric.get_global()]}

    def step() -> None:
        labels, preds = update(kind, rng)
        metric.update(*([wrap(v) for v in side] if isinstance(side, list) else wrap(side) for side in (labels, preds)))
    step()
    said["one"] = [metric.get(), metric.get_global()]
    step()
    said["two"] = [metric.get(), metric.get_global(), metric.get_name_value(), metric.get_global_name_value()]
    said["str"] = str(metric).split(":")[0]
    metric.reset_local()
    said["local"] = [metric.get(), metric.get_global()]
    step()
    said["three"] = [metric.get(), metric.get_global()]
    metric.reset()
    said["reset"] = [metric.get(), metric.get_global()]
    try:
        said["config"] = metric.get_config()
    except NotImplementedError as err:
        said["config"] = str(err)
    return said


def plain(x):
    """Tuples as lists, NumPy's numbers as Python's."""
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [plain(v) for v in x]
    return x.item() if isinstance(x, np.generic) else x


if __name__ == "__main__":
    import mxnet
    answers = {case: plain(run(mxnet, case)) for case in CASES}
    target = pathlib.Path(__file__).resolve().parent.parent / "data" / "metrics.json"
    target.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in answers.items()) + "\n}\n")
