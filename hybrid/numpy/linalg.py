"""``np.linalg``: operators where there are some, else NumPy's own functions."""
from __future__ import annotations

import functools
from collections import namedtuple
from typing import Any, Callable

import numpy as _np

from ..nd import functions
from ..autograd.demands import demand
from ..autograd.dispatch import invoke
from ..base.errors import ShapeError, SingularMatrixError
from ..base.names import named
from ..base.other_names import MissingNameError as _MissingNameError, import_error_with_hint as _with_hint
from ..ops.registry import OPS
from . import fallback, remembered
from .composed_further import LINALG
from .creation import parts
from .multiarray import as_np, as_value, is_value, ndarray


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:  # noqa: A002
    """Norms of vectors (one axis) and matrices (two): a number, inf, -inf, 'fro' or 'nuc'; without axis of the whole
    array."""
    x = as_value(x)
    if isinstance(axis, list):
        axis = tuple(axis)
    if isinstance(axis, tuple) and len(axis) == 1:
        axis = axis[0]
    if isinstance(axis,
                  tuple) and len(axis) != 2 or ord is not None and axis is None and x.shape is not None and len(x.shape) not in (1, 2):  # noqa: E501
        raise ShapeError(f"np.linalg.norm: a norm is of one axis or two, got axis={axis} of shape {tuple(x.shape)}")
    if ord in ("inf", "-inf"):
        ord = float(ord)  # noqa: A001
    if isinstance(ord, str) and ord not in ("fro", "nuc"):
        raise ShapeError(f"np.linalg.norm: ord must be a number, inf, -inf, 'fro' or 'nuc', got {ord!r}")
    if isinstance(ord, str) and isinstance(axis, int):
        raise ShapeError(f"np.linalg.norm: ord={ord!r} is a norm of matrices, axis={axis} is one axis")
    if isinstance(ord, str):                                   # MXNet's files say which by a flag
        axis = axis if axis is not None else (0, 1) if x.shape is None else tuple(range(len(x.shape)))
        return functions.resolve("np", "linalg.norm")(x, ord=2, axis=axis, keepdims=keepdims,
                                                      flag=1 if ord == "fro" else 2)
    attrs = {k: v for k, v in (("ord", ord), ("axis", axis)) if v is not None}
    return functions.resolve("np", "linalg.norm")(x, **attrs, keepdims=keepdims)


def det(a: Any) -> Any:
    """Determinants of square matrices (…, n, n)."""
    return functions.resolve("np", "linalg.det")(as_value(a))


def slogdet(a: Any) -> Any:
    """Sign, and logarithm of the absolute value, of the determinants of (…, n, n)."""
    return tuple(parts(functions.resolve("np", "linalg.slogdet")(as_value(a))))


UNSOLVABLE = {"cholesky": "the matrix is not positive definite",
              **dict.fromkeys(("inv", "solve", "tensorinv"), "the matrix is singular")}


def _check_solved(name: str, found: Any, *given: Any) -> None:
    """NumPy's LinAlgError where a result is not finite and what was given is."""
    given = tuple(x for x in given if is_value(x))
    if not is_value(found) or any(x.shape is None for x in (found, *given)) or 0 in found.shape:
        return
    solved, sound = _finite(found), functools.reduce(lambda x, y: x * y, map(_finite, given))
    demand((1 - solved) * sound, sound, SingularMatrixError, f"np.linalg.{name}: {UNSOLVABLE[name]}")


def _finite(x: Any) -> Any:
    """1 where all of x is finite, else 0."""
    return functions.resolve("np", "min")(functions.resolve("np", "isfinite")(x).astype("float32"))


def _plain(name: str, several: bool = False) -> Callable[..., Any]:
    fn = functions.resolve("np", f"linalg.{name}")

    def function(a: Any, *args: Any, **kwargs: Any) -> Any:
        args = (*args, kwargs.pop("b")) if "b" in kwargs else args
        inputs = [as_value(x) for x in args if is_value(x) or isinstance(x, (_np.ndarray, list))]
        rest = [x for x in args if not (is_value(x) or isinstance(x, (_np.ndarray, list)))]
        if name in ("eigh", "eigvalsh") and rest:
            kwargs["UPLO"] = rest.pop()
        a = as_value(a)
        found = fn(a, *inputs, *rest, **kwargs)
        if name in UNSOLVABLE:
            _check_solved(name, found, a, *inputs)
        return tuple(parts(found)) if several else found
    return named(function, name, __name__, fn.__doc__)


