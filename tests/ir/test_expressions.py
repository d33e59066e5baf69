"""Lines of C as values: the parentheses that they need, what is simpler, what is declared."""
from __future__ import annotations

import pytest

from hybrid.ir.expressions import Tree, rebuilt, simplified, text_of
from hybrid.ir.line_reader import declared, parameters, read
from hybrid.ir.parse import Words, flat, parse, words
from hybrid.ir.stmt import Function
from hybrid.runtime import build

from .. import programs
from .printed_corpus import machine, sources

SAME = """
a - (b - c);
a / (b * c);
(a + b) * c;
-(-a);
(float)(a + b);
(float *)p + n;
(int)(-a);
*p++ = (*q)[i];
a = b += c ? d : e;
(a & b) == c;
(a == b) & c;
a << (b + 1);
(a && b) || c;
(a && b) ? c : d;
(a < b) == c;
f(a, (hy_v){b, c}, g()[1].d->e);
for (long i = 0, j = 1; i < n; i++, p += 2) a[i] = !b;
return -a % 3;
case 3: return a; default: return b;
if (a < b && c) d = e; else f(&g, ~h);
const float *b = B + 1; const float *c[4]; const float d = 0x1.8p+0f;
k(b[1 /* x */], 2);
static const struct s t = {1, .a = {2, 3}};
float s[8] __attribute__((aligned(64)));
x = (v16)(*(const v16 *)p);
int t[] = {1, 2};
} else {
while (a->b) {
a; // said
n * sizeof(float);
""".strip().splitlines()


@pytest.mark.parametrize("line", SAME)
def test_a_text_that_stays(line: str) -> None:
    parts = read(words(line))
    assert parts is not None and text_of(parts) == line


SIMPLER = dict(line.split(" -> ") for line in """
x = (a); -> x = a;
f((a * b), (c)); -> f(a * b, c);
a + (b * c); -> a + b * c;
(a + b) - c; -> a + b - c;
(a + b) + (c + d); -> a + b + (c + d);
a * (b / c); -> a * (b / c);
1 * a + 0; -> a;
a * 1l - 0; -> a;
n * 4l; -> n * 4;
(n + 1) * 4l; -> (n + 1) * 4;
k * 4l; -> k * 4l;
n * total; -> n * total;
n * 2147483648l; -> n * 2147483648l;
float a[4 * 1]; -> float a[4];
n % 1; -> 0;
f(a) % 1; -> f(a) % 1;
0 * n + a; -> a;
0 * k; -> 0 * k;
a + (-3); -> a - 3;
0x1.8p+0f * a; -> 1.5f * a;
1.0f * a; -> 1.0f * a;
a[i + 0]; -> a[i];
(void *)(b + 0); -> (void *)b;
__builtin_inff(); -> INFINITY;
long m = (n * 1); -> long m = n;
for (long i = 0 + 3; i < (n); i++) -> for (long i = 3; i < n; i++)
""".strip().splitlines())


@pytest.mark.parametrize("line", SIMPLER)
def test_what_changes_nothing_is_left_out(line: str) -> None:
    """Sums and products keep their order; n is long."""
    assert text_of([simplified(p, lambda name: name == "n") for p in read(words(line)) or ()]) == SIMPLER[line]


@pytest.mark.parametrize("line", ["goto a;", "f(sizeof *a);", "({ a; });", "#define A(x) x", "a +;",
                                  "f(a b);", '__asm__("" : "+x"(a));', "union { float a; int b; } u;"])
def test_what_is_not_known(line: str) -> None:
    assert read(words(line)) is None


def test_a_call_with_other_arguments() -> None:
    part, = read(words("y = f(a, g(b, c)) + f(d, e);")) or ()
    changed = rebuilt(part, lambda x: Tree("call", x.args[:2]) if isinstance(x, Tree) and x.op == "call" else x)
    assert text_of([changed]) == "y = f(a) + f(d);"


def test_what_is_changed_are_expressions_alone() -> None:
    """Those in the lengths of an array, too; no types and names of members."""
    parts = read(words("float a[f(a, b)][a]; s.a = (a)b + p->a; struct t c = {.a = a};")) or ()
    assert text_of(rebuilt(p, lambda x: "d" if x == "a" else x) for p in parts) == (
        "float a[f(d, b)][d]; s.a = (a)b + p->a; struct t c = {.a = d};")


def test_what_is_declared() -> None:
    found = declared(words("const unsigned long *const a = b, c[3][2]; for (int i = 0; i < 2; i++) d = i;"))
    assert [(d.kind, d.member, d.constant) for d in found] == [
        ("unsigned long*", "const unsigned long *a", "const unsigned long *const a"),
        ("unsigned long**", "const unsigned long **c", "const unsigned long **const c"),
        ("int", "int i", "const int i")]
    assert [d.name for d in parameters(words("const hy_team *hy, float *p0, long n"))] == ["hy", "p0", "n"]


def _known(line: Words) -> int:
    """Whether a line of a printed program is known; if so, its text, read again, gives the same values."""
    parts = read(line)
    assert parts is None or read(words(text_of(parts))) == parts, "".join(line)
    return parts is not None


def test_lines_of_printed_programs() -> None:
    lines: set[Words] = set()
    with machine(64):
        for case in list(programs.cases().values())[::4]:
            for text in sources(build.build(build.planned(case[0], case[0].memo.get("frozen", frozenset())))):
                lines.update(line for f in parse(text) if isinstance(f, Function) and f.before[0] == "static"
                             for line in flat(f.body) if line and "#" not in line[:2])
    assert len(lines) > 500 and sum(map(_known, lines)) > 0.97 * len(lines)
