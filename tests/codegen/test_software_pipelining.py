"""Row kernels in C with several rows under way (codegen/schedule/software_pipelining.py): the same bits as row by
row, whatever lies in the rows beside."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import nd
from hybrid.codegen.printers.rows import rows
from hybrid.codegen.lanes import LaneLoop
from hybrid.codegen.schedule.software_pipelining import in_stages
from hybrid.ir.index import Ix, Var
from hybrid.ir.stmt import Assign, For, Let, Load, Name, Op, Stmt, Store

FORMS: dict[str, Callable[[Any], Any]] = {
    "softmax": lambda x: nd.softmax(x),
    "log_softmax": lambda x: nd.log_softmax(x),
    "layer_norm": lambda x: nd.LayerNorm(x, nd.ones((x.shape[-1],)) * 2, nd.ones((x.shape[-1],))),
    "log_sum_exp": lambda x: nd.log(nd.sum(nd.exp(nd.broadcast_sub(x, nd.max(x, axis=-1, keepdims=True))), axis=-1)),
    "gated": lambda x: nd.sigmoid(x) * nd.sum(x * nd.sigmoid(x), axis=-1, keepdims=True),
    "normalized": lambda x: nd.L2Normalization(x),
    "masked": lambda x: nd.softmax(nd.where(x > 0, x, nd.ones_like(x) * -1e9)),
}


def hybridized(x: Any, *forms: str) -> tuple[list[np.ndarray], str]:
    # nothing that two of them share
    compiled = mx.hybridize(lambda x: [FORMS[f](x * i) for i, f in enumerate(forms, 1)])
    out = [y.asnumpy() for y in compiled(x)]
    return out, compiled.report().source


def some(rows_: int, width: int) -> np.ndarray:
    x = np.random.default_rng(rows_ * width).standard_normal((rows_, width)).astype("float32") * 5
    x[1, width // 2], x[2] = np.nan, -np.inf
    x[3, 0] = np.inf
    return x


@pytest.mark.parametrize("width", [17, 63, 65, 257])
def test_rows_under_way_are_those_done_one_by_one(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = nd.array(some(11, width))
    staged, source = hybridized(x, *FORMS)
    monkeypatch.setattr(rows, "in_stages", lambda *_: None)
    plain, other = hybridized(x, *FORMS)
    for name, got, want in zip(FORMS, staged, plain):
        if width > 32:
            np.testing.assert_array_equal(got, want, err_msg=name)
        else:  # gcc joins products and sums as it likes
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6, err_msg=name)
    assert "t_ < to_" not in other
    if width > 32 and "hy_v " in source:
        assert source.count(") {\n        for (long b_") >= len(FORMS) - 2, source


def test_a_row_is_the_same_wherever_threads_part_them() -> None:
    x = np.tile(some(7, 200)[4:], (300, 1))
    (out,), source = hybridized(nd.array(x), "softmax")
    np.testing.assert_array_equal(out, np.tile(out[:3], (300, 1)))
    assert "parts_" in source or "hy_v " not in source


def test_what_is_not_of_the_form_is_left_alone() -> None:
    assert in_stages(*_loop(["union { int a; } u;"])) is None
    assert in_stages(*_loop([])) is not None


def _loop(first: list[Stmt]) -> Any:
    """softmax's last two loops in a row of 64: a sum, and exponentials of it."""
    row, lane, last = Var("i0", 9), Var("r1", 64), Var("i1", 64)
    total, sums = Name("a1"), Name("a1@")
    add = Assign(sums, Load(Name("p1"), Ix(0, ((lane, 1), (row, 64))), "LOAD"), "+=")
    power = Store(Name("p0"), Ix(0, ((last, 1), (row, 64))), Op("hyv_exp(HYV_B({0}))", (total,)), "STORE")
    body = [*first, Let("hy_v", Name("a1_0"), Op("HYV_B(0.0f)", ())), For("r1", Ix(), Ix(64), (add,), 16),
            Let("float", total, Op("hyv_sum({0})", (Name("a1_0"),)), True)]
    begin = len(first) + 1
    return (row, body, [(begin, begin + 1, LaneLoop(lane, [add], 1))], LaneLoop(last, [power], 1), 16, None, "", 4,
            False, False)


def test_exponentials_far_below_the_largest_element() -> None:
    """Down to the least subnormal number and to zero; a NaN beside them stays one."""
    x = np.zeros((6, 96), np.float32)
    x[:, 1:] = -np.linspace(0, 120, 95)
    x[4, 7], x[5, 3] = np.nan, -np.inf
    (got,), _ = hybridized(nd.array(x), "softmax")
    wide = np.exp(x.astype(np.float64))
    want = wide / wide.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(got[[0, 5]], want[[0, 5]], rtol=3e-6, atol=3e-45)
    assert got[0, 81] > 0 and got[0, 95] == 0 and got[5, 3] == 0 and np.isnan(got[4]).all()
