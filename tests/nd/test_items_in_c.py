"""Parts of arrays that are read and written in C, and operators that write into an array: as Python does it."""
from __future__ import annotations

from typing import Any, Iterator

import numpy as onp
import pytest

from hybrid import autograd, nd, np
from hybrid.autograd import known_calls
from hybrid.base.errors import HybridError
from hybrid.nd import methods
from hybrid.runtime import launcher


@pytest.fixture(autouse=True)
def in_c() -> Iterator[None]:
    """Calls go through C."""
    if launcher.load() is None or known_calls.WARNINGS is None:
        pytest.skip("needs Python's headers, a compiler, and NumPy 2")
    known_calls.switch_to_c()
    kept = [(m, list(m)) for m in (methods.ITEM, methods.PUT, known_calls.INTO)]
    assert all(functions for _, functions in kept)
    yield
    for m, functions in kept:
        m[:] = functions


def without() -> None:
    """Python does it from now on."""
    for m in (methods.ITEM, methods.PUT, known_calls.INTO):
        m.clear()


def told(x: Any) -> Any:
    raw = x.asnumpy()
    return type(x), raw.dtype, raw.shape, raw.tobytes(), x._data.flags.c_contiguous


KEYS = """0|-1|(0, 1)|(0, 1, 2)|(-1, -2, -3)|slice(None)|slice(0, 1)|slice(None, None, 2)|slice(None, None, -1)|None|...
(None, 0)|(..., 1)|(slice(None), 1)|(0, slice(1, 3))|(0, ..., 1)|(0, 1, 2, ...)|(0, 1, 2, None)|slice(1, 0)|()|5|(0, 9)
(0, 1, 2, 3)|i|f|b|m|onp.array([1, 0])|[0, 1]|True|(i, 0)|onp.int64(1)|'a'|1.5|i[0]|(slice(None), i)""".replace(
    "\n", "|").split("|")


def keys(make: Any) -> dict[str, Any]:
    raws = {"i": onp.array([1, 0, 1]), "f": onp.array([1, 0], "float32"), "b": onp.array([True, False]),
            "m": onp.arange(24).reshape(2, 3, 4) % 2 == 0}
    arrays = {k: make(v, dtype=v.dtype) for k, v in raws.items()}
    return {text: eval(text, {"onp": onp, **arrays}) for text in KEYS}


def tried(call: Any) -> Any:
    try:
        return call()
    except (HybridError, IndexError, ValueError, TypeError) as err:
        return type(err), str(err)


@pytest.mark.parametrize("make", (nd.array, np.array))
def test_parts(make: Any) -> None:
    x = make(onp.arange(24, dtype="float32").reshape(2, 3, 4))
    t = x.transpose(2, 1, 0) if make is np.array else x.transpose((2, 1, 0))
    given = keys(make)

    def read(of: Any, key: Any) -> Any:
        found = of[key]
        return told(found), onp.shares_memory(found._data, of._data)
    found = {(k, n): tried(lambda: read(of, key)) for k, key in given.items() for n, of in (("x", x), ("t", t))}
    without()
    for (k, n), answer in found.items():
        assert answer == tried(lambda: read({"x": x, "t": t}[n], given[k])), (k, n)


@pytest.mark.parametrize("make", (nd.array, np.array))
def test_writes(make: Any) -> None:
    one, row = make(onp.array([7.0], "float32")), make(onp.array([1, 2, 3, 4.0], "float32"))
    given = keys(make)
    values = [3, 2.5, True, one, row, make(onp.array([5, 6], "int32")), [8], None, "a", onp.float32(4)]

    def wrote(key: Any, value: Any) -> Any:
        x = make(onp.arange(24, dtype="float32").reshape(2, 3, 4))
        before = x._version
        x[key] = value
        return told(x), x._version - before
    found = [tried(lambda: wrote(key, value)) for key in given.values() for value in values]
    without()
    assert found == [tried(lambda: wrote(key, value)) for key in given.values() for value in values]


def test_a_written_part_of_itself() -> None:
    x = np.array(onp.arange(6, dtype="float32"))
    x[1:] = x[:-1]
    assert x.tolist() == [0, 0, 1, 2, 3, 4]


