"""Fourier transforms by the array API standard."""
from __future__ import annotations

from typing import Any

import numpy as _np

from .calls import function as _function
from .creation import FLOAT as _FLOAT, asarray as _asarray

_NAMES = "fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftshift ifftshift".split()

globals().update({_name: _function(getattr(_np.fft, _name), f"fft.{_name}", None) for _name in _NAMES})


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies of a transform of n points a distance d apart."""
    return _asarray(_np.fft.fftfreq(n, d), dtype=dtype or _FLOAT, device=device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies of ``rfft``."""
    return _asarray(_np.fft.rfftfreq(n, d), dtype=dtype or _FLOAT, device=device)


__all__ = [*_NAMES, "fftfreq", "rfftfreq"]
