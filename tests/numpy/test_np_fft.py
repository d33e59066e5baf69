"""``np.fft`` and ``np.linalg.qr``: NumPy's results, eagerly and compiled, with gradients."""
from __future__ import annotations

from typing import Any, Callable

import numpy as onp
import pytest

from hybrid import autograd, hybridize, np
from hybrid.base.errors import HybridError
from hybrid.numpy.complex_parts import ComplexParts

RNG = onp.random.default_rng(1)
X = RNG.standard_normal((3, 6)).astype("float32")
Y = RNG.standard_normal((3, 5)).astype("float32")

CASES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "fft": lambda f, x, y: f.fft(x), "fft of n": lambda f, x, y: f.fft(x, 4), "longer": lambda f, x, y: f.fft(x, 9),
    "along 0": lambda f, x, y: f.fft(x, axis=0), "ortho": lambda f, x, y: f.fft(x, norm="ortho"),
    "ifft": lambda f, x, y: f.ifft(x), "forward": lambda f, x, y: f.ifft(x, norm="forward"),
    "rfft": lambda f, x, y: f.rfft(x), "rfft odd": lambda f, x, y: f.rfft(y),
    "irfft": lambda f, x, y: f.irfft(f.rfft(x)), "irfft odd": lambda f, x, y: f.irfft(f.rfft(y), 5),
    "irfft of real": lambda f, x, y: f.irfft(x), "one number": lambda f, x, y: f.irfft(f.rfft(x), 1),
    "hfft": lambda f, x, y: f.hfft(x), "ihfft": lambda f, x, y: f.ihfft(x, norm="ortho"),
    "fft2": lambda f, x, y: f.fft2(x), "ifft2": lambda f, x, y: f.ifft2(x, s=(2, 4)), "fftn": lambda f, x, y: f.fftn(x),
    "rfft2": lambda f, x, y: f.rfft2(x), "irfftn": lambda f, x, y: f.irfftn(f.rfftn(y), s=(3, 5), axes=(0, 1)),
    "fftshift": lambda f, x, y: f.fftshift(f.fft(x)), "ifftshift": lambda f, x, y: f.ifftshift(y, axes=1),
    "power": lambda f, x, y: onp.abs(f.rfft(x)) ** 2, "angle": lambda f, x, y: onp.angle(f.fft(x)),
    "product": lambda f, x, y: f.irfft(f.rfft(x) * onp.conj(f.rfft(x[::-1]))),
    "quotient": lambda f, x, y: f.ifft((f.fft(x) + 1) / (2j + f.fft(x) * f.fft(x))).real,
    "parts": lambda f, x, y: onp.real(f.fft(x))[0] - f.fft(y)[1, 2].imag,
    "sum": lambda f, x, y: onp.sum(f.fft(x), axis=1), "constant": lambda f, x, y: f.fft(x) * onp.exp(1j * X),
    "from the left": lambda f, x, y: 1 / (3 - onp.fft.fft(x)),
}


