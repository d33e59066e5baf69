"""Which NVRTC compiles, and for what: by the release of the GPU's driver, and for GPUs before and after those it
knows."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hybrid import gpu, ir
from hybrid.base.errors import CompileError
from hybrid.codegen import cuda as printer
from hybrid.ops.conv import convolve
from hybrid.passes.differentiate import cotangents
from hybrid.passes.horizontal_fusion import Joining
from hybrid.passes.pipeline import plan
from hybrid.runtime.cuda import driver_api, nvrtc
from hybrid.runtime.cuda.emulator import EmulatorDriver
from hybrid.runtime.cuda.program import JOINING, planned_for

from .cuda_forms import Form, normal, program
from .cuda_tools import check_cuda_source, run_cuda
from ..programs import softmax
from .test_cuda_kernels import check

needs_nvrtc = pytest.mark.skipif(not nvrtc.available(), reason="no NVRTC (pip install nvidia-cuda-nvrtc)")


@pytest.mark.parametrize("driver, chosen", [((12, 4), 12), ((13, 0), 13), ((14, 1), 13), (None, 13)])
def test_the_newest_nvrtc_that_the_driver_takes(driver: Any, chosen: int, tmp_path: Path,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver of CUDA 12 does not load cubins that NVRTC 13 made."""
    for folder, release in (("cu13", 13), ("cuda_nvrtc", 12)):
        (tmp_path / "nvidia" / folder / "lib").mkdir(parents=True)
        (tmp_path / "nvidia" / folder / "lib" / f"libnvrtc.so.{release}").write_bytes(b"")
    opened: list[str] = []
    monkeypatch.setattr(nvrtc.sys, "path", [str(tmp_path)])
    monkeypatch.setattr(nvrtc, "_loaded", [])
    monkeypatch.setattr(nvrtc, "_open", lambda path: opened.append(path) or path)
    monkeypatch.setattr(driver_api, "version", lambda: driver)
    assert nvrtc.library() == opened[0] and opened[0].endswith(f".so.{chosen}") and len(opened) == 1


def test_no_nvrtc_for_the_driver_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nvidia" / "cu13" / "lib").mkdir(parents=True)
    (tmp_path / "nvidia" / "cu13" / "lib" / "libnvrtc.so.13").write_bytes(b"")
    monkeypatch.setattr(nvrtc.sys, "path", [str(tmp_path)])
    monkeypatch.setattr(nvrtc, "_loaded", [])
    monkeypatch.setattr(nvrtc.ffi, "dlopen", _refused)
    monkeypatch.setattr(driver_api, "version", lambda: (12, 4))
    with pytest.raises(CompileError, match=r"driver of CUDA 12\.4 \(there are NVRTC 13, .*nvidia-cuda-nvrtc-cu12==12"):
        nvrtc.library()


def _refused(*_: Any) -> Any:
    raise OSError("not there")


@needs_nvrtc
def test_gpus_that_the_compiler_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """A later one of a known family runs its cubins; any later one runs PTX, if the driver reads that."""
    text = 'extern "C" __global__ void k(float *x) {\n  x[0] = 1;\n}\n'
    monkeypatch.setattr(nvrtc, "_memory", {})
    monkeypatch.setattr(nvrtc, "supported", lambda: [75, 80, 90])
    assert nvrtc.compile(text, "sm_93").cubin[:4] == b"\x7fELF"
    ptx = nvrtc.compile(text, "sm_130").cubin
    assert ptx.startswith(b"//") and b".target sm_90" in ptx and ptx.endswith(b"\0")
    monkeypatch.setattr(nvrtc, "_memory", {})
    assert nvrtc.compile(text, "sm_130").cubin == ptx                        # from the disk
    monkeypatch.setattr(driver_api, "version", lambda: (12, 0))
    with pytest.raises(CompileError, match="does not read its PTX"):
        nvrtc.compile(text, "sm_130")
    with pytest.raises(CompileError, match="sm_60; it knows sm_75.*Install an earlier NVRTC"):
        nvrtc.compile(text, "sm_60")


def sources() -> str:
    """A kernel of each kind, halves among them."""
    x = ir.input(0, (64, 96), "float32")
    h, w = ir.input(1, (64, 96), "float16"), ir.input(2, (96, 64), "float16")
    joining = Joining(printer.joins, printer.MOST_POINTERS, printer.turns)
    product = ((1,), (0,))
    outputs = [ir.map("exp", x), ir.reduce("sum", x, (1,)), ir.dot(h, w, product),
               ir.dot(x, ir.permute(x, (1, 0)), product)]
    planned = plan(ir.Program((x, h, w), tuple(outputs)), joining)
    return printer.print_program(planned.groups, []).source


def gradients(arch: str) -> str:
    """Kernels of a convolution of halves and of both its gradients, printed for a GPU."""
    x, w, g = (ir.input(i, s, "float16") for i, s in enumerate([(2, 64, 32, 32), (64, 64, 3, 3), (2, 64, 32, 32)]))
    y = convolve(x, w, 1, (1, 1), (1, 1), (1, 1))
    joining = Joining(printer.joins, printer.MOST_POINTERS, printer.turns, None,
                      lambda d: printer.convolves_last(d, arch))
    planned = plan(ir.Program((x, w, g), (y, *cotangents([y], [g], [x, w]))), joining)
    return printer.print_program(planned.groups, [], arch).source


