"""State of traced code that is refused, and what a trace leaves behind."""
from __future__ import annotations

import copy
import functools
import pickle
import warnings
from typing import Any, Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import gluon, nd
from hybrid.base.errors import TraceError, UnevaluatedError
from hybrid.graph.symbol import Symbol
from .test_traced_state import Box, as_block, average, fill, numbers, state_of

STATE: Any = None


@pytest.mark.parametrize("after, count", [(lambda x: float(x.sum()), 0), (lambda x: 1 / 0, 1)])
def test_a_trace_that_fails_leaves_no_traced_values(after: Callable[[Any], Any], count: int) -> None:
    o = fill(Box())

    def f(x: Any) -> Any:
        o.ema, o.n, o.dict["new"] = o.ema + x, o.n + 1, x
        o.list.append(x)
        return after(x)
    with pytest.raises((UnevaluatedError, ZeroDivisionError)):
        mx.hybridize(f)(nd.ones((2,)))
    assert o.n == count                                      # what code did before an error of its own stays done
    o.n = 0
    assert state_of(o) == state_of(fill(Box()))


def test_infer_shape_leaves_nothing() -> None:
    net, _ = as_block(average, False)
    net.infer_shape(nd.ones((2,)))
    assert numbers(net.ema) == [0, 0]


def out_object(x: Any) -> Any:
    return Box(v=x * 2)


def out_generator(x: Any) -> Any:
    return (v * 2 for v in [x])


def out_map(x: Any) -> Any:
    return map(lambda v: v * 2, [x])


def out_closure(x: Any) -> Any:
    return lambda: x * 2


def out_text(x: Any) -> Any:
    return {"text": f"value {x}"}


def out_nested(x: Any) -> Any:
    return [x, {"f": [out_closure(x)]}]


def kept_closure(x: Any) -> Any:
    global STATE
    STATE = lambda: x * 2                                # noqa: E731
    return x


@pytest.mark.parametrize("f", [out_object, out_generator, out_map, out_closure, out_text, out_nested, kept_closure])
def test_traced_values_that_nobody_could_renew_are_refused(f: Callable[[Any], Any]) -> None:
    global STATE
    STATE = None
    with pytest.raises(TraceError, match=r"_refused.py:\d+: .*known only when the compiled program runs"):
        mx.hybridize(f)(nd.ones((2,)))
    assert STATE is None


def swallows(x: Any) -> Any:
    try:
        s = float(x[0])
    except (TypeError, ValueError):
        s = 1.0
    return x * s


def test_a_refusal_that_the_code_swallows_is_raised() -> None:
    with pytest.raises(UnevaluatedError, match=rf"_refused.py:{swallows.__code__.co_firstlineno + 2}: float"):
        mx.hybridize(swallows)(nd.array([3.0]))


def test_traced_values_are_arrays_for_the_code() -> None:
    @mx.hybridize
    def f(x: Any) -> Any:
        return x * (2 if isinstance(x, nd.NDArray) and isinstance(x * 2, nd.NDArray)
                    and not isinstance(x, mx.np.ndarray) else 3)

    @mx.hybridize
    def g(x: Any) -> Any:
        return x * (2 if isinstance(x, mx.np.ndarray) and isinstance(x, nd.NDArray) else 3)
    assert numbers(f(nd.ones((1,)))) == [2] and g(mx.np.ones((1,))).tolist() == [2]


@mx.hybridize
class Slotted:
    """A hybridized class whose objects have no dict."""
    __slots__ = ("w", "n")

    def __init__(self) -> None:
        self.w, self.n = nd.ones((2,)) * 3, 2

    def __call__(self, x: Any) -> Any:
        return x * self.w * self.n


def test_classes_with_slots() -> None:
    a, b, x = Slotted(), Slotted(), nd.ones((2,))
    b.n = 4
    assert numbers(a(x)) == [6, 6] and numbers(b(x)) == [12, 12]
    a.n, a.w = 5, nd.ones((2,))
    assert numbers(a(x)) == [5, 5] and numbers(b(x)) == [12, 12]


class Methods:
    """Hybridized methods of every kind, in either order."""
    k = 2.0

    @classmethod
    @mx.hybridize
    def inner(cls, x: Any) -> Any:
        """A classmethod of a hybridized function."""
        return x * cls.k

    @mx.hybridize
    @classmethod
    def outer(cls, x: Any) -> Any:
        """A hybridized classmethod."""
        return x * cls.k

    @mx.hybridize
    @staticmethod
    def static(x: Any) -> Any:
        """A hybridized staticmethod."""
        return x * 5

    @mx.hybridize
    def method(self, x: Any) -> Any:
        """A hybridized method."""
        return x * self.v                                # type: ignore[attr-defined]


class Below(Methods):
    """With another value."""
    k = 7.0


def test_methods_of_classes() -> None:
    x = nd.ones((1,))
    for c, k in ((Methods, 2), (Below, 7), (Methods(), 2), (Below(), 7)):
        for _ in range(2):
            assert numbers(c.inner(x)) == numbers(c.outer(x)) == [k] and numbers(c.static(x)) == [5]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_copies_of_objects_compile_their_own(copied: Callable[[Any], Any]) -> None:
    a, x = Methods(), nd.ones((1,))
    a.v = 2.0                                            # type: ignore[attr-defined]
    assert numbers(a.method(x)) == [2]
    b = copied(a)
    b.v = 3.0
    assert numbers(b.method(x)) == [3] and numbers(a.method(x)) == [2]


@mx.hybridize
def plus_one(x: Any) -> Any:
    """For copies."""
    return x + 1


def test_copies_of_functions_are_themselves() -> None:
    assert copy.deepcopy(plus_one) is plus_one and pickle.loads(pickle.dumps(plus_one)) is plus_one


def test_what_code_did_before_an_error_of_its_own_stays_done() -> None:
    """As eagerly; traced values alone are taken out of the user's objects."""
    tries, box = [0], Box(seen=[], value=None)

    @mx.hybridize
    def f(x):
        tries[0] += 1
        box.seen.append("called")
        box.value = x * 2
        if tries[0] == 1:
            raise ValueError("once")
        return x * 3
    with pytest.raises(ValueError, match="once"):
        f(nd.ones((2,)))
    assert tries == [1] and box.seen == ["called"] and type(box.value) is not Symbol
    np.testing.assert_array_equal(f(nd.ones((2,))).asnumpy(), [3, 3])
    assert tries[0] >= 2


def test_a_refused_trace_leaves_everything_as_it_was() -> None:
    seen: list[int] = []

    @mx.hybridize
    def f(x):
        seen.append(1)
        return x * 2 if float(x.sum()) > 0 else x
    with pytest.raises(UnevaluatedError):
        f(nd.ones((2,)))
    assert seen == []


def test_code_with_functions_that_are_chosen_by_class_is_compiled() -> None:
    """``functools.singledispatch`` keeps weak references to classes, which live as long as their modules."""
    @functools.singledispatch
    def scale(v: Any, x: Any) -> Any:
        return x

    @scale.register
    def _(v: int, x: Any) -> Any:
        return x * v

    class Scaled(gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return scale(3, x) + scale("", x)
    net = Scaled()
    net.hybridize()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            assert net(nd.ones(2)).asnumpy().tolist() == [4, 4]
    assert len(net.programs) == 1
