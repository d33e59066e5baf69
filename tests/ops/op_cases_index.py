"""More rows for the table of op_cases_tensor.py: reading and writing by index, creation, products."""
from __future__ import annotations

from typing import Any

import numpy as np

from . import op_cases_tensor  # noqa: F401  its rows come first
from .op_cases import CASES, Case, case, f, i

__all__ = ["CASES", "Case"]

# ---- indexing
_rows = np.array([[0, 2], [3, 1]], np.int32)
case("take", [f(4, 3), _rows], lambda x, k: x[k])
case("take", [f(4, 3), np.array([0, 2, 2], np.float32)], lambda x, k: x[:, [0, 2, 2]], grad=False, axis=1)
case("take", [f(4, 3), np.array([-5, 9, 1], np.int32)], lambda x, k: np.take(x, k, 0, mode="clip"))
case("take", [f(4, 3), np.array([-5, 9, -1], np.int32)], lambda x, k: np.take(x, k, 0, mode="wrap"), mode="wrap")
case("_npi_take", [f(2, 3), np.array([5, 0], np.int64)], lambda x, k: np.take(x, k), grad=True, axis=None)
case("batch_take", [f(3, 4), np.array([0, 3, 1], np.int32)], lambda x, k: x[np.arange(3), k])
case("pick", [f(3, 4), np.array([0, 3, 1], np.int32)], lambda x, k: x[np.arange(3), k])
case("pick", [f(3, 4), np.array([0, 2, 1, 1], np.int32)], lambda x, k: x[k, np.arange(4)][None], axis=0, keepdims=True)
case("pick", [f(3, 4), np.array([[0], [9], [-2]], np.int32)], lambda x, k: x[np.arange(3), [0, 3, 0]][:, None], axis=1,
     keepdims=True)
case("pick", [f(3, 4), np.array([0, 9, -2], np.int32)], lambda x, k: x[np.arange(3), [0, 1, 2]], axis=1, mode="wrap")
case("Embedding", [_rows, f(4, 3)], lambda k, w: w[k], input_dim=4, output_dim=3)
case("Embedding", [np.array([-1, 7], np.int32), f(4, 3)], lambda k, w: w[[0, 3]], input_dim=4, output_dim=3)
case("one_hot", [np.array([0, 2, 7, -1], np.int32)], lambda k: (k[:, None] == np.arange(3)).astype(np.float32),
     grad=False, depth=3)
case("one_hot", [np.array([0, 2], np.int32)], lambda k: np.where(k[:, None] == np.arange(3), 5, -1).astype(np.int32),
     grad=False, depth=3,
     on_value=5.0, off_value=-1.0, dtype="int32")
case("gather_nd", [f(3, 4), np.array([[0, 2], [1, 3]], np.int32)], lambda x, k: x[k[0], k[1]])
case("gather_nd", [f(3, 4, 2), np.array([[0, -1]], np.int32)], lambda x, k: x[k[0]])
case("scatter_nd", [f(3), np.array([[0, 2, 1], [1, 3, 0]], np.int32)], lambda v, k: _scatter(v, k, (3, 4)),
     shape=(3, 4))
case("scatter_nd", [f(2, 4), np.array([[2, 0]], np.int32)], lambda v, k: _scatter(v, k, (3, 4)), shape=(3, 4))
case("_unravel_index", [np.array([5, 0, 11], np.int64)], lambda k: np.stack(np.unravel_index(k, (3, 4))), grad=False,
     shape=(3, 4))
case("_ravel_multi_index", [np.array([[1, 2], [0, 3]], np.int64)], lambda k: np.ravel_multi_index(tuple(k), (3, 4)),
     grad=False, shape=(3, 4))
_steps = f(4, 3, 2)
_lengths = np.array([1, 4, 2], np.int32)


