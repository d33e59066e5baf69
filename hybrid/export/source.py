"""The C text of an exported program."""
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Iterable, Sequence

import numpy as np

from hybrid.codegen import c as printer
from hybrid.codegen.dialect import C
from hybrid.codegen.program.local import thread_bytes
from hybrid.codegen.program.outlining import Outliner, changed, without_threads
from hybrid.codegen.program.plain import sized, standard, support
from hybrid.codegen.targets import NO_VECTORS
from hybrid.kernels import text as kernel_text

from ..ir import Node
from ..ir.expressions import Expression, Tree, integer, rebuilt, spelled
from ..ir.line_reader import changed_line
from ..ir.parse import Words, flat, nested, parse
from ..ir.parse import words as lexed
from ..ir.size import fixed
from ..ir.stmt import Function, Stmt
from ..runtime.build import Listing
from .layout import Layout
from .naming import named
from .rates import statements
from .simpler import simpler, with_read_parameters
from .sizes import OpenSizes
from .specialized import Array
from .training import Training

# what texts say where no size is a call's
FIXED_SIZES = {"SIZES": "", "SIZES_TYPE": "", "SIZES_API": "", "FIT": "", "AND_FIT": "", "SIZES_WORDS": "",
               "SIZES_SAID": "", "SIZES_READ": "", "FILES": 3, "INPUT_BYTES": "@name@_inputs[i].bytes",
               "OUTPUT_BYTES": "@name@_outputs[i].bytes"}
STACK = 1 << 18                          # bytes of a thread's stack beside the arrays that kernels have there


def address(n: Node, plain: str) -> str:
    """The address of a value, of its type."""
    return f"({C.storage(n.dtype)} *){plain}"


def constant(n: Node) -> np.ndarray:
    """The array of a value that is written in the program."""
    return np.frombuffer(n.attrs["value"], n.dtype).reshape(n.shape)


def filled(template: str, name: str, **words: object) -> str:
    """A text of kernels/export with the model's name, and other words, in it."""
    text = kernel_text("export", template)
    for key, value in {**words, **FIXED_SIZES, **words}.items():
        text = text.replace(f"@{key}@", str(value))
    return text.replace("@NAME@", name.upper()).replace("@name@", name)


def _commented(net: Iterable[Stmt], name: str, slots: Sequence[tuple[str, str]]) -> list[Stmt]:
    """The function that runs all kernels, each slot of its table with what is there; the last one is the workspace. An
    address of any type is cast once."""
    workspace = Tree("cast", ("char *", Tree("[]", ("b", str(len(slots) - 1)))))

    def said(x: Expression) -> Expression:
        if x == workspace:
            return "workspace"
        if isinstance(x, Tree) and x.op == "[]" and x.args[0] == "b":
            slot = integer(x.args[1])
            return x if slot is None or slot == len(slots) - 1 else Tree("[]", ("b", f"{slot} /* {slots[slot][1]} */"))
        inner = x.args[1] if isinstance(x, Tree) and x.op == "cast" else x
        return inner if isinstance(inner, Tree) and inner.op == "call" and inner.args[0] == "HY_ANY" else x

    def whole(s: Function) -> Function:
        body = nested(line if any(line[i:i + 2] == ("c", "[") for i in range(len(line))) else
                      changed_line(line, lambda p: rebuilt(p, said)) for line in flat(s.body))
        if any("workspace" in line for line in flat(body)):
            body = (*parse(f"char *const workspace = {spelled(workspace)};"), *body)
        return replace(s, name=name, before=lexed("HY_APART static void "), body=body) if s.name == "net" else s
    return [whole(s) if isinstance(s, Function) else s for s in net]


def _hint(line: Words) -> Words:
    """A line; hints for vectors are a macro (HY_OMP)."""
    spaces = int(bool(line) and line[0].isspace())
    if line[spaces:spaces + 6] == ("#", "pragma", " ", "omp", " ", "simd"):
        return (*line[:spaces], "HY_OMP", "(", *line[spaces + 5:], ")")
    return line


