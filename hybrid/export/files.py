"""The files of an exported model: program, header, weights, example, build file and a page that explains them."""
from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Iterable, Iterator, Sequence

from hybrid.codegen.targets import NO_VECTORS
from hybrid.kernels import text as kernel_text

from ..base.atomic import write_bytes
from ..ir.parse import lines_of
from ..runtime.build import Listing
from . import sizes, source, weights
from .layout import Layout
from .specialized import Array, Specialized
from .source import filled
from .wrapping import wrapped

STRUCT = """struct @name@_model {
  int threads;
  struct hy_pool *pool;
  char *arrays;                         /* weights and what is computed from them once, on a cache line */
  void *allocated;
  int level;                            /* of the instruction sets, where there are several */
};"""
SEED = """
/* Starts the random numbers of later steps again from a seed, as mx.random.seed does in Python. */
int @name@_seed(@name@_model *model, uint32_t seed);"""
TYPES = {"float32": "float", "float64": "double", "int64": "int64_t", "int32": "int32_t", "int16": "int16_t",
         "int8": "int8_t", "uint64": "uint64_t", "uint32": "uint32_t", "uint16": "uint16_t", "uint8": "uint8_t",
         "bool": "unsigned char", "float16": "uint16_t", "bfloat16": "uint16_t"}

COLUMNS = 112                            # characters of a line of numbers


def constant_array(head: str, numbers: Iterable[str]) -> Iterator[str]:
    """The lines of an array of constants, below its head."""
    yield head
    line = " "
    for n in numbers:
        if len(line) + len(n) > COLUMNS:
            yield line
            line = " "
        line += f" {n},"
    yield line + "};"


def fingerprint(what: Specialized, layout: Layout, text: str) -> str:
    """A name for a model's arrays and program, which its weights file repeats."""
    every = [*what.inputs[:what.arguments], *layout.weights, *what.outputs]
    said = "\n".join([str(weights.VERSION), *(f"{a.name} {a.dtype.name} {a.shape}" for a in every), text])
    return hashlib.sha256(said.encode()).hexdigest()[:32]


def _numbers(layout: Layout) -> list[str]:
    own = "HY_OWN_BYTES + " if layout.prepare else ""
    return [f"#define HY_WEIGHTS {len(layout.weights)}", f"#define HY_ARRAYS_BYTES {layout.arrays.size + 64}",
            f"#define HY_TEMPORARY_BYTES ({own}{layout.temporary.size})",
            f"#define HY_WORKSPACE_BYTES {layout.workspace.size}", f"#define HY_COUNT {layout.counter}",
            f"#define HY_RANDOM {layout.random}"]


def _weight_tables(layout: Layout, name: str) -> list[str]:
    places = ", ".join(f"{{{int(kept)}, {at}}}" for kept, at in layout.places) or "{0, 0}"
    codes = ", ".join(f'"{weights.CODES[t]}"' for t in TYPES)
    return [f"static const char *const hy_dtype_names[] = {{{codes}}};",
            *source.rows(layout.weights, name, "hy_weights", False),
            "/* where each weight goes: whether it stays in the model, and its offset */",
            f"static const struct {{ int kept; size_t offset; }} hy_places[] = {{{places}}};"]


def program_text(name: str, what: Specialized, listing: Listing, layout: Layout) -> str:
    """NAME.c."""
    kernels = source.program(name, listing, layout, [a.name for a in what.inputs], what.training, what.sizes)
    plain = listing.target.vector <= NO_VECTORS
    words = _size_words(what)
    parts = [f"/* {name}: a compiled network in plain C, written by hybrid.\n"
             f" * {name}.h says how it is used. Memory: {layout.arrays.size} bytes of weights, "
             f"{layout.workspace.size} bytes of workspace for each call that runs. */",
             # each by itself: a builder that asks for POSIX alone would have no madvise, and no huge pages
             *(f"#ifndef {macro}\n#define {macro}{value}\n#endif" for macro, value in
               (("_POSIX_C_SOURCE", " 200809L"), ("_DEFAULT_SOURCE", ""))),
             f'#include "{name}.h"', "#include <math.h>", "#include <stdio.h>", "#include <stdlib.h>",
             "#include <string.h>", "#ifdef __linux__\n#include <sys/mman.h>\n#endif", "",
             *_numbers(layout), "", *([] if plain else [f"#ifndef {name.upper()}_VARIANT"]),
             *source.rows(what.inputs[:what.arguments], name, f"{name}_inputs", True),
             *source.rows(what.outputs, name, f"{name}_outputs", True), *_weight_tables(layout, name),
             *([] if plain else ["#endif"]), "", STRUCT, "",
             kernels, "", *([filled("sizes.h", name, **words)] if what.sizes else []),
             *(filled(part, name, **words) for part in ("weights.h", "errors.h", "model.h", "load.h", "check.h")),
             filled("run.h" if what.training is None else "step.h", name, **_step_words(what))]
    parts += [] if plain else ["#endif"]
    text = "\n".join(parts).replace("@NAME@", name.upper()).replace("@name@", name)
    return "\n".join(wrapped(lines_of(text)))