def token(arch: str) -> str:
    """Attention of a token over many keys, printed for a GPU."""
    q, k, v = (ir.input(i, (4, n, 64), "float16") for i, n in enumerate((1, 2048, 2048)))
    weights = ir.cast(softmax(ir.cast(ir.dot(q, k, ((2,), (2,)), ((0,), (0,))), "float32")), "float16")
    with printer.printing_for(arch):
        planned = plan(ir.Program((q, k, v), (ir.dot(weights, v, ((2,), (1,)), ((0,), (0,))),)), JOINING)
    return printer.print_program(planned.groups, [], arch).source


@needs_nvrtc
def test_kernels_compile_for_every_gpu() -> None:
    """From T4 (sm_75), whose tensor cores know fewer products, to the newest."""
    text = sources()
    assert "hy_mma_half" in text
    for arch in (75, 86, 89, 100, 120):
        if arch in nvrtc.supported():
            compiled = nvrtc.compile(text + "\n" + BF16 + TF32, f"sm_{arch}")
            assert compiled.cubin[:4] == b"\x7fELF" and len(compiled.resources) >= 5
            own = gradients(f"sm_{arch}")
            assert own.count("tile_memory[]") == 3 and "ra[" not in own and "rb[" not in own
            found = nvrtc.compile(own, f"sm_{arch}").resources.values()
            assert len(found) >= 5 and not any(r.spill_stores for r in found)
            parts = nvrtc.compile(token(f"sm_{arch}"), f"sm_{arch}").resources
            assert set(parts) == {"k0_parts", "k0"} and not any(r.spill_stores for r in parts.values())


@needs_nvrtc
def test_short_depths_leave_registers_for_the_epilogue() -> None:
    """Two rounds, and masks of each result that could be loaded before the sums are there."""
    x, w = ir.input(0, (100352, 24), "float32"), ir.input(1, (24, 96), "float32")
    first, second = (ir.input(i, (100352, 96), "bool") for i in (2, 3))
    y = ir.map("where", second, 0.0, ir.map("where", first, 0.0, ir.dot(x, w, ((1,), (0,)))))
    text = printer.print_program(plan(ir.Program((x, w, first, second), (y,)), JOINING).groups, [], "sm_80").source
    assert "hy_mma_tf32" in text
    check_cuda_source(text, ["k0"], ("sm_80", "sm_89"))


def test_bfloat16_products_before_sm_80(monkeypatch: pytest.MonkeyPatch) -> None:
    """There tensor cores know float16 alone: bfloat16 is multiplied as float, in tiles as float32 is."""
    monkeypatch.setenv("HYBRID_CUDA", "emulator")
    monkeypatch.setattr(EmulatorDriver, "arch", "sm_75")
    x, w = normal(70, 90, dtype="bfloat16"), normal(90, 130, dtype="bfloat16")
    form = Form(lambda a, b: ir.dot(a, b, ((1,), (0,))), [x, w], ("As[", "!hy_mma"), tol=2e-2)
    check([form])
    large = Form(form.fn, [np.zeros((2048, 2048), x.dtype)] * 2)
    text = printer.print_program(planned_for(program([large])[0], gpu(0)).groups, arch="sm_75").source
    assert "As[" in text and "hy_mma" not in text
    if nvrtc.available():
        assert not any(r.spill_stores for r in nvrtc.compile(text, "sm_75").resources.values())


TF32 = ('#include "hybrid_tiles.cuh"\nextern "C" __global__ void tf32(unsigned *x) {\n'
        '  x[threadIdx.x] = hy_one_tf32(x[threadIdx.x]);\n}\n')
BF16 = ('#include "hybrid_async.cuh"\nextern "C" __global__ void bf16(float *to, const unsigned *a, const unsigned *b) '
        '{\n  float d[4] = {};\n  FUNCTION(d, a + 4 * threadIdx.x, b + 2 * threadIdx.x);\n'
        '  for (int i = 0; i < 4; i++) to[4 * threadIdx.x + i] = d[i];\n}\n').replace("FUNCTION", "hy_mma_bf16")


def test_bfloat16_products_without_tensor_cores() -> None:
    """What stands for them before sm_80 takes the same fragments and gives the same sums."""
    rng = np.random.default_rng(5)
    a, b = (rng.integers(0x3f00, 0x4000, (32, 2 * n)).astype(np.uint16).view(np.uint32) for n in (4, 2))
    found = [run_cuda(text, [("bf16", (1, 1, 1), (32, 1, 1), 0, (0, 1, 2))], [np.zeros((32, 4), np.float32), a, b])[0]
             for text in (BF16, BF16.replace("hy_mma_bf16", "hy_mma_bf16_by_lanes"))]
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)
    assert len(np.unique(found[0])) > 16
