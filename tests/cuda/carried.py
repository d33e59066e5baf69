"""What tests of reductions that products' kernels carry share, be they of columns or of rows."""
from __future__ import annotations

import math

import numpy as np
import pytest

from hybrid.codegen.printers.cuda import warpgroup
from hybrid.runtime import reference
from hybrid.runtime.cuda.emulator import EmulatorDriver

from .cuda_forms import Form, program
from .cuda_tools import run_program

ARCHS = ["sm_80", "sm_86", "sm_90a"]           # by warps on tensor cores, in tiles of other units, by warpgroups


@pytest.fixture(name="arch", params=ARCHS)
def printed_arch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """An architecture whose kernels are printed and emulated."""
    monkeypatch.setattr(EmulatorDriver, "arch", request.param)
    if request.param == "sm_90a":
        monkeypatch.setattr(warpgroup, "best_cost", lambda p: math.inf)
    return str(request.param)


def check_orders(form: Form) -> None:
    """Results are right in all orders of threads, and have the same bits in those in which tensor cores add alike."""
    whole, arrays, *_ = program([form])
    found = [got for _, got, _ in run_program(whole, arrays)]
    for n, wanted in enumerate(reference.run(whole, arrays, np)[0]):
        for got in found:
            np.testing.assert_allclose(got[n], wanted, rtol=2e-5, atol=2e-4)
        for got in found[1:2]:                                   # the third one's tensor cores add otherwise
            np.testing.assert_array_equal(found[0][n], got[n])
