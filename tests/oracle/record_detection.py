"""Records what MXNet 1.9.1 computes for SSD's operators, deformable convolution and masks: ../data/detection.npz and
.json.

Run with a Python that has mxnet 1.9.1: ``python tests/oracle/record_detection.py``. Rows are as those of cases.py.
"""
from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from record_ops import packed_arrays, record

from cases import CASES, arr, case, f

DATA = Path(__file__).resolve().parent.parent / "data"
_r = np.random.RandomState(91)
start = len(CASES)


def anchors(n):
    left = _r.uniform(0, 0.7, (1, n, 2))
    return np.concatenate([left, left + _r.uniform(0.15, 0.35, (1, n, 2))], -1).astype("float32")


def labels(*counts, width=5, most=4):
    out = -np.ones((len(counts), most, width))
    for b, count in enumerate(counts):
        out[b, :count, 0] = _r.randint(0, 3, count)
        out[b, :count, 1:5] = anchors(count)[0]
    return out.astype("float32")


for options in ({}, {"sizes": [0.5, 0.25, 0.1], "ratios": [1, 2, 0.5]},
                {"sizes": [0.9], "ratios": [2, 1], "clip": True},
                {"sizes": [0.3, 0.4], "steps": [0.2, 0.1], "offsets": [0.3, 0.7]}):
    case("contrib.MultiBoxPrior", [f(1, 2, 3, 5)], _grad=[], **options)
for options in ({}, {"overlap_threshold": 0.2}, {"overlap_threshold": -1.0},
                {"overlap_threshold": 0.3, "negative_mining_ratio": 1.5, "negative_mining_thresh": 0.2},
                {"negative_mining_ratio": 3.0, "ignore_label": -2.0},
                {"negative_mining_ratio": 0.5, "minimum_negative_samples": 6},
                {"variances": [1.0, 1.0, 1.0, 1.0], "overlap_threshold": 0.1}):
    case("contrib.MultiBoxTarget", [anchors(20), labels(2, 4, 0, 1), f(4, 4, 20)], _grad=[], **options)
    case("contrib.MultiBoxTarget", [anchors(3), labels(4, 2), f(2, 4, 3)], _grad=[], **options)
case("contrib.MultiBoxTarget", [anchors(20), labels(2, 4, 3, width=6), f(3, 4, 20)], _grad=[])


def probabilities(b, c, n):
    x = np.exp(_r.uniform(-2, 2, (b, c, n)))
    return (x / x.sum(1, keepdims=True)).astype("float32")


for options in ({}, {"threshold": 0.4}, {"force_suppress": True, "nms_threshold": 0.3}, {"nms_topk": 5},
                {"clip": False, "nms_threshold": 0.1}, {"nms_threshold": -1.0}):
    case("contrib.MultiBoxDetection", [probabilities(2, 4, 16), f(2, 64), anchors(16)], _grad=[], **options)

for options in ({"kernel": [3, 3], "pad": [1, 1]}, {"kernel": [3, 2], "stride": [2, 1], "dilate": [1, 2]},
                {"kernel": [1, 1]},
                {"kernel": [3, 3], "pad": [2, 1], "num_deformable_group": 2},
                {"kernel": [2, 2], "num_group": 2, "no_bias": True}):
    h, w = 6, 5
    kh, kw = options["kernel"]
    (ph, pw), (sh, sw), (dh, dw) = (options.get(k, d)
                                    for k, d in (("pad", [0, 0]), ("stride", [1, 1]), ("dilate", [1, 1])))
    oh, ow = (h + 2 * ph - dh * (kh - 1) - 1) // sh + 1, (w + 2 * pw - dw * (kw - 1) - 1) // sw + 1
    parts, groups = options.get("num_deformable_group", 1), options.get("num_group", 1)
    x, offset, weight = f(2, 4, h, w), f(2, 2 * parts * kh * kw, oh, ow, low=-1.7, high=1.7), f(6, 4 // groups, kh, kw)
    bias = [] if options.get("no_bias") else [f(6)]
    case("contrib.DeformableConvolution", [x, offset, weight, *bias], num_filter=6, _tol=1e-4, **options)

case("contrib.boolean_mask", [f(4, 3), arr([0, 1, 0, 2])], _grad=[0])
case("contrib.index_array", [f(3, 2)], _grad=[])
case("contrib.index_array", [f(3, 2, 2)], axes=[2, 0, -2], _grad=[])
case("contrib.index_copy", [f(5, 3), arr([0, 4, 2]), f(3, 3)])


def main():
    arrays, table = {}, []
    for number, row in enumerate(CASES[start:]):
        try:
            table.append(record(row, number, arrays))
        except Exception as err:
            print("MXNet cannot:", row["op"], row["attrs"], str(err).strip().splitlines()[-1][:200])
            table.append(None)
    packed_arrays.save(DATA / "detection.npz", arrays)
    (DATA / "detection.json").write_text("[\n" + ",\n".join(json.dumps(line) for line in table) + "\n]\n")
    print(len(table), table.count(None))


if __name__ == "__main__":
    main()
