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

from hybrid import autograd, gluon, gpu, hybridize, nd, sym
from hybrid.base.errors import FileFormatError
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
from hybrid import autograd, gluon, gpu, hybridize, nd, sym
from hybrid.base.errors import FileFormatError
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


RECORDS = {                                # what MXNet 1.9.1's arrays have as their state, and the numbers in it
    "NDArray": ("c9fa93f9000000000200000001000000000000000300000000000000010000000000000004000000"
                "010000000200000003000000", [[1, 2, 3]], "int32"),
    "np.ndarray": ("c9fa93f9000000000100000002000000000000000100000000000000000000000000c03f00000040", [1.5, 2],
                   "float32"),
    "CSRNDArray": ("c9fa93f902000000010000000200000000000000020000000200000000000000020000000000000001000000"
                   "000000000000000006000000010000000300000000000000060000000100000002000000000000000000803f"
                   "0000004000000000000000000100000000000000020000000000000001000000000000000000000000000000",
                   [[0, 1], [2, 0]], "float32"),
    "RowSparseNDArray": ("c9fa93f901000000020000000100000000000000020000000000000002000000020000000000000002000000"
                         "00000000010000000000000000000000060000000100000001000000000000000000803f0000004001000000"
                         "00000000", [[0, 0], [1, 2]], "float32"),
}
MODULES = {"NDArray": "hybrid.nd", "np.ndarray": "hybrid.numpy", "CSRNDArray": "hybrid.sparse",
           "RowSparseNDArray": "hybrid.sparse"}


def mxnet_pickle(module: str, name: str, handle: Any) -> bytes:
    """The bytes that MXNet's ``pickle.dumps`` writes: the class of None, then its state."""
    state = pickle.dumps({"handle": handle}, 2)[2:-1]
    return b"\x80\x02c" + f"{module}\n{name}\n".encode() + b"N\x85R" + state + b"b."


@pytest.mark.parametrize("name", RECORDS)
def test_arrays_in_pickles_of_mxnet(name: str) -> None:
    record, numbers, dtype = RECORDS[name]
    found = pickle.loads(mxnet_pickle(MODULES[name], name.removeprefix("np."), bytearray.fromhex(record)))
    assert type(found).__name__ == name.removeprefix("np.") and numpy.dtype(found.dtype) == dtype
    assert found.asnumpy().tolist() == numbers and (found + found).asnumpy().tolist() == (2 * found.asnumpy()).tolist()
    with pytest.raises(FileFormatError, match="truncated|holds no values"):
        pickle.loads(mxnet_pickle(MODULES[name], name.removeprefix("np."), bytearray.fromhex(record[:-8])))
    with pytest.raises(FileFormatError, match="no array"):
        pickle.loads(mxnet_pickle(MODULES[name], name.removeprefix("np."), None))


def test_symbols_and_devices_in_pickles_of_mxnet() -> None:
    graph = sym.FullyConnected(sym.var("x"), num_hidden=3, name="fc")
    found = pickle.loads(mxnet_pickle("hybrid.symbol", "Symbol", graph.tojson()))
    assert found.tojson() == graph.tojson()
    state = pickle.dumps({"device_typeid": 2, "device_id": 1, "_old_ctx": None}, 2)[2:-1]
    assert pickle.loads(b"\x80\x02chybrid.device\nContext\n)\x81" + state + b"b.") == gpu(1)
