"""Dtypes and numbers: halves, integers, NaN, infinities, signs of zero, extremes, ties, errors by data."""
from __future__ import annotations

import numpy as onp

from hybrid import autograd, nd
from hybrid import np as mnp

from .tools import add, arr, trap

NAN, INF = float("nan"), float("inf")
ODD = [NAN, INF, -INF, 0., -0., 1., -1., 1e-45, 3e38, -3e38]
ODD_SUMS = [x / 16 if abs(x) > 1e38 else x for x in ODD]       # nine of them do not overflow in any order
HALF = [1.1, 300.7, 65504., 70000., .1, -2e-8, 1 / 3, -300.]
INTS = [0, 1, -1, 7, -7, 127, -128, 100]


def f32(values):
    return nd.array(values, dtype="float32")


def signs(x):
    return onp.signbit(x.asnumpy()).tolist()


# name: (function, values, dtype)
TABLE = {
    **{f"odd_{name}": (getattr(nd, name), ODD, "float32") for name in
       ("relu", "sigmoid", "tanh", "exp", "log", "sqrt", "rsqrt", "cbrt", "abs", "sign", "floor", "ceil", "round",
        "rint", "trunc", "fix", "square",
        "reciprocal", "softsign", "erf", "gamma", "gammaln", "log1p", "expm1", "sin", "arctan", "arcsin",
        "logical_not", "softmax", "log_softmax", "sum",
        "max", "min", "argmax", "argmin", "norm", "nansum", "prod", "sort", "argsort", "mean", "cumsum")},
    "odd_mod": (lambda x: x % 3, ODD, "float32"),
    "odd_mod_zero": (lambda x: x % 0, ODD, "float32"),
    "odd_mod_negative": (lambda x: x % -3, ODD, "float32"),
    "odd_rmod": (lambda x: 5 % x, ODD, "float32"),
    "odd_divide_zero": (lambda x: x / 0, ODD, "float32"),
    "odd_rdivide": (lambda x: 1 / x, ODD, "float32"),
    "odd_power": (lambda x: x ** 0.5, ODD, "float32"),
    "odd_power_two": (lambda x: x ** 2, ODD, "float32"),
    "odd_power_minus": (lambda x: x ** -1, ODD, "float32"),
    "odd_power_zero": (lambda x: x ** 0, ODD, "float32"),
    "odd_rpower": (lambda x: 2 ** x, ODD, "float32"),
    "odd_maximum": (lambda x: nd.maximum(x, 0), ODD, "float32"),
    "odd_minimum": (lambda x: nd.minimum(0, x), ODD, "float32"),
    "odd_maximum_nan": (lambda x: nd.maximum(x, x[::-1]), ODD, "float32"),
    "odd_clip": (lambda x: nd.clip(x, -1, 1), ODD, "float32"),
    "odd_where": (lambda x: nd.where(x, x, x * 2), ODD, "float32"),
    "odd_compare": (lambda x: (x > 0) + (x == x) * 2 + (x != 0) * 4 + (x <= x[::-1]) * 8, ODD, "float32"),
    "odd_times_zero": (lambda x: x * 0, ODD, "float32"),
    "odd_minus_itself": (lambda x: x - x, ODD, "float32"),
    "odd_divided_by_itself": (lambda x: x / x, ODD, "float32"),
    "odd_smooth_l1": (lambda x: nd.smooth_l1(x, scalar=1.), ODD, "float32"),
    "odd_leaky": (lambda x: nd.LeakyReLU(x, slope=.1), ODD, "float32"),
    "odd_elu": (lambda x: nd.LeakyReLU(x, act_type="elu", slope=.1), ODD, "float32"),
    "odd_gelu": (lambda x: nd.LeakyReLU(x, act_type="gelu"), ODD, "float32"),
    "odd_topk": (lambda x: nd.topk(x, k=3), ODD, "float32"),
    "odd_pooling": (lambda x: nd.Pooling(x.reshape((1, 1, 2, 5)), kernel=(2, 2), pool_type="max"), ODD, "float32"),
    "odd_dot": (lambda x: nd.dot(x.reshape((2, 5)), nd.ones((5, 3))), ODD, "float32"),
    "odd_dense_relu": (lambda x: nd.dot(nd.relu(x.reshape((2, 5))), nd.ones((5, 20)) * .5), ODD, "float32"),
    "odd_conv_grouped": (lambda x: nd.Convolution(nd.tile(x.reshape((1, 10, 1, 1)), (1, 1, 4, 4)),
                                                  nd.ones((10, 1, 3, 3)), kernel=(3, 3), num_filter=10, num_group=10,
                                                  no_bias=True), ODD, "float32"),
    "odd_conv": (lambda x: nd.Convolution(nd.tile(x.reshape((1, 1, 2, 5)), (1, 1, 4, 4)), nd.ones((4, 1, 3, 3)),
                                          kernel=(3, 3), num_filter=4, no_bias=True, pad=(1, 1)), ODD_SUMS, "float32"),
    "half_round_trip": (lambda x: x.astype("float16").astype("float32"), HALF, "float32"),
    "half_square_stored_wide": (lambda x: (x * x).astype("float32"), HALF, "float16"),
    "half_chain": (lambda x: (x * 3 - x * 2 - x).astype("float32"), HALF, "float16"),
    "half_sum": (lambda x: (x.astype("float16") + 2048).astype("float16") - 2048, HALF, "float32"),
    "half_to_int": (lambda x: x.astype("float16").astype("int32"), [1.999, 2.0004, -3.9999, 1000.6, 2049., 2051.],
                    "float32"),
    "half_sums": (lambda x: x.sum(), [2049., 1., 1., 1., .5], "float16"),
    "half_divided": (lambda x: (1 / x).astype("float32"), HALF, "float16"),
    "half_overflow_then_log": (lambda x: nd.log(x * x).astype("float32"), HALF, "float16"),
    "bfloat_round_trip": (lambda x: x.astype("bfloat16").astype("float32"), HALF, "float32"),
    "bfloat_chain": (lambda x: ((x.astype("bfloat16") + 1) * 3).astype("float32"), HALF, "float32"),
    "double_round_trip": (lambda x: x.astype("float32").astype("float64"), [1 / 3, 1e300, 1e-300, 0.1], "float64"),
    "double_chain": (lambda x: x * 3 + 1 / 3, [1 / 3, 1e300, 0.1], "float64"),
    "float_int_float": (lambda x: x.astype("int32").astype("float32"), [1.7, -1.7, 2.5, -.5], "float32"),
    "int_float_int": (lambda x: x.astype("float32").astype("int32"), [16777217, 2**31 - 200, -16777219, 5], "int32"),
    "int64_float_int64": (lambda x: x.astype("float64").astype("int64"), [2**53 + 1, 5], "int64"),
    "int_half_int": (lambda x: x.astype("float16").astype("int32"), [2049, 4099, 7, 60001], "int32"),
    "int_byte_int": (lambda x: x.astype("int8").astype("int32"), [300, -300, 128, 255, 5], "int32"),
    "int_unsigned_int": (lambda x: x.astype("uint8").astype("int32"), [300, -300, 128, -1, 5], "int32"),
    "int_bool_int": (lambda x: x.astype("bool").astype("int32"), [300, 0, -1], "int32"),
    "float_bool_float": (lambda x: x.astype("bool").astype("float32"), [.5, 0., -.1, NAN], "float32"),
    "byte_add_overflow": (lambda x: x + x, INTS, "int8"),
    "byte_times_overflow": (lambda x: x * x, INTS, "int8"),
    "unsigned_minus": (lambda x: x - 5, [0, 3, 10, 255], "uint8"),
    "unsigned_negative": (lambda x: -x, [0, 3, 10, 255], "uint8"),
    "int_overflow": (lambda x: x * 65537, [65537, 2**31 - 1, -2**31], "int32"),
    "int_divided": (lambda x: x / 2, INTS, "int32"),
    "int_divided_by_zero": (lambda x: x / 0, INTS, "int32"),
    "int_mod": (lambda x: x % 3, INTS, "int32"),
    "int_mod_negative": (lambda x: x % -3, INTS, "int32"),
    "int_mod_zero": (lambda x: x % 0, INTS, "int32"),
    "int_times_float": (lambda x: x * 1.5, INTS, "int32"),
    "int_plus_float": (lambda x: x + .5, INTS, "int8"),
    "int_power": (lambda x: x ** 2, INTS, "int32"),
    "int_power_minus": (lambda x: x ** -1, [1, 2, -1, 3], "int32"),
    "int_mean": (lambda x: x.mean(), INTS, "int32"),
    "int_sum_bytes": (lambda x: x.sum(), [127] * 9, "int8"),
    "int_abs_least": (lambda x: nd.abs(x), [-128, 127, 0], "int8"),
    "int_sqrt": (lambda x: nd.sqrt(x), [4, 9, 2], "int32"),
    "int64_large": (lambda x: x + 1, [2**40, 2**62], "int64"),
    "int64_times": (lambda x: x * 3, [2**40, 2**61], "int64"),
    "int64_max": (lambda x: x.max(), [2**53, 2**53 + 1], "int64"),
    "int_times_large_number": (lambda x: x + 2**24 + 1, [1, 2], "int32"),
    "mixed_int_float": (lambda x: x + nd.array([.5, 1.5], dtype="float32"), [1, 2], "int32"),
    "mixed_half_float": (lambda x: x + nd.array([.1, .2], dtype="float32"), [1., 2.], "float16"),
    "argsort_ties": (lambda x: nd.argsort(x), [1., 1., 0., 1., 0.] * 9, "float32"),
    "argsort_ties_down": (lambda x: nd.argsort(x, is_ascend=False), [1., 1., 0., 1., 0.] * 9, "float32"),
    "argmax_ties": (lambda x: nd.argmax(x, axis=0), [1., 3., 3., 0.], "float32"),
    "topk_ties": (lambda x: nd.topk(x, k=4, ret_typ="both"), [1., 3., 3., 0., 3.], "float32"),
    "take_clip": (lambda x: nd.take(x, f32([-1, 0, 4, 99])), [1., 2., 3.], "float32"),
    "take_wrap": (lambda x: nd.take(x, f32([-1, 0, 4, 99]), mode="wrap"), [1., 2., 3.], "float32"),
    "take_raise": (lambda x: nd.take(x, f32([0, 99]), mode="raise"), [1., 2., 3.], "float32"),
    "take_nan_index": (lambda x: nd.take(x, f32([1.7, .2])), [1., 2., 3.], "float32"),
    "pick_out_of_range": (lambda x: nd.pick(x.reshape((1, 3)), f32([9])), [1., 2., 3.], "float32"),
    "one_hot_out_of_range": (lambda x: nd.one_hot(x, 3), [0., 2., 5., -1.], "float32"),
    "embedding_out_of_range": (lambda x: nd.Embedding(x, f32([[1, 2], [3, 4]]), 2, 2), [0., 1., 5., -1.], "float32"),
    "gather_nd_out_of_range": (lambda x: nd.gather_nd(f32([1, 2, 3]), x.reshape((1, 2))), [0, 7], "int32"),
    "index_out_of_range": (lambda x: x[5], [1., 2., 3.], "float32"),
    "index_array_out_of_range": (lambda x: mnp.array([1., 2., 3.])[x.as_np_ndarray()], [0, 5], "int32"),
    "index_negative": (lambda x: x[-2], [1., 2., 3.], "float32"),
    "slices_negative": (lambda x: (x[-2:], x[::-1], x[-1:0:-2], x[5:], x[:-9]), [1., 2., 3.], "float32"),
    "singular_inverse": (lambda x: nd.linalg.inverse(x.reshape((2, 2))), [1., 2., 2., 4.], "float32"),
    "singular_cholesky": (lambda x: nd.linalg.potrf(x.reshape((2, 2))), [1., 2., 2., -4.], "float32"),
    "np_singular_inverse": (lambda x: mnp.linalg.inv(x.as_np_ndarray().reshape(2, 2)), [1., 2., 2., 4.], "float32"),
    "np_solve_singular": (lambda x: mnp.linalg.solve(x.as_np_ndarray().reshape(2, 2), mnp.ones((2,))),
                          [1., 2., 2., 4.], "float32"),
    "negative_probability": (lambda x: nd.random.multinomial(x).shape[0] if x.ndim == 0
                             else nd.random.multinomial(x) * 0, [.5, -.1, .6], "float32"),
    "sum_many": (lambda x: nd.sum(nd.broadcast_to(x, (2**20,)) * .1), [1.], "float32"),
    "sum_many_rows": (lambda x: nd.sum(nd.broadcast_to(x, (3, 2**18)) * .1, axis=1), [1.], "float32"),
    "mean_far_from_zero": (lambda x: nd.mean(nd.arange(2**16) + x * 1e6), [1.], "float32"),
    "variance_far_from_zero": (lambda x: nd.L2Normalization((nd.arange(8) + x * 1e4).reshape((1, 8))), [1.], "float32"),
    "exp_minus_max": (lambda x: nd.softmax(x * 1e4), [1., 2., 3.], "float32"),
    "logsumexp": (lambda x: nd.log(nd.sum(nd.exp(x))), [100., -100., 88.], "float32"),
    "denormal": (lambda x: x * .5, [1e-38, 2e-45, 1e-40], "float32"),
    "double_to_half": (lambda x: x.astype("float16"), [2049.0000001, 65519.99, 65520., 1e-8], "float64"),
    "constant_folded_nan": (lambda x: x + nd.log(nd.zeros((1,)) - 1), [1.], "float32"),
    "cancellation": (lambda x: (x + 1e8) - 1e8, [1., 3.], "float32"),
    "reassociation": (lambda x: x * 1e30 * 1e30 * 1e-30 * 1e-30, [1., 3.], "float32"),
    "multiply_then_add": (lambda x: x * x - x * x, [1.1, 3e20], "float32"),
    "division_by_constant": (lambda x: x / 3, [1., 2., 1e-45, 7.], "float32"),
    "floor_division": (lambda x: nd.floor(x / .1), [.3, .6, .7, 1.], "float32"),
    "rounding_halves": (lambda x: nd.round(x), [.5, 1.5, 2.5, -.5, -1.5], "float32"),
    "rint_halves": (lambda x: nd.rint(x), [.5, 1.5, 2.5, -.5, -1.5], "float32"),
    "arange_float": (lambda x: nd.arange(0, 1, .1) * x, [3.], "float32"),
    "large_arange": (lambda x: nd.arange(16777210, 16777220) + x, [0.], "float32"),
    "boolean_results": (lambda x: mnp.logical_and(x.as_np_ndarray() > 1, x.as_np_ndarray() < 3), [1., 2., 3.],
                        "float32"),
    "boolean_sum": (lambda x: (x.as_np_ndarray() > 1).sum(), [1., 2., 3.], "float32"),
}


