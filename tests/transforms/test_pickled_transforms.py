"""Copies and pickles of grad, value_and_grad, jacobian, hessian, vmap and checkpoint, bare, composed and hybridized, of
functions and of Blocks; pullbacks are not pickled and say so."""
from __future__ import annotations

import copy
import functools
import inspect
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import numpy as onp
import pytest

import hybrid as mx
from hybrid import autograd, nd, np
from hybrid.base.errors import AttributeValueError, DTypeError
from hybrid.gluon import nn
from hybrid.ops import registry
from hybrid.transforms import checkpoint, grad, hessian, jacobian, jvp, value_and_grad, vjp, vmap

HOW: list[Callable[[Any], Any]] = [copy.deepcopy, lambda v: pickle.loads(pickle.dumps(v))]
SCALE = 2.0


def total(x: Any) -> Any:
    """A number of a vector."""
    return (x ** 3).sum() * SCALE


@grad
def decorated(x: Any) -> Any:
    """A gradient under the name of its function."""
    return (x ** 2).sum()


@mx.hybridize
def compiled(x: Any) -> Any:
    """A hybridized function that others are made of."""
    return (x ** 2).sum() * 3


def pulled(x: Any) -> Any:
    """A function that has a pullback of its own."""
    value, pull = vjp(total, x)
    return pull(value)[0]


class Owner:
    """Has a gradient as a method."""
    def __init__(self) -> None:
        self.w = np.array([1.0, 2.0])

    @functools.partial(grad, argnums=1)
    def slope(self, x: Any) -> Any:
        """A method's gradient."""
        return (x * x * self.w).sum()


MADE: dict[str, Callable[[], Any]] = {
    "grad": lambda: grad(total), "value_and_grad": lambda: value_and_grad(total), "jacobian": lambda: jacobian(total),
    "hessian": lambda: hessian(total), "vmap": lambda: vmap(functools.partial(np.multiply, 2.0)),
    "checkpoint": lambda: checkpoint(total), "grad of checkpoint": lambda: grad(checkpoint(total)),
    "vmap of grad": lambda: vmap(grad(functools.partial(np.sum))), "decorated": lambda: decorated,
    "jvp": lambda: functools.partial(jvp, total), "vjp": lambda: pulled, "grad of hybridized": lambda: grad(compiled),
    "grad of grad": lambda: grad(grad(decorated_sum)),
}


def decorated_sum(x: Any) -> Any:
    """One number of an array of one."""
    return (x ** 4).sum()


def _given(name: str) -> tuple[Any, ...]:
    x = np.array([1.0, 3.0])
    if name == "jvp":
        return [x], [x]
    return (x.reshape(1, 2) if name.startswith("vmap") else np.array(2.0) if name == "grad of grad" else x,)


def _flat(value: Any) -> list[Any]:
    return [y for v in value for y in _flat(v)] if isinstance(value, (list, tuple)) else [value.asnumpy()]


@pytest.mark.parametrize("how", HOW, ids=["deepcopy", "pickle"])
@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
@pytest.mark.parametrize("name", MADE)
def test_copies_of_transforms_give_the_same(name: str, hybridized: bool, how: Callable[[Any], Any]) -> None:
    made = mx.hybridize(MADE[name]()) if hybridized else MADE[name]()
    want = _flat(made(*_given(name)))
    for got, expected in zip(_flat(how(made)(*_given(name))), want, strict=True):
        onp.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("how", HOW, ids=["deepcopy", "pickle"])
@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
@pytest.mark.parametrize("transform", [checkpoint, vmap, jacobian, lambda n: vmap(jacobian(n))],
                         ids=["checkpoint", "vmap", "jacobian", "vmap of jacobian"])
def test_of_a_block_the_copy_has_weights_of_its_own(transform: Any, hybridized: bool,
                                                    how: Callable[[Any], Any]) -> None:
    net, x = nn.Dense(2, flatten=False), nd.array([[1.0, 2, 3], [4, 5, 6]])
    net.initialize()
    net(x)
    made = mx.hybridize(transform(net)) if hybridized else transform(net)
    want = made(x).asnumpy()
    other, beside = how((made, net))
    net.weight.set_data(net.weight.data() * 0)
    onp.testing.assert_allclose(other(x).asnumpy(), want, rtol=1e-6)
    assert not onp.allclose(made(x).asnumpy(), want)
    beside.weight.set_data(beside.weight.data() * 0)              # and shares it with a copy of the Block beside it
    onp.testing.assert_allclose(other(x).asnumpy(), made(x).asnumpy(), rtol=1e-6)


@pytest.mark.parametrize("how", HOW, ids=["deepcopy", "pickle"])
def test_a_method_goes_with_its_object(how: Callable[[Any], Any]) -> None:
    owner, x = Owner(), np.array([1.0, 1.0])
    method = how(owner.slope)
    owner.w[:] = 0
    assert method(x).tolist() == [2.0, 4.0] and owner.slope(x).tolist() == [0.0, 0.0]


def test_copies_are_the_same_function_where_functions_are() -> None:
    assert copy.deepcopy(grad(total))._fn is total               # type: ignore[attr-defined]
    assert pickle.loads(pickle.dumps(decorated)) is decorated is copy.deepcopy(decorated)
    assert copy.deepcopy(compiled) is compiled


