"""DataLoader: batches of a dataset, made here, in threads, or in worker processes."""
from __future__ import annotations

import itertools
import random as python_random
from collections import deque
from concurrent import futures
from multiprocessing.reduction import ForkingPickler  # noqa: F401  its place in MXNet
from typing import Any, Callable, Iterator

import numpy as np

from ...base import rng as draws
from ...buffers.array import NDArray, NP_CLASS, array, wrap
from ...base.device import Context, array_module, current_context, on
from ...base.errors import AttributeValueError, DTypeError, ShapeError
from ...numpy.extension import is_np_array, is_np_shape, set_np
from .multi_worker import _MultiWorkerIter, _worker_fn  # noqa: F401  their place in MXNet
from .pool import LoaderError, LoaderTimeout, WorkerPool
from .sampler import BatchSampler, RandomSampler, SequentialSampler

_groups = itertools.count()
_loaders = itertools.count()


def default_batchify_fn(data: list[Any]) -> Any:
    """One array from a list of samples, or for tuples a list of one array a position.

    Arrays are stacked; numbers (and NumPy arrays) keep NumPy's dtype. ShapeError for shapes that differ.

    >>> default_batchify_fn([(1, 2.0), (3, 4.0)])[0].dtype
    <class 'numpy.int64'>
    """
    first = data[0]
    if isinstance(first, tuple):
        if any(len(sample) != len(first) for sample in data):
            raise ShapeError(f"samples of {sorted({len(s) for s in data})} values cannot be put into one batch")
        return [default_batchify_fn(list(values)) for values in zip(*data)]
    cls = NP_CLASS[0] if is_np_array() and NP_CLASS else type(first) if isinstance(first, NDArray) else NDArray
    if isinstance(first, NDArray):
        return _stack(data, first, cls)
    try:
        raw = np.asarray(data)
    except ValueError:
        raise ShapeError(_ragged(data)) from None
    # no error before NumPy 1.24
    if raw.dtype.kind == "O" and isinstance(first, np.ndarray) and len({np.shape(a) for a in data}) > 1:
        raise ShapeError(_ragged(data))
    if raw.dtype.kind not in "biuf" and raw.dtype.kind in "OUSM":
        raise DTypeError(f"samples of type {type(first).__name__} cannot be put into an array ({str(first)[:60]!r}); "
                         f"give DataLoader a batchify_fn, "
                         "or transform them into numbers")
    return array(raw, dtype=raw.dtype, cls=cls)


def _stack(data: list[Any], first: NDArray, cls: Any) -> Any:
    if any(x.shape != first.shape for x in data):
        raise ShapeError(_ragged(data))
    if first.stype != "default":                     # rows of a csr array: the batch is dense, as in MXNet
        data, cls = [x.tostype("default") for x in data], NDArray if issubclass(cls, type(first)) else cls
    with on(first.ctx):
        return wrap(array_module(first.ctx).stack([x._data for x in data]), first.ctx, cls)


def _ragged(data: list[Any]) -> str:
    shapes = list(dict.fromkeys(str(np.shape(x)) for x in data if hasattr(x, "shape")
                                or np.isscalar(x))) or ["different lengths"]
    return (f"samples of shapes {', '.join(shapes[:5])} cannot be stacked into one batch: crop or pad them in a "
            f"transform, or give DataLoader a batchify_fn")


def default_mp_batchify_fn(data: list[Any]) -> Any:
    """``default_batchify_fn`` for worker processes. The loader itself sends every array through shared memory."""
    return default_batchify_fn(data)


def _as_in_context(data: Any, ctx: Context) -> Any:
    """All arrays of a nested batch on a device."""
    if isinstance(data, NDArray):
        return data.as_in_context(ctx)
    if isinstance(data, (list, tuple)):
        moved = [_as_in_context(d, ctx) for d in data]
        return type(data)(*moved) if hasattr(data, "_fields") else type(data)(moved)
    if isinstance(data, dict):
        return {k: _as_in_context(v, ctx) for k, v in data.items()}
    return data


def _random_roots(*more: int) -> tuple[tuple[int, ...], ...]:
    """Where Python's, NumPy's and this library's generators stand, without a draw from any of them."""
    copy = python_random.Random()
    copy.setstate(python_random.getstate())
    bits = np.random.MT19937()
    bits.state = np.random.get_state(legacy=False)
    return (copy.getrandbits(64), *more), (int(bits.random_raw()), *more), (*draws.get_state(), *more)