def _scatter(values: np.ndarray, index: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    out = np.zeros(shape, values.dtype)
    out[tuple(index)] = values
    return out


def _valid(x: np.ndarray, n: np.ndarray) -> np.ndarray:
    return (np.arange(x.shape[0])[:, None] < n)[..., None]


case("SequenceMask", [_steps, _lengths], lambda x, n: np.where(_valid(x, n), x, np.float32(-1)),
     use_sequence_length=True, value=-1.0)
case("SequenceMask", [_steps.transpose(1, 0, 2), _lengths],
     lambda x, n: np.where(_valid(x.swapaxes(0, 1), n).swapaxes(0, 1), x, 0), 
     use_sequence_length=True, axis=1)
case("SequenceMask", [_steps], np.copy)
case("SequenceMask", [_steps, _lengths.astype(np.float32)], lambda x, n: np.where(_valid(x, n), x, np.float32(0)),
     grad=False, use_sequence_length=True)
case("SequenceLast", [_steps, _lengths], lambda x, n: x[n.astype(int) - 1, np.arange(3)], use_sequence_length=True)
case("SequenceLast", [_steps], lambda x: x[-1])
case("SequenceLast", [_steps], lambda x: x[:, -1], axis=1)
case("SequenceReverse", [_steps, _lengths], lambda x, n: _reversed(x, n), use_sequence_length=True)
case("SequenceReverse", [_steps], lambda x: x[::-1])


def _reversed(x: np.ndarray, n: np.ndarray) -> np.ndarray:
    out = x.copy()
    for b, length in enumerate(n.astype(int)):
        out[:length, b] = x[:length, b][::-1]
    return out


case("_contrib_index_copy", [f(4, 2), np.array([2, 0], np.int32), f(2, 2)],
     lambda x, k, y: np.stack([y[1], x[1], y[0], x[3]]))
case("gather_nd", [f(2, 3), np.array([[1, 1], [2, 2]], np.int32)], lambda x, k: x[k[0], k[1]])

# ---- creation
case("_zeros", [], lambda: np.zeros((2, 3), np.float32), shape=(2, 3))
case("_ones", [], lambda: np.ones((2,), np.int32), shape=2, dtype="int32")
case("_full", [], lambda: np.full((2, 2), 1.5, np.float64), shape=(2, 2), value=1.5, dtype="float64")
case("_arange", [], lambda: np.arange(0, 5, dtype=np.float32), start=0, stop=5)
case("_arange", [], lambda: np.arange(1, 4, .7, dtype=np.float32), start=1, stop=4, step=.7)
case("_arange", [], lambda: np.arange(5, 0, -2, dtype=np.int32), start=5, stop=0, step=-2, dtype="int32")
case("_arange", [], lambda: np.repeat(np.arange(0, 3, dtype=np.float32), 2), start=0, stop=3, repeat=2)
case("_arange", [], lambda: np.zeros(0, np.float32), start=3, stop=3)
case("_linspace", [], lambda: np.linspace(-1, 2, 5, dtype=np.float32), start=-1, stop=2, num=5)
case("_linspace", [], lambda: np.linspace(0, 1, 4, endpoint=False, dtype=np.float32), start=0, stop=1, num=4,
     endpoint=False)
case("_eye", [], lambda: np.eye(3, 4, 1, dtype=np.float32), N=3, M=4, k=1)
case("_eye", [], lambda: np.eye(3, k=-1, dtype=np.float32), N=3, k=-1)
case("_contrib_arange_like", [f(2, 3)], lambda x: np.arange(6, dtype=np.float32).reshape(2, 3) * 2 + 1, grad=False,
     start=1.0, step=2.0)
case("_contrib_arange_like", [f(2, 3)], lambda x: np.arange(3, dtype=np.float32), grad=False, axis=-1)
case("_npi_indices", [], lambda: np.indices((2, 3)).astype(np.int32), dimensions=(2, 3), dtype="int32")
case("_npi_identity", [], lambda: np.eye(3, dtype=np.float32), shape=(3, 3))
case("_npi_logspace", [], lambda: np.logspace(0, 2, 4, dtype=np.float32), tol=1e-5, start=0, stop=2, num=4)

# ---- products
case("dot", [f(2, 3), f(3, 4)], np.dot, tol=1e-5)
case("dot", [f(3, 2), f(3, 4)], lambda a, b: a.T @ b, tol=1e-5, transpose_a=True)
case("dot", [f(2, 3), f(4, 3)], lambda a, b: a @ b.T, tol=1e-5, transpose_b=True)
case("dot", [f(3, 2), f(4, 3)], lambda a, b: a.T @ b.T, tol=1e-5, transpose_a=True, transpose_b=True)
case("dot", [f(3), f(3)], lambda a, b: np.dot(a, b).reshape(1), tol=1e-5)
# last axis of a, first of b
case("dot", [f(2, 3, 4), f(4, 2, 3)], lambda a, b: np.tensordot(a, b, 1), tol=1e-5)
case("dot", [f(2, 3), f(3)], np.dot, tol=1e-5)
case("dot", [i(2, 3), i(3, 2)], np.dot, grad=False)
case("dot", [f(2, 0), f(0, 3)], np.dot)
for _ta in (False, True):
    for _tb in (False, True):
        case("batch_dot", [f(2, 4, 3) if _ta else f(2, 3, 4), f(2, 2, 4) if _tb else f(2, 4, 2)],
             lambda a, b, s=_ta, t=_tb: (a.swapaxes(1, 2) if s else a) @ (b.swapaxes(1, 2) if t else b), tol=1e-5,
             transpose_a=_ta, transpose_b=_tb)
case("_linalg_gemm2", [f(2, 3), f(4, 3)], lambda a, b: 2 * a @ b.T, tol=1e-5, transpose_b=True, alpha=2.0)
case("_linalg_gemm2", [f(3, 2, 5), f(5, 2, 4)], lambda a, b: np.einsum("mbk,kbn->mbn", a, b), tol=1e-5, axis=0)
case("_linalg_gemm", [f(2, 3), f(3, 4), f(2, 4)], lambda a, b, c: 2 * a @ b + 3 * c, tol=1e-5, alpha=2.0, beta=3.0)
case("_linalg_gemm", [f(5, 3, 2), f(5, 3, 4), f(5, 2, 4)], lambda a, b, c: a.swapaxes(1, 2) @ b + c, tol=1e-5,
     transpose_a=True)
case("_linalg_syrk", [f(2, 3)], lambda a: 2 * a @ a.T, tol=1e-5, alpha=2.0)
case("_linalg_syrk", [f(4, 2, 3)], lambda a: a.swapaxes(1, 2) @ a, tol=1e-5, transpose=True)
case("_linalg_trmm", [f(3, 3), f(3, 2)], lambda a, b: np.tril(a) @ b, tol=1e-5)
case("_linalg_trmm", [f(3, 3), f(2, 3)], lambda a, b: 2 * b @ np.tril(a).T, tol=1e-5, rightside=True, transpose=True,
     alpha=2.0)
case("_linalg_sumlogdiag", [f(2, 3, 3, low=.3)], lambda a: np.log(np.diagonal(a, 0, 1, 2)).sum(-1), tol=1e-5)
case("_linalg_extractdiag", [f(2, 3, 3)], lambda a: np.diagonal(a, 1, 1, 2), offset=1)
case("_linalg_makediag", [f(2, 3)], lambda a: np.stack([np.diag(r) for r in a]))
case("khatri_rao", [f(2, 3), f(4, 3)], lambda a, b: np.einsum("ik,jk->ijk", a, b).reshape(8, 3), tol=1e-5)
for _a, _b in (((2, 3), (3, 4)), ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((5, 2, 3), (3, 4)),
               ((5, 1, 2, 3), (4, 3, 2)), ((3,), (5, 3, 2))):
    case("_npi_matmul", [f(*_a), f(*_b)], np.matmul, tol=1e-5)
for _a, _b in (((2, 3), (3, 4)), ((3,), (3,)), ((2, 3), (3,)), ((2, 3, 4), (5, 4, 2)), ((), (3,)), ((3,), (3, 4))):
    case("_np_dot", [f(*_a), f(*_b)], np.dot, tol=1e-5)
case("_npi_tensordot", [f(2, 3, 4), f(4, 3, 2)], lambda a, b: np.tensordot(a, b, ((1, 2), (1, 0))), tol=1e-5,
     a_axes_summed=(1, 2), b_axes_summed=(1, 0))
case("_npi_tensordot_int_axes", [f(2, 3, 4), f(3, 4, 2)], lambda a, b: np.tensordot(a, b, 2), tol=1e-5, axes=2)
for _text, _shapes in (("ij,jk->ik", [(2, 3), (3, 4)]), ("bij,bkj->bik", [(2, 3, 4), (2, 5, 4)]), ("ij->ji", [(2, 3)]),
                       ("ij->", [(2, 3)]),
                       ("ij->j", [(2, 3)]), ("i,j->ij", [(2,), (3,)]), ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]),
                       ("ii->i", [(3, 3)]), ("ii", [(3, 3)]),
                       ("ij,jk", [(2, 3), (3, 4)]), ("...ij,...jk->...ik", [(2, 2, 3), (2, 3, 4)]),
                       ("bhqd,bhkd->bhqk", [(1, 2, 3, 4), (1, 2, 5, 4)]), ("ijk,ijk->ij", [(3, 3, 4), (3, 3, 4)]),
                       ("ijk,jik->ij", [(3, 3, 4), (3, 3, 4)]), ("ijk,jik->ji", [(3, 3, 4), (3, 3, 4)])):
    case("_npi_einsum", [f(*s) for s in _shapes], lambda *x, t=_text: np.einsum(t, *x), tol=1e-5, subscripts=_text)
