"""Mixed precision for training: switching the casts on, scaling the loss, asking for the lists of operators."""
from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import Any, Iterator, Sequence

import numpy as np

from ...base import dtype as dt
from ... import optimizer as opt
from ...base.errors import DTypeError, HybridError, OrderError, user_location
from ...gluon.trainer import Trainer
from ...jit.deferred import entrances
from ...base.scope import CASTS, tracing
from ...graph.symbol import Symbol
from . import lists
from .loss_scaler import LossScaler
from .policy import Conditional, Policy, Rules, switch

# the first one given to a Trainer: layers that are losses are scaled by it
_scalers: list[LossScaler] = []


def target_of(given: Any) -> np.dtype:
    """float16 or bfloat16; DTypeError for anything else."""
    if given in ("float16", "bfloat16") or not isinstance(given,
                                                          str) and given in (np.float16, np.dtype("float16"),
            dt.bfloat16):
        return dt.as_dtype(given)
    raise DTypeError(f"mixed precision runs in 'float16' or 'bfloat16', got {given!r}")


def init(target_dtype: Any = "float16", target_precision_ops: Sequence[str] | None = None,
         conditional_fp32_ops: Conditional | None = None,
         fp32_ops: Sequence[str] | None = None) -> None:
    """Switch mixed precision on, for every operator call of the process from now on.

    target_dtype: float16 or bfloat16 (which needs the package ml_dtypes). target_precision_ops: names of the operators
    that run in it, in place of ``list_lp16_ops``; fp32_ops: in float32, in place of ``list_fp32_ops``;
    conditional_fp32_ops:
    (operator, attribute, values) of those that run in float32 with some values of an attribute. Another call with other
    arguments takes their place (MXNet takes no notice of it). Compiled programs are compiled anew.
    """
    policy = Policy(Rules(target_of(target_dtype), target_precision_ops, conditional_fp32_ops, fp32_ops),
                    _scale_of_layers)
    if CASTS and CASTS[0].rules.given == policy.rules.given:
        return
    logging.info("Using AMP")
    switch(policy)


def off() -> None:
    """Switch mixed precision off again (MXNet cannot). Trainers keep their loss scalers."""
    _scalers.clear()
    if CASTS:
        switch(None)


def _scale_of_layers() -> float | None:
    """The scale for layers that are losses (SoftmaxOutput): backward takes no notice of the scale of what comes after
    them."""
    return _scalers[0].loss_scale if _scalers else None


# ---- trainers
def init_trainer(optimizer_or_trainer: Any) -> None:
    """Give a Trainer a dynamic loss scale: ``trainer.step`` leaves a step out when a gradient overflowed.

    Use ``scale_loss`` before every backward from now on. bfloat16 has float32's range and seldom needs this.
    """
    if not CASTS:
        raise OrderError("call amp.init() before amp.init_trainer()")
    trainer = _trainer(optimizer_or_trainer)
    if trainer._amp_loss_scaler is not None:
        return
    trainer._amp_loss_scaler = LossScaler()
    trainer._amp_original_scale = trainer._scale             # type: ignore[attr-defined]
    if not _scalers:
        _scalers.append(trainer._amp_loss_scaler)


def _trainer(given: Any) -> Trainer:
    if isinstance(given, Trainer):
        return given
    if isinstance(given, opt.Optimizer):
        raise TypeError("AMP is currently only compatible with Gluon Trainer: give the Trainer, not its optimizer")
    raise TypeError(f"optimizer_or_trainer should be a Gluon Trainer, instead is {type(given).__name__}")


def _scaler(trainer: Any) -> LossScaler:
    found = getattr(_trainer(trainer), "_amp_loss_scaler", None)
    if found is None:
        raise OrderError("Loss scaler is not initialized, did you forget to call amp.init_trainer()?")
    return found


