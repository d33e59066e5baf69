"""The operators that oracle/operator_lines.txt alone covers, as CUDA: what MXNet gave, in three orders of threads. Many
lines are one program."""
from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, nd

from .cuda_tools import orders
from ..ops.test_operator_lines import NUMBERS, RECORDED, TOLERANCE, _skips, lines

pytestmark = pytest.mark.usefixtures("cuda_device")
NEW = re.compile(r"im2col|col2im|Correlation|random_pdf|allclose|_ste|trian|PSROI|Proposal|RROIAlign|group_adagrad|ft[mr]l_update|rmsprop|signum_update|"  # noqa: E501
                 r"adam_update\(|lamb_update_phase1|multi_lars|all_finite|hawkesll|fill_element")
FIRST: dict[str, int] = {}                              # the first two lines of each operator
for _k in NUMBERS:
    _name = re.split(r"\(", lines.LINES[_k])[0]
    if NEW.search(lines.LINES[_k]) and lines.LINES[_k].startswith("F.") and f"{_name}2" not in FIRST:
        FIRST[f"{_name}2" if _name in FIRST else _name] = _k
ROWS = sorted(FIRST.values())


def _inputs(number: int) -> dict[str, nd.NDArray]:
    _, _, makers = lines.parse(lines.LINES[number])
    raw = {name: (lines.make(maker, k), grad) for k, (name, maker, grad) in enumerate(makers)}
    xs = {name: nd.array(value, dtype=value.dtype, ctx=mx.gpu(0)) for name, (value, _) in raw.items()}
    for name, (value, grad) in raw.items():
        if grad and value.dtype.kind == "f":
            xs[name].attach_grad()
    return xs


@pytest.mark.parametrize("start", range(0, len(ROWS), 16))
def test_hybridized(start: int) -> None:
    rows = ROWS[start:start + 16]
    codes = {k: compile(lines.parse(lines.LINES[k])[1], lines.LINES[k], "eval") for k in rows}

    @mx.hybridize
    def together(arrays: dict[int, dict[str, nd.NDArray]]) -> dict[int, Any]:
        return {k: lines.flat(eval(code, {"F": nd, **arrays[k]})) for k, code in codes.items()}       # noqa: S307
    for order in orders():
        arrays = {k: _inputs(k) for k in rows}
        with autograd.record(train_mode=False):
            results = {k: lines.flat(row) for k, row in together(arrays).items()}
        heads = []
        for k in rows:
            rng = np.random.RandomState(1)
            heads += [(y, nd.array(rng.uniform(0.5, 1.5, y.shape), dtype=y.dtype, ctx=mx.gpu(0))) for y in results[k]
                      if any(name.startswith("grad_") for name in RECORDED[k])]
        if heads:
            autograd.backward([y for y, _ in heads], [h for _, h in heads], train_mode=False)
        for k in rows:
            for name, expected in RECORDED[k].items():
                if _skips(lines.LINES[k], name):
                    continue
                kind, _, which = name.partition("_")
                got = (results[k][int(name[3:])] if name.startswith("out") else arrays[k][which].grad if kind == "grad"
                       else arrays[k][which])
                assert got.context == mx.gpu(0)
                tolerance = TOLERANCE.get(expected.dtype.name, 0)
                what = f"{lines.LINES[k]} {name} {order}"
                np.testing.assert_allclose(got.asnumpy().astype("float64"), expected.astype("float64"), rtol=tolerance,
                                           atol=tolerance, err_msg=what)


def test_there_are_enough() -> None:
    assert len(ROWS) > 35
