"""Reading images at computed places: regions of interest, grids, spatial transformers. data is (N, C, H, W)."""
from __future__ import annotations

from typing import Any

import numpy as np

from ..base import dtype as dt
from .. import ir
from ..base.errors import ShapeError
from ..ir import Node
from ..ir.size import greater, hint
from .attributes import Attrs
from .conv import EMBEDDED
from .registry import Bool, Enum, Float, Int, Shape, op


def _picture(data: Node) -> tuple[int, int, int, int]:
    if data.ndim != 4:
        raise ShapeError(f"data must be (N, C, H, W), got {data.shape}")
    n, c, h, w = data.shape
    return n, c, h, w


def _rois(rois: Node) -> tuple[Node, list[Node]]:
    """Batch index (int64), and the four coordinates, each (R, 1, 1)."""
    if rois.ndim != 2 or rois.shape[1] != 5:
        raise ShapeError(f"rois must be (R, 5): batch index, left, top, right, bottom; got {rois.shape}")
    columns = [ir.reshape(ir.slice(rois, (0, k), (rois.shape[0], 1)), (rois.shape[0], 1, 1)) for k in range(5)]
    return ir.cast(columns[0], dt.int64), columns[1:]


def _pair(a: Attrs) -> tuple[int, int]:
    size = tuple(a.pooled_size) * 2 if len(a.pooled_size) == 1 else tuple(a.pooled_size)
    if len(size) != 2 or min(size) < 1:
        raise ShapeError(f"pooled_size={a.pooled_size} must be two positive numbers")
    return size


def _range(n: int, axis: int, like: Node) -> Node:
    """0 … n-1 along one of three axes."""
    return ir.reshape(ir.cast(ir.iota(n), like.dtype), tuple(n if i == axis else 1 for i in range(3)))


# ---- ROIPooling
def _bins(low: Node, high: Node, scale: float, bins: int, length: int) -> Node:
    """(R, bins, length): whether a pixel lies in a bin of the region."""
    start, end = ir.map("round", low * scale), ir.map("round", high * scale)
    width = ir.map("maximum", end - start + 1, 1) / bins
    k, at = _range(bins, 1, width), _range(length, 2, width)
    first = ir.map("floor", k * width) + start
    last = ir.map("ceil", (k + 1) * width) + start
    return ir.map("logical_and", ir.map("ge", at, first), ir.map("lt", at, last))


@op("ROIPooling", "data rois", npx=("roi_pooling",), json=("_npx_roi_pooling",), pooled_size=Shape(),
    spatial_scale=Float())
def roi_pooling(data: Node, rois: Node, a: Attrs) -> Node:
    """Maxima over a grid of bins in each region (Girshick, Fast R-CNN, 2015): (R, C, *pooled_size). rois (R, 5): batch
    index and corners, which spatial_scale brings to data's pixels. An empty bin, or a batch index out of range, gives
    0."""
    n, c, h, w = _picture(data)
    ph, pw = _pair(a)
    index, (left, top, right, bottom) = _rois(ir.detach(rois))
    r = rois.shape[0]
    across = ir.reshape(_bins(left, right, a.spatial_scale, pw, w), (r, 1, 1, pw, w))
    down = ir.reshape(_bins(top, bottom, a.spatial_scale, ph, h), (r, 1, ph, 1, h))
    x = ir.gather(data, ir.reshape(_inside(index, n), (r,)), 0)                          # R C H W
    low = ir.reduce_identity("max", data.dtype)
    rows = ir.reduce("max", ir.map("where", across, ir.reshape(x, (r, c, h, 1, w)), low), (4,))         # R C H pw
    cells = ir.reduce("max", ir.map("where", down, ir.reshape(ir.permute(rows, (0, 1, 3, 2)), (r, c, 1, pw, h)), low),
                      (4,))
    ok = ir.map("logical_and", ir.map("ge", index, 0), ir.map("lt", index, n))
    filled = ir.map("logical_and", ir.reshape(ok, (r, 1, 1, 1)), ir.map("gt", cells, low))
    return ir.map("where", filled, cells, 0)


def _inside(index: Node, n: int) -> Node:
    return ir.map("minimum", ir.map("maximum", index, 0), n - 1)


# ---- ROIAlign
PRODUCTS = 16                   # multiplications that cost as much as reading an element at a computed place


