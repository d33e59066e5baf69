"""The array API standard: ``x.__array_namespace__()``, its dtypes, its signatures, and its functions in programs.

The suite of data-apis/array-api-tests is run beside these (docs/numpy.md names the commit and what fails there).
"""
from __future__ import annotations

import inspect
from typing import Any, Callable

import numpy as onp
import pytest

from hybrid import autograd, cpu, hybridize, nd, np
from hybrid.base.errors import DeviceError, DTypeError, HybridError, TraceError

if tuple(map(int, onp.__version__.split(".")[:2])) < (2, 1):
    pytest.skip("the namespace takes its rules from NumPy 2.1", allow_module_level=True)

xp = np.array([1.0]).__array_namespace__()
V = onp.arange(1, 7).reshape(2, 3).astype("float32") / 7
S = onp.array([[2.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 4.0]], "float32")
W = (V * 7).astype("int32")

ONE = """abs acos asin asinh atan atanh ceil conj cos cosh exp expm1 floor isfinite isinf isnan log log10 log1p log2
logical_not negative positive real round sign sin sinh sqrt square tan tanh trunc matrix_transpose argmax argmin all any
max mean min prod std sum var tril triu sort argsort""".split()
TWO = """add atan2 divide equal floor_divide greater greater_equal less less_equal logaddexp logical_and logical_or
logical_xor multiply not_equal pow remainder subtract vecdot""".split()
CALLS: dict[str, Callable[[Any], Any]] = {
    **{n: lambda x, n=n: getattr(xp, n)(x) for n in ONE}, **{n: lambda x, n=n: getattr(xp, n)(x, x * 2) for n in TWO},
    "acosh": lambda x: xp.acosh(x + 1), "concat": lambda x: xp.concat([x, x], axis=1),
    "concat flat": lambda x: xp.concat([x, x], axis=None), "stack": lambda x: xp.stack([x, x], axis=-1),
    "reshape": lambda x: xp.reshape(x, (3, 2)), "permute_dims": lambda x: xp.permute_dims(x, (1, 0)),
    "expand_dims": lambda x: xp.expand_dims(x, axis=1), "flip": lambda x: xp.flip(x, axis=1),
    "squeeze": lambda x: xp.squeeze(xp.expand_dims(x, axis=0), axis=0), "roll": lambda x: xp.roll(x, 1, axis=1),
    "matmul": lambda x: xp.matmul(x, xp.matrix_transpose(x)), "tensordot": lambda x: xp.tensordot(x, x, axes=2),
    "where": lambda x: xp.where(x > 0.5, x, -x), "take": lambda x: xp.take(x, xp.asarray([0, 2]), axis=1),
    "broadcast_to": lambda x: xp.broadcast_to(x, (2, 2, 3)), "mT": lambda x: x.mT, "T": lambda x: x.T,
    "broadcast_arrays": lambda x: xp.broadcast_arrays(x, x[0])[1], "meshgrid": lambda x: xp.meshgrid(x[0], x[1])[0],
    "astype": lambda x: xp.astype(x, xp.float64), "correction": lambda x: xp.std(x, axis=1, correction=1),
    "variance": lambda x: xp.var(x, correction=1.0, keepdims=True), "asarray": lambda x: xp.asarray(x),
    "sum of dtype": lambda x: xp.sum(x, dtype=xp.float64, axis=0), "full_like": lambda x: xp.full_like(x, 3) + x,
    "sum of integers": lambda x: xp.sum(xp.astype(x * 7, xp.int32)), "item": lambda x: x[1, ...],
    "prod of integers": lambda x: xp.prod(xp.astype(x * 7, xp.int8), axis=0),
    "operators": lambda x: (x + 1) * 2 - x / 3,
    "shift": lambda x: xp.astype(x * 7, xp.int32) << 1, "sort": lambda x: xp.sort(x, descending=True),
    "shifts": lambda x: xp.bitwise_left_shift(xp.astype(x * 7, xp.int32), 1) >> 2,
    "bitwise": lambda x: xp.bitwise_invert(xp.bitwise_and(xp.astype(x * 7, xp.int32), 3)),
    "argsort": lambda x: xp.argsort(x, descending=True, axis=0), "max": lambda x: xp.max(x, axis=1, keepdims=True),
    "argmax": lambda x: xp.argmax(x, axis=1, keepdims=True), "any": lambda x: xp.any(x > 0.5, axis=(0, 1)),
    "fft": lambda x: xp.fft.irfft(xp.fft.rfft(x), n=3), "complex": lambda x: xp.fft.fft(x),
    "vector_norm": lambda x: xp.linalg.vector_norm(x, axis=1), "pinv": lambda x: xp.linalg.pinv(x),
    "vector_norm of all": lambda x: xp.linalg.vector_norm(x, ord=1, keepdims=True),
    "matrix_norm": lambda x: xp.linalg.matrix_norm(x), "outer": lambda x: xp.linalg.outer(x[0], x[1]),
    "cross": lambda x: xp.linalg.cross(x[0], x[1]), "trace": lambda x: xp.linalg.trace(x),
    "diagonal": lambda x: xp.linalg.diagonal(x), "svdvals": lambda x: xp.linalg.svdvals(x),
    "svd": lambda x: xp.linalg.svd(x, full_matrices=False)[1], "qr": lambda x: xp.linalg.qr(x)[1],
}
SQUARE: dict[str, Callable[[Any], Any]] = {
    **{n: lambda x, n=n: getattr(xp.linalg, n)(x) for n in "det eigvalsh inv slogdet".split()},
    "eigh": lambda x: xp.linalg.eigh(x)[0], "solve": lambda x: xp.linalg.solve(x, x[:, :1]),
    "matrix_power": lambda x: xp.linalg.matrix_power(x, 3), "power 0": lambda x: xp.linalg.matrix_power(x, 0),
    "power -2": lambda x: xp.linalg.matrix_power(x, -2), "cholesky": lambda x: xp.linalg.cholesky(x),
    "upper": lambda x: xp.linalg.cholesky(x, upper=True)}


