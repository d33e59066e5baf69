"""What code asks of the process, the interpreter and this library while it is traced: the answers are those that eager
code gets, also when they have changed since."""
from __future__ import annotations

import asyncio
import faulthandler
import functools
import gc
import inspect
import locale
import logging
import multiprocessing
import os
import platform
import resource
import signal
import socket
import sys
import threading
import time
import traceback
import tracemalloc
import warnings

import numpy as onp

import hybrid as mx
from hybrid import autograd

from .tools import add, arr


def _nothing(*_):
    return None


def _restoring(get, put, new):
    """What changes a setting and what puts it back."""
    def change():
        old = get()
        put(new(old) if callable(new) else new)
        return lambda: put(old)
    return change


def _number(flag):
    return 2. if flag else 3.


def _filters():
    return len(warnings.filters)


def _filter_added():
    old = list(warnings.filters)
    warnings.filterwarnings("ignore", message="xyz of traps")
    return lambda: warnings.filters.__setitem__(slice(None), old)


def _signal_changed():
    old = signal.signal(signal.SIGUSR1, _nothing)
    return lambda: signal.signal(signal.SIGUSR1, old)


def _depth():
    n, frame = 0, sys._getframe()
    while frame is not None:
        n, frame = n + 1, frame.f_back
    return float(n)


def _own_name():
    return len(sys._getframe().f_code.co_name)


def _line_difference():
    a = sys._getframe().f_lineno
    b = inspect.currentframe().f_lineno
    return float(b - a)


def _recursed(n=0):
    try:
        return _recursed(n + 1)
    except RecursionError:
        return 1.


def _deep(n):
    return 1. if n == 0 else _deep(n - 1)


def _locals():
    a, b = 1., 2.
    return sum(v for v in locals().values() if isinstance(v, float)) + a * b


def _locals_with(x):
    y = x * 2
    return float(len(locals())) + 0. * (y is None)


def _handled():
    return _number(sys.exc_info()[0] is None)


def _handled_inside():
    try:
        raise ValueError("a")
    except ValueError:
        return float(len(str(sys.exc_info()[1])))


def _trace_text():
    try:
        raise ValueError("a")
    except ValueError:
        return float(traceback.format_exc().count("File"))


def _gc_off():
    gc.disable()
    return gc.enable


def _locale():
    old = locale.setlocale(locale.LC_CTYPE)
    locale.setlocale(locale.LC_CTYPE, "C")
    return lambda: locale.setlocale(locale.LC_CTYPE, old)


def _logging_disabled():
    logging.disable(logging.ERROR)
    return lambda: logging.disable(logging.NOTSET)


def _tracemalloc():
    tracemalloc.start()
    return tracemalloc.stop


def _profile(frame, event, arg):
    return None


def _profiled():
    old = sys.getprofile()
    sys.setprofile(_profile)
    return lambda: sys.setprofile(old)


def _traced():
    old = sys.gettrace()
    sys.settrace(_profile)
    return lambda: sys.settrace(old)


def _threads():
    stop = threading.Event()
    t = threading.Thread(target=stop.wait)
    t.start()

    def back():
        stop.set()
        t.join()
    return back


def _renamed():
    t = threading.current_thread()
    old, t.name = t.name, "another name"
    return lambda: setattr(t, "name", old)


def _process_renamed():
    p = multiprocessing.current_process()
    old, p.name = p.name, "another name"
    return lambda: setattr(p, "name", old)


def _streams():
    old, sys.stdout = sys.stdout, None
    return lambda: setattr(sys, "stdout", old)


def _path():
    sys.path.append("/nowhere")
    return lambda: sys.path.remove("/nowhere")


def _hook():
    old, sys.excepthook = sys.excepthook, _nothing
    return lambda: setattr(sys, "excepthook", old)


def _umask():
    old = os.umask(0o22)
    os.umask(0o77)
    return lambda: os.umask(old)


def _limit():
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    new = 0 if soft else min(4096, hard if hard >= 0 else 4096)
    resource.setrlimit(resource.RLIMIT_CORE, (new, hard))
    return lambda: resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))


