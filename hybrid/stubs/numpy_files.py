"""Stub files of ``np``, its parts ``linalg`` and ``random``, and ``npx``; the same for Symbols (``sym.np``, …)."""
from __future__ import annotations

import inspect
from dataclasses import replace
from types import ModuleType
from typing import Any, Callable

import hybrid
from ..nd import functions
from ..numpy import elementwise, extension, linalg, random
from ..numpy.composed import COMPOSED
from ..ops import registry
from .operator_files import HEAD, NPX, Space, attributes, exported, namespace, operator, sub_text, subspaces
from . import signatures
from .parameters import Parameter, function, own_parameters, usable

VALUES = "NDArray | numpy.ndarray | float | Sequence[Any]"
NP = Space("np", "ndarray", VALUES)
# functions whose result is not one array ({v}: an array)
RESULTS = {
    **dict.fromkeys(("split", "array_split", "hsplit", "vsplit", "dsplit", "meshgrid", "broadcast_arrays"),
                    "list[{v}]"),
    **dict.fromkeys(("nonzero", "tril_indices", "triu_indices", "diag_indices_from"), "tuple[{v}, ...]"),
    **dict.fromkeys(("histogram", "slogdet", "eig", "eigh"), "tuple[{v}, {v}]"),
    **dict.fromkeys(("may_share_memory", "shares_memory", "is_np_array", "is_np_shape"), "_bool"),
    "svd": "tuple[{v}, {v}, {v}]", "shape": "tuple[int, ...]", "ndim": "int", "size": "int", "alen": "int",
    "set_printoptions": "None", "count_nonzero": "int | {v}",
    "shuffle": "None", "seed": "None", "unravel_index": "{v} | tuple[{v}, ...]",
    "lstsq": "tuple[{v}, {v}, int, {v}]", "multi_dot": "{v}", "qr": "tuple[{v}, {v}]", "matrix_rank": "{v}",
    "set_np": "None", "reset_np": "None", "save": "None", "load": "list[{v}] | dict[str, {v}]", "waitall": "None",
    "cpu": "Context", "gpu": "Context", "cpu_pinned": "Context", "cpu_context": "Context", "current_context": "Context",
    "num_gpus": "int"}
# one array, or a tuple when the keyword is True
FLAGGED = {"unique": ("return_index", "return_inverse", "return_counts"), "average": ("returned",)}
def own(name: str, fn: Any) -> bool:
    """Whether a function says its parameters itself."""
    return not any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in inspect.signature(fn).parameters.values())


def parts_of(name: str, fn: Any, key: str) -> list[Parameter]:
    """A function's parameters: its own, and where it hands others on to an operator, those of the operator."""
    given = own_parameters(fn)
    d = registry.namespace("np").get(key) or registry.namespace("np").get(fn.__name__)
    if own(name, fn) or d is None or d.variadic:
        return given
    first = [p for p in given if not p.star and p.name != "*"]
    known = {p.name for p in first} | {first[0].name if first else ""}
    inputs = [Parameter(n, VALUES + (" | None" if n in d.optional else ""), "None" if n in d.optional else None)
              for n in d.inputs[1 if first else 0:] if n not in known]
    head = [p for p in first if p.default is None]
    later = [p for p in first if p.default is not None]
    named = [p for p in attributes(d) if p.name not in known | set(d.inputs)]
    dtype = [Parameter("dtype", "DTypeLike | None", "None")] if key in elementwise.REDUCTIONS and "dtype" not in {
        p.name for p in named} else []
    out = [] if "out" in known else [Parameter("out", "Any", "None")]
    return [*head, *(inputs if len(head) < len(d.inputs) else ()), *named, *dtype, *later, *out]


def typed(parts: list[Parameter], value: str) -> list[Parameter]:
    """Parameters whose type is not said, with that which their name has everywhere."""
    kinds = {"dtype": "DTypeLike | None", "keepdims": "_bool", "out": f"{value} | None", "ctx": "Context | None",
             "device": "Context | None", "axis": "int | Sequence[int] | None"}
    arrays = ("x", "a", "x1", "x2", "b", "arr", "m", "ary")
    return [replace(p, type=with_default(kinds.get(p.name, VALUES if p.name in arrays and not p.star else "Any")
                                         if p.type == "Any" else p.type, p.default)) for p in parts]


