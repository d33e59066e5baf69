"""Errors that code raises and catches, warnings, logging, modules that it imports."""
# ruff: noqa: E741
from __future__ import annotations

import importlib
import logging
import os
import sys
import tempfile
import types
import warnings

from .tools import arr, trap

NUM = 2.


@trap
def exception_each_second_call(H):
    n = [0]


    @H
    def f(x):
        n[0] += 1
        if n[0] % 2 == 0:
            raise ValueError('even')
        return x * n[0]
    for _ in range(5):
        try:
            yield (f(arr(1.0)), n[0])
        except ValueError as e:
            yield (str(e), n[0])


@trap
def exception_state_before(H):
    w = arr(1.0)
    c = {'bad': False}


    @H
    def f(x):
        w[:] = w + 1
        if c['bad']:
            raise KeyError('k')
        return x * w
    yield f(arr(1.0))
    c['bad'] = True
    try:
        f(arr(1.0))
    except KeyError:
        yield w
    c['bad'] = False
    yield (f(arr(1.0)), w)


@trap
def exception_args_and_cause(H):


    @H
    def f(x, n):
        try:
            return x * [1.0, 2.0][n]
        except IndexError as e:
            raise ValueError(f'n={n}') from e
    yield f(arr(1.0), 1)
    for _ in range(2):
        try:
            f(arr(1.0), 5)
        except ValueError as e:
            yield (str(e), type(e.__cause__).__name__)


@trap
def stop_iteration_inside(H):
    l = [1.0, 2.0]


    @H
    def f(x):
        it = iter(l)
        t = 0.0
        while True:
            try:
                t += next(it)
            except StopIteration:
                break
        return x * t
    yield f(arr(1.0))
    l.append(3.0)
    yield f(arr(1.0))


@trap
def logging_counts(H):


    class Hn(logging.Handler):
        n = 0


        def emit(self, r):
            Hn.n += 1
    lg = logging.getLogger('hostile.x')
    lg.handlers[:] = [Hn()]
    lg.setLevel(logging.INFO)
    lg.propagate = False


    @H
    def f(x):
        if lg.isEnabledFor(logging.DEBUG):
            x = x * 10
        return x * 2
    yield f(arr(1.0))
    lg.setLevel(logging.DEBUG)
    yield f(arr(1.0))
    lg.setLevel(logging.INFO)
    yield f(arr(1.0))


@trap
def warnings_as_errors(H):


    @H
    def f(x):
        try:
            warnings.warn('w', UserWarning, stacklevel=2)
            return x * 2
        except UserWarning:
            return x * 3
    yield f(arr(1.0))
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        yield f(arr(1.0))
    yield f(arr(1.0))


@trap
def catch_warnings_record(H):


    @H
    def f(x):
        with warnings.catch_warnings(record=True) as w:
            warnings.simplefilter('always')
            warnings.warn('q', stacklevel=2)
        return x * len(w)
    for _ in range(3):
        yield f(arr(1.0))


@trap
def monkeypatch_module_function(H):
    m = types.ModuleType('hostile_mod')
    m.f = lambda x: x * 2
    m.K = 3.0
    sys.modules['hostile_mod'] = m


    def g(x):
        import hostile_mod
        return hostile_mod.f(x) * hostile_mod.K
    f = H(g)
    yield f(arr(1.0))
    m.f = lambda x: x * 5
    yield f(arr(1.0))
    m.K = 1.0
    yield f(arr(1.0))
    n = types.ModuleType('hostile_mod')
    n.f = lambda x: x
    n.K = 100.0
    sys.modules['hostile_mod'] = n
    yield f(arr(1.0))


@trap
def importlib_reload(H):
    d = tempfile.mkdtemp()
    p = os.path.join(d, 'hostile_rel.py')
    open(p, 'w').write('K = 2.\ndef g(x): return x * K\n')
    sys.path.insert(0, d)
    try:
        sys.modules.pop('hostile_rel', None)
        importlib.invalidate_caches()
        hostile_rel = importlib.import_module('hostile_rel')
        f = H(lambda x: hostile_rel.g(x))
        yield f(arr(1.0))
        open(p, 'w').write('K = 35.\ndef g(x): return x * K + 1\n')
        importlib.invalidate_caches()
        importlib.reload(hostile_rel)
        yield f(arr(1.0))
    finally:
        sys.path.remove(d)


@trap
def from_import_name(H):
    m = types.ModuleType('hostile_m2')
    m.K = 2.0
    sys.modules['hostile_m2'] = m


    def g(x):
        from hostile_m2 import K
        return x * K
    f = H(g)
    yield f(arr(1.0))
    m.K = 5.0
    yield f(arr(1.0))


@trap
def eval_string(H):
    e = ['x * 2']


    @H
    def f(x):
        return eval(e[0])
    yield f(arr(1.0))
    e[0] = 'x * NUM * 10'
    yield f(arr(1.0))
    global NUM
    NUM = 3.0
    yield f(arr(1.0))
    NUM = 2.0
