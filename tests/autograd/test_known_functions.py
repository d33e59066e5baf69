"""Calls of public functions that were made before are done again in C: they give what the functions give."""
from __future__ import annotations

import gc
import os
import re
import threading
from typing import Any, Callable, Iterator

import numpy as onp
import pytest

from hybrid import autograd, hybridize, nd, np
from hybrid.autograd import known_calls, known_functions
from hybrid.base.errors import HybridError
from hybrid.numpy import remembered
from hybrid.ops import registry
from hybrid.runtime import launcher


@pytest.fixture(autouse=True)
def in_c() -> Iterator[None]:
    """Calls go through C, and nothing is remembered."""
    if launcher.load() is None or known_calls.WARNINGS is None:
        pytest.skip("needs Python's headers, a compiler, and NumPy 2")
    known_calls.switch_to_c()
    known_functions._forget()
    kept = list(known_functions.CALL)
    assert kept
    yield
    known_functions.CALL[:] = kept


WHERE = re.compile(r"^\S+:\d+: ")                         # an error was raised


def told(found: Any) -> Any:
    """A result as what can be compared."""
    if isinstance(found, (tuple, list)):
        return type(found), [told(f) for f in found]
    if isinstance(found, nd.NDArray):
        raw = found.asnumpy()
        if raw.dtype.kind == "f":
            raw[onp.isnan(raw)] = onp.nan                    # whose signs are nobody's
        return type(found), found.context, raw.dtype, raw.shape, raw.tobytes(), raw.flags.c_contiguous
    return type(found), found


def by_python(call: Callable[..., Any], *args: Any) -> Any:
    """What a call gives without being remembered."""
    kept = list(known_functions.CALL)
    known_functions.CALL.clear()
    try:
        return told(call(*args))
    except (HybridError, ValueError, IndexError, TypeError, ArithmeticError) as err:
        return type(err), WHERE.sub("", str(err))
    finally:
        known_functions.CALL[:] = kept


def by_c(call: Callable[..., Any], *args: Any) -> Any:
    """What a call gives, an error too."""
    try:
        return told(call(*args))
    except (HybridError, ValueError, IndexError, TypeError, ArithmeticError) as err:
        return type(err), WHERE.sub("", str(err))