def with_default(kind: str, default: str | None) -> str:
    """A type that takes the default too."""
    if kind == "Any" or default is None or "None" in kind and default == "None":
        return kind
    return f"{kind} | None" if default == "None" else f"{kind} | str" if default[0] in "\"'" and kind != "str" else kind


def text_of(name: str, fn: Any, value: str, key: str) -> str:
    """The stub of a function; overloaded where a flag asks for further results."""
    known = signatures.said(key, value) or fn is not None and signatures.said(fn.__name__, value)
    if known and value != "Symbol":
        return "".join(function(name, typed(parts, value), result, ["overload"] * (len(known) > 1))
                       for parts, result in known)
    parts = typed(known[0][0] if known else parts_of(name, fn, key), value)
    if value == "Symbol":
        parts = [Parameter(p.name, p.type.replace("NDArray | ", "Symbol | NDArray | "), p.default, p.star)
                 for p in parts]
        return function(name, parts, "Symbol")
    result = RESULTS.get(name, "{v}").format(v=value)
    if name in FLAGGED:
        flags = FLAGGED[name]
        plain = [Parameter(p.name, "Literal[False]" if p.name in flags else p.type, p.default, p.star) for p in parts]
        return function(name, plain, result, ["overload"]) + function(name, parts, f"tuple[{value}, ...]", ["overload"])
    if name.startswith("atleast_"):
        return (function(name, [Parameter("ary", VALUES)], value, ["overload"])
                + function(name, [Parameter("arys", VALUES, None, "*")], f"list[{value}]", ["overload"]))
    if name == "where":
        return (function(name, [Parameter("condition", VALUES)], f"tuple[{value}, ...]", ["overload"])
                + function(name, [Parameter(n, VALUES) for n in ("condition", "x", "y")], value, ["overload"]))
    return function(name, parts, result)


def found(module: ModuleType, names: list[str]) -> dict[str, Callable[..., Any]]:
    """The functions of a module among some names."""
    values = {n: getattr(module, n) for n in sorted(set(names)) if usable(n) and hasattr(module, n)}
    return {n: f for n, f in values.items() if inspect.isfunction(f)}


def constants() -> tuple[list[str], str]:
    """``np``'s numbers and dtypes."""
    numbers = [n for n in ("pi e inf nan NAN NaN PINF NINF PZERO NZERO euler_gamma").split() if hasattr(hybrid.np, n)]
    types = "float16 float32 float64 int8 int16 int32 int64 uint8 bool_ finfo iinfo dtype".split()
    text = "".join(f"{n}: float\n" for n in numbers) + "newaxis: None\nbool = numpy.bool_\n"
    return [*numbers, *types, "newaxis", "bool"], (
        f"from numpy import ({', '.join(f'{t} as {t}' for t in types[:6])},\n"
        f"                   {', '.join(f'{t} as {t}' for t in types[6:])})\n") + text


def np_functions() -> dict[str, Callable[..., Any]]:
    """The public functions of ``np``, NumPy's own excluded."""
    modules = {n for n in dir(hybrid.np) if inspect.ismodule(getattr(hybrid.np, n, None))}
    table = found(hybrid.np, [*(n for n in dir(hybrid.np) if n not in modules), *COMPOSED])
    numpys = set(signatures.of_numpy())
    return {n: f for n, f in table.items() if n not in numpys}


def documented() -> dict[str, Callable[..., Any]]:
    """What the reference lists: the public functions of ``np``, and NumPy's own whose results are changed here."""
    changed: dict[str, Callable[..., Any]] = {
        n: f for n in signatures.of_numpy()
        if (f := getattr(hybrid.np, n, None)) is not None and f.__module__ == hybrid.np.__name__
        and not hasattr(f, "of_numpy")}
    return np_functions() | changed


