"""Arithmetic of kinds of numbers at their edges: each expression on awkward arrays of each dtype, eagerly and compiled,
values, dtypes and errors."""
from __future__ import annotations

import functools

import numpy as onp

import hybrid as mx
from hybrid import nd

from .tools import add, arr, trap

DTYPES = ("float32", "float16", "float64", "int8", "uint8", "int32", "int64")
NUMBERS = {"f": [0., -0., 1., -1., 2.5, -2.5, 1e4, -1e4, float("inf"), float("-inf"), float("nan"), 0.5],
           "i": [0, 0, 1, -1, 2, -3, 127, -128, 100, -100, 5, 7], "u": [0, 0, 1, 255, 2, 3, 127, 128, 100, 200, 5, 7]}


def _values(dtype, turn=0):
    kind = onp.dtype(dtype).kind
    return nd.array(onp.roll(onp.array(NUMBERS[kind], "float64" if kind == "f" else "int64"), turn).astype(
        dtype).reshape(3, 4), dtype=dtype)


# what a call computes of two arrays of one dtype
EXPRESSIONS = {
    "plus_number": lambda x, y: x + 1, "plus_fraction": lambda x, y: x + 1.5, "minus_from": lambda x, y: 1 - x,
    "times_large": lambda x, y: x * 300, "times_true": lambda x, y: x * True, "divided": lambda x, y: x / 2,
    "divided_by_array": lambda x, y: x / y, "number_divided": lambda x, y: 1 / x, "modulo": lambda x, y: x % 3,
    "modulo_negative": lambda x, y: x % -3, "modulo_array": lambda x, y: x % y, "number_modulo": lambda x, y: 7 % x,
    "power": lambda x, y: x ** 2, "power_zero": lambda x, y: x ** 0, "power_array": lambda x, y: abs(x) ** y,
    "negative": lambda x, y: -x, "absolute": lambda x, y: abs(x), "sum_of_squares": lambda x, y: (x * x).sum(),
    "compared": lambda x, y: (x > y) + (x == y) * 2, "compared_number": lambda x, y: (x >= 2) - (x != 5),
    "itself": lambda x, y: (x == x) + (x != x), "maximum": nd.maximum, "minimum": nd.minimum,
    "maximum_number": lambda x, y: nd.maximum(x, 2), "clipped": lambda x, y: x.clip(-2, 3),
    "sum": lambda x, y: (x.sum(axis=0), x.sum(axis=1, keepdims=True)), "mean": lambda x, y: x.mean(axis=1),
    "product": lambda x, y: x.prod(axis=0), "extremes": lambda x, y: (x.max(axis=1), x.min(axis=0)),
    "positions": lambda x, y: (x.argmax(axis=1), x.argmin(axis=0)), "running": lambda x, y: nd.cumsum(x, axis=1),
    "sorted": lambda x, y: nd.sort(x, axis=1), "order": lambda x, y: nd.argsort(x, axis=1),
    "largest": lambda x, y: nd.topk(x, k=2, axis=1, ret_typ="value"), "where": lambda x, y: nd.where(x > y, x, y),
    "to_half": lambda x, y: x.astype("float16"),
    "to_bytes_and_back": lambda x, y: x.clip(0, 100).astype("uint8").astype("float32") / 2,
    "to_int": lambda x, y: x.clip(-100, 100).astype("int32"),
    "to_double": lambda x, y: x.astype("float64") + 1e-9,
    "mixed_with_float": lambda x, y: x.astype("float32") * 0.1 + y.astype("float32"), "root": lambda x, y: nd.sqrt(
        abs(x)), "logarithm": lambda x, y: nd.log(abs(x) + 1),
    "rounded": lambda x, y: (nd.round(x), nd.floor(x), nd.ceil(x), nd.trunc(x)), "sign": lambda x, y: nd.sign(x),
    "joined": lambda x, y: nd.concat(x, y, dim=1) * 2, "repeated": lambda x, y: nd.repeat(x, 2, axis=0) + 1,
    "flipped": lambda x, y: x[::-1] + y, "every_second": lambda x, y: x[:, ::2] * 2 + y[:, ::-2],
    "one_hot": lambda x, y: nd.one_hot(x.clip(0, 3).astype("int32"), 4), "expanded": lambda x, y: x.expand_dims(0) - y,
    "chain": lambda x, y: (x + y) * 2 - y - x, "dot": lambda x, y: nd.dot(x, y.T),
    "logical": lambda x, y: nd.logical_and(x, y) + nd.logical_not(x) * 2,
    "none_index": lambda x, y: x[:, None] + y[None],
    "zeros_like": lambda x, y: nd.zeros_like(x) + nd.ones_like(y) * 3, "in_place": lambda x, y: _in_place(x + 0, y),
}


def _in_place(z, y):
    z += y
    z *= 2
    z[0] = 1
    z[:, 1:3] -= 1
    return z


def _play(H, make):
    f = H(lambda x, y: make(x, y))
    for dtype in DTYPES:
        for turn in (0, 1, 0):
            try:
                out = f(_values(dtype), _values(dtype, turn))
            except mx.MXNetError as err:
                yield dtype, type(err).__name__
            else:
                yield dtype, out


for _name, _make in EXPRESSIONS.items():
    add(f"numerics.kinds_{_name}", functools.partial(_play, make=_make))


