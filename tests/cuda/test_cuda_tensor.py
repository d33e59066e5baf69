"""Products on tensor cores: every tile and layout, errors, infinities, architectures."""
from __future__ import annotations

import numpy as np
import pytest

from hybrid import gpu as gpu_context, ir, nd
from hybrid.base import dtype as dt
from hybrid.codegen import cuda
from hybrid.codegen.printers.cuda import contraction as cuda_contraction, mma as cuda_mma
from hybrid.codegen.printers.cuda.shares import Division
from hybrid.gluon import nn
from hybrid.passes.pipeline import plan
from hybrid.runtime.cuda import nvrtc
from hybrid.runtime.cuda.emulator import EmulatorDriver

from .cuda_forms import FORMS, Form, normal, program
from .cuda_tools import check_cuda_source, run_program
from .test_cuda_kernels import check

pytestmark = pytest.mark.usefixtures("cuda_device")
TOLERANCE = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 2e-2}
LAYOUTS = ("NN", "NT", "TN", "TT")
ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120")


def product(rows: int, columns: int, depth: int, dtype: str, layout: str = "NT") -> Form:
    """x y with a bias; T: the operand lies transposed."""
    a, b = (0 if layout[0] == "T" else 1), (1 if layout[1] == "T" else 0)
    shapes = [(rows, depth)[::1 if a else -1], (depth, columns)[::-1 if b else 1]]
    return Form(lambda x, y, z: ir.dot(x, y, ((a,), (b,))) + z,
                [*(normal(*s, dtype=dtype) for s in shapes), normal(columns, dtype=dtype)], tol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_tiles(dtype: str, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every tile, more slices than are under way at once, whole and at the edges."""
    tiles = {t.rows + 8 * (k + 1): t for k, t in enumerate(cuda_mma.TILES)}
    monkeypatch.setattr(cuda_mma, "pick", lambda p: Division(tiles[p.rows], 0.0))
    monkeypatch.setattr(cuda_contraction, "columns_first", lambda k: False)
    chosen = [(rows, t) for k, (rows, t) in enumerate(tiles.items()) if (k + LAYOUTS.index(layout)) % 4 == 0]
    check([product(rows, t.columns + 8, 136, dtype, layout) for rows, t in chosen])


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_edges_that_no_copy_of_16_bytes_meets(dtype: str) -> None:
    """Odd sizes, and one odd size of three."""
    check([product(37, 41, 29, dtype), product(64, 64, 30, dtype, "TN"), product(65, 24, 64, dtype, "NN")])


def test_the_result_in_other_orders() -> None:
    """Heads side by side, read and written: addresses of two axes."""
    def heads(x: ir.Node, w: ir.Node) -> ir.Node:
        return ir.dot(ir.reshape(ir.permute(x, (0, 2, 1, 3)), (2, 24, 64)), w, ((2,), (1,)))

    def apart(x: ir.Node, w: ir.Node) -> ir.Node:
        return ir.permute(ir.reshape(ir.dot(x, w, ((1,), (1,))), (2, 24, 4, 16)), (0, 2, 1, 3))
    for dtype in ("float16", "float32"):
        check([Form(heads, [normal(2, 4, 24, 16, dtype=dtype), normal(40, 64, dtype=dtype)], tol=TOLERANCE[dtype]),
               Form(apart, [normal(48, 64, dtype=dtype), normal(64, 64, dtype=dtype)], tol=TOLERANCE[dtype])])


def _results(form: Form) -> list[np.ndarray]:
    whole, arrays, _, _ = program([form])
    return [out[0] for _, out, _ in run_program(whole, arrays)]


@pytest.mark.parametrize("sums", ["rounded", "truncated"])
def test_float32_keeps_its_digits(sums: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three products of tf32 are as good as one of float32, though tensor cores cut their sums off; all factors are
    positive, the worst case for that."""
    monkeypatch.setenv("HYBRID_EMU_SUMS", sums)
    form = product(32, 32, 2048, "float32")
    form.arrays[:] = [abs(a) for a in form.arrays]
    x, w, z = (a.astype(np.float64) for a in form.arrays)
    exact = x @ w.T + z
    for got in _results(form):
        assert np.abs(got / exact - 1).max() < 1e-6


def test_one_term(monkeypatch: pytest.MonkeyPatch) -> None:
    """HYBRID_TF32=1: one product of tensor cores, 11 bits of each factor."""
    monkeypatch.setenv("HYBRID_TF32", "1")
    form = product(40, 48, 64, "float32")
    x, w, z = (a.astype(np.float64) for a in form.arrays)
    scale = np.abs(x) @ np.abs(w.T) + np.abs(z)
    for got in _results(form):
        error = np.abs(got - (x @ w.T + z)) / scale
        assert 1e-6 < error.max() < 2.0**-10


def test_infinities_stay() -> None:
    """What is no number, and what is infinite, is that in the result, and nothing else."""
    form = product(24, 24, 40, "float32")
    x, w, _ = form.arrays
    x[3, 5], x[4, 6], w[7, 9], x[5, 1] = np.inf, np.nan, -np.inf, 3e38
    w[:, 1] = np.clip(w[:, 1], -1, 1)                      # no product is beyond float32
    with np.errstate(all="ignore"):
        expected = (form.arrays[0].astype(np.float64) @ w.T.astype(np.float64) + form.arrays[2]).astype(np.float32)
    for got in _results(form):
        np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
        np.testing.assert_array_equal(np.isinf(got), np.isinf(expected))
        np.testing.assert_array_equal(np.sign(got), np.sign(expected))


def test_gpus_without_fast_tf32_multiply_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of single sums, right there too."""
    monkeypatch.setattr(EmulatorDriver, "arch", "sm_86")
    forms = [f for name, f in FORMS.items() if "float32" in name and ("product" in name or "convolution" in name)]
    assert "hy_mma" not in _source(product(64, 64, 64, "float32"), "sm_86").partition("global__")[2]
    check(forms)


def _source(form: Form, arch: str) -> str:
    return cuda.print_program(plan(program([form])[0]).groups, arch=arch).source


@pytest.mark.skipif(not nvrtc.available(), reason="no NVRTC (pip install nvidia-cuda-nvrtc)")
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_architecture_compiles_without_spills(arch: str) -> None:
    if int(arch[3:].rstrip("a")) not in nvrtc.supported():
        pytest.skip(f"NVRTC {nvrtc.version()} does not know {arch}")
    forms = [product(4096, 4096, 64, "float16"), product(64, 96, 64, "bfloat16", "NN"),
             product(4096, 4096, 64, "float32", "TN")]
    for form in forms:
        text = cuda.print_program(plan(program([form])[0]).groups, arch=arch)
        check_cuda_source(text.source, [launch.name for launch in text.launches], (arch,))


def test_dense_of_halves_takes_them() -> None:
    """A network's layers of halves have copies under way, and no sum in memory between product and activation."""
    ctx = gpu_context(0)
    for dtype, name in (("float16", "hy_mma_half"), ("bfloat16", "hy_mma_bf16")):
        net = nn.Dense(64, activation="relu", in_units=96)
        net.initialize(ctx=ctx)
        net.cast(dtype)
        net.hybridize()
        x = nd.random.normal(shape=(40, 96), ctx=ctx).astype(dtype)
        got = net(x).asnumpy().astype(np.float64)
        w, b = (net.weight.data(ctx).asnumpy().astype(np.float64), net.bias.data(ctx).asnumpy().astype(np.float64))
        expected = np.maximum(x.asnumpy().astype(np.float64) @ w.T + b, 0)
        np.testing.assert_allclose(got, expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * expected.max())
        source = net.report().source
        assert name in source and "hy_fetch" in source and source.count("__global__") == 1
        assert dt.as_dtype(dtype).itemsize == 2
