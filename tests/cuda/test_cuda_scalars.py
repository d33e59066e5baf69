"""Every row of the scalar table as CUDA: compiled for GPUs, run in the emulator (or on a GPU), equal to the
reference."""
from __future__ import annotations

import numpy as np
import pytest

from hybrid import device, ir, runtime
from hybrid.base import dtype as dt
from hybrid.base.errors import DTypeError
from hybrid.ir.scalar import SCALARS
from hybrid.runtime import reference
from hybrid.runtime.cuda import nvrtc

from .cuda_tools import check_cuda_source

DTYPES = ["float32", "float64", "float16", "bfloat16", "int8", "int32", "int64", "uint8", "uint32"]
SIZE = 1000
POLES = {"digamma", "trigamma"}                       # at 0, -1, -2 ... libraries differ


def samples(dtype: np.dtype) -> list[np.ndarray]:
    """Two arguments and a condition."""
    rng = np.random.default_rng(11)
    if dt.is_float(dtype):
        x, y = (rng.standard_normal(SIZE) * 2).astype(dtype), (rng.standard_normal(SIZE) * 2).astype(dtype)
        x[:4] = [0, 1, np.nan, np.inf]
        y[2:6] = [1, 0, -np.inf, np.nan]
    else:
        low = 0 if dtype.kind == "u" else -9
        x, y = rng.integers(low, 100, SIZE).astype(dtype), rng.integers(low, 7, SIZE).astype(dtype)
    return [x, y, rng.random(SIZE) > 0.5]


def program(dtype: np.dtype) -> tuple[ir.Program, list[str]]:
    """All the functions that take the dtype, each an output."""
    inputs = [ir.input(0, (SIZE,), dtype), ir.input(1, (SIZE,), dtype), ir.input(2, (SIZE,), np.dtype(bool))]
    outputs, names = [], []
    for name, row in SCALARS.items():
        args = {1: inputs[:1], 2: inputs[:2], 3: [inputs[2], *inputs[:2]]}[row.arity]
        if name in ("shl", "shr"):
            args = [inputs[0], ir.map("bit_and", inputs[1], ir.const(3, dtype))] if not dt.is_float(dtype) else args
        try:
            outputs.append(ir.map(name, *args))
            names.append(name)
        except DTypeError:
            continue
    return ir.Program(tuple(inputs), tuple(outputs), ()), names


def same(name: str, expected: np.ndarray, got: np.ndarray, x: np.ndarray) -> bool:
    """Equal for integers, close for floats (a few units of the last place)."""
    if expected.dtype != got.dtype:
        return False
    if not dt.is_float(expected.dtype):
        return np.array_equal(expected, got)
    if name in POLES:
        keep = np.isfinite(x) & ((x > 0) | (x != np.floor(x)))
        expected, got = expected[keep], got[keep]
    tolerance = {2: 2e-2 if expected.dtype.name == "bfloat16" else 4e-3, 4: 4e-6, 8: 1e-11}[expected.dtype.itemsize]
    return np.allclose(got.astype(np.float64), expected.astype(np.float64), rtol=tolerance, atol=tolerance / 10,
                       equal_nan=True)


@pytest.mark.parametrize("dtype", [d if d in ("float32", "float16", "int32") else
                                   pytest.param(d, marks=pytest.mark.thorough) for d in DTYPES])
def test_scalar_functions(dtype, monkeypatch):
    if device.find_cupy() is None:
        monkeypatch.setenv("HYBRID_CUDA", "emulator")
    dtype = dt.as_dtype(dtype)
    whole, names = program(dtype)
    arrays = samples(dtype)
    with np.errstate(all="ignore"):
        expected, _ = reference.run(whole, arrays, np)
    xp = device.array_module(device.gpu())
    executable = runtime.compile(whole, device.gpu())
    got = [a if xp is np else a.get() for a in executable([xp.asarray(a) for a in arrays])]
    wrong = [n for n, e, g in zip(names, expected, got) if not same(n, e, g, arrays[0].astype(np.float64))]
    assert len(names) > 60 and not wrong
    if nvrtc.available():
        check_cuda_source(executable.report.source, [])
