"""The ratios of a benchmark as an image."""
from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402


def draw(machine: str, rows: dict[str, Any], file: str) -> None:
    """How many times slower than hybrid each participant is, a group of bars a workload."""
    titles = list(rows)[::-1]
    names = list(dict.fromkeys(name for r in rows.values() for name in r["seconds"] if name != "hybrid"))
    height = 0.8 / max(len(names), 1)
    fig, ax = plt.subplots(figsize=(9, 1 + 0.16 * len(titles) * max(len(names), 3)))
    for k, name in enumerate(names):
        points = [(y, rows[t]["seconds"][name] / rows[t]["seconds"]["hybrid"])
                  for y, t in enumerate(titles) if name in rows[t]["seconds"]]
        ax.barh([y + 0.4 - (k + 0.5) * height for y, _ in points], [v - 1 for _, v in points], height, left=1,
                label=name)
    ax.axvline(1, color="black", linewidth=1)
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter(lambda v, _: f"{v:g}")
    ax.set_ylim(-0.5, len(titles) - 0.5)
    ax.set_yticks(range(len(titles)), titles)
    ax.set_xlabel("time of others / time of hybrid (right of the line: hybrid is faster)")
    ax.set_title(machine, fontsize=8)
    ax.legend(fontsize=7, ncols=2)
    fig.tight_layout()
    fig.savefig(file, dpi=120)
    plt.close(fig)


HEADLINES = {
    "MLP 512-256-128-2, batch 1": "small MLP, batch 1", "LeNet, batch 16": "LeNet, batch 16",
    "ResNet-18, batch 1": "ResNet-18, batch 1", "encoder of 4 layers, batch 1": "transformer encoder, batch 1",
    "softmax (4096, 1024)": "softmax, 4096 rows", "GELU chain, 16M floats": "GELU, 16M floats",
    "training step, MLP, batch 64, Adam": "MLP training step, Adam"}
PEERS = {"ONNX Runtime": "o", "OpenVINO": "s", "JAX jit": "^", "torch.compile": "D", "NumPy": "x", "MXNet 1.9.1": "v"}


def headline(machine: str, rows: dict[str, Any], file: str) -> None:
    """A short plot: how many times hybrid's time each of the best-known peers takes, one row a workload."""
    titles = [t for t in HEADLINES if t in rows][::-1]
    fig, ax = plt.subplots(figsize=(8, 3.4))
    for name, marker in PEERS.items():
        points = [(rows[t]["seconds"][name] / rows[t]["seconds"]["hybrid"], y)
                  for y, t in enumerate(titles) if name in rows[t]["seconds"]]
        if points:
            ax.plot(*zip(*points), marker, label=name, markersize=7)
    ax.axvline(1, color="black", linewidth=2)
    ax.annotate("hybrid", (1, len(titles) - 0.5), xytext=(0, 4), textcoords="offset points", ha="center", fontsize=9,
                weight="bold", annotation_clip=False)
    ax.set_xscale("log")
    ax.set_xlim(left=0.9)
    ax.xaxis.set_major_formatter(lambda v, _: f"{v:g}x")
    ax.xaxis.set_minor_formatter(lambda v, _: f"{v:g}x" if v in (2, 5, 20, 50) else "")
    ax.set_yticks(range(len(titles)), [HEADLINES[t] for t in titles])
    ax.set_ylim(-0.6, len(titles) - 0.5)
    ax.grid(axis="x", alpha=0.3)
    ax.set_xlabel(f"time a call takes, in multiples of hybrid's ({machine})", fontsize=8)
    ax.legend(fontsize=8, ncols=1, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    fig.tight_layout()
    fig.savefig(file, dpi=120)
    plt.close(fig)


def main() -> None:
    """Draw the short plot of recorded figures: ``python benchmarks/plot.py FIGURES.json PLOT.svg``."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("recorded", help="figures that bench.py --json wrote")
    parser.add_argument("file", help="where to draw (PNG or SVG)")
    given = parser.parse_args()
    found = json.loads(Path(given.recorded).read_text())
    headline(found["machine"], found["rows"], given.file)


if __name__ == "__main__":
    main()
