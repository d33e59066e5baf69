"""What gradients are sent in, under Horovod's names."""
from __future__ import annotations

from typing import Any

from ..base import dtype as dt
from ..collective.order import sent_dtype
from ..collective.sums import wire_dtype


class Compressor:
    """A way to send gradients: ``wire`` names the dtype."""

    wire = "none"

    @classmethod
    def compress(cls, tensor: Any) -> tuple[Any, Any]:
        """An array as it is sent, and what ``decompress`` needs. Integers are sent as they are."""
        dtype = dt.as_dtype(tensor.dtype)
        sent = sent_dtype(dtype, wire_dtype(cls.wire))
        return (tensor, None) if sent == dtype else (tensor.astype(sent), dtype)

    @classmethod
    def decompress(cls, tensor: Any, ctx: Any) -> Any:
        """An array as it was before ``compress``."""
        return tensor if ctx is None else tensor.astype(ctx)


class FP16Compressor(Compressor):
    """Sends float16; sums are taken in float32."""

    wire = "float16"


class BF16Compressor(Compressor):
    """Sends bfloat16; sums are taken in float32."""

    wire = "bfloat16"


class Compression:
    """Names of the ways to send gradients."""

    none = Compressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
