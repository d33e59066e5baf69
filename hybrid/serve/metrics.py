"""Counts and times of a server, in the text format that Prometheus reads."""
from __future__ import annotations

from bisect import bisect_left
from typing import Iterable, Mapping

SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128)
Labels = tuple[tuple[str, str], ...]


class Counter:
    """A number for each set of labels; a gauge is one that may fall."""

    def __init__(self, name: str, words: str, kind: str = "counter"):
        self.name, self.words, self.kind = name, words, kind
        self.values: dict[Labels, float] = {}

    def add(self, amount: float = 1, **labels: str) -> None:
        """Count."""
        key = tuple(sorted(labels.items()))
        self.values[key] = self.values.get(key, 0) + amount

    def lines(self) -> Iterable[str]:
        """The lines of the text."""
        for labels, value in sorted(self.values.items()):
            yield f"{self.name}{_labels(labels)} {value:.17g}"


class Histogram:
    """How many values lie at or below each bound, for each model."""
    kind = "histogram"

    def __init__(self, name: str, words: str, bounds: tuple[float, ...]):
        self.name, self.words, self.bounds = name, words, bounds
        self.counts: dict[str, list[int]] = {}
        self.sums: dict[str, float] = {}

    def add(self, value: float, model: str) -> None:
        """Count a value."""
        self.counts.setdefault(model, [0] * (len(self.bounds) + 1))[bisect_left(self.bounds, value)] += 1
        self.sums[model] = self.sums.get(model, 0) + value

    def lines(self) -> Iterable[str]:
        """The lines of the text."""
        for model, counts in sorted(self.counts.items()):
            below = 0
            for bound, count in zip((*(f"{b:g}" for b in self.bounds), "+Inf"), counts):
                below += count
                yield f"{self.name}_bucket{_labels((('le', bound), ('model', model)))} {below}"
            yield f"{self.name}_sum{_labels((('model', model),))} {self.sums[model]:.17g}"
            yield f"{self.name}_count{_labels((('model', model),))} {below}"


class Metrics:
    """What a server counts."""

    def __init__(self) -> None:
        self.requests = Counter("hybrid_requests_total", "Requests that were answered, by model and HTTP status; "
                                "without a model: all others.")
        self.seconds = Histogram("hybrid_request_seconds", "Seconds from the headers of an inference request to its "
                                 "answer.", SECONDS)
        self.computing = Histogram("hybrid_compute_seconds", "Seconds that requests were computed together.", SECONDS)
        self.rows = Histogram("hybrid_batch_rows", "Rows that were computed together.", ROWS)
        self.waiting = Counter("hybrid_waiting_requests", "Requests that wait to be computed.", "gauge")

    def text(self) -> str:
        """All of it."""
        lines: list[str] = []
        for m in (self.requests, self.seconds, self.computing, self.rows, self.waiting):
            lines += [f"# HELP {m.name} {m.words}", f"# TYPE {m.name} {m.kind}", *m.lines()]
        return "\n".join(lines) + "\n"


def _labels(labels: Labels | Mapping[str, str]) -> str:
    pairs = ",".join('{}="{}"'.format(k, v.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n"))
                     for k, v in (labels.items() if isinstance(labels, Mapping) else labels))
    return f"{{{pairs}}}" if pairs else ""
