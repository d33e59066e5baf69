"""Complex arrays, which are two real ones, beside NumPy's."""
from __future__ import annotations

from typing import Any

import numpy as onp
import pytest

from hybrid import autograd, hybridize, np
from hybrid.base.errors import HybridError
from hybrid.numpy.complex_parts import ComplexParts

X = onp.array([1.0, 2, 3, 4], "float32")
Z = onp.array([1j, 2, 3 - 1j, 4])


def value(text: str, **names: Any) -> Any:
    return eval(text, names)


@pytest.mark.parametrize("text", """np.array([1j, 2])|np.array([[1j, 2], [3, 4]])|np.array(1j)|np.array(z)|x * 1j|2j - x
np.array(z.astype("complex64"))|np.array(x, dtype="complex64")|np.array([1, 2], dtype="complex128")|x / (1 + 1j)|1j / x
np.array(z, ndmin=2)|x * r|r * x|x + r|x - r|x / r|np.conj(r)|np.conjugate(r)|np.asarray(r)|np.array(r)|np.add(x, r)
np.multiply(r, 2)|np.add(x, 1j)|np.fft.ifft(np.array(z))|np.sum(r)""".replace("\n", "|").split("|"))
def test_complex_results_are_numpys(text: str) -> None:
    x = np.array(X)
    found, want = (value(text, np=np, x=x, r=np.fft.fft(x), z=Z), value(text, np=onp, x=X, r=onp.fft.fft(X), z=Z))
    assert isinstance(found, ComplexParts) and found.shape == want.shape
    assert found.dtype == ("complex128" if "(z" in text and "64" not in text or "128" in text else "complex64")
    onp.testing.assert_allclose(found.asnumpy(), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("text", ["abs(np.array(z))", "np.real(np.array(z))", "np.angle(np.array(z))", "x == 1j",
                                  "np.array(z) == np.array(z)", "np.conj(x)"])
def test_real_results_are_numpys(text: str) -> None:
    found, want = value(text, np=np, x=np.array(X), z=Z), value(text, np=onp, x=X, z=Z)
    assert isinstance(found, np.ndarray)
    onp.testing.assert_allclose(found.asnumpy(), want, rtol=1e-6)


@pytest.mark.parametrize("text, told", [
    ("np.exp(r)", "of a complex array is not supported"), ("np.stack([r, r])", "takes real arrays"),
    ("x % 1j", "operand"), ("np.where(x > 2, x, 1j)", "np.where takes real arrays"),
    ("x @ r", "np.matmul takes real arrays"),
    ("x.astype('complex64')", "np.array.* makes a complex array"), ("np.array([1j, 'a'])", "takes real numbers"),
    ("np.zeros(3, dtype='complex64')", "makes a complex array")])
def test_other_functions_refuse_complex_arrays(text: str, told: str) -> None:
    x = np.array(X)
    with pytest.raises((HybridError, TypeError), match=told):
        value(text, np=np, x=x, r=np.fft.fft(x))


def test_complex_numbers_compile_and_have_gradients() -> None:
    def f(x: Any) -> Any:
        return abs(x * 1j + np.array(x, dtype="complex64") * 2)
    for run in (f, hybridize(f)):
        x = np.array(X)
        x.attach_grad()
        with autograd.record():
            y = run(x)
        onp.testing.assert_allclose(y.asnumpy(), X * 5 ** 0.5, rtol=1e-6)
        y.backward()
        onp.testing.assert_allclose(x.grad.asnumpy(), onp.full(4, 5 ** 0.5), rtol=1e-5)
