"""Learning rates that change with the number of updates, with MXNet's names and values.

A scheduler is a function of ``num_update``, the largest number of updates any parameter has had. FactorScheduler and
MultiFactorScheduler remember how far they have come, so they are called with numbers that do not fall, as optimizers
do.
"""
from __future__ import annotations

import logging
from math import cos, pi
from typing import Any

from ..base.errors import AttributeValueError
from ..base.other_names import hinted as _hinted


class LRScheduler:
    """Base of the schedulers: warm-up, then what ``__call__`` of the subclass says.

    base_lr: learning rate after the warm-up. warmup_steps: number of updates of the warm-up. warmup_begin_lr: where it
    starts. warmup_mode: ``linear`` (rises by equal steps) or ``constant`` (stays at warmup_begin_lr).

    >>> schedule = PolyScheduler(max_update=10, base_lr=1.0, pwr=1)
    >>> schedule(5)
    0.5
    """

    def __init__(self, base_lr: float = 0.01, warmup_steps: int = 0, warmup_begin_lr: float = 0,
                 warmup_mode: str = "linear"):
        if not isinstance(warmup_steps, int) or warmup_steps < 0:
            raise AttributeValueError(f"warmup_steps must be an integer that is not negative, got {warmup_steps!r}")
        if warmup_begin_lr > base_lr:
            raise AttributeValueError(f"warmup_begin_lr {warmup_begin_lr} is above base_lr {base_lr}: a warm-up rises")
        if warmup_mode not in ("linear", "constant"):
            raise AttributeValueError(f"warmup_mode must be linear or constant, got {warmup_mode!r}")
        self.base_lr = self.warmup_final_lr = base_lr
        self.warmup_steps, self.warmup_begin_lr, self.warmup_mode = warmup_steps, warmup_begin_lr, warmup_mode

    def get_warmup_lr(self, num_update: int) -> float:
        """The learning rate during the warm-up (num_update below warmup_steps)."""
        if num_update >= self.warmup_steps:
            raise AttributeValueError(f"update {num_update} is after the warm-up of {self.warmup_steps} updates")
        if self.warmup_mode == "constant":
            return self.warmup_begin_lr
        return self.warmup_begin_lr + (self.warmup_final_lr
                                       - self.warmup_begin_lr) * float(num_update) / float(self.warmup_steps)

    def __call__(self, num_update: int) -> float:
        """The learning rate at an update."""
        raise NotImplementedError(f"{type(self).__name__} must define __call__(self, num_update), which returns a "
                                  f"learning rate")


def _check_factor(factor: float) -> None:
    if factor > 1.0:
        raise AttributeValueError(f"factor must not be above 1, so that the learning rate falls, got {factor}")


def _say(num_update: int, rate: float) -> None:
    """MXNet's line in the log, which programs that draw learning curves look for."""
    logging.info("Update[%d]: Change learning rate to %0.5e", num_update, rate)


def _check_max_update(max_update: Any, warmup_steps: int) -> None:
    if not isinstance(max_update, int) or max_update < 1:
        raise AttributeValueError(f"max_update must be an integer of at least 1, got {max_update!r}")
    if max_update <= warmup_steps:
        raise AttributeValueError(f"max_update {max_update} must be above warmup_steps {warmup_steps}: nothing is "
                                  f"left to decay")


class FactorScheduler(LRScheduler):
    """``base_lr * factor ** floor(num_update / step)``, never below ``stop_factor_lr``.

    >>> schedule = FactorScheduler(step=2, factor=0.5, base_lr=1.0)
    >>> [schedule(i) for i in (1, 2, 3, 4, 5)]
    [1.0, 1.0, 0.5, 0.5, 0.25]
    """

    def __init__(self, step: int, factor: float = 1, stop_factor_lr: float = 1e-8, base_lr: float = 0.01,
                 warmup_steps: int = 0,
                 warmup_begin_lr: float = 0, warmup_mode: str = "linear"):
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        if step < 1:
            raise AttributeValueError(f"step must be at least 1 update, got {step}")
        _check_factor(factor)
        self.step, self.factor, self.stop_factor_lr, self.count = step, factor, stop_factor_lr, 0

    def __call__(self, num_update: int) -> float:
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        while num_update > self.count + self.step:
            self.count += self.step
            self.base_lr *= self.factor
            if self.base_lr < self.stop_factor_lr:
                self.base_lr = self.stop_factor_lr
                logging.info("Update[%d]: now learning rate arrived at %0.5e, will not change in the future",
                             num_update, self.base_lr)
            else:
                _say(num_update, self.base_lr)
        return self.base_lr


