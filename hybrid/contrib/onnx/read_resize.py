"""How ONNX's Resize and Upsample are read."""
from __future__ import annotations

import math
from typing import Callable

import numpy as np

from ...graph.symbol import Symbol
from .reader import OnnxNode, reads


@reads("Resize", "Upsample")
def resize(n: OnnxNode) -> Symbol:
    """Along each axis a product with a matrix of weights; nearest by whole factors is UpSampling, most linear ones of
    images BilinearResize2D."""
    found, target, scales = n.shape(), *_target(n)
    mode, where = n.attr("mode", "nearest"), n.attr("coordinate_transformation_mode",
                                                    "half_pixel" if n.kind == "Resize" and n.opset > 10
                                                    else "asymmetric")
    if n.attr("antialias", 0):
        raise n.fail("antialias=1 is not supported")
    factor = target[-1] // found[-1] if len(found) == 4 else 0
    whole = len(found) == 4 and list(target) == [*found[:2], found[2] * factor, found[3] * factor]
    near = n.attr("nearest_mode", "round_prefer_floor" if n.kind == "Resize" and n.opset > 10 else "floor")
    if mode == "nearest" and whole and (where, near) in (("asymmetric", "floor"), ("half_pixel", "round_prefer_floor"),
                                                         ("half_pixel", "round_prefer_ceil")):
        return n.op("UpSampling", n[0], scale=factor, sample_type="nearest") if factor > 1 else n[0]
    if (mode == "linear" and len(found) == 4 and tuple(target[:2]) == found[:2]
        and where in ("half_pixel", "align_corners", "pytorch_half_pixel")):
        if all(t > 1 for t in target[2:]) and all(s is None or abs(s * d - t) < 1e-4
                                                  for s, d, t in zip(scales, found, target)):
            return n.op("_contrib_BilinearResize2D", n[0], height=target[2], width=target[3],
                        align_corners=where == "align_corners")
    out = n[0]
    for axis, (d, t) in enumerate(zip(found, target)):
        if d != t:
            last = [i for i in range(len(found)) if i != axis] + [axis]
            y = n.op("dot", n.op("transpose", out, axes=tuple(last)),
                     n.constant(f"axis{axis}", _matrix(n, d, t, scales[axis])))
            out = n.op("transpose", y, axes=tuple(np.argsort(last).tolist()))
    return out


def _target(n: OnnxNode) -> tuple[list[int], list[float | None]]:
    """The new shape, and the scales where they are given."""
    found = n.shape()
    axes = [a % len(found) for a in n.ints("axes", default=range(len(found)))]
    at = 1 if n.kind == "Upsample" or n.opset < 11 else 2
    given = np.asarray(n.attr("scales")) if "scales" in n.attrs else n.known(at, "scales")
    sizes = n.known(3, "sizes") if at == 2 else None
    if n.attr("keep_aspect_ratio_policy",
              "stretch") != "stretch" or sizes is None and (given is None or not given.size):
        raise n.fail("it has neither scales nor sizes that are supported")
    target: list[int] = list(found)
    scales: list[float | None] = [None] * len(found)
    for k, axis in enumerate(axes):
        if sizes is not None and sizes.size:
            target[axis] = int(sizes[k])
        else:
            scales[axis] = float(given[k])                        # type: ignore[index]
            target[axis] = int(math.floor(found[axis] * float(given[k])))         # type: ignore[index]
    return target, scales


def _matrix(n: OnnxNode, length: int, target: int, scale: float | None) -> np.ndarray:
    """(length, target): the weights with which each element of a line goes into each element of the new one, by ONNX's
    definition of Resize."""
    if length * target > MOST_WEIGHTS or not length:
        raise n.fail(f"an axis of length {length} cannot be resized to {target}")
    mode, old = n.attr("mode", "nearest"), n.kind == "Upsample" or n.opset < 11
    at = _source_positions(n, length, target, target / length if scale is None else scale,
                 "asymmetric" if old else n.attr("coordinate_transformation_mode", "half_pixel"))
    if mode == "nearest":
        rounded = ROUNDING["floor" if old else n.attr("nearest_mode", "round_prefer_floor")](at)
        taps, weights = rounded[:, None], np.ones((target, 1))
    elif mode in ("linear", "bilinear"):
        at = np.clip(at, 0, length - 1)
        low = np.floor(at)
        taps, weights = low[:, None] + [0, 1], np.stack([1 - (at - low), at - low], 1)
    else:
        taps = np.floor(at)[:, None] + np.arange(-1, 3)
        weights = _cubic(np.abs(at[:, None] - taps), float(n.attr("cubic_coeff_a", -0.75)))
        if n.attr("exclude_outside", 0):
            weights = np.where((taps >= 0) & (taps < length), weights, 0)
            weights = weights / weights.sum(1, keepdims=True)
    out = np.zeros((length, target), np.float32)
    rows = np.clip(taps, 0, length - 1).astype(np.int64)
    np.add.at(out, (rows, np.arange(target)[:, None]), weights.astype(np.float32))
    return out


MOST_WEIGHTS = 2**24
ROUNDING: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5), "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor, "ceil": np.ceil}


def _source_positions(n: OnnxNode, length: int, target: int, scale: float, mode: str) -> np.ndarray:
    """The positions on the old axis that the elements of the new one are read from."""
    i = np.arange(target)
    if mode == "align_corners":
        # as PyTorch and ONNX Runtime; where a scale gives no whole length, ONNX's text has the product
        return i * (length - 1) / max(target - 1, 1)
    if mode == "asymmetric":
        return i / scale
    if mode == "pytorch_half_pixel" and target == 1:
        return np.zeros(1)
    if mode not in ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric"):
        raise n.fail(f"coordinate_transformation_mode={mode!r} is not supported")
    offset = length / 2 * (1 - target / (scale * length)) if mode == "half_pixel_symmetric" else 0.0
    return offset + (i + 0.5) / scale - 0.5


def _cubic(d: np.ndarray, a: float) -> np.ndarray:
    """Weights at distances below 2 (Keys, Cubic convolution interpolation for digital image processing, 1981)."""
    return np.where(d <= 1, ((a + 2) * d - (a + 3)) * d * d + 1, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a)