def _np_play(H, make):
    f = H(lambda x, y: make(x, y))
    for dtype in ("float32", "int32", "int8", "uint8", "bool", "float64"):
        for turn in (0, 1):
            a, b = (mx.np.array(_values("uint8" if dtype == "bool" else dtype, t).asnumpy().astype(dtype)) for t in (
                0, turn))
            try:
                out = f(a, b)
            except (mx.MXNetError, TypeError) as err:
                yield dtype, isinstance(err, mx.MXNetError) or "TypeError"
            else:
                yield dtype, tuple(o.asnumpy() for o in out) if isinstance(out, tuple) else out.asnumpy()


NP = {
    "true_divide": lambda x, y: x / y, "add_fraction": lambda x, y: x + 0.5, "add_true": lambda x, y: x + True,
    "sum_dtype": lambda x, y: x.sum(), "mean_dtype": lambda x, y: x.mean(), "prod_dtype": lambda x, y: x.prod(axis=0),
    "cumsum_dtype": lambda x, y: mx.np.cumsum(x, axis=1), "compared": lambda x, y: x > y,
    "inverted": lambda x, y: ~(x > y),
    "argmax": lambda x, y: mx.np.argmax(x, axis=1), "where": lambda x, y: mx.np.where(x > y, x, 1),
    "concatenated": lambda x, y: mx.np.concatenate([x, y], axis=0), "clipped": lambda x, y: mx.np.clip(x, 1, 3),
    "maximum": mx.np.maximum, "power": lambda x, y: mx.np.power(x, 2), "negative_steps": (
        lambda x, y: x[::-1, ::-2] + y[:, ::2]), "new_axes": lambda x, y: x[:, None, :, None], "squares": (
        lambda x, y: mx.np.square(x)), "masked": lambda x, y: mx.np.where(x != x, 0, x),
}
NP["absolute"] = lambda x, y: mx.np.abs(x)
for _name, _make in NP.items():
    add(f"numerics.kinds_np_{_name}", functools.partial(_np_play, make=_make))


@trap
def numbers_change_their_kind(H):
    f = H(lambda x, k: x * k + k)
    for k in (2, 2., True, 2, -0., 0., 0, 3, float("nan"), 3., onp.float32(3), onp.int8(3), onp.float64(0.1), 0.1):
        for dtype in ("float32", "int32", "float16"):
            yield f(nd.array([1, 2], dtype=dtype), k)


@trap
def large_integers_and_small_fractions(H):
    f = H(lambda x, k: x + k)
    for k in (2 ** 24 + 1, 2 ** 31 - 1, -2 ** 31, 1e-30, 1e30, 2 ** 53 + 1):
        yield f(arr(1.), k), f(arr(1., dtype="float64"), k)
    for k in (2 ** 31 - 1, 2 ** 62, -2 ** 63):
        yield f(nd.array([0], dtype="int64"), k)


@trap
def integers_wrap_around(H):
    f = H(lambda x: (x + 1, x * x, -x, x - 200))
    for dtype, values in (("int8", [127, -128, 3]), ("uint8", [255, 0, 3]), ("int32", [2 ** 31 - 1, -2 ** 31, 3]),
                          ("int64", [2 ** 62, -2 ** 62, 3])):
        yield f(nd.array(onp.array(values, dtype), dtype=dtype))


@trap
def ties_of_sorting(H):
    f = H(lambda x: (nd.argsort(x), nd.argsort(x, is_ascend=False), nd.topk(x, k=3), x.argmax(axis=0),
                     x.argmin(axis=0)))
    for values in ([1., 1., 1., 1.], [2., 1., 2., 1.], [0., -0., 0., -0.], [1., 3., 3., 1.]):
        yield f(arr(*values))


@trap
def not_a_number_among_the_sorted(H):
    nan = float("nan")
    f = H(lambda x: (nd.sort(x), x.max(), x.min(), x.argmax(axis=0), nd.clip(x, 0, 2), nd.maximum(x, 1),
                     nd.minimum(1, x)))
    for values in ([nan, 1., 2.], [1., nan, 2.], [1., 2., nan], [nan, nan, nan], [3., 1., 2.]):
        yield f(arr(*values))


@trap
def empty_arrays(H):
    f = H(lambda x: (x + 1, x.sum(), x * x, x.reshape((0, 2)), nd.concat(x, x, dim=0), x[:0], x.T))
    for shape in ((0, 3), (2, 0), (0, 3)):
        with mx.util.np_shape(True):
            try:
                yield f(nd.zeros(shape))
            except mx.MXNetError as err:
                yield type(err).__name__


@trap
def arrays_without_dimensions(H):
    f = H(lambda x, y: (x + y, x * 2, x.sum(), mx.np.maximum(x, 1), x.reshape((1, 1)), x[()], x > 0))
    for a, b in ((1., 2.), (-1., 0.), (3., 3.)):
        yield [o.asnumpy() for o in f(mx.np.array(a), mx.np.array(b))]
        yield [o.asnumpy() for o in f(mx.np.array(a), mx.np.array([b, 1.]))]


@trap
def sums_keep_their_digits(H):
    f = H(lambda x: (x.sum(), x.mean(), (x - x.mean()).square().sum(), nd.norm(x)))
    for n in (1000, 70000):
        x = nd.ones((n,)) * 0.1 + 1000
        yield [round(float(v.asscalar()) / n, 3) for v in f(x)]


@trap
def sums_of_halves_at_two_sizes(H):
    f = H(lambda x: (x.sum(), x.mean(), x.max() - x.min()))
    for n in (10, 3000):
        yield f(nd.ones((n,), dtype="float16") * 10)
