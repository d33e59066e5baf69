"""What published packages do with private parts of MXNet's classes."""
import numpy as np
import pytest

import hybrid
from hybrid import autograd, gluon, nd


class Halved(gluon.Parameter):
    """A parameter that takes another's place, as GluonNLP's WeightDropParameter does."""

    def __init__(self, p):
        self._deferred_init = p._deferred_init
        super().__init__(name=p.name, grad_req=p.grad_req, shape=p._shape, dtype=p.dtype, init=p.init,
                         allow_deferred_init=p._allow_deferred_init, differentiable=p._differentiable)
        self._var, self._data, self._grad = p._var, p._data, p._grad
        self._ctx_list, self._ctx_map, self._trainer = p._ctx_list, p._ctx_map, p._trainer

    def data(self, ctx=None):
        return self._check_and_get(self._data, ctx) / 2


@pytest.mark.parametrize("before", [True, False])
def test_a_parameter_that_takes_anothers_place(before):
    net = gluon.nn.Dense(2, in_units=3, use_bias=False)
    if before:
        net.initialize(init="one")
    p = Halved(net.weight)
    net.params._params[p.name] = net._reg_params["weight"] = p
    net.__dict__["weight"] = p
    if not before:
        net.initialize(init="one")
    with autograd.record():
        y = net(nd.ones((1, 3)))
    y.backward()
    assert y.asnumpy().tolist() == [[1.5, 1.5]] and p._grad[0].asnumpy().tolist() == np.full((2, 3), 0.5).tolist()
    with pytest.raises(hybrid.MXNetError, match="_grad follows from _data"):
        p._grad = None


class ChoosesCode(gluon.HybridBlock):
    """Takes other functions for arrays than for Symbols, as GluonTS's distributions do."""

    @staticmethod
    def functions_for(x):
        return nd if isinstance(x, nd.NDArray) else hybrid.sym if isinstance(x, hybrid.sym.Symbol) else None

    def hybrid_forward(self, F, x):
        functions = self.functions_for(x)
        if functions is nd and functions.sum(x) < 0:
            return x * 3
        return functions.exp(x)


def test_code_for_symbols_is_compiled_where_that_for_arrays_needs_numbers():
    net, x = ChoosesCode(), nd.array([1., 2.])
    wanted = net(x).asnumpy()
    net.hybridize()
    x.attach_grad()
    with autograd.record():
        y = net(x)
    y.backward()
    assert y.asnumpy() == pytest.approx(wanted) and x.grad.asnumpy() == pytest.approx(wanted)


class NeedsNumbers(gluon.HybridBlock):
    def hybrid_forward(self, F, x):
        if isinstance(x, nd.NDArray):
            return x if F.sum(x).asscalar() < 0 else x * 2
        return x * 2 if F.max(x) > 0 else x


def test_where_both_need_numbers_the_line_for_arrays_is_named():
    net = NeedsNumbers()
    net.hybridize()
    with pytest.raises(hybrid.MXNetError, match=r"asscalar\(\) needs the value"):
        net(nd.ones((2,)))
