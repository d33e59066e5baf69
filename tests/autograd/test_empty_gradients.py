"""Gradients where an axis has length 0: of the right shape, zero where they are sums over nothing, the same eagerly, in
C and in CUDA."""
from __future__ import annotations

from typing import Iterator

import numpy as np
import pytest

from hybrid import nd
from hybrid.base.device import cpu, find_cupy, gpu
from hybrid.base.errors import HybridError, ShapeError
from hybrid.gluon import nn

from ..ops.gradient_rows import Row, cut_row, rows
from .test_eager_gradients import _gradients, _inputs, _leaves, _same_draws  # noqa: F401  a fixture
from ..ops.test_ops_gradients import _compiled_equals_reference, _run

CHUNK = 100


def _empty() -> Iterator[Row]:
    """Rows with one axis of the first input, and what has its length, cut to nothing; where an operator has no answer,
    left out."""
    for _, row in rows():
        shape = row.inputs[0].shape
        for axis, n in enumerate(shape):
            try:
                cut = cut_row(row, [np.take(x, [], axis) if x.shape[axis:axis + 1] == (n,) else x
                                    for x in _inputs(row)])
            except HybridError:
                # a mean of nothing, a window larger than the picture: said clearly
                continue
            if cut.wrt:
                yield cut


EMPTY = list(_empty())


def test_most_operators_take_empty_arrays() -> None:
    assert len({row.name for row in EMPTY}) >= 310


@pytest.mark.parametrize("start", range(0, len(EMPTY), CHUNK))
def test_eager(start: int) -> None:
    """``autograd.grad`` of the eager operator, against the backward program."""
    for row in EMPTY[start:start + CHUNK]:
        expected = _run(row.backward, [*row.inputs, *row.heads])
        for slot, e in zip(row.wrt, expected):
            assert e.shape == row.inputs[slot].shape
        if not row.special:
            _run(row.twice, [*row.inputs, *row.heads, *row.seeds])
        for g, e in zip(_gradients(row, _leaves(row, _inputs(row))), expected, strict=True):
            np.testing.assert_allclose(g.asnumpy(), e, err_msg=row.name)


@pytest.mark.parametrize("order", [1, 2], ids=["first", "second"])
@pytest.mark.parametrize("start", range(0, len(EMPTY), CHUNK))
def test_compiled(start: int, order: int) -> None:
    _compiled_equals_reference(EMPTY[start:start + CHUNK], order, cpu())


@pytest.mark.parametrize("start", range(0, len(EMPTY), CHUNK))
def test_cuda(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if find_cupy() is None:
        monkeypatch.setenv("HYBRID_CUDA", "emulator")
    _compiled_equals_reference(EMPTY[start:start + CHUNK], 1, gpu())


class _Gather(nn.HybridBlock):
    def hybrid_forward(self, F, x, index):
        return F.gather_nd(x, index)


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
def test_nothing_can_be_taken_from_an_empty_axis(hybridized: bool) -> None:
    net = _Gather()
    if hybridized:
        net.hybridize()
    with pytest.raises(ShapeError, match=r"nothing can be taken from axis 0 of an array of shape \(0, 3\)"):
        net(nd.zeros((0, 3)), nd.array([[0, 1]]))
    assert net(nd.zeros((0, 3)), nd.zeros((1, 0))).shape == (0, 3)


def test_nothing_can_be_put_into_an_empty_axis() -> None:
    with pytest.raises(ShapeError, match="nothing can be put into axis 0"):
        nd.scatter_nd(nd.ones((2,)), nd.array([[0, 1]]), shape=(0,))
