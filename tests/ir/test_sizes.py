"""Symbolic sizes: what is equal, what guards let one prove, and what passes hear."""
import pytest

from hybrid.ir.asked import Asked
from hybrid.ir.index import Ix, Quot, Var, bounds, text, unlinear
from hybrid.ir.size import Dim, Specialised, at_least, greater, same, size, smaller, surely


def test_expressions_are_compared_without_a_question():
    """Also where they have the same value at trace: whether height equals width is asked of no arithmetic."""
    n, m = size(Dim("n", hint=64)), size(Dim("m", hint=64))
    assert same((n + 1) // 2 * ((m + 1) // 2), (m + 1) // 2 * ((n + 1) // 2))
    assert same((n // 2 * (m // 2)) // (n // 2 + 1 - 1 + 2) * 0, 0)
    assert not same(n // 2, m // 2) and same(greater(n, m), greater(n, m)) and not same(smaller(n, m), greater(n, m))


def test_passes_hear_that_sizes_are_different():
    """What is equal for some sizes alone is not equal to a pass, and no guard; to the user's code it is a question."""
    n, m = size(Dim("n", hint=64)), size(Dim("m", hint=64))
    asked = Asked()
    with asked.answering(False):
        assert not n == m
    assert not asked.facts
    with asked.answering(True), pytest.raises(Specialised):
        assert n == m


def test_guards_prove_what_follows_from_them():
    """A check that a kernel fits shows that there is a window, and that a division by their number is one."""
    n = size(Dim("n", 2, hint=64))
    half = n // 4
    with pytest.raises(Specialised):
        _ = (n + 3) // half
    asked = Asked()
    with asked.answering(True):
        assert not half < 2 and at_least(half, 2) and surely(lambda: half // 2 >= 1)
        _ = (n + 3) // half
    assert len(asked.facts) == 1 and not asked.hold({"n": 7}) and asked.hold({"n": 8})
    with Asked().answering(True):
        assert 2 <= half and at_least(half - 2, 0)


def test_a_division_by_what_may_be_none_is_a_guard():
    """The sizes for which it is one have programs of their own."""
    n = size(Dim("n", 2, hint=64))
    asked = Asked()
    with asked.answering(True):
        _ = (n + 8) // (n // 3)
    assert not asked.hold({"n": 2}) and asked.hold({"n": 3})


def test_results_that_rest_on_guards_are_not_kept_beyond_them():
    """Bounds of an index, and divisions of it, which leave out what the guards of one program prove to be needless:
    another program over an equal dimension has other guards."""
    n = size(Dim("n", 1, hint=64, serial=-1))
    x = Ix(0, ((Var("i", 5), n - 8),))

    def proved() -> tuple[bool, str]:
        return at_least(bounds(x)[0], 0), text(unlinear(Ix(0, ((Var("i", 8), 1),)), (4, n))[1])
    with Asked().answering(False):
        assert not n < 8
        guarded = proved()
        with Asked().answering(False):
            inner = proved()
        assert proved() == guarded
    assert guarded == (True, "i") and not inner[0] and inner[1] != "i" and not at_least(bounds(x)[0], 0)


def test_what_quotients_of_a_size_lie_between_is_proved():
    """Halves that are put together again, and quotients of quotients; what holds for some sizes alone is not proved."""
    n = size(Dim("n", 2))
    half = (n + 1) // 2
    again = (half + 1) // 2
    for proved in (2 * half - n, n - 2 * half + 1, 2 * again - half, 4 * again - n, n - 4 * again + 3,
                   half - n // 2, n // 2 - half + 1, 3 * ((n + 2) // 3) - 2 * half + 1):
        assert at_least(proved, 0) and all(proved.value({"n": k}) >= 0 for k in range(2, 100)), proved
    for other in (n - 2 * half, 2 * half - n - 1, n - 4 * again + 2, n // 2 - half):
        assert not at_least(other, 0) and any(other.value({"n": k}) < 0 for k in range(2, 100)), other


def test_a_kept_result_has_the_guards_it_needs():
    """A division by what may be no positive number is a guard of each program that divides."""
    n = size(Dim("n", 2, hint=64, serial=-1))
    for _ in range(2):
        asked = Asked()
        with asked.answering(False):
            _ = bounds(Ix(0, ((Quot(Ix(n + 8, ()), n // 3), 1),)))
        assert not asked.hold({"n": 2}) and asked.hold({"n": 3})