# x and y: (3, 3), v and w: (6,), i: whole numbers below 3, c: truth values (3, 3), s: (3, 3) positive definite
CALLS = """np.where(c, x, y)|np.where(c, x, 2)|np.where(c, 2, x)|np.where(c, 2.5, 1)|np.clip(x, 1, 2)
np.clip(x, None, 2)|np.clip(x, y, 3)|np.nan_to_num(x)|np.nan_to_num(x, nan=2.0)|np.ldexp(x, 2)
np.ldexp(x, i)|np.reciprocal(x)|np.positive(x)|np.full_like(x, 3)
np.full_like(x, 3, dtype="int32")|np.zeros_like(x)|np.ones_like(x, dtype=onp.float64)
np.average(x)|np.average(x, axis=1)|np.average(x, weights=y)|np.moveaxis(x, 0, 1)|np.rollaxis(x, 1)
np.swapaxes(x, 0, 1)|np.squeeze(x)|np.expand_dims(x, 1)|np.transpose(x)|np.atleast_1d(v)|np.atleast_3d(x)|np.flip(x)
np.flip(x, 1)|np.fliplr(x)|np.flipud(x)|np.roll(x, 1)|np.roll(x, 2, axis=1)|np.rot90(x)|np.rot90(x, k=2)|np.tile(x, 2)
np.reshape(x, (9,))|np.reshape(x, (9,), order="F")|np.ravel(x)|np.broadcast_to(v, (2, 6))|np.tensordot(x, y)
np.kron(x, y)|np.kron(v, 2)
np.lcm(i, i + 1)|np.lcm(x, 2)|np.ldexp(2, i)|np.round(x, 1)|np.around(x)|np.inner(x, 2)|x.dot(2)
np.inner(v, w)|np.trace(x)|np.diagonal(x)|np.sort(x)|np.sort(x, axis=0)|np.sort(x, axis=None)
np.take(x, i)|np.take(x, i, axis=1)|np.take(x, i, mode="clip")|np.diff(x)|np.diff(x, n=2, axis=0)|np.ediff1d(v)
np.tril(x)|np.triu(x, 1)|np.diag(v)|np.diag(x, k=1)|np.diagflat(v)|np.vdot(v, w)|np.outer(v, w)|np.einsum("ij->i", x)
np.einsum("ij,ij->i", x, y)|np.einsum("ij,jk", x, y)|np.concatenate([x, y])|np.concatenate((x, y), axis=1)
np.concatenate([x, y], axis=None)|np.append(x, y)|np.append(x, y, axis=0)|np.stack([x, y])|np.stack([x, y], axis=-1)
np.vstack([x, y])|np.hstack([x, y])|np.dstack([x, y])|np.column_stack([v, w])|np.split(x, 3)|np.split(v, [1, 4])
np.array_split(v, 4)|np.vsplit(x, 3)|np.hsplit(x, 3)|np.meshgrid(v, w)|np.insert(v, 2, 1)|np.insert(x, 1, 5, axis=1)
np.delete(v, 2)|np.delete(x, 1, axis=0)|np.delete(v, slice(1, 3))|np.repeat(x, 2)|np.repeat(x, 2, axis=0)
np.repeat(v, i.reshape(-1)[:6])|np.pad(x, 1)|np.pad(x, 1, mode="edge")|np.pad(x, ((0, 1), (1, 0)), mode="reflect")
np.polyval(v, x)|np.cross(x, y)|np.cov(x)|np.corrcoef(x)|np.correlate(v, w)|np.convolve(v, w)|np.divmod(x, y)
np.divmod(x, 2)|divmod(2, x)|np.allclose(x, y)|np.allclose(x, x + 0)|np.array_equal(x, y)|np.argsort(x)
np.argsort(x, axis=0)|np.median(x)|np.median(x, axis=1)|np.median(v, keepdims=True)|np.percentile(v, 30)
np.quantile(x, 0.3, axis=0)|np.percentile(x, 60.5)|np.median(x, axis=(0, 1))|np.einsum("ij,ij->", x, y)|np.linalg.qr(x)
np.count_nonzero(x)|np.count_nonzero(c, axis=0)|np.linalg.det(s)|np.linalg.slogdet(s)
np.linalg.norm(x)|np.linalg.norm(x, axis=1)|np.linalg.norm(x, 1)|np.linalg.eigvalsh(s)|np.linalg.cholesky(s)
np.linalg.matrix_power(x, 3)|np.linalg.inv(s)|np.linalg.inv(x)|np.linalg.solve(s, y)|np.linalg.svd(x)|np.linalg.qr(x)
np.linalg.matrix_rank(x)|np.linalg.lstsq(s, y)|np.fft.fft(v)|np.fft.ifft(v)|np.fft.rfft(v)|np.fft.irfft(v)
np.fft.fft(x, axis=0)|np.fft.rfft(v, 4)|np.fft.rfft(v, norm="ortho")|x.astype("int32")|x.astype(onp.float64)
x.astype("bool")|x.astype("float32", copy=False)|x.sum(axis=0)|x.max()|x.argmax(axis=1)|x.round()|x.clip(0, 1)
x.take(i)|x.repeat(2)|x.any()|x.std()|x.dot(y)|x.squeeze()|x.cumsum(axis=0)|n.sum()|n.argmax()|n.take(i.as_nd_ndarray())
n.pick(i.as_nd_ndarray()[0])|n.topk(k=2)|n.sort()|n.astype("float16")|n.softmax()|n.one_hot(3)|n.norm()|n.split(3)"""


def arguments(dtype: str, seed: int) -> dict[str, Any]:
    """Arrays that calls name: others for each seed, of the same shapes and dtypes, with equal numbers among them."""
    rng = onp.random.RandomState(seed)

    def made(*shape: int) -> onp.ndarray:
        raw = rng.randint(-3, 4, shape) + (rng.randn(*shape).round(1) if dtype.startswith("float") else 0)
        return onp.abs(raw).astype(dtype) if dtype == "uint8" else raw.astype(dtype)
    x, b = made(3, 3), rng.rand(3, 3)
    if dtype.startswith("float") and seed == 2:
        x[0, 0], x[1, 1], x[2, 0] = onp.nan, -0.0, onp.inf
    s = (b @ b.T + onp.eye(3) * 2).astype("float64" if dtype == "float64" else "float32")
    found = {"x": x, "y": made(3, 3), "v": made(6), "w": made(6), "i": rng.randint(0, 3, (3, 3)),
             "c": rng.rand(3, 3) > 0.5, "s": s}
    return {k: np.array(v, dtype=v.dtype) for k, v in found.items()} | {"n": nd.array(x, dtype=dtype)}


