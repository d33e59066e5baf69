"""What the tests of hybridize share."""
from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as onp

import hybrid as mx
from hybrid import nd
from hybrid.buffers.array import NDArray

ROOT = Path(__file__).resolve().parent.parent
ON_GPU = os.environ.get("HYBRID_DEVICE", "").startswith("gpu")


def same(a: Any, b: Any, tol: float = 1e-5) -> None:
    """Two results have one structure and close numbers."""
    if isinstance(a, NDArray) or isinstance(b, NDArray):
        assert type(a) is type(b) and a.shape == b.shape and a.dtype == b.dtype, (a, b)
        onp.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=tol, atol=tol)
    elif isinstance(a, dict):
        assert type(a) is type(b) and list(a) == list(b)
        for k in a:
            same(a[k], b[k], tol)
    elif isinstance(a, (list, tuple)):
        assert type(a) is type(b) and len(a) == len(b)
        for x, y in zip(a, b):
            same(x, y, tol)
    else:
        assert type(a) is type(b) and a == b


def arr(*shape: int, dtype: str = "float32", seed: int = 0) -> NDArray:
    rng = onp.random.RandomState(seed)
    raw = rng.randint(1, 9, shape) if dtype.startswith(("int", "uint")) else rng.randn(*shape)
    return nd.array(onp.asarray(raw, dtype=dtype), dtype=dtype)


def multiplying(report: Any) -> int:
    """How many kernels of a report compute a convolution or a product: a 1x1 convolution is shown as a product."""
    return str(report).count("[convolution]") + str(report).count("[contraction]")


def both(fn: Any, *args: Any, tol: float = 1e-5, **kwargs: Any) -> Any:
    """Call plain, then hybridized twice; all three agree."""
    want = fn(*args, **kwargs)
    f = mx.hybridize(fn)
    same(f(*args, **kwargs), want, tol)
    same(f(*args, **kwargs), want, tol)
    assert len(f.cache_misses) == 1, f.cache_misses
    return f
