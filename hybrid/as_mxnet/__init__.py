"""Run programs written for MXNet, unchanged: ``import mxnet`` means this library.

    python -m hybrid.as_mxnet script.py ARGUMENT ...    run a script
    python -m hybrid.as_mxnet -m module ARGUMENT ...    run a module, as python -m does
    python -m hybrid.as_mxnet -c CODE                   run code
    python -m hybrid.as_mxnet --check FILE ...          list what is not supported, with line numbers; runs nothing

In a program: ``import hybrid; hybrid.as_mxnet()`` before the first ``import mxnet``.
"""
from __future__ import annotations

import io
import runpy
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Sequence

from .. import alias
from ..alias.check import check_files


class _Callable(ModuleType):
    """The module can be called: ``hybrid.as_mxnet()``."""

    def __call__(self) -> ModuleType:
        """Let ``import mxnet`` mean this library from here on; returns it. HybridError if MXNet is imported already."""
        return alias.install()


sys.modules[__name__].__class__ = _Callable


def remove() -> None:
    """Let ``import mxnet`` mean what it meant before."""
    alias.remove()


def run_script(path: str) -> None:
    """Run a file as ``__main__``."""
    with io.open_code(path) as f:
        code = compile(f.read(), path, "exec")
    main: Any = ModuleType("__main__")
    main.__file__ = path
    main.__builtins__ = __builtins__
    sys.modules["__main__"] = main
    sys.path[0] = str(Path(path).resolve().parent)
    alias.install()
    exec(code, main.__dict__)                             # the program that the user asked to run


def main(argv: Sequence[str]) -> int:
    """The command line."""
    if not argv or argv[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if argv else 2
    if argv[0] == "--check":
        return check_files(argv[1:])
    if argv[0] in ("-m", "-c") and len(argv) < 2:
        print(f"{argv[0]} needs a value", file=sys.stderr)
        return 2
    if argv[0] == "-m":
        sys.argv[:] = list(argv[1:])
        alias.install()
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
    elif argv[0] == "-c":
        sys.argv[:] = ["-c", *argv[2:]]
        alias.install()
        exec(compile(argv[1], "<string>", "exec"), {"__name__": "__main__", "__builtins__": __builtins__})
    elif not Path(argv[0]).is_file():
        print(f"{argv[0]}: no such file", file=sys.stderr)
        return 2
    else:
        sys.argv[:] = list(argv)
        run_script(argv[0])
    return 0