@contextmanager
def scale_loss(loss: Any, optimizer_or_trainer: Any) -> Iterator[Any]:
    """The loss (or a list of losses) times the loss scale, to call backward on; ``trainer.step`` takes the scale out
    again.

    A NaN in the loss is a NaNLossError: no scale helps against it. Where the round of a training loop runs as one
    program, ``trainer.step`` raises it, and makes no step.
    """
    scaler = _scaler(optimizer_or_trainer)
    several = isinstance(loss, (list, tuple))
    losses = list(loss) if several else [loss]
    _unscale_in_step(optimizer_or_trainer, scaler)
    # an overflow is nothing to warn of: the step is left out
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = entrances.scaled(losses, optimizer_or_trainer, _scale_all)
        yield scaled if several else scaled[0]


def _scale_all(losses: list[Any], trainer: Any) -> list[Any]:
    """Losses times the scale of a Trainer, of arrays or in a trace."""
    scaler, trace = _scaler(trainer), tracing()
    scaler.watch(losses)
    if trace is not None:
        scaler.watch_traced(trace, [x for x in losses if isinstance(x, Symbol)])
        trace.before.append(lambda: _unscale_in_step(trainer, scaler))
    return [_scaled(x, scaler) for x in losses]


def _unscale_in_step(trainer: Any, scaler: LossScaler) -> None:
    trainer._scale = trainer._amp_original_scale / scaler.loss_scale


def _scaled(x: Any, scaler: LossScaler) -> Any:
    if isinstance(x, Symbol):
        trace = tracing()
        if trace is None:
            raise HybridError(f"{user_location()}: scale_loss takes arrays; a Symbol is scaled only inside of "
                              f"hybridized code")
        return x * trace.capture(scaler.on(trace.ctx)).astype(x.dtype)
    return x * scaler.loss_scale


def unscale(optimizer_or_trainer: Any) -> None:
    """Take the loss scale (and the Trainer's own ``rescale_grad``) out of the gradients now, for instance to clip them
    before ``step``."""
    _scaler(optimizer_or_trainer)
    trainer = _trainer(optimizer_or_trainer)
    if tracing() is not None:
        raise HybridError(f"{user_location()}: amp.unscale works on gradients in memory: call it outside of the "
                          f"hybridized function")
    for p in trainer._params:
        if p.grad_req != "null":
            for g in p.list_grad():
                g[:] = g * trainer._scale
    trainer._scale = 1.0


# ---- lists
def list_lp16_ops(target_dtype: Any) -> list[str]:
    """Operators that run in the low precision type. Like all lists: MXNet's names, also of operators that are not
    here."""
    return lists.FLOAT16 if _half(target_dtype) else lists.BFLOAT16


def list_fp32_ops(target_dtype: Any) -> list[str]:
    """Operators that run in float32."""
    return lists.FLOAT32 if _half(target_dtype) else lists.FLOAT32_BFLOAT16


def list_lp16_fp32_ops(target_dtype: Any) -> list[str]:
    """Operators that run in the type of their inputs."""
    return lists.FLOAT16_OR_32 if _half(target_dtype) else lists.BFLOAT16_OR_32


def list_conditional_fp32_ops(target_dtype: Any) -> list[tuple[str, str, list[str]]]:
    """Operators that run in float32 with some values of an attribute: (operator, attribute, values)."""
    _half(target_dtype)
    return lists.CONDITIONAL


def list_widest_type_cast(target_dtype: Any) -> list[str]:
    """Operators that run in the widest type of their inputs."""
    return lists.WIDEST if _half(target_dtype) else lists.WIDEST_BFLOAT16


def list_loss_output_functions(target_dtype: Any) -> list[str]:
    """Layers that are losses."""
    _half(target_dtype)
    return lists.LOSS_OUTPUTS


def list_lp16_use_fp32_params(target_dtype: Any) -> dict[str, list[str]] | None:
    """Inputs that stay float32 where their operator runs in bfloat16; None for float16."""
    return None if _half(target_dtype) else lists.FLOAT32_INPUTS


def _half(target_dtype: Any) -> bool:
    return target_of(target_dtype) == dt.float16


def __getattr__(name: str) -> bool:
    """``_amp_initialized``, which programs written for MXNet read."""
    if name == "_amp_initialized":
        return bool(CASTS)
    raise AttributeError(f"module 'hybrid.contrib.amp.amp' has no attribute {name!r}")