@pytest.mark.parametrize("dtype", "float32 float64 int32 bool float16".split())
def test_results_are_those_of_the_functions(dtype: str) -> None:
    wrong = []
    for text in CALLS.replace("\n", "|").split("|"):
        call = eval(f"lambda x, y, v, w, i, c, s, n: {text}", {"np": np, "onp": onp})
        for seed in (0, 0, 1, 2, 3):
            given = arguments(dtype, seed)
            before = told(list(given.values()))
            want = by_python(call, *given.values())
            if by_c(call, *given.values()) != want or told(list(given.values())) != before:
                wrong.append((text, seed))
    assert not wrong


def test_most_calls_are_remembered() -> None:
    given = arguments("float32", 0)
    count = 0
    calls = CALLS.replace("\n", "|").split("|")
    for text in calls:
        known_functions._forget()
        call = eval(f"lambda x, y, v, w, i, c, s, n: {text}", {"np": np, "onp": onp})
        for _ in range(3):
            by_c(call, *given.values())
        count += any(isinstance(e, tuple) for kinds in known_functions._known for e in kinds.values())
    assert count > 0.85 * len(calls)


def test_values_of_one_kind_alone_are_the_same_call() -> None:
    x = np.array([1.0, 2.0])
    for value in (0.0, -0.0, 0, False, 1, True, 1.0, None):
        def call(a: Any, value: Any = value) -> Any:
            return np.full_like(a, value) if value is not None else np.full_like(a, 0, None)
        for _ in range(3):
            assert by_c(call, x) == by_python(call, x), value


def test_one_array_twice_is_not_two_arrays() -> None:
    x, y = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])
    for _ in range(3):
        np.where(x > 1, x, x)
        np.outer(x, x)
    assert np.where(x > 1, x, y).tolist() == [4, 2, 3]
    assert np.outer(x, y).tolist() == onp.outer([1, 2, 3], [4, 5, 6]).tolist()


def test_results_are_arrays_of_their_own() -> None:
    x = np.array([[1.0, 2.0]])
    for call in (np.atleast_1d, np.ravel, np.squeeze, np.transpose, np.sort, np.positive):
        for _ in range(3):
            found = call(x)
        found[...] = 9
        assert x.tolist() == [[1, 2]], call


def test_gradients_flow_and_programs_are_traced() -> None:
    x = np.array([3.0, 1.0, 2.0])
    for _ in range(3):
        np.sort(x), np.diff(x)
    x.attach_grad()
    with autograd.record():
        loss = (np.sort(x) * np.array([1.0, 10.0, 100.0])).sum() + np.diff(x).sum()
    loss.backward()
    assert x.grad.tolist() == [99, 1, 11]
    assert hybridize(lambda a: np.sort(a))(x).tolist() == [1, 2, 3]


def test_operators_that_are_registered_anew_are_called() -> None:
    x = np.array([3.0, 1.0])
    for _ in range(3):
        np.sort(x)
    assert any(known_functions._known)
    registry._changed()
    assert not any(known_functions._known)


def test_errors_are_the_functions() -> None:
    x, singular = np.array([1.0, 2.0]), np.array([[1.0, 2.0], [2.0, 4.0]])
    good, bad = np.array([0, 1], dtype="int64"), np.array([0, 5], dtype="int64")
    for _ in range(3):
        np.take(x, good)
        np.linalg.inv(np.array([[1.0, 0.0], [0.0, 2.0]]))
    with pytest.raises(HybridError, match="out of range for length 2"):
        np.take(x, bad)
    with pytest.raises(HybridError, match="singular"):
        np.linalg.inv(singular)


def test_a_list_within_itself_and_odd_arguments() -> None:
    loop: list[Any] = [np.array([1.0])]
    loop.append(loop)
    with pytest.raises((HybridError, ValueError, TypeError, RecursionError)):
        np.concatenate(loop)
    assert np.sort(onp.array([2.0, 1.0], "float32")).tolist() == [1, 2]
    assert np.full_like(np.array([1.0]), 10 ** 30).shape == (1,)


