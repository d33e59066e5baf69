"""The form of an exported network for NVIDIA GPUs: kernels compiled for some architectures, and a launcher in C over
the CUDA driver, which is opened when a model is loaded."""
from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterator, Sequence

from hybrid.codegen import cuda as printer

from ..base.atomic import write_bytes
from ..base.errors import AttributeValueError, HybridError
from ..ir import Node
from ..ir.parse import parse
from ..ir.stmt import text_of
from ..passes.pipeline import Planned, plan
from ..runtime.cuda import nvrtc, sources
from ..runtime.cuda.program import JOINING
from ..runtime.cuda.texts import share_functions
from . import source, weights
from .files import TYPES, arrays_said, constant_array, cpp_text, example_text, fingerprint, header_text, use_text
from .layout import Layout, Space
from .source import filled
from .specialized import Array, Specialized

ALIGNED = 256                            # bytes that arrays on a GPU begin at multiples of


@dataclass
class Places:
    """Where each pointer of the kernels points: ``where`` holds whether it is a weight, and the offset."""
    planned: Planned
    layout: Layout = field(default_factory=Layout)
    work: Space = field(default_factory=lambda: Space(unit=ALIGNED))
    where: list[tuple[int, int, str]] = field(default_factory=list)
    index: dict[Any, int] = field(default_factory=dict)
    arena: int = 0

    def __post_init__(self) -> None:
        self.layout.arrays = Space(unit=ALIGNED)

    def add(self, key: Any, is_weight: bool, nbytes: int, words: str) -> None:
        """A place of its own."""
        self.index[key] = len(self.where)
        self.where.append((int(is_weight), (self.layout.arrays if is_weight else self.work).take(nbytes), words))

    def weight(self, key: Any, a: Array) -> None:
        """The place of a weight."""
        self.add(key, True, a.nbytes, a.name)
        self.layout.weights.append(a)
        self.layout.places.append((True, self.where[-1][1]))

    def find(self, n: Any) -> int:
        """The number of a value's place; intermediate values get theirs when first asked for."""
        if n not in self.index:
            base, offset = (n.base, n.offset) if isinstance(n, printer.At) else (n, 0)
            if not isinstance(base, Node):
                is_weight, start = 0, self.arena + self.planned.memory.arena
            elif base in self.index:
                is_weight, start, _ = self.where[self.index[base]]
            else:
                is_weight, start = 0, self.arena + self.planned.memory.offsets[base]
            self.index[n] = len(self.where)
            self.where.append((is_weight, start + offset, "a value on the way"))
        return self.index[n]


def _places(what: Specialized, planned: Planned, scratch: int) -> Places:
    out, fused = Places(planned), planned.fused
    for slot, (n, a) in enumerate(zip(fused.program.inputs, what.inputs)):
        if slot < what.arguments:
            out.add(n, False, a.nbytes, a.name)
        else:
            out.weight(n, a)
    kept = [*(n for k in fused.kernels for n in k.reads), *(n for n, _ in fused.results)]
    for n in dict.fromkeys(n for n in kept if n.prim == "data"):
        value = source.constant(n)
        out.weight(n, Array(f"hybrid.constant{len(out.layout.weights)}", value.shape, value.dtype, value))
    for n in dict.fromkeys(n for n, _ in fused.results):
        if n not in out.index:
            out.add(n, False, n.nbytes, "a result")
    out.arena = out.work.take(planned.memory.arena + scratch)
    return out


def write_cuda(folder: Path, name: str, what: Specialized, architectures: Sequence[str]) -> list[Path]:
    """Write a network in this form; the paths of its files."""
    if not (isinstance(architectures, (list, tuple))
            and all(isinstance(a, str) and re.fullmatch(r"sm_\d+a?", a) for a in architectures)):
        raise AttributeValueError(f"cuda is a tuple of architectures, such as cuda=(\"sm_80\", \"sm_90\"); got "
                                  f"{architectures!r}")
    if what.training is not None or what.program.updates:
        raise HybridError("the CUDA form is of networks that predict, and this function makes training steps: leave "
                          "out cuda")
    oldest = min(architectures, key=lambda a: int(re.sub(r"\D", "", a)))     # what it has, all others have
    with printer.printing_for(oldest):
        planned = plan(what.program, JOINING)
    text = printer.print_program(planned.groups, arch=oldest)
    places = _places(what, planned, text.scratch)
    kernels, names = share_functions(parse(text.source), [launch.name for launch in text.launches])
    whole = "\n".join([f"// The kernels of {name}, written by hybrid.", _inlined(text_of(kernels))])
    program = _program(name, what, places, text.launches, names)
    mark = fingerprint(what, places.layout, program + whole)
    contents = {f"{name}.c": program, f"{name}.h": header_text(name, what, mark), f"{name}.hpp": cpp_text(name, what),
                f"{name}.cu": whole, f"{name}_images.h": "\n".join(_images(whole, architectures)) + "\n",
                "example.c": example_text(name, what), "CMakeLists.txt": filled("cuda/CMakeLists.txt", name),
                "README.md": filled("cuda/README.md", name, USE=use_text(what),
                                    ARCHITECTURES=", ".join(architectures))}
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in contents.items():
        write_bytes(folder / file, content.replace("@NAME@", name.upper()).replace("@name@", name).encode())
    weights.write(folder / f"{name}.weights", {a.name: a.value for a in places.layout.weights if a.value is not None},
                  mark)
    return [folder / file for file in (*contents, f"{name}.weights")]