def _play(H, f, values, dtype):
    g = H(f)
    for scale in (values, values[::-1], values):
        yield g(nd.array(onp.array(scale).astype("float32").astype("bfloat16") if dtype == "bfloat16"
                         else onp.array(scale, dtype), dtype=dtype))


def _play_gradient(H, f, values, dtype):
    g = H(f)
    for one in (values, values[::-1]):
        x = nd.array(onp.array(one, dtype), dtype=dtype)
        x.attach_grad()
        with autograd.record():
            y = g(x)
            y = y[0] if isinstance(y, (list, tuple)) else y
        y.backward()
        yield x.grad


DIFFERENTIABLE = ("relu", "sigmoid", "tanh", "exp", "log", "sqrt", "abs", "sign", "softsign", "softmax", "log_softmax",
                  "sum", "max", "min", "prod", "norm", "mean",
                  "maximum", "minimum", "clip", "where", "power", "power_two", "smooth_l1", "leaky", "elu", "gelu",
                  "pooling", "maximum_nan", "square", "mod")
for _name, _row in TABLE.items():
    add(f"numerics.{_name}", lambda H, row=_row: _play(H, *row))
    if _name.removeprefix("odd_") in DIFFERENTIABLE or _name.startswith("half"):
        add(f"numerics.{_name}.gradient", lambda H, row=_row: _play_gradient(H, *row))