@pytest.mark.parametrize("make", (nd.array, np.array))
@pytest.mark.parametrize("dtype", "float32 float64 int32 uint8".split())
def test_in_place(make: Any, dtype: str) -> None:
    raw = onp.arange(1, 7).reshape(2, 3).astype(dtype)
    for text in ("x += y", "x -= 1", "x *= 2", "x /= y", "x *= 0.5", "x **= 2", "x //= 2", "x += x", "x[1:] += x[:1]",
                 "x[:, 1:] += x[:, :2]", "x[0] *= 3", "x %= y", "x += y[0]", "x -= x[:1]", "x += y.astype('float64')"):
        def run(text: str = text) -> Any:
            x, y = make(raw, dtype=dtype), make(raw[::-1].copy(), dtype=dtype)
            same = x
            exec(text, {}, {"x": x, "y": y})
            return told(same), same is x
        kept = list(known_calls.INTO)
        found = [tried(run) for _ in range(3)]
        known_calls.INTO.clear()
        assert found == [tried(run)] * 3, text
        known_calls.INTO[:] = kept


def test_overlapping_outputs() -> None:
    for _ in range(3):
        x = np.array(onp.arange(8, dtype="float32"))
        np.add(x[1:], x[:-1], out=x[1:])
        assert x.tolist() == [0, 1, 3, 5, 7, 9, 11, 13]
        y = np.array([1.0, 2.0])
        assert np.exp(y, out=y) is y and np.allclose(y, onp.exp([1.0, 2.0]))


def test_arrays_that_are_not_aligned() -> None:
    raw = onp.frombuffer(bytearray(4 * 2000 + 1), "float32", offset=1)
    raw[:] = onp.arange(2000)
    x = nd.from_numpy(raw)
    assert not x._data.flags.aligned
    for _ in range(20):
        z = nd.array(onp.ones(2000))
        z += x
        z *= x
        nd.elemwise_add(z, x, out=z)
        assert (z.asnumpy() == raw * raw + raw * 2).all()


def test_a_write_is_noticed_by_the_tape() -> None:
    x = np.array([1.0, 2.0])
    x.attach_grad()
    with autograd.record():
        y = x * x
    for _ in range(2):
        np.add(y.detach(), 1, out=np.zeros(2))
    z = np.array([5.0, 5.0])
    before = z._version
    z += 1.0
    z += z
    z[0] = 3
    assert z._version == before + 3 and z.tolist() == [3, 12]
    y.backward()
    assert x.grad.tolist() == [2, 4]


def test_powers_of_integers_and_roots() -> None:
    for dtype in "int8 int32 int64 uint8".split():
        low = 0 if dtype == "uint8" else -5
        a, b = (v.ravel().astype(dtype) for v in onp.meshgrid(onp.arange(low, 6), onp.arange(low, 9)))
        want = [int(p) ** int(q) if q >= 0 else {1: 1, -1: 1 - 2 * (int(q) % 2)}.get(int(p), 0) for p, q in zip(a, b)]
        bits = 8 * onp.dtype(dtype).itemsize
        whole = onp.array([w % 2 ** bits for w in want], dtype="uint64").astype(dtype)
        for _ in range(3):
            assert (np.array(a, dtype=dtype) ** np.array(b, dtype=dtype)).tolist() == whole.tolist()
        for n in (0, 1, 2, 3, 7):
            for _ in range(3):
                assert (np.array(a, dtype=dtype) ** n).tolist() == (a ** onp.array(n, dtype)).tolist()
                assert (n ** np.array(abs(a), dtype=dtype)).tolist() == (onp.array(n, dtype) ** abs(a)).tolist()
    for dtype in ("float32", "float64", "float16"):
        x = onp.array([0.0, -0.0, 4.0, 2.0, -1.0, onp.inf, -onp.inf, onp.nan, 1e-40], dtype)
        with onp.errstate(invalid="ignore"):
            want = onp.power(x, onp.full(9, 0.5, dtype))
        for _ in range(3):
            found = (np.array(x, dtype=dtype) ** 0.5).asnumpy()
            onp.testing.assert_array_equal(found, want)
            assert (onp.signbit(found) == onp.signbit(want))[~onp.isnan(want)].all()


def _unaligned(values: onp.ndarray) -> Any:
    """An array of ours whose memory begins at an odd address."""
    raw = onp.frombuffer(bytearray(values.nbytes + 1), values.dtype, values.size, 1)
    raw[:] = values
    found = nd.from_numpy(raw, zero_copy=True)
    assert not found._data.flags.aligned
    return found


def test_unaligned_arrays_are_read_before_their_copies_go() -> None:
    rng = onp.random.RandomState(1)
    a, b = rng.rand(2, 3000).astype("float32")
    x, y, out = _unaligned(a), _unaligned(b), nd.zeros(3000)
    for k in range(1, 40):
        out += x
        onp.testing.assert_allclose(out.asnumpy(), a * k, 1e-5)
    for _ in range(40):
        nd.elemwise_mul(x, y, out=out)
        onp.testing.assert_array_equal(out.asnumpy(), a * b)
