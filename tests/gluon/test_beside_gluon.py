"""What libraries written beside Gluon use of MXNet, beyond its documented interface."""
from __future__ import annotations

import multiprocessing
import pickle
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import gluon, nd
from hybrid.gluon.block import _flatten, _regroup
from hybrid.gluon.data.dataloader import _MultiWorkerIter


def test_nested_values_and_back() -> None:
    a, b = nd.ones((2,)), nd.zeros((3,))
    pair = mx.sym.split(mx.sym.var("x"), num_outputs=2)
    flat, fmt = _flatten([a, (b, None), pair], "input")
    assert [x is y for x, y in zip(flat, [a, b, None, pair])] == [True] * 4 and fmt == [0, [0, -1], 2]
    (x, (y, z)), rest = _regroup([1, 2, None, 4], [0, [0, -1]])
    assert (x, y, z, rest) == (1, 2, None, [4])
    with pytest.raises(ValueError, match="output must be an array, .* got int: 3"):
        _flatten([a, 3], "output")


class Doubled(_MultiWorkerIter):
    """Gives its workers another number with each batch."""

    def _push_next(self) -> None:
        samples = next(self._iter, None)
        if samples is not None:
            self._data_buffer[self._sent_idx] = self._worker_pool.apply_async(self._worker_fn,
                    (samples, self._sent_idx))
            self._sent_idx += 1


def _times(samples: list[int], number: int) -> bytes:
    return pickle.dumps(nd.array(samples) * number)


def test_loaders_over_a_pool() -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        batches = [b.asnumpy().tolist() for b in Doubled(pool, None, [[1, 2], [3, 4], [5]], worker_fn=_times,
                                                         prefetch=2)]
    assert batches == [[0, 0], [3, 4], [10]]


def test_a_constant_may_be_asked_for_again_in_another_dtype() -> None:
    params = gluon.ParameterDict("net_")
    value = np.array([[0.1, 0.2]])
    first = params.get_constant("anchor", value)
    assert params.get_constant("anchor", value) is first and first.value.dtype == np.float32
    with pytest.raises(ValueError, match="another value"):
        params.get_constant("anchor", value + 1)


def test_an_initializer_as_a_note_of_an_operator() -> None:
    weight = mx.sym.Convolution(mx.sym.var("x"), num_filter=2, kernel=(1, 1), name="c",
                                attr={"__init__": mx.init.Xavier(magnitude=2)})
    assert weight.attr_dict()["c"]["__init__"] == mx.init.Xavier(magnitude=2).dumps()


def test_their_places() -> None:
    import hybrid.gluon.model_zoo.model_store as store
    from hybrid.metric import ndarray
    assert ndarray is nd and len(store._model_sha1["resnet18_v1"]) == 40


def roi_align_by_hand(x: np.ndarray, roi: Any, size: int, ratio: int) -> np.ndarray:
    """One region of one channel, sample by sample."""
    left, top, right, bottom = roi
    width, height = max(right - left, 1.0), max(bottom - top, 1.0)
    out = np.zeros((size, size))
    for i in range(size):
        for j in range(size):
            for k in range(ratio * ratio):
                y = top + (i + (k // ratio + 0.5) / ratio) * height / size
                z = left + (j + (k % ratio + 0.5) / ratio) * width / size
                y, z = np.clip(y, 0, x.shape[0] - 1), np.clip(z, 0, x.shape[1] - 1)
                y0, z0 = min(int(y), x.shape[0] - 2), min(int(z), x.shape[1] - 2)
                fy, fz = y - y0, z - z0
                out[i, j] += (1 - fy) * (1 - fz) * x[y0,
                                                     z0] + (1 - fy) * fz * x[y0, z0 + 1] + fy * (1 - fz) * x[y0 + 1,
                        z0] + fy * fz * x[y0 + 1, z0 + 1]
    return out / ratio ** 2


@pytest.mark.parametrize("height", [6, 40], ids=["small picture", "large picture"])
@pytest.mark.parametrize("pictures", [1, 2])
def test_roi_align_of_all_pixels_or_of_those_needed(height: int, pictures: int) -> None:
    rng = np.random.RandomState(0)
    x, roi = rng.rand(pictures, 2, height, 5).astype("float32"), [0.5, 0.7, 3.6, 4.4]
    for hybridized in (False, True):
        def call(data: Any, rois: Any) -> Any:
            return nd.contrib.ROIAlign(data, rois, pooled_size=(2, 2), spatial_scale=1.0, sample_ratio=2)
        fn = mx.hybridize(call) if hybridized else call
        got = fn(nd.array(x), nd.array([[pictures - 1, *roi]])).asnumpy()[0]
        for c in range(2):
            np.testing.assert_allclose(got[c], roi_align_by_hand(x[-1, c], roi, 2, 2), rtol=1e-5)


class FromZeros(gluon.HybridBlock):
    """Begins with states whose batch is not known while the net is traced: 0 in the shape of ``F.zeros``."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = gluon.rnn.LSTMCell(4, input_size=3)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        begin = self.cell.begin_state(func=F.zeros, batch_size=x.shape[0] if isinstance(x, nd.NDArray) else 0)
        out, (h, _) = self.cell.unroll(2, x, begin, merge_outputs=True)
        return F.where(F.ones_like(h), out.sum(axis=1), h)


def test_zeros_of_an_unknown_batch() -> None:
    net, x = FromZeros(), nd.random.normal(shape=(5, 2, 3))
    net.initialize()
    want = net(x)
    net.hybridize()
    np.testing.assert_allclose(net(x).asnumpy(), want.asnumpy(), rtol=1e-5)
    assert mx.hybridize(lambda: nd.zeros((0, 3)))().shape == (0, 3)


def test_clip_by_numpys_names() -> None:
    x = mx.np.array([-2.0, 0.5, 3.0])
    for f in (lambda a: a.clip(min=0), mx.hybridize(lambda a: a.clip(min=0)), lambda a: a.clip(0, None)):
        assert f(x).tolist() == [0.0, 0.5, 3.0]
    assert x.clip(max=1).tolist() == [-2.0, 0.5, 1.0] and nd.array([-2, 5]).clip(0, 2).tolist() == [0, 2]
