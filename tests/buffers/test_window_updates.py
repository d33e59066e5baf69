"""Updates that leave most of an array as it is: only what changes is written, in C and in CUDA; aliases and gradients
as without compiling."""
from __future__ import annotations

import re
import subprocess
import sys
from typing import Any, Callable

import numpy as np
import pytest

import hybrid
from hybrid import autograd, nd
from hybrid.base.device import cpu, find_cupy, gpu
from hybrid.base.errors import HybridError
from hybrid.gluon import nn

from ..cuda.cuda_tools import orders

LENGTH, DEPTH = 96, 16
PLACES = (0, 5, LENGTH - 2)


def mask(used: Any, length: int = LENGTH, rows: int = 1) -> Any:
    """1 at positions from ``used`` on, ``rows`` of them, for a cache (batch, heads, length, depth)."""
    places = nd.arange(length, ctx=used.context)
    hit = (places >= used) * (places < used + rows)
    return nd.broadcast_to(nd.reshape(hit, (1, 1, length, 1)), (2, 3, length, DEPTH))


def keep(cache: Any, new: Any, used: Any) -> Any:
    cache[:] = nd.where(mask(used), nd.broadcast_to(new, cache.shape), cache)
    return cache.sum(axis=3)


def keep_other(cache: Any, new: Any, used: Any) -> Any:
    cache[:] = nd.where(1 - mask(used), cache, nd.broadcast_to(new, cache.shape))
    return cache.sum(axis=3)


def keep_two(cache: Any, new: Any, used: Any) -> Any:
    """Two windows, of which the second may lie over the first; a new value of the old one."""
    first = nd.where(mask(used), nd.broadcast_to(new, cache.shape), cache)
    cache[:] = nd.where(mask(used + 1, rows=2), cache * 2, first)
    return cache.sum()


def keep_slice(cache: Any, new: Any, used: Any) -> Any:
    cache[:, :, 7:8] = new
    cache[:, 1, 9] = new[:, 1, 0] * 3
    return cache.sum()


def keep_columns(cache: Any, new: Any, used: Any) -> Any:
    """Conditions differ along the last axis."""
    cache[:, :, :, 3:5] = new[:, :, :, 3:5]
    return cache.sum()


WAYS = (keep, keep_other, keep_two, keep_slice, keep_columns)


def given(dtype: str, ctx: Any) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return (nd.array(rng.standard_normal((2, 3, LENGTH, DEPTH)), ctx=ctx, dtype=dtype),
            nd.array(rng.standard_normal((2, 3, 1, DEPTH)), ctx=ctx, dtype=dtype))


def check(way: Callable[..., Any], dtype: str, ctx: Any, compiled: Any = None) -> Any:
    """Calls at several places leave what eager calls leave; the compiled function."""
    compiled = compiled or hybrid.hybridize(way)
    (cache, new), (own, _) = given(dtype, ctx), given(dtype, ctx)
    view = cache[1]
    for used in PLACES:
        at = nd.array([used], ctx=ctx)
        got, wanted = compiled(cache, new, at), way(own, new, at)
        tol = 1e-2 if dtype == "float16" else 1e-4
        np.testing.assert_allclose(got.asnumpy(), wanted.asnumpy(), rtol=tol, atol=tol)
        np.testing.assert_array_equal(cache.asnumpy(), own.asnumpy())
        np.testing.assert_array_equal(view.asnumpy(), own.asnumpy()[1])
    return compiled


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("way", WAYS)
def test_values(way: Callable[..., Any], dtype: str) -> None:
    """As eager calls, whatever the conditions are of; a view sees the change."""
    text = str(check(way, dtype, cpu()).report())
    computed = dtype == "float16" and way in (keep_two, keep_slice)         # in vectors
    assert ("as loops over what changes" in text) == (way is not keep_columns and not computed)


@pytest.mark.parametrize("way", WAYS)
def test_values_on_a_gpu(way: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The same in every order of threads; loads and stores stand under a condition."""
    if find_cupy() is None:
        monkeypatch.setenv("HYBRID_CUDA", "emulator")
    compiled = None
    for _ in orders():
        compiled = check(way, "float32", gpu(0), compiled)
    assert bool(re.search(r"  if \(!?t\d+", compiled.report().source)) == (way is not keep_columns)


ELSEWHERE = """
import ctypes, mmap, sys
import numpy as np
import hybrid
from hybrid import nd
rows, page = 64, mmap.PAGESIZE
depth = page // 4                                       # a row is a page
memory = mmap.mmap(-1, rows * page)
a = np.frombuffer(memory, np.float32).reshape(1, rows, depth)
a[:] = 1
cache = nd.from_numpy(a, zero_copy=True)

@hybrid.hybridize
def step(cache, new, used):
    hit = nd.arange(rows) == used
    cache[:] = nd.where(nd.broadcast_to(nd.reshape(hit, (1, rows, 1)), (1, rows, depth)),
                        nd.broadcast_to(new, (1, rows, depth)), cache)
    return new

new = nd.ones((1, 1, depth)) * 3
for used in (0, 1, 2):
    step(cache, new, nd.array([used]))
assert (a[0, :3] == 3).all() and (a[0, 3:] == 1).all()
at, libc = a.ctypes.data, ctypes.CDLL(None)
for first, count in ((0, 40), (41, rows - 41)):          # neither read nor written from here on
    assert libc.mprotect(ctypes.c_void_p(at + first * page), ctypes.c_size_t(count * page), 0) == 0
step(cache, new, nd.array([40]))
nd.waitall()
assert (a[0, 40] == 3).all()
print("well")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="protects pages of memory by Linux's mprotect")
def test_nothing_else_is_touched() -> None:
    """Rows that stay as they are lie in memory that may be neither read nor written."""
    done = subprocess.run([sys.executable, "-c", ELSEWHERE], capture_output=True, text=True, check=False)
    assert done.stdout == "well\n", done.stderr


