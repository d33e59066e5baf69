"""Images turned about their middle: tensors (channels, height, width) as ``ToTensor`` gives them, or batches of
them."""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from .. import nd
from ..buffers.array import NDArray, wrap
from ..base import numeric_types
from ..base.errors import AttributeValueError, DTypeError, ShapeError


def _angles(src: NDArray, degrees: Any) -> np.ndarray:
    """An angle in radians for each image of a batch."""
    count = src.shape[0] if src.ndim == 4 else 1
    if isinstance(degrees, numeric_types):
        return np.full(count, np.deg2rad(degrees))
    if src.ndim == 3 or isinstance(degrees, str):
        raise TypeError(f"rotation_degrees must be a "
                        f"number{' for a single picture' if src.ndim == 3 else ', or an array of numbers'}; got "
                        f"{type(degrees).__name__}")
    values = degrees.asnumpy() if isinstance(degrees, NDArray) else np.asarray(degrees)
    if values.shape != (count,):
        raise ShapeError(f"rotation_degrees has the shape {values.shape}, the batch holds {count} pictures: give one "
                         f"number, or one for each of them")
    return np.deg2rad(values.astype(np.float64))


def _grid(angles: np.ndarray, height: int, width: int, zoom_in: bool, zoom_out: bool) -> np.ndarray:
    """Where each pixel comes from, (batch, 2, height, width): x, then y, from -1 to 1 between the centres of the
    outermost pixels."""
    c, s = np.cos(angles)[:, None, None], np.sin(angles)[:, None, None]
    scale = np.ones_like(c)
    # how much of the turned frame's extent fits into the image, in the tighter direction
    if zoom_in or zoom_out:
        extents = width * abs(c) + height * abs(s), width * abs(s) + height * abs(c)
        scale = np.minimum(width / extents[0], height / extents[1])
        scale = scale if zoom_in else 1 / scale
    y, x = np.arange(height)[:, None] - (height - 1) / 2, np.arange(width)[None] - (width - 1) / 2
    from_x, from_y = (c * x - s * y) * scale, (s * x + c * y) * scale
    return np.stack([from_x / max((width - 1) / 2, 0.5), from_y / max((height - 1) / 2, 0.5)],
                    axis=1).astype(np.float32)


def imrotate(src: Any, rotation_degrees: Any, zoom_in: bool = False, zoom_out: bool = False) -> Any:
    """A float32 image (channels, height, width), or a batch of them, turned about its middle; the shape stays, empty
    corners are 0.

    rotation_degrees: one number, or for a batch also an array with a number for each image; positive turns
    counterclockwise. zoom_in: enlarged until no corner is empty. zoom_out: made smaller until the whole image is
    shown. TypeError for other dtypes and for several angles of one image, ValueError for other shapes and for both
    zooms. Interpolates linearly.

    >>> imrotate(hybrid.nd.ones((3, 4, 4)), 45, zoom_in=True).shape               # doctest: +SKIP
    (3, 4, 4)
    """
    if zoom_in and zoom_out:
        raise AttributeValueError("`zoom_in` and `zoom_out` cannot be both True: the first leaves no empty corners, "
                                  "the second shows the whole picture")
    if not isinstance(src, NDArray) or src._data.dtype != np.float32:
        given = src._data.dtype if isinstance(src, NDArray) else type(src).__name__
        raise DTypeError(f"Only `float32` images are supported by this function, arrays of hybrid: got {given}; use "
                         f"ToTensor or src.astype('float32')")
    if src.ndim not in (3, 4):
        raise ShapeError(f"Only 3D and 4D are supported by this function: (channels, height, width) or (batch, "
                         f"channels, height, width); got {src.shape}")
    height, width = src.shape[-2:]
    grid = _grid(_angles(src, rotation_degrees), height, width, zoom_in, zoom_out)
    batch = src if src.ndim == 4 else src.expand_dims(0)                            # type: ignore[attr-defined]
    turned = nd.BilinearSampler(batch, wrap(nd.array(grid, ctx=src.ctx)._data, src.ctx,
                                            type(src)))       # type: ignore[attr-defined]
    return turned if src.ndim == 4 else turned.reshape(src.shape)


def random_rotate(src: Any, angle_limits: Sequence[float], zoom_in: bool = False, zoom_out: bool = False) -> Any:
    """``imrotate`` by an angle from NumPy's generator, uniformly between the two limits in degrees; in a batch each
    image by its own."""
    low, high = angle_limits
    angles = np.random.uniform(low, high, src.shape[0] if src.ndim == 4 else None)
    return imrotate(src, angles if src.ndim == 4 else float(angles), zoom_in, zoom_out)


__all__ = ["imrotate", "random_rotate"]
