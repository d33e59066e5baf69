"""More rows for record_ops.py: regions, grids, attention over interleaved projections."""
from __future__ import annotations

import numpy as np

from cases import arr, case, f

_r = np.random.RandomState(78)
rois = arr([[0, 0.3, 0.4, 5.2, 6.1], [1, 2.2, 1.1, 3.3, 4.4], [0, 4.0, 4.0, 4.2, 4.3], [1, -1.2, -2.3, 12.4, 3.2],
            [0, 7.3, 6.2, 9.8, 9.1]])
for scale in (1.0, 0.6):
    case("ROIPooling", [f(2, 3, 7, 8), rois], pooled_size=(2, 3), spatial_scale=scale, _grad=[0])
    for ratio in (2, -1):
        for aligned in (False, True):
            case("contrib.ROIAlign", [f(2, 3, 7, 8), rois], pooled_size=(2, 3), spatial_scale=scale,
                 sample_ratio=ratio, aligned=aligned, _grad=[0])
case("contrib.ROIAlign", [f(2, 12, 7, 8), rois], pooled_size=(2, 3), spatial_scale=1.0, sample_ratio=2,
     position_sensitive=True, _grad=[0])
case("ROIPooling", [f(2, 1, 7, 8), rois], pooled_size=(3, 3), spatial_scale=1.0, _grad=[0])
case("BilinearSampler", [f(2, 3, 5, 6), f(2, 2, 4, 3, low=-1.2, high=1.2)])
case("GridGenerator", [f(2, 6)], transform_type="affine", target_shape=(4, 5))
case("GridGenerator", [f(2, 2, 4, 5)], transform_type="warp")
case("SpatialTransformer", [f(2, 3, 5, 6), f(2, 6, low=-0.7, high=0.7)], target_shape=(4, 3), transform_type="affine",
     sampler_type="bilinear")
for name, inputs in (("selfatt_qk", [f(4, 2, 18)]), ("selfatt_valatt", [f(4, 2, 18), f(6, 4, 4)]),
                     ("encdec_qk", [f(3, 2, 12), f(4, 2, 24)]),
                     ("encdec_valatt", [f(4, 2, 24), f(6, 3, 4)])):
    case(f"contrib.interleaved_matmul_{name}", inputs, heads=3)
