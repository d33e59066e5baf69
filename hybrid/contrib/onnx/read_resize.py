"""How ONNX's Resize and Upsample are read."""
from __future__ import annotations

import math

import numpy as np

from ...symbol import Symbol
from . import library
from .reader import OnnxNode, reads


@reads("Resize", "Upsample")
def resize(n: OnnxNode) -> Symbol:
    """Along each axis a product with the matrix that the package's own evaluator gives for it; nearest by whole factors is UpSampling."""
    found, target, scales = n.shape(), *_target(n)
    mode, where = n.attr("mode", "nearest"), n.attr("coordinate_transformation_mode", "half_pixel" if n.kind == "Resize" and n.opset > 10 else "asymmetric")
    if where == "tf_crop_and_resize":
        raise n.fail("coordinate_transformation_mode='tf_crop_and_resize' is not supported")
    factor = target[-1] // found[-1] if len(found) == 4 else 0
    whole = len(found) == 4 and list(target) == [*found[:2], found[2] * factor, found[3] * factor]
    near = n.attr("nearest_mode", "round_prefer_floor" if n.kind == "Resize" and n.opset > 10 else "floor")
    if mode == "nearest" and whole and (where, near) in (("asymmetric", "floor"), ("half_pixel", "round_prefer_floor"), ("half_pixel", "round_prefer_ceil")):
        return n.op("UpSampling", n[0], scale=factor, sample_type="nearest") if factor > 1 else n[0]
    if mode == "linear" and len(found) == 4 and tuple(target[:2]) == found[:2] and where in ("half_pixel", "align_corners", "pytorch_half_pixel") and not n.attr("antialias", 0):
        if all(t > 1 for t in target[2:]) and all(s is None or abs(s * d - t) < 1e-4 for s, d, t in zip(scales, found, target)):
            return n.op("_contrib_BilinearResize2D", n[0], height=target[2], width=target[3], align_corners=where == "align_corners")
    out = n[0]
    for axis, (d, t) in enumerate(zip(found, target)):
        if d != t:
            last = [i for i in range(len(found)) if i != axis] + [axis]
            y = n.op("dot", n.op("transpose", out, axes=tuple(last)), n.constant(f"axis{axis}", _matrix(n, d, t, scales[axis])))
            out = n.op("transpose", y, axes=tuple(np.argsort(last).tolist()))
    return out


def _target(n: OnnxNode) -> tuple[list[int], list[float | None]]:
    """The new shape, and the scales where they are given."""
    found = n.shape()
    axes = [a % len(found) for a in n.ints("axes", default=range(len(found)))]
    at = 1 if n.kind == "Upsample" or n.opset < 11 else 2
    given = np.asarray(n.attr("scales")) if "scales" in n.attrs else n.known(at, "scales")
    sizes = n.known(3, "sizes") if at == 2 else None
    if n.attr("keep_aspect_ratio_policy", "stretch") != "stretch" or sizes is None and (given is None or not given.size):
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
    """(length, target): what a line of ``length`` elements becomes, for each of its elements."""
    h = n.reader.onnx.helper
    keep = ("mode", "coordinate_transformation_mode", "nearest_mode", "cubic_coeff_a", "exclude_outside", "antialias")
    attrs = {k: n.attr(k) for k in keep if k in n.attrs}
    if n.kind == "Upsample" or n.opset < 11:
        attrs = {"mode": n.attr("mode", "nearest"), "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    sized = scale is None
    names = ["x", "", "", "s"] if sized else ["x", "", "s"]
    given = np.array([length, target], np.int64) if sized else np.array([1, scale], np.float32)
    node = h.make_node("Resize", names, ["y"], **attrs)
    run = library.evaluator()(node)
    return np.asarray(run.run(None, {"x": np.eye(length, dtype=np.float32), "s": given})[0], np.float32)
