"""What follows packed convolutions and dense layers: every function, also those that have no form in vectors."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import nd
from hybrid.codegen.printers.convolutions import packed
from hybrid.gluon import nn

FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "softrelu": lambda F, y: F.Activation(y, act_type="softrelu"), "elu": lambda F, y: F.LeakyReLU(y, act_type="elu"),
    "selu": lambda F, y: F.LeakyReLU(y, act_type="selu"), "sin": lambda F, y: F.sin(y),
    "arctan": lambda F, y: F.arctan(y) + y,
    "log1p": lambda F, y: F.log1p(F.abs(y)), "sign": lambda F, y: F.sign(y) * y,
    "cbrt": lambda F, y: F.cbrt(F.abs(y) + 1),
    "hypot": lambda F, y: F.broadcast_hypot(y, y + 1), "logical": lambda F, y: F.logical_and(y > -100, y < 100),
    "float64": lambda F, y: y.astype("float64") * 2, "int32": lambda F, y: (y * 0).astype("int32") + 3,
    "round trip": lambda F, y: (y * 0).astype("int32").astype("float32") + y,
    "positions": lambda F, y: F.contrib.arange_like(y) * 0.01 + y,
    "mask": lambda F, y: F.broadcast_mul(y, F.mean(F.sin(y), axis=1, keepdims=True)),
    "two": lambda F, y: F.concat(F.sin(y), y * 2, dim=1), "sum": lambda F, y: F.sum(F.sin(y), axis=1),
    "row": lambda F, y: F.softmax(F.sin(y), axis=1),
}


class _Net(nn.HybridBlock):
    def __init__(self, layer: str, function: Callable[[Any, Any], Any]):
        super().__init__()
        self.function = function
        self.layer = nn.Conv2D(24, 3, padding=1,
                               in_channels=16) if layer == "convolution" else nn.Dense(40, in_units=24)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self.function(F, self.layer(x))


def _check(layer: str, name: str) -> Any:
    mx.random.seed(0)
    net = _Net(layer, FUNCTIONS[name])
    net.initialize(mx.init.Normal(0.2))
    x = nd.random.normal(shape=(2, 16, 9, 9) if layer == "convolution" else (19, 24))
    want = net(x).asnumpy()
    net.hybridize()
    found = net(x)
    assert found.asnumpy().dtype == want.dtype
    np.testing.assert_allclose(found.asnumpy(), want, rtol=2e-5, atol=2e-5)
    return net.report()


@pytest.mark.parametrize("layer", ["convolution", "dense"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str, layer: str) -> None:
    kinds = [k.kind for k in _check(layer, name).kernels]
    # positions in (N, C, H, W) lie across the channels
    assert "convolution" in kinds or layer == "dense" or name == "positions"


@pytest.mark.parametrize("name", ["softrelu", "positions", "int32"])
def test_what_the_printers_refuse_is_planned_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what was refused in kernels of its own, where fusion took a printer to know more than it does: the
    convolution stays packed."""
    monkeypatch.setattr(packed, "in_vectors", lambda n: True)
    monkeypatch.setenv("HYBRID_CPU_TEST", "refused")         # not by a recipe from the disk
    assert any(k.kind == "convolution" for k in _check("convolution", name).kernels)