@trap
def zero_signs(H):
    fs = [H(f) for f in (lambda x: -x, lambda x: x * -1, lambda x: 0 - x, lambda x: x + 0, lambda x: x - 0,
                         lambda x: nd.relu(x), lambda x: nd.maximum(x, 0),
                         lambda x: x * 0, lambda x: nd.round(x * .1), lambda x: x / -5, lambda x: nd.abs(x),
                         lambda x: nd.sum(x.reshape((2, 1)), axis=1))]
    for f in fs:
        yield signs(f(arr(0., -0.)))


@trap
def error_leaves_next_call_right(H):
    f = H(lambda x, i: nd.take(x, i, mode="raise"))
    x = arr(1., 2., 3.)
    yield f(x, arr(1.))
    try:
        f(x, arr(9.)).wait_to_read()
        yield "no error"
    except Exception:  # noqa: BLE001
        yield "an error"
    yield f(x, arr(2.))


@trap
def nan_in_unused_branch(H):
    f = H(lambda x: nd.where(x > 0, nd.log(x), x * 0))
    yield f(arr(1., -1., 0.))


@trap
def gradient_through_where_with_nan(H):
    f = H(lambda x: nd.where(x > 0, nd.sqrt(x), x * 2).sum())
    x = arr(4., -1., 0.)
    x.attach_grad()
    with autograd.record():
        y = f(x)
    y.backward()
    yield y, x.grad


