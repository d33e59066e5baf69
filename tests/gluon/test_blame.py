"""Errors from a block's computation name the block, the user's line and the way out."""
from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.base.errors import HybridError
from hybrid.gluon import nn

HERE = re.escape(__file__)


class Computed(nn.HybridBlock):
    """A block whose computation is given."""

    def __init__(self, f: Callable[..., Any]):
        super().__init__()
        self.f = f

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self.f(F, x)


class NoNamespace(nn.HybridBlock):
    def hybrid_forward(self, x: Any) -> Any:             # type: ignore[override]
        return x


class OtherName(nn.HybridBlock):
    def __init__(self) -> None:
        super().__init__()
        self.w = self.params.get("w", shape=(3, 3))

    def hybrid_forward(self, F: Any, x: Any, weight: Any) -> Any:             # type: ignore[override]
        return F.dot(x, weight)


def after(*shapes: tuple[int, ...]) -> Callable[[Any], Any]:
    """Call a net with other shapes first."""
    def call(net: Any) -> Any:
        for shape in shapes:
            out = net(nd.ones(shape))
        return out
    return call


# what is wrong -> block, call, what the error says
WRONG: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], str]] = {
    "another size": (lambda: nn.Dense(4), after((2, 3), (2, 5)),
                     rf"weight must be \(4, 5\).*got \(4, 3\).*\[in Dense dense\d+, at {HERE}:\d+\]"),
    "shapes of a product": (lambda: Computed(lambda F, x: F.dot(x, x)), after((2, 3)),
                            rf"contracted axes differ.*\[in Computed computed\d+, at {HERE}:\d+\]"),
    "unknown attribute": (lambda: Computed(lambda F, x: F.softmax(x, axes=1)), after((2, 3)),
                          rf"no attribute 'axes'; it has axis.*\[in Computed .* at {HERE}:\d+\]"),
    "an axis too many": (lambda: nn.BatchNorm(axis=5), after((2, 3)), r"axis 5 .*\[in BatchNorm batchnorm\d+, at "),
    "no F": (NoNamespace, after((2, 3)),
             r"takes 2 positional .*called with F, the input .*\(none\): def hybrid_forward\(self, F, x\)"),
    "parameter of another name": (OtherName, after((2, 3)),
                                  r"argument 'w'.*by name \(w\): def hybrid_forward\(self, F, x, w\)"),
}


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
@pytest.mark.parametrize("name", [pytest.param(k, id=k.replace(" ", "_")) for k in WRONG])
def test_what_a_block_does_wrong(name: str, hybridized: bool) -> None:
    make, call, text = WRONG[name]
    net = nn.HybridSequential()
    net.add(make())
    net.initialize()
    if hybridized:
        net.hybridize()
    with pytest.raises((HybridError, TypeError), match=text):
        call(net)


def dense(**kwargs: Any) -> Any:
    net = nn.Dense(2, in_units=3, **kwargs)
    net.initialize()
    return net


def twice() -> None:
    x = nd.ones((2,))
    x.attach_grad()
    with autograd.record():
        y = x * x
    y.backward()
    y.backward()


def saved(folder: Path) -> str:
    net = nn.HybridSequential()
    net.add(dense())
    net.save_parameters(str(folder / "net.params"))
    return str(folder / "net.params")


OTHERS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "device by name": (lambda _: nn.Dense(2).initialize(ctx="cpu"), r"a device such as hybrid.cpu\(\).*got 'cpu'"),
    "net to a trainer": (lambda _: gluon.Trainer(dense(), "sgd"), r"got Dense: give it net.collect_params\(\)"),
    "not initialized": (lambda _: gluon.Trainer(nn.Dense(2).collect_params(), "sgd").step(1),
                        r"call net.initialize\(\) first"),
    "backward twice": (lambda _: twice(), "retain_graph=True"),
    "names of blocks": (lambda f: dense().collect_params().load(saved(f), mx.cpu()), "use net.load_parameters"),
    "more than there is": (lambda f: nn.HybridSequential().load_parameters(saved(f)), "it has none"),
    "in another namespace": (lambda _: nd.boolean_mask, "here it is nd.contrib.boolean_mask"),
}


@pytest.mark.parametrize("name", [pytest.param(k, id=k.replace(" ", "_")) for k in OTHERS])
def test_what_else_goes_wrong(name: str, tmp_path: Path) -> None:
    call, text = OTHERS[name]
    with pytest.raises((HybridError, AttributeError), match=text):
        call(tmp_path)


def test_a_deep_copy_of_a_net_trains() -> None:
    """Copies of parameters collect gradients as the parameters do; MXNet's do not."""
    net = copy.deepcopy(dense())
    net.bias.grad_req = "null"
    net = copy.deepcopy(net)
    with autograd.record():
        loss = net(nd.ones((4, 3))).sum()
    loss.backward()
    np.testing.assert_array_equal(net.weight.grad().asnumpy(), np.full((2, 3), 4))
    assert net.bias.grad_req == "null"
    gluon.Trainer(net.collect_params(), "sgd").step(1)
