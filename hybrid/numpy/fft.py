"""``np.fft``: NumPy's discrete Fourier transforms, with gradients, also within programs.

A complex result is a ``ComplexParts``: two real arrays. Transforms run on the host (or on CuPy's), one call for each
axis, as NumPy's own do.
"""
from __future__ import annotations

from typing import Any, Sequence, overload

import numpy as _np

from ..autograd.dispatch import invoke
from ..base.errors import AttributeValueError, ShapeError, user_location
from . import remembered
from ..nd import functions
from ..ops.registry import OPS
from ..ops.shape import normal_axis
from .complex_parts import ComplexParts, parts_of
from .creation import parts
from ..buffers.array import NDArray
from .multiarray import as_np, as_value, is_value, ndarray


def _call(name: str, *args: Any, **kwargs: Any) -> Any:
    return functions.resolve("np", name)(*args, **kwargs)


def _complex(a: Any) -> ComplexParts:
    """A value as two floating parts."""
    z = a if isinstance(a, ComplexParts) else parts_of(a) if _np.iscomplexobj(a) and not is_value(a) \
        else ComplexParts(as_value(a), 0.0)
    real = _floating(z.real)
    return ComplexParts(real, as_np(z.imag).astype(real.dtype) if is_value(z.imag) else real * 0)


def _floating(real: Any) -> Any:
    """A real value in the dtype of its transform's parts."""
    real = as_np(real)
    dtype = _np.dtype(real.dtype)
    wide = dtype if dtype.name in ("float32", "float64") else _np.dtype("float32" if dtype == "float16" else "float64")
    return real if dtype == wide else real.astype(wide)


def _fit(x: Any, n: int, axis: int) -> Any:
    """The first n elements along an axis, zeros behind where there are fewer."""
    have = x.shape[axis]
    lead = (slice(None),) * axis
    if n < have:
        return x[(*lead, slice(0, n))]
    if n == have:
        return x
    return _call("pad", x, pad_width=tuple((0, n - have if i == axis else 0) for i in range(len(x.shape))),
                 mode="constant")


def _length(name: str, z: Any, n: Any, axis: int) -> tuple[int, int]:
    """The length and the axis of a transform."""
    if not -z.ndim <= axis < z.ndim:
        raise ShapeError(f"{user_location()}: np.fft.{name}: an array of shape {tuple(z.shape)} has no axis {axis}")
    length = z.shape[axis] if n is None else int(n)
    if length < 1:
        raise AttributeValueError(f"{user_location()}: np.fft.{name}: the number of points must be positive, got "
                                  f"{length}")
    return length, axis % z.ndim


def _scale(name: str, n: int, norm: Any, inverse: bool) -> float:
    if norm not in (None, "backward", "ortho", "forward"):
        raise AttributeValueError(f"{user_location()}: np.fft.{name}: norm must be 'backward', 'ortho' or 'forward', "
                                  f"got {norm!r}")
    if norm == "ortho":
        return n ** -0.5
    return 1.0 / n if (norm == "forward") != inverse else 1.0


def _transform(name: str, z: ComplexParts, n: Any, axis: int, norm: Any, inverse: bool) -> ComplexParts:
    length, axis = _length(name, z, n, axis)
    z = ComplexParts(_fit(z.real, length, axis), _fit(z.imag, length, axis))
    found = ComplexParts(*parts(invoke(OPS["_npi_dft"], [z.real, z.imag], {"axis": axis, "inverse": inverse},
                                       hint="dft")))
    scale = _scale(name, length, norm, inverse)
    return found if scale == 1 else found * scale


def fft(a: Any, n: Any = None, axis: int = -1, norm: Any = None) -> ComplexParts:
    """The transform along an axis, of n points."""
    return _transform("fft", _complex(a), n, axis, norm, False)


def ifft(a: Any, n: Any = None, axis: int = -1, norm: Any = None) -> ComplexParts:
    """The inverse transform along an axis, of n points."""
    return _transform("ifft", _complex(a), n, axis, norm, True)


def rfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None) -> ComplexParts:
    """The transform of a real array along an axis: the n // 2 + 1 numbers of frequencies from 0 on."""
    if isinstance(a, ComplexParts) or not is_value(a) and _np.iscomplexobj(a):
        raise AttributeValueError(f"{user_location()}: np.fft.rfft takes a real array, got a complex one")
    real = _floating(as_value(a))
    length, axis = _length("rfft", real, n, axis)
    scale = _scale("rfft", length, norm, False)
    found = ComplexParts(*parts(invoke(OPS["_npi_rdft"], [_fit(real, length, axis)], {"axis": axis}, hint="rdft")))
    return found if scale == 1 else found * scale


def irfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None) -> ndarray:
    """The real array of n points whose ``rfft`` this is; n is even unless given."""
    z = _complex(a)
    n, axis = _length("irfft", z, 2 * (_length("irfft", z, None, axis)[0] - 1) if n is None else n, axis)
    z = ComplexParts(_fit(z.real, n // 2 + 1, axis), _fit(z.imag, n // 2 + 1, axis))
    found = invoke(OPS["_npi_irdft"], [z.real, z.imag], {"axis": axis, "n": n}, hint="irdft")
    scale = _scale("irfft", n, norm, True)
    return found if scale == 1 else found * scale


def hfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None) -> ndarray:
    """The transform of n points of an array that equals its own mirrored conjugate: a real array."""
    return irfft(_complex(a).conj(), n, axis, {"forward": "backward", "ortho": "ortho"}.get(norm, "forward"))


def ihfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None) -> ComplexParts:
    """The inverse of ``hfft``."""
    return rfft(a, n, axis, {"forward": "backward", "ortho": "ortho"}.get(norm, "forward")).conj()


def _axes(name: str, a: Any, s: Any, axes: Any) -> tuple[list[Any], list[int]]:
    if axes is None:
        axes = range(-len(a.shape if s is None else s), 0)
    axes = list(axes)
    lengths = [None] * len(axes) if s is None else [None if k == -1 else k for k in s]
    if len(lengths) != len(axes):
        raise AttributeValueError(f"{user_location()}: np.fft.{name}: s has {len(lengths)} lengths for {len(axes)} "
                                  f"axes")
    return lengths, axes


def fftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None) -> ComplexParts:
    """The transform over several axes."""
    z = _complex(a)
    for n, axis in zip(*_axes("fftn", z, s, axes)):
        z = _transform("fftn", z, n, axis, norm, False)
    return z


def ifftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None) -> ComplexParts:
    """The inverse transform over several axes."""
    z = _complex(a)
    for n, axis in zip(*_axes("ifftn", z, s, axes)):
        z = _transform("ifftn", z, n, axis, norm, True)
    return z


def rfftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None) -> ComplexParts:
    """The transform of a real array over several axes; of the last of them the first half of the frequencies."""
    a = as_value(a)
    lengths, axes = _axes("rfftn", a, s, axes)
    z = rfft(a, lengths[-1], axes[-1], norm)
    for n, axis in zip(lengths[:-1], axes[:-1]):
        z = _transform("rfftn", z, n, axis, norm, False)
    return z


def irfftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None) -> ndarray:
    """The inverse of ``rfftn``: a real array."""
    z = _complex(a)
    lengths, axes = _axes("irfftn", z, s, axes)
    for n, axis in zip(lengths[:-1], axes[:-1]):
        z = _transform("irfftn", z, n, axis, norm, True)
    return irfft(z, lengths[-1], axes[-1], norm)


def fft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None) -> ComplexParts:
    """``fftn`` over two axes."""
    return fftn(a, s, axes, norm)


def ifft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None) -> ComplexParts:
    """``ifftn`` over two axes."""
    return ifftn(a, s, axes, norm)


def rfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None) -> ComplexParts:
    """``rfftn`` over two axes."""
    return rfftn(a, s, axes, norm)


def irfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None) -> ndarray:
    """``irfftn`` over two axes."""
    return irfftn(a, s, axes, norm)


def fftfreq(n: int, d: float = 1.0, device: Any = None) -> ndarray:
    """The frequencies of a transform of n points a distance d apart: float64."""
    return as_value(_np.fft.fftfreq(n, d))


def rfftfreq(n: int, d: float = 1.0, device: Any = None) -> ndarray:
    """The frequencies of ``rfft``: float64."""
    return as_value(_np.fft.rfftfreq(n, d))


def _shifted(x: Any, axes: Any, back: bool) -> Any:
    if isinstance(x, ComplexParts):
        return ComplexParts(_shifted(x.real, axes, back), _shifted(x.imag, axes, back))
    x = as_value(x)
    axes = range(len(x.shape)) if axes is None else (axes,) if isinstance(axes, int) else axes
    for axis in axes:
        half = x.shape[normal_axis(axis, len(x.shape), "np.fft.fftshift")] // 2
        x = _call("roll", x, shift=-half if back else half, axis=axis)
    return x


@overload
def fftshift(x: ComplexParts, axes: Any = None) -> ComplexParts: ...
@overload
def fftshift(x: NDArray | _np.ndarray | Sequence[Any], axes: Any = None) -> ndarray: ...
def fftshift(x: Any, axes: Any = None) -> Any:
    """Frequency 0 in the middle."""
    return _shifted(x, axes, False)


@overload
def ifftshift(x: ComplexParts, axes: Any = None) -> ComplexParts: ...
@overload
def ifftshift(x: NDArray | _np.ndarray | Sequence[Any], axes: Any = None) -> ndarray: ...
def ifftshift(x: Any, axes: Any = None) -> Any:
    """The inverse of ``fftshift``."""
    return _shifted(x, axes, True)


__all__ = ["fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft",
           "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn"]


def __dir__() -> list[str]:
    return list(__all__)


remembered.remember(globals(), "fft")
