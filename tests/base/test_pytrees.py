"""Objects as nested arguments and results: dataclasses, attrs classes, registered ones."""
from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import hybrid as mx
from hybrid import nd
from hybrid.base.errors import AttributeValueError


@dataclasses.dataclass
class State:
    a: Any
    n: int = 3


@dataclasses.dataclass(frozen=True)
class Outer:
    inner: State
    name: str = "x"


class Point:
    def __init__(self, x: Any, y: Any, unit: str = "m"):
        self.x, self.y, self.unit = x, y, unit


mx.register_pytree(Point, lambda p: ((p.x, p.y), p.unit), lambda unit, parts: Point(*parts, unit))


class Attrs:                                      # as a class of attrs, which need not be installed
    __attrs_attrs__ = (type("a", (), {"name": "a"}), type("b", (), {"name": "b"}))

    def __init__(self, a: Any, b: Any):
        self.a, self.b = a, b


def numbers(x: Any) -> list:
    return x.asnumpy().tolist()


def test_results_are_made_again_at_every_call() -> None:
    f = mx.hybridize(lambda x: Outer(State(x * 2, 5), "y"))
    first, second = f(nd.array([1, 2])), f(nd.array([3, 4]))
    assert numbers(first.inner.a) == [2, 4] and numbers(second.inner.a) == [6, 8]
    assert (second.inner.n, second.name) == (5, "y") and type(second) is Outer and first.inner is not second.inner
    g = mx.hybridize(lambda x: [Attrs(x + 1, None)])
    assert [numbers(g(nd.array([k]))[0].a) for k in range(3)] == [[1], [2], [3]]


def test_registered_objects_are_arguments() -> None:
    f = mx.hybridize(lambda p: Point(p.y * 2, p.x, p.unit + "!"))
    for k in (1, 2):
        found = f(Point(nd.array([k]), nd.array([k + 10])))
        assert (numbers(found.x), numbers(found.y), found.unit) == ([2 * k + 20], [k], "m!")
    assert f(Point(nd.array([1]), nd.array([1]), "km")).unit == "km!"


def test_objects_that_hold_no_result_stay_what_they_are() -> None:
    kept = State(nd.array([1]))
    f = mx.hybridize(lambda x: (x * 2, kept))
    assert f(nd.array([1]))[1] is kept and f(nd.array([2]))[1] is kept


@pytest.mark.parametrize("hybridized", [False, True])
def test_derivatives_and_maps(hybridized: bool) -> None:
    way: Any = mx.hybridize if hybridized else lambda f: f
    found = way(mx.grad(lambda s: (s.a ** 2).sum()))(State(nd.array([1, 2])))
    assert isinstance(found, State) and numbers(found.a) == [2, 4] and found.n == 3
    rows = way(mx.vmap(lambda s: State(s.a.sum(), s.n)))(State(nd.array([[1, 2], [3, 4]])))
    assert numbers(rows.a) in ([3, 7], [[3], [7]])
    turned = way(mx.grad(lambda p: (p.x * p.y).sum()))(Point(nd.array([2]), nd.array([5])))
    assert numbers(turned.x) == [5] and numbers(turned.y) == [2] and turned.unit == "m"


def test_wrong_registrations() -> None:
    for cls in (list, 3, dict):
        with pytest.raises(AttributeValueError, match="register_pytree takes a class of your own"):
            mx.register_pytree(cls, lambda x: (x, None), lambda r, c: c)                     # type: ignore[arg-type]
