"""``import mxnet`` as this library: which module stands for which (table), how imports find it (finder), what a program
lacks (check)."""
from __future__ import annotations

from .finder import install, installed, remove

__all__ = ["install", "installed", "remove"]
