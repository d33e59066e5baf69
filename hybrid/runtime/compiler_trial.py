"""The trial of a compiler whose program did not compile: whether it is asked again."""
from __future__ import annotations

import contextlib
import os

from ..base import config, forking
from ..base.errors import CompileError, warn_user
from . import compilers, toolchain

EXTENSIONS = """typedef float v __attribute__((vector_size(16))); typedef int w __attribute__((vector_size(16)));
static inline __attribute__((always_inline)) v most(v a, v b) { w m = (w)(a < b); return (v)((m & (w)b) | (~m & (w)a)); }
__attribute__((visibility("hidden"))) int hy_count;
int trial(int n) { v a = {1, 2, 3, 4}, b = a * 2; b = __builtin_convertvector((w)(b > a), v) + most(a, b); hy_count = (int)b[0];
  return __builtin_fabsf(({ float f = b[1]; f; })) > 0 ? n + hy_count : n; }
void net(void **p) { *(int *)p[0] = trial(*(int *)p[1]); }
"""                                               # what programs are written in, beside C  # noqa: E501
_lock = forking.lock()
_refused: list[str] = []


def wrong_with(cc: str) -> str | None:
    """What is wrong with a compiler that cannot make a program of the least text; None where it can."""
    try:
        return toolchain.tried(cc, ["-shared", "-fPIC"], "void net(void **p) { *(int *)p[0] = 1; }")
    except CompileError as err:
        return str(err)


def _plain(cc: str) -> bool:
    """Whether a compiler takes C alone, without the extensions that programs are written in."""
    with contextlib.suppress(CompileError):
        return toolchain.tried(cc, ["-shared", "-fPIC"], EXTENSIONS) is not None
    return False


def _judged(cc: str) -> str | None:
    """What is against using a compiler at all; None where it makes programs of such texts as are given to it."""
    wrong = wrong_with(cc)
    if wrong is not None:
        return f"does not work ({wrong.splitlines()[0]})"
    return "has no vectors (GCC's extensions of C)" if _plain(cc) else None


def set_aside(err: CompileError) -> bool:
    """After a program did not compile: whether that is the compiler's fault and it is asked no more, so that another
    one may be tried, or none is there. False: it is this program alone, which runs on NumPy. One warning says which.
    The error is raised where somebody asked for this very compiler (HYBRID_CC) and it does not work, and where programs
    are checked (HYBRID_VERIFY).
    """
    cc, asked = toolchain.compiler(), os.environ.get("HYBRID_CC")
    if cc is None:
        return True
    fault = _judged(cc)
    if fault is None:
        if asked or config.verify():
            raise err
        if not _refused:
            _refused.append(cc)
            warn_user(f"a program runs on NumPy without fusion, because it did not compile. Please report "
                      f"this:\n{err}",
                      RuntimeWarning)
        return False
    if asked and "does not work" in fault:
        raise CompileError(f"the C compiler {cc} (HYBRID_CC={asked!r}) {fault}. Set HYBRID_CC to one that does, or to "
                           f"none.") from err
    with _lock:
        new, toolchain.useless[cc] = cc not in toolchain.useless, fault
    if new:
        _say(cc, fault, asked)
    return True


def _say(cc: str, fault: str, asked: str | None) -> None:
    """Warn once, of a compiler that is not used and of what takes its place."""
    path = os.environ.get("PATH")
    while ((other := compilers.find(asked, path, frozenset(toolchain.useless))) is not None
           and (wrong := _judged(other)) is not None):
        toolchain.useless[other] = wrong
    if not toolchain.warned:
        toolchain.warned.append(True)
        then = f"{other} is used instead" if other else "hybridized programs run on NumPy without fusion"
        warn_user(f"the C compiler {cc} {fault}, so {then}. {compilers.GET_ONE}, or set HYBRID_CC.",
                  RuntimeWarning)