class DataLoader:
    """Batches of a dataset; iterate over it as often as you like.

    dataset: anything with a length and an index. batch_size, shuffle, sampler, last_batch (``keep``, ``discard``,
    ``rollover``): which samples make a batch; or batch_sampler, which gives lists of indices, instead of all four.
    batchify_fn: makes a batch of a list of samples. num_workers: processes (threads with ``thread_pool=True``) that
    make batches ahead, ``prefetch`` of them (default twice the workers). timeout: seconds to wait for one batch.
    pin_memory, pin_device_id, auto_reload: accepted for MXNet's sake; CuPy copies through page-locked memory of its
    own, and workers stay between epochs.

    Arrays of a batch are on the current device (``hybrid.current_context()``). Workers start with the first iteration
    and keep the dataset as it is then; ``close()`` ends them, and the next iteration starts new ones. They are forked,
    so lambdas and local functions work; ``multiprocessing.set_start_method`` chooses another way. In a worker Python's,
    NumPy's and this library's random generators are seeded for each batch from where they stood in the parent, so that
    the batches do not depend on the number of workers. An exception in a worker is raised here, with its traceback.

    >>> [batch.shape for batch in DataLoader(np.zeros((5, 2)), 2)]
    [(2, 2), (2, 2), (1, 2)]
    """

    def __init__(self, dataset: Any, batch_size: int | None = None, shuffle: bool = False, sampler: Any = None,
                 last_batch: str | None = None,
                 batch_sampler: Any = None, batchify_fn: Callable[[list[Any]], Any] | None = None,
                 num_workers: int = 0, pin_memory: bool = False,
                 pin_device_id: int = 0, prefetch: int | None = None, thread_pool: bool = False, timeout: float = 120,
                 auto_reload: bool = False):
        if timeout <= 0:
            raise AttributeValueError(f"timeout must be a positive number of seconds, got {timeout}")
        if batch_sampler is not None:
            if batch_size is not None or shuffle or sampler is not None or last_batch is not None:
                raise ValueError("batch_sampler says what a batch is: give batch_size, shuffle, sampler and "
                                 "last_batch, or batch_sampler, not both")
        else:
            if batch_size is None:
                raise ValueError("batch_size is missing (or give a batch_sampler)")
            if sampler is not None and shuffle:
                raise ValueError("a sampler gives the order: use it or shuffle, not both")
            sampler = sampler if sampler is not None else (RandomSampler if shuffle
                                                           else SequentialSampler)(len(dataset))
            batch_sampler = BatchSampler(sampler, batch_size, last_batch or "keep")
        self._dataset, self._batch_sampler = dataset, batch_sampler
        self._num_workers, self._thread_pool, self._timeout = max(0, int(num_workers)), thread_pool, timeout
        self._prefetch = max(0, int(prefetch)) if prefetch is not None else 2 * self._num_workers
        self._own_batchify = batchify_fn is None
        self._batchify_fn = batchify_fn or (default_mp_batchify_fn if self._num_workers else default_batchify_fn)
        self.auto_reload = auto_reload
        self._pool: WorkerPool | None = None
        self._number, self._epoch = next(_loaders), 0

    def __len__(self) -> int:
        return len(self._batch_sampler)

    def __iter__(self) -> Iterator[Any]:
        if not self._num_workers:
            return self._here()
        return self._threads() if self._thread_pool else self._processes()

    def close(self) -> None:
        """End the worker processes. The next iteration starts new ones, with the dataset as it is then."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pool": None}

    def _ready(self, batch: Any, made_elsewhere: bool = False) -> Any:
        return _as_in_context(batch, current_context()) if self._own_batchify or made_elsewhere else batch

    def _make(self, samples: Any) -> Any:
        return self._batchify_fn([self._dataset[i] for i in samples])

    def _here(self) -> Iterator[Any]:
        for samples in self._batch_sampler:
            yield self._ready(self._make(samples))

    def _processes(self) -> Iterator[Any]:
        pool = self._pool
        if pool is None or not pool.alive:
            pool = self._pool = WorkerPool(self._dataset, self._batchify_fn, self._num_workers)
        group = next(_groups)
        roots = _random_roots(self._number, self._epoch)
        self._epoch += 1
        waiting: deque[int] = deque()
        try:
            for at, samples in enumerate(self._batch_sampler):
                waiting.append(pool.submit(group, tuple((*r, at) for r in roots), samples))
                if len(waiting) > self._prefetch:
                    yield self._ready(pool.get(group, waiting.popleft(), self._timeout), True)
            while waiting:
                yield self._ready(pool.get(group, waiting.popleft(), self._timeout), True)
        finally:
            pool.cancel(group)

    def _threads(self) -> Iterator[Any]:
        ctx, flags = current_context(), (is_np_shape(), is_np_array())

        def make(samples: Any) -> Any:
            with ctx:
                return self._make(samples)
        pool = futures.ThreadPoolExecutor(self._num_workers, "hybrid-loader", initializer=set_np, initargs=flags)
        waiting: deque[futures.Future[Any]] = deque()
        try:
            for samples in self._batch_sampler:
                waiting.append(pool.submit(make, samples))
                if len(waiting) > self._prefetch:
                    yield self._ready(self._result(waiting.popleft()))
            while waiting:
                yield self._ready(self._result(waiting.popleft()))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _result(self, future: "futures.Future[Any]") -> Any:
        try:
            return future.result(self._timeout)
        except futures.TimeoutError:
            if future.done():                                    # the user's own TimeoutError
                raise
            raise LoaderTimeout(f"a batch took longer than the timeout of {self._timeout:g} seconds; "
                                "give DataLoader a larger timeout or more workers") from None


__all__ = ["DataLoader", "LoaderError", "LoaderTimeout", "default_batchify_fn", "default_mp_batchify_fn"]
