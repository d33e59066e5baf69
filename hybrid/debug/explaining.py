"""``hybrid.explain``: one HTML page that shows what a call was compiled to, and how it runs."""
from __future__ import annotations

from collections import Counter
from html import escape
from pathlib import Path
from typing import Any, Callable, Sequence

from ..base.atomic import write_bytes
from ..base.errors import HybridError
from ..jit.debug import own_part
from ..runtime.report import KernelReport
from .compiling import compiling, name_of
from .drawing import duration, graph, memory, operations, size
from .measured import Ceiling, Measured, calls_of, machine, measured, seconds_of

MOST_SOURCE = 400_000                    # letters of a program's source on the page

STYLE = """
body{font:15px/1.5 system-ui,'DejaVu Sans',sans-serif;color:#1d2733;background:#fff;max-width:1100px;margin:2em auto;
padding:0 1.2em}
h1{font-size:1.5em;margin-bottom:.2em}h2{font-size:1.2em;margin-top:2em;border-top:1px solid #dde3ea;padding-top:1em}
h3{font-size:1em;margin:1.4em 0 .4em}
.hybrid table{border-collapse:collapse;width:100%;font-size:13px}.hybrid td,.hybrid th{text-align:left;padding:.35em .6em;
border-bottom:1px solid #e5eaf0;vertical-align:top}.hybrid th{color:#5a6b7d;font-weight:600}
.hybrid td.n{text-align:right;white-space:nowrap}
.hybrid .scroll{overflow:auto;max-height:900px;border:1px solid #e5eaf0;border-radius:6px}
.hybrid .edge{stroke:#9aa8b6;fill:none;stroke-width:1.3}.hybrid .box{stroke:#7d8b99;stroke-width:.7}
.hybrid .eager{fill:none;stroke:#c0392b;stroke-width:1.8}.hybrid .name{font:600 12px system-ui,sans-serif;fill:#1d2733}
.hybrid .ops{font:11px system-ui,sans-serif;fill:#3b4a59}.hybrid tr:target{background:#fff3d6}
.hybrid pre{font-size:11px;background:#f6f8fa;padding:1em;overflow:auto;max-height:600px}
.hybrid .bar{display:inline-block;height:8px;background:#e08a3c;border-radius:2px;vertical-align:middle;margin-right:6px}
.hybrid .small{color:#5a6b7d;font-size:13px}.hybrid svg{max-width:none}
.hybrid li,.hybrid td,.hybrid h1,.hybrid h2{overflow-wrap:break-word}
@media(max-width:760px){body{margin:1em auto;padding:0 .8em}.hybrid tr{display:block;padding:.5em 0;
border-bottom:1px solid #e5eaf0}.hybrid th{display:none}.hybrid td,.hybrid td.n{display:block;text-align:left;
border:0;padding:.05em 0;white-space:normal}.hybrid td[data-name]:not(:empty)::before{content:attr(data-name) ": ";
color:#5a6b7d}}
"""  # noqa: E501


class Explanation:
    """What ``explain`` found. ``html`` is a page of its own, which needs no network; ``save(path)`` writes it, and a
    notebook shows it. ``programs`` are the numbers behind it."""

    def __init__(self, title: str, programs: list[Measured], ceiling: Ceiling, misses: Sequence[str], seconds: float):
        self.title, self.programs, self.ceiling, self.misses = title, programs, ceiling, list(misses)
        self.seconds = seconds                           # of a call from Python, 0 where it was not timed

    @property
    def body(self) -> str:
        """The page without its frame."""
        kernels = sum(sum(p.seconds) for p in self.programs)
        call = f"A call from Python takes {duration(self.seconds)}. " if self.seconds else ""
        parts = [f"<h1>{escape(self.title)}</h1><p>{call}{counted(len(self.programs), 'compiled program')}, whose "
                 f"kernels take {duration(kernels)} when each is timed by itself. This machine reads "
                 f"{size(self.ceiling.bytes)} a second from memory and does {self.ceiling.products / 1e9:.3g} billion "
                 "multiplications with additions a second, measured now: below stands what share of that each kernel "
                 "reaches.</p>"]
        parts += [_program(p, i, self.ceiling) for i, p in enumerate(self.programs)]
        misses = "".join(f"<li>{escape(m)}</li>" for m in self.misses)
        parts.append(f"<h2>Calls that had to be compiled</h2><ol>{misses}</ol>" if misses else "")
        return f'<style>{STYLE}</style><div class="hybrid">{"".join(parts)}</div>'

    @property
    def html(self) -> str:
        """The whole page."""
        return ('<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
                f'content="width=device-width"><title>{escape(self.title)}</title></head>'
                f"<body>{self.body}</body></html>")

    def _repr_html_(self) -> str:
        return self.body

    def save(self, path: Any) -> Path:
        """Write the page to a file; its path."""
        write_bytes(str(path), self.html.encode())
        return Path(path)

    def __repr__(self) -> str:
        kernels = [(t, p.name, k) for p in self.programs for k, t in zip(p.report.kernels, p.seconds)]
        lines = [f"{self.title}: {counted(len(self.programs), 'program')}, {counted(len(kernels), 'kernel')}"]
        lines += [f"  {duration(t):>9}  {name}: {k.name} {operations(k)[:80]}"
                  for t, name, k in sorted(kernels, key=lambda row: -row[0])[:10]]
        return "\n".join([*lines, "  save(path) writes the page"])


