"""Statements of kernels (hybrid/ir/stmt.py): their text, names, copies for vectors, and loops that several vectors go
through together."""
from __future__ import annotations

import pytest

import hybrid

from hybrid.codegen import cuda
from hybrid.codegen.lanes import VECTORS, iterations, jammed
from hybrid.codegen.loops import side_by_side
from hybrid.ir.index import Ix, Val, Var, var
from hybrid.ir.line_reader import declared, parameters
from hybrid.ir.parse import parse, used_words, words
from hybrid.ir.rewriting import Unstructured, copy, defined, length, masked, renamed, shifted, used, walk
from hybrid.ir.stmt import (Assign, Code, For, Function, Keep, Let, Load, Local, Name, Op, Prefetch, Scope, Stmt, Store,
                            When, lines, text_of)
from hybrid.passes.pipeline import plan
from hybrid.runtime import build
from hybrid.runtime.cuda import program as cuda_program

from .. import programs
from .printed_corpus import machine, sources

I, R = Var("i", 64), Var("r", 10)
ACC = Name("a1@")
VALUE = Load(Name("p1"), var(R) * 64 + var(I), "LOAD")


def test_the_text_of_each_kind_of_statement() -> None:
    body: list[Stmt] = [
        Local("float", Name("row"), 8), Local("float", Name("rows"), 8, 2),
        Let("float", Name("t1"), Load(Name("p1"), var(I) + 2), True),
        For("i", Ix(), Ix(64), (Store(Name("p0"), var(I), Op("hy_exp({0}f)", (Name("t1"),))),), 4, "#pragma omp simd"),
        When(Op("{0} < {1}", (Name("t1"), Ix(3))), (Assign(Name("t2"), Name("t1"), "+="),), (Scope(()),)),
        Prefetch(Name("p1"), var(I), 64, 2), Prefetch(Name("p1"), var(I), how=", 1")]
    assert lines(body) == [
        "float row[8] __attribute__((aligned(64)));", "float rows[2][8] __attribute__((aligned(64)));",
        "const float t1 = p1[i + 2];",
        "#pragma omp simd", "for (long i = 0; i < 64; i += 4) {", "  p0[i] = hy_exp(t1f);", "}",
        "if (t1 < 3) {", "  t2 += t1;", "} else {", "  {", "  }", "}",
        "__builtin_prefetch(p1 + i + 64 * 2);", "__builtin_prefetch(p1 + i, 1);"]
    assert length(body) == 8


@pytest.mark.parametrize(("vector", "whole", "last"), [
    ("STORE", "HYV_STORE(p0 + i, ", "HYV_STOREM(mk, p0 + i, "),
    ("PAST", "HYV_PAST(p0 + i, ", "HYV_STOREM(mk, p0 + i, "),
    ("STORE_HALF", "HYV_STORE_HALF(p0 + i, ", "HYV_STOREM_HALF(mk, p0 + i, "),
    ("PAIR_STORE", "HYV_PAIR_STORE(p0 + i, ", "HYV_PAIRM_STORE(p0 + i, ")])
def test_copies_of_a_pattern(vector: str, whole: str, last: str) -> None:
    s = Store(Name("p0"), var(I), Keep(ACC, VALUE), vector)
    assert str(copy(s, 3)) == f"{whole}HYV_FIRSTARG(a1_3, HYV_LOAD(p1 + r * 64 + i)));"
    assert str(masked(s)) == f"{last}HYV_SELECT(mk, a1_0, HYV_LOADM(mk, p1 + r * 64 + i)));"


def test_names_are_found_and_changed_everywhere() -> None:
    g = Val("g7", 9)
    s = For("r", Ix(), Ix(10), (Let("float", Name("t1"), Load(Name("p1"), var(g) * 4 + var(R))),
                                Assign(Name("t2"), Op("{0} + {1}", (Name("t1"), var(g)))), Local("long", Name("k"), 2)))
    assert used(s) == {"p1", "g7", "r", "t1", "t2"} and defined(s) == {"t1", "k"}
    new = renamed(s, {"g7": "g8", "t2": "total", "p1": "x"})
    assert lines([new])[1:3] == ["  float t1 = x[g8 * 4 + r];", "  total = t1 + g8;"]
    assert str(shifted(Store(Name("p0"), var(I) * 2, Name("t1")), I, 16)) == "p0[i * 2 + 32] = t1;"


@pytest.mark.parametrize("s", ["union { int a; } u;", Let("float", Name("t1"), "t0 + 1"), Scope(("x = 1;",))])
def test_nobody_guesses_what_a_text_means(s: Stmt) -> None:
    with pytest.raises(Unstructured):
        used(s)


def test_vectors_go_through_an_inner_loop_together() -> None:
    body = [Let("hy_v", ACC, Op("HYV_B(0.0f)", ())), Let("float", Name("t1"), Load(Name("p2"), Ix())),
            For("r", Ix(), Ix(10), (Let("hy_v", Name("v1"), VALUE, True), Assign(ACC, Name("v1"), "+="))),
            Store(Name("p0"), var(I), ACC, "STORE")]
    assert VECTORS[0] == "hy_v"
    assert lines(jammed(I, body, 16, 2)) == [
        "hy_v a1_0 = HYV_B(0.0f);", "hy_v a1_1 = HYV_B(0.0f);", "float t1 = p2[0];",
        "for (long r = 0; r < 10; r++) {",
        "  const hy_v v1_0 = HYV_LOAD(p1 + r * 64 + i);", "  const hy_v v1_1 = HYV_LOAD(p1 + r * 64 + i + 16);",
        "  a1_0 += v1_0;", "  a1_1 += v1_1;", "}",
        "HYV_STORE(p0 + i, a1_0);", "HYV_STORE(p0 + i + 16, a1_1);"]


