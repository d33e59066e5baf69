"""The discrete Fourier transform of real and imaginary parts, which NumPy's ``fft`` functions are made of."""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from .. import ir
from ..base import dtype as dt
from ..base.errors import DTypeError, ShapeError
from ..ir import HostCall, Node
from .attributes import Attrs
from .registry import Bool, Int, op
from .shape import normal_axis


def dft(real: Node, imag: Node, axis: int, inverse: bool) -> list[Node]:
    """Both parts of the transform along an axis; the inverse one is not divided by the length."""
    def run(xp: Any, arrays: Sequence[Any]) -> list[Any]:
        z = arrays[0] + 1j * arrays[1]
        out = xp.fft.ifft(z, axis=axis, norm="forward") if inverse else xp.fft.fft(z, axis=axis)
        return [xp.ascontiguousarray(part, dtype=real.dtype) for part in (out.real, out.imag)]

    def vjp(g: Sequence[Node], n: Node) -> list[Node]:
        return dft(g[0], g[1], axis, not inverse)       # the adjoint of a transform is the one in the other direction
    kind = real.shape, np.dtype(real.dtype)
    return ir.host(HostCall("inverse dft" if inverse else "dft", run, (kind, kind), vjp), [real, imag])


@op("_npi_dft", "real imag", outputs=lambda a: 2, axis=Int(-1), inverse=Bool(False))
def transform(real: Node, imag: Node, a: Attrs) -> list[Node]:
    """Real and imaginary part of the discrete Fourier transform along an axis; the inverse one is not divided by the
    length."""
    if real.shape != imag.shape or not real.ndim:
        raise ShapeError(f"the parts of a complex array have one shape and an axis at least, got {real.shape} and "
                         f"{imag.shape}")
    if real.dtype != imag.dtype or real.dtype not in (dt.float32, dt.float64):
        raise DTypeError(f"the parts of a complex array are float32 or float64, got {real.dtype} and {imag.dtype}")
    if not real.shape[normal_axis(a.axis, real.ndim)]:
        raise ShapeError(f"a transform along axis {a.axis} of {real.shape} has no elements")
    return dft(real, imag, normal_axis(a.axis, real.ndim), a.inverse)
