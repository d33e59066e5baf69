"""debug.print, debug.breakpoint, debug.check_finite and hooks of blocks within vmap, grad, jvp, jacobian and
checkpoint: eagerly and hybridized, of each example."""
from __future__ import annotations

import re
import sys
from typing import Any

import numpy as onp
import pytest

import hybrid as mx
from hybrid import debug, nd, np
from hybrid.base.errors import NonFiniteError, TraceError
from hybrid.gluon import nn
from hybrid.transforms import checkpoint, grad, hessian, jacobian, jvp, value_and_grad, vjp, vmap

MODES = pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])


def mode(f: Any, hybridized: bool) -> Any:
    """The function, or it hybridized."""
    return mx.hybridize(f) if hybridized else f


def shown(x: Any, y: Any) -> Any:
    """Prints a product and gives a number."""
    z = debug.print(x * y, "z")
    return (z ** 2).sum()


@MODES
def test_vmap_prints_each_example_at_each_call(hybridized: bool, capsys: pytest.CaptureFixture[str]) -> None:
    f = mode(vmap(shown, in_axes=(0, None)), hybridized)
    for k in (1.0, 2.0):
        assert f(np.array([[1.0, 2.0], [3.0, 4.0]]) * k, np.array([1.0, 10.0])).tolist() == [401 * k * k, 1609 * k * k]
        assert capsys.readouterr().out.splitlines() == [f"z float32(2,): {onp.array(v) * k}"
                                                        for v in ([1.0, 20.0], [3.0, 40.0])]


@MODES
@pytest.mark.parametrize("transform", [grad, value_and_grad, jacobian, checkpoint, lambda f: lambda *a: jvp(f, a, a),
                                       lambda f: lambda *a: vjp(f, *a)[0], hessian],
                         ids=["grad", "value_and_grad", "jacobian", "checkpoint", "jvp", "vjp", "hessian"])
def test_derivatives_print_once_and_stay_what_they_are(transform: Any, hybridized: bool,
                                                       capsys: pytest.CaptureFixture[str]) -> None:
    x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    plain = transform(lambda x, y: ((x * y) ** 2).sum())(x, y)
    found = mode(transform(shown), hybridized)(x, y)
    for a, b in zip(*(v if isinstance(v, tuple) else (v,) for v in (found, plain)), strict=True):
        onp.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-6)
    assert capsys.readouterr().out == "z float32(2,): [3. 8.]\n"


@MODES
def test_nested_vmaps_and_gradients_per_example(hybridized: bool, capsys: pytest.CaptureFixture[str]) -> None:
    x, y = np.array([1.0, 2.0]), np.array([1.0, 10.0])
    table = mode(lambda x, y: vmap(lambda a: vmap(lambda b: debug.print(a * b, "p"))(y))(x), hybridized)(x, y)
    assert table.tolist() == [[1.0, 10.0], [2.0, 20.0]]
    assert capsys.readouterr().out.splitlines() == [f"p float32(): {v}" for v in ("1.0", "10.0", "2.0", "20.0")]
    slopes = mode(vmap(grad(lambda a: shown(a, a))), hybridized)(x)
    assert slopes.tolist() == [4.0, 32.0]
    assert capsys.readouterr().out.splitlines() == ["z float32(): 1.0", "z float32(): 4.0"]


@MODES
def test_breakpoints_stop_for_the_examples_that_are_meant(hybridized: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    stops: list[Any] = []
    monkeypatch.setattr(sys, "breakpointhook",
                        lambda: stops.append(sys._getframe(1).f_globals["a"].asnumpy().tolist()))

    def f(a: Any) -> Any:
        debug.breakpoint(when=a.sum() > 2)
        return a * 2
    mode(vmap(f), hybridized)(nd.array([[1.0, 1], [2, 2], [3, 3]]))
    assert stops == [[2.0, 2.0], [3.0, 3.0]]


@MODES
def test_hooks_of_a_mapped_block_see_each_example(hybridized: bool) -> None:
    net, seen, x = nn.Dense(2, in_units=3, flatten=False), [], nd.array(onp.arange(6.0).reshape(2, 3))
    net.initialize()
    net.register_forward_hook(lambda block, given, out: seen.append((given[0].asnumpy(), out.asnumpy())))
    want = mode(vmap(net), hybridized)(x).asnumpy()
    assert len(seen) == 2
    for i, (given, out) in enumerate(seen):
        onp.testing.assert_array_equal(given, x.asnumpy()[i])
        onp.testing.assert_allclose(out, want[i], rtol=1e-5)


def logged(x: Any) -> Any:
    """Makes a NaN of a negative number, and an infinity of 0."""
    y = x - 2
    z = np.log(y)
    return (z * 2).sum()


def rooted(x: Any) -> Any:
    """Has a slope that is infinite at 0."""
    return np.sqrt(x).sum()


@MODES
@pytest.mark.parametrize(("make", "at", "operator"), [
    (lambda: vmap(logged), 1.0, r"log made a NaN: 1 of 4 elements"),
    (lambda: grad(logged), 2.0, "log made an infinity"),
    (lambda: vmap(grad(logged)), 2.0, "gradient of log made an infinity"),
    (lambda: checkpoint(logged), 1.0, "log made"), (lambda: jacobian(logged), 2.0, "log made an infinity"),
    (lambda: vmap(hessian(rooted)), 0.0, "gradient of sqrt made"),
    (lambda: lambda x: jvp(logged, [x], [x]), 1.0, "log made a NaN")],
    ids=["vmap", "grad", "vmap of grad", "checkpoint", "jacobian", "vmap of hessian", "jvp"])
def test_check_finite_names_the_operator_and_the_line(make: Any, at: float, operator: str, hybridized: bool) -> None:
    f, x = mode(make(), hybridized), np.array([[at, 3.0], [4.0, 5.0]])
    source = rooted if "sqrt" in operator else logged
    line = source.__code__.co_firstlineno + 2 + (source is logged)
    with debug.check_finite(), pytest.raises(NonFiniteError) as error:
        f(x)
    assert re.search(rf"test_seeing_inside_transforms.py:{line}: operator (gradient of )?{operator}", str(error.value))
    assert "of a program" not in str(error.value)


def test_in_a_loop_of_a_mapped_function_it_is_refused_with_the_line() -> None:
    f = vmap(lambda r: nd.contrib.foreach(lambda a, s: (debug.print(a, "a"), s), r, nd.zeros((1,)))[0])
    with pytest.raises(TraceError, match=r"test_seeing_inside_transforms.py:\d+: debug.print in a loop of a function"):
        f(nd.ones((2, 3, 1)))