def explain(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """What a call of a function or network is compiled to: its kernels as a graph, how long each takes, how near it
    comes to what the machine can do, why values are stored, memory over time, and the source, as one HTML page.

    The function is called once, and its programs some times more, on copies: arrays and the random state stay as they
    are. Where a call changes nothing else, it is made some times more, to be timed. What is not hybridized is, for this
    call alone.

    >>> import hybrid as mx
    >>> from hybrid import nd
    >>> page = mx.explain(mx.hybridize(lambda x: nd.softmax(x) * 2), nd.ones((4, 8)))
    >>> page.html.startswith("<!DOCTYPE html>"), len(page.programs)
    (True, 1)
    """
    fast = compiling(f, "explain")
    calls, again = calls_of(fast, args, kwargs)
    name = name_of(f)
    if not calls:
        raise HybridError(f"explain: {name} called no compiled program; its warnings say why it runs as plain Python")
    engine = getattr(fast, "_engine", None) or getattr(fast, "engine", None)
    return Explanation(str(name), [measured(c) for c in calls], machine(), getattr(engine, "cache_misses", []),
                       seconds_of(fast, args, kwargs) if again else 0.0)


def counted(number: int, thing: str) -> str:
    """A number of things, in words."""
    return f"{number} {thing}{'s' * (number != 1)}"


def _program(p: Measured, number: int, ceiling: Ceiling) -> str:
    r, key = p.report, f"p{number}"
    rows = "".join(_row(k, t, sum(p.seconds), ceiling, f"{key}k{i}")
                   for i, (k, t) in enumerate(zip(r.kernels, p.seconds)))
    peak = max(p.eager, default=0)
    refused: dict[tuple[str, str], int] = {}
    for pair in r.refusals:
        refused[pair] = refused.get(pair, 0) + 1
    stored = "".join(f"<tr><td>{escape(what)}</td><td data-name=because>{escape(why)}</td><td data-name=times "
                     f"class=n>{count}</td></tr>"
                     for (what, why), count in refused.items())
    said = Counter([*r.layout, *(f"watched: {w}" for w in r.watched)])
    notes = "".join(f"<li>{escape(n)}{f' ({count} times)' if count > 1 else ''}</li>" for n, count in said.items())
    return "".join([
        f"<h2>{escape(p.name)}</h2><p>{counted(r.eager_kernels, 'operation')} became "
        f"{counted(len(r.kernels), 'kernel')}, which take {duration(sum(p.seconds))} together.</p>",
        f'<div class="scroll">{graph(r.kernels, p.seconds, key)}</div>' if r.kernels else "",
        "<h3>Kernels</h3><table><tr><th>kernel<th>computes<th>time<th>share of the machine's limit<th>for these "
        f"lines<th>result stored because, form</tr>{rows}</table>" if rows else "",
        f"<h3>Memory over time</h3><p class=small>Coloured: values between kernels, in one block of memory of "
        f"{size(r.arena_bytes)}; results take {size(r.output_bytes)}. Red: what eager code holds, where each operation "
        f'stores its result, up to {size(peak)}.</p><div class="scroll">{memory(r, p.eager)}</div>',
        f"<h3>Not fused</h3><table><tr><th>value<th>because<th>times</tr>{stored}</table>" if stored else "",
        f"<h3>Layouts of arrays, and values that are shown at each call</h3><ul>{notes}</ul>" if notes else "",
        _source(own_part(r.source), r.source_path)])


def _row(k: KernelReport, seconds: float, total: float, ceiling: Ceiling, anchor: str) -> str:
    share, bound = ceiling.share(k, seconds)
    limit = "reading memory" if bound == "memory" else "multiplying"
    reached = ("" if not seconds else f"{100 * min(share, 1):.0f} % of {limit}" if share <= 1.05
               else "faster than memory: in the caches" if bound == "memory" else "over it: a form with fewer products")
    width = 60 * seconds / total if total else 0
    return (f'<tr id="{anchor}"><td>{escape(k.name)}<br><span class=small>{escape(k.kind)}</span><td '
            f'data-name=computes>{escape(operations(k)[:200])}<td data-name=time class=n><span class=bar '
            f'style="width:{width:.0f}px"></span>{duration(seconds)}'
            f'<td data-name=reaches>{reached}<td data-name="for these lines" class=small>{_lines(k)}<td '
            f'data-name="stored because" class=small>{escape(k.reason)}{_form(k)}</tr>')


def _lines(k: KernelReport) -> str:
    """The user's lines that a kernel computes, each with its operators; the whole path where the pointer rests."""
    places: dict[str, list[str]] = {}
    for operator, place in k.lines:
        places.setdefault(place, []).append(operator)
    rows = [f'<span title="{escape(at)}">{escape(at.replace(chr(92), "/").rsplit("/", 1)[-1])}</span>: '
            f"{escape(', '.join(names))}" for at, names in places.items()]
    return "<br>".join(rows[:6]) + (f"<br>and {len(rows) - 6} more lines" if len(rows) > 6 else "")


def _form(k: KernelReport) -> str:
    """How a kernel is computed, and why other forms were not taken."""
    if not k.form:
        return ""
    others = "".join(f"<li>{escape(form)}: {escape(why)}" for form, why in k.not_taken)
    return f"<br>as {escape(k.form)}" + (f"<details><summary>other forms</summary><ul>{others}</ul></details>"
                                         if others else "")


def _source(text: str, path: str) -> str:
    if not text:
        return ""
    cut = f"\n… {len(text) - MOST_SOURCE} letters more in {path}" if len(text) > MOST_SOURCE else ""
    return (f"<details><summary>Source ({text.count(chr(10))} lines, {escape(path)})</summary><pre>"
            f"{escape(text[:MOST_SOURCE] + cut)}</pre></details>")
