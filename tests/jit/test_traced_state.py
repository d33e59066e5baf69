"""What traced code assigns happens at every call, as eagerly: each case eager against hybridized over several calls."""
from __future__ import annotations

import warnings
from collections import deque
from typing import Any, Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.buffers.array import NDArray
from hybrid.graph.symbol import Symbol

STATE: Any = None
COUNT = 0


def numbers(value: Any) -> Any:
    """A value with lists of numbers in the place of arrays. A traced value that was left behind is an error."""
    assert type(value) is not Symbol
    if isinstance(value, NDArray):
        return value.asnumpy().tolist()
    if isinstance(value, (list, tuple, deque)):
        return [numbers(v) for v in value]
    if isinstance(value, dict):
        return {k: numbers(v) for k, v in value.items()}
    if isinstance(value, Box):
        return numbers(vars(value))
    return value


class Box:
    """An object of the user's."""

    def __init__(self, **attributes: Any):
        self.__dict__.update(attributes)

    def remember(self, x: Any) -> None:
        """Assigns in a method."""
        self.last = x


class Slots:
    """An object without a dict."""
    __slots__ = ("h",)

    def __init__(self) -> None:
        self.h = nd.zeros((2,))


def assigns_global(x: Any, o: Any) -> Any:
    global STATE
    STATE = STATE + x
    return STATE * 2


def counts_globally(x: Any, o: Any) -> Any:
    global COUNT
    COUNT += 1
    return x * COUNT


def average(x: Any, o: Any) -> Any:
    o.ema = o.ema * 0.5 + x
    return o.ema * 1


def gives_what_it_keeps(x: Any, o: Any) -> Any:
    o.ema = o.ema + x
    return o.ema


def only_writes(x: Any, o: Any) -> Any:
    o.last = x * 2
    return x + 1


def keeps_the_argument(x: Any, o: Any) -> Any:
    before, o.ema = o.ema, x
    return before + x


def swaps(x: Any, o: Any) -> Any:
    o.a, o.b = o.b + x, o.a
    return o.a - o.b


def makes_once(x: Any, o: Any) -> Any:
    if o.h is None:
        o.h = nd.zeros((2,))
    o.h = o.h + x
    return o.h * 1


def in_place(x: Any, o: Any) -> Any:
    o.ema += x
    return o.ema * 2


def number(x: Any, o: Any) -> Any:
    o.n += 1
    return x * o.n


def shape_noted(x: Any, o: Any) -> Any:
    o.shape = x.shape
    return x * 2


def appends(x: Any, o: Any) -> Any:
    o.list.append(x * 2)
    return x + len(o.list)


def list_of_losses(x: Any, o: Any) -> Any:
    loss = (x * x).sum()
    o.list += [loss]
    return loss


def list_item(x: Any, o: Any) -> Any:
    o.pair[0] = o.pair[0] + x
    return o.pair[0] * o.pair[1]


def dict_item(x: Any, o: Any) -> Any:
    o.dict["h"] = o.dict["h"] + x
    return o.dict["h"] * 2


def new_list(x: Any, o: Any) -> Any:
    o.pair = [o.pair[0] + x, o.pair[1]]
    return o.pair[0] * 2


def new_tuple(x: Any, o: Any) -> Any:
    o.pair = (o.pair[1], o.pair[0] + x)
    return o.pair[0] * 2


def queue(x: Any, o: Any) -> Any:
    o.queue.append(x)
    return sum(o.queue)


def nested_object(x: Any, o: Any) -> Any:
    o.inner.remember(x * 3)
    o.inner.h = o.inner.h + x
    return o.inner.h * 2


def new_object(x: Any, o: Any) -> Any:
    o.inner = Box(h=o.inner.h + x)
    return o.inner.h * 2


def removes(x: Any, o: Any) -> Any:
    if "gone" in o.dict:
        del o.dict["gone"]
    return x * len(o.dict)


def in_slots(x: Any, o: Any) -> Any:
    o.slots.h = o.slots.h + x
    return o.slots.h * 2


