"""Programs without OpenMP: each parallel region becomes a function of its own, which a team of threads calls
(kernels/export/team.h), and memory of a thread's own lies in the caller's workspace.

The statements that the printers make have regions of two kinds, ``#pragma omp parallel for`` before a loop and
``#pragma omp parallel`` before a statement with ``#pragma omp for`` loops in it. What a region reads of its
surroundings is passed in a structure.
"""
from __future__ import annotations

from dataclasses import field, replace
from typing import Callable, Iterable, Iterator, NamedTuple, Sequence

from hybrid.base.records import dataclass
from hybrid.ir.expressions import Declaration
from hybrid.ir.line_reader import declared, parameters, read
from hybrid.ir.parse import Counted, Words, closing, counted, flat, nested, parsed, used_words, words
from hybrid.ir.stmt import Block, Code, For, Function, Scope, Stmt, spelled

TEAM = "const hy_team *hy"
CACHE_LINE = 64
_THREADS = {"parallel", "for", "single"}          # words of pragmas that make or divide work among threads


@dataclass
class Outlined:
    """Statements without pragmas for threads. own: bytes that each thread has in the workspace."""
    code: list[Stmt]
    own: int = 0
    with_team: set[str] = field(default_factory=set)


class Pragma(NamedTuple):
    """``#pragma omp`` and what it says: its words, and how many threads that makes, in C; nothing where it does not
    say."""
    words: frozenset[str]
    threads: str

    @property
    def simd(self) -> list[Stmt]:
        """What is left of it for one thread."""
        return [Code(words("#pragma omp simd"))] if "simd" in self.words else []


def pragma(s: Stmt) -> Pragma | None:
    """What a line says to OpenMP about threads."""
    if not isinstance(s, Code) or s.words[:5] != ("#", "pragma", " ", "omp", " ") or _THREADS.isdisjoint(s.words[5:8]):
        return None
    threads, condition = _clause(s.words, "num_threads"), _clause(s.words, "if").removeprefix("parallel: ")
    return Pragma(frozenset(s.words[:10]), f"({condition}) ? {threads or 'hy_threads'} : 1" if condition else threads)


def _clause(line: Words, name: str) -> str:
    """The text in the parentheses of a clause, nothing without it."""
    if name not in line:
        return ""
    at = line.index("(", line.index(name))
    return "".join(line[at + 1:closing(line, at)])


def changed(body: Iterable[Stmt], f: Callable[[Words], Words]) -> tuple[Stmt, ...]:
    """Statements whose lines are changed."""
    return nested(map(f, flat(body)))


def _mapped(s: Stmt, f: Callable[[Sequence[Stmt]], Sequence[Stmt]]) -> Stmt:
    """A statement with a change of what it holds."""
    return replace(s, body=tuple(f(s.body))) if isinstance(s, (For, Scope, Block, Function)) else s


def without_threads(body: Iterable[Stmt]) -> list[Stmt]:
    """Statements for one thread: without pragmas of OpenMP that make or divide work among threads."""
    return [_mapped(s, without_threads) for s in body if pragma(s) is None]


