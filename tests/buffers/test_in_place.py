"""An array that a recorded computation read may not be changed before its gradient is taken: through itself, a view of
it, an array it is a view of; eagerly and hybridized; also where the gradient is to be differentiated again.
"""
from __future__ import annotations

import sys
from typing import Any, Callable

import numpy as np
import pytest

from hybrid import autograd, gluon, hybridize, nd
from hybrid.base.errors import AttributeValueError, HybridError
from hybrid.gluon import nn
from hybrid.buffers.writes import CLOCK, GROUPS, Group, _groups, since
from ..at_once import at_once

MODES = pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])


class _Square(nn.HybridBlock):
    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return x * x


def _x() -> Any:
    x = nd.array([1.0, 2.0, 3.0])
    x.attach_grad()
    return x


def _set(a: Any) -> None:
    a[:] = 9


CHANGES: dict[str, Callable[[Any], None]] = {
    "itself": _set,
    "element": lambda x: x.__setitem__(0, 9),
    "slice": lambda x: _set(x[0:2]),
    "reshape": lambda x: _set(x.reshape((3, 1))),
    "detach": lambda x: _set(x.detach()),
    "view-of-view": lambda x: _set(x.reshape((3, 1))[1]),
    "out": lambda x: nd.broadcast_add(nd.ones((3,)), nd.ones((3,)), out=x),
    "copyto": lambda x: nd.zeros((3,)).copyto(x),
}


@MODES
@pytest.mark.parametrize("again", [False, True], ids=["backward", "create_graph"])
@pytest.mark.parametrize("how", CHANGES)
def test_a_change_is_an_error(how: str, again: bool, hybridized: bool) -> None:
    net = _Square()
    if hybridized:
        net.hybridize()
    x = _x()
    with autograd.record():
        y = net(x)
    CHANGES[how](x)
    with pytest.raises(HybridError, match=r"an array of shape \(3,\) was changed in place"):
        if again:
            autograd.grad(y, [x], create_graph=True)
        else:
            y.backward()


@MODES
def test_a_view_that_was_recorded(hybridized: bool) -> None:
    """The other way round: what it is a view of is written; other parts of it may be."""
    whole = nd.arange(6)
    part = whole[0:3]
    part.attach_grad()
    net = _Square()
    if hybridized:
        net.hybridize()
    for change, wrong in ((lambda: _set(whole[3:6]), False), (lambda: _set(whole[2:4]), True),
                          (lambda: _set(whole), True)):
        with autograd.record():
            y = net(part)
        change()
        if wrong:
            with pytest.raises(HybridError, match="changed in place"):
                y.backward()
        else:
            y.backward()
            np.testing.assert_array_equal(part.grad.asnumpy(), [0, 2, 4])


def test_what_may_be_written() -> None:
    """Another buffer (x += y while recording), results that no gradient needs again, gradients, arrays written before
    they are used."""
    x = _x()
    with autograd.record():
        x_sum = x + 1
        y = x * x
        y += 1
        y[0] = 0
        z = (y * x_sum).sum()
    z[:] = 0
    x.grad[:] = 5
    z.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [0, 2 * 2 * 3 + 5, 2 * 3 * 4 + 10])


@MODES
@pytest.mark.parametrize("how", ["set_data", "data", "step"])
def test_weights(how: str, hybridized: bool) -> None:
    """A weight that is changed between forward and backward, also by the step of another loss."""
    net = nn.Dense(2, in_units=3)
    net.initialize()
    if hybridized:
        net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    x = _x().reshape((1, 3))
    x.attach_grad()
    with autograd.record():
        first, second = net(x), net(x)
    if how == "set_data":
        net.weight.set_data(nd.ones((2, 3)))
    elif how == "data":
        net.weight.data()[0] = 7
    else:
        first.backward()
        trainer.step(1)
    with pytest.raises(HybridError, match=r"an array of shape \(2, 3\) was changed in place"):
        second.backward()


def test_many_writes_of_parts_are_kept_apart() -> None:
    """Stretches of one array's memory that are written one by one, more than are remembered: still an error, never a
    wrong number."""
    whole = nd.zeros((400,))
    part = whole[399:400]
    part.attach_grad()
    with autograd.record():
        y = part * part
    for k in range(0, 398, 2):
        whole[k:k + 1][:] = 1
    whole[399:400][:] = 2
    with pytest.raises(HybridError, match="changed in place"):
        y.backward()