case("_npi_outer", [f(2, 2), f(3)], np.outer)
case("_npi_inner", [f(2, 3), f(4, 3)], np.inner, tol=1e-5)
case("_npi_vdot", [f(2, 3), f(2, 3)], np.vdot, tol=1e-5)
case("_npi_kron", [f(2, 2), f(2, 3)], np.kron)


# ---- writing by index
def _assigned(x: np.ndarray, value: Any, key: Any) -> np.ndarray:
    out = x.copy()
    out[key] = value
    return out


def assign_case(key: str, value: np.ndarray, **attrs: Any) -> None:
    case("_slice_assign", [f(4, 5), value], lambda x, v: _assigned(x, v, eval(f"np.s_[{key}]")),
         **attrs)     # noqa: S307  written below


assign_case("1:3", f(2, 5), begin=(1,), end=(3,))
assign_case("::2, 1:4", f(2, 3), begin=(None, 1), end=(None, 4), step=(2, 1))
assign_case("::-1, ::-2", f(4, 3), begin=(None, None), end=(None, None), step=(-1, -2))
assign_case("3:0:-2, 2:3", f(2, 1), begin=(3, 2), end=(0, 3), step=(-2, 1))
assign_case(":, -2:", f(4, 2), begin=(None, -2), end=(None, None))
assign_case("::3, ::2", f(2, 3), begin=(None, None), end=(None, None), step=(3, 2))
assign_case("2:2", f(0, 5), begin=(2,), end=(2,))
case("_slice_assign", [i(3, 4), f(1, 4)], lambda x, v: _assigned(x, v, np.s_[1:2]), grad=False, begin=(1,), end=(2,))
case("_slice_assign_scalar", [f(4, 5)], lambda x: _assigned(x, 2.5, np.s_[1:4:2, ::-1]), scalar=2.5, begin=(1, None),
     end=(4, None), step=(2, -1))
case("_scatter_set_nd", [f(4, 3), f(2, 3), np.array([[2, 0]])], lambda x, v, at: _assigned(x, v, at[0]))
# twice: the last stays
case("_scatter_set_nd", [f(4, 3), f(3), np.array([[2, 0, 2], [1, -1, 1]])],
     lambda x, v, at: _assigned(x, v, (at[0], at[1])))
case("_scatter_set_nd", [f(6), f(2, 2), np.array([[[1, 1], [1, 4]]])],
     lambda x, v, at: _assigned(x, v.reshape(-1), at.reshape(-1)))
case("_scatter_set_nd", [f(3, 2), f(0, 2), np.zeros((1, 0), np.int64)], lambda x, v, at: x)
