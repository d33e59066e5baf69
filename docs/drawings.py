"""The drawings of the documentation: ``python docs/drawings.py`` writes images/pipeline.svg, arena.svg, schedule.svg.

The arena is that of a real plan (LeNet, 16 images) on the machine that draws it.
"""
from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any, Iterable

from hybrid import nd
from hybrid.gluon import nn

IMAGES = Path(__file__).parent / "images"
INK, GREY, BLUE, GREEN, AMBER, RED = "#222", "#777", "#d6e6f7", "#dcf0dd", "#fbeccb", "#f8dcd8"
COLOURS = (BLUE, GREEN, AMBER, RED, "#e6def3", "#dff1f1")


class Drawing:
    """Boxes, arrows and texts, as SVG."""

    def __init__(self, width: int, height: int):
        self.size, self.parts = (width, height), list[str]()

    def text(self, x: float, y: float, words: str, size: int = 14, anchor: str = "middle", colour: str = INK,
             weight: str = "normal") -> None:
        """One line of text."""
        self.parts.append(f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" fill="{colour}" '
                          f'font-weight="{weight}">{escape(words)}</text>')

    def box(self, x: float, y: float, w: float, h: float, lines: Iterable[str] = (), fill: str = BLUE,
            edge: str = INK, dashed: bool = False) -> None:
        """A rectangle; the first of its lines is bold."""
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="4" fill="{fill}" '
                          f'stroke="{edge}"{dash}/>')
        rows = list(lines)
        for k, line in enumerate(rows):
            self.text(x + w / 2, y + h / 2 + 5 + 17 * (k - (len(rows) - 1) / 2), line, 14 if not k else 12,
                      weight="normal" if k else "bold", colour=GREY if k else INK)

    def arrow(self, *points: tuple[float, float], colour: str = INK) -> None:
        """A line through points, with a head at its end."""
        path = " L ".join(f"{x:g} {y:g}" for x, y in points)
        self.parts.append(f'<path d="M {path}" fill="none" stroke="{colour}" stroke-width="1.5" '
                          f'marker-end="url(#head)"/>')

    def svg(self) -> str:
        """The text of the file."""
        w, h = self.size
        head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" height="{h}" '
                'font-family="DejaVu Sans, Helvetica, Arial, sans-serif">\n<defs><marker id="head" markerWidth="9" '
                'markerHeight="9" refX="8" refY="4" orient="auto"><path d="M0 0 L9 4 L0 8 z" fill="#222"/></marker>'
                f'</defs>\n<rect width="{w}" height="{h}" fill="#fff"/>\n')
        return head + "\n".join(self.parts) + "\n</svg>\n"

    def save(self, name: str) -> None:
        """Write the file."""
        path = IMAGES / f"{name}.svg"
        beside = path.with_suffix(".new")
        beside.write_text(self.svg(), encoding="utf-8")
        beside.replace(path)


def pipeline() -> Drawing:
    """What happens in a call."""
    d = Drawing(860, 400)
    d.box(20, 20, 150, 60, ("your function", "@hybridize"), "#fff")
    d.box(220, 20, 210, 60, ("signature", "shapes, dtypes, what was read"), AMBER)
    d.arrow((170, 50), (218, 50))
    steps = (("trace", "your code runs once", "on Symbols"), ("lower", "operators become", "25 primitives"),
             ("passes", "fold, layout, fuse,", "gradients, memory"), ("print", "C or CUDA", "for each kernel"),
             ("compile", "gcc, clang, zig,", "NVRTC"))
    for k, lines in enumerate(steps):
        x = 20 + 168 * k
        d.box(x, 150, 140, 80, lines, BLUE)
        if k:
            d.arrow((x - 28, 190), (x - 2, 190))
    d.arrow((325, 80), (325, 115), (90, 115), (90, 148))
    d.text(335, 105, "new", 12, "start", GREY)
    d.box(692, 290, 140, 60, ("disk cache", "by content"), GREEN)
    d.arrow((762, 230), (762, 288))
    d.box(440, 290, 190, 60, ("program", "one foreign call"), GREEN)
    d.arrow((692, 320), (632, 320))
    d.box(600, 20, 232, 60, ("launcher in C", "compares, allocates, calls"), AMBER)
    d.arrow((430, 50), (598, 50))
    d.text(513, 42, "seen before", 12, colour=GREY)
    d.arrow((716, 80), (716, 115), (845, 115), (845, 262), (560, 262), (560, 288))
    d.box(230, 290, 150, 60, ("results", "new arrays"), "#fff")
    d.arrow((440, 320), (382, 320))
    d.text(430, 385, "The first call takes the blue way, which ends in the cache; later ones go from the launcher to "
           "the program.", 12, colour=GREY)
    return d


