"""Programs for any size in the disk cache: a later process compiles none of them."""
import os

import numpy
import pytest

from hybrid import hybridize, nd
from hybrid.ir.asked import Asked
from hybrid.ir.size import Dim, Size, greater, quotient, size, smaller
from hybrid.ir.size_text import as_key, plain, plain_guards, rich, rich_guards
from hybrid.runtime import cache, plans
from hybrid.runtime.recipe import Recipe, from_text, to_text
from hybrid.runtime.sized import OneSize

pytestmark = pytest.mark.skipif(os.environ.get("HYBRID_CC") == "none", reason="needs a compiler")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """An empty cache, and programs that are kept there."""
    monkeypatch.setenv("HYBRID_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HYBRID_VERIFY", "0")
    monkeypatch.setenv("HYBRID_DEBUG", "0")


def rows(width):
    """A hybridized function of any number of rows."""
    weight = nd.array(numpy.random.RandomState(0).randn(width, 11).astype("float32"))

    @hybridize
    def f(x):
        return nd.softmax(nd.dot(x, weight)), x.sum(axis=0)
    return f


def called(f, *counts, width=13):
    """Calls with so many rows, against NumPy; whether a compiler ran for programs of any size, and for others."""
    weight = numpy.random.RandomState(0).randn(width, 11).astype("float32")
    for n in counts:
        x = numpy.random.RandomState(n).randn(n, width).astype("float32")
        found, total = f(nd.array(x))
        e = numpy.exp(x @ weight - (x @ weight).max(1, keepdims=True))
        numpy.testing.assert_allclose(found.asnumpy(), e / e.sum(1, keepdims=True), rtol=1e-4, atol=1e-5)
        numpy.testing.assert_allclose(total.asnumpy(), x.sum(0), rtol=1e-4, atol=1e-5)
    ran = {"n0" in p.sizes[0]: bool(p.waited + p.background) for p in f.programs}
    return ran[True], ran[False]


def test_a_later_trace_with_other_sizes_finds_the_program():
    assert called(rows(13), 5, 9, 70) == (True, True)
    assert called(rows(13), 5, 30, 31, 200) == (False, False)        # traced with another size
    assert called(rows(13), 17, 3, 64) == (False, True)


def test_other_programs_are_others():
    assert called(rows(13), 5, 9) == (True, True)
    assert called(rows(12), 5, 9, width=12) == (True, True)


def test_the_report_is_made_where_it_is_asked_for():
    called(rows(13), 5, 9)
    f = rows(13)
    called(f, 5, 30)
    report = f.report()
    assert [k.kind for k in report.kernels] and "net(" in report.source


def test_a_damaged_file_is_compiled_again():
    called(rows(13), 5, 9)
    for path in cache.folder().glob("plan-*.txt"):
        path.write_bytes(path.read_bytes()[:-3])
    assert not called(rows(13), 5, 9)[0]                     # the machine code is there still
    for path in cache.folder().glob("*.so"):
        path.unlink()
    assert called(rows(13), 5, 9) == (True, True)


N, M = Dim("n0", hint=9), Dim("n1", hint=5)
KNOWN = {"n0": Dim("n0", hint=70, serial=3), "n1": Dim("n1", hint=6, serial=3)}
FORMS = [size(N), size(N) * 3 + 4, quotient(size(N) + 3, 4), size(N) * size(M) - 1, smaller(size(N), 14),
         greater(quotient(size(N), 2), size(M))]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.c_text())
def test_sizes_are_read_with_other_dimensions(form):
    again = rich(plain(form), KNOWN)
    for n in (2, 3, 9, 15, 100):
        assert again.value({"n0": n, "n1": 7}) == form.value({"n0": n, "n1": 7})
    assert again.hint == form.value({"n0": 70, "n1": 6}) and as_key(again) == as_key(form)


def test_ranges_tell_sizes_apart():
    assert as_key(size(N)) != as_key(size(Dim("n0", 1, 512, hint=9)))


def test_guards_are_kept_with_a_program():
    asked = Asked()
    with asked.answering(False):
        assert size(N) < 20 and not size(N) * 2 < size(M)
    assert [(kind, answer) for kind, _, answer in rich_guards(plain_guards(asked), KNOWN)] == [
        (kind, answer) for (kind, _), (answer, _) in asked.facts.items()]
    library = cache.folder() / "0.so"
    library.write_bytes(b"")
    recipe = Recipe(library.name, [((size(N), 4), numpy.dtype("float32"))], 1, [], [], size(N) * 64, [], [], [])
    name = cache.digest("some program")
    plans.keep_sized(name, recipe, [N, M], asked)
    near, far = ({"n0": Dim("n0", hint=h, serial=8), "n1": Dim("n1", hint=6, serial=8)} for h in (19, 20))
    found, names, guards = plans.read_sized(name, near)
    assert names == ["n0", "n1"] and len(guards) == len(asked.facts)
    assert type(found.arena_bytes) is Size and found.arena_bytes.hint == 19 * 64
    assert plans.read_sized(name, far) is None               # 20 rows are not below 20
    assert plans.read_sized(name, {"n0": N}) is None         # of other dimensions
    with pytest.raises(ValueError):
        from_text(to_text(recipe))                           # nobody knows its dimensions


def test_what_was_planned_is_told_again_with_the_answers_about_sizes():
    one = OneSize.__new__(OneSize)
    one._again = lambda: ("less", "more")[bool(20 < size(N))]
    assert one.planned == "less"                            # of the 9 rows at trace
