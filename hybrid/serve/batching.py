"""Requests that come at the same time are computed together, in a thread of their model."""
from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Sequence

import numpy as np

from ..base.errors import HybridError
from .errors import RequestError
from .metrics import Metrics
from .model import Model

LOG = logging.getLogger("hybrid.serve")
TOGETHER = 0.002                 # seconds that requests may take together where no program takes several rows


@dataclass
class Waiting:
    """A request that waits: its inputs, how many rows they have, and where its outputs go."""
    arrays: Sequence[np.ndarray]
    rows: int
    answer: asyncio.Future[list[np.ndarray]]


class Batcher:
    """The requests of one model. While some are computed others gather; where programs for several rows are used, a
    request also waits up to ``max_delay_ms`` for enough of them. most: requests that may wait."""

    def __init__(self, model: Model, metrics: Metrics, most: int):
        self.model, self.metrics, self.most = model, metrics, most
        self.enough = model.rows.sizes[-1] if model.rows is not None else 1      # rows that are worth waiting for
        self.row_seconds = TOGETHER                        # that a row took last
        self.queue: deque[Waiting] = deque()
        self.rows = 0
        self.arrived: asyncio.Future[None] | None = None
        self.thread = ThreadPoolExecutor(1, f"model {model.name}")
        self.task: asyncio.Task[None] | None = None

    async def infer(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs for one request's inputs."""
        rows = self.model.check(arrays)
        if len(self.queue) >= self.most:
            raise RequestError(503, f"{len(self.queue)} requests wait for the model {self.model.name!r} already: try "
                                    f"again later")
        loop = asyncio.get_running_loop()
        if self.task is None:
            self.task = loop.create_task(self._work())
        waiting = Waiting(arrays, rows, loop.create_future())
        self.queue.append(waiting)
        self.rows += rows
        self.metrics.waiting.add(1, model=self.model.name)
        if self.arrived is not None and not self.arrived.done():
            self.arrived.set_result(None)
        return await waiting.answer

    def stop(self) -> None:
        """End the thread, once what it computes is done."""
        if self.task is not None:
            self.task.cancel()
        self.thread.shutdown(wait=False, cancel_futures=True)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._gather(loop)
            group = self._next()
            if not group:
                continue
            begin = time.perf_counter()
            try:
                answers: list[Any] = await loop.run_in_executor(self.thread, self._compute, group)
            except Exception as err:                       # noqa: BLE001  whatever it is, it is these requests' answer
                LOG.exception("the model %s failed", self.model.name)
                answers = [err] * len(group)
            seconds, rows = time.perf_counter() - begin, sum(w.rows for w in group)
            self.row_seconds = seconds / rows
            self.metrics.computing.add(seconds, self.model.name)
            self.metrics.rows.add(rows, self.model.name)
            for waiting, found in zip(group, answers):
                if waiting.answer.done():
                    continue
                if isinstance(found, BaseException):
                    waiting.answer.set_exception(found)
                else:
                    waiting.answer.set_result(found)

    async def _gather(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait for a request, and for others to come with it."""
        while not self.queue:
            await self._arrival(loop, None)
        end = loop.time() + self.model.settings.max_delay_ms / 1000
        while self.rows < self.enough and (left := end - loop.time()) > 0:
            await self._arrival(loop, left)

    async def _arrival(self, loop: asyncio.AbstractEventLoop, seconds: float | None) -> None:
        self.arrived = loop.create_future()
        timer = loop.call_later(seconds, _done, self.arrived) if seconds is not None else None
        await self.arrived
        if timer is not None:
            timer.cancel()

    def _next(self) -> list[Waiting]:
        """The requests that are computed together next, one at least; those that are cancelled are left out."""
        group: list[Waiting] = []
        rows, most = 0, max(self.enough, min(self.model.settings.max_batch, int(TOGETHER / self.row_seconds)))
        while self.queue and (not group or self.model.rows is not None and rows + self.queue[0].rows <= most):
            waiting = self.queue.popleft()
            self.rows -= waiting.rows
            self.metrics.waiting.add(-1, model=self.model.name)
            if not waiting.answer.done():
                group.append(waiting)
                rows += waiting.rows
        return group

    def _compute(self, group: Sequence[Waiting]) -> list[Any]:
        """The outputs of each request, or its error; runs in the model's thread."""
        if len(group) == 1:
            return [self._alone(group[0].arrays)]
        found = self._alone([np.concatenate(parts) for parts in zip(*(w.arrays for w in group))])
        if isinstance(found, HybridError):                 # some of them are at fault: each gets its own answer
            return [self._alone(w.arrays) for w in group]
        answers, at = [], 0
        for w in group:
            answers.append([f[at:at + w.rows] for f in found])
            at += w.rows
        return answers

    def _alone(self, arrays: Sequence[np.ndarray]) -> Any:
        try:
            return self.model.compute(arrays)
        except HybridError as err:
            return err


def _done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
