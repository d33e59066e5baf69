"""What eager calls of small arrays do in fewer of NumPy's calls."""
from __future__ import annotations

import warnings

import numpy as onp
import pytest

from hybrid import autograd, ir, nd, np
from hybrid.ir import Program, evaluate

RNG = onp.random.RandomState(3)
F, G = (RNG.randn(6, 5).astype("float32") for _ in "FG")
I = RNG.randint(-7, 9, (6, 5)).astype("int32")
B = F > 0


@pytest.mark.parametrize("dtype", ["float16", "float32", "int32"])
def test_reductions_with_axes_that_stay_are_one_call(dtype: str) -> None:
    """A reduction, and the reshape that gives it its axes back, unless somebody reads what lies between."""
    raw = onp.random.default_rng(0).normal(size=(3, 4, 5)).astype(dtype)
    for op in ("sum", "prod", "max", "min"):
        for axes in ((1,), (0, 2), (0, 1, 2)):
            x = ir.input(0, raw.shape, raw.dtype)
            less = ir.reduce(op, x, axes)
            kept = ir.reshape(less, tuple(1 if i in axes else d for i, d in enumerate(raw.shape)))
            wide = raw.astype("float32") if dtype == "float16" else raw
            want = getattr(wide, op)(axis=axes, keepdims=True).astype(dtype)
            for outputs, steps in (((kept,), 1), ((kept, less), 2)):
                program = Program((x,), outputs)
                found = evaluate.run(program, [raw], onp)[0]
                assert found[0].tobytes() == want.tobytes() and found[0].shape == want.shape
                assert found[0].dtype == dtype and len(evaluate.plan(program, onp).steps) == steps
            assert evaluate.straight(Program((x,), (kept,)))(raw).tobytes() == want.tobytes()    # type: ignore[misc]


def test_sums_and_products_of_halves_are_those_of_wide_numbers() -> None:
    rng = onp.random.default_rng(0)
    for shape, other in (((4, 5), (5, 3)), ((2, 4, 5), (2, 5, 3)), ((4, 1), (1, 3))):
        a, b = rng.normal(size=shape).astype("float16"), rng.normal(size=other).astype("float16")
        want = (a.astype("float32") @ b.astype("float32")).astype("float16")
        assert np.matmul(np.array(a), np.array(b)).asnumpy().tobytes() == want.tobytes()
    x = rng.normal(size=(30, 40)).astype("float16") * onp.float16(3000)
    for axis in (0, 1):
        with onp.errstate(over="ignore"):
            want = onp.cumsum(x.astype("float32"), axis).astype("float16")
        assert np.cumsum(np.array(x), axis).asnumpy().tobytes() == want.tobytes()
        assert np.cumsum(np.array(x[:9]), axis).asnumpy().tobytes() == onp.cumsum(
            x[:9].astype("float32"), axis).astype("float16").tobytes()


def test_fractions_as_indices() -> None:
    x = onp.arange(12, dtype="float32").reshape(3, 4)
    for index in ([0, 2.9, 1], [-5, 7, 1], [onp.nan, 0, 1]):
        i = nd.array(index, dtype="float32")
        with onp.errstate(invalid="ignore"):
            whole = onp.array(index, "float32").astype("int64")
        for _ in range(2):
            assert nd.take(nd.array(x), i).asnumpy().tolist() == x[whole.clip(0, 2)].tolist()
            if index[0] == index[0]:
                assert nd.take(nd.array(x), i, mode="wrap").asnumpy().tolist() == x[whole % 3].tolist()


def test_copyto() -> None:
    x, y = np.array(F), np.array(G)
    part = x[1:3]
    np.copyto(part, y[:2])
    assert x.asnumpy()[1:3].tolist() == G[:2].tolist()
    np.copyto(x, y[0])
    assert x.asnumpy().tolist() == onp.broadcast_to(G[0], F.shape).tolist()
    np.copyto(x, 2)
    np.copyto(x, np.array(I), where=np.array(B))
    assert x.asnumpy().tolist() == onp.where(B, I, 2).tolist()
    with pytest.raises(TypeError):
        np.copyto(np.array(I), y)                            # floats into integers
    with pytest.raises(ValueError, match="broadcast"):
        np.copyto(x, y[:2])
    x.attach_grad()
    with autograd.record():
        z = x * 1
        np.copyto(z, y)
        (z * x).sum().backward()
    assert x.grad.asnumpy().tolist() == G.tolist()


def test_the_first_of_two_largest_components_decides_the_sign_of_singular_vectors() -> None:
    for raw in (onp.array([[1.0, -1.0], [1.0, -1.0]]), onp.array([[-2.0, 2.0], [1.0, 1.0]]), onp.eye(3), F[:, :4]):
        u, s, v = (x.asnumpy() for x in np.linalg.svd(np.array(raw, dtype=raw.dtype)))
        largest = onp.take_along_axis(v, onp.abs(v).argmax(-1)[:, None], -1)
        assert (largest > 0).all()
        onp.testing.assert_allclose((u * s) @ v, raw, atol=1e-6)


@pytest.mark.parametrize("mode", ["clip", "wrap"])
def test_places_that_are_no_numbers_do_not_warn(mode: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = nd.take(nd.arange(10), nd.array([onp.nan, onp.inf, 1e30, 3.7]), mode=mode)
    assert found.asnumpy()[3] == 3.0