inv, solve, tensorinv, eigvals, eigvalsh = (_plain(_n) for _n in ("inv", "solve", "tensorinv", "eigvals",
                                                                      "eigvalsh"))
_cholesky = _plain("cholesky")


def cholesky(a: Any, *, upper: bool = False) -> Any:
    """L, lower triangular, with a = L Lᵀ, of symmetric positive definite matrices (…, n, n); with upper=True Lᵀ of the
    upper triangle of a."""
    if not upper:
        return _cholesky(a)
    return _cholesky(as_value(a).swapaxes(-1, -2)).swapaxes(-1, -2)


eig, eigh = (_plain(_n, True) for _n in ("eig", "eigh"))


def svd(a: Any, full_matrices: bool = False, compute_uv: bool = True) -> Any:
    """u, s and v with a = u diag(s) v, s in descending order, of matrices (…, m, n); with compute_uv=False s alone."""
    if full_matrices and compute_uv:
        raise NotImplementedError("np.linalg.svd: full_matrices=True is not supported")
    found = tuple(parts(functions.resolve("np", "linalg.svd")(as_value(a))))
    return found if compute_uv else found[1]


QRResult = namedtuple("QRResult", "Q R")


def qr(a: Any, mode: str = "reduced") -> Any:
    """Q with orthonormal columns and R, upper triangular, with a = Q R; with mode 'r' R alone. 'complete' and 'raw'
    are NumPy's own, eagerly alone."""
    if mode not in ("reduced", "r"):
        return fallback.wrapped("np.linalg.qr", _np.linalg.qr, ndarray)(a, mode)
    found = QRResult(*parts(functions.resolve("np", "linalg.qr")(as_value(a))))
    return found if mode == "reduced" else found.R


def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    """x with tensordot(a, x, x.ndim) = b; ``axes`` of a are moved to its end first."""
    return functions.resolve("np", "linalg.tensorsolve")(as_value(a), as_value(b),
                                                         **({"a_axes": axes} if axes is not None else {}))


def pinv(a: Any, rcond: Any = 1e-15, hermitian: bool = False, *, rtol: Any = None) -> Any:
    """Pseudo-inverses (Moore and Penrose): singular values up to rcond (also ``rtol``) times the largest count as 0."""
    a = as_value(a)
    rcond = rtol if rtol is not None else 1e-15 if rcond is None else rcond
    if is_value(rcond) or isinstance(rcond, (list, _np.ndarray)):
        return as_np(invoke(OPS["_npi_pinv"], [a, as_value(rcond)], {"hermitian": hermitian}, hint="pinv"))
    return as_np(invoke(OPS["_npi_pinv_scalar_rcond"], [a], {"rcond": float(rcond), "hermitian": hermitian},
                        hint="pinv"))


@_with_hint
def __getattr__(name: str) -> Any:
    """NumPy's other functions of matrices."""
    if functions.has("np", f"linalg.{name}"):
        return functions.resolve("np", f"linalg.{name}")
    found = getattr(_np.linalg, name, None)
    if name not in LINALG and (name.startswith("_") or found is None or not callable(found)):
        raise _MissingNameError(f"hybrid.np.linalg has no {name!r}", name, None, __dir__)
    return found if isinstance(found, type) else _kept(name, _made(name))


@functools.cache
def _made(name: str) -> Callable[..., Any]:
    made = LINALG[name] if name in LINALG else fallback.wrapped(f"np.linalg.{name}", getattr(_np.linalg, name), ndarray)
    return remembered.remembered(made, name, "linalg")


_kept = functions.Kept(globals(), LINALG, vars(_np.linalg))


def __dir__() -> list[str]:
    return sorted({*__all__, *LINALG})


__all__ = ("cholesky cond det eig eigh eigvals eigvalsh inv lstsq matrix_power matrix_rank multi_dot norm pinv qr "
           "slogdet solve svd tensorinv tensorsolve").split()


remembered.remember(globals(), "linalg")
