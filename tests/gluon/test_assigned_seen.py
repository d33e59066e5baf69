"""Assignments to attributes of networks that code reads in roundabout ways, and those of copies and of networks from
files."""
from __future__ import annotations

import builtins
import copy
import functools
import inspect
import operator
import pickle
from typing import Any, Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import gluon, nd
from hybrid.gluon import assigned

X = nd.array([[1.0, 2.0], [3.0, 4.0]])
NAME = "".join(["fac", "tor"])
READS: list[Any] = [getattr]
READ, GETTER = getattr, operator.attrgetter
WAYS: dict[str, Callable[[Any], Any]] = {
    "list": lambda net: READS[0](net, NAME), "variable": lambda net: READ(net, NAME),
    "default": lambda net, read=getattr: read(net, NAME), "module": lambda net: builtins.getattr(net, NAME),
    "attrgetter": lambda net: GETTER(NAME)(net), "partial": lambda net: functools.partial(READ, net)(NAME),
    "state": lambda net: net.__getstate__()[NAME], "static": lambda net: inspect.getattr_static(net, NAME),
    "methodcaller": lambda net: operator.methodcaller("__getattribute__", NAME)(net),
    "text": lambda net: float(("{." + NAME + "}").format(net))}


class Roundabout(gluon.HybridBlock):
    """Multiplies by an attribute that a function reads."""

    def __init__(self, read: Callable[[Any], Any]) -> None:
        super().__init__()
        self.read = read
        vars(self)[NAME] = 1.0

    def forward(self, x: Any) -> Any:
        return x * self.read(self)


@pytest.mark.parametrize("way", WAYS)
def test_attributes_that_are_read_by_names_made_while_code_runs(way: str) -> None:
    net = Roundabout(WAYS[way])
    net.hybridize()
    for value in (1.0, 1.0, 1.0, 2.0, 1.0, 3.0):
        setattr(net, NAME, value)
        np.testing.assert_array_equal(net(X).asnumpy(), X.asnumpy() * value)


class Held(gluon.HybridBlock):
    """Holds numbers for others, and adds them up itself."""

    def __init__(self) -> None:
        super().__init__()
        self.scale: Any = 1.0
        self.added: Any = one

    def forward(self, x: Any) -> Any:
        return x * self.scale + self.added()


def one() -> float:
    """One."""
    return 1.0


def two() -> float:
    """Two."""
    return 2.0


@pytest.mark.parametrize("through", [lambda held: held, lambda held: {"it": [held]}])
def test_functions_that_read_a_network_and_do_not_call_it(through: Callable[[Any], Any]) -> None:
    held = Held()
    there = through(held)

    @mx.hybridize
    def scaled(x: Any) -> Any:
        return x * (there["it"][0].scale if isinstance(there, dict) else there.scale)

    for value in (1.0, 1.0, 1.0, 2.0, 1.0, nd.array([3.0]), nd.array([4.0]), 2.0):
        held.scale = value
        want = value.asnumpy() if isinstance(value, nd.NDArray) else value
        np.testing.assert_array_equal(scaled(X).asnumpy(), X.asnumpy() * want)


def _same_as_eager(net: Any) -> None:
    for _ in range(2):
        np.testing.assert_array_equal(net(X).asnumpy(), X.asnumpy() * net.scale + net.added())


def test_copies_are_in_states_of_their_own() -> None:
    net = Held()
    net.hybridize()
    net.scale = 3.0
    _same_as_eager(net)
    other = copy.copy(net)
    for added in (two, one, two):                        # other has been where net is, with another function
        other.added = added
        for each, scale in ((net, 4.0), (other, 4.0), (net, 3.0), (other, 3.0), (other, 4.0)):
            each.scale = scale
            _same_as_eager(each)


def test_a_network_of_another_process_is_in_a_state_of_its_own() -> None:
    net = Held()
    vars(net)["_version"] = assigned.another() + 20      # as in a process in which more was assigned
    net = pickle.loads(pickle.dumps(net))
    net.hybridize()
    for value in range(40):
        _same_as_eager(net)
        net.scale = float(value)