def arrays_said(arrays: Sequence[Array]) -> str:
    """Lines of a comment: number, name, dtype and shape of arrays."""
    return "\n".join(f" *   {i}  {a.name}: {a.dtype.name}{list(a.shape)}" for i, a in enumerate(arrays))


def header_text(name: str, what: Specialized, mark: str) -> str:
    """NAME.h."""
    return filled("api.h", name, VERSION_NUMBER=weights.VERSION, FINGERPRINT=mark, COUNT_INPUTS=what.arguments,
                  COUNT_OUTPUTS=len(what.outputs), SAID_INPUTS=arrays_said(what.inputs[:what.arguments]),
                  SAID_OUTPUTS=arrays_said(what.outputs),
                  CALLS=filled("api_run.h" if what.training is None else "api_step.h", name,
                               **_step_words(what)).rstrip(),
                  SIZES_API=filled("api_sizes.h", name, **_size_words(what)) if what.sizes else "",
                  DTYPES=", ".join(f"{name.upper()}_{t.upper()}" for t in TYPES))


def _size_words(what: Specialized) -> dict[str, object]:
    return sizes.words(what.sizes, what.inputs[:what.arguments], what.outputs)


def _step_words(what: Specialized) -> dict[str, object]:
    """What the texts of a training step say of its arguments."""
    rate = what.training is not None and what.training.slot is not None
    more = _size_words(what)
    seed = what.training is not None and what.training.draws > 0
    results = [re.sub(r"\W", "_", a.name) for a in what.outputs]
    given = what.inputs[:what.arguments]
    typed = [*(f"const {TYPES[a.dtype.name]} *{t}" for a, t in zip(given, what.titles)),
             *(["double rate"] if rate else []),
             *(f"{TYPES[a.dtype.name]} *{t}" for a, t in zip(what.outputs, results))]
    return {"RATE": "double rate, " if rate else "", "GIVEN_RATE": ", rate" if rate else "",
            "RATE_VALUE": "rate, " if rate else "", "TYPED": "".join(f", {t}" for t in typed),
            "IN_VALUES": ", ".join(what.titles) or "0", "OUT_VALUES": ", ".join(results) or "0",
            "ADVANCE": "  ++*(int64_t *)(void *)(m->arrays + HY_COUNT);\n",
            "RATE_SAID": "rate: the learning rate." if rate else "", "RATE_WORD": "[rate [" if rate else "[",
            "RATE_READ": "  const double rate = argc > 4 ? atof(argv[4]) : 0.01;\n" if rate else "",
            **({} if what.training is None else {"FILES": 6 if rate else 5}),
            "SEED": kernel_text("export", "seed.h") if seed else "",
            "SEED_SAID": SEED if seed else "", **more}


