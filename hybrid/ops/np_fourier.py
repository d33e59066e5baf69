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


def _joined(xp: Any, real: Any, imag: Any) -> Any:
    """The complex array of two parts."""
    z = xp.empty(real.shape, np.result_type(real.dtype, np.complex64))
    z.real, z.imag = real, imag
    return z


def dft(real: Node, imag: Node, axis: int, inverse: bool) -> list[Node]:
    """Both parts of the transform along an axis; the inverse one is not divided by the length."""
    def run(xp: Any, arrays: Sequence[Any]) -> list[Any]:
        z = _joined(xp, *arrays)
        out = xp.fft.ifft(z, axis=axis, norm="forward") if inverse else xp.fft.fft(z, axis=axis)
        return [xp.ascontiguousarray(part, dtype=real.dtype) for part in (out.real, out.imag)]

    def vjp(g: Sequence[Node], n: Node) -> list[Node]:
        return dft(g[0], g[1], axis, not inverse)       # the adjoint of a transform is the one in the other direction
    kind = real.shape, np.dtype(real.dtype)
    return ir.host(HostCall("inverse dft" if inverse else "dft", run, (kind, kind), vjp), [real, imag])


def rdft(real: Node, axis: int) -> list[Node]:
    """Both parts of a real array's transform along an axis: the n // 2 + 1 frequencies that are not negative."""
    n = real.shape[axis]
    shape = tuple(n // 2 + 1 if i == axis else d for i, d in enumerate(real.shape))

    def run(xp: Any, arrays: Sequence[Any]) -> list[Any]:
        out = xp.fft.rfft(arrays[0], axis=axis)
        return [xp.ascontiguousarray(part, dtype=real.dtype) for part in (out.real, out.imag)]

    def vjp(g: Sequence[Node], call: Node) -> list[Node]:
        behind = [n - n // 2 - 1 if i == axis else 0 for i in range(len(shape))]
        whole = [ir.pad(part, [0] * len(shape), behind) for part in g]      # the gradient of other frequencies is zero
        return dft(whole[0], whole[1], axis, True)[:1]
    kind = shape, np.dtype(real.dtype)
    return ir.host(HostCall("real dft", run, (kind, kind), vjp), [real])


def irdft(real: Node, imag: Node, axis: int, n: int) -> Node:
    """The real array of n elements along an axis, times n, whose n // 2 + 1 frequencies that are not negative are
    given."""
    shape = tuple(n if i == axis else d for i, d in enumerate(real.shape))

    def run(xp: Any, arrays: Sequence[Any]) -> list[Any]:
        return [xp.ascontiguousarray(xp.fft.irfft(_joined(xp, *arrays), n, axis, "forward"), dtype=real.dtype)]

    def vjp(g: Sequence[Node], call: Node) -> list[Node]:
        # a frequency counts twice, as its conjugate is not stored; 0 and, of an even n, the Nyquist frequency once
        weights = np.full(n // 2 + 1, 2, real.dtype)
        weights[:1] = 1
        weights[n - n // 2:] = 1
        times = ir.expand(ir.reshape(ir.data(weights), [len(weights) if i == axis else 1 for i in range(len(shape))]),
                          real.shape)
        return [part * times for part in rdft(g[0], axis)]
    made: HostCall = HostCall("inverse real dft", run, ((shape, np.dtype(real.dtype)),), vjp)
    return ir.host(made, [real, imag])[0]


def _check_parts(real: Node, imag: Node) -> None:
    if real.shape != imag.shape or real.dtype != imag.dtype:
        raise ShapeError(f"the parts of a complex array have one shape and one dtype, got {real.dtype}{real.shape} and "
                         f"{imag.dtype}{imag.shape}")


def _check(shape: tuple[int, ...], dtype: np.dtype, axis: int) -> int:
    """The axis of a transform, counted from the first."""
    if not shape:
        raise ShapeError("a transform is along an axis, and an array without axes has none")
    if dtype not in (dt.float32, dt.float64):
        raise DTypeError(f"the parts of a complex array are float32 or float64, got {dtype}")
    axis = normal_axis(axis, len(shape))
    if not shape[axis]:
        raise ShapeError(f"a transform along axis {axis} of {shape} has no elements")
    return axis


@op("_npi_dft", "real imag", outputs=lambda a: 2, axis=Int(-1), inverse=Bool(False))
def transform(real: Node, imag: Node, a: Attrs) -> list[Node]:
    """Real and imaginary part of the discrete Fourier transform of a complex array along an axis. The inverse transform
    is not divided by the length."""
    _check_parts(real, imag)
    return dft(real, imag, _check(real.shape, real.dtype, a.axis), a.inverse)


@op("_npi_rdft", "data", outputs=lambda a: 2, axis=Int(-1))
def real_transform(data: Node, a: Attrs) -> list[Node]:
    """Real and imaginary part of the discrete Fourier transform of a real array along an axis: the n // 2 + 1
    frequencies that are not negative."""
    return rdft(data, _check(data.shape, data.dtype, a.axis))


@op("_npi_irdft", "real imag", axis=Int(-1), n=Int())
def inverse_real_transform(real: Node, imag: Node, a: Attrs) -> Node:
    """The inverse transform to a real array of n elements along an axis, from the real and imaginary parts of its
    n // 2 + 1 frequencies that are not negative; not divided by n."""
    _check_parts(real, imag)
    axis = _check(real.shape, real.dtype, a.axis)
    if a.n < 1 or real.shape[axis] != a.n // 2 + 1:
        raise ShapeError(f"{a.n} elements have {a.n // 2 + 1} frequencies that are not negative, got "
                         f"{real.shape[axis]}")
    return irdft(real, imag, axis, a.n)
