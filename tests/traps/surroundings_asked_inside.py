"""What code asks of the interpreter in the middle of errors, frames, threads and event loops."""
from __future__ import annotations

import asyncio
import functools
import gc
import sys
import threading
import traceback

import numpy as onp

import hybrid as mx
from hybrid import autograd, nd

from .surroundings_asked import _handled, _locals_with, _number, _running
from .tools import arr, trap


@trap
def caught_error_around_the_call(H):
    f = H(lambda x: x * _handled())
    yield f(arr(1.)), f(arr(1.))
    for _ in range(3):
        try:
            raise ValueError
        except ValueError:
            yield f(arr(1.))
        yield f(arr(1.))


@trap
def error_around_the_first_call(H):
    f = H(lambda x: x * _handled())
    for _ in range(3):
        try:
            raise ValueError
        except ValueError:
            yield f(arr(1.))
        yield f(arr(1.))


@trap
def stack_as_text(H):
    f = H(lambda x: x * len(traceback.extract_stack()))
    yield f(arr(1.)), f(arr(1.))


@trap
def collector_switched_inside(H):
    @H
    def f(x, on):
        (gc.enable if on else gc.disable)()
        return x * (2. if gc.isenabled() else 3.)
    try:
        for on in (True, False, True, True, False):
            yield f(arr(1.), on), gc.isenabled()
            gc.enable()
    finally:
        gc.enable()


@trap
def limits_set_inside(H):
    old = sys.getrecursionlimit()

    @H
    def f(x, n):
        sys.setrecursionlimit(n)
        return x * 2
    try:
        for n in (2000, 3000, 2000, 2000, 3000):
            yield f(arr(1.), n), sys.getrecursionlimit()
            sys.setrecursionlimit(old)
    finally:
        sys.setrecursionlimit(old)


@trap
def collector_asked_in_a_helper_thread_of_waiting(H):
    f = H(lambda x: x * _number(gc.isenabled()) + gc.get_threshold()[1])
    gc.disable()
    try:
        yield f(arr(1.)), gc.isenabled(), f(arr(1.))
    finally:
        gc.enable()
    yield f(arr(1.)), gc.isenabled(), f(arr(1.))


@trap
def context_of_an_error_raised_inside(H):
    @H
    def f(x):
        try:
            raise ValueError("inner")
        except ValueError as err:
            return x * (2. if err.__context__ is None else 3.)
    yield f(arr(1.)), f(arr(1.))
    try:
        raise KeyError
    except KeyError:
        yield f(arr(1.))
    yield f(arr(1.))


@trap
def raised_again_without_an_error(H):
    @H
    def f(x):
        try:
            raise
        except RuntimeError:
            return x * 2
        except KeyError:
            return x * 3
    yield f(arr(1.)), f(arr(1.))
    try:
        raise KeyError
    except KeyError:
        yield f(arr(1.))
    yield f(arr(1.))


@trap
def number_of_locals(H):
    f = H(_locals_with)
    for i in range(4):
        yield f(arr(float(i)))


@trap
def locals_of_a_closure(H):
    k = 2.

    @H
    def f(x):
        y = k
        return x * sum(v for n, v in sorted(locals().items()) if n in ("y", "k"))
    yield f(arr(1.)), f(arr(1.))
    k = 5.
    yield f(arr(1.)), f(arr(1.))


@trap
def evaluated_in_own_names(H):
    @H
    def f(x, k):
        return eval("x * k + y", globals(), {**locals(), "y": 1.})
    for k in (2., 3., 2., 5., 6.):
        yield f(arr(1.), k)


@trap
def in_a_thread_and_in_the_main_one(H):
    f = H(lambda x: x * _number(threading.current_thread() is threading.main_thread()))
    for _ in range(3):
        yield f(arr(1.))
        out = []
        t = threading.Thread(target=lambda: out.append(f(arr(1.))))
        t.start()
        t.join()
        yield out


@trap
def in_a_loop_of_asyncio(H):
    f = H(lambda x: x * _running())

    async def inside():
        return f(arr(1.))
    for _ in range(3):
        yield f(arr(1.))
        yield asyncio.run(inside())


@trap
def name_of_a_task(H):
    f = H(lambda x: x * len(asyncio.current_task().get_name()))

    async def inside():
        return f(arr(1.))

    async def outside(name):
        return await asyncio.create_task(inside(), name=name)
    for name in ("a", "bcd", "a", "longer"):
        yield asyncio.run(outside(name))


@trap
def array_of_numpy_printed_inside(H):
    f = H(lambda x: x * len(str(onp.ones(3) / 3)))
    yield f(arr(1.)), f(arr(1.))
    with onp.printoptions(precision=3):
        yield f(arr(1.)), f(arr(1.))
    yield f(arr(1.))


@trap
def modes_asked_in_every_scope(H):
    f = H(lambda x: x * (1 + 2 * autograd.is_recording() + 4 * autograd.is_training()))
    for _ in range(2):
        yield f(arr(1.))
        with autograd.record():
            yield f(arr(1.))
            with autograd.pause():
                yield f(arr(1.))
                with autograd.train_mode():
                    yield f(arr(1.))
            with autograd.predict_mode():
                yield f(arr(1.))
        with autograd.train_mode():
            yield f(arr(1.))
        with autograd.record(train_mode=False):
            yield f(arr(1.))


@trap
def default_device_scope(H):
    f = H(lambda x: nd.ones((1,), ctx=mx.current_context()).as_in_context(x.ctx) * (1 + mx.current_context().device_id))
    for _ in range(2):
        yield f(arr(1.))
        with mx.cpu(1):
            yield f(arr(1.))
            yield f(nd.ones((1,)))


@trap
def numpy_scope_asked(H):
    f = H(lambda x: x * (2. if mx.util.is_np_array() else 3.))
    for _ in range(2):
        yield f(arr(1.))
        with mx.util.np_array(True):
            yield f(mx.np.ones((1,))).asnumpy()
        yield f(arr(1.))


@trap
def name_scope_and_prefix(H):
    f = H(lambda x: x * len(mx.name.NameManager().get(None, "abc")))
    for _ in range(3):
        yield f(arr(1.))


@trap
def hits_of_a_cache(H):
    @functools.lru_cache(maxsize=2)
    def twice(k):
        return k * 2
    f = H(lambda x, k: x * twice(k) + twice.cache_info().hits)
    for k in (1, 2, 1, 1, 2, 3, 1):
        yield f(arr(1.), k)


@trap
def a_cache_of_arrays(H):
    @functools.lru_cache(maxsize=2)
    def twice(k):
        return k * 2
    f = H(lambda x, k: x * twice(k))
    a, b = arr(1.), arr(2.)
    for k in (a, b, a, a, b):
        yield f(arr(1.), k)
    a[:] = 5.
    yield f(arr(1.), arr(3.)), f(arr(1.), b)


@trap
def a_cache_of_an_array_that_changes(H):
    @functools.cache
    def twice(k):
        return k * 2
    f = H(lambda x, k: x * twice(k))
    a = arr(1.)
    for v in (1., 5., 5., 1.):
        a[:] = v
        yield f(arr(1.), a), f(arr(1.), arr(v))
