"""The form of an exported network for devices without an operating system: no heap, files, threads or input and output;
weights are constants, and the workspace is a static array."""
from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Iterator, Sequence

import numpy as np

from hybrid.codegen.program.plain import standard, support

from ..base.atomic import write_bytes
from ..base.errors import HybridError
from ..ir import Node
from ..ir.parse import lines_of, parse
from ..passes.pipeline import Planned
from ..runtime.build import Listing
from . import source
from .files import TYPES, arrays_said, constant_array, fingerprint
from .layout import Layout, lay_out_constants
from .source import filled
from .specialized import Array, Specialized
from .wrapping import wrapped

FILES = ("semihosting.h", "startup.c", "mps2.ld")


def write_device(folder: Path, name: str, what: Specialized, listing: Listing) -> list[Path]:
    """Write a network in this form; the paths of its files."""
    if what.training is not None:
        raise HybridError("the form for devices is of networks that predict, and this function makes training steps: "
                          "leave out device=True")
    layout = lay_out_constants(what, listing)
    text, words = _program(name, what, listing, layout)
    words["FINGERPRINT"] = fingerprint(what, layout, text)
    contents = {f"{name}.c": text, f"{name}.h": filled("device/api.h", name, **words),
                f"{name}_weights.h": "\n".join(_constants(name, layout.weights)) + "\n",
                "example.c": _example(name, what, words), "Makefile": filled("device/Makefile.txt", name),
                "README.md": filled("device/README.md", name, **words),
                **{file: filled(f"device/{file}", name) for file in FILES}}
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in contents.items():
        write_bytes(folder / file, content.encode())
    return [folder / file for file in contents]


def _program(name: str, what: Specialized, listing: Listing, layout: Layout) -> tuple[str, dict[str, object]]:
    """NAME.c, and what the other files say of it."""
    done = source.kernels(listing, layout, [a.name for a in what.inputs], serial=True)
    words = _words(what, layout, done)
    wide = any(n.dtype.itemsize == 8 for n in _nodes(listing.planned))
    team = [filled("team.h", name, THREADED=0).rstrip(), "enum { hy_threads = 1 };"] if done.with_team else []
    call = "  hy_net(b);"
    if done.with_team:
        call = f"  const hy_team team = {{1, 0, 1, workspace + {layout.workspace.size}, NULL}};\n  hy_net(&team, b);"
    run = filled("device/run.h", name, **words, TABLE="\n".join([f"  void *b[{len(layout.run)}];",
                                                                 *source.table(layout.run)]), CALL=call)
    functions = [*parse("\n".join([source.title("functions of numbers"), *team, *support((*done.before, *done.code))])),
                 *done.before]
    text = "\n".join([f"/* {name}: a compiled network in plain C for devices without an operating system, written by "
                      f"hybrid.\n * {name}.h says how it is used. */", f'#include "{name}.h"', "#include <math.h>",
                      "#include <stddef.h>", "#include <string.h>", f'#include "{name}_weights.h"', "", source.QUIET,
                      standard(functions), source.title("kernels"), standard(done.code, wide), "", run])
    text = text.replace("@NAME@", name.upper()).replace("@name@", name)
    return "\n".join(wrapped(lines_of(text))), words


def _nodes(planned: Planned) -> Iterator[Node]:
    """All values of a program, those in loops included."""
    yield from planned.fused.program.order()
    for k in planned.fused.kernels:
        if k.kind == "loop":
            yield from _nodes(k.inner)


def _words(what: Specialized, layout: Layout, done: source.Kernels) -> dict[str, object]:
    given, results = what.inputs[:what.arguments], [re.sub(r"\W", "_", a.name) for a in what.outputs]
    typed = [*(f"const {TYPES[a.dtype.name]} *{t}" for a, t in zip(given, what.titles)),
             *(f"{TYPES[a.dtype.name]} *{t}" for a, t in zip(what.outputs, results))]
    sizes = [f"#define @NAME@_{t.upper()}_SIZE {_elements(a)}        /* elements */"
             for a, t in zip([*given, *what.outputs], [*what.titles, *results])]
    return {"SAID_INPUTS": arrays_said(given), "SAID_OUTPUTS": arrays_said(what.outputs),
            "WEIGHT_BYTES": sum(a.nbytes for a in layout.weights),
            "WORKSPACE_BYTES": max(layout.workspace.size + done.own, 8), "STACK_BYTES": done.stack,
            "SIZES": "\n".join(sizes), "TYPED": ", ".join(typed), "IN_VALUES": ", ".join(what.titles) or "0",
            "OUT_VALUES": ", ".join(results) or "0", "VALUES": ", ".join([*what.titles, *results])}


def _elements(a: Array) -> int:
    return a.nbytes // a.dtype.itemsize


def _constants(name: str, arrays: Sequence[Array]) -> Iterator[str]:
    """NAME_weights.h: arrays of numbers."""
    yield f"/* The weights of {name}: constants, included by {name}.c alone. */"
    for i, a in enumerate(arrays):
        assert a.value is not None
        head = f"static const {TYPES[a.dtype.name]} hy_weight{i}[] = {{          /* {a.name}{list(a.shape)} */"
        yield from constant_array(head, map(_number, _stored(a.value)))


def _stored(value: np.ndarray) -> Iterator[np.generic]:
    """Elements as C has them: half types as their bits; an empty array has one element."""
    flat = np.ascontiguousarray(value).reshape(-1)
    if flat.dtype.name in ("float16", "bfloat16"):
        flat = flat.view(np.uint16)
    yield from (flat if flat.size else np.zeros(1, flat.dtype))


def _number(x: Any) -> str:
    if x.dtype.kind == "b":
        return str(int(x))
    if x.dtype.kind in "iu":
        suffix = {8: "ll" if x.dtype.kind == "i" else "ull"}.get(x.dtype.itemsize, "u" if x.dtype.kind == "u" else "")
        least = x.dtype.kind == "i" and x.dtype.itemsize >= 4 and int(x) == np.iinfo(x.dtype).min
        return f"({int(x) + 1}{suffix} - 1)" if least else f"{int(x)}{suffix}"
    if not np.isfinite(x):
        return "NAN" if np.isnan(x) else "INFINITY" if x > 0 else "-INFINITY"
    return f"{x!s}f" if x.dtype == np.float32 else repr(float(x))


def _example(name: str, what: Specialized, words: dict[str, object]) -> str:
    """example.c: one call, on zeros."""
    results = [re.sub(r"\W", "_", a.name) for a in what.outputs]
    every = list(zip([*what.inputs[:what.arguments], *what.outputs], [*what.titles, *results]))
    arrays = [f"static {TYPES[a.dtype.name]} {t}[@NAME@_{t.upper()}_SIZE];" for a, t in every]
    prints = [f"  for (int32_t i = 0; i < @NAME@_{t.upper()}_SIZE && i < 10; i++) print_number((float){t}[i]), "
              f'print_text("\\n");' for t in results]
    return filled("device/example.c", name, **words, ARRAYS="\n".join(arrays), PRINTS="\n".join(prints)).replace(
        "@NAME@", name.upper())