@dataclass
class Kernels:
    """The printed functions of a program, without pragmas for threads. before: what stands before them; own: bytes of
    each thread in the workspace; with_team: functions that take the team; stack: bytes of arrays on a thread's
    stack."""
    code: tuple[Stmt, ...]
    before: tuple[Stmt, ...]
    own: int
    with_team: set[str]
    stack: int


def kernels(listing: Listing, layout: Layout, names: Sequence[str], serial: bool = False) -> Kernels:
    """Kernels, and the functions that run them. serial: for one thread."""
    functions, net = named(listing, "k", names)
    body = [*parse(listing.text.support), *functions, *_commented(net, "hy_net", layout.run)]
    if listing.prepare is not None:
        packing, own = named(listing.prepare, "pack", [n for _, n in layout.prepare])
        body += [*parse(listing.prepare.text.support), *packing, *_commented(own, "hy_packing", layout.prepare)]
    body = without_threads(body) if serial else body
    done = Outliner().run(body)
    both = [listing.text, *([listing.prepare.text] if listing.prepare is not None else [])]
    dtypes = sorted({d for t in both for d in t.dtypes}, key=str)
    before = printer.before(flat(body), dtypes, listing.target, any(t.vectors for t in both), exported=True)
    code = simpler(with_read_parameters(simpler(done.code)))
    return Kernels(changed(code, _hint), changed(parse(before), _hint), done.own, done.with_team,
                   thread_bytes(body))


def program(name: str, listing: Listing, layout: Layout, names: Sequence[str], training: Training | None,
            open_sizes: OpenSizes) -> str:
    """Kernels, the functions that run them, and what they need of kernels/."""
    done = kernels(listing, layout, names)
    threads = ["#define HY_LOOPS 0                  /* no loop is worth several threads */", "#define HY_THREADED 0"]
    if done.with_team:
        threads = [f"#define HY_STACK_BYTES {STACK + 2 * done.stack}", filled("team.h", name, THREADED=1).rstrip(),
                   filled("pool.h", name).rstrip()]
    plain = listing.target.vector <= NO_VECTORS
    rate = training is not None and training.slot is not None
    words = {"MORE_TYPE": ", double rate" if rate else open_sizes.declared(),
             "MORE": ", rate" if rate else open_sizes.given()}
    both = (*done.before, *done.code)
    head = "\n".join([title("threads"), f"#define HY_OWN_BYTES {done.own}                /* of each thread, in the "
                      "workspace */", *threads,
                      "#define HY_ENTRY static" if plain else filled("variant.h", name).rstrip(),
                      title("functions of numbers and vectors"), *(support(both) if plain else [])])
    calls = "\n".join(["", *_calls(listing, layout, done.with_team, training, open_sizes),
                       *([] if plain else ["#endif", filled("dispatch.h", name, **words).rstrip()])])
    code = [*parse(head), *done.before, *parse(title("kernels")), *done.code, *parse(calls)]
    return QUIET + "\n" + (standard(code) if plain else sized(code))


def title(words: str) -> str:
    """A comment that begins a part of a file."""
    return f"/* ---- {words} {'-' * (107 - len(words))} */"


# the kernels are vector code in GNU's C, and the printers declare what few kernels read
QUIET = """#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wunknown-warning-option"
#pragma GCC diagnostic ignored "-Wpedantic"                     /* vectors and expressions of statements are GNU's */
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Waggressive-loop-optimizations"   /* of remainders of no elements */
#pragma GCC diagnostic ignored "-Wuninitialized"                /* rows of tiles that nobody reads */
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wtype-limits"
#pragma GCC diagnostic ignored "-Wpsabi"
#endif
/* an address of any type, which C++ wants to be told */
#ifdef __cplusplus
struct hy_any { void *p; template <class T> operator T *() const { return static_cast<T *>(p); } };
#define HY_ANY(x) hy_any{x}
#else
#define HY_ANY(x) ((void *)(x))
#endif
/* a kernel that is compiled by itself, as in Python, where large programs are several files: the same bits */
#if defined(__GNUC__) && !defined(__clang__) && !defined(__TINYC__)
#define HY_APART __attribute__((noipa))
#else
#define HY_APART
#endif
/* "omp simd" works with -fopenmp-simd; C++ compilers without it warn of the pragma, whatever they are told above */
#if !defined(__GNUC__) || defined(__TINYC__) || defined(__cplusplus) && !defined(_OPENMP)
#define HY_OMP(words)
#else
#define HY_PRAGMA(words) _Pragma(#words)
#define HY_OMP(words) HY_PRAGMA(omp words)
#endif"""  # noqa: E501


