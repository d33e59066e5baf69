"""The report names the form of each kernel on a GPU, and says why faster ones do not fit."""
from __future__ import annotations

import pytest

from hybrid import gpu as gpu_context, ir
from hybrid.runtime.cuda.emulator import EmulatorDriver
from hybrid.runtime.cuda.program import CudaProgram, planned_for

from .cuda_forms import Form, normal, program
from .test_cuda_tensor import product

pytestmark = pytest.mark.usefixtures("cuda_device")


def squared(x: ir.Node) -> ir.Node:
    """Numbers less their mean; so far from one another in memory that each pass reads a row again, if it is long."""
    d = x - ir.reduce("sum", x, (1,), True) / x.shape[1]
    return d * ir.map("rsqrt", ir.reduce("sum", d * d, (1,), True))


CASES: dict[str, tuple[Form, str, str, str]] = {
    "warps": (product(128, 128, 64, "float32", "NT"), "sm_80", "as products of warps",
              "not as products of warpgroups: only GPUs of sm_90a multiply by them"),
    "warpgroups": (product(2048, 1024, 512, "float32", "NT"), "sm_90a", "as products of warpgroups",
                   "not as equal shares of the depth: "),
    "tiles": (product(64, 64, 64, "float32", "NT"), "sm_86", "as tiles",
              "not as products of tensor cores: this GPU's do not multiply float32, or not faster"),
    "small": (product(12, 64, 64, "float32", "NT"), "sm_80", "as tiles",
              "not as products of tensor cores: fewer than 16 rows, 16 columns or 16 steps of the depth"),
    "few rows": (product(2, 64, 64, "float32", "NT"), "sm_80", "as dot products",
                 "not as tiles: 2 rows or columns fill none"),
    "rows": (Form(squared, [normal(4, 1000)]), "sm_80", "as rows in registers", ""),
    "long rows": (Form(squared, [normal(4, 40000)]), "sm_80", "as rows that are read in each pass",
                  "not as rows in registers: 40000 elements are more than 32"),
    "a sum": (Form(lambda x: ir.reduce("sum", x, (1,)), [normal(300, 200)]), "sm_80",
              "as rows that are read in each pass", "not as rows in registers: a row has one result")}


@pytest.mark.parametrize("name", CASES)
def test_forms_and_reasons(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    form, arch, taken, other = CASES[name]
    monkeypatch.setattr(EmulatorDriver, "arch", arch)
    said = str(CudaProgram(planned_for(program([form])[0], gpu_context(0)), gpu_context(0)).report)
    assert taken in said and other in said, said
