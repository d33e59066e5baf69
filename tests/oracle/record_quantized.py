"""Record MXNet 1.9.1's answers to ``quantized_calls`` and its thresholds: python -m tests.oracle.record_quantized"""
from __future__ import annotations

from pathlib import Path

import mxnet as mx
import numpy as np

from tests.oracle.quantized_calls import calls

OUT = Path(__file__).resolve().parents[1] / "data" / "quantized.npz"


def main() -> None:
    """Write the file."""
    found: dict[str, np.ndarray] = {}

    def keep(name: str, values: list) -> None:
        found.update({f"{name}/{i}": v.asnumpy() for i, v in enumerate(values)})
    calls(mx.nd, keep)
    r = np.random.RandomState(1)
    for name, x in (("normal", r.randn(20000)), ("long tail", r.standard_t(3, 20000)), ("relu", abs(r.randn(9000)))):
        wide = abs(x).max()
        counts, edges = np.histogram(x, bins=2001, range=(-wide, wide))
        levels = 511 if name == "relu" else 255
        found[f"threshold {name}"] = np.array([v.asscalar() for v in mx.nd.contrib.calibrate_entropy(
            mx.nd.array(counts), mx.nd.array(edges), num_quantized_bins=levels)])
        found[f"counts {name}"], found[f"edges {name}"] = counts, edges
    np.savez_compressed(OUT, **found)


if __name__ == "__main__":
    main()
