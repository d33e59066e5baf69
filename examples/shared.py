"""What the training examples share: the digits, a progress bar, tables, images, timing. tqdm and matplotlib are
optional (``pip install matplotlib Pillow tqdm``); without them an example prints its numbers and says that it drew
nothing.
"""
from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Callable, Iterable, Sequence

import numpy as onp

from hybrid import autograd, gluon, nd
from hybrid.gluon import nn

# nets as small as these gain little from threads, and lose much where other work waits
os.environ.setdefault("HYBRID_NUM_THREADS", "1")
os.environ.setdefault("HYBRID_COMPILE", "now")                 # the times shown are those of compiled code
DATA = Path(__file__).resolve().parent / "data"
TEST = 360                                     # the last digits of the file, by other writers than the first
COLORS = ("#1f6f8b", "#e07a1f", "#7a9e3b", "#8c3b5e")


def digits() -> tuple[onp.ndarray, onp.ndarray]:
    """All 1797 handwritten digits as (1797, 1, 28, 28) float32 from 0 to 1, and their labels (1797,) float32.

    Each 8 by 8 image is tripled to 24 by 24 and padded by 2. The last 360 are for tests.
    """
    with onp.load(DATA / "digits.npz") as f:
        images, labels = f["images"].astype("float32") / 16, f["labels"].astype("float32")
    wide = images.repeat(3, axis=1).repeat(3, axis=2)
    return onp.pad(wide, ((0, 0), (2, 2), (2, 2)))[:, None], labels


def training_step(net: Any, loss_of: Any, trainer: gluon.Trainer) -> Callable[[Any, Any], Any]:
    """A function of inputs and labels that does one step and gives the losses. ``hybridize`` makes one program of all
    of it."""
    def step(x: Any, y: Any) -> Any:
        with autograd.record():
            loss = loss_of(net(x), y)
        loss.backward()
        trainer.step(x.shape[0])
        return loss
    return step


def lenet() -> nn.HybridSequential:
    """LeNet-5 with ReLU and max pooling: 44,426 parameters."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(6, 5, activation="relu"), nn.MaxPool2D(), nn.Conv2D(16, 5, activation="relu"), nn.MaxPool2D(),
            nn.Flatten(),
            nn.Dense(120, activation="relu"), nn.Dense(84, activation="relu"), nn.Dense(10))
    return net


def progress(steps: Iterable[Any], title: str) -> Any:
    """A tqdm progress bar around steps; the steps alone where tqdm is not installed."""
    try:
        from tqdm import tqdm  # noqa: PLC0415
    except ImportError:
        return steps
    return tqdm(steps, desc=title, ncols=100, leave=False, disable=None)      # none where the output is no terminal


def note(bar: Any, **values: Any) -> None:
    """Numbers at the end of a progress bar."""
    if hasattr(bar, "set_postfix"):
        bar.set_postfix(values)


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print columns, numbers to the right."""
    text = [[cell if isinstance(cell, str) else f"{cell:.4g}" if isinstance(cell, float) else str(cell)
             for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [list(head), *text]) for i in range(len(head))]
    for row in [list(head), *text]:
        print("  " + "  ".join(row[i].ljust(w) if i == 0 else row[i].rjust(w) for i, w in enumerate(widths)))


def milliseconds(call: Callable[[], Any], repeat: int = 20) -> float:
    """Median time of a call, after two calls that are not counted."""
    times = []
    for k in range(repeat + 2):
        begin = time.perf_counter()
        call()
        nd.waitall()
        if k >= 2:
            times.append(time.perf_counter() - begin)
    return float(onp.median(times) * 1e3)


def canvas(width: float, height: float) -> Any:
    """An empty matplotlib figure (no window is opened), or None where matplotlib is not installed."""
    try:
        import matplotlib  # noqa: PLC0415
    except ImportError:
        return None
    matplotlib.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415
    pyplot.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
                            "grid.alpha": 0.25,
                            "axes.titleweight": "bold", "axes.titlelocation": "left"})
    return pyplot.figure(figsize=(width, height), layout="constrained")


def picture(ax: Any, image: onp.ndarray, title: str = "") -> None:
    """Show one grey image in a plot, without axes."""
    ax.imshow(image, cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
    ax.set_xticks([])
    ax.set_yticks([])
    ax.grid(False)
    for spine in ax.spines.values():
        spine.set_visible(False)
    if title:
        ax.set_title(title, fontsize=9, fontweight="normal", loc="center")


def save(figure: Any, path: Path) -> None:
    """Write the figure and say where it is."""
    if figure is None:
        print("  picture                           none: matplotlib is not installed (pip install "
              "matplotlib)")
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    print(f"  picture                           {path}")