def lenet() -> Any:
    """The report of LeNet for 16 images."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(20, 5, activation="relu"), nn.MaxPool2D(2, 2), nn.Conv2D(50, 5, activation="relu"),
            nn.MaxPool2D(2, 2), nn.Flatten(), nn.Dense(500, activation="relu"), nn.Dense(10))
    net.initialize()
    net.hybridize()
    net(nd.ones((16, 1, 28, 28)))
    return net.report()


def what(kernel: Any) -> str:
    """The layers that a kernel computes, in a few words."""
    layers = {"Convolution": "conv", "FullyConnected": "dense", "Activation": "relu", "Pooling": "pool"}
    found = [layers[name] for name, _ in kernel.lines if name in layers]
    return ", ".join(found) if found and kernel.kind != "elementwise" else "order elements"


def arena() -> Drawing:
    """Values in the arena of LeNet: across, the kernels; upwards, bytes."""
    report = lenet()
    spans, names = sorted(report.spans, key=lambda s: s[2]), [what(k) for k in report.kernels]
    d, top = Drawing(860, 430), max(at + size for at, size, _, _ in spans)
    left, base, wide, high = 90, 350, 740 / len(names), 290 / top
    for k, name in enumerate(names):
        d.text(left + wide * (k + 0.5), base + 22, f"k{k}", 13, weight="bold")
        d.text(left + wide * (k + 0.5), base + 39, name, 11, colour=GREY)
        if k:
            x = left + wide * k
            d.parts.append(f'<path d="M {x:g} {base} L {x:g} 50" stroke="#ddd"/>')
    for k, (at, size, first, last) in enumerate(spans):
        x, h = left + wide * first, size * high
        d.box(x + 3, base - (at + size) * high, wide * (last - first + 1) - 6, max(h, 3), (), COLOURS[k % len(COLOURS)])
        middle = base - (at + size / 2) * high
        d.text(x + wide * (last - first + 1) / 2, middle + 4 if h > 18 else middle - 6,
               f"made by k{first}: {size:,} bytes", 12)
    d.arrow((left, base), (left, 36))
    d.arrow((left, base), (838, base))
    d.text(left - 6, base - 285, f"{top:,}", 11, "end", GREY)
    d.text(left - 6, base, "0", 11, "end", GREY)
    d.text(430, 24, f"Arena of LeNet, 16 images: {top:,} bytes; eager code makes {report.eager_bytes:,} in all", 14,
           weight="bold")
    d.text(left + 370, base + 66, "kernels, in the order in which they run", 12, colour=GREY)
    return d


def schedule() -> Drawing:
    """How a product runs."""
    d = Drawing(860, 400)
    d.text(430, 26, "C = relu(A B + bias), as one kernel", 15, weight="bold")
    d.box(40, 150, 120, 190, (), "#fff")
    d.text(100, 140, "A: rows")
    for k in range(5):
        d.box(40, 150 + 38 * k, 120, 38, ("tile of rows",) if k == 1 else (), AMBER if k == 1 else "#fff", GREY)
    d.box(240, 50, 270, 70, (), "#fff", GREY)
    d.text(232, 90, "B", 14, "end")
    d.box(330, 50, 60, 70, ("panel",), GREEN)
    d.box(610, 50, 220, 70, ("packed panel", "each thread's own, stays in the", "second cache: 48 to 128 KB"), GREEN)
    d.arrow((390, 72), (608, 72))
    d.text(560, 64, "copied once", 11, colour=GREY)
    d.box(240, 150, 270, 190, (), "#fff", GREY)
    d.text(232, 172, "C", 14, "end")
    d.box(330, 188, 60, 38, ("tile",), BLUE)
    d.box(330, 226, 60, 114, (), "#fff", GREY, dashed=True)
    d.box(610, 160, 220, 84, ("sums in registers", "a few rows times a few vectors;",
                                "no memory until they are done"), BLUE)
    d.box(610, 276, 220, 64, ("epilogue", "+ bias, relu, then one store"), RED)
    d.arrow((162, 207), (328, 207))
    d.arrow((390, 207), (608, 207))
    d.arrow((720, 122), (720, 158))
    d.arrow((720, 246), (720, 274))
    d.arrow((608, 308), (392, 222))
    d.text(430, 380, "Down all tiles of rows with one panel, then the next panel; threads take different panels. Sizes "
           "are chosen by counted cycles.", 12, colour=GREY)
    return d


if __name__ == "__main__":
    for made in (pipeline, arena, schedule):
        made().save(made.__name__)