@trap
def infinity_in_one_row(H):
    w = nd.random.uniform(shape=(16, 8))
    f = H(lambda x: nd.FullyConnected(x, w, no_bias=True, num_hidden=16))
    x = onp.ones((4, 8), "float32")
    x[1, 2], x[3, 0] = INF, NAN
    yield onp.isfinite(f(nd.array(x)).asnumpy()).tolist()


@trap
def infinity_in_one_pixel(H):
    w = nd.ones((8, 8, 3, 3))
    f = H(lambda x: nd.Convolution(x, w, kernel=(3, 3), num_filter=8, no_bias=True, pad=(1, 1)))
    x = onp.ones((1, 8, 12, 12), "float32")
    x[0, 0, 5, 5] = INF
    yield onp.isfinite(f(nd.array(x)).asnumpy()).tolist()


@trap
def infinity_in_one_group(H):
    w = nd.ones((8, 1, 3, 3))
    f = H(lambda x: nd.Convolution(x, w, kernel=(3, 3), num_filter=8, num_group=8, no_bias=True))
    x = onp.ones((1, 8, 8, 8), "float32")
    x[0, 3] = INF
    yield onp.isfinite(f(nd.array(x)).asnumpy()).tolist()


@trap
def infinity_in_a_weight_behind_relu(H):
    w = onp.ones((16, 64), "float32")
    w[3, 5] = INF
    w = nd.array(w)
    f = H(lambda x: nd.FullyConnected(nd.relu(x), w, no_bias=True, num_hidden=16))
    yield f(nd.ones((1, 64)) * -1), f(nd.ones((1, 64)))
