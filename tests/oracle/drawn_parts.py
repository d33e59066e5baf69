"""What the augmenters of detection draw for seeds of Python's generator, under MXNet (record_drawn_parts.py) and here
(tests/image/test_drawn_parts.py)."""
import random

import numpy as np

LABEL = [[0, 0.1, 0.2, 0.5, 0.6], [1, 0.4, 0.3, 0.9, 0.8], [2, 0.7, 0.1, 0.72, 0.12]]
SEEDS = range(12)
CASES = {
    "pad": lambda image: image.DetRandomPadAug(max_attempts=5),
    "pad, to a share": lambda image: image.DetRandomPadAug((0.9, 1.1), 1.5),
    "pad, wide": lambda image: image.DetRandomPadAug((1.5, 3.0), (1.2, 2.0)),
    "crop": lambda image: image.DetRandomCropAug(),
    "crop, any place": lambda image: image.DetRandomCropAug(0.0, (0.5, 2.0), (0.0, 0.3), 0.1),
    "crop, to a share": lambda image: image.DetRandomCropAug(0.2, 1.2, 0.4),
    "crops": lambda image: image.CreateMultiRandCropAugmenter([0.1, 0.5], (0.75, 1.33), [(0.05, 1.0), (0.3, 0.8)], 0.3,
                                                              9, 0.2),
}


def outcome(name, mx):
    """For each seed the shape of the image, the sum of what it shows and the label."""
    image = mx.nd.array(np.arange(40 * 50 * 3).reshape(40, 50, 3) % 251, dtype="uint8")
    found = []
    for seed in SEEDS:
        random.seed(seed)
        x, label = CASES[name](mx.image)(image, np.array(LABEL))
        found.append([list(x.shape), int(x.asnumpy().astype("int64").sum()), np.asarray(label).round(5).tolist()])
    return found
