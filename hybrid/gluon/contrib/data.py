"""Samplers that MXNet 1.x keeps in ``contrib``, and its corpora (``text``)."""
from __future__ import annotations

import importlib
from typing import Any

from ..data import sampler
from ..data.sampler import IntervalSampler


def __getattr__(name: str) -> Any:
    if name == "text":                                        # loaded when it is asked for
        return importlib.import_module("hybrid.contrib.text.wiki")
    raise AttributeError(f"module 'hybrid.gluon.contrib.data' has no attribute {name!r}")


__all__ = ["IntervalSampler", "sampler"]
