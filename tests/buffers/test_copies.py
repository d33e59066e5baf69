"""Copies onto arrays and devices carry gradients as in MXNet; copies and reads of arrays in hybridized code are never
stale."""
from __future__ import annotations

import copy
from typing import Any, Callable

import pytest

import hybrid as mx
from hybrid import autograd, nd


def onto_another(x: Any) -> Any:
    y = nd.zeros((3,))
    return x.copyto(y) * 2 + y


def onto_a_device(x: Any) -> Any:
    return x.as_in_context(mx.cpu(1)) * 3


def there_and_back(x: Any) -> Any:
    return (x.copyto(mx.cpu(1)) * 3).as_in_context(mx.cpu()) + x.copyto(mx.cpu())


def over_an_intermediate(x: Any) -> Any:
    y = x * 5
    (x * x).copyto(y)
    return y


@pytest.mark.parametrize(("function", "want"), [(onto_another, [3, 3, 3]), (onto_a_device, [3, 3, 3]),
                                                (there_and_back, [4, 4, 4]), (over_an_intermediate, [2, 4, 6])],
                         ids=["array", "device", "there and back", "intermediate"])
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "hybridized"])
def test_gradients_flow_through_copies(function: Callable[[Any], Any], want: list[float], compiled: bool) -> None:
    x = nd.array([1, 2, 3], ctx=mx.cpu())
    x.attach_grad()
    with autograd.record():
        y = (mx.hybridize(function) if compiled else function)(x)
    y.backward()
    assert x.grad.asnumpy().tolist() == want and x.grad.ctx == mx.cpu()


def test_second_gradient_through_a_move() -> None:
    x = nd.array([1, 2, 3], ctx=mx.cpu())
    x.attach_grad()
    with autograd.record():
        y = x.as_in_context(mx.cpu(1))
        first = autograd.grad((y * y * y).sum(), [x], create_graph=True)[0]
    first.backward()
    assert x.grad.asnumpy().tolist() == [6, 12, 18]


def test_a_copy_over_an_array_that_collects_is_recorded() -> None:
    x, w = nd.ones((2,)), nd.zeros((2,))
    x.attach_grad()
    w.attach_grad()
    with autograd.record():
        (x * 2).copyto(w)
        y = (w * 3).sum()
    y.backward()
    assert x.grad.asnumpy().tolist() == [6, 6] and w.grad.asnumpy().tolist() == [0, 0]    # w's first value is not used


READS = {
    "copy": "x + W.copy()", "copyto device": "x + W.copyto(mx.cpu())", "copyto array": "x + W.copyto(V)",
    "copyto made": "x + W.copyto(nd.empty((3,)))",
    "copyto argument": "W.copyto(x) * 2", "array": "x + nd.array(W)", "array of arrays": "x + nd.array([W, W])[1]",
    "tostype": "x + W.tostype('default')",
    "deepcopy": "x + copy.deepcopy(W)", "asnumpy": "x + W.asnumpy()", "array of numbers": "x + nd.array(W.asnumpy())",
    "float": "x * float(S)", "asscalar": "x * S.asscalar()", "truth": "x + 1 if S else x",
}


@pytest.mark.parametrize("code", READS.values(), ids=READS.keys())
def test_copies_and_reads_in_hybridized_code_follow_the_array(code: str) -> None:
    found = []
    for compiled in (False, True):
        space = {"mx": mx, "nd": nd, "copy": copy, "W": nd.ones((3,)), "V": nd.zeros((3,)), "S": nd.zeros((1,))}
        exec(f"def f(x):\n    return {code}", space)
        f: Any = space["f"]
        f, rows = mx.hybridize(f) if compiled else f, []
        for step in range(4):
            x = nd.array([1, 2, 3])
            rows.append([a.asnumpy().tolist() for a in (f(x), x, space["V"])])
            if step % 2:
                space["W"][1:2] += 2                     # type: ignore[index]
            else:
                space["S"][:] = step + 3                 # type: ignore[index]
        found.append(rows)
    assert found[0] == found[1]


def test_reads_that_do_not_change_compile_once() -> None:
    w = nd.array([1, 2, 3])
    f = mx.hybridize(lambda x: x + nd.array(w.asnumpy()))
    for _ in range(3):
        f(nd.ones((3,)))
    assert len(f.cache_misses) == 1
    w[0] = 5
    for _ in range(3):
        assert f(nd.ones((3,))).asnumpy().tolist() == [6, 3, 4]
    assert len(f.cache_misses) == 2


@pytest.mark.parametrize("code", ["W.as_in_context(x.context)", "nd.array(W)", "W.copyto(x.context)"],
                         ids=["as_in_context", "array", "copyto"])
def test_an_array_of_another_device_is_moved_at_every_change(code: str) -> None:
    space: dict[str, Any] = {"nd": nd, "W": nd.ones((3,), ctx=mx.cpu(1))}
    exec(f"def f(x):\n    w = {code}\n    w += 1\n    return x + w", space)
    f, x = mx.hybridize(space["f"]), nd.zeros((3,), ctx=mx.cpu())
    assert [f(x).asnumpy().tolist() for _ in range(2)] == [[2, 2, 2]] * 2
    space["W"][1] = 4
    assert [f(x).asnumpy().tolist() for _ in range(2)] == [[2, 5, 2]] * 2 and space["W"].asnumpy().tolist() == [1, 4, 1]
