"""The ratios of a benchmark as a picture."""
from __future__ import annotations

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
        points = [(y, rows[t]["seconds"][name] / rows[t]["seconds"]["hybrid"]) for y,
                  t in enumerate(titles) if name in rows[t]["seconds"]]
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