def _samples(low: Node, high: Node, a: Attrs, bins: int, length: int) -> tuple[Node, Node]:
    """Where bilinear samples of each bin lie, (R, bins, S) within 0 … length - 1, and their share of the bin's average
    (0 for those outside the image). Without sample_ratio a region four times as large as the image still gets a
    sample a pixel.
    """
    shift = 0.5 if a.aligned else 0.0
    start = low * a.spatial_scale - shift
    width = high * a.spatial_scale - shift - start
    if not a.aligned:
        width = ir.map("maximum", width, 1.0)
    step = width / bins
    if a.sample_ratio > 0:
        most, count = a.sample_ratio, ir.full(a.sample_ratio, step.shape, step.dtype)
    else:
        most = 4 * -(-length // bins) + 1
        count = ir.map("minimum", ir.map("maximum", ir.map("ceil", step), 1), most)
    k, s = _range(bins, 1, step), _range(most, 2, step)
    at = start + k * step + (s + 0.5) * step / count
    near = ir.map("logical_and", ir.map("ge", at, -1.0), ir.map("le", at, length))
    valid = ir.map("logical_and", near, ir.map("lt", ir.expand(s, at.shape), count))
    return ir.map("minimum", ir.map("maximum", at, 0.0), length - 1), ir.map("where", valid, 1.0 / count, 0.0)


def _dense(at: Node, share: Node, length: int) -> Node:
    """(R, bins, length): the weight of each pixel in a bin's average."""
    r, bins, s = at.shape
    pixel = ir.reshape(ir.cast(ir.iota(length), at.dtype), (1, 1, length, 1))
    hat = ir.map("relu", 1 - ir.map("abs", ir.reshape(at, (r, bins, 1, s)) - pixel))
    return ir.reduce("sum", hat * ir.reshape(share, (r, bins, 1, s)), (3,))


def _sparse(at: Node, share: Node, length: int) -> tuple[Node, Node]:
    """(R, bins, 2 S): the two pixels that each sample reads, and their weights."""
    first = ir.map("minimum", ir.map("floor", at), greater(length - 2, 0))
    part = at - first
    index = ir.cast(first, dt.int64)
    return ir.concat([index, ir.map("minimum", index + 1, length - 1)],
                     2), ir.concat([(1 - part) * share, part * share], 2)


@op("_contrib_ROIAlign", "data rois", mx=("contrib.ROIAlign",), json=("_npx_roi_align",), pooled_size=Shape(),
    spatial_scale=Float(), sample_ratio=Int(-1),
    position_sensitive=Bool(False), aligned=Bool(False))
def roi_align(data: Node, rois: Node, a: Attrs) -> Node:
    """Averages of bilinear samples over a grid of bins in each region (He et al., Mask R-CNN, 2017): (R, C,
    *pooled_size).

    rois (R, 5): batch index and corners, which spatial_scale brings to data's pixels. sample_ratio samples an axis in
    each bin; by default one a pixel. With position_sensitive each bin reads channels of its own, and C is divided by
    the number of bins. aligned shifts by half a pixel. No gradient flows to rois.
    """
    n, c, h, w = _picture(data)
    ph, pw = _pair(a)
    index, (left, top, right, bottom) = _rois(ir.detach(rois))
    r = rois.shape[0]
    down, across = _samples(top, bottom, a, ph, h), _samples(left, right, a, pw, w)
    batch = ir.reshape(_inside(index, n), (r,))
    # a channel, with all pixels and with those needed
    products, reads = h * w * pw + h * ph * pw, 4 * ph * pw * down[0].shape[2] * across[0].shape[2]
    if not a.position_sensitive and (a.sample_ratio <= 0 or hint(products) <= PRODUCTS * hint(reads)):
        rows, columns = (ir.cast(v, data.dtype) for v in (_dense(*down, h), _dense(*across, w)))
        if n == 1:
            x = ir.permute(ir.dot(ir.reshape(data, (c, h, w)), columns, ((2,), (2,))), (2, 0, 1, 3))
        else:
            x = ir.dot(ir.gather(data, batch, 0), columns, ((3,), (2,)), ((0,), (0,)))       # R C H pw
        return ir.permute(ir.dot(x, rows, ((2,), (2,)), ((0,), (0,))), (0, 1, 3, 2))
    (yi, yw), (xi, xw) = _sparse(*down, h), _sparse(*across, w)
    s, t = yi.shape[2], xi.shape[2]
    spot = ir.reshape(yi, (r, 1, ph, 1, s, 1)) * w + ir.reshape(xi, (r, 1, 1, pw, 1, t))
    weight = ir.cast(ir.reshape(yw, (r, 1, ph, 1, s, 1)) * ir.reshape(xw, (r, 1, 1, pw, 1, t)), data.dtype)
    batch = ir.reshape(batch, (r, 1, 1, 1, 1, 1))
    if not a.position_sensitive:
        flat = ir.reshape(batch * (h * w) + spot, (r, ph, pw, s, t))
        values = ir.permute(ir.gather(ir.reshape(ir.permute(data, (1, 0, 2, 3)), (c, n * h * w)), flat, 1),
                            (1, 0, 2, 3, 4, 5))
        return ir.reduce("sum", values * weight, (4, 5))
    if c % (ph * pw):
        raise ShapeError(f"position_sensitive needs channels that the {ph} x {pw} bins divide, got {data.shape}")
    bins = ir.reshape(ir.iota(ph * pw), (1, 1, ph, pw, 1, 1))
    channel = ir.reshape(ir.iota(c // (ph * pw)) * (ph * pw), (1, c // (ph * pw), 1, 1, 1, 1)) + bins
    values = ir.gather(ir.reshape(data, (n * c * h * w,)), (batch * c + channel) * (h * w) + spot, 0)
    return ir.reduce("sum", values * weight, (4, 5))


# ---- grids
def _half(n: int, like: Node) -> Node:
    """Half of a size, in the dtype of an array."""
    return ir.const(n, like.dtype) / 2


@op("BilinearSampler", "data grid", cudnn_off=Bool(False))
def bilinear_sampler(data: Node, grid: Node, a: Attrs) -> Node:
    """data (N, C, H, W) read at grid (N, 2, h, w) of x and y from -1 to 1, corner to corner; 0 outside: (N, C, h,
    w)."""
    n, c, h, w = _picture(data)
    if grid.ndim != 4 or grid.shape[:2] != (n, 2):
        raise ShapeError(f"grid must be ({n}, 2, h, w) for data {data.shape}, got {grid.shape}")
    oh, ow = grid.shape[2:]
    x, y = (ir.reshape((ir.slice(grid, (0, k, 0, 0), (n, 1, oh, ow)) + 1) * _half(d - 1, grid), (n, oh, ow))
            for k, d in ((0, w), (1, h)))
    left, top = ir.map("floor", x), ir.map("floor", y)
    base = ir.reshape(ir.iota(n) * (h * w), (n, 1, 1))
    flat = ir.reshape(ir.permute(data, (1, 0, 2, 3)), (c, n * h * w))
    out = None
    for dy in (0, 1):
        for dx in (0, 1):
            px, py = left + dx, top + dy
            inside = [ir.map("logical_and", ir.map("ge", p, 0), ir.map("le", p, d - 1)) for p, d in ((px, w), (py, h))]
            at = base + _inside(ir.cast(py, dt.int64), h) * w + _inside(ir.cast(px, dt.int64), w)
            weight = (x - left if dx else left + 1 - x) * (y - top if dy else top + 1 - y)
            weight = ir.map("where", ir.map("logical_and", *inside), weight, 0)
            part = ir.gather(flat, at, 1) * weight
            out = part if out is None else out + part
    assert out is not None
    return ir.permute(out, (1, 0, 2, 3))


def _line(n: int, dtype: Any) -> Node:
    """n places from -1 to 1, computed where they are no small constant."""
    if n <= EMBEDDED:
        return ir.data((np.linspace(-1, 1, n) if n > 1 else np.full(1, -1.0)).astype(dtype))
    return ir.cast(ir.cast(ir.iota(n), np.float64) * (2 / (n - 1)) - 1, dtype)


def affine_grid(theta: Node, h: int, w: int) -> Node:
    """Grid (N, 2, h, w) of the affine maps theta (N, 6)."""
    if theta.ndim != 2 or theta.shape[1] != 6 or h < 1 or w < 1:
        raise ShapeError(f"an affine grid needs parameters (N, 6) and a target_shape, got {theta.shape} and {(h, w)}")
    n, maps = theta.shape[0], ir.reshape(theta, (theta.shape[0], 2, 3))
    of_x, of_y, offset = (ir.reshape(ir.slice(maps, (0, 0, k), (n, 2, 1)), (n, 2, 1, 1)) for k in range(3))
    return of_x * _line(w, theta.dtype) + of_y * ir.reshape(_line(h, theta.dtype), (h, 1)) + offset


@op("GridGenerator", "data", transform_type=Enum("affine", "affine", "warp"), target_shape=Shape((0, 0)))
def grid_generator(data: Node, a: Attrs) -> Node:
    """Grids (N, 2, h, w) for BilinearSampler: of affine maps (N, 6) over target_shape, or of flows in pixels (N, 2, h,
    w)."""
    if a.transform_type == "affine":
        return affine_grid(data, a.target_shape[0], a.target_shape[1])
    if data.ndim != 4 or data.shape[1] != 2:
        raise ShapeError(f"a warp needs flows (N, 2, h, w), got {data.shape}")
    n, _, h, w = data.shape
    at = [ir.reshape(ir.cast(ir.iota(d), data.dtype), shape) for d, shape in ((w, (w,)), (h, (h, 1)))]
    return ir.concat([(ir.slice(data, (0, k, 0, 0), (n, 1, h, w)) + at[k]) / _half(greater(d - 1, 1), data) - 1
                      for k, d in ((0, w), (1, h))], 1)


@op("SpatialTransformer", "data loc", target_shape=Shape((0, 0)), transform_type=Enum("affine", "affine"),
    sampler_type=Enum("bilinear", "bilinear"),
    cudnn_off=Bool(False))
def spatial_transformer(data: Node, loc: Node, a: Attrs) -> Node:
    """data (N, C, H, W) seen through affine maps loc (N, 6) (Jaderberg et al. 2015): (N, C, *target_shape)."""
    _, _, h, w = _picture(data)
    size = a.target_shape if any(a.target_shape) else (h, w)
    return bilinear_sampler(data, affine_grid(loc, size[0], size[1]))