def flat(found: Any) -> list[onp.ndarray]:
    return [u for v in found for u in flat(v)] if isinstance(found, (list, tuple)) and not hasattr(found, "asnumpy") \
        else [found.asnumpy()]


@pytest.mark.parametrize("name", [*CALLS, *SQUARE])
def test_compiled_functions_are_the_eager_ones(name: str) -> None:
    call, data = (CALLS[name], V) if name in CALLS else (SQUARE[name], S)
    for make in (xp.asarray, np.array):
        eager, compiled = flat(call(make(data))), flat(hybridize(call)(make(data)))
        for want, got in zip(eager, compiled, strict=True):
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            onp.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_functions_have_gradients() -> None:
    def loss(x: Any) -> Any:
        return xp.sum(xp.sin(x) * xp.asarray(W))
    for fn in (loss, hybridize(loss)):
        x = xp.asarray(V)
        x.attach_grad()
        with autograd.record():
            y = fn(x)
        y.backward()
        onp.testing.assert_allclose(x.grad.asnumpy(), onp.cos(V) * W, rtol=1e-5)


@pytest.mark.parametrize("dtype", "uint16 uint32 uint64 int16 complex64 complex128".split())
def test_dtypes_of_the_standard_are_there_eagerly(dtype: str) -> None:
    raw = onp.array([3, 5, 2]).astype(dtype)
    x = xp.asarray(raw)
    assert type(x) is xp.Array and x.dtype == dtype and isinstance(x, np.ndarray)
    for call in (lambda m, v: v + v, lambda m, v: v * 2, lambda m, v: m.sum(v), lambda m, v: v == 3,
                 lambda m, v: v[1:], lambda m, v: m.concat([v, v]), lambda m, v: m.astype(v, m.bool),
                 lambda m, v: -v, lambda m, v: 7 - v):
        want, got = onp.asarray(call(onp, raw)), call(xp, x)
        assert type(got) is xp.Array and (got.dtype, got.shape) == (want.dtype, want.shape)
        onp.testing.assert_array_equal(got.asnumpy(), want)
    x[0] = 9
    x += 1
    assert x[0].asnumpy() == 10 and x.astype("complex128").dtype == "complex128"
    assert type(onp.square(x)) is xp.Array and onp.square(x).dtype == dtype


@pytest.mark.parametrize("dtype", ["uint16", "complex64"])
def test_dtypes_that_operators_lack_are_refused_in_programs(dtype: str) -> None:
    x = xp.asarray([1, 2], dtype=getattr(xp, dtype))
    for call in (lambda: hybridize(lambda v: v + 1)(x), lambda: hybridize(lambda v: v + x)(np.ones(2)),
                 lambda: np.sin(x), lambda: hybridize(lambda v: xp.astype(v, x.dtype))(np.ones(2))):
        with pytest.raises(DTypeError, match=f"(test_array_api.py.*)?{dtype}"):
            call()
    onp.testing.assert_allclose(hybridize(lambda v: v * xp.real(xp.sum(x)))(np.ones(2, dtype="float32")).asnumpy(),
                                [3, 3])                          # a number from outside: computed while tracing


def test_expm1_of_complex_numbers_has_the_standards_answers() -> None:
    inf, nan = float("inf"), float("nan")
    cases = [(complex(-0.0, 0), complex(0, 0)), (complex(inf, 0), complex(inf, 0)),
             (complex(-inf, inf), complex(-1, 0)),
             (complex(inf, inf), complex(inf, nan)), (complex(-inf, nan), complex(-1, 0)),
             (complex(2, inf), complex(nan, nan)),
             (complex(inf, nan), complex(inf, nan)), (complex(nan, 0), complex(nan, 0)),
             (complex(nan, 1), complex(nan, nan))]
    for dtype in (xp.complex64, xp.complex128):
        found = xp.expm1(xp.asarray([given for given, _ in cases], dtype=dtype)).asnumpy()
        assert found.dtype == dtype
        for (given, want), got in zip(cases, found, strict=True):
            onp.testing.assert_array_equal([got.real, got.imag], [want.real, want.imag], err_msg=str(given))
    small = onp.array([1e-12 + 1e-12j, 1 + 2j, -3 - 1j])
    onp.testing.assert_allclose(xp.expm1(xp.asarray(small)).asnumpy(), onp.expm1(small), rtol=1e-14)


