"""Arrays of PyTorch, JAX and NumPy as arguments of hybridized calls: inputs, whose numbers are read at each call and
whose memory is written where the code writes. What needs PyTorch or JAX is skipped where it is not installed."""
from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy
import pytest

from hybrid import autograd, hybridize, nd, np
from hybrid.base.errors import DTypeError, TraceError


def scaled(x: Any, y: Any) -> Any:
    return (x * y + 1).sum(axis=1)


def filled(x: Any, y: Any) -> Any:
    x[:] = x + y
    return x * 2


ONES = nd.ones((2, 3))
NUMBERS = numpy.arange(6, dtype="float32").reshape(2, 3)


def inputs(make: Any, change: Any) -> None:
    """Arrays of one library are inputs: of one program, with the numbers of each call, in any layout."""
    compiled = hybridize(scaled)
    a = make(NUMBERS)
    assert compiled(a, ONES).asnumpy().tolist() == [6, 15]
    if change is not None:
        change(a)
        assert compiled(a, ONES).asnumpy().tolist() == [106, 15]
    assert compiled(make(NUMBERS + 1), ONES).asnumpy().tolist() == [9, 18]
    assert len(compiled.cache_misses) == 1
    wide = make(numpy.arange(12, dtype="float32").reshape(2, 6))
    assert compiled(wide[:, ::2], ONES).asnumpy().tolist() == [9, 27]
    assert compiled(make(NUMBERS.reshape(3, 2)).T, ONES).asnumpy().tolist() == [9, 12]
    assert len(compiled.cache_misses) == 1
    weight = ONES.copy()
    weight.attach_grad()
    with autograd.record():
        loss = (compiled(make(NUMBERS), weight) ** 2).sum()
    loss.backward()
    numpy.testing.assert_allclose(weight.grad.asnumpy(), 2 * numpy.array([[6], [15]]) * NUMBERS)
    twice = compiled(a, a)                                   # one object is one array
    numpy.testing.assert_allclose(twice.asnumpy(), (numpy.asarray(a) ** 2 + 1).sum(axis=1))


def halves(bfloat16: Any) -> None:
    """Elements that NumPy does not know."""
    found = hybridize(scaled)(bfloat16, ONES.astype("bfloat16"))
    assert str(numpy.dtype(found.dtype)) == "bfloat16" and found.astype("float32").asnumpy().tolist() == [6, 15]
    assert nd.from_dlpack(bfloat16).dtype == found.dtype
    assert nd.array(bfloat16).asnumpy().tolist() == NUMBERS.tolist()


def test_numpy() -> None:
    inputs(numpy.array, lambda a: a.__setitem__((0, 0), 100))
    compiled, kept, strided = hybridize(filled), numpy.ones((2, 3), "float32"), numpy.ones((2, 6), "float32")
    assert compiled(kept, ONES).asnumpy().tolist() == [[4] * 3] * 2 and kept.tolist() == [[2] * 3] * 2
    compiled(strided[:, ::2], ONES)
    assert strided.tolist() == [[2, 1] * 3] * 2
    with autograd.record():                                  # the tape keeps what the array was
        compiled(kept, ONES)
    assert kept.tolist() == [[3] * 3] * 2
    kept.flags.writeable = False
    with pytest.raises(TraceError,
                       match=r"test_foreign_arrays.py:\d+: filled writes into a numpy.ndarray.*only be read"):
        compiled(kept, ONES)
    with pytest.raises(DTypeError, match=r"test_foreign_arrays.py:\d+: .*complex128"):
        hybridize(scaled)(numpy.ones((2, 3), complex), ONES)


def test_torch() -> None:
    torch = pytest.importorskip("torch")
    inputs(torch.tensor, lambda a: a.__setitem__((0, 0), 100))
    kept = torch.ones(2, 3)
    hybridize(filled)(kept, ONES)
    assert kept.tolist() == [[2] * 3] * 2
    halves(torch.tensor(NUMBERS).bfloat16())
    assert torch.from_dlpack(ONES.astype("bfloat16")).dtype == torch.bfloat16
    compiled = hybridize(scaled)
    with pytest.raises(TraceError, match=r"torch.*Parameter.*gradients do not cross libraries: give x.detach\(\)"):
        compiled(torch.nn.Parameter(kept), ONES)
    with pytest.raises(TraceError, match="negative bit"):        # its memory holds other numbers
        compiled(ONES, torch.tensor([1 + 2j, 3j, 4]).conj().imag)
    with pytest.raises(TraceError, match="meta"):
        compiled(kept.to("meta"), ONES)


def test_jax() -> None:
    jnp = pytest.importorskip("jax.numpy")
    inputs(jnp.array, None)
    halves(jnp.array(NUMBERS, jnp.bfloat16))
    given = jnp.ones((2, 3))
    with pytest.raises(TraceError, match="filled writes into a jax.*can only be read: give nd.array"):
        hybridize(filled)(given, ONES)
    assert given.tolist() == [[1] * 3] * 2
    assert jnp.from_dlpack(ONES.astype("bfloat16")).dtype == jnp.bfloat16


def test_every_dtype_is_exported_where_ml_dtypes_is_not_installed() -> None:
    program = """
import sys
sys.modules["ml_dtypes"] = None
import numpy
from hybrid import nd
for dtype in ("float16", "float32", "float64", "int8", "uint8", "int32", "int64"):
    x = nd.array([[1, 0, 1]], dtype=dtype)
    for back in (numpy.from_dlpack(x), nd.from_dlpack(x), nd.from_dlpack(x.to_dlpack_for_read())):
        assert back.dtype == x.dtype and getattr(back, "asnumpy", lambda: back)().tolist() == [[1, 0, 1]], dtype
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_parameters_of_pytorch_that_code_reads() -> None:
    """A tensor that requires gradients does not convert by itself."""
    torch = pytest.importorskip("torch")
    layer = torch.nn.Linear(1, 1)
    torch.nn.init.constant_(layer.weight, 2.)
    for read in (lambda x: x * float(layer.weight.detach().sum()),
                 lambda x: x * nd.array(layer.state_dict()["weight"].numpy()[0])):
        f = hybridize(read)
        for value in (2., 5.):
            torch.nn.init.constant_(layer.weight, value)
            assert f(nd.ones((1,))).asscalar() == value


def test_modes_of_pytorch_that_code_reads() -> None:
    torch = pytest.importorskip("torch")
    f = hybridize(lambda x: x * 2 if torch.is_grad_enabled() else x * 3)
    with pytest.warns(UserWarning, match="a mode of PyTorch"):
        assert f(nd.ones((1,))).asscalar() == 2
    with torch.no_grad():
        assert f(nd.ones((1,))).asscalar() == 3
    assert f(nd.ones((1,))).asscalar() == 2


@pytest.mark.skipif(sys.version_info < (3, 12), reason="classes written in Python offer no buffer before Python 3.12")
def test_memoryviews_share_memory() -> None:
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    memory = memoryview(x)                                           # type: ignore[arg-type]
    memory[0, 1] = 9
    assert memory.shape == (2, 2) and x.tolist() == [[1, 9], [3, 4]]