@pytest.mark.parametrize("name", CASES)
def test_transforms_are_numpys(name: str) -> None:
    call = CASES[name]
    want = call(onp.fft, X, Y)
    for run in (lambda *v: call(np.fft, *v), hybridize(lambda *v: call(np.fft, *v)),
                hybridize(lambda *v: call(onp.fft, *v))):
        found = run(np.array(X), np.array(Y))
        assert isinstance(found, ComplexParts) == onp.iscomplexobj(want) and found.shape == want.shape
        onp.testing.assert_allclose(found.asnumpy(), want, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", sorted(set(CASES) - {"sum", "angle", "ifftshift", "irfft odd", "irfftn", "rfft odd"}))
def test_gradients_of_transforms(name: str) -> None:
    call, weights = CASES[name], 1.0

    def loss(f: Any, x: Any, y: Any, of: Any) -> Any:
        found = call(f, x, y)
        real = found.real * 2 + found.imag if onp.iscomplexobj(of(found)) else found
        return (real * real * weights).sum()
    x64, y64, step = X.astype("float64"), Y.astype("float64"), 1e-6
    want = onp.zeros_like(x64)
    for i in onp.ndindex(*X.shape):
        d = onp.zeros_like(x64)
        d[i] = step
        want[i] = (loss(onp.fft, x64 + d, y64, onp.asarray) - loss(onp.fft, x64 - d, y64, onp.asarray)) / (2 * step)

    def kind(found: Any) -> Any:
        return 1j if isinstance(found, ComplexParts) else 1.0
    for run in (lambda *v: loss(np.fft, *v, kind), hybridize(lambda *v: loss(np.fft, *v, kind))):
        x, y = np.array(x64), np.array(y64)
        x.attach_grad()
        with autograd.record():
            out = run(x, y)
        out.backward()
        onp.testing.assert_allclose(x.grad.asnumpy(), want, rtol=1e-4, atol=1e-5)


def test_the_absolute_value_of_nothing_has_gradient_0() -> None:
    x = np.zeros(4)
    x.attach_grad()
    with autograd.record():
        y = onp.abs(np.fft.fft(x)).sum()
    y.backward()
    assert x.grad.tolist() == [0, 0, 0, 0]


def test_complex_arrays_are_arguments_and_results() -> None:
    z = np.fft.fft(np.array(X))
    half = hybridize(lambda z: z * 0.5)(z)
    assert isinstance(half, ComplexParts) and half.dtype == "complex64"
    onp.testing.assert_allclose(onp.asarray(half), onp.fft.fft(X) / 2, rtol=1e-4, atol=1e-5)
    assert (z == z).asnumpy().all() and not (z != z).asnumpy().any()
    assert np.fft.fft(np.array(X.astype("float64"))).dtype == "complex128"
    for call, text in ((lambda: onp.tan(z), "numpy.tan of a complex"), (lambda: np.fft.rfft(z), "takes a real array"),
                       (lambda: np.fft.fft(np.array(X), 0), "must be positive"),
                       (lambda: np.fft.fft(np.array(X), axis=2), "has no axis 2"),
                       (lambda: np.fft.fft(np.array(X), norm="half"), "norm must be"),
                       (lambda: z ** 0.5, "whole powers")):
        with pytest.raises((HybridError, TypeError), match=text):
            call()


@pytest.mark.parametrize("shape", [(4, 3), (3, 3), (3, 5), (2, 4, 2)])
def test_qr_has_numpys_signs_and_a_gradient(shape: tuple[int, ...]) -> None:
    raw = RNG.standard_normal(shape)
    want = onp.linalg.qr(raw)
    for run in (np.linalg.qr, hybridize(lambda a: np.linalg.qr(a)), hybridize(lambda a: onp.linalg.qr(a))):
        q, r = run(np.array(raw))
        onp.testing.assert_allclose(q.asnumpy(), want[0], atol=1e-10)
        onp.testing.assert_allclose(r.asnumpy(), want[1], atol=1e-10)
    onp.testing.assert_allclose(np.linalg.qr(np.array(raw), "r").asnumpy(), want[1], atol=1e-10)
    weights = [onp.cos(onp.arange(w.size)).reshape(w.shape) for w in want]
    expected, step = onp.zeros_like(raw), 1e-6
    for i in onp.ndindex(*shape):
        d = onp.zeros_like(raw)
        d[i] = step
        up, down = onp.linalg.qr(raw + d), onp.linalg.qr(raw - d)
        expected[i] = sum(((u - v) * w).sum() for u, v, w in zip(up, down, weights)) / (2 * step)

    def loss(a: Any) -> Any:
        q, r = np.linalg.qr(a)
        return (q * np.array(weights[0])).sum() + (r * np.array(weights[1])).sum()
    for run in (loss, hybridize(loss)):
        a = np.array(raw)
        a.attach_grad()
        with autograd.record():
            y = run(a)
        y.backward()
        onp.testing.assert_allclose(a.grad.asnumpy(), expected, rtol=1e-5, atol=1e-6)
