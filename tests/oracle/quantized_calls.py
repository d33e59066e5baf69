"""Calls of MXNet's quantized operators, for MXNet (``record_quantized.py``) and for this library."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np


def calls(nd: Any, keep: Callable[[str, list[Any]], None]) -> None:
    """Run all; keep: takes the name and the results of each."""
    c, r = nd.contrib, np.random.RandomState(0)

    def call(name: str, op: str, *args: Any, **attrs: Any) -> list[Any]:
        out = getattr(c, op)(*args, **attrs)
        out = list(out) if isinstance(out, (list, tuple)) else [out]
        keep(name, out)
        return out
    x = nd.array(r.randn(2, 3, 5, 5))
    signed = call("int8", "quantize_v2", x, out_type="int8")
    positive = call("uint8", "quantize_v2", nd.abs(x), out_type="uint8")
    call("auto int8", "quantize_v2", x, out_type="auto", min_calib_range=-1.0, max_calib_range=2.0)
    call("auto uint8", "quantize_v2", nd.abs(x), out_type="auto", min_calib_range=0.0, max_calib_range=2.0)
    low, high = nd.array([-3.0]), nd.array([3.0])
    call("quantize int8", "quantize", x, low, high, out_type="int8")
    call("quantize uint8", "quantize", x, low, high, out_type="uint8")
    w = call("weight", "quantize_v2", nd.array(r.randn(4, 75) * 0.1), out_type="int8")
    b = call("bias", "quantize_v2", nd.array(r.randn(4)), out_type="int8")
    filters = call("filters", "quantize_v2", nd.array(r.randn(4, 3, 3, 3) * 0.1), out_type="int8")
    for name, (q, lo, hi) in (("int8", signed), ("uint8", positive)):
        call(f"dequantize {name}", "dequantize", q, lo, hi)
        sums = call(f"dense {name}", "quantized_fully_connected", q, w[0], b[0], lo, hi, *w[1:], *b[1:], num_hidden=4)
        call(f"requantize {name}", "requantize", *sums)
        call(f"requantize within {name}", "requantize", *sums, min_calib_range=-1.5, max_calib_range=1.2)
        call(f"requantize uint8 of {name}", "requantize", *sums, out_type="uint8", min_calib_range=0.0,
             max_calib_range=1.2)
        for kind in ("max", "avg"):
            call(f"{kind} {name}", "quantized_pooling", q, lo, hi, kernel=(2, 2), stride=(2, 2), pool_type=kind)
        call(f"global {name}", "quantized_pooling", q, lo, hi, kernel=(1, 1), global_pool=True, pool_type="avg")
        call(f"flatten {name}", "quantized_flatten", q, lo, hi)
        call(f"add {name}", "quantized_elemwise_add", q, q, lo, hi, lo, hi)
        call(f"add within {name}", "quantized_elemwise_add", q, q, lo, hi, lo, hi, min_calib_range=-4.0,
             max_calib_range=4.0)
        call(f"concat {name}", "quantized_concat", q, q, lo, hi, lo * 2, hi * 2, num_args=2, dim=1)
    call("relu", "quantized_act", *signed, act_type="relu")
    call("concat both", "quantized_concat", signed[0], positive[0], *signed[1:], *positive[1:], num_args=2, dim=1)
    call("dense without bias", "quantized_fully_connected", signed[0], w[0], signed[1], signed[2], *w[1:], num_hidden=4,
         no_bias=True)
    call("conv", "quantized_conv", positive[0], filters[0], positive[1], positive[2], *filters[1:], kernel=(3, 3),
         num_filter=4, pad=(1, 1), no_bias=True)