def test_name_docstring_and_signature() -> None:
    made: Any = grad(total)
    assert made.__name__ == "total" and made.__doc__ == "A number of a vector." and made.__wrapped__ is total
    assert list(inspect.signature(made).parameters) == ["x"]
    assert repr(hessian(total)) == "<jacobian of <grad of total>>" and repr(compiled) == "<hybridized compiled>"


def test_what_a_transformed_function_reads_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    slope, x = mx.hybridize(grad(total)), np.array([1.0])
    inside = mx.hybridize(lambda x: grad(total)(x) + 1)
    assert slope(x).tolist() == [6.0] and inside(x).tolist() == [7.0]
    monkeypatch.setattr(sys.modules[__name__], "SCALE", 5.0)
    assert slope(x).tolist() == [15.0] and inside(x).tolist() == [16.0]


def test_settings_are_those_of_the_making() -> None:
    axes, numbers = [0, None], [1]
    mapped, slope = vmap(np.multiply, in_axes=axes), grad(lambda a, b: (a * b * b).sum(), argnums=numbers)
    axes[1], numbers[0] = 0, 0
    x, y = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 10.0])
    assert mapped(x, y).tolist() == [[1.0, 20.0], [3.0, 40.0]]
    assert slope(y, y)[0].tolist() == [2.0, 200.0]
    assert grad(lambda a, b: (a * b).sum(), argnums=onp.int64(1))(y, y).tolist() == [1.0, 10.0]


def test_what_is_refused() -> None:
    with pytest.raises(DTypeError, match=r"test_pickled_transforms.py:\d+: grad takes a function or a Block, got int"):
        grad(3)                                                  # type: ignore[call-overload]
    with pytest.raises(AttributeValueError, match="argnums must be the number of an argument"):
        grad(total, argnums="x")                                 # type: ignore[call-overload]
    _, pull = vjp(total, np.array([1.0]))
    assert copy.deepcopy(pull) is pull
    with pytest.raises(DTypeError, match="a pullback holds what was computed at one point"):
        pickle.dumps(pull)


def test_gradients_flow_through_copies() -> None:
    x = np.array([1.0, 2.0])
    x.attach_grad()
    made = pickle.loads(pickle.dumps(mx.hybridize(checkpoint(total))))
    with autograd.record():
        y = made(x)
    y.backward()
    assert x.grad.tolist() == [6.0, 24.0]


WRITER = '''
import sys
import cloudpickle
import hybrid as mx
from hybrid import gluon, np
from hybrid.gluon import nn
from hybrid.transforms import checkpoint, grad, hessian, jacobian, value_and_grad, vjp, vmap

scale = 3.0

def total(x):
    return (x ** 3).sum() * scale

@grad
def recursive(x):
    return (x * x).sum() if x.ndim else recursive(x)

def of_closure(k):
    return hessian(lambda x: (x ** 2).sum() * k)

@mx.hybridize
@grad
def both(x):
    return (x ** 2).sum()

class Net(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(2, flatten=False)

    def forward(self, x):
        return self.dense(x)

net, x = Net(), np.array([[1.0, 2.0], [3.0, 4.0]])
net.initialize()
net(x)
given = {"grad": grad(total), "recursive": recursive, "closure": of_closure(2.0), "both": both,
         "value": value_and_grad(lambda x: total(x)), "net": checkpoint(net), "rows": vmap(jacobian(net)),
         "compiled": mx.hybridize(vmap(grad(total))), "vjp": lambda x: vjp(total, x)[1](np.array(1.0))[0]}
called = {name: f(x) for name, f in given.items()}
with open(sys.argv[1], "wb") as file:
    cloudpickle.dump((given, called, x), file)
'''
READER = '''
import sys
import cloudpickle
import numpy
given, called, x = cloudpickle.load(open(sys.argv[1], "rb"))
flat = lambda v: [y for w in v for y in flat(w)] if isinstance(v, tuple) else [v.asnumpy()]
for name, want in called.items():
    for a, b in zip(flat(given[name](x)), flat(want), strict=True):
        numpy.testing.assert_allclose(a, b, 1e-6, err_msg=name)
'''


def test_another_process_has_what_main_made(tmp_path: Path) -> None:
    pytest.importorskip("cloudpickle")
    for name, text in (("writer", WRITER), ("reader", READER)):
        script = tmp_path / f"{name}.py"
        script.write_text(text)
        done = subprocess.run([sys.executable, str(script), str(tmp_path / "made")], capture_output=True, text=True,
                              check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("space", ["hybrid", "nd", "nd.contrib", "nd.random", "nd.linalg", "nd.image", "np",
                                   "np.linalg", "np.fft", "np.random", "npx", "sym", "sym.contrib", "sym.random",
                                   "sym.linalg", "sym.np", "init", "image", "metric", "autograd", "debug"])
def test_every_public_function_is_pickled_by_its_name(space: str) -> None:
    module = functools.reduce(getattr, space.split(".") if space != "hybrid" else [], mx)
    for _ in range(2):
        found = {n: f for n in dir(module) if not n.startswith("_") and callable(f := getattr(module, n))
                 and not inspect.ismodule(f)}
        lost = [n for n, f in found.items() if pickle.loads(pickle.dumps(f)) != f]
        assert found and not lost
        registry._changed()                          # as where an operator is registered: all names are looked up again