@pytest.mark.parametrize("then", ["nothing", "another-program", "dropped"])
def test_a_compiled_program_writes(then: str) -> None:
    """A captured array that a compiled function changes, and what shares its memory; the second call goes the short
    way."""
    def change(held: Any) -> Any:
        @hybridize
        def add(x: Any) -> Any:
            held[:] = held + x
            return x * 2
        return add
    whole, other = nd.ones((4, 3)), nd.ones((2,))
    part, untouched = whole[1], nd.ones((3,))
    for x in (part, untouched):
        x.attach_grad()
    add = change(whole)
    for _ in range(3):
        add(nd.ones((1, 3)))
    with autograd.record():
        y, z = part * part, untouched * untouched
    add(nd.ones((1, 3)))
    if then == "another-program":
        change(other)(nd.ones((1,)))
    elif then == "dropped":
        del add
        other._rebind(other._data.copy())
    z.backward()
    with pytest.raises(HybridError, match="changed in place"):
        y.backward()
    np.testing.assert_array_equal(whole.asnumpy(), np.full((4, 3), 5.0))


def test_programs_that_write_are_remembered() -> None:
    """More of them than are kept: those that wrote last still count."""
    groups = [Group([np.zeros(1)]) for _ in range(GROUPS + 5)]
    held = [np.zeros(2) for _ in range(3)]
    last, when = Group(held[:2]), CLOCK[0]
    last.note()
    for g in groups:
        g.note()
    last.note()
    assert since(held[0][1:], when) and since(held[1],
                                              when) and not since(held[2], when) and not since(held[1], CLOCK[0])
    assert len(_groups) <= GROUPS


OUT = {
    "captured": lambda w, v, x: nd.sgd_update(w, x, lr=0.1, out=w),
    "a view": lambda w, v, x: nd.clip(w[0:1], 0, 0.5, out=w[0:1]),
    "argument": lambda w, v, x: nd.broadcast_add(x, w, out=x),
    "states": lambda w, v, x: nd.sgd_mom_update(w, x, v, lr=0.1, momentum=0.9, out=w),
    "several": lambda w, v, x: nd.multi_sgd_update(w, x, v, x, lrs=(0.1, 0.2), wds=(0, 0), num_weights=2, out=[w, v]),
    "a method": lambda w, v, x: x.clip(0, 0.5, out=w),
}


@pytest.mark.parametrize("name", OUT)
def test_out_of_a_traced_operator_is_written(name: str) -> None:
    """As eagerly: also arrays of the caller that no result depends on."""
    found = []
    for hybridized in (False, True):
        w, v, x = nd.array([1.0, 2.0]), nd.array([3.0, 5.0]), nd.array([0.5, 0.25])

        def step(x: Any, w: Any = w, v: Any = v) -> Any:
            OUT[name](w, v, x)
            return x + w
        call = hybridize(step) if hybridized else step
        found.append([a.asnumpy().tolist() for _ in range(2) for a in (call(x), w, v, x)])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)
    assert found[0][1:4] != [[1.0, 2.0], [3.0, 5.0], [0.5, 0.25]]


def test_out_of_another_shape_is_an_error() -> None:
    with pytest.raises(AttributeValueError,
                       match=r"test_in_place\.py:\d+: operator elemwise_add: out has shape \(3,\), the result \(2,\)"):
        hybridize(lambda x: nd.elemwise_add(x, x, out=nd.zeros((3,))))(nd.ones((2,)))


RENAMED = {"expand_dims": lambda b: b.expand_dims(1, inplace=True),
           "squeeze": lambda b: b.reshape((1, 2, 3)).squeeze(0, inplace=True),
           "flatten": lambda b: b.flatten(inplace=True)}


@MODES
@pytest.mark.parametrize("name", RENAMED)
def test_axes_renamed_in_place_are_recorded(name: str, hybridized: bool) -> None:
    """And a change of the view is one of its source."""
    x = nd.arange(6).reshape((2, 3))
    x.attach_grad()

    def squares(x: Any) -> Any:
        return RENAMED[name](x * 2) ** 2

    def written(x: Any) -> Any:
        b = x * 2
        RENAMED[name](b)[:] = 7
        return b
    squares, written = (hybridize(squares), hybridize(written)) if hybridized else (squares, written)
    with autograd.record():
        y = squares(x)
    y.backward()
    assert (x.grad == 8 * x).asnumpy().all()
    assert (written(x) == 7).asnumpy().all()


def _range(x: Any) -> Any:
    y = x * 3
    v = y[1:]
    v[:] = v * 2
    return y


def _two_ranges(x: Any) -> Any:
    y = x * 3
    v, w = y[1:], y[:2]
    w += 1
    v[:] = v * w
    return y * y + v.sum() + w.sum()


def _range_of_a_range(x: Any) -> Any:
    y = x * 2
    y[:2][1:] = 7
    y[0] += x[2]
    return y * y


