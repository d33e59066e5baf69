"""Checks of Gluon blocks and optimizers."""
from __future__ import annotations

from typing import Any, Callable, Sequence

from .. import autograd, nd
from ..base.device import current_context
from ..mxnet.initializer import Initializer
from ..mxnet.util import use_np
from .compare import assert_almost_equal
from .sparse import rand_ndarray


class _Given(Initializer):
    """Parameters from a dict of NumPy arrays."""

    def __init__(self, values: dict[str, Any]):
        super().__init__()
        self._values = values

    def __call__(self, desc: Any, arr: Any) -> None:
        arr[:] = self._values[str(desc)]

    def _init_weight(self, desc: Any, arr: Any) -> None:
        self(desc, arr)


@use_np
def check_gluon_hybridize_consistency(net_builder: Callable[..., Any], data_l: Sequence[Any],
                                      numpy_func: Callable[..., Any] | None = None,
                                      test_grad: bool = True, rtol: float = 1E-4, atol: float = 1E-4) -> None:
    """AssertionError unless a block gives the same results (and gradients of its inputs) eagerly and hybridized, with
    and without recording.

    net_builder: makes the block, called with ``prefix='net_'``. data_l: its inputs. numpy_func: the same on NumPy
    arrays.
    """
    values: dict[str, Any] | None = None
    outputs, gradients = None, None
    for hybridized in (False, True):
        for recorded in (False, True) if test_grad else (False,):
            net = net_builder(prefix="net_")
            net.initialize(_Given(values) if values is not None else None)
            if hybridized:
                net.hybridize()
            inputs = [x.copy() for x in data_l]
            found = None
            if recorded:
                for x in inputs:
                    x.attach_grad()
                with autograd.record():
                    out = net(*inputs)
                out.backward(out)
                found = [x.grad.asnumpy() for x in inputs]
            else:
                out = net(*inputs)
            if values is None:
                values, outputs = {k: p.data().asnumpy() for k, p in net.collect_params().items()}, out.asnumpy()
            assert_almost_equal(out, outputs, rtol, atol)
            gradients = gradients or found
            for g, first in zip(found or (), gradients or ()):
                assert_almost_equal(g, first, rtol, atol)
    if numpy_func is not None:
        assert_almost_equal(outputs, numpy_func(*[x.asnumpy() for x in data_l]), rtol, atol)


def compare_ndarray_tuple(t1: Any, t2: Any, rtol: Any = None, atol: Any = None) -> None:
    """assert_almost_equal of nested tuples of arrays; None is equal to everything."""
    if t1 is None or t2 is None:
        return
    if isinstance(t1, (tuple, list)):
        for a, b in zip(t1, t2):
            compare_ndarray_tuple(a, b, rtol, atol)
    else:
        assert_almost_equal(t1, t2, rtol=rtol, atol=atol)


def compare_optimizer(opt1: Any, opt2: Any, shape: Any, dtype: Any, w_stype: str = "default", g_stype: str = "default",
                      rtol: Any = 1e-4, atol: Any = 1e-5,
                      compare_states: bool = True, ntensors: int = 1) -> None:
    """AssertionError unless one update by each optimizer gives the same weights and states. shape: of a weight, or a
    list of shapes, which opt2 updates in one call. opt1 gets dense arrays, whatever the types of storage.
    """
    shapes = shape if isinstance(shape, list) else [shape]

    def draw(stype: str, density: float) -> list[Any]:
        if stype != "default":
            return [rand_ndarray(s, stype, density=density, dtype=dtype, ctx=current_context()) for s in shapes]
        return [nd.random.uniform(shape=s, ctx=current_context(), dtype=dtype) for s in shapes]
    weights, grads = draw(w_stype, 1), draw(g_stype, 0.5)
    results = []
    for optimizer, dense in ((opt1, True), (opt2, False)):
        ws, gs = ([a.tostype("default").copy() if dense else a.copy() for a in given] for given in (weights, grads))
        states = [optimizer.create_state_multi_precision(i, w) for i, w in enumerate(ws)]
        if isinstance(shape, list) and not dense:
            optimizer.update_multi_precision(list(range(len(ws))), ws, gs, states)
        else:
            for i, row in enumerate(zip(ws, gs, states)):
                optimizer.update_multi_precision(i, *row)
        results.append((ws, states))
    compare_ndarray_tuple(results[0][0], results[1][0], rtol, atol)
    if compare_states:
        compare_ndarray_tuple(results[0][1], results[1][1], rtol, atol)
