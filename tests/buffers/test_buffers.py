"""Memory of large results: used again only when nothing refers to it any more, bounded, safe for threads."""
from __future__ import annotations

import gc
import threading
from typing import Iterator

import numpy as np
import pytest

import hybrid as mx
from hybrid import nd
from hybrid.runtime import buffers

BIG = (1 << 19,)
F32 = np.dtype("float32")


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    mx.cpu().empty_cache()
    yield
    mx.cpu().empty_cache()


def address(a: np.ndarray) -> int:
    return a.__array_interface__["data"][0]


def test_memory_comes_back_when_the_last_view_is_gone() -> None:
    a = buffers.empty(BIG, F32)
    first, view = address(a), a[5:].reshape(-1, 1)
    assert first % 64 == 0 and a.flags.writeable and a.flags.c_contiguous
    del a
    assert address(buffers.empty(BIG, F32)) != first
    view[0] = 3
    del view
    assert address(buffers.empty(BIG, F32)) == first


def test_small_arrays_and_objects_are_not_pooled() -> None:
    assert not buffers.pooled((10, 10), F32) and buffers.empty((0, 5), F32).shape == (0, 5)
    assert not buffers.pooled((1 << 20,), np.dtype("O"))


def test_arrays_that_live_together_are_apart() -> None:
    specs = [((3, 5), F32), ((0, 4), F32), (BIG, F32), ((7,), np.dtype("int8")), ((), np.dtype("float64"))]
    arrays = buffers.together(specs)
    assert [(a.shape, a.dtype) for a in arrays] == specs and all(address(a) % 64 == 0 and a.flags.c_contiguous
                                                                 for a in arrays if a.size)
    for i, a in enumerate(arrays):
        a[...] = i
    assert all((a == i).all() for i, a in enumerate(arrays)) and buffers.together([]) == []


def test_what_is_kept_is_bounded() -> None:
    pool = buffers.Pool(most=5000)
    for size in (1000, 2000, 3000, 9000):
        pool.give(np.empty(size, np.uint8))
    assert pool.idle == 5000 and 1000 not in {size for size, kept in pool._free.items() if kept}
    pool.clear()
    assert pool.idle == 0 and not pool._free


def test_a_result_keeps_its_values_while_it_is_held() -> None:
    """Each call's result is its own, as long as it, its NumPy array or a view is alive."""
    double = mx.hybridize(lambda x: x * 2)
    xs = [nd.full(BIG, float(k)) for k in range(4)]
    held, raw, parts = [], [], []
    gc.collect()
    before = buffers.POOL.idle                               # of what other tests gave back
    for k in range(12):
        y = double(xs[k % 4])
        if k % 3 == 0:
            held.append((k, y))
        elif k % 3 == 1:
            raw.append((k, y.asnumpy()))
        else:
            parts.append((k, y[7:9]))
        del y
    gc.collect()
    for k, a in [*((k, y.asnumpy()) for k, y in held), *raw, *((k, p.asnumpy()) for k, p in parts)]:
        assert (a == 2 * (k % 4)).all()
    assert buffers.POOL.idle - before < 4 * xs[0].size * 4


def test_threads_never_get_the_same_memory() -> None:
    add = mx.hybridize(lambda x: x + 1)
    add(nd.zeros(BIG))
    wrong = []

    def work(k: int) -> None:
        x = nd.full(BIG, float(k))
        for _ in range(30):
            y = add(x).asnumpy()
            if not (y[0] == k + 1 and (y == k + 1).all()):
                wrong.append(k)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
