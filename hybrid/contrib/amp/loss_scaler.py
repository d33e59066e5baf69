"""The loss scale: as large as gradients in low precision can bear. Small gradients of a scaled loss do not vanish in
float16."""
from __future__ import annotations

import functools
import logging
from typing import Any, Iterable, Sequence

import numpy as np

from ...base import dtype as dt
from ... import ir
from ...buffers.array import NDArray, array
from ...base.device import Context, array_module, on
from ...base.errors import AttributeValueError, FileFormatError, HybridError, warn_user
from ...graph.symbol import Symbol
from ...base.scope import untraced
from ...autograd.traced_grad import inline


class NaNLossError(HybridError, FloatingPointError):
    """The loss is NaN before it is scaled, so that no scale helps."""


def _nan_text(where: str) -> str:
    return (f"the loss is NaN {where} before it is scaled, so no loss scale helps and no step is made. Look for NaN "
            f"in the data or parameters, a logarithm "
            "or division of 0, a learning rate that is too large, or an operator that overflows in low precision "
            "(give it in amp.init(fp32_ops=...))")


def _on(held: dict[Context, NDArray], ctx: Context, value: float, dtype: Any) -> NDArray:
    """The array of a device, made when it is first asked for."""
    if ctx not in held:
        with untraced():
            held[ctx] = array([value], ctx, dtype)
    return held[ctx]


