"""Calls that MXNet 1.9.1 refuses by an ``assert``: programs and their tests catch AssertionError."""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.contrib import amp

BATCH = mx.io.DataBatch([nd.zeros((2, 4))], [nd.zeros(2)])
SHAPES = [("data", (2, 4))], [("softmax_label", (2,))]


def trainer(*devices: tuple[mx.Context, ...]) -> gluon.Trainer:
    """A Trainer of a parameter on each of these groups of devices."""
    made = [gluon.Parameter(f"p{i}", shape=(3,)) for i in range(len(devices))]
    for parameter, where in zip(made, devices):
        parameter.initialize(ctx=list(where))
    return gluon.Trainer(made, "sgd")


def symbol(name: str = "f") -> mx.sym.Symbol:
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name=name), name="softmax")


def chain(*names: str) -> mx.mod.SequentialModule:
    made = mx.mod.SequentialModule()
    for name in names[:-1]:
        made.add(mx.mod.Module(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=4, name=name), label_names=None))
    return made.add(mx.mod.Module(symbol(names[-1])), take_labels=True, auto_wiring=True)


def same_names_twice() -> None:
    made = chain("f", "f")
    made.bind(*SHAPES)
    made.init_params()


def score(training: bool) -> mx.mod.PythonLossModule:
    made = mx.mod.PythonLossModule()
    made.bind(*SHAPES, for_training=training)
    made.forward(BATCH, is_train=training)
    return made


def two_outputs_then_one() -> None:
    def outputs(key: int) -> tuple[Any, ...]:
        f = symbol()
        return (mx.sym.Group([f, f * 2]) if key == 2 else f), ("data",), ("softmax_label",)
    made = mx.mod.BucketingModule(outputs, 4)
    made.bind(*SHAPES)
    made.init_params()
    made.predict([mx.io.DataBatch([nd.zeros((2, 4))], [nd.zeros(2)], bucket_key=k, provide_data=SHAPES[0],
                                  provide_label=SHAPES[1]) for k in (4, 2)], reset=False)


def record(flag: str, use: Callable[[Any], Any], tmp_path: Path) -> None:
    with mx.recordio.MXRecordIO(str(tmp_path / "a.rec"), "w") as file:
        file.write(b"one")
    use(mx.recordio.MXRecordIO(str(tmp_path / "a.rec"), flag))


def twice_modified() -> None:
    cell = gluon.rnn.LSTMCell(3)
    gluon.rnn.ZoneoutCell(cell)
    gluon.rnn.ResidualCell(cell)


BOTH = (mx.cpu(0), mx.cpu(1))
CALLS: dict[str, Callable[[Path], Any]] = {
    "update of weights kept in a store": lambda _: trainer(BOTH).update(1),
    "sum of gradients kept in a store": lambda _: trainer(BOTH).allreduce_grads(),
    "parameters on different devices": lambda _: trainer(BOTH, BOTH[:1]),
    "a cell modified twice": lambda _: twice_modified(),
    "the graph of no array": lambda _: autograd.get_symbol(3),
    "fit without epochs": lambda _: mx.mod.Module(symbol()).fit(mx.io.NDArrayIter(nd.zeros((2, 4)), nd.zeros(2), 2)),
    "sharing with an unbound module": lambda _: mx.mod.Module(symbol()).bind(*SHAPES,
                                                                            shared_module=mx.mod.Module(symbol())),
    "buckets shared": lambda _: mx.mod.BucketingModule(lambda key: (symbol(), ("data",), ("softmax_label",)), 3).bind(
        *SHAPES, shared_module=mx.mod.Module(symbol())),
    "batches of several counts of outputs": lambda _: two_outputs_then_one(),
    "an empty chain": lambda _: mx.mod.SequentialModule().bind(*SHAPES),
    "a chain shared": lambda _: chain("f").bind(*SHAPES, shared_module=mx.mod.Module(symbol())),
    "a chain with one name twice": lambda _: same_names_twice(),
    "gradients given to a loss": lambda _: score(True).backward([nd.ones(1)]),
    "gradients of a loss bound for prediction": lambda _: score(False).backward(),
    "labels of several devices": lambda _: score(True).update_metric(mx.metric.Accuracy(), [nd.ones(2)], True),
    "no iterator": lambda _: mx.io.PrefetchingIter([]),
    "a record written for reading": lambda path: record("r", lambda file: file.write(b"two"), path),
    "a record read for writing": lambda path: record("w", lambda file: file.read(), path),
    "a loss scaled before init_trainer": lambda _: amp.scale_loss(nd.ones(1), trainer(BOTH[:1])).__enter__(),
}


@pytest.mark.parametrize("call", CALLS)
def test_refused_calls_are_assertions(call: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError) as caught:
        CALLS[call](tmp_path)
    assert isinstance(caught.value, mx.MXNetError)              # with a message, which MXNet's asserts often lack
