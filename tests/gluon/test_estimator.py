"""gluon.contrib.estimator: the training loop, its handlers and files."""
from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import gluon
from hybrid.gluon import nn
from hybrid.gluon.contrib.estimator import (BatchEnd, CheckpointHandler, EarlyStoppingHandler, EpochEnd, Estimator,
                                            LoggingHandler, TrainBegin, TrainEnd,
                                            ValidationHandler)


def data(n: int = 20) -> gluon.data.DataLoader:
    x = np.random.RandomState(0).rand(n, 4).astype("float32")
    return gluon.data.DataLoader(gluon.data.ArrayDataset(x, (x.sum(1) > 2).astype("float32")), batch_size=5)


def estimator(metric: Any = None, rate: float = 0.1, hybridize: bool = False) -> Estimator:
    mx.random.seed(0)
    net = nn.HybridSequential()
    net.add(nn.Dense(2))
    net.initialize(mx.init.One())
    if hybridize:
        net.hybridize()
    return Estimator(net, gluon.loss.SoftmaxCrossEntropyLoss(), train_metrics=metric or mx.metric.Accuracy(),
                     context=mx.cpu(),
                     trainer=gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": rate}))


def logged(est: Estimator) -> list[str]:
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(re.sub(r"\d+\.\d+|\d+(?=s with)", "#", record.getMessage()))
    est.logger.handlers = [Keep()]
    return lines


def test_log_of_two_epochs_with_validation_is_mxnets() -> None:
    est = estimator()
    lines = logged(est)
    est.fit(data(), val_data=data(), epochs=2)
    epoch = ["[Epoch {0}] Begin, current learning rate: #", "Validation Begin",
             "[Epoch 0] Finished in #s, validation accuracy: #",
             "[Epoch {0}] Finished in #s, training accuracy: #"]
    assert lines == ["Training begin: using optimizer SGD with current learning rate # ", "Train for 2 epochs.",
                     *(t.format(0) for t in epoch),
                     *(t.format(1) for t in epoch), "Train finished using total #s with 2 epochs. training accuracy: #"]


def test_batches_and_interval() -> None:
    est = estimator()
    lines = logged(est)
    est.fit(data(), batches=3, event_handlers=[LoggingHandler(log_interval=2, metrics=est.train_metrics)])
    assert [t.split(" time")[0] for t in lines if "Batch" in t] == ["[Epoch 0][Batch 0][Samples 5]",
                                                                    "[Epoch 0][Batch 2][Samples 15]"]


def test_handlers_see_the_events_and_can_stop() -> None:
    seen: list[Any] = []

    class Watch(TrainBegin, TrainEnd, BatchEnd, EpochEnd):
        def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
            seen.append("begin")

        def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool:
            seen.append((sorted(kwargs), len(kwargs["pred"]), kwargs["loss"][0].shape))
            return len(seen) == 3

        def train_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
            seen.append("end")
    est = estimator()
    logged(est)
    est.fit(data(), epochs=5, event_handlers=Watch())
    one = (["batch", "label", "loss", "pred"], 1, (5,))
    assert seen == ["begin", one, one, "end"]


def test_checkpoints_are_kept_removed_and_resumed(tmp_path: Path) -> None:
    est = estimator(hybridize=True)
    lines = logged(est)
    acc = est.train_metrics[0]
    est.fit(data(), epochs=4, event_handlers=[CheckpointHandler(tmp_path, "m", monitor=acc, save_best=True,
                                                                max_checkpoints=2, verbose=1)])
    names = ["m-best.params", "m-best.states", *(f"m-epoch{e}batch{4 * e + 4}.{end}" for e in (2, 3)
                                                 for end in ("params", "states")), "m-symbol.json"]
    assert sorted(p.name for p in tmp_path.iterdir()) == names
    assert "improved from -inf to #" in next(t for t in lines if "improved" in t)
    weights = est.net[0].weight.data().asnumpy()
    again = estimator(hybridize=True)
    lines = logged(again)
    start: list[Any] = []

    class Look(BatchEnd):
        priority = -3000                                 # before the first update

        def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
            start.append(estimator.net[0].weight.data().asnumpy())
    again.fit(data(), epochs=5, event_handlers=[CheckpointHandler(tmp_path, "m", resume_from_checkpoint=True), Look()])
    np.testing.assert_array_equal(start[0], weights)
    assert len(start) == 4 and lines[0].endswith("resumed from epoch 3 batch 16, continue to train for 1 epochs ")
    assert (tmp_path / "m-epoch4batch20.params").is_file()
    with pytest.raises(ValueError, match="as many epochs as asked"):
        again.fit(data(), epochs=2, event_handlers=[CheckpointHandler(tmp_path, "m", resume_from_checkpoint=True)])


def test_early_stopping() -> None:
    est = estimator(rate=0.0)
    lines = logged(est)
    stop = EarlyStoppingHandler(monitor=est.train_metrics[0], patience=2)
    est.fit(data(), epochs=10, event_handlers=[stop])
    assert (stop.stopped_epoch, stop.current_epoch, stop.wait) == (2, 3,
                                                                   2) and any("early stopping" in t for t in lines)


def test_validation_by_batches() -> None:
    est = estimator()
    lines = logged(est)
    est.fit(data(), epochs=1, event_handlers=[ValidationHandler(data(), est.evaluate, batch_period=2)])
    assert lines.count("Validation Begin") == 3


BAD: list[tuple[str, Callable[[Estimator], Any], str]] = [
    ("no-length", lambda e: e.fit(data()), "one of epochs and batches"),
    ("two-lengths", lambda e: e.fit(data(), epochs=1, batches=1), "one of epochs and batches"),
    ("data", lambda e: e.fit([1], epochs=1), "takes a gluon.data.DataLoader"),
    ("handlers", lambda e: e.fit(data(), epochs=1, event_handlers=[1]), "must be an EventHandler"),
    ("loss", lambda e: Estimator(e.net, "l2"), "loss must be"),
    ("metrics", lambda e: Estimator(e.net, e.loss, train_metrics="acc"), "metrics must be"),
    ("trainer", lambda e: Estimator(e.net, e.loss, trainer="sgd"), "must be a gluon.Trainer"),
    ("context", lambda e: Estimator(e.net, e.loss, context="cpu"), "context must be"),
    ("monitor", lambda e: EarlyStoppingHandler(monitor="acc"), "monitor must be"),
    ("best", lambda e: CheckpointHandler("d", save_best=True), "monitor must be"),
    ("foreign", lambda e: e.fit(data(), epochs=1, event_handlers=[EarlyStoppingHandler(mx.metric.Accuracy())]),
     "none of estimator.train_metrics"),
    ("interval", lambda e: LoggingHandler(log_interval="batch"), "log_interval must be"),
]


@pytest.mark.parametrize("call, message", [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_arguments(call: Callable[[Estimator], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(estimator())