class MultiFactorScheduler(LRScheduler):
    """The learning rate is multiplied by ``factor`` after each update number in the list ``step``.

    >>> schedule = MultiFactorScheduler(step=[2, 4], factor=0.1, base_lr=1.0)
    >>> [round(schedule(i), 3) for i in (2, 3, 5)]
    [1.0, 0.1, 0.01]
    """

    def __init__(self, step: list[int], factor: float = 1, base_lr: float = 0.01, warmup_steps: int = 0,
                 warmup_begin_lr: float = 0,
                 warmup_mode: str = "linear"):
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        if not isinstance(step, list) or not step or step[0] < 1 or any(b <= a for a, b in zip(step, step[1:])):
            raise AttributeValueError(f"step must be a list of rising update numbers, the first at least 1, got "
                                      f"{step!r}")
        _check_factor(factor)
        self.step, self.cur_step_ind, self.factor, self.count = step, 0, factor, 0

    def __call__(self, num_update: int) -> float:
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        while self.cur_step_ind < len(self.step) and num_update > self.step[self.cur_step_ind]:
            self.count = self.step[self.cur_step_ind]
            self.cur_step_ind += 1
            self.base_lr *= self.factor
            _say(num_update, self.base_lr)
        return self.base_lr


class PolyScheduler(LRScheduler):
    """``final_lr + (base_lr - final_lr) * (1 - n / max_n) ** pwr``, n counted from the end of the warm-up; final_lr
    afterwards."""

    def __init__(self, max_update: int, base_lr: float = 0.01, pwr: float = 2, final_lr: float = 0,
                 warmup_steps: int = 0,
                 warmup_begin_lr: float = 0, warmup_mode: str = "linear"):
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        _check_max_update(max_update, warmup_steps)
        self.power, self.base_lr_orig, self.max_update, self.final_lr = pwr, base_lr, max_update, final_lr
        self.max_steps = max_update - warmup_steps

    def __call__(self, num_update: int) -> float:
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        if num_update <= self.max_update:
            left = 1 - float(num_update - self.warmup_steps) / float(self.max_steps)
            self.base_lr = self.final_lr + (self.base_lr_orig - self.final_lr) * pow(left, self.power)
        return self.base_lr


class CosineScheduler(LRScheduler):
    """Half a wave from base_lr down to final_lr: ``final_lr + (base_lr - final_lr) * (1 + cos(pi * n / max_n)) / 2``.

    Loshchilov and Hutter, "SGDR: stochastic gradient descent with warm restarts", ICLR 2017, equation 5, without
    restarts.
    """

    def __init__(self, max_update: int, base_lr: float = 0.01, final_lr: float = 0, warmup_steps: int = 0,
                 warmup_begin_lr: float = 0,
                 warmup_mode: str = "linear"):
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        _check_max_update(max_update, warmup_steps)
        self.base_lr_orig, self.max_update, self.final_lr = base_lr, max_update, final_lr
        self.max_steps = max_update - warmup_steps

    def __call__(self, num_update: int) -> float:
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        if num_update <= self.max_update:
            wave = 1 + cos(pi * (num_update - self.warmup_steps) / self.max_steps)
            self.base_lr = self.final_lr + (self.base_lr_orig - self.final_lr) * wave / 2
        return self.base_lr


__all__ = ["CosineScheduler", "FactorScheduler", "LRScheduler", "MultiFactorScheduler", "PolyScheduler"]

_hinted(globals())