def _zone():
    old = os.environ.get("TZ")
    os.environ["TZ"] = "XYZ-5"
    time.tzset()

    def back():
        os.environ.pop("TZ") if old is None else os.environ.__setitem__("TZ", old)
        time.tzset()
    return back


def _errors():
    old = onp.seterr(over="raise" if onp.geterr()["over"] != "raise" else "ignore")
    return lambda: onp.seterr(**old)


def _running():
    try:
        asyncio.get_running_loop()
        return 2.
    except RuntimeError:
        return 3.


def _module_count():
    return _number("hybrid_trap_module" in sys.modules)


def _module_added():
    sys.modules["hybrid_trap_module"] = sys
    return lambda: sys.modules.pop("hybrid_trap_module")


def _directory():
    old = os.getcwd()
    os.chdir("/")
    return lambda: os.chdir(old)


def _keeps():
    return _nothing


# what code asks, what changes the answer and returns what puts it back
ASKED = {
    "gc_enabled": (lambda: _number(gc.isenabled()), _gc_off),
    "gc_threshold": (lambda: gc.get_threshold()[0] % 1000 + 1, _restoring(gc.get_threshold, lambda t: gc.set_threshold(
        *t), lambda t: (777, *t[1:]))),
    "gc_debug": (lambda: gc.get_debug() + 1., _keeps),
    "gc_callbacks": (lambda: _number(gc.callbacks), _keeps),
    "gc_freeze_count": (lambda: gc.get_freeze_count() + 1., _keeps),
    "profile": (lambda: _number(sys.getprofile() is None), _keeps),
    "profile_set": (lambda: _number(sys.getprofile() is None), _profiled),
    "trace": (lambda: _number(sys.gettrace() is None), _keeps),
    "trace_set": (lambda: _number(sys.gettrace() is None), _traced),
    "thread_profile": (lambda: _number(threading.getprofile() is None) if hasattr(threading, "getprofile") else 1.,
                       _keeps),
    "thread_name": (lambda: len(threading.current_thread().name), _renamed),
    "thread_is_main": (lambda: _number(threading.current_thread() is threading.main_thread()), _keeps),
    "thread_count": (lambda: float(threading.active_count()), _threads),
    "thread_list": (lambda: float(len(threading.enumerate())), _threads),
    "thread_ident": (lambda: _number(threading.get_ident() == threading.main_thread().ident), _keeps),
    "thread_native": (lambda: _number(threading.get_native_id() == os.getpid()), _keeps),
    "thread_daemon": (lambda: _number(threading.current_thread().daemon), _keeps),
    "thread_stack_size": (lambda: threading.stack_size() + 1., _keeps),
    "process_name": (lambda: len(multiprocessing.current_process().name), _process_renamed),
    "process_parent": (lambda: _number(multiprocessing.parent_process() is None), _keeps),
    "recursion_limit": (lambda: sys.getrecursionlimit() % 1000 + 1., _restoring(
        sys.getrecursionlimit, sys.setrecursionlimit, lambda n: n + 7)),
    "recursion_reached": (_recursed, _keeps),
    "recursion_of_hundreds": (lambda: _deep(600), _keeps),
    "digits_limit": (lambda: sys.get_int_max_str_digits() % 1000 + 1., _restoring(
        sys.get_int_max_str_digits, sys.set_int_max_str_digits, 1000)),
    "switch_interval": (lambda: sys.getswitchinterval() * 1000, _restoring(
        sys.getswitchinterval, sys.setswitchinterval, 0.05)),
    "filters": (_filters, _filter_added),
    "handled": (_handled, _keeps),
    "handled_inside": (_handled_inside, _keeps),
    "traceback_text": (_trace_text, _keeps),
    "own_frame_name": (_own_name, _keeps),
    "own_frame_line": (_line_difference, _keeps),
    "stack_depth": (_depth, _keeps),
    "locals": (_locals, _keeps),
    "stdout_there": (lambda: _number(sys.stdout is None), _streams),
    "path_length": (lambda: float(len(sys.path)), _path),
    "except_hook": (lambda: _number(sys.excepthook is sys.__excepthook__), _hook),
    "display_hook": (lambda: _number(sys.displayhook is sys.__displayhook__), _keeps),
    "module_there": (_module_count, _module_added),
    "flags": (lambda: sys.flags.optimize + 1., _keeps),
    "hash_of_text": (lambda: hash("abc") % 97 + 1., _keeps),
    "byte_order": (lambda: _number(sys.byteorder == "little"), _keeps),
    "interned": (lambda: _number(sys.intern("abc") is sys.intern("ab" + "c")), _keeps),
    "finalizing": (lambda: _number(sys.is_finalizing()), _keeps),
    "locale": (lambda: len(locale.setlocale(locale.LC_CTYPE)), _locale),
    "locale_conventions": (lambda: len(locale.localeconv()["decimal_point"]), _keeps),
    "logging_disabled": (lambda: _number(logging.getLogger("x.y").isEnabledFor(logging.ERROR)), _logging_disabled),
    "logging_root": (lambda: logging.getLogger().level + 1., _restoring(
        lambda: logging.getLogger().level, lambda n: logging.getLogger().setLevel(n), 15)),
    "tracemalloc": (lambda: _number(tracemalloc.is_tracing()), _tracemalloc),
    "fault_handler": (lambda: _number(faulthandler.is_enabled()), _keeps),
    "signal": (lambda: _number(callable(signal.getsignal(signal.SIGUSR1))), _signal_changed),
    "alarm_timer": (lambda: _number(signal.getitimer(signal.ITIMER_VIRTUAL)[0] == 0), _keeps),
    "process_number": (lambda: os.getpid() % 1000 + 1., _keeps),
    "parent_number": (lambda: os.getppid() % 1000 + 1., _keeps),
    "user_number": (lambda: os.getuid() + 1., _keeps),
    "niceness": (lambda: os.nice(0) + 1., _keeps),
    "cores": (lambda: float(os.cpu_count() or 1), _keeps),
    "affinity": (lambda: float(len(os.sched_getaffinity(0))), _keeps),
    "mask": (lambda: float((lambda m: (os.umask(m), m)[1])(os.umask(0o22))) + 1, _umask),
    "core_limit": (lambda: resource.getrlimit(resource.RLIMIT_CORE)[0] % 9973 + 1., _limit),
    "host_name": (lambda: len(socket.gethostname()), _keeps),
    "default_timeout": (lambda: socket.getdefaulttimeout() or 1., _restoring(
        socket.getdefaulttimeout, socket.setdefaulttimeout, 5.)),
    "platform": (lambda: len(platform.system()), _keeps),
    "time_zone": (lambda: time.localtime(0).tm_hour + 1., _zone),
    "time_zone_constant": (lambda: time.timezone / 3600 + 20, _zone),
    "folder": (lambda: len(os.getcwd()), _directory),
    "numpy_errors": (lambda: len(onp.geterr()["over"]), _errors),
    "numpy_print": (lambda: float(onp.get_printoptions()["threshold"]), _restoring(
        lambda: onp.get_printoptions()["threshold"], lambda n: onp.set_printoptions(threshold=n), 77)),
    "numpy_text": (lambda: len(str(onp.ones(20))), _restoring(
        lambda: onp.get_printoptions()["threshold"], lambda n: onp.set_printoptions(threshold=n), 7)),
    "running_loop": (_running, _keeps),
    "is_recording": (lambda: _number(autograd.is_recording()), _keeps),
    "is_training": (lambda: _number(autograd.is_training()), _keeps),
    "default_device": (lambda: float(mx.current_context().device_id + 1), _keeps),
    "numpy_arrays": (lambda: _number(mx.util.is_np_array()), _keeps),
    "reference_count": (lambda: _number(sys.getrefcount(None) > 5), _keeps),
    "size_of_list": (lambda: _number(sys.getsizeof([]) > 5), _keeps),
}


def _play(H, read, change):
    f = H(lambda x: x * read())
    yield f(arr(1.)), f(arr(1.)), f(arr(2.))
    for _ in range(2):
        back = change()
        try:
            yield f(arr(1.)), f(arr(2.))
        finally:
            back()
        yield f(arr(1.)), f(arr(3.))


for _name, (_read, _change) in ASKED.items():
    add(f"surroundings.asked_{_name}", functools.partial(_play, read=_read, change=_change))
