"""Budgets of kernels, counted in their machine code: launches, spills, instructions for a product, modelled time."""
from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hybrid.codegen import cuda
from hybrid.codegen.printers.cuda import contraction, warpgroup
from hybrid.codegen.printers.cuda.shares import Division
from hybrid.passes.pipeline import plan
from hybrid.runtime.cuda import nvrtc
from .cuda_forms import program
from .test_cuda_tensor import product
from ..paths import DATA, ROOT

BUDGETS = json.loads((DATA / "gpu_budgets.json").read_text())
QUICK = ("MLP, batch 256", "softmax", "LayerNorm", "GEMM 4096")
BESIDE_BENCHMARKS = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'benchmarks'}"}
sys.path.insert(0, str(ROOT / "benchmarks"))
import gpu_sass  # noqa: E402  it lies with the benchmarks

pytestmark = pytest.mark.skipif(not nvrtc.available() or not gpu_sass.available(),
                                reason="no NVRTC, cuobjdump or nvdisasm (pip install nvidia-cuda-nvrtc "
                                       "nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm)")


def counted(only: str) -> dict[str, Any]:
    """By program and GPU, from a process of its own, which replaces the driver."""
    done = subprocess.run([sys.executable, str(ROOT / "benchmarks" / "gpu_counts.py"), "--json", "--only", only],
                          capture_output=True, text=True, check=False, env=BESIDE_BENCHMARKS)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def check(only: str) -> None:
    found = counted(only)
    assert found
    for name, gpus in found.items():
        assert name in BUDGETS, f"{name} has no budget"
        for gpu, figures in gpus.items():
            for what, most in BUDGETS[name][gpu].items():
                assert figures[what] <= most * 1.02, (f"{name} on {gpu}: {what} is {figures[what]}, its budget {most}; "
                                                      f"python benchmarks/gpu_counts.py --kernels shows more")


@pytest.mark.parametrize("only", QUICK)
def test_budgets(only: str) -> None:
    check(only)


@pytest.mark.thorough
def test_budgets_of_all_programs() -> None:
    for name in BUDGETS:
        check(name)


def test_kinds_of_instructions() -> None:
    """Counts of a kernel whose instructions are known: a 16-byte load and store, a loop with one FFMA a turn."""
    text = ('extern "C" __global__ void k(float4 *x, const float *y, int) {\n  float4 v = x[threadIdx.x];\n'
            '  #pragma unroll 1\n  for (int i = 0; i < 100; i++) v.x = v.x * 3.f + y[i];\n  x[threadIdx.x] = v;\n}\n')
    code = gpu_sass.sass(nvrtc.compile(text, "sm_80").cubin)["k"]
    counts = gpu_sass.counts(code)
    assert counts["LDG.128"] == counts["STG.128"] == 1 and counts["FFMA"] == 1
    (_, _, body), = gpu_sass.loops(code)
    assert gpu_sass.counts(body)["FFMA"] == 1 == gpu_sass.counts(body)["LDG"]


def test_bytes_of_kernels() -> None:
    """What a kernel reads and writes, in each type, alone and together with others."""
    code = ("import gpu_counts as c, nets\n"
            "for d in ('float32', 'float16', 'bfloat16'):\n"
            "    print(c.record(c.inference(nets.Gelu(), (64, 32), dtype=d), c.H100)[0].bytes)\n"
            "both = c.mx.hybridize(lambda x, y: (x + 1, y.astype('float16') + 1))\n"
            "print(c.record(lambda: both(*(c.nd.zeros((64,), c.GPU) for _ in range(2))), c.H100)[0].bytes)\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False,
                          env=BESIDE_BENCHMARKS)
    assert done.stdout.split("\n")[:-1] == [str([2 * 64 * 32 * size]) for size in (4, 2, 2)] + [
        str([64 * (3 * 4 + 2)])], done.stderr


def test_the_model_says_of_the_first_kernels_what_the_review_said() -> None:
    """The forms of kernels that came later have rules of their own; those of the first ones stay as they were. The data
    are the kernels that the review counted: microseconds of a program, and its launches as gpu_model has them."""
    import gpu_model  # noqa: PLC0415  beside gpu_sass
    for name, (us, launches) in json.loads(gzip.decompress((DATA / "gpu_first_kernels.json.gz").read_bytes())).items():
        found = sum(gpu_model.model(gpu_model.Kernel(*head, [gpu_sass.Instruction(*i) for i in code], count),
                                    gpu_model.H100).us for *head, code, count in launches)
        assert abs(found / us - 1) <= 0.1, (name, found, us)


@pytest.mark.parametrize(("rows", "columns", "depth", "layout"), [
    (4096, 4096, 4096, "NT"), (2048, 4096, 1024, "NN"), (2048, 2048, 256, "TT")])
def test_slices_are_copied_by_warps_of_their_own_where_that_is_no_slower(
        rows: int, columns: int, depth: int, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the model, with fewer instructions for a product, and without spills."""
    import gpu_model  # noqa: PLC0415  beside gpu_sass
    monkeypatch.setattr(contraction, "pick_warpgroup", lambda p: Division(warpgroup.WIDE, 0))
    whole = program([product(rows, columns, depth, "bfloat16", layout)])[0]
    times = []
    for way in ("hy_copy_box", "hy_cp_async_arrive", "hy_fetch"):
        if way == "hy_fetch":
            monkeypatch.setattr(warpgroup, "specializes", lambda *_: False)
        text = cuda.print_program(plan(whole).groups, arch="sm_90a", no_maps="" if way == "hy_copy_box" else "not here")
        (launch,), compiled = text.launches, nvrtc.compile(text.source, "sm_90a")
        r, kernel = compiled.resources[launch.name], text.source.partition(f" {launch.name}(")[2]
        times.append(gpu_model.model(gpu_model.Kernel(
            launch.name, kernel, launch.blocks, launch.threads, r.registers, r.shared + launch.shared,
            r.spill_stores, gpu_sass.sass(compiled.cubin)[launch.name], 0), gpu_model.H100))
        assert r.spill_stores == 0 and way in kernel
    assert times[0].us <= times[1].us <= times[2].us
    each = [t.main / t.products for t in times]
    assert each[0] <= each[1] <= each[2]


def test_the_model_knows_its_rules() -> None:
    """The review's constants for an H100, and that a launch never takes less than its bytes and products do."""
    import gpu_model  # noqa: PLC0415  beside gpu_sass
    h = gpu_model.H100
    assert (h.clock, h.sms, h.dram, h.l2, h.mma, gpu_model.LATENCY) == (1.755e9, 132, 3.35e12 * 0.90, 5.5e12, 1.6, 420)
    for gpus in counted("GELU").values():
        assert all(f["us"] >= f["roofline"] > 0 for f in gpus.values())


def test_a_rehearsal_tells_of_a_program_that_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import gpu  # noqa: PLC0415  beside gpu_sass
    monkeypatch.setenv("HYBRID_STAND_IN", "1")
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--quick", "--out", str(tmp_path / "report.md")])
    for work, status in ((lambda: lambda: None, 0), (lambda: missing, 1)):          # type: ignore[name-defined]  # noqa: F821
        monkeypatch.setattr(gpu, "programs", lambda quick, work=work: {"a program": work})
        assert gpu.main() == status
    assert "NameError" in (tmp_path / "report.md").read_text()