class LossScaler:
    """A loss scale that halves when a gradient overflows and doubles after many steps without one.

    init_scale, max_scale: powers of two, so that scaling rounds nothing. scale_window: steps without overflow before it
    doubles.

    >>> LossScaler().loss_scale
    65536.0
    """

    def __init__(self, init_scale: float = 2.0 ** 16, scale_factor: float = 2.0, scale_window: int = 2000,
                 max_scale: float = 2.0 ** 24):
        if not (init_scale > 0 and scale_factor > 1 and scale_window > 0 and max_scale >= init_scale):
            raise AttributeValueError("a LossScaler needs init_scale > 0, scale_factor > 1, scale_window > 0 and "
                                      "max_scale >= init_scale, got "
                                      f"{init_scale!r}, {scale_factor!r}, {scale_window!r}, {max_scale!r}")
        self._loss_scale = float(init_scale)
        self._scale_factor, self._scale_seq_len, self._max_loss_scale = float(scale_factor), int(scale_window), float(
                max_scale)
        self._unskipped = 0
        self._losses: list[NDArray] = []                   # what was scaled last and not looked at yet
        self._held: dict[Context, NDArray] = {}            # the scale on devices, which compiled programs read
        # what a compiled step writes: 1, or 0 when a gradient overflowed
        self._finite_on: dict[Context, NDArray] = {}
        self._nan_on: dict[Context, NDArray] = {}          # and 1 when the loss is NaN
        self._warned = False

    @property
    def loss_scale(self) -> float:
        """The scale now."""
        return self._loss_scale

    def __repr__(self) -> str:
        return f"LossScaler({self._loss_scale:g}, {self._unskipped} steps without overflow)"

    def _set(self, scale: float) -> None:
        self._loss_scale = scale
        for held in self._held.values():
            held[:] = scale

    # ---- files
    def state(self) -> dict[str, float]:
        """What a file of trainer states keeps: the scale, and how many steps went well since it changed."""
        return {"loss_scale": self._loss_scale, "steps": self._unskipped}

    @staticmethod
    def checked(state: Any) -> tuple[float, int] | None:
        """The numbers of what ``state`` gave, None for None. FileFormatError where it is damaged."""
        if state is None:
            return None
        scale, steps = (state.get("loss_scale"), state.get("steps")) if isinstance(state, dict) else (None, None)
        if not isinstance(scale, (int, float)) or not isinstance(steps,
                                                                 int) or not 0 < scale < float("inf") or steps < 0:
            raise FileFormatError(f"the loss scale of the states is damaged: {state!r:.80}")
        return float(scale), steps

    def resume(self, scale: float, steps: int) -> None:
        """Go on with a scale after a number of steps that went well."""
        self._unskipped = steps
        self._set(scale)

    def on(self, ctx: Context) -> NDArray:
        """The scale as an array (1,) on a device. It follows changes, so that a compiled program that reads it is never
        stale."""
        return _on(self._held, ctx, self._loss_scale, np.float32)

    def finite(self, ctx: Context) -> NDArray:
        """The array (1,) into which a compiled step on a device writes 1, or 0 when a gradient overflowed and nothing
        was updated."""
        return _on(self._finite_on, ctx, 1, np.int32)

    def left_out(self, ctx: Context) -> bool:
        """After a compiled step: whether it was left out. Adapts the scale, as ``has_overflow`` does, if the loss is
        not NaN."""
        finite = bool(self.finite(ctx).asnumpy()[0])
        return True if not finite and self.nan(ctx).asnumpy()[0] else self._note(finite)

    # ---- the loss
    def watch(self, losses: Iterable[Any]) -> None:
        """Remember losses before they are scaled; on the CPU a NaN is an error at once, elsewhere when gradients are
        looked at."""
        self._losses = [x for x in losses if isinstance(x, NDArray)]
        if all(x.ctx.device_type == "cpu" for x in self._losses):
            self._check_losses()

    def watch_traced(self, trace: Any, losses: Sequence[Symbol]) -> None:
        """The same in hybridized code: the program notes a NaN, which is an error when it has run."""
        noted = self.nan(trace.ctx)

        def lowering(nodes: list[Any]) -> list[Any]:
            parts = [ir.reduce("max", ir.cast(ir.map("isnan", x), np.int32), tuple(range(x.ndim))) for x in nodes]
            return [ir.reshape(functools.reduce(lambda a, b: ir.map("maximum", a, b), parts), (1,))]

        def check() -> None:
            if noted.asnumpy()[0]:
                raise NaNLossError(_nan_text("somewhere"))
        trace.capture(noted).entries = list(inline("loss_is_nan", losses, lowering,
                                                   [((1,), np.dtype(np.int32))])[0].entries)
        trace.after.append(check)

    def nan(self, ctx: Context) -> NDArray:
        """The array (1,) into which a compiled program on a device writes 1 when the loss is NaN, else 0."""
        return _on(self._nan_on, ctx, 0, np.int32)

    def _check_losses(self) -> None:
        losses, self._losses = self._losses, []
        for x in losses:
            if not dt.is_float(x._data.dtype):
                continue
            with on(x.ctx):
                count = int(array_module(x.ctx).isnan(x._data).sum())
            if count:
                raise NaNLossError(_nan_text(f"in {count} of {x.size} places"))

    # ---- the gradients
    def has_overflow(self, params: Iterable[Any]) -> bool:
        """Whether a gradient of some Parameters is infinite or NaN. Then the scale halves at once, and the step must be
        left out.

        (MXNet 1.9.1 lets the step after an overflow use the old scale once more.)
        """
        return self._note(_finite([x._ag.grad for p in params if p.grad_req != "null" and p._data is not None
                                   for x in p._data.values()
                                   if x._ag is not None and x._ag.grad is not None and not x._ag.lost]))

    def overflown(self, grads: Iterable[Any]) -> bool:
        """``has_overflow`` of gradients themselves."""
        return self._note(_finite(grads))

    def _note(self, finite: bool) -> bool:
        if finite:
            self._losses = []
            self._unskipped += 1
            if self._unskipped >= self._scale_seq_len:
                self._unskipped = 0
                self._set(min(self._max_loss_scale, self._loss_scale * self._scale_factor))
                logging.info("AMP: increasing loss scale to %f", self._loss_scale)
            return False
        self._check_losses()
        self._unskipped = 0
        self._set(self._loss_scale / self._scale_factor)
        logging.info("AMP: decreasing loss scale to %f", self._loss_scale)
        if self._loss_scale < 1 and not self._warned:
            self._warned = True
            warn_user(f"gradients overflow even with a loss scale of {self._loss_scale * self._scale_factor:g}: "
                      f"every step is left out, nothing is learned. "
                      "Look at the gradients (Parameter.grad()) and the learning rate")
        return True


def _finite(grads: Iterable[Any]) -> bool:
    """Whether all gradients are finite. On a device one number comes back."""
    flags: dict[Context, list[Any]] = {}
    for g in grads:
        sparse = g.stype != "default"                         # its values are on the host
        with on(g._ctx):
            flag = np.isfinite(g._values).all() if sparse else array_module(g._ctx).isfinite(g._data).all()
        if (sparse or g._ctx.device_type == "cpu") and not flag:
            return False
        if not sparse:
            flags.setdefault(g._ctx, []).append(flag)
    for ctx, some in flags.items():
        with on(ctx):
            if ctx.device_type != "cpu" and not array_module(ctx).stack(some).all():
                return False
    return True
