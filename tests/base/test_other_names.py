"""Errors about names of other libraries say what stands here for them, and that is there."""
from __future__ import annotations

import pickle
import re
from typing import Any, Mapping

import pytest

import hybrid
from hybrid import autograd, gluon, nd, np, npx
from hybrid.base import other_names

X, Y, NET = np.ones((2, 2)), nd.ones((2, 2)), gluon.nn.Dense(2)
TABLES: list[tuple[Any, Mapping[str, str]]] = [
    (X, other_names.ARRAYS), (Y, other_names.ARRAYS), (NET, other_names.BLOCKS), (gluon.nn, other_names.LAYERS),
    (gluon, other_names.GLUON), (gluon.loss, other_names.LOSSES), (gluon.data, other_names.DATA),
    (autograd, other_names.GRADIENTS), (hybrid.optimizer, other_names.OPTIMIZERS), (hybrid, other_names.LIBRARY),
    (np, other_names.LIBRARY), (nd, other_names.LIBRARY), (npx, other_names.LIBRARY)]
SPACES = {"x": X, "y": Y, "net": NET, "nn": gluon.nn, "gluon": gluon, "loss": gluon.loss, "data": gluon.data, "np": np,
          "autograd": autograd, "hybrid": hybrid, "npx": npx, "optimizer": hybrid.optimizer}


@pytest.mark.parametrize("owner, table", TABLES, ids=lambda v: getattr(v, "__name__", type(v).__name__))
def test_a_missing_name_is_told_where_it_is(owner: Any, table: Mapping[str, str]) -> None:
    told = 0
    for name, hint in table.items():
        if hasattr(owner, name):                         # some modules have it
            continue
        with pytest.raises(AttributeError) as error:
            getattr(owner, name)
        assert repr(name) in str(error.value) and str(error.value).count("here it is") == 1
        assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)
        told += hint in str(error.value)
    assert told


def test_what_errors_name_is_there() -> None:
    for hint in {hint for _, table in TABLES for hint in table.values()}:
        for space, path in re.findall(r"(?<![\w.])(\w+)\.([A-Za-z_][\w.]*)", hint):
            found = SPACES[space]
            for name in path.split("."):
                found = getattr(found, name)


@pytest.mark.parametrize("owner, name, told", [
    (Y, "sumz", "nearest: sum"), (X, "nbytess", "nearest: nbytes"), (gluon.nn, "Dens", "nearest: Dense"),
    (hybrid.optimizer, "Adagrad", "nearest: AdaGrad"), (np.linalg, "nrm", "nearest: norm"),
    (nd, "softmaxx", "nearest: softmax"),
    (Y, "trace", "x.asnumpy().trace")])
def test_other_names_are_told_the_nearest(owner: Any, name: str, told: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(told)):
        getattr(owner, name)


@pytest.mark.parametrize("line, told", [
    ("from hybrid.gluon.nn import Dense, Linear", "cannot import 'Linear': .*here it is nn.Dense"),
    ("from hybrid import optim", "here it is hybrid.optimizer"),
    ("from hybrid.gluon.data import DataLoder", "DataLoader"),
    ("from hybrid.nd import softmaxx", "nearest: softmax"), ("from hybrid.np import aray", "nearest: array"),
    ("from hybrid.npx import rellu", "nearest: relu"), ("from hybrid.numpy.linalg import nrm", "nearest: norm"),
    ("from hybrid.np.random import nrmal", "nearest: normal"), ("from hybrid.metric import Acuracy", "Accuracy"),
    ("from hybrid.gluon.model_zoo.vision import resnet19_v1", "nearest: resnet18_v1"),
    ("from hybrid.gluon.data.vision.transforms import Normalise", "nearest: Normalize"),
    ("from hybrid.init import Xaver", "nearest: Xavier"), ("from hybrid.contrib import quantisation", "quantization")])
def test_from_import_tells_them_too(line: str, told: str) -> None:
    with pytest.raises(ImportError, match=told) as error:
        exec(line, {})
    assert not isinstance(error.value, ModuleNotFoundError)


def test_classes_beside_a_block_may_have_the_names() -> None:
    class Trained:
        training = False

        def train(self) -> "Trained":
            self.training = True
            return self

        @property
        def parameters(self) -> list[str]:
            return [*self.collect_params()]              # type: ignore[attr-defined]

        @classmethod
        def compile(cls) -> str:
            return cls.__name__

    class Net(gluon.nn.HybridBlock, Trained):
        def train(self) -> Any:
            return super().train()

    class Last(gluon.nn.Dense, Trained):
        pass
    net = Net()
    assert not net.training and net.train() is net and net.training and Net.compile() == net.compile() == "Net"
    last = Last(2)
    assert last.train() is last and last.parameters == [*last.collect_params()] and not Last.training
    with pytest.raises(AttributeError, match="'Last' object has no attribute 'eval'; here it is"):
        last.eval()


def test_networks_may_have_the_names() -> None:
    class Net(gluon.nn.HybridBlock):
        def train(self) -> int:
            return 3
    net = Net()
    net.training = True
    assert net.train() == 3 and net.training and not hasattr(net, "parameters")


def test_dir_lists_what_is_there():
    class Named(hybrid.gluon.Block):
        def train(self):
            """A method that the class has, unlike blocks."""

    assert not {"parameters", "train", "to"} & set(dir(hybrid.gluon.nn.Dense(2)))
    assert "train" in dir(Named()) and "collect_params" in dir(Named()) and "to" not in dir(Named())