def cpp_text(name: str, what: Specialized) -> str:
    """NAME.hpp."""
    rate = what.training is not None and what.training.slot is not None
    given, results = what.inputs[:what.arguments], [re.sub(r"\W", "_", a.name) for a in what.outputs]
    names = [*what.titles, *results]
    typed = [f"std::int64_t {n}" for n in what.sizes.names]
    typed += [f"span<const {TYPES[a.dtype.name]}> {t}" for a, t in zip(given, what.titles)]
    if rate:
        typed.append("double rate")
    typed += [f"span<{TYPES[a.dtype.name]}> {t}" for a, t in zip(what.outputs, results)]
    checks = [_fits(t, "input", i, what) for i, t in enumerate(what.titles)]
    checks += [_fits(t, "output", i, what) for i, t in enumerate(results)]
    tables = [f"    const void *const inputs_[] = {{{', '.join(f'{t}.data()' for t in what.titles) or 'nullptr'}}};",
              f"    void *const outputs_[] = {{{', '.join(f'{t}.data()' for t in results) or 'nullptr'}}};"]
    if what.training is None:
        lines = ["  // Computes the outputs from the inputs. Threads may call it at the same time.",
                 f"  void run({', '.join(typed)}) const {{", *checks, *tables,
                 f'    check(@name@_run(model_.get(){what.sizes.given()}, inputs_, outputs_), "@name@_run");', "  }"]
    else:
        call = [f"{n}.data()" for n in names]
        if rate:
            call.insert(len(given), "rate")
        lines = ["  // One training step; no other call may use the model meanwhile.",
                 f"  void step({', '.join(typed)}) {{",
                 *checks, f'    check(@name@_step(model_.get(), {", ".join(call)}), "@name@_step");', "  }",
                 "  void save(const std::string &path) const { check(@name@_save(model_.get(), path.c_str()), "
                 "path.c_str()); }"]
    return filled("api.hpp", name, METHODS="\n".join(lines))


def _fits(name: str, kind: str, i: int, what: Specialized) -> str:
    """The statement of C++ that checks an array's length."""
    nbytes = f"@name@_{kind}_bytes({i}{what.sizes.given()})" if what.sizes else f"@name@_{kind}s[{i}].bytes"
    return f"    fits({name}, @name@_{kind}s[{i}], {nbytes});"


def example_text(name: str, what: Specialized) -> str:
    """example.c: reads inputs from files of numbers, or takes zeros, and prints the outputs."""
    words = _step_words(what)
    does, call = "runs the model once and prints the first numbers of each output", "example_run.c"
    given, more = "@SIZES_WORDS@[input.bin … [output.bin …", "\n * output.bin: where an output goes, in the same form."
    if what.training is not None:
        does = ("makes some training steps with the same data, prints the first numbers of each output and\n"
                " * saves the model")
        given, more, call = f"[steps {words['RATE_WORD']}saved.weights [input.bin …", "", "example_step.c"
    return filled("example.c", name, CALL=kernel_text("export", call), DOES=does, OUTPUTS_SAID=more,
                  GIVEN=given + "]" * given.count("["), **words)


def use_text(what: Specialized) -> str:
    """The call in the page's example."""
    if what.training is None:
        return ("    const void *inputs[@NAME@_INPUTS] = {…};\n    void *outputs[@NAME@_OUTPUTS] = {…};\n"
                f"    error = @name@_run(model{what.sizes.given()}, inputs, outputs);")
    names = [*what.titles, *(["rate"] if what.training.slot is not None else []),
             *(re.sub(r"\W", "_", a.name) for a in what.outputs)]
    return (f"    error = @name@_step(model, {', '.join(names)});       // one training step, as often as wanted\n"
            f"    error = @name@_save(model, \"learned.weights\");")


def write_all(folder: Path, name: str, what: Specialized, listing: Listing, layout: Layout, flags: str) -> list[Path]:
    """Write all files; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    what.sizes.limit([layout.workspace.size, *(a.nbytes for a in what.inputs), *(a.nbytes for a in what.outputs)])
    text = program_text(name, what, listing, layout)
    mark = fingerprint(what, layout, text)
    kinds = {f"{name}.c": text, f"{name}.h": header_text(name, what, mark), f"{name}.hpp": cpp_text(name, what),
             "example.c": example_text(name, what),
             "CMakeLists.txt": filled("CMakeLists.txt", name, FLAGS=flags),
             "README.md": filled("README.md", name, FLAGS=flags, USE=use_text(what))}
    for file, content in kinds.items():
        write_bytes(folder / file, content.encode())
    weights.write(folder / f"{name}.weights", {a.name: a.value for a in layout.weights if a.value is not None}, mark)
    return [folder / file for file in (*kinds, f"{name}.weights")]