def constant_array(x: Any, o: Any) -> Any:
    o.ema = nd.ones((2,)) * 3
    return x + o.ema


def of_a_class(x: Any, o: Any) -> Any:
    Box.total = getattr(Box, "total", 0) + 1
    return x * Box.total


FUNCTIONS = [assigns_global, counts_globally, average, gives_what_it_keeps, only_writes, keeps_the_argument, swaps,
             makes_once, in_place, number, shape_noted, appends,
             list_of_losses, list_item, dict_item, new_list, new_tuple, queue, nested_object, new_object, removes,
             in_slots, constant_array, of_a_class]


def fill(o: Any) -> Any:
    """An object with something to assign to of each kind."""
    values = {"ema": nd.zeros((2,)), "a": nd.zeros((2,)), "b": nd.ones((2,)), "h": None, "n": 0, "list": [],
              "pair": [nd.zeros((2,)), nd.ones((2,))], "last": None,
              "dict": {"h": nd.zeros((2,)), "gone": 1}, "queue": deque(maxlen=2), "inner": Box(h=nd.zeros((2,))),
              "slots": Slots(), "shape": None}
    for k, v in values.items():
        setattr(o, k, v)
    return o


def state_of(o: Any) -> Any:
    own = {k: getattr(o, k) for k in ("ema", "a", "b", "h", "n", "list", "pair", "last", "dict", "queue", "inner",
                                      "shape")}
    return numbers({**own, "slots": o.slots.h, "global": STATE, "count": COUNT, "class": getattr(Box, "total", 0)})


def as_argument(code: Callable[..., Any], compiled: bool) -> tuple[Any, Any]:
    o = fill(Box())
    call = mx.hybridize(code) if compiled else code
    return o, lambda x: call(x, o)


def as_closure(code: Callable[..., Any], compiled: bool) -> tuple[Any, Any]:
    o = fill(Box())

    def f(x: Any) -> Any:
        return code(x, o)
    return o, mx.hybridize(f) if compiled else f


def as_block(code: Callable[..., Any], compiled: bool) -> tuple[Any, Any]:
    class Net(gluon.HybridBlock):
        def forward(self, x: Any) -> Any:
            return code(x, self)
    net = fill(Net())
    if compiled:
        net.hybridize()
    return net, net


def as_child(code: Callable[..., Any], compiled: bool) -> tuple[Any, Any]:
    child, _ = as_block(code, False)
    net = gluon.nn.HybridSequential()
    net.add(child)
    if compiled:
        net.hybridize()
    return child, net


def as_object(code: Callable[..., Any], compiled: bool) -> tuple[Any, Any]:
    class Model(Box):
        def forward(self, x: Any) -> Any:
            return code(x, self)
    o = fill((mx.hybridize(Model) if compiled else Model)())
    return o, o.forward


def run(make: Callable[..., Any], code: Callable[..., Any], compiled: bool) -> list[Any]:
    global STATE, COUNT
    STATE, COUNT = nd.zeros((2,)), 0
    if hasattr(Box, "total"):
        del Box.total
    o, call = make(code, compiled)
    out = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(1, 6):
            x = nd.array([k, 2 * k])
            out.append(numbers(call(x)))
            out.append(state_of(o))
            if k == 4:                                   # from outside, between two calls
                o.ema, STATE = nd.ones((2,)) * 7, nd.ones((2,)) * 9
    return out


@pytest.mark.parametrize("make", [as_argument, as_closure, as_block, as_child, as_object])
@pytest.mark.parametrize("code", FUNCTIONS)
def test_assignments_happen_at_every_call(code: Callable[..., Any], make: Callable[..., Any]) -> None:
    assert run(make, code, False) == run(make, code, True)


