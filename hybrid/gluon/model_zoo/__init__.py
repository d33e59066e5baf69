"""Known networks with MXNet's parameter names, so that its published files load."""
from __future__ import annotations

from . import model_store, vision
from .vision import get_model

__all__ = ["get_model", "model_store", "vision"]
