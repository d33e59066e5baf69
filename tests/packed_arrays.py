"""Many small arrays in one file: one long array for each dtype, and where in it each array lies. An .npz with an entry
for each of thousands of small arrays is mostly headers."""
from __future__ import annotations

import math
from pathlib import Path

import numpy as np


def save(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write the arrays, in order."""
    pieces: dict[str, list[np.ndarray]] = {}
    for a in arrays.values():
        pieces.setdefault(a.dtype.name, []).append(a.ravel())
    table = [f"{name} {a.dtype.name} {','.join(map(str, a.shape))}" for name, a in arrays.items()]
    np.savez_compressed(path, table=np.frombuffer("\n".join(table).encode(), np.uint8),
                        **{f"all_{d}": np.concatenate(p) for d, p in pieces.items()})


def load(path: Path) -> dict[str, np.ndarray]:
    """The arrays by name."""
    out: dict[str, np.ndarray] = {}
    with np.load(path) as file:
        whole = {k.removeprefix("all_"): file[k] for k in file.files}
    at = dict.fromkeys(whole, 0)
    for line in whole["table"].tobytes().decode().split("\n"):
        name, dtype, axes = line.split(" ")
        shape = tuple(int(d) for d in axes.split(",") if d)
        size = math.prod(shape)
        out[name] = whole[dtype][at[dtype]:at[dtype] + size].reshape(shape)
        at[dtype] += size
    return out