def test_default_dtypes_are_one() -> None:
    floats = (xp.asarray(1.5), xp.asarray([1, 2.5]), xp.zeros(2), xp.ones(2), xp.empty(2), xp.full(2, 1.0), xp.eye(2),
              xp.linspace(0, 1, 3), xp.arange(0.0, 2.0), xp.fft.fftfreq(4))
    assert {str(x.dtype) for x in floats} == {"float32"}
    assert xp.asarray([1, 2]).dtype == xp.arange(3).dtype == xp.full(2, 7).dtype == "int64"
    assert xp.asarray([1j]).dtype == xp.full(1, 1j).dtype == "complex64" and xp.asarray([True]).dtype == "bool"
    info = xp.__array_namespace_info__()
    assert info.default_dtypes()["real floating"] == "float32" and set(info.dtypes(kind="complex floating")) == {
        "complex64", "complex128"}
    assert info.devices()[0] == cpu() and info.default_device() == cpu()
    with pytest.raises(ValueError, match="no such kind"):
        info.dtypes(kind="imaginary")


def test_arrays_follow_the_standard() -> None:
    x = xp.asarray([[1, 2], [3, 4]])
    assert (x / 2).dtype == "float64" and (x // 2).dtype == "int64" and (x < 3).dtype == "bool"
    assert x.mT.asnumpy().tolist() == x.T.asnumpy().tolist() == [[1, 3], [2, 4]]
    assert x.to_device(cpu()) is x and x.to_device("cpu") is x and x.device == cpu()
    assert complex(xp.asarray(2.0)) == 2 and bool(xp.asarray([True])) and int(xp.asarray(3)) == 3
    assert xp.finfo(xp.float32).eps == onp.finfo("float32").eps and isinstance(xp.finfo(x / 2).max, float)
    assert xp.isdtype(xp.uint16, "unsigned integer") and xp.result_type(x, xp.float32) == "float64"
    assert xp.can_cast(x, xp.float64) and xp.iinfo(x).bits == 64
    view = xp.asarray(x)
    view[0, 0] = 9
    assert x[0, 0].asnumpy() == 9 and xp.asarray(x, copy=True) is not x
    assert xp.from_dlpack(onp.arange(3)).asnumpy().tolist() == [0, 1, 2]
    for call, kind, text in ((lambda: xp.asarray([1]).mT, ValueError, "two axes"),
                             (lambda: xp.ones(3).T, ValueError, "mT"),
                             (lambda: x.to_device("moon"), DeviceError, "moon"),
                             (lambda: bool(x), ValueError, "one el"),
                             (lambda: xp.astype(xp.asarray([1j]), xp.float32), TypeError, "real"),
                             (lambda: x.__iadd__(0.5), DTypeError, "in place"),
                             (lambda: x.__array_namespace__("1999.1"), ValueError, "2022.12")):
        with pytest.raises(kind, match=text):
            call()


def test_every_kind_of_array_knows_the_namespace() -> None:
    assert all(x.__array_namespace__() is xp for x in (np.ones(1), nd.ones(1), xp.ones(1)))
    seen = []
    hybridize(lambda x: seen.append(x.__array_namespace__()) or x)(np.ones(1))
    assert seen == [xp] and xp.__array_api_version__ == "2022.12"
    assert type(xp.sin(np.ones(2))) is xp.Array and xp.sin(np.ones(2)).dtype == "float32"
    assert set(xp.__all__) <= set(dir(xp))


def test_what_cannot_be_compiled_says_so() -> None:
    for call in (lambda x: xp.nonzero(x), lambda x: xp.unique_values(x), lambda x: xp.linalg.matrix_rank(x)):
        with pytest.raises(TraceError, match="test_array_api.py"):
            hybridize(call)(xp.asarray(V))
    x = xp.asarray(V)
    x.attach_grad()
    with autograd.record(), pytest.raises(HybridError, match="no gradient flows"):
        xp.unique_values(x * 2)


def test_signatures_are_the_standards() -> None:
    """Keyword parameters that the standard names and NumPy's functions of the same name lack."""
    wanted = {"sort": "axis descending stable", "argsort": "axis descending stable", "std": "axis correction keepdims",
              "var": "axis correction keepdims", "asarray": "dtype device copy", "arange": "dtype device",
              "linspace": "dtype device endpoint", "full_like": "dtype device", "astype": "copy device",
              "from_dlpack": "device copy", "eye": "k dtype device", "meshgrid": "indexing", "reshape": "copy"}
    for name, parameters in wanted.items():
        assert set(parameters.split()) <= set(inspect.signature(getattr(xp, name)).parameters), name
    assert {"stream", "max_version", "dl_device", "copy"} <= set(inspect.signature(xp.Array.__dlpack__).parameters)