def test_a_lane_loop_does_groups_then_vectors_then_what_is_left() -> None:
    v = Var("i", 53)
    text = "\n".join(lines(iterations(v, [Store(Name("p0"), var(v), Load(Name("p1"), var(v), "LOAD"), "STORE")], 8, 4)))
    assert "for (long i_b = 0; i_b < 32; i_b += 32)" in text and "for (long i = 32; i < 48; i += 8)" in text
    assert "const long i = 48;" in text and "HYV_FIRST(5)" in text and text.count("HYV_STORE(") == 5


def test_columns_keep_what_lives_from_one_loop_to_another() -> None:
    total = Name("a1")
    body = [Let("float", total, Op("0.0f", ())),
            For("r", Ix(), Ix(10), (Let("float", Name("t1"), Load(Name("p1"), var(R) * 64 + var(I))),
                                    Assign(total, Op("{0} + {1}", (total, Name("t1")))))),
            Store(Name("p0"), var(I), total)]
    beside = side_by_side(I, body)
    assert beside is not None
    text = str(beside)
    assert "float a1[256]" in text and "a1[i_j] = a1[i_j] + t1;" in text and "p0[i] = a1[i_j];" in text
    assert "t1[" not in text and side_by_side(I, [*body, "text;"]) is None


TEXTS = {"loops": """static void k0(float *p0, const float *p1) {
  #pragma omp parallel for schedule(static) num_threads(hy_threads)
  for (long i = 0; i < 64; i += 4) {
    float sums[8] __attribute__((aligned(64)));
    for (long r = 0; r < n; r++) p0[i] += p1[i * 8 + r];      // a row
    {
      if (i < 3) {
        p0[i] = 0x1.8p+0f;
      } else {
        p0[i] = '}';
      }
    }
  }
}""", "lines": """#define TWICE(x) \\
    { (x) + (x); }
/* a comment
   of two lines { */
static const int table[] = {1,
  2};
struct a { int b; };
void net(void **b) {
    { const long began = now();
    k0(b[0], b[1]);
  took(began); }}
""", "empty": ""}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_parses_back(name: str) -> None:
    assert text_of(parse(TEXTS[name])) == TEXTS[name]


def test_what_a_text_says() -> None:
    f, = parse(TEXTS["loops"])
    assert isinstance(f, Function) and f.name == "k0" and "".join(f.parameters) == "float *p0, const float *p1"
    assert [d.name for d in parameters(f.parameters)] == ["p0", "p1"]
    pragma, outer = f.body
    assert isinstance(pragma, Code) and isinstance(outer, For) and (outer.var, outer.step, str(outer.last)) == ("i", 4,
                                                                                                                "64")
    assert [d.member for s in outer.body if isinstance(s, Code) for d in declared(s.words)] == ["float *sums", "long r"]
    assert isinstance(outer.body[2], Scope) and "p1" in used_words(outer.body) and "row" not in used_words(outer.body)


@pytest.mark.parametrize("line", ("  const hy_v a = f(b, c), *d[3] = {0}; unsigned long e;",
                                  "unsigned char *const g = 0;",
                                  "a * b;", "hy_run(hy, part);", "return a;", "a[3] = b;", "struct s t = {1};"))
def test_variables_that_a_line_declares(line: str) -> None:
    found = {"const": ["a", "d", "e"], "unsigned": ["g"], "struct": ["t"]}
    assert [d.name for d in declared(words(line))] == found.get(line.split()[0], [])


def test_printed_programs_parse_back() -> None:
    """Statements of printed programs, printed, parsed and printed again, are the same text."""
    printed = 0
    with machine(64):
        for name, case in programs.cases().items():
            source = "\n".join(sources(build.build(build.planned(case[0], case[0].memo.get("frozen", frozenset())))))
            code = source[source.index("static void k"):] if "static void k" in source else ""
            assert text_of(parse(code)) == code, name
            assert text_of(parse(source)).replace(" ", "") == source.replace(" ", ""), name
            printed += "static void k" in source
    assert printed > 20


def test_printed_cuda_parses_back() -> None:
    for name, case in programs.cases().items():
        source = cuda.print_program(plan(case[0], cuda_program.JOINING).groups).source
        assert text_of(parse(text_of(parse(source)))) == text_of(parse(source)), name
        assert text_of(parse(source)).replace(" ", "") == source.replace(" ", ""), name


@pytest.mark.parametrize("vector", [64, 32])
def test_no_loop_is_printed_that_never_runs(vector: int) -> None:
    for name in ("dense wide", "dense one row", "dense wide backward"):
        p = programs.cases()[name][0]
        with machine(vector):
            text = "\n".join(sources(build.build(build.planned(p, frozenset()))))
        loops = [s for s in walk(parse(text)) if isinstance(s, For)]
        assert loops and all(str(s.first) != str(s.last) for s in loops), name


def test_the_report_shows_the_form_taken_and_why_others_were_not() -> None:
    f = hybrid.hybridize(lambda x: hybrid.nd.softmax(x).T.exp())
    f(hybrid.nd.ones((64, 96)))
    shown = [(k.form, dict(k.not_taken)) for k in f.report().kernels]
    assert all(form for form, _ in shown) and any(others for _, others in shown)
    text = str(f.report())
    for form, others in shown:
        assert f"    as {form}\n" in text
        assert all(f"    not as {other}: {why}\n" in text for other, why in others.items())
