"""Keyword arguments that optimizers hand on, for type checkers: a name that is none of them is an error."""
from __future__ import annotations

from typing import Any, TypedDict


class Always(TypedDict, total=False):
    """What every optimizer hands on."""
    rescale_grad: float
    param_idx2name: dict[Any, str] | None
    wd: float
    clip_gradient: float | None
    lr_scheduler: Any
    sym: Any
    begin_num_update: int
    param_dict: dict[Any, Any] | None


class Shared(Always, total=False):
    """What an optimizer takes that hands on multi_precision, too."""
    multi_precision: bool


class Rated(Shared, total=False):
    """What an optimizer takes that has no default of its own for the rate."""
    learning_rate: float | None


class LargeBatch(Always, total=False):
    """What LBSGD hands on: multi_precision is an argument of its own."""
    learning_rate: float | None
