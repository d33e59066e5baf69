"""Warnings are given at the user's line, however deep in the library they arise."""
from __future__ import annotations

import random
import re
from typing import Any, Callable

import pytest

import hybrid as mx
from hybrid import nd
from hybrid.gluon import nn

from ..paths import ROOT


@mx.hybridize
def draws(x: Any) -> Any:
    return x * random.random()


class Listed(nn.HybridBlock):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Dense(2)]


def again() -> None:
    net = nn.Dense(2, in_units=2)
    net.initialize()
    net.initialize()


WARNED: "dict[str, tuple[Callable[[], Any], str]]" = {
    "draws": (lambda: [draws(nd.ones((2,))) for _ in range(2)], "drew random numbers"),
    "layers in a list": (lambda: Listed().initialize(), "not registered"),
    "initialized again": (again, "already initialized"),
    "a rate and a schedule": (lambda: mx.optimizer.create(
        "adam", lr_scheduler=mx.lr_scheduler.FactorScheduler(10, base_lr=0.5)), "replaces the base_lr 0.5"),
    "an option": (lambda: nn.Dense(2).hybridize(fast=True), "hybridize has no option fast; it has .*: ignored"),
}


@pytest.mark.parametrize("case", WARNED)
def test_the_line(case: str) -> None:
    call, said = WARNED[case]
    with pytest.warns(UserWarning, match=said) as seen:
        call()
    assert {w.filename for w in seen} == {__file__}


def test_no_level_is_counted_by_hand() -> None:
    """``warn_user`` finds it. The modules that its own module imports cannot use it."""
    counted = re.compile(r"stacklevel=\d")
    assert {p.name for p in (ROOT / "hybrid").rglob("*.py") if counted.search(p.read_text(encoding="utf-8"))} <= {
        "config.py", "system.py"}
