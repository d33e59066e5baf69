"""Copies and pickles of hybridized functions, methods and networks, also in the middle of training. With cloudpickle,
where that is installed, another process has what ``__main__`` made, without that module."""
from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import numpy
import pytest

from hybrid import autograd, gluon, hybridize, nd
from hybrid.gluon import nn

HOW: list[Callable[[Any], Any]] = [copy.deepcopy, lambda v: pickle.loads(pickle.dumps(v))]


class Scaled:
    def __init__(self) -> None:
        self.w = nd.array([1.0, 2, 3])

    @hybridize
    def scaled(self, x: Any) -> Any:
        return x * self.w

    @classmethod
    @hybridize
    def seven(cls, x: Any) -> Any:
        return x * 7


@pytest.mark.parametrize("how", HOW, ids=["deepcopy", "pickle"])
def test_hybridized_methods(how: Callable[[Any], Any]) -> None:
    x, owner = nd.ones((3,)), Scaled()
    assert owner.scaled(x).asnumpy().tolist() == [1, 2, 3]
    made = how(owner.scaled)                                     # of an object of its own
    owner.w[:] = 0
    assert made(x).asnumpy().tolist() == [1, 2, 3]
    both, method = how([owner, owner.scaled])
    both.w[:] = 5
    assert method(x).asnumpy().tolist() == both.scaled(x).asnumpy().tolist() == [5, 5, 5]
    assert how(Scaled.seven)(x).asnumpy().tolist() == [7, 7, 7]


@pytest.mark.parametrize("how", HOW, ids=["deepcopy", "pickle"])
def test_a_net_with_its_trainer_goes_on(how: Callable[[Any], Any]) -> None:
    def step(net: Any, trainer: Any) -> None:
        with autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        trainer.step(1)
    x, net = nd.array([[1.0, 2, 3]]), nn.Dense(2)
    net.initialize()
    net.hybridize()
    net(x)
    net.bias.lr_mult = 0.5
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    step(net, trainer)
    step(net, trainer)
    other, second = how((net, trainer))
    for n, t in ((net, trainer), (other, second)):
        step(n, t)
    numpy.testing.assert_allclose(other.bias.data().asnumpy(), net.bias.data().asnumpy(), 1e-6, 1e-7)
    numpy.testing.assert_allclose(other.weight.data().asnumpy(), net.weight.data().asnumpy(), 1e-6, 1e-7)
    assert other.weight is not net.weight and any(p is other.weight for p in second._params)


WRITER = '''
import sys
import cloudpickle
from hybrid import autograd, gluon, hybridize, nd
from hybrid.gluon import nn

scale = 3.0

@hybridize
def f(x):
    return x * 2 + 1

@hybridize
def calls(x, depth=1):
    return f(x) * scale if depth == 0 else calls(x, depth - 1)

def closure(k):
    w = nd.array([k, k, k])
    return hybridize(lambda x: x * w + k)

class Methods:
    def __init__(self):
        self.w = nd.array([1, 2, 3.0])

    @hybridize
    def method(self, x):
        return x * self.w

    @classmethod
    @hybridize
    def of_class(cls, x):
        return x * 7

    @staticmethod
    @hybridize
    def static(x):
        return x * 5

@hybridize
class Plain:
    def __init__(self):
        self.w = nd.array([1, 2, 3.0])

    def forward(self, x):
        return x * self.w

class Net(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(2)

    def forward(self, x):
        return self.dense(x)

x = nd.array([[1.0, 2, 3]])
net = Net()
net.initialize()
net.hybridize()
net(x)
trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})

@hybridize
def step(x):
    with autograd.record():
        loss = (net(x) ** 2).mean()
    loss.backward()
    trainer.step(1)
    return loss

step(x)
step(x)
methods, plain = Methods(), Plain()
given = {"function": f, "calls": calls, "closure": closure(4.0), "object": methods.method, "class": Methods.of_class,
         "static": Methods.static, "plain": plain, "net": net, "step": step}
called = {k: v(x) for k, v in given.items() if k != "step"}
with open(sys.argv[1], "wb") as file:
    cloudpickle.dump((given, called, x), file)
net2, rates = cloudpickle.loads(cloudpickle.dumps((net, trainer.learning_rate)))
step(x)
with open(sys.argv[1] + ".after", "wb") as file:
    cloudpickle.dump(net(x), file)
'''
READER = '''
import sys
import cloudpickle
import numpy
given, called, x = cloudpickle.load(open(sys.argv[1], "rb"))
for name, want in called.items():
    numpy.testing.assert_allclose(given[name](x).asnumpy(), want.asnumpy(), 1e-6, err_msg=name)
given["step"](x)
after = cloudpickle.load(open(sys.argv[1] + ".after", "rb"))
numpy.testing.assert_allclose(given["net"](x).asnumpy(), after.asnumpy(), 1e-5)
assert given["function"].report() is not None
'''


def test_another_process_has_what_main_made(tmp_path: Path) -> None:
    pytest.importorskip("cloudpickle")
    for name, text in (("writer", WRITER), ("reader", READER)):
        script = tmp_path / f"{name}.py"
        script.write_text(text)
        done = subprocess.run([sys.executable, str(script), str(tmp_path / "made")], capture_output=True, text=True,
                              check=False)
        assert done.returncode == 0, done.stderr
