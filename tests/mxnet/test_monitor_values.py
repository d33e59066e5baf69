"""Monitor: values inside of a run and gradients inside of a backward, as MXNet 1.9.1 names and orders them."""
from __future__ import annotations

from typing import Any

import pytest

import hybrid as mx
from hybrid import nd, sym

X = sym.var("x")
FC = sym.FullyConnected(X, num_hidden=2, name="fc")
OWN = ["x", "fc_weight", "fc_bias"]                                  # the arguments, which come last
BEHIND = ["fc_backward_output0", "fc_backward_output1", "fc_backward_output2"]
HEAD = "_head_grad_0_id_output"
SUM = "sum_grad_output"

# a graph, the names in front of the arguments'
WATCHED: list[tuple[Any, list[str]]] = [
    (FC, ["fc_output", HEAD, *BEHIND]),
    (sym.Activation(FC, act_type="relu", name="act"),
     ["fc_output", "act_output", HEAD, "act_backward_output", *BEHIND]),
    (sym.dot(FC, FC, transpose_b=True, name="dt"),
     ["fc_output", "dt_output", HEAD, "dt_backward_output0", "dt_backward_output1", SUM, *BEHIND]),
    (sym.where(FC > 0, FC, FC, name="wh"),
     ["fc_output", "_greater_scalar0_output", "wh_output", HEAD, "wh_backward_output0", "wh_backward_output1", SUM,
      *BEHIND]),
    (sym.SoftmaxOutput(FC, name="sm"), ["fc_output", "sm_output", "sm_backward_output0", "sm_backward_output1",
                                        *BEHIND]),
]


def rows(symbol: Any, **options: Any) -> list[tuple[str, float]]:
    e = symbol.simple_bind(mx.cpu(), x=(2, 3))
    for a in e.arg_arrays:
        a[:] = 0.3
    mon = mx.mon.Monitor(1, stat_func=lambda x: x.sum().asscalar(), **options)
    mon.install(e)
    mon.tic()
    e.forward(is_train=True)
    e.backward(nd.ones(e.outputs[0].shape))
    return [(name, float(text)) for _, name, text in mon.toc()]


@pytest.mark.parametrize(("symbol", "names"), WATCHED, ids=lambda v: v.name if isinstance(v, sym.Symbol) else "")
def test_names(symbol: Any, names: list[str]) -> None:
    with mx.name.NameManager():
        found = [n for n, _ in rows(symbol)]
    spoken = [n.replace("_greater_scalar1", "_greater_scalar0") for n in found]
    assert spoken == [*names, *symbol.list_arguments()]


def test_values() -> None:
    found = dict(rows(sym.Activation(FC, act_type="relu", name="act")))
    wanted = {"fc_output": 2.28, "act_output": 2.28, HEAD: 4, "act_backward_output": 4, "fc_backward_output0": 3.6,
              "fc_backward_output1": 3.6, "fc_backward_output2": 4, "x": 1.8, "fc_weight": 1.8, "fc_bias": 0.6}
    assert found == pytest.approx(wanted, rel=1e-5)


def test_inputs_too() -> None:
    found = [n for n, _ in rows(sym.SoftmaxOutput(FC, name="sm"), monitor_all=True)]
    assert found[:11] == ["x", "fc_data", "fc_weight", "fc_weight", "fc_bias", "fc_bias", "fc_output", "sm_data",
                          "sm_label", "sm_label", "sm_output"]


def test_training_values_and_draws_of_the_watched_run() -> None:
    """Dropout's mask is that of the run; watching draws nothing of its own; BatchNorm uses the batch."""
    z = sym.Dropout(sym.BatchNorm(X, name="bn", fix_gamma=True), p=0.5, name="do")
    results, after = [], []
    for watch in (False, True):
        e = z.simple_bind(mx.cpu(), x=(40, 3))
        e.arg_dict["x"][:] = nd.arange(120).reshape((40, 3))
        e.aux_dict["bn_moving_var"][:] = 1
        inside: dict[str, Any] = {}
        if watch:
            e.set_monitor_callback(inside.__setitem__)
        mx.random.seed(5)
        results.append(e.forward(is_train=True)[0].asnumpy())
        after.append(nd.random.uniform(shape=(3,)).asnumpy())
    assert (results[0] == results[1]).all() and (after[0] == after[1]).all()
    assert (inside["do_output"].asnumpy() == results[1]).all()
    assert abs(inside["bn_output"].asnumpy().mean(axis=0)).max() < 1e-5
    assert e.aux_dict["bn_moving_mean"].asnumpy() == pytest.approx([5.85, 5.95, 6.05], rel=1e-4)