def np_text(value: str) -> str:
    """``numpy/__init__.pyi``, or ``graph/sym_np.pyi``."""
    table, (numbers, fixed) = np_functions(), constants()
    array = value == "ndarray"
    head = HEAD.format(up="..") + ("from .multiarray import ndarray\nfrom . import fft as fft, linalg as linalg, "
                                   "random as random\nfrom . import multiarray as multiarray\n" if array else
                                   "from .symbol import Symbol\nfrom . import sym_np_linalg as linalg, "
                                   "sym_np_random as random\n")
    listed = signatures.names(host=array)
    every = {*table, *numbers, *listed, "linalg", "random", *(("ndarray", "multiarray", "fft") if array else ())}
    return "".join([head, fixed, exported(every), "\n", *(text_of(n, table.get(n), value, n)
                                                          for n in sorted({*table, *listed}))])


def part_text(value: str, part: str) -> str:
    """``np.linalg`` or ``np.random``."""
    module: Any = linalg if part == "linalg" else random
    names = [*module.__all__, *dir(module), *(n[7:] for n in registry.namespace("np") if n.startswith(f"{part}."))]
    table = {n: f for n, f in found(module, [n for n in names if not n.startswith("_")]).items()
             if n in module.__all__ or functions.has("np", f"{part}.{n}")}
    head = HEAD.format(up="..") + ("from .multiarray import ndarray\n" if value == "ndarray"
                                   else "from .symbol import Symbol\n")
    listed = signatures.names(part, host=value == "ndarray")
    parts = [head, exported({*table, *listed}), "\n"]
    return "".join([*parts, *(text_of(n, table.get(n), value, f"{part}.{n}") for n in sorted({*table, *listed}))])


def npx_text(value: str) -> str:
    """``numpy/extension.pyi``, or ``graph/sym_npx.pyi``."""
    array = value == "ndarray"
    space = NPX if array else Space("npx", "Symbol", "Symbol | NDArray | numpy.ndarray | float")
    own_names = [n for n, v in vars(extension).items() if not n.startswith("_") and v not in functions.MADE
                 and n not in ("functions", "serialize", "is_value", "as_value", "wrap")]
    table = found(extension, own_names)
    operators = {n: d for n, d in namespace(NPX).items() if n not in table}
    head = HEAD.format(up="..") + ("from .multiarray import ndarray\n" if array else "from .symbol import Symbol\n")
    head += "from . import {0}npx_image as image, {0}npx_random as random\n".format("" if array else "sym_")
    head += "from ..buffers.array import wrap\n" if array else ""
    parts = [head, exported({*table, *operators, "image", "random", *(("NDArray", "wrap") if array else ())}), "\n"]
    parts += [text_of(n, f, value, n) for n, f in table.items()]
    return "".join(parts + [operator(n, d, space if array else SYMBOLIC) for n, d in operators.items()])


SYMBOLIC = Space("sym", "Symbol", "Symbol")


def npx_random(value: str) -> str:
    """``npx.random``."""
    head = HEAD.format(up="..") + ("from .multiarray import ndarray\n" if value == "ndarray"
                                   else "from .symbol import Symbol\n")
    table = found(extension.random, ["bernoulli", "uniform_n", "normal_n", "seed", "current_context"])
    return "".join([head, exported(table), "\n", *(text_of(n, f, value, f"random.{n}") for n, f in table.items())])


def texts() -> dict[str, str]:
    """Every file of NumPy's namespaces, by its path."""
    assert set(subspaces(NPX)) <= {"image", "random"}, subspaces(NPX)
    return {"numpy/__init__.pyi": np_text("ndarray"), "numpy/linalg.pyi": part_text("ndarray", "linalg"),
            "numpy/random.pyi": part_text("ndarray", "random"), "numpy/extension.pyi": npx_text("ndarray"),
            "numpy/npx_image.pyi": sub_text(NPX, "image"), "numpy/npx_random.pyi": npx_random("ndarray"),
            "graph/sym_np.pyi": np_text("Symbol"), "graph/sym_np_linalg.pyi": part_text("Symbol", "linalg"),
            "graph/sym_np_random.pyi": part_text("Symbol", "random"), "graph/sym_npx.pyi": npx_text("Symbol"),
            "graph/sym_npx_image.pyi": sub_text(SYMBOLIC, "image"), "graph/sym_npx_random.pyi": npx_random("Symbol")}
