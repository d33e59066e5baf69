"""Threads, processes, collected objects, settings of the process and of Python's library."""
# ruff: noqa: E741
from __future__ import annotations

import collections
import copy
import decimal
import gc
import inspect
import os
import string
import sys
import tempfile
import threading

import numpy as onp

from .tools import arr, trap


@trap
def os_listdir(H):
    d = tempfile.mkdtemp()
    f = H(lambda x: x * len(os.listdir(d)))
    yield f(arr(1.0))
    open(os.path.join(d, 'a'), 'w').close()
    yield f(arr(1.0))


@trap
def decimal_context(H):
    f = H(lambda x: x * float(decimal.Decimal(1) / decimal.Decimal(3)))
    yield f(arr(1.0))
    with decimal.localcontext() as c:
        c.prec = 2
        yield f(arr(1.0))
    yield f(arr(1.0))


@trap
def bit_generator_direct(H):
    g = onp.random.PCG64(5)
    f = H(lambda x: x * float(g.random_raw() % 1000))
    for _ in range(3):
        yield f(arr(1.0))


@trap
def seed_sequence(H):
    s = onp.random.SeedSequence(5)
    f = H(lambda x: x * float(s.spawn(1)[0].generate_state(1)[0] % 1000))
    for _ in range(3):
        yield f(arr(1.0))


@trap
def threads_same_function(H):
    w = arr(2.0)
    f = H(lambda x: x * w + 1)
    out = [None] * 8


    def go(i):
        r = [f(arr(float(i), j)).asnumpy().tolist() for j in range(10)]
        out[i] = r
    ts = [threading.Thread(target=go, args=(i,)) for i in range(8)]
    [t.start() for t in ts]
    [t.join() for t in ts]
    yield out


@trap
def fork_child(H):
    w = arr(2.0)
    f = H(lambda x: x * w)
    yield f(arr(1.0))
    w[:] = 5
    r, wr = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(wr, str(float(f(arr(3.0)).asscalar())).encode())
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    yield os.read(r, 100).decode()
    os.close(r)
    os.close(wr)
    yield f(arr(1.0))


@trap
def deepcopy_object_with_state(H):


    class M:


        def __init__(self):
            self.h = arr(0.0)


        def step(self, x):
            self.h = self.h + x
            return self.h * 2
    M.step = H(M.step)
    a = M()
    yield (a.step(arr(1.0)), a.h)
    b = copy.deepcopy(a)
    yield (b.step(arr(10.0)), b.h, a.h)
    yield (a.step(arr(1.0)), a.h)
    c = copy.copy(a)
    yield (c.step(arr(5.0)), a.h)


@trap
def gc_and_id_reuse(H):


    class Thing:
        pass
    f = H(lambda x, o: x * o.k)
    for i in range(6):
        o = Thing()
        o.k = float(i)
        yield f(arr(1.0), o)
        del o
        gc.collect()


@trap
def gc_arrays_id_reuse(H):
    h = {}
    f = H(lambda x: x * h['w'])
    for i in range(6):
        h['w'] = arr(float(i))
        yield f(arr(1.0))
        del h['w']
        gc.collect()


@trap
def sys_getframe(H):


    @H
    def f(x):
        return x * (2 if sys._getframe(1).f_code.co_name == 'inner' else 3)


    def inner():
        return f(arr(1.0))
    yield inner()
    yield inner()


@trap
def caller_locals(H):


    @H
    def f(x):
        return x * inspect.currentframe().f_back.f_locals.get('k', 1.0)


    def a(k):
        return f(arr(1.0))
    yield a(2.0)
    yield a(3.0)


@trap
def thread_name(H):
    f = H(lambda x: x * len(threading.current_thread().name))
    yield f(arr(1.0))
    out = []
    t = threading.Thread(target=lambda: out.append(f(arr(1.0))), name='abc')
    t.start()
    t.join()
    yield out


@trap
def string_formatter_table(H):
    t = string.Template('$a')
    m = {'a': '2'}
    f = H(lambda x: x * float(t.substitute(m)))
    yield f(arr(1.0))
    m['a'] = '7'
    yield f(arr(1.0))
    t.template = '1$a'
    yield f(arr(1.0))


@trap
def numpy_object_array(H):


    class Thing:
        pass
    o = Thing()
    o.k = 2.0
    r = onp.array([o, None], dtype=object)
    f = H(lambda x: x * r[0].k)
    yield f(arr(1.0))
    o.k = 5.0
    yield f(arr(1.0))
    p = Thing()
    p.k = 7.0
    r[0] = p
    yield f(arr(1.0))


@trap
def numpy_masked(H):
    a = onp.ma.array([1.0, 2.0], mask=[0, 0])
    f = H(lambda x: x * float(a.sum()))
    yield f(arr(1.0))
    a.mask = [0, 1]
    yield f(arr(1.0))
    a[0] = 9.0
    yield f(arr(1.0))


@trap
def ring_buffer_arrays(H):
    def summing(d):
        @H
        def f(x):
            d.append(x)
            return sum(d)
        return f
    for start in ([arr(0.0), arr(0.0), arr(0.0)], []):
        d = collections.deque(start, maxlen=3)
        f = summing(d)
        for i in range(6):
            yield (f(arr(float(i))), list(d), len(d))


@trap
def deque_rotate_in_trace(H):
    d = collections.deque([1.0, 2.0, 3.0])


    @H
    def f(x):
        d.rotate(1)
        return x * d[0]
    for _ in range(5):
        yield (f(arr(1.0)), list(d))
