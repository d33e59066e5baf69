"""Moving averages of parameters, and metrics in TensorBoard's files."""
from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.base.errors import AttributeValueError, HybridError


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.filterwarnings("error")
def test_averages(hybridized: bool) -> None:
    net = gluon.nn.Dense(1, in_units=2)
    net.initialize("ones")
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    ema = gluon.ExponentialMovingAverage(net.collect_params(), decay=0.75)

    def step(x: Any) -> Any:
        with autograd.record():
            loss = (net(x) ** 2).mean()
        loss.backward()
        trainer.step(1)
        ema.update()
        return loss
    run = mx.hybridize(step) if hybridized else step
    want = np.ones((1, 2), np.float32)
    for k in range(4):
        run(nd.array([[1, k]]))
        want = want * 0.75 + net.weight.data().asnumpy() * 0.25
        np.testing.assert_allclose(ema.averages[net.weight.name].asnumpy(), want, rtol=1e-6)
    assert ema.updates == 4
    old = net.weight.data().asnumpy()
    with ema.applied():
        np.testing.assert_array_equal(net.weight.data().asnumpy(), ema.averages[net.weight.name].asnumpy())
    np.testing.assert_array_equal(net.weight.data().asnumpy(), old)


def test_warmup_and_wrong_decays() -> None:
    net = gluon.nn.Dense(1, in_units=1, use_bias=False)
    net.initialize("zeros")
    ema = gluon.ExponentialMovingAverage(net.collect_params(), decay=0.9, warmup=True)
    net.weight.set_data(nd.ones((1, 1)))
    ema.update()
    assert abs(ema.averages[net.weight.name].asscalar() - (1 - 2 / 11)) < 1e-6
    with pytest.raises(AttributeValueError, match="decay=1 must be 0 or more and below 1"):
        gluon.ExponentialMovingAverage(net.collect_params(), decay=1)


class Writer:
    def __init__(self, folder: str):
        self.rows: list[tuple] = []
        self.closed = False

    def add_scalar(self, name: str, value: float, global_step: int) -> None:
        self.rows.append((name, value, global_step))

    def close(self) -> None:
        self.closed = True


def test_metrics_for_tensorboard(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "mxboard", types.SimpleNamespace(SummaryWriter=Writer))
    from hybrid.contrib.tensorboard import LogMetricsCallback
    metric = mx.metric.Accuracy()
    metric.update(nd.array([1, 1]), nd.array([[0, 1], [1, 0]]))
    callback = LogMetricsCallback("folder", prefix="train")
    callback(types.SimpleNamespace(eval_metric=metric, epoch=3))
    assert callback.summary_writer.rows == [("train-accuracy", 0.5, 3)]


def test_an_estimator_writes_its_metrics(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "mxboard", types.SimpleNamespace(SummaryWriter=Writer))
    from hybrid.gluon.contrib.estimator import Estimator, TensorBoardHandler
    net = gluon.nn.Dense(2, in_units=3)
    net.initialize()
    data = gluon.data.DataLoader(gluon.data.ArrayDataset(np.ones((8, 3), np.float32), np.zeros(8, np.float32)), 4)
    handler = TensorBoardHandler("folder", log_interval=1)
    Estimator(net, gluon.loss.SoftmaxCrossEntropyLoss(), train_metrics=mx.metric.Accuracy()).fit(
        data, epochs=2, event_handlers=[handler])
    assert [row[0] for row in handler.writer.rows].count("batch/training accuracy") == 4 and handler.writer.closed
    assert {row[2] for row in handler.writer.rows if row[0] == "training accuracy"} == {1, 2}


def test_without_a_writer_the_error_says_what_to_install(monkeypatch: Any) -> None:
    for name in ("mxboard", "tensorboardX", "torch.utils.tensorboard", "torch"):
        monkeypatch.setitem(sys.modules, name, None)
    from hybrid.contrib.tensorboard import LogMetricsCallback
    with pytest.raises(HybridError, match="pip install tensorboardX"):
        LogMetricsCallback("folder")


def test_a_block_is_taken_as_its_parameters_are() -> None:
    net = gluon.nn.Dense(1, in_units=1, use_bias=False)
    net.initialize("ones")
    ema = gluon.ExponentialMovingAverage(net, decay=0.5)
    net.weight.set_data(nd.array([[3]]))
    ema.update()
    ema.copy_to()
    assert net.weight.data().asscalar() == 2
