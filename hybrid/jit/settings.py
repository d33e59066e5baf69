"""Settings of the process and of Python's library that traced code asks for by functions of theirs."""
from __future__ import annotations

import inspect
import sys
from functools import lru_cache
from types import BuiltinFunctionType
from typing import Any

from ..base import collector
from .answers import Answer
from .in_c import told

# functions written in Python, (module, name), whose answer code may depend on
_SETTINGS = frozenset({("numpy", "get_printoptions"), ("numpy", "geterr"), ("threading", "active_count"),
                       ("threading", "enumerate"), ("locale", "getlocale")})
# modules written in C that hold settings of the interpreter and the process
KEEPERS = frozenset({"sys", "gc", "posix", "nt", "_thread", "_locale", "_tracemalloc", "faulthandler", "_socket",
                     "_signal", "signal", "resource", "_asyncio", "decimal", "_decimal"})
_GETTERS = ("get", "is", "fetch")
_SETTERS = frozenset({"enable", "disable", "umask", "nice", "tzset", "putenv", "unsetenv", "alarm", "signal", "start",
                      "stop", "chdir", "fchdir"})
# they tell of objects, or are no settings
_OTHERS = frozenset({"getrefcount", "getsizeof", "get_objects", "get_referrers", "get_referents", "is_tracked",
                     "get_count", "get_stats", "getrandom", "isatty", "getcwd", "getcwdb", "getprofile", "setprofile",
                     "getallocatedblocks", "get_asyncgen_hooks", "getlogin", "is_finalized", "getaddrinfo"})


@lru_cache(1024)
def _takes_nothing(function: Any) -> bool:
    try:
        return not inspect.signature(function).parameters
    except (TypeError, ValueError):                              # some say it only in their documentation
        return (function.__doc__ or "").startswith(f"{function.__name__}()")


def setting(function: Any, name: str) -> Answer | None:
    """The place for a function of a library that tells a setting, None for other functions."""
    module = getattr(function, "__module__", None)
    if module == "gc":
        collector.goes_on()                                      # code asks for it: it finds it as it left it
    if (module, name) == ("threading", "current_thread"):
        return Answer(function, name, lambda: function().name)
    if (module, name) in _SETTINGS:
        return Answer(function, name, lambda: repr(function()))
    if module == "decimal" and name in ("Decimal", "getcontext"):
        asked = sys.modules["decimal"].getcontext
        return Answer(asked, name, lambda: repr(asked()))
    if (isinstance(function, BuiltinFunctionType) and module in KEEPERS and name.startswith(_GETTERS)
            and name not in _OTHERS and _takes_nothing(function)):
        return Answer(function, name, lambda: _answer(function))
    return None


def _answer(function: Any) -> Any:
    try:
        return told(function())
    except Exception as err:  # noqa: BLE001  which code may ask for: no event loop runs
        return type(err)


def handled() -> Answer:
    """The place for whether the code is called while an error is handled."""
    return Answer(sys, "handled", lambda: sys.exc_info()[0] is None)


def sets(function: Any) -> bool:
    """Whether a built-in function changes a setting, or tells one of several."""
    name = function.__name__
    return function.__module__ in KEEPERS and name not in _OTHERS and (
        name.startswith("set") or name in _SETTERS or name.startswith((*_GETTERS, "sched_get")) and not _takes_nothing(
            function) or name == "current_task")
