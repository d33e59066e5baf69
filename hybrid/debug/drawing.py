"""Drawings of a compiled program as SVG: its kernels as a graph, and its memory over time."""
from __future__ import annotations

from html import escape
from typing import Sequence

from ..runtime.report import KernelReport, Report

WIDE, HIGH, GAP, DEEP = 210, 58, 24, 46  # of a kernel's box, between boxes beside and below each other
SHOWN = 30                               # letters that fit into a box


def graph(kernels: Sequence[KernelReport], seconds: Sequence[float], key: str) -> str:
    """Kernels as boxes, each below those whose results it reads; darker where more of the time goes. key: what the
    ids that boxes link to begin with."""
    level: list[int] = []
    for k in kernels:
        level.append(1 + max((level[s] for s in k.sources if s < len(level)), default=-1))
    rows: dict[int, list[int]] = {}
    for i, at in enumerate(level):
        rows.setdefault(at, []).append(i)
    widest = max((len(r) for r in rows.values()), default=1)
    place = {}
    for at, row in rows.items():
        left = (widest - len(row)) * (WIDE + GAP) / 2
        for j, i in enumerate(row):
            place[i] = GAP + left + j * (WIDE + GAP), GAP + at * (HIGH + DEEP)
    lines = []
    for i, k in enumerate(kernels):
        x, y = place[i]
        for s in k.sources:
            lines.append(_edge(*place[s], x, y, level[i] - level[s]))
    total = sum(seconds) or 1.0
    for i, (k, t) in enumerate(zip(kernels, seconds)):
        lines.append(_box(k, t, t / total, *place[i], f"{key}k{i}"))
    width, height = 2 * GAP + widest * (WIDE + GAP) - GAP, 2 * GAP + len(rows) * (HIGH + DEEP) - DEEP
    return (f'<svg class="graph" width="{width}" height="{max(height, 0)}" viewBox="0 0 {width} {max(height, 0)}" '
            f'role="img" aria-label="graph of kernels">{"".join(lines)}</svg>')


def _edge(a: float, b: float, x: float, y: float, levels: int) -> str:
    """A line from the box at (a, b) down to the one at (x, y); past boxes between them on their right."""
    if levels > 1:
        right = max(a, x) + WIDE + min(20, GAP - 4 + levels)
        text = f"M{a + WIDE:.0f},{b + HIGH / 2:.0f} C{right:.0f},{b + HIGH:.0f} {right:.0f},{y:.0f} " \
               f"{x + WIDE:.0f},{y + HIGH / 2:.0f}"
    else:
        text = f"M{a + WIDE / 2:.0f},{b + HIGH:.0f} C{a + WIDE / 2:.0f},{b + HIGH + 30:.0f} " \
               f"{x + WIDE / 2:.0f},{y - 30:.0f} {x + WIDE / 2:.0f},{y:.0f}"
    return f'<path d="{text}" class="edge"/>'


def _box(k: KernelReport, seconds: float, share: float, x: float, y: float, link: str) -> str:
    ops = operations(k)
    text = ops if len(ops) <= SHOWN else ops[:SHOWN - 1] + "…"
    light = 97 - 37 * min(share * 1.5, 1.0)
    return (f'<a href="#{link}"><g><title>{escape(ops)}</title><rect x="{x:.0f}" y="{y:.0f}" width="{WIDE}" '
            f'height="{HIGH}" '
            f'rx="6" fill="hsl(28 90% {light:.0f}%)" class="box"/>'
            f'<text x="{x + 10:.0f}" y="{y + 18:.0f}" class="name">{escape(k.name)} · {escape(k.kind)}</text>'
            f'<text x="{x + 10:.0f}" y="{y + 34:.0f}" class="ops">{escape(text)}</text>'
            f'<text x="{x + 10:.0f}" y="{y + 50:.0f}" class="ops">{duration(seconds)} · {100 * share:.0f} % of the time'
            "</text></g></a>")


def operations(k: KernelReport) -> str:
    """What a kernel computes, without shapes."""
    return " ".join(n.split("[")[0] for n in k.nodes) or "moves elements"


def duration(seconds: float) -> str:
    """A time in a fit unit."""
    if not seconds:
        return "not timed"
    return f"{seconds * 1e6:.3g} µs" if seconds < 1e-3 else f"{seconds * 1e3:.3g} ms"


def size(count: float) -> str:
    """Bytes in a fit unit."""
    for unit in ("B", "KB", "MB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} GB"


def memory(report: Report, eager: Sequence[int]) -> str:
    """The arena over time, one column a kernel and one block a place in it; above it, as a line, what is alive where
    each operation stores its result."""
    columns = max([len(report.kernels), *(s[3] + 1 for s in report.spans)], default=1) or 1
    most = max([report.arena_bytes, *eager, 1])
    width, height, left = 820, 220, 70
    blocks = []
    for i, (at, nbytes, first, last) in enumerate(sorted(report.spans)):
        x, w = left + first * width / columns, (last - first + 1) * width / columns
        y, h = height - (at + nbytes) * height / most, nbytes * height / most
        blocks.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{max(h, 0.5):.1f}" '
                      f'fill="hsl({i * 47 % 360} 55% 70%)" class="box"><title>{size(nbytes)} at {at}, kernels {first} '
                      f'to {last}'
                      "</title></rect>")
    points = " ".join(f"{left + (i + 0.5) * width / len(eager):.1f},{height - v * height / most:.1f}"
                      for i, v in enumerate(eager))
    marks = "".join(f'<text x="{left - 6}" y="{height - v * height / most + 4:.0f}" text-anchor="end" class="ops">'
                    f"{size(v)}</text>" for v in dict.fromkeys([0, report.arena_bytes, max(eager, default=0)])
                    if v in (0, most) or abs(v - most) * height / most > 14 and v * height / most > 14)
    return (f'<svg width="{left + width + 10}" height="{height + 30}" viewBox="0 -8 {left + width + 10} {height + 30}" '
            f'role="img" aria-label="memory over time"><line x1="{left}" y1="{height}" x2="{left + width}" '
            f'y2="{height}" '
            f'class="edge"/>{"".join(blocks)}<polyline points="{points}" class="eager"/>{marks}'
            f'<text x="{left}" y="{height + 16}" class="ops">first kernel</text>'
            f'<text x="{left + width}" y="{height + 16}" text-anchor="end" class="ops">last kernel</text></svg>')
