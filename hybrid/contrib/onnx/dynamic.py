"""Lengths that vary: a graph is built for two sets of lengths, and what differs between the two is computed from the inputs when the model runs."""
from __future__ import annotations

from typing import Any, Callable, Mapping

def varying(make: Callable[..., Any], shapes: Mapping[str, tuple[int, ...]], wanted: Any) -> Any:
    raise NotImplementedError
