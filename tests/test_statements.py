"""Statements of kernels (hybrid/ir/stmt.py): their text, names, copies for vectors, and loops that several vectors go
through together."""
from __future__ import annotations

import pytest

import hybrid

from hybrid.codegen.lanes import VECTORS, iterations, jammed
from hybrid.codegen.loops import side_by_side
from hybrid.ir.index import Ix, Val, Var, var
from hybrid.ir.rewriting import Unstructured, copy, defined, length, masked, renamed, shifted, used
from hybrid.ir.stmt import Assign, For, Keep, Let, Load, Local, Name, Op, Prefetch, Scope, Stmt, Store, When, lines

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
    ("STREAM", "HYV_STREAM(p0 + i, ", "HYV_STOREM(mk, p0 + i, "),
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


def test_the_report_shows_the_form_taken_and_why_others_were_not() -> None:
    f = hybrid.hybridize(lambda x: hybrid.nd.softmax(x).T.exp())
    f(hybrid.nd.ones((64, 96)))
    shown = [(k.form, dict(k.not_taken)) for k in f.report().kernels]
    assert all(form for form, _ in shown) and any(others for _, others in shown)
    text = str(f.report())
    for form, others in shown:
        assert f"    as {form}\n" in text
        assert all(f"    not as {other}: {why}\n" in text for other, why in others.items())
