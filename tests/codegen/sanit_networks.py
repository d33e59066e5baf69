"""Networks that sanit_worker.py runs: each function compares compiled results with eager ones."""
from __future__ import annotations

import gc
import threading
from typing import Any, Callable

import numpy as np

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.gluon import nn, rnn


def array(*shape: int) -> Any:
    return nd.array(np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32"))


def close(a: Any, b: Any, tol: float = 2e-5) -> None:
    x, y = a.asnumpy(), b.asnumpy()
    assert (x.shape == y.shape and np.abs(x - y).max(initial=0) <= tol * max(np.abs(y).max(initial=0), 1e-3)), np.abs(x - y).max()  # noqa: E501


def convolutional() -> Any:
    net = nn.HybridSequential()
    relu = "relu"
    net.add(nn.Conv2D(7, 3, padding=1, use_bias=False), nn.BatchNorm(), nn.Activation(relu), nn.MaxPool2D(2),
            nn.Conv2D(19, 3, strides=2), nn.Activation(relu),
            nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dropout(0.3), nn.Dense(5))
    net.initialize(mx.init.Xavier())
    return net


def trained(net: Any, optimizer: str, x: Any, y: Any) -> list[Any]:
    """Parameters after some steps."""
    trainer = gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": 0.01})
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    for _ in range(3):
        mx.random.seed(3)
        with autograd.record():
            out = loss(net(x), y)
        out.backward()
        trainer.step(x.shape[0])
    return [p.data().copy() for p in net.collect_params().values()]


def training() -> None:
    for optimizer in ("sgd", "adam"):
        x, y = array(5, 3, 13, 17), nd.array([0, 1, 2, 3, 4])
        nets = [convolutional() for _ in range(2)]
        for net in nets:
            net(x)
        for a, b in zip(*(n.collect_params().values() for n in nets)):
            b.set_data(a.data())
        nets[1].hybridize()
        for a, b in zip(*(trained(n, optimizer, x, y) for n in nets)):
            close(b, a, 1e-3)


def inference() -> None:
    """The launcher: the right arguments, wrong ones, and arrays that nobody keeps."""
    net, x = convolutional(), array(2, 3, 11, 9)
    want = net(x)
    net.hybridize()
    for _ in range(20):
        close(net(x), want)
    close(net(array(3, 3, 11, 9)), net(array(3, 3, 11, 9)))
    for bad in (array(2, 4, 11, 9), np.zeros((2, 3, 11, 9)), None, "x"):
        try:
            net(bad)
        except Exception:                                        # noqa: E501, S110  any error; what counts is that memory is whole
            pass
    kept = [net(x) for _ in range(8)]
    del net
    gc.collect()
    for y in kept:
        close(y, want)


def threads() -> None:
    """One network in several threads, while its parameters stay and another is trained."""
    net, x = convolutional(), array(2, 3, 11, 9)
    want = net(x)
    net.hybridize()
    failed: list[BaseException] = []

    def work(inputs: Any) -> None:
        try:
            for _ in range(30):
                close(net(inputs), want)
        except BaseException as err:
            failed.append(err)
    others = [threading.Thread(target=work, args=(x.copy(),)) for _ in range(3)]
    for t in others:
        t.start()
    training()
    for t in others:
        t.join()
    if failed:
        raise failed[0]


def recurrent() -> None:
    net = rnn.LSTM(7, bidirectional=True, input_size=5)
    net.initialize()
    x = array(6, 3, 5)
    want = net(x)
    net.hybridize()
    close(net(x), want)
    with autograd.record():
        loss = (net(x) ** 2).sum()
    loss.backward()


def row_kernels() -> None:
    """Factorisations, and boxes that are chosen one after another."""
    def factors(a: Any) -> Any:
        spd = nd.linalg.gemm2(a, a, transpose_b=True) + nd.eye(a.shape[-1])
        chol = nd.linalg.potrf(spd)
        return [chol, nd.linalg.trsm(chol, a), nd.linalg.inverse(spd), nd.linalg.slogdet(spd)[1]]
    a = array(3, 5, 5)
    for got, want in zip(mx.hybridize(factors)(a), factors(a)):
        close(got, want, 1e-3)
    boxes = nd.array(np.random.default_rng(1).uniform(0, 1, (2, 17, 6)).astype("float32"))

    def chosen(b: Any) -> Any:
        return nd.contrib.box_nms(b, overlap_thresh=0.3)
    close(mx.hybridize(chosen)(boxes), chosen(boxes))


ALL: tuple[Callable[[], None], ...] = (inference, training, threads, recurrent, row_kernels)