def table(slots: Sequence[tuple[str, str]]) -> list[str]:
    """Statements that fill a table of pointers."""
    return [f"  b[{i}] = {value};".ljust(44) + f"/* {what} */" for i, (value, what) in enumerate(slots)]


def _numbers(training: Training) -> list[str]:
    """The function that computes an optimizer's numbers."""
    lines = statements(training.numbers or [])
    return ["/* The numbers of the optimizer's update in step t. */",
            "static void hy_rates(double rate, double t, double *n) {", "  (void)rate, (void)t;",
            *("  " + line for line in lines), "}"]


def _calls(listing: Listing, layout: Layout, with_team: set[str], training: Training | None,
           open_sizes: OpenSizes) -> list[str]:
    """The functions that fill the tables and run the programs."""
    rate = training is not None and training.slot is not None
    own = f"workspace + {layout.workspace.size}"

    def run(function: str, memory: str, pool: str) -> list[str]:
        if function not in with_team:
            return [f"  {function}(b);"]
        return [f"  const hy_team team = {{m->threads > 1 ? {parts_a_thread()} * m->threads : 1, 0, 1, {memory}, "
                f"{pool}}};",
                f"  {function}(&team, b);"]
    advance = [f"  hy_rates(rate, (double)*(const int64_t *)(const void *)(m->arrays + {layout.counter}), "
               f"(double *)b[{training.slot}]);"] if rate and training is not None else []
    out = [*(_numbers(training) if rate and training is not None else []),
           "/* One call: the table of all arrays, then the kernels. */",
           f"HY_ENTRY void hy_call(const struct @name@_model *m, char *workspace, const void *const *inputs, "
           f"void *const *outputs{', double rate' if rate else open_sizes.declared()}) {{",
           "  (void)m, (void)inputs, (void)outputs;",
           *([f"  const int64_t sizes[] = {{{open_sizes.table()}}};"] if open_sizes else []),
           f"  void *b[{len(layout.run)}];", *table(layout.run), *advance,
           *run("hy_net", own, "m->pool"), *("  " + line for line in layout.after), "}"]
    out += ["/* Values that the kernels take from the weights, computed once. once: memory that is free afterwards. */",
            "HY_ENTRY void hy_prepare(struct @name@_model *m, char *once) {", "  (void)m, (void)once;"]
    if listing.prepare is not None:
        layout_own = layout.temporary.take(0)
        out += [f"  void *b[{len(layout.prepare)}];", *table(layout.prepare),
                *run("hy_packing", f"once + {layout_own}", "NULL")]
    return [*out, "}"]


def parts_a_thread() -> int:
    """Parts of a parallel loop for each thread, as kernels/c/pool.h has them: who comes late does fewer."""
    text = lexed(kernel_text("c", "pool.h"))
    return int(text[text.index("HY_PARTS") + 4])


def rows(what: Sequence[Array], name: str, table: str, public: bool) -> list[str]:
    """A table of arrays: names, dtypes, shapes."""
    shapes = [f"static const int64_t {table}_shape{i}[] = {{{', '.join(map(str, lengths))}}};"
              for i, a in enumerate(what) if (lengths := [d if fixed(d) else -1 for d in a.shape])]
    lines = [f'  {{"{a.name}", {name.upper()}_{_enum(a.dtype)}, {len(a.shape)}, '
             f'{f"{table}_shape{i}" if a.shape else "NULL"}, {a.nbytes if fixed(a.nbytes) else 0}}},'
             for i, a in enumerate(what)]
    empty = [f'  {{"", {name.upper()}_FLOAT32, 0, NULL, 0}},'] if not what else []
    return [*shapes, f"{'' if public else 'static '}const {name}_array {table}[] = {{", *lines, *empty, "};"]


def _enum(d: np.dtype) -> str:
    return d.name.upper()
