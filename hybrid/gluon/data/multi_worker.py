"""Batches made by a ``multiprocessing.Pool``: what loaders derived from MXNet's DataLoader are built on. DataLoader
itself has workers of its own (pool.py).
"""
from __future__ import annotations

import pickle
from typing import Any, Callable, Iterator


class _MultiWorkerIter:
    """Iterates over batches that ``worker_fn(samples, batchify_fn, dataset)`` makes in a pool, ``prefetch`` of them
    ahead, in order.

    ``worker_fn`` gives the batch pickled. Derived classes may say in ``_push_next`` what a worker is given.
    """

    def __init__(self, worker_pool: Any, batchify_fn: Callable[[Any], Any], batch_sampler: Any,
                 pin_memory: bool = False, pin_device_id: int = 0,
                 worker_fn: Callable[..., bytes] | None = None, prefetch: int = 0, dataset: Any = None,
                 data_loader: Any = None, timeout: float = 120):
        self._worker_pool, self._batchify_fn, self._batch_sampler = worker_pool, batchify_fn, batch_sampler
        self._worker_fn = worker_fn or _worker_fn
        self._pin_memory, self._pin_device_id, self._dataset, self._data_loader, self._timeout = (pin_memory,
                pin_device_id, dataset, data_loader, timeout)
        self._data_buffer: dict[int, Any] = {}
        self._rcvd_idx = self._sent_idx = 0
        self._iter = iter(batch_sampler)
        for _ in range(prefetch):
            self._push_next()

    def __len__(self) -> int:
        return len(self._batch_sampler)

    def _push_next(self) -> None:
        """Ask for the next batch, if there is one."""
        samples = next(self._iter, None)
        if samples is not None:
            self._data_buffer[self._sent_idx] = self._worker_pool.apply_async(self._worker_fn,
                    (samples, self._batchify_fn, self._dataset))
            self._sent_idx += 1

    def __next__(self) -> Any:
        self._push_next()
        if self._rcvd_idx == self._sent_idx:
            raise StopIteration
        batch = pickle.loads(self._data_buffer.pop(self._rcvd_idx).get(self._timeout))
        self._rcvd_idx += 1
        return batch

    def next(self) -> Any:
        """The next batch."""
        return self.__next__()

    def __iter__(self) -> Iterator[Any]:
        return self


def _worker_fn(samples: Any, batchify_fn: Callable[[Any], Any], dataset: Any) -> bytes:
    return pickle.dumps(batchify_fn([dataset[i] for i in samples]))