def _another_shape(x: Any) -> Any:
    y = x * 3
    v = y.reshape((3, 1))
    v[1:] = v[1:] * 2
    y[0] = 5
    return y + v.sum()


def _element(x: Any) -> Any:
    x[0] = 1
    return x * x


def _whole(x: Any) -> Any:
    x[:] = x * 2
    return x * x


def _overwritten(x: Any) -> Any:
    x[:] = nd.array([7, 8, 9])
    return x * x


def _overwritten_by_numbers(x: Any) -> Any:
    x[:] = np.array([7, 8, 9])
    return x * x


def _sum_in_place(x: Any) -> Any:
    v = x[1:]
    x += 1
    return v * v


def _range_of_a_variable(x: Any) -> Any:
    v = x[1:]
    v[:] = v * v
    return x * x


# what the function gives for 1, 2, 3, what the array holds then, its gradient
WRITES: list[tuple[Callable[[Any], Any], list[float], list[float], list[float]]] = [
    (_range, [3, 12, 18], [1, 2, 3], [3, 6, 6]),
    (_two_ranges, [139, 907, 4092], [1, 2, 3], [1335, 4227, 2709]),
    (_range_of_a_range, [25, 49, 36], [1, 2, 3], [20, 0, 34]),
    (_another_shape, [40, 47, 53], [1, 2, 3], [0, 24, 24]),
    (_element, [1, 4, 9], [1, 2, 3], [0, 4, 6]),
    (_whole, [4, 16, 36], [2, 4, 6], [8, 16, 24]),
    (_overwritten, [49, 64, 81], [7, 8, 9], [0, 0, 0]),
    (_overwritten_by_numbers, [49, 64, 81], [7, 8, 9], [0, 0, 0]),
    (_sum_in_place, [9, 16], [2, 3, 4], [0, 6, 8]),
    (_range_of_a_variable, [1, 16, 81], [1, 4, 9], [2, 32, 108])]


@MODES
@pytest.mark.parametrize("f, gives, holds, gradient", WRITES, ids=[w[0].__name__.strip("_") for w in WRITES])
def test_writes_while_recording(f: Callable[[Any], Any], gives: Any, holds: Any, gradient: Any,
                                hybridized: bool) -> None:
    """MXNet refuses these; both modes give what the same code gives where nothing is written in place."""
    f = hybridize(f) if hybridized else f
    x = _x()
    for again in range(2):                    # behind backward the array is a variable as before
        x[:] = nd.array([1, 2, 3])
        with autograd.record():
            y = f(x)
        y.backward()
        np.testing.assert_array_equal(y.asnumpy(), gives)
        np.testing.assert_array_equal(x.asnumpy(), holds)
        np.testing.assert_array_equal(x.grad.asnumpy(), gradient)


def test_variables_are_written_outside_of_recording() -> None:
    x = _x()
    x[:] = nd.array([4, 5, 6])
    x[0] = 2
    x += 1
    with autograd.record():
        y = x * x
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [6, 12, 14])


WAYS_TO_VIEW: dict[str, Any] = {
    "reshape": lambda y: y.reshape((0, -1)), "another shape": lambda y: y.reshape((6,)), "a row": lambda y: y[1],
    "rows": lambda y: y[1:3], "all": lambda y: y[:],
}


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize("way", WAYS_TO_VIEW)
@pytest.mark.parametrize("made", ["x.T", "nd.swapaxes(x, 0, 1)", "nd.transpose(x) * 1", "nd.moveaxis(x, 0, 1)"])
def test_views_of_rearranged_axes_share_memory(made: str, way: str, hybridized: bool) -> None:
    """Results are in C order whatever NumPy's own layout for them is: another shape of one is the same memory."""
    def f(x: Any) -> Any:
        y = eval(made, {"nd": nd, "x": x})
        z = WAYS_TO_VIEW[way](y)
        z[:] = z * -1
        return y
    x = nd.array([[1, 2, 3], [4, 5, 6]])
    want = x.asnumpy().T.copy()
    view = WAYS_TO_VIEW[way](want.reshape(want.shape)) if way != "reshape" else want
    view[...] = view * -1
    assert (hybridize(f) if hybridized else f)(x).asnumpy().tolist() == want.tolist()


def test_threads_that_note_more_groups_than_are_remembered() -> None:
    def note() -> None:
        for _ in range(20 * GROUPS):
            Group([np.empty(4)]).note()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        at_once(note, note, note)
    finally:
        sys.setswitchinterval(before)
    assert len(_groups) <= GROUPS and all(g.state[1] for g in _groups)
