"""Automatic mixed precision: matrix products and convolutions in float16 or bfloat16, what needs more digits in
float32.

>>> from hybrid.contrib import amp
>>> amp.init('bfloat16')                                       # before a net is called
>>> trainer = gluon.Trainer(net.collect_params(), 'adam')      # doctest: +SKIP
>>> amp.init_trainer(trainer)                                  # doctest: +SKIP
>>> with autograd.record():                                    # doctest: +SKIP
...     loss = loss_of(net(x), y)
...     with amp.scale_loss(loss, trainer) as scaled:
...         autograd.backward(scaled)
>>> trainer.step(batch_size)                                   # doctest: +SKIP
>>> amp.off()

Parameters and gradients stay float32; casts are put before operators, in eager calls, in hybridized code and in Symbols
alike.
"""
from __future__ import annotations

from .amp import (init, init_trainer, list_conditional_fp32_ops, list_fp32_ops, list_loss_output_functions,
                  list_lp16_fp32_ops, list_lp16_ops,
                  list_lp16_use_fp32_params, list_widest_type_cast, off, scale_loss, unscale)
from .convert import convert_hybrid_block, convert_model, convert_symbol
from .loss_scaler import LossScaler, NaNLossError

__all__ = ["LossScaler", "NaNLossError", "convert_hybrid_block", "convert_model", "convert_symbol", "init",
           "init_trainer", "list_conditional_fp32_ops", "list_fp32_ops",
           "list_loss_output_functions", "list_lp16_fp32_ops", "list_lp16_ops", "list_lp16_use_fp32_params",
           "list_widest_type_cast", "off", "scale_loss",
           "unscale"]
