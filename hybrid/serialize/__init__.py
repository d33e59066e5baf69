"""Model files: MXNet's ``.params`` and ``-symbol.json``, and files that appear whole or not at all."""
from __future__ import annotations

from . import symbol_json
from .export import export_symbol
from .ndarrays import load, load_frombuffer, save

__all__ = ["export_symbol", "load", "load_frombuffer", "save", "symbol_json"]
