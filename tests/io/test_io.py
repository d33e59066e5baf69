"""io.NDArrayIter and its relatives against MXNet's recorded epochs."""
from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import nd
from hybrid.base.errors import HybridError, ShapeError

from ..oracle.record_data import ITERATORS, epochs, evaluate, iterator_inputs
from ..paths import DATA

ANSWERS = json.loads((DATA / "recordio.json").read_text())["iterators"]


@pytest.mark.parametrize("name", list(ITERATORS), ids=list(ITERATORS))
def test_epochs_as_in_mxnet(name: str) -> None:
    it = evaluate(ITERATORS[name], {"mx": mx, "nd": nd, **iterator_inputs()})
    described = [[[d.name, list(d.shape), np.dtype(d.dtype).name, d.layout] for d in part]
                 for part in (it.provide_data, it.provide_label)]
    assert described == ANSWERS[name]["provide"]
    assert epochs(it) == ANSWERS[name]["epochs"]


def test_layout() -> None:
    x = np.arange(24.0).reshape(3, 4, 2)
    it = mx.io.NDArrayIter(x, np.arange(4), 2, layout="TNC")
    assert it.provide_data[0].shape == (3, 2, 2) and it.provide_data[0].layout == "TNC"
    got = list(it)
    np.testing.assert_array_equal(np.concatenate([b.data[0].asnumpy() for b in got], 1), x)
    assert [b.label[0].asnumpy().tolist() for b in got] == [[0, 1], [2, 3]]


def test_hard_reset_forgets() -> None:
    it = mx.io.NDArrayIter(np.arange(5), batch_size=2, last_batch_handle="roll_over")
    list(it)
    it.reset()
    assert next(it).data[0].asnumpy().tolist() == [4, 0] and it.getpad() == 1
    list(it)
    it.hard_reset()
    assert next(it).data[0].asnumpy().tolist() == [0, 1]


def test_batches_are_new_arrays() -> None:
    x = nd.arange(4)
    batch = next(mx.io.NDArrayIter(x, batch_size=2)).data[0]
    batch[:] = 9
    assert x.asnumpy().tolist() == [0, 1, 2, 3] and batch.ctx == x.ctx


def test_descriptions() -> None:
    d = mx.io.DataDesc("data", (2, 3))
    assert repr(d) == "DataDesc[data,(2, 3),<class 'numpy.float32'>,NCHW]" and d == ("data", (2, 3))
    name, shape = d
    assert (name, shape) == ("data", (2, 3))
    assert mx.io.DataDesc.get_batch_axis("TNC") == 1 and mx.io.DataDesc.get_batch_axis(None) == 0
    listed = mx.io.DataDesc.get_list([("a", (1,)), ("b", (2,))], [("a", np.int32), ("b", np.uint8)])
    assert [x.dtype for x in listed] == [np.int32, np.uint8]
    assert str(mx.io.DataBatch([nd.ones((2, 3))],
                               [nd.ones((2,))])) == "DataBatch: data shapes: [(2, 3)] label shapes: [(2,)]"


def test_own_iterator() -> None:
    class Count(mx.io.DataIter):
        def __init__(self) -> None:
            super().__init__(2)
            self.n = 0

        def iter_next(self) -> bool:
            self.n += 1
            return self.n <= 3

        def getdata(self) -> Any:
            return [nd.full((2,), self.n)]

        def getpad(self) -> int:
            return 0

        def reset(self) -> None:
            self.n = 0
    it = Count()
    assert [b.data[0].asnumpy()[0] for b in it] == [1, 2, 3]
    it.reset()
    assert len(list(it)) == 3
    with pytest.raises(NotImplementedError, match="iter_next"):
        next(mx.io.DataIter())


def test_prefetching_passes_errors_on_and_ends() -> None:
    class Bad(mx.io.NDArrayIter):
        def next(self) -> Any:
            if self.cursor >= 2:
                raise ValueError("from the thread")
            return super().next()
    it = mx.io.PrefetchingIter(Bad(np.arange(10), batch_size=2))
    with pytest.raises(ValueError, match="from the thread"):
        list(it)
    with pytest.raises(ShapeError, match="different numbers"):
        list(mx.io.PrefetchingIter([mx.io.NDArrayIter(np.arange(4), batch_size=2),
                                    mx.io.NDArrayIter(np.arange(6), batch_size=2)]))


BAD = {"length": (lambda: mx.io.NDArrayIter(np.ones((4, 2)), np.ones(3)), ShapeError, "'softmax_label' has 3"),
       "last": (lambda: mx.io.NDArrayIter(np.ones(3), last_batch_handle="keep"), ValueError, "pad, discard, roll_over"),
       "size": (lambda: mx.io.NDArrayIter(np.ones(3), batch_size=0), ValueError, "positive"),
       "type": (lambda: mx.io.NDArrayIter("text"), TypeError, "got str"),
       "none": (lambda: mx.io.NDArrayIter([]), HybridError, "at least one"),
       "no samples": (lambda: mx.io.NDArrayIter(np.ones((0, 2))), ShapeError,
       "no samples"),
       "number": (lambda: mx.io.NDArrayIter({"x": 3.0}), ShapeError, "'x' is a number"),
       "object": (lambda: mx.io.NDArrayIter({"x": [object()]}), TypeError,
       "x: list"),
       "batch": (lambda: mx.io.DataBatch(nd.ones((2,))), TypeError, "list of arrays"),
       "prefetch": (lambda: mx.io.PrefetchingIter([]), HybridError,
       "at least one")}


@pytest.mark.parametrize("name", list(BAD), ids=list(BAD))
def test_bad_input(name: str) -> None:
    call, error, message = BAD[name]
    with pytest.raises(error, match=message):
        call()