class Outliner:
    """Makes the functions of a program free of OpenMP."""

    def __init__(self) -> None:
        self.parts: list[Stmt] = []
        self.own = 0

    # ---- whole programs
    def run(self, code: Iterable[Stmt]) -> Outlined:
        """The program with regions as functions; every function that has one, or calls one that does, takes the
        team."""
        code = [_mapped(s, lambda body: changed(body, self._memory)) for s in code]
        wanted = _with_team([s for s in code if isinstance(s, Function)])
        out: list[Stmt] = []
        for s in code:
            if isinstance(s, Function) and s.name in wanted:
                s = replace(s, parameters=words(f"{TEAM}, ") + s.parameters,
                            body=changed(s.body, lambda line: _calling(line, wanted)))
                out += self._function(s)
            else:
                out.append(_declared_with_team(s, wanted))
        return Outlined(out, self.own, wanted)

    def _memory(self, line: Words) -> Words:
        """An array that is too large for a stack, in the thread's own part of the workspace."""
        if "hy_large" not in line:
            return line
        begin, call = line.index("__attribute__"), line.index("hy_large")
        size, at = int(line[call + 2].removesuffix("l")), self.own
        self.own += -(-size // CACHE_LINE) * CACHE_LINE
        value = line.index("=")
        return (*line[:begin], *line[value:call], *words(f"HY_ANY(hy->own + {at}l);"))

    # ---- one function
    def _function(self, f: Function) -> list[Stmt]:
        self.parts = []
        body = self._body(f, f.body, list(parameters(f.parameters)))
        return [*parsed(map(_of_team, flat(self.parts))), replace(f, body=changed(body, _of_team))]

    def _body(self, f: Function, body: Sequence[Stmt], known: list[Declaration], inside: bool = False) -> list[Stmt]:
        """Statements in which regions are calls. known: variables there are before them. inside: of a region itself."""
        out: list[Stmt] = []
        known = [*known]
        for said, s in _with_pragmas(body):
            if said is None:
                own = list(_declared_by(s))
                out.append(_mapped(s, lambda inner: self._body(f, inner, [*known, *own], inside)))
                known += own if isinstance(s, Code) else []
            elif "parallel" in said.words and not inside:
                out.append(self._region(f, known, said, s))
            elif "parallel" not in said.words:
                inner = self._body(f, [s], known, inside)
                out += [_divided(inner, said)] if "for" in said.words else [_first(inner)]
        return out

    def _region(self, f: Function, known: list[Declaration], said: Pragma, s: Stmt) -> Stmt:
        """A call of a function of its own, for a statement that a team of threads runs."""
        alone = _alone([s])
        inside = [_divided(alone, said)] if "for" in said.words else self._body(f, alone, known, True)
        used = used_words(alone)
        latest = {d.name: d for d in known}                       # the innermost of each name
        taken = [d for d in known if d.name in used and d.name != "hy" and latest[d.name] is d]
        number = sum(isinstance(p, Function) for p in self.parts)
        part, kind = f"{f.name}_part{number or ''}", f"struct {f.name}_shared{number or ''}"
        self.parts += [Code(words(_structure(kind, taken))),
                       Function(words("static void "), part, words(f"const void *hy_given, {TEAM}"), (" ", "{"),
                                (*_unpacked(kind, taken), *inside))]
        values = ", ".join(d.name for d in taken) or "0"
        return Scope(tuple(Code(words(line)) for line in (
            f"const {kind} hy_shared = {{{values}}};",
            f"hy_run(hy, {part}, &hy_shared, {said.threads or 'hy_threads'});")))


def _with_pragmas(body: Sequence[Stmt]) -> Iterator[tuple[Pragma | None, Stmt]]:
    """Statements, each with the pragma for threads before it."""
    said = None
    for s in body:
        found = pragma(s)
        if found is None:
            yield said, s
        said = found


def _declared_by(s: Stmt) -> Iterable[Declaration]:
    """The variables of a line, or of a statement that holds others, for those."""
    if isinstance(s, For):
        return [Declaration(s.type, "", s.var)]
    if isinstance(s, Block):
        return declared(s.head)
    found = read(s.words) or () if isinstance(s, Code) and s.words[:1] != ("{",) else ()
    return [p for p in found if isinstance(p, Declaration)]


def _alone(body: Iterable[Stmt]) -> list[Stmt]:
    """A region's statements without regions in it, and what is shared in those: a thread runs them alone."""
    out: list[Stmt] = []
    for said, s in _with_pragmas(list(body)):
        if said is not None and "parallel" in said.words:
            inner = _alone([s])
            out += [*said.simd, *(inner if "for" in said.words else without_threads(inner))]
        else:
            kept = [_pragma_line(said)] if said is not None else []
            out += [*kept, _mapped(s, _alone)]
    return out


def _pragma_line(said: Pragma) -> Code:
    kind = "single" if "single" in said.words else "for simd" if "simd" in said.words else "for"
    return Code(words(f"#pragma omp {kind}"))


def _structure(kind: str, taken: list[Declaration]) -> str:
    members = [f"{d.member};" for d in taken] or ["char nothing;"]
    return f"{kind} {{ {' '.join(members)} }};"


def _unpacked(kind: str, taken: list[Declaration]) -> list[Stmt]:
    given = [f"const {kind} *const hy_shared = (const {kind} *)hy_given;", "(void)hy;",
             *(f"{d.constant} = hy_shared->{d.name};" for d in taken)]
    return [Code(words(line)) for line in (given if taken else ["(void)hy_given, (void)hy;"])]


def _divided(loop: Sequence[Stmt], said: Pragma) -> Scope:
    """A loop of which each thread does its share: the first iterations by the first thread, as OpenMP's static
    schedule."""
    s, = loop
    body: tuple[Stmt, ...] = s.body if isinstance(s, Block) else ()
    end: Words = s.end if isinstance(s, Block) else ()
    if isinstance(s, For):
        body, end = s.body, ("}",)
        head = Counted(s.var, words(spelled(s.first)), words(spelled(s.last)), str(s.step) if s.step != 1 else "",
                       (" ", "{"))
    else:
        line = s.words if isinstance(s, Code) else s.head if isinstance(s, Block) else ()
        found = counted(line)
        if found is None:
            raise ValueError(f"a parallel loop of a printed program has another form: {''.join(line)!r}")
        head = found
    v, first, bound, step = head.var, "".join(head.first), "".join(head.last), head.step
    start = "" if first == "0" else f"({first}) + "
    count = bound if not start else f"({bound}) - ({first})"
    begin, stop = (f"{start}{x}" + (f" * {step}" if step else "") for x in ("hy_begin", "hy_end"))
    last, advance = f"{v} < {stop}", f"{v}++"
    if step:
        count, last, advance = f"(({count}) + {step} - 1) / {step}", f"{v} < {stop} && {v} < {bound}", f"{v} += {step}"
    opened = (*words(f"for (long {v} = {begin}; {last}; {advance})"), *head.rest)
    return Scope((Code(words("long hy_begin, hy_end;")),
                  Code(words(f"hy_divide({count}, hy, &hy_begin, &hy_end);")), *said.simd,
                  Block(opened, body, end)))


def _first(body: Iterable[Stmt]) -> Block:
    """Statements that one thread runs."""
    return Block(words("if (hy->number == 0) {"), tuple(body))


# ---- the team
def _with_team(found: list[Function]) -> set[str]:
    """Names of functions that have to know the team, or that call such functions."""
    used = {f.name: used_words(f.body) for f in found}
    wanted = {f.name for f in found if not used[f.name].isdisjoint(("hy_threads", "hy")) or _shares(f.body)}
    grown = True
    while grown:
        more = {name for name, names in used.items() if name not in wanted and not wanted.isdisjoint(names)}
        wanted |= more
        grown = bool(more)
    return wanted


def _shares(body: Iterable[Stmt]) -> bool:
    """Whether threads share work in some statements."""
    return any(pragma(s) is not None or isinstance(s, (For, Scope, Block)) and _shares(s.body) for s in body)


def _calling(line: Words, wanted: set[str]) -> Words:
    """A line in which calls of some functions have the team as the first argument."""
    out: list[str] = []
    for i, w in enumerate(line):
        out += [w, *words("hy, ")] if w == "(" and i and line[i - 1] in wanted else [w]
    return tuple(out)


def _of_team(line: Words) -> Words:
    """A line in which the number of threads is that of the team."""
    return tuple(x for w in line for x in (words("hy->threads") if w == "hy_threads" else (w,)))


def _declared_with_team(s: Stmt, wanted: set[str]) -> Stmt:
    """A declaration of a function before its text."""
    if not isinstance(s, Code) or "static" not in s.words[:3] or not wanted.intersection(s.words):
        return s
    at = next(i for i, w in enumerate(s.words) if w in wanted)
    return Code((*s.words[:at + 2], *words(f"{TEAM}, "), *s.words[at + 2:]))