@pytest.mark.parametrize("code", [average, only_writes, assigns_global, swaps, in_place])
@pytest.mark.parametrize("make", [as_closure, as_block])
def test_arrays_that_are_assigned_are_results_of_one_program(code: Callable[..., Any], make: Callable[..., Any],
                                                             recwarn: Any) -> None:
    global STATE
    STATE = nd.zeros((2,))
    o, call = make(code, True)
    o.last = nd.zeros((2,))
    for k in range(8):
        call(nd.array([k, 1]))
    misses = call.cache_misses
    assert len(misses) == 1 and not [w for w in recwarn if "plain Python" in str(w.message)]


def test_a_variable_of_an_enclosing_function() -> None:
    def made(compiled: bool) -> tuple[Any, Any]:
        total, calls = nd.zeros((2,)), 0

        def add(x: Any) -> Any:
            nonlocal total, calls
            total = total + x
            return total * 1
        return mx.hybridize(add) if compiled else add, lambda: numbers(total)
    (eager, of_eager), (compiled, of_compiled) = made(False), made(True)
    for k in range(4):
        assert numbers(eager(nd.array([k, 1]))) == numbers(compiled(nd.array([k, 1]))) and of_eager() == of_compiled()
    assert len(compiled.cache_misses) == 1


def test_state_in_a_compiled_training_step() -> None:
    def trained(compiled: bool) -> list[Any]:
        net = gluon.nn.Dense(1, in_units=2)
        net.initialize(mx.init.One())
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
        o = Box(mean=nd.zeros((1,)), losses=[])

        def step(x: Any) -> Any:
            with autograd.record():
                loss = (net(x) ** 2).mean()
            loss.backward()
            trainer.step(1)
            o.mean = o.mean * 0.5 + loss
            return loss
        call = mx.hybridize(step) if compiled else step
        out = [numbers(call(nd.array([[k, 1]]))) for k in range(4)]
        return [*out, numbers(o.mean), numbers(net.weight.data())]
    for a, b in zip(trained(False), trained(True)):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_a_recorded_call_keeps_state_that_is_detached() -> None:
    class Net(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.h = nd.zeros((2,))

        def forward(self, x: Any) -> Any:
            y = self.h * 0.5 + x
            self.h = y.detach()
            return y * x
    got = []
    for compiled in (False, True):
        net, x = Net(), nd.array([1, 2])
        x.attach_grad()
        if compiled:
            net.hybridize()
        out = []
        for _ in range(4):
            with autograd.record():
                y = net(x)
            y.backward()
            out += [numbers(y), numbers(x.grad), numbers(net.h)]
        got.append(out)
    assert got[0] == got[1]


def test_the_line_that_assigns_a_number_at_every_call_is_told() -> None:
    o = Box(n=0)
    f = mx.hybridize(lambda x: number(x, o))
    line = number.__code__.co_firstlineno + 1
    with pytest.warns(UserWarning, match=rf"test_traced_state.py:{line}: .*assigns to Box.n at every call"):
        assert [numbers(f(nd.ones((1,))))[0] for _ in range(6)] == [1, 2, 3, 4, 5, 6]
    assert len(f.cache_misses) <= 3


def test_what_is_made_once_is_compiled(recwarn: Any) -> None:
    o = Box(table={})

    def f(x: Any) -> Any:
        if x.shape not in o.table:
            o.table[x.shape] = float(x.shape[0])
        return x * o.table[x.shape]
    g = mx.hybridize(f)
    for _ in range(5):
        for n in (1, 2, 3):
            assert numbers(g(nd.ones((n,)))) == [float(n)] * n
    assert not [w for w in recwarn if "plain Python" in str(w.message)] and g.report() is not None


def test_layers_made_in_forward_stay() -> None:
    class Net(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.fc = None

        def forward(self, x: Any) -> Any:
            if self.fc is None:
                self.fc = gluon.nn.Dense(2, in_units=3)
                self.fc.initialize()
            return self.fc(x)
    net = Net()
    net.hybridize()
    first, second = net(nd.ones((1, 3))), net(nd.ones((1, 3)))
    assert numbers(first) == numbers(second) == numbers(net.fc(nd.ones((1, 3))))