def test_threads_that_remember_at_once() -> None:
    x = np.array([[3.0, 1.0], [2.0, 5.0]])
    wrong: list[Any] = []

    def work(k: int) -> None:
        for n in range(60):
            y = np.array(onp.full((2, 2 + n % 5), k, "float32"))
            if np.diff(y).asnumpy().any() or np.sort(x).tolist() != [[1, 3], [2, 5]]:
                wrong.append(n)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and known_calls.IN_C[0].__name__ == "known_call"


def test_nothing_is_kept_alive() -> None:
    x = np.array(onp.arange(1000.0, dtype="float32"))
    for _ in range(3):
        np.sort(x), np.where(x > 2, x, 1), x.astype("int32")
    gc.collect()
    import weakref
    held = weakref.ref(x._data)
    del x
    gc.collect()
    assert held() is None


def test_tables_name_functions_that_there_are() -> None:
    for part, table in remembered.TABLES.items():
        space = getattr(np, part) if part else np
        for name in table:
            assert callable(getattr(space, name)), name


def test_results_written_into_an_array() -> None:
    x, y, i = np.array([1.0, 2.0]), np.array([3.0, 4.0]), np.array([1, 0], dtype="int64")
    whole = np.array([4, 6], dtype="int32")
    for call, out in ((lambda z: np.outer(x, y, out=z), np.zeros((2, 2))),
                      (lambda z: np.concatenate([x, y], out=z), np.zeros(4)),
                      (lambda z: np.stack([x, y], out=z), np.zeros((2, 2))),
                      (lambda z: np.take(x, i, out=z), np.zeros(2)),
                      (lambda z: np.lcm(whole, whole, z), np.zeros(2, dtype="int32"))):
        for _ in range(4):
            out[...] = 0
            before = out._version
            assert call(out) is out and out._version > before and out.asnumpy().any()


def test_a_result_that_is_written_is_noticed_by_the_tape() -> None:
    a = np.array([1.0, 2.0, 3.0])
    a.attach_grad()
    for _ in range(4):
        with autograd.record():
            y = a * a
            z = y * y
        kept = y.detach()
        np.concatenate([kept[:1] * 0, kept[1:]], out=kept)
        with pytest.raises(HybridError, match="changed in place"):
            z.backward()


def test_functions_that_give_their_argument() -> None:
    x = np.array([1.0, 2.0])
    assert [np.diff(x, n=0) is x for _ in range(4)] == [np.diff(x, n=0) is x] * 4


def test_several_quantiles() -> None:
    given = [np.array(onp.random.RandomState(k).randn(10).astype("float32")) for k in (0, 0, 1, 2, 3)]
    for x in given:
        for q in (0.3, [0.1, 0.9]):
            want = by_python(np.quantile, x, q)
            assert by_c(np.quantile, x, q) == want
    for x in (np.array([1.0, 2.0]), np.array([1.0, 2.0]), np.array([-0.0, 2.0])):
        assert by_c(np.median, x, ()) == by_python(np.median, x, ())


def test_numbers_that_functions_compute_are_not_kept() -> None:
    x = np.array([1.0, 2.0, 3.0])
    for inner in (np.median, np.ptp):                        # remembered itself; NumPy's own in C
        for _ in range(6):
            inner(x)
        outer = known_functions.known(lambda a, inner=inner: a * inner(a))
        for _ in range(4):
            outer(x)
        assert outer(np.array([10.0, 20.0, 30.0])).tolist() == [200, 400, 600]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked")
def test_a_process_forked_while_a_call_is_noted() -> None:
    x, begun, end = np.array([3.0, 1.0]), threading.Event(), threading.Event()

    def slow(a: Any) -> Any:
        begun.set()
        end.wait(60)
        return np.sort(a)
    thread = threading.Thread(target=known_functions.known(slow), args=(x,))
    thread.start()
    begun.wait(60)
    pid = os.fork()
    if not pid:
        free = not known_functions._noting.locked() and known_calls.IN_C[0].__name__ == "known_call"
        os._exit(not free or np.sort(x).tolist() != [1, 3])
    status = os.waitpid(pid, 0)[1]
    end.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0 and not known_functions._now
