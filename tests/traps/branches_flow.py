"""Control flow over sizes, kinds and states; generators, coroutines and errors within and around compiled code."""
from __future__ import annotations

import asyncio
import concurrent.futures
import copy
import contextlib
import itertools
import threading
import types

import numpy as onp

from hybrid import autograd, gluon, nd
from hybrid.gluon import nn

from .tools import arr, trap

FLOWS = {
    "if_rank": lambda x: x.sum(axis=1) if x.ndim > 1 else x * 2,
    "if_dtype": lambda x: x / 2 if x.dtype == onp.float32 else x + 1,
    "if_size_even": lambda x: x * 2 if x.size % 2 == 0 else -x,
    "while_halving": lambda x: _halved(x),
    "for_rows": lambda x: sum(x[i] * (i + 1) for i in range(len(x))),
    "for_iterated": lambda x: sum(row * 2 for row in x),
    "enumerate_rows": lambda x: sum(row * i for i, row in enumerate(x)),
    "zip_rows": lambda x: sum((a * b).sum() for a, b in zip(x, x)),
    "pairs_of_rows": lambda x: sum((a - b).sum() for a, b in itertools.combinations(list(x), 2)),
    "reversed_rows": lambda x: nd.stack(*list(x)[::-1]),
    "slices_by_shape": lambda x: x[: x.shape[0] // 2 + 1] * 3,
    "negative_index": lambda x: x[-1] + x[0],
    "nested_slices": lambda x: x[1:][0:1] * 2 if x.shape[0] > 1 else x,
    "chunks": lambda x: nd.concat(*[x[i:i + 2].sum(axis=0, keepdims=True) for i in range(0, x.shape[0], 2)], dim=0),
    "padded": lambda x: nd.concat(x, nd.zeros((5 - x.shape[0], *x.shape[1:]), dtype=x.dtype), dim=0)
    if x.shape[0] < 5 else x,
    "prefix_sums": lambda x: nd.stack(*[x[: i + 1].sum(axis=0) for i in range(x.shape[0])]),
    "conditional_expression": lambda x: (x if x.shape[0] > 2 else x + 10) * 2,
    "dict_dispatch": lambda x: {1: nd.exp, 2: nd.relu}.get(x.ndim, nd.abs)(x.astype("float32")),
    "early_return": lambda x: _early(x),
    "loop_else": lambda x: _loop_else(x),
    "break_and_continue": lambda x: _break(x),
    "assertion_of_shape": lambda x: _asserted(x),
    "raise_and_catch": lambda x: _caught(x),
    "finally_always": lambda x: _finally(x),
    "unpack_rows": lambda x: (lambda first, *rest: first + len(rest))(*x),
    "recursion": lambda x: _tree_sum(x),
    "nested_functions": lambda x: (lambda f: f(f(x)))(lambda v: v + v.shape[0]),
    "mask_by_shape": lambda x: x * nd.array(onp.tri(x.shape[0], dtype="float32")[:, :1] if x.ndim > 1
                                            else onp.arange(x.shape[0]), dtype=x.dtype),
    "arange_by_shape": lambda x: x.astype("float32").sum() * nd.arange(x.shape[0]),
    "where_of_arange": lambda x: nd.where(nd.arange(x.shape[0]) > 1, nd.ones((x.shape[0],)), nd.zeros((x.shape[0],))),
    "reshape_twice": lambda x: x.reshape((-1,)).reshape((1, -1)) * x.size,
    "format_of_shape": lambda x: x * len(f"{x.shape}"),
    "hash_of_shape": lambda x: x * (hash(x.shape) % 5),
    "shape_in_set": lambda x: x * 2 if x.shape in {(3,), (2, 2)} else x,
    "sorted_sizes": lambda x: x * sorted([x.shape[0], 3])[0],
    "math_of_shape": lambda x: x * (x.shape[0] ** 0.5) // 1,
}


def _halved(x):
    while x.shape[0] > 1:
        x = x[: x.shape[0] // 2] + 1
    return x


def _early(x):
    for n in (1, 2, 3):
        if x.shape[0] == n:
            return x * n
    return x - 1


def _loop_else(x):
    for n in range(3):
        if n == x.shape[0]:
            break
    else:
        return x * 5
    return x * n


def _break(x):
    total = 0
    for i in range(10):
        if i == x.shape[0]:
            break
        if i % 2:
            continue
        total = total + x[i]
    return total


def _asserted(x):
    assert x.ndim < 3, "three axes"
    return x * 2


def _caught(x):
    try:
        if x.shape[0] == 3:
            raise KeyError(x.shape[0])
        return x + 1
    except KeyError as err:
        return x * err.args[0]


def _finally(x):
    seen = []
    try:
        seen.append(1)
        return x * len(seen)
    finally:
        seen.append(2)


def _tree_sum(x):
    n = x.shape[0]
    return x[0] if n == 1 else _tree_sum(x[: n // 2]) + _tree_sum(x[n // 2:])


INPUTS = (arr(1., 2., 3.), nd.array([[1., 2.], [3., 4.]]), nd.array([1, 2, 3, 4], dtype="int32"), arr(5.),
          arr(1., 2., 3.))


def _played(flow):
    def play(H):
        f = H(flow)
        for x in INPUTS:
            try:
                yield f(x)
            except (TypeError, IndexError, AssertionError) as err:
                yield type(err).__name__
    play.__module__ = __name__
    return play


for _name, _flow in FLOWS.items():
    _play = _played(_flow)
    _play.__name__ = f"flow_{_name}"
    trap(_play)


@trap
def awaited_around_calls(H):
    f, o = H(lambda x: x * o.k), types.SimpleNamespace(k=2.)

    async def work(k):
        await asyncio.sleep(0)
        o.k = k
        return f(arr(1.))

    async def main():
        return [await work(k) for k in (2., 5., 3.)]
    yield asyncio.run(main())


@trap
def gathered_calls(H):
    f = H(lambda x, k: x * k)

    async def work(k):
        await asyncio.sleep(0)
        return f(arr(float(k)), k)

    async def main():
        return await asyncio.gather(*[work(k) for k in range(4)])
    yield asyncio.run(main())


@trap
def executor_maps(H):
    f = H(lambda x: x * x.shape[0])
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        yield list(pool.map(f, [nd.ones((n,)) for n in (1, 2, 3, 2, 1)]))


@trap
def generator_around_calls(H):
    o = types.SimpleNamespace(k=1.)
    f = H(lambda x: x * o.k)

    def results():
        for k in (1., 4., 2.):
            o.k = k
            yield f(arr(1.))
    yield list(results())


@trap
def error_in_user_code_then_right(H):
    o = types.SimpleNamespace(fail=True, n=0)

    @H
    def f(x):
        o.n += 1
        if o.fail:
            raise RuntimeError("asked for")
        return x * 2
    for fail in (True, False, True, False):
        o.fail = fail
        try:
            yield f(arr(1.)), o.n
        except RuntimeError as err:
            yield str(err), o.n


@trap
def error_after_write_to_argument(H):
    o = types.SimpleNamespace(fail=True)

    @H
    def f(x):
        x += 1
        if o.fail:
            raise RuntimeError("asked for")
        return x * 2
    for fail in (False, True, False):
        o.fail = fail
        x = arr(1.)
        with contextlib.suppress(RuntimeError):
            yield f(x), x


@trap
def wrong_shapes_then_right(H):
    f = H(lambda a, b: nd.dot(a, b))
    for n in (3, 2, 3):
        try:
            yield f(nd.ones((2, 3)), nd.ones((n, 2)))
        except Exception as err:                            # noqa: BLE001  both ways raise one of MXNet's
            yield isinstance(err, Exception)


@trap
def locks_and_threads_change_state(H):
    o = types.SimpleNamespace(k=1.)
    f = H(lambda x: x * o.k)
    yield f(arr(1.))
    t = threading.Thread(target=lambda: setattr(o, "k", 6.))
    t.start()
    t.join()
    yield f(arr(1.))


@trap
def cached_results_of_calls(H):
    cache = {}
    f = H(lambda x: x * 2)

    def g(x, key):
        if key not in cache:
            cache[key] = f(x)
        return cache[key]
    yield g(arr(1.), "a"), g(arr(5.), "b"), g(arr(9.), "a")


@trap
def training_flag_read_by_code(H):
    f = H(lambda x: x * 2 if autograd.is_training() else x * 3)
    yield f(arr(1.))
    with autograd.train_mode():
        yield f(arr(1.))
    with autograd.record(train_mode=False):
        yield f(arr(1.))
    with autograd.record():
        yield f(arr(1.))
    yield f(arr(1.))


@trap
def mode_set_within(H):
    @H
    def f(x):
        with autograd.predict_mode():
            a = nd.Dropout(x, p=0.9)
        return a * 2
    with autograd.record():
        yield f(arr(1., 2., 3.))


@trap
def block_of_blocks_by_length(H):
    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.layers = nn.HybridSequential()
            for _ in range(3):
                self.layers.add(nn.HybridLambda(lambda F, x: x + 1))

        def forward(self, x, n=None):
            for layer in list(self.layers)[: n or x.shape[0]]:
                x = layer(x)
            return x
    net = H(Net())
    for n in (1, 2, 3):
        yield net(nd.ones((n,)))
    yield net(nd.ones((3,)), 1), net(nd.ones((3,)), 2)


@trap
def deep_copied_input(H):
    f = H(lambda x: copy.deepcopy(x) * 2)
    for k in (1., 4.):
        yield f(arr(k))


@trap
def copied_in_and_written(H):
    @H
    def f(x):
        y = x.copy()
        y[0] = 9.
        z = copy.copy(x)
        return x + y + z
    for k in (1., 4.):
        yield f(arr(k, k))


@trap
def written_by_condition_of_shape(H):
    @H
    def f(x):
        y = nd.zeros_like(x)
        for i in range(0, x.shape[0], 2):
            y[i] = x[i] * i
        return y
    for n in (1, 4, 5):
        yield f(nd.arange(n))


@trap
def dtype_promoted_by_numbers(H):
    f = H(lambda x, k: x + k)
    for d in ("float16", "int32", "float64", "uint8"):
        for k in (1, 2.5, True):
            yield f(nd.ones((2,), dtype=d), k)


@trap
def in_place_keeps_dtype(H):
    @H
    def f(x):
        x += 1.7
        x *= 2
        return x * 1
    for d in ("float32", "int32", "float16"):
        yield f(nd.ones((2,), dtype=d))
