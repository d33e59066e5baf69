"""Sparse arrays of a GPU's context, with the stand-in for CuPy: results are on it, and contents come and go."""
from __future__ import annotations

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, nd

from ..cuda import fake_cupy
from ..cuda.test_cuda_cupy import stand_in  # noqa: F401  a fixture

A = np.array([[0, 0.5, 0], [0, 0, 0], [0.25, 0, -0.75], [0, 0, 2]], "float32")


def test_sparse_arrays_of_a_gpu() -> None:
    x = nd.array(A)
    c, r, w = x.tostype("csr"), x.tostype("row_sparse"), nd.ones((3, 2))
    w.attach_grad(stype="row_sparse")
    with autograd.record():
        y = nd.sparse.dot(c, w)
    y.backward()
    assert w.grad.stype == "row_sparse" and w.grad.asnumpy()[:, 0].tolist() == [0.25, 0.5, 1.25]
    made = {"y": y, "data": c.data, "grad": w.grad, "twice": c * 2, "sum": c + c, "product": c * x, "dense": c + x,
            "rows": c[1:3], "function": nd.exp(c),
            "row sum": r + r, "row product": r * r, "retained": r.retain(nd.array([0])), "added": nd.add_n(r, r),
            "joined": nd.concat(c, c, dim=0),
            "zeros": nd.sparse.zeros("csr", (2, 3)), "given": nd.sparse.csr_matrix(([1.], [0], [0, 1])),
            "left": nd.sparse.dot(nd.ones((2, 4)), c)}
    assert {name: v.ctx for name, v in made.items()} == {name: mx.gpu(0) for name in made}
    assert isinstance(y._data, fake_cupy.ndarray) and isinstance(c._data,
                                                                 fake_cupy.ndarray) and (
            made["dense"].asnumpy() == 2 * A).all()
    assert c.as_in_context(mx.cpu()).ctx == mx.cpu() and c.copyto(mx.cpu()).data.ctx == mx.cpu()
    r[:], c[:] = x * 2, made["twice"]
    x[:] = c
    assert (x.asnumpy() == 2 * A).all() and (r.asnumpy() == 2 * A).all()


def test_arrays_of_two_devices() -> None:
    c, here = nd.array(A).tostype("csr"), nd.ones((4, 3), ctx=mx.cpu())
    for call in (lambda: c * here, lambda: c + here, lambda: nd.dot(c, here, transpose_a=True),
                 lambda: c + c.as_in_context(mx.cpu())):
        with pytest.raises(mx.errors.DeviceError, match="cpu"):
            call()


def test_updates_on_a_gpu() -> None:
    w, g = nd.ones((4, 3)), nd.array(A).tostype("row_sparse")
    optimizer = mx.optimizer.create("sgd", learning_rate=0.5, momentum=0.9, wd=0.1)
    optimizer.update(0, w, g, optimizer.create_state(0, w))
    nd.sparse.sgd_update(w, g, lr=0.5, wd=0.1, out=w)
    once = np.where(A.any(1, keepdims=True), 1 - 0.5 * (A + 0.1), 1)
    np.testing.assert_allclose(w.asnumpy(), np.where(A.any(1, keepdims=True), once - 0.5 * (A + 0.1 * once), 1),
                               rtol=1e-6)
    assert isinstance(w._data, fake_cupy.ndarray)
