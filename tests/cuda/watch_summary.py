"""As a plugin of pytest (``-p tests.cuda.watch_summary``, with HYBRID_EMU_WATCH=traffic): which lines of kernels meet
banks of shared memory more than twice as often as their bytes need, at the end of the run."""
from __future__ import annotations

from collections import Counter
from typing import Any

from hybrid.runtime.cuda import watch

FACTOR, PART = 2, 0.2                                      # a hot line makes up this part of its kernel's passes
found: set[str] = set()
counted = Counter({"kernels": 0, "lines": 0})


def text_of(flow: watch.Flow) -> str:
    """The line itself, and what it costs."""
    number = int(flow.line.split(":")[1].split(" ")[0]) if flow.line.startswith("kernel.cu:") else 0
    with open(flow.module.replace(".so", ".cpp")) as file:
        lines = file.read().split('#line 1 "kernel.cu"\n')[-1].splitlines()
    line = lines[number - 1].strip() if 0 < number <= len(lines) else flow.line
    return f"{flow.factor:.1f} times in {flow.requests} requests, {flow.access} in {flow.kernel}: {line[:110]}"


def hot(module: str = "", kernel: str = "") -> list[watch.Flow]:
    """Lines with conflicts that make up a part of their kernel: of one kernel, or of all."""
    flows = [f for f in watch.traffic() if f.space == "shared"
             and (not kernel or (f.module, f.kernel) == (module.replace(".cpp", ".so"), kernel))]
    whole: Counter[tuple[str, str]] = Counter()
    for f in flows:
        whole[f.module, f.kernel] += f.cost
    return [f for f in flows if f.factor > FACTOR and f.cost > PART * whole[f.module, f.kernel]]


def pytest_runtest_teardown(item: Any) -> None:
    """Take over what the test's launches cost."""
    flows = [f for f in watch.traffic() if f.space == "shared"]
    counted.update(kernels=len({(f.module, f.kernel) for f in flows}), lines=len(flows))
    found.update(f"{item.nodeid}: {text_of(f)}" for f in hot())
    watch._flows.clear()


def pytest_sessionfinish(session: Any) -> None:
    """A worker of xdist hands over what it found."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["banks"] = [sorted(found), dict(counted)]


def pytest_testnodedown(node: Any) -> None:
    """What a worker found."""
    texts, counts = getattr(node, "workeroutput", {}).get("banks", [[], {}])
    found.update(texts)
    counted.update(counts)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The list, the worst first."""
    terminalreporter.write_line(f"banks: {counted['kernels']} kernels with shared memory, {counted['lines']} lines; "
                                f"{len(found)} hot ones above {FACTOR} times")
    for text in sorted(found, key=lambda t: -float(t.rsplit(" times in ", 1)[0].rsplit(" ", 1)[1])):
        terminalreporter.write_line(f"banks: {text}")
