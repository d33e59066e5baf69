"""Automatic names of graph nodes, as MXNet gives them: a hint and a counter, behind the prefix of the active scope."""
from __future__ import annotations

import threading
from typing import Any


class NameManager:
    """Counts hints: ``relu0``, ``relu1``, … Use it in a ``with`` block."""

    def __init__(self) -> None:
        self._counter: dict[str, int] = {}
        self._old: NameManager | None = None

    def get(self, name: str | None, hint: str) -> str:
        """The name itself, or the hint with the next number."""
        if name:
            return name
        n = self._counter.get(hint, 0)
        self._counter[hint] = n + 1
        return f"{hint}{n}"

    def __enter__(self) -> "NameManager":
        self._old = current()
        _state.value = self
        return self

    def __exit__(self, *_: Any) -> None:
        assert self._old is not None
        _state.value = self._old


class Prefix(NameManager):
    """Puts a prefix before every name."""

    def __init__(self, prefix: str):
        super().__init__()
        self._prefix = prefix

    def get(self, name: str | None, hint: str) -> str:
        return self._prefix + super().get(name, hint)


class _State(threading.local):
    def __init__(self) -> None:
        self.value: NameManager = NameManager()


_state = _State()


def current() -> NameManager:
    """The active manager of this thread."""
    return _state.value
