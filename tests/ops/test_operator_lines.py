"""Every recorded line of oracle/operator_lines.txt: hybrid's operators give what MXNet 1.9.1 gave, eagerly, hybridized,
and as a bound Symbol."""
from __future__ import annotations

import importlib.util
import re
from typing import Any

import numpy as np
import pytest

import hybrid as mx

from ..packed_arrays import load
from ..paths import DATA, TESTS

_spec = importlib.util.spec_from_file_location("operator_lines", TESTS / "oracle" / "operator_lines.py")
assert _spec and _spec.loader
lines = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(lines)
RECORDED: dict[int, dict[str, np.ndarray]] = {}
for _name, _value in load(DATA / "operator_lines.npz").items():
    if _name != "none":
        RECORDED.setdefault(int(_name.split(".")[0]), {})[_name.split(".")[1]] = _value

TOLERANCE = {"float16": 5e-3, "float32": 5e-5, "float64": 1e-5}
# what differs on purpose: (pattern of lines, arrays, why)
DIFFERENT = [
    (r"F\.mp_lamb_update_phase2|F\.mp_nag_mom_update.*wd=", r"after_.*",
     "MXNet does not keep its own master copy up to date"),
    (r"multi_mp_lamb_update", r"out0|after_[ae]", "MXNet takes the norm of the rounded weight"),
    (r"contrib\.adamw_update", r"after_b", "MXNet writes the scaled gradient over the gradient"),
    (r"hawkesll", r"grad_[cd]", "MXNet's gradient to beta is not the derivative, and it has none to the state"),
    (r"gelqf", r".*", "the sign of a row of Q (column of L) is free: MXNet's follows LAPACK"),
    (r"act_type='selu'", r"grad_.*", "MXNet's gradient is not the derivative"),
    (r"BatchNorm.*", r"after_.*|grad_a",
     "MXNet writes statistics during backward, overwrites gamma where it is fixed, and takes no gradient of mean and "
     "variance"),
    (r"(LayerNorm|GroupNorm).*output_mean_var", r"grad_a", "MXNet takes no gradient of mean and variance"),
    (r"CTCLoss.*use_data_lengths", r"grad_a", "MXNet's gradient beyond a sequence's length is not 0"),
    (r"image\.flip_", r".*", "MXNet leaves the middle of odd lengths undefined"),
    (r"\| a=i\(|b=i\(", r"out.*", "integers: hybrid gives float32 where MXNet truncates"),
    (r"F\.(gamma|gammaln)\(a\) \| a=arr", r"grad_a", "at a pole the sign of infinity is free"),
    (r"float\('nan'\)", r"grad_a", "gradients of not a number"),
    (r"SoftmaxActivation\(a\) \| a=f\(2,3,4\)", r"grad_a", "MXNet's gradient is not that of its result"),
    (r"a\*\*b", r"grad_.*", "powers of negative numbers: not a number in MXNet also where the gradient is 0"),
    (r"F\.where\(a,b,c\) \| a=!arr\(\[\[1,0,1\]\]\)", r".*", "MXNet reads past the end of the condition"),
    (r"F\.unravel_index.*\[\[", r"out0", "MXNet gives the shape of the input"),
]


def _skips(line: str, name: str) -> bool:
    return any(re.search(pattern, line) and re.fullmatch(arrays, name) for pattern, arrays, _ in DIFFERENT)


def _check(number: int, wrap: Any = None) -> None:
    line = lines.LINES[number]
    found, wanted = lines.run(mx, line, wrap), RECORDED[number]
    names = [n for n in wanted if not _skips(line, n)]
    assert set(names) <= set(found), f"{set(names) - set(found)} is missing"
    assert not {n for n in found if n not in wanted and not _skips(line, n)}
    for name in names:
        got, expected = found[name], wanted[name]
        assert (got.shape, got.dtype) == (expected.shape, expected.dtype), name
        tolerance = TOLERANCE.get(expected.dtype.name, 0)
        np.testing.assert_allclose(got.astype("float64"), expected.astype("float64"), rtol=tolerance, atol=tolerance,
                                   err_msg=name)


def _id(number: int) -> str:
    return f"{number}-{re.sub(r'[^A-Za-z0-9]+', '-', lines.LINES[number]).strip('-')[:40]}"


NUMBERS = sorted(RECORDED)


@pytest.mark.parametrize("number", NUMBERS, ids=_id)
def test_eager(number: int) -> None:
    """Values, shapes, dtypes, gradients, and what is written in place."""
    _check(number)


# functions of Python around operators, and writes into inputs
PYTHON = re.compile(r"nd\.|multi_|reset_arrays|_update\(|histogram")
TRACED = [k for k in NUMBERS if not PYTHON.search(lines.LINES[k]) and "boolean_mask" not in lines.LINES[k]]


@pytest.mark.share(2)
@pytest.mark.parametrize("number", TRACED, ids=_id)
def test_hybridized(number: int) -> None:
    """The same through one compiled program."""
    _check(number, mx.hybridize)
