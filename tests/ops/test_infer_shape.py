"""Blocks that tell their parameters' shapes themselves (``infer_shape``), and graphs of blocks that read parameters as
arrays."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hybrid import autograd, gluon, init, nd, sym
from hybrid.base.errors import DeferredInitializationError
from hybrid.gluon import nn


class Told(nn.HybridBlock):
    """x wᵀ by ``dot``, from which no shape of w follows."""

    def __init__(self, told: bool = True):
        super().__init__()
        self.told = told
        with self.name_scope():
            self.w = self.params.get("w", shape=(3, 0), init=init.Normal(), allow_deferred_init=True)
            self.last = nn.Dense(4)

    def infer_shape(self, x: Any, *args: Any) -> None:
        if self.told:
            self.w.shape = (3, x.shape[1])

    def hybrid_forward(self, F: Any, x: Any, w: Any) -> Any:
        return self.last(F.dot(x, w, transpose_b=True))


class Newer(nn.HybridBlock):
    """The same with ``forward``."""

    def __init__(self) -> None:
        super().__init__()
        self.w = gluon.Parameter("w", shape=(3, -1), init=init.Normal(), allow_deferred_init=True)
        self.last = nn.Dense(4)

    def infer_shape(self, x: Any) -> None:
        self.w.shape = (3, x.shape[1])

    def forward(self, x: Any) -> Any:
        return self.last(nd.dot(x, self.w.data().T))


def within(block: Any, nested: bool) -> Any:
    if not nested:
        return block
    net = nn.HybridSequential()
    net.add(nn.Dense(5, activation="tanh"), block)
    return net


@pytest.mark.parametrize("nested", [False, True], ids=["outermost", "nested"])
@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
@pytest.mark.parametrize("kind", [Told, Newer])
def test_shapes_that_a_block_tells(kind: type, hybridized: bool, nested: bool) -> None:
    net = within(kind(), nested)
    net.initialize()
    if hybridized:
        net.hybridize()
    x = nd.array(np.random.default_rng(0).standard_normal((2, 5)))
    with autograd.record():
        y = net(x)
    y.backward()
    net.hybridize(not hybridized)
    assert y.shape == (2, 4)
    np.testing.assert_allclose(net(x).asnumpy(), y.asnumpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
def test_what_is_not_told(hybridized: bool) -> None:
    net = Told(told=False)
    net.initialize()
    if hybridized:
        net.hybridize()
    with pytest.raises(DeferredInitializationError, match="infer_shape"):
        net(nd.ones((2, 5)))


def test_parameters_read_as_arrays_are_variables_of_an_exported_graph(tmp_path: Path) -> None:
    net = within(Newer(), True)
    net.initialize()
    net.hybridize()
    x = nd.array(np.random.default_rng(0).standard_normal((2, 5)))
    want = net(x).asnumpy()
    files = net.export(str(tmp_path / "net"))
    assert "w" in sym.load(files[0]).list_arguments()
    got = gluon.SymbolBlock.imports(files[0], ["data"], files[1])(x)
    np.testing.assert_allclose(got.asnumpy(), want, rtol=1e-5, atol=1e-6)