def test_old_values_that_are_held() -> None:
    """A result in which a window is replaced is another array than the one it was made of; a copy stays as it is."""
    @hybrid.hybridize
    def changed(cache: Any, new: Any, used: Any) -> Any:
        return nd.where(mask(used), nd.broadcast_to(new, cache.shape), cache)

    @hybrid.hybridize
    def both(cache: Any, new: Any, used: Any) -> Any:
        old = cache + 0
        cache[:] = nd.where(mask(used), nd.broadcast_to(new, cache.shape), cache)
        return old, cache
    cache, new = given("float32", cpu())
    before = cache.asnumpy()
    for used in PLACES:
        after = changed(cache, new, nd.array([used])).asnumpy()
        np.testing.assert_array_equal(cache.asnumpy(), before)
        wanted = before.copy()
        wanted[:, :, used] = new.asnumpy()[:, :, 0]
        np.testing.assert_array_equal(after, wanted)
    for used in PLACES:
        before = cache.asnumpy()
        old, now = both(cache, new, nd.array([used]))
        np.testing.assert_array_equal(old.asnumpy(), before)
        before[:, :, used] = new.asnumpy()[:, :, 0]
        np.testing.assert_array_equal(now.asnumpy(), before)
        np.testing.assert_array_equal(cache.asnumpy(), before)


def test_the_same_array_twice() -> None:
    """What is written is also another argument: both see old values, as in eager calls."""
    def mixed(cache: Any, other: Any, used: Any) -> Any:
        cache[:] = nd.where(mask(used), nd.flip(other, axis=2), cache)
        return other.sum()
    (cache, _), (own, _), at = given("float32", cpu()), given("float32", cpu()), nd.array([5])
    compiled = hybrid.hybridize(mixed)
    for _ in range(3):
        got, wanted = compiled(cache, cache, at), mixed(own, own, at)
        np.testing.assert_allclose(got.asnumpy(), wanted.asnumpy(), rtol=1e-4)
        np.testing.assert_array_equal(cache.asnumpy(), own.asnumpy())


def test_under_record() -> None:
    """The gradient, or the error of eager calls: never another gradient."""
    compiled = hybrid.hybridize(keep)
    for _ in range(3):
        (cache, new), (own, _) = given("float32", cpu()), given("float32", cpu())
        keep(own, new, nd.array([5]))
        new.attach_grad()
        with autograd.record():
            out = compiled(cache, new, nd.array([5])) * 2
        np.testing.assert_array_equal(cache.asnumpy(), own.asnumpy())
        try:
            out.backward()
        except HybridError as err:
            assert "changed in place after it was used" in str(err)  # noqa: PT017  either may be
        else:
            np.testing.assert_array_equal(new.grad.asnumpy(), np.full(new.shape, 2, "float32"))


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_a_cache_of_keys(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens of a layer whose cache is kept in its arrays: as of new arrays, and only new positions are written."""
    if device == "gpu" and find_cupy() is None:
        monkeypatch.setenv("HYBRID_CUDA", "emulator")
    ctx = gpu(0) if device == "gpu" else cpu()
    net = nn.MultiHeadAttention(16, 2, causal=True, rotary=True, in_units=16)
    net.initialize(ctx=ctx)

    @hybrid.hybridize
    def token(x: Any, *cache: Any) -> Any:
        out, new = net(x, None, None, None, cache)
        for old, now in zip(cache, new):
            old[:] = now
        return out
    x = nd.array(np.random.default_rng(1).standard_normal((2, 4, 16)), ctx=ctx)
    cache, kept = net.empty_cache(2, 32, ctx), net.empty_cache(2, 32, ctx)
    for t in range(4):
        one = nd.slice_axis(x, axis=1, begin=t, end=t + 1)
        out, cache = net(one, None, None, None, cache)
        np.testing.assert_allclose(token(one, *kept).asnumpy(), out.asnumpy(), rtol=1e-4, atol=1e-5)
    for old, new in zip(kept, cache):
        np.testing.assert_allclose(old.asnumpy(), new.asnumpy(), rtol=1e-4, atol=1e-5)
    report = token.report()
    if device == "cpu":
        assert str(report).count("as loops over what changes") == 2
    assert report.written_in_place >= 2 * kept[0].size * 4
