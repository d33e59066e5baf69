"""gluon.data: datasets, samplers, batches; in this process, in threads and in worker processes."""
from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.base.errors import DTypeError, HybridError, ShapeError
from hybrid.gluon import data
from hybrid.gluon.data import ArrayDataset, BatchSampler, DataLoader, RandomSampler, SequentialSampler, SimpleDataset

WAYS = {"here": {}, "processes": {"num_workers": 2}, "threads": {"num_workers": 2, "thread_pool": True}}
ways = pytest.mark.parametrize("way", list(WAYS), ids=list(WAYS))


def numbers(n: int = 10) -> Any:
    return SimpleDataset(list(range(n)))


def plain(batch: Any) -> Any:
    return [plain(b) for b in batch] if isinstance(batch, (list, tuple)) else batch.asnumpy().tolist()


# ---- samplers
def test_batch_sampler() -> None:
    assert list(BatchSampler(SequentialSampler(7), 3)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(BatchSampler(SequentialSampler(7), 3, "discard")) == [[0, 1, 2], [3, 4, 5]]
    rolled = BatchSampler(SequentialSampler(7), 3, "rollover")
    assert len(rolled) == 2 and list(rolled) == [[0, 1, 2], [3, 4, 5]]
    assert len(rolled) == 2 and list(rolled) == [[6, 0, 1], [2, 3, 4]]
    assert len(rolled) == 3 and list(rolled) == [[5, 6, 0], [1, 2, 3], [4, 5, 6]]
    assert [len(BatchSampler(SequentialSampler(n), 3, how)) for how in ("keep", "discard")
            for n in (0, 3, 4)] == [0, 1, 2, 0, 1, 1]
    assert list(BatchSampler(SequentialSampler(0), 3)) == []


def test_samplers() -> None:
    assert list(SequentialSampler(3, 4)) == [4, 5, 6] and len(SequentialSampler(3, 4)) == 3
    np.random.seed(0)
    first = list(RandomSampler(20))
    np.random.seed(0)
    expected = np.arange(20)
    np.random.shuffle(expected)
    assert first == expected.tolist() and sorted(first) == list(range(20)) and first != list(RandomSampler(20))
    sampler = data.FilterSampler(lambda x: x % 3 == 0, numbers())
    assert list(sampler) == [0, 3, 6, 9] and len(sampler) == 4
    assert list(gluon.contrib.data.IntervalSampler(13, interval=3)) == [0, 3, 6, 9, 12, 1, 4, 7, 10, 2, 5, 8, 11]
    short = data.IntervalSampler(13, 3, rollover=False)
    assert list(short) == [0, 3, 6, 9, 12] and len(short) == 5


# ---- datasets
def test_dataset_methods() -> None:
    d = numbers()
    assert list(d.shard(3, 0)) == [0, 1, 2, 3] and list(d.shard(3, 1)) == [4, 5, 6] and list(d.shard(3, 2)) == [7, 8, 9]
    assert list(d.take(3)) == [0, 1, 2] and len(d.take(None)) == 10 and len(d.take(99)) == 10
    assert list(d.filter(lambda x: x > 7)) == [8, 9]
    assert list(d.sample(SequentialSampler(2, 5))) == [5, 6]
    assert list(d.transform(lambda x: x * 2)) == [x * 2 for x in range(10)]
    calls: list[int] = []
    eager = d.transform(lambda x: calls.append(x) or x, lazy=False)                # type: ignore[func-returns-value]
    assert len(calls) == 10 and list(eager) == list(range(10)) and len(calls) == 10
    lazy = d.transform(lambda x: calls.append(x) or x)                             # type: ignore[func-returns-value]
    assert len(calls) == 10 and lazy[4] == 4 and len(calls) == 11


def test_array_dataset() -> None:
    x, y = nd.array(np.arange(12).reshape(4, 3)), nd.array([1, 2, 3, 4])
    d = ArrayDataset(x, y)
    a, b = d[1]
    assert a.asnumpy().tolist() == [3, 4, 5] and b == 2 and isinstance(b, np.float32) and len(d) == 4
    assert ArrayDataset(x)[1].asnumpy().tolist() == [3, 4, 5]
    assert ArrayDataset([1, 2], np.array([3, 4]), numbers(2))[1] == (2, 4, 1)
    assert d.transform_first(lambda v: v.sum().asscalar())[1] == (12, 2)
    assert d.transform(lambda v, w: w)[3] == 4
    assert ArrayDataset(x).transform_first(lambda v: v.shape)[0] == (3,)


# ---- batches
@ways
def test_batches(way: str) -> None:
    x = np.random.RandomState(0).rand(10, 3).astype(np.float32)
    loader = DataLoader(ArrayDataset(nd.array(x), np.arange(10)), 4, **WAYS[way])
    for _ in range(2):
        got = list(loader)
        assert len(loader) == len(got) == 3
        assert [type(b) for b in got] == [list] * 3 and all(isinstance(a, nd.NDArray) for b in got for a in b)
        np.testing.assert_array_equal(np.concatenate([b[0].asnumpy() for b in got]), x)
        assert [b[1].asnumpy().tolist() for b in got] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
        assert got[0][0].dtype == np.float32 and got[0][1].dtype == np.int64 and got[0][0].ctx == mx.current_context()


SAMPLES = {"int": ([1, 2], np.int64), "float": ([1.0, 2.0], np.float64), "bool": ([True, False], np.bool_),
           "float32": ([np.float32(1), np.float32(2)], np.float32),
           "uint8": ([np.ones(3, np.uint8)] * 2, np.uint8), "list": ([[1, 2], [3, 4]], np.int64),
           "nd": ([nd.ones((2,), dtype="float16")] * 2, np.float16),
           "int32": ([nd.ones((1, 2), dtype="int32")] * 2, np.int32),
           "scalar": ([nd.array(np.float32(3))] * 2, np.float32)}


@pytest.mark.parametrize("name", list(SAMPLES), ids=list(SAMPLES))
def test_batchify_keeps_dtypes(name: str) -> None:
    samples, dtype = SAMPLES[name]
    for out in (data.default_batchify_fn(samples), data.default_mp_batchify_fn(samples),
                next(iter(DataLoader(SimpleDataset(samples), 2, num_workers=1)))):
        assert out.dtype == dtype and out.shape[0] == 2
        np.testing.assert_array_equal(out.asnumpy(), np.stack([np.asarray(s) for s in samples]))


def test_nested_batches_and_np_arrays() -> None:
    out = data.default_batchify_fn([(1, (2.0, np.zeros(3))), (3, (4.0, np.ones(3)))])
    assert plain(out) == [[1, 3], [[2.0, 4.0], [[0, 0, 0], [1, 1, 1]]]]
    mx.npx.set_np()
    try:
        for way in WAYS.values():
            batch = next(iter(DataLoader(ArrayDataset(mx.np.ones((4, 2)), np.arange(4)), 2,
                                         **way)))     # type: ignore[arg-type]
            assert all(type(b) is mx.np.ndarray for b in batch)
    finally:
        mx.npx.reset_np()


def test_ragged_and_odd_samples() -> None:
    for samples in ([np.zeros(2), np.zeros(3)], [nd.zeros((2,)), nd.zeros((3,))]):
        with pytest.raises(ShapeError, match=r"\(2,\), \(3,\).*batchify_fn"):
            data.default_batchify_fn(samples)
    with pytest.raises(ShapeError, match=r"\[1, 2\] values"):
        data.default_batchify_fn([(1,), (1, 2)])
    for odd in (["a", "b"], [{"x": 1}], [None]):
        with pytest.raises(DTypeError, match="batchify_fn"):
            data.default_batchify_fn(odd)


@ways
def test_own_batchify(way: str) -> None:
    def batchify(samples: list[Any]) -> Any:
        return {"sum": sum(samples), "names": [str(s) for s in samples], "x": (nd.array(samples), np.array(samples)),
                "none": None}
    got = list(DataLoader(numbers(5), 2, batchify_fn=batchify, **WAYS[way]))
    assert [g["sum"] for g in got] == [1, 5, 4] and got[1]["names"] == ["2", "3"] and got[0]["none"] is None
    assert isinstance(got[2]["x"], tuple) and isinstance(got[2]["x"][0],
                                                         nd.NDArray) and isinstance(got[2]["x"][1], np.ndarray)


@ways
def test_sampling_arguments(way: str) -> None:
    kw: Any = WAYS[way]
    assert sum(plain(list(DataLoader(numbers(), 3, shuffle=True, **kw))), []) != list(range(10))
    assert sorted(sum(plain(list(DataLoader(numbers(), 3, shuffle=True, **kw))), [])) == list(range(10))
    assert plain(list(DataLoader(numbers(), 2, sampler=SequentialSampler(3, 6), **kw))) == [[6, 7], [8]]
    assert plain(list(DataLoader(numbers(), batch_sampler=[[1, 5], [0]], **kw))) == [[1, 5], [0]]
    rolled = DataLoader(numbers(5), 3, last_batch="rollover", **kw)
    assert plain(list(rolled)) == [[0, 1, 2]] and plain(list(rolled)) == [[3, 4, 0], [1, 2, 3]]
    assert plain(list(DataLoader(numbers(5), 3, last_batch="discard", **kw))) == [[0, 1, 2]]
    assert list(DataLoader(numbers(0), 3, **kw)) == []
    assert plain(list(DataLoader(numbers(4), 1, prefetch=0, **kw))) == [[0], [1], [2], [3]]
    assert plain(list(DataLoader(numbers(4), 1, prefetch=50, pin_memory=True, auto_reload=True,
                                 **kw))) == [[0], [1], [2], [3]]


BAD = {"no size": (lambda: DataLoader(numbers()), ValueError, "batch_size is missing"),
       "both": (lambda: DataLoader(numbers(), 2, batch_sampler=[[0]]), ValueError, "not both"),
       "sampler and shuffle": (lambda: DataLoader(numbers(), 2, True, SequentialSampler(3)), ValueError, "not both"),
       "timeout": (lambda: DataLoader(numbers(), 2, timeout=0), ValueError, "timeout"),
       "last": (lambda: DataLoader(numbers(), 2, last_batch="pad"), ValueError, "keep, discard, rollover"),
       "size": (lambda: DataLoader(numbers(), 0), ValueError, "positive integer"),
       "arrays": (lambda: ArrayDataset([1], [1, 2]), ShapeError, "array 0 has 1, array 1 has 2"),
       "none": (lambda: ArrayDataset(), HybridError, "at least one"),
       "shard": (lambda: numbers().shard(2, 2), ValueError, "index=2, num_shards=2"),
       "take": (lambda: numbers().take(-1), ValueError, "-1"),
       "sample": (lambda: numbers().sample([1]), TypeError, "gluon.data.Sampler"),
       "interval": (lambda: data.IntervalSampler(3, 4), ValueError, "got 4")}


@pytest.mark.parametrize("name", list(BAD), ids=list(BAD))
def test_bad_arguments(name: str) -> None:
    call, error, message = BAD[name]
    with pytest.raises(error, match=message):
        call()


# ---- random numbers
def _draws(x: Any) -> list[float]:
    return [float(x), random.random(), float(np.random.rand()), float(nd.random.uniform().asscalar())]


def test_draws_do_not_depend_on_the_number_of_workers() -> None:
    def run(workers: int) -> list[Any]:
        random.seed(1)
        np.random.seed(2)
        mx.random.seed(3)
        before = random.getstate(), np.random.get_state()[1].tolist(), mx.random.get_state()      # type: ignore[index]
        loader = DataLoader(numbers(12).transform(_draws), 3, num_workers=workers)
        # each loader has streams of its own; here the same one twice
        loader._number = 0
        out = [plain(list(loader)) for _ in range(2)]
        assert before == (random.getstate(), np.random.get_state()[1].tolist(),
                          mx.random.get_state())      # type: ignore[index]
        return out
    one, three = run(1), run(3)
    assert one == three
    drawn = np.array(one).reshape(-1, 4)[:, 1:]
    # two epochs, all samples, three generators: never twice the same
    assert len(np.unique(drawn)) == drawn.size
    mx.random.seed(4)
    assert run(2) == one


def test_shuffle_is_the_same_with_and_without_workers() -> None:
    orders = []
    for way in WAYS.values():
        np.random.seed(5)
        loader = DataLoader(numbers(30), 7, shuffle=True, **way)   # type: ignore[arg-type]
        orders.append([plain(list(loader)) for _ in range(3)])
    assert orders[0] == orders[1] == orders[2]


# ---- training from it
@ways
def test_training_uses_batches(way: str) -> None:
    net = gluon.nn.Dense(1, in_units=3)
    net.initialize()
    net.hybridize()
    for x, y in DataLoader(ArrayDataset(nd.ones((8, 3)), nd.ones((8,))), 4, **WAYS[way]):
        x += 1                                                    # batches are the consumer's own
        with autograd.record():
            loss = ((net(x).reshape((-1,)) - y) ** 2).sum()
        loss.backward()
        assert np.isfinite(net.weight.grad().asnumpy()).all() and x.asnumpy().min() == 2


def test_large_batches_through_shared_memory() -> None:
    x = np.random.RandomState(0).rand(6, 300, 400).astype(np.float32)
    for batch, expected in zip(DataLoader(x, 2, num_workers=2), x.reshape(3, 2, 300, 400)):
        np.testing.assert_array_equal(batch.asnumpy(), expected)
        batch[:] = 0
    import ml_dtypes
    half = nd.array(x[:, :100, :100], dtype="bfloat16")
    for batch in DataLoader(SimpleDataset(half), 3, num_workers=1):
        assert batch.dtype == ml_dtypes.bfloat16 and batch.shape == (3, 100, 100)


def test_keeping_all_batches_keeps_no_files_open() -> None:
    def make(i: int) -> Any:
        return np.full((100, 100), i, np.float32)
    before = len(os.listdir("/proc/self/fd"))
    loader = DataLoader(numbers(200).transform(make), 1, num_workers=2)
    kept = list(loader)
    assert len(os.listdir("/proc/self/fd")) < before + 20
    assert [int(b.asnumpy()[0, 5, 5]) for b in kept] == list(range(200))
    loader.close()
    assert len(os.listdir("/proc/self/fd")) <= before + 2


# ---- files
def test_record_datasets(tmp_path: Path) -> None:
    with mx.recordio.MXIndexedRecordIO(tmp_path / "p.idx", tmp_path / "p.rec", "w") as out:
        for i in range(6):
            out.write_idx(i, mx.recordio.pack_img((0, i if i < 5 else [1.0, 2.0], i, 0),
                                                  np.full((4, 5, 3), i * 40, np.uint8), 3, ".png"))
    raw = data.RecordFileDataset(str(tmp_path / "p.rec"))
    assert len(raw) == 6 and mx.recordio.unpack(raw[3])[0].label == 3
    d = data.vision.ImageRecordDataset(str(tmp_path / "p.rec"))
    for way in WAYS.values():
        for x, y in DataLoader(d.take(4), 2, **way):               # type: ignore[arg-type]
            assert x.shape == (2, 4, 5, 3) and x.dtype == np.uint8
            np.testing.assert_array_equal(x.asnumpy()[:, 0, 0, 0], y.asnumpy() * 40)
    assert d[5][1].tolist() == [1, 2]
    assert data.vision.ImageRecordDataset(str(tmp_path / "p.rec"), flag=0,
                                          transform=lambda x, y: (x.shape, y))[2] == ((4, 5, 1), 2)
    with pytest.raises(FileNotFoundError, match=r"p2\.rec is not there.*side by side"):
        data.RecordFileDataset(tmp_path / "p2.rec")
    (tmp_path / "p.idx").unlink()
    with pytest.raises(FileNotFoundError, match=r"p\.idx"):
        data.RecordFileDataset(str(tmp_path / "p.rec"))


def test_truncated_picture_in_records_names_the_record(tmp_path: Path) -> None:
    with mx.recordio.MXIndexedRecordIO(tmp_path / "p.idx", tmp_path / "p.rec", "w") as out:
        out.write_idx(7, mx.recordio.pack_img((0, 1, 0, 0), np.zeros((40, 50, 3), np.uint8))[:200])
    for way in WAYS.values():
        with pytest.raises(mx.errors.FileFormatError, match=r"record 7 of .*p\.rec: the picture cannot be decoded"):
            list(DataLoader(data.vision.ImageRecordDataset(str(tmp_path / "p.rec")), 1,
                            **way))      # type: ignore[arg-type]