def _inlined(text: str) -> str:
    """A text with hybrid's own headers in the place of their names."""
    headers, seen = sources.device_headers(), set()

    def put(m: re.Match[str]) -> str:
        if m[1] not in headers or m[1] in seen:
            return "" if m[1] in seen else m[0]
        seen.add(m[1])
        return include.sub(put, headers[m[1]].replace("#pragma once", ""))
    include = re.compile(r'^#include "(\w+\.\w+)".*$', re.MULTILINE)
    return include.sub(put, text)


def _images(text: str, architectures: Sequence[str]) -> Iterator[str]:
    """NAME_images.h: the compiled kernels."""
    yield "/* The kernels, compiled; included by the file of the model alone. */"
    yield "typedef struct { int major, minor, text; const void *bytes; } hy_image;"
    rows = []
    for a in architectures:
        compiled = nvrtc.compile(text, a).cubin
        major, minor = divmod(int(re.sub(r"\D", "", a)), 10)
        is_text = int(not compiled.startswith(b"\x7fELF"))
        rows.append(f"{{{major}, {minor}, {is_text}, hy_{a}}}")
        data = compiled + bytes(-len(compiled) % 8 + 8 * is_text)
        yield from constant_array(f"static const unsigned long long hy_{a}[] = {{", [
            f"0x{int.from_bytes(data[i:i + 8], 'little'):x}u" for i in range(0, len(data), 8)])
    yield f"enum {{ HY_IMAGES = {len(rows)} }};"
    yield f"static const hy_image hy_images[] = {{{', '.join(rows)}}};"


def _program(name: str, what: Specialized, places: Places, launches: Sequence[Any], names: Sequence[str]) -> str:
    """NAME.c: the launcher with its tables."""
    functions = list(dict.fromkeys(names))
    arguments: list[int] = []
    rows = []
    for launch, function in zip(launches, names):
        own = [places.find(n) for n in launch.args]
        rows.append(f"  {{{functions.index(function)}, {launch.blocks}, {launch.threads}, {launch.shared}, "
                    f"{len(arguments)}, {len(own)}}},")
        arguments += own
    fused, program = places.planned.fused, what.program
    results = [places.index[fused.results[k][0]] if kind == "output" else places.index[program.inputs[k]]
               for kind, k in what.picks]
    most = max((len(launch.args) for launch in launches), default=0)
    sizes = {"KERNELS": len(functions), "LAUNCHES": len(rows), "PLACES": len(places.where), "MOST_ARGUMENTS": most,
             "WEIGHTS": len(places.layout.weights), "ARRAYS_BYTES": max(places.layout.arrays.size, ALIGNED),
             "WORK_BYTES": max(places.work.size, ALIGNED)}
    codes = ", ".join(f'"{weights.CODES[t]}"' for t in TYPES)
    given = what.inputs[:what.arguments]
    tables = [
        *source.rows(given, name, f"{name}_inputs", True), *source.rows(what.outputs, name, f"{name}_outputs", True),
        f"static const char *const hy_dtype_names[] = {{{codes}}};",
        *source.rows(places.layout.weights, name, "hy_weights", False),
        f"static const size_t hy_weight_offsets[] = {{{', '.join(str(at) for _, at in places.layout.places) or 0}}};",
        "/* where each pointer of the kernels points: among the weights or in the memory of a call, and the offset */",
        "static const struct { int weight; size_t offset; } hy_where[] = {",
        *(f"  {{{is_weight}, {offset}}},".ljust(28) + f"/* {i}  {words} */"
          for i, (is_weight, offset, words) in enumerate(places.where)), "};",
        f"static const char *const hy_kernels[] = {{{', '.join(chr(34) + f + chr(34) for f in functions) or 'NULL'}}};",
        "typedef struct { int kernel; unsigned blocks, threads, shared; int first, count; } hy_launch;",
        "static const hy_launch hy_launches[] = {", *(rows or ["  {0, 0, 0, 0, 0, 0},"]), "};",
        f"static const int hy_arguments[] = {{{', '.join(map(str, arguments)) or 0}}};",
        f"static const int hy_results[] = {{{', '.join(map(str, results)) or 0}}};"]
    parts = [f"/* {name}: a compiled network for NVIDIA GPUs, written by hybrid: {name}.h says how it is used. Inputs:",
             arrays_said(given), " */", "#ifndef _GNU_SOURCE\n#define _GNU_SOURCE\n#endif", f'#include "{name}.h"',
             "#include <stdio.h>", "#include <stdlib.h>", "#include <string.h>", f'#include "{name}_images.h"',
             *(f"#define HY_{k} {v}" for k, v in sizes.items()), *tables, "", filled("cuda/driver.h", name),
             *(filled(part, name) for part in ("weights.h", "errors.h", "cuda/model.h", "load.h", "check.h",
                                          "cuda/run.h"))]
    return "\n".join(parts)
