"""What of a program written for MXNet is not supported, read from its text: nothing of it is run.

Names bound by imports of mxnet (``import mxnet as mx``, ``from mxnet import nd``, ``nn = mx.gluon.nn``) and ``F`` in a
block's methods are followed as far as they name modules, classes and functions; keyword arguments of calls are compared
with what the function takes.
"""
from __future__ import annotations

import ast
import inspect
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Iterator, Sequence

from .finder import MissingPart, lookup, missing
from .table import ABSENT, MODULES

# taken by every operator or layer
_ALWAYS = {"name", "out", "attr", "ctx", "dtype", "num_args", "prefix", "params", "__layout__"}


@dataclass(frozen=True, order=True)
class Finding:
    """One thing that is not supported."""
    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


def check_source(text: str, file: str) -> list[Finding]:
    """Findings of a program's text, by line. SyntaxError where it is not Python 3."""
    checker = Checker(file)
    checker.visit(ast.parse(text, file))
    return sorted(set(checker.found))


def check_files(paths: Sequence[str], out: Any = None) -> int:
    """Print the findings of files, or of the .py files in folders. 0 when there are none, 1 when there are, 2 when a
    file cannot be read."""
    out = out or sys.stdout
    files = [f for p in paths for f in (sorted(Path(p).rglob("*.py")) if Path(p).is_dir() else [Path(p)])]
    count, status = 0, 0
    for file in files:
        try:
            found = check_source(file.read_text(encoding="utf-8"), str(file))
        except SyntaxError as err:
            print(f"{file}:{err.lineno}: not Python 3: {err.msg}", file=out)
            status = 2
            continue
        except (OSError, UnicodeDecodeError) as err:
            print(f"{file}: cannot be read: {err}", file=out)
            status = 2
            continue
        count += len(found)
        for one in found:
            print(one, file=out)
    if not files:
        print("--check needs files", file=out)
        return 2
    print(f"{count} not supported in {len(files)} file{'s' * (len(files) != 1)}", file=out)
    return status or int(count > 0)


class Checker(ast.NodeVisitor):
    """Walks a program with the names that stand for parts of MXNet, per function."""

    def __init__(self, file: str):
        self.file, self.found = file, list[Finding]()
        # name -> dotted path in MXNet; None: something else here
        self.scopes: list[dict[str, str | None]] = [{}]

    def say(self, node: ast.AST, text: str) -> None:
        self.found.append(Finding(self.file, getattr(node, "lineno", 0), text))

    # ---- names
    def path_of(self, node: ast.AST) -> str | None:
        """``mxnet.gluon.nn`` for an expression that names it, or None."""
        if isinstance(node, ast.Name):
            return next((s[node.id] for s in reversed(self.scopes) if node.id in s), None)
        if isinstance(node, ast.Attribute):
            base = self.path_of(node.value)
            return f"{base}.{node.attr}" if base is not None else None
        return None

    def visit_Import(self, node: ast.Import) -> None:  # noqa: N802  ast's name
        for a in node.names:
            if a.name.split(".")[0] == "mxnet":
                self.scopes[-1][a.asname or "mxnet"] = a.name if a.asname else "mxnet"
                self.resolve(node, a.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:  # noqa: N802
        module = node.module or ""
        if node.level or module.split(".")[0] != "mxnet":
            return
        for a in node.names:
            if a.name == "*":
                self.resolve(node, module)
                continue
            self.scopes[-1][a.asname or a.name] = f"{module}.{a.name}"
            self.resolve(node, f"{module}.{a.name}")

    def visit_Assign(self, node: ast.Assign) -> None:  # noqa: N802
        self.generic_visit(node)
        path = self.path_of(node.value)
        if path is not None and len(node.targets) == 1 and isinstance(node.targets[0],
                                                                      ast.Name) and isinstance(follow(path)[0],
                ModuleType):
            self.scopes[-1][node.targets[0].id] = path

    def visit_FunctionDef(self, node: Any) -> None:  # noqa: N802
        for part in [*node.decorator_list, *node.args.defaults, *(d for d in node.args.kw_defaults if d)]:
            self.visit(part)
        self.scopes.append({name: None for name in bound_names(node)})
        if any(a.arg == "F" for a in node.args.args):
            self.scopes[-1]["F"] = "mxnet.ndarray"
        for part in node.body:
            self.visit(part)
        self.scopes.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:  # noqa: N802
        self.scopes.append({a.arg: "mxnet.ndarray" if a.arg == "F" else None for a in node.args.args})
        self.visit(node.body)
        self.scopes.pop()

    # ---- uses
    def visit_Attribute(self, node: ast.Attribute) -> None:  # noqa: N802
        path = self.path_of(node)
        if path is None:
            self.generic_visit(node)
        else:
            self.resolve(node, path)

    def visit_Call(self, node: ast.Call) -> None:  # noqa: N802
        self.generic_visit(node)
        path = self.path_of(node.func)
        if path is not None:
            self.keywords(node, path)

    def keywords(self, node: ast.Call, path: str) -> None:
        function, lacking = follow(path)
        if lacking is not None or not callable(function) or isinstance(function, ModuleType):
            return
        if getattr(function, "unsupported", None):
            self.say(node, f"{path}: {function.unsupported}")
            return
        taken = parameters(function)
        for k in node.keywords:
            if taken is not None and k.arg is not None and k.arg not in taken and k.arg not in _ALWAYS:
                self.say(k.value, f"{path}() takes no {k.arg}")

    def resolve(self, node: ast.AST, path: str) -> None:
        """Note a path that leads to nothing."""
        lacking = follow(path)[1]
        if lacking is not None:
            self.say(node, lacking)


def follow(path: str) -> tuple[Any, str | None]:
    """What a dotted path names, and what is missing on the way (None when nothing is)."""
    found, done = lookup("mxnet"), "mxnet"
    for part in path.split(".")[1:]:
        done += f".{part}"
        try:
            found = lookup(done) if done in MODULES else getattr(found, part)
        except (AttributeError, MissingPart):
            if not isinstance(found, (ModuleType, type)):
                # an attribute of a value, which only the running program has
                return found, None
            return None, missing(path if any((path + ".").startswith(a + ".") for a in ABSENT) else done)
        except ImportError as err:
            return None, f"{done}: {err}"
    return found, None


def parameters(function: Any) -> set[str] | None:
    """Names of the arguments a function or class takes; None when it takes any, or cannot say.

    ``**kwargs`` of a class go to the next class in line, and what its ``options`` names is taken too.
    """
    makers = [vars(c)["__init__"] for c in function.__mro__
              if "__init__" in vars(c)] if isinstance(function, type) else [function]
    names: set[str] = set(getattr(function, "options", ()))
    for make in makers:
        try:
            found = inspect.signature(make).parameters
        except (TypeError, ValueError):
            return None
        names.update(found)
        if not any(p.kind == p.VAR_KEYWORD for p in found.values()):
            return names
    return None


def bound_names(node: Any) -> Iterator[str]:
    """Names that a function binds itself: arguments, assignments, loops, inner functions."""
    args = node.args
    for a in [*args.posonlyargs, *args.args, *args.kwonlyargs, *(x for x in (args.vararg, args.kwarg) if x)]:
        yield a.arg
    shared = {n for x in ast.walk(node) if isinstance(x, (ast.Global, ast.Nonlocal)) for n in x.names}
    for x in ast.walk(node):
        if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store) and x.id not in shared:
            yield x.id
