"""Code that asks something of sizes, in programs for any size: it has the answers that numbers give, at every size."""
from __future__ import annotations

import collections.abc  # noqa: F401  as others here: questions name it
import decimal  # noqa: F401
import functools
import math  # noqa: F401
import numbers  # noqa: F401
from typing import Any

import numpy
import pytest

from hybrid import autograd, hybridize, nd, np
from hybrid.gluon import nn
from hybrid.ir.asked import Asked
from hybrid.ir.dimension import refuse_swallowed
from hybrid.ir.size import Dim, Specialised, size
from hybrid.jit import first_call, trace
from hybrid.jit.compile_policy import eagerly

# pairs of sizes in the order of calls: equal and others, 0 and 1, again what a guard has refused
PAIRS = (9, 9), (5, 6), (6, 6), (6, 5), (0, 0), (1, 1), (1, 6), (6, 9), (6, 6), (12, 12)
NAMES = {3: "three", 6: "a name"}
SHAPES = {(6, 4): 5}
CLASSES = (int, float)
INT = int


def inverse(n: Any) -> float:
    """1 / n, or 1 of what is no number."""
    try:
        return 1 / float(n)
    except Exception:  # noqa: BLE001  as code does that takes anything
        return 1.0


@functools.singledispatch
def kind(value: Any) -> int:
    """The class of a number, as a number."""
    return 3


kind.register(int)(lambda value: 2)


def power_of_two(n: Any) -> int:
    """The least power of two that is not less."""
    k = 1
    while k < n:
        k *= 2
    return k


# what code asks of the lengths n and m of two arrays, and of the shape s of the first one; the answer is a number
NUMBERS = """
n == m
n != m
n < m
n <= m
n > m
n >= m
6 == n
n == 6.0
(n == 5.5) + 2 * (n < 5.5) + 4 * (n >= 5.5) + 8 * (5.5 < n) + 16 * (n <= 6.5)
(n < math.inf) + 2 * (n > math.nan) + 4 * (n != math.nan)
(n == 6 + 0j) + (n == 6j)
n == decimal.Decimal(6)
(n == numpy.int64(6)) + 2 * (numpy.float32(5.5) < n) + 4 * (n == numpy.True_)
(n is None) + 2 * (n != "6") + 4 * (n == [])
1 < n <= m < 20
n == m == 6
n - m == 0
2 * n == m
n / 4 > 1
n * s[1] == 24
s == (6, 4)
s < (m, 4)
s[:1] != (m,)
min(n, m)
max(n, m, 5)
max(s)
sorted([n, m, 5])[1]
n in (3, 6)
n in {3, 6}
n not in [3, 6]
n in range(3, 7)
n in NAMES
len(NAMES.get(n, ""))
SHAPES.get(s, 7)
len({s: 2, (m, 4): 3})
len({n, m})
len({n / 2, m / 2})
hash(n) == hash(m)
collections.Counter([n, m])[m]
[n, m].index(m)
[n, 4, 6].count(6)
n % 4
n % 2 == 0
-n % 4
n // 3
-(-n // 4)
n // 2 == 3
sum(divmod(n, 4))
len(f"{n}")
len(str(s))
len(f"{n:04d}|%d" % m)
int(n)
int(n / 2)
float(n)
round(n * 0.3)
math.ceil(n / 3)
math.sqrt(n)
math.gcd(n, 6)
2 if n else 3
n or 5
2 if n > 2 and m > 2 else 3
sum(d == 6 for d in s)
all(a == b for a, b in zip(s, (m, 4)))
sum(range(n))
len(range(0, n, 2))
len([0] * n)
abs(n - 6)
n ** 2
n & 3
1 << min(n, 5)
n.bit_length()
isinstance(n, int) and not isinstance(n, tuple)
isinstance(n, numbers.Integral)
n.__class__ is int
type(n) is int
type(n) is INT
type(n) in CLASSES
inverse(n)
hasattr(n, "real") + 2 * hasattr(n, "asnumpy")
kind(n)
power_of_two(n)
int((n == numpy.array([1, 2, 6])).sum())
int(numpy.minimum(n, 5))
"""
ARRAYS = """
x * 2 if x.shape[0] == y.shape[0] else y * 3
x + y if x.shape == y.shape else x * 3
x.reshape((x.shape[0] * 2, x.shape[1] // 2)) * 2
x.reshape((2, -1)) * 2 if x.shape[0] % 2 == 0 and x.shape[0] else x * 3
x[:min(x.shape[0], y.shape[0])] * 2 + y[:min(x.shape[0], y.shape[0])]
nd.concat(x, nd.zeros((-x.shape[0] % 4, 4)), dim=0) * 2 if x.shape[0] % 4 else x * 2
sum((x[i] for i in range(min(x.shape[0], 3))), nd.zeros((4,)))
x * 2 if x[1:].shape[0] == y.shape[0] - 1 else x * 3
x * 2 if nd.concat(x, x, dim=0).shape[0] == 12 else x * 3
(x.shape[0] < x * 9) * 2.0
(x.shape[0] == nd.round(x * 9)) * 2.0
"""
FORMS = [*(f"(lambda n, m, s: x * (0.5 + ({asked})))(x.shape[0], y.shape[0], x.shape)"
           for asked in NUMBERS.strip().splitlines()), *ARRAYS.strip().splitlines()]


def evaluated(text: str, **names: Any) -> Any:
    """What a text gives as code of this file."""
    return eval(compile(text, __file__, "eval"), {**globals(), **names})  # noqa: S307  a text from this file


def function(text: str) -> Any:
    """The function of x and y that a text computes."""
    return evaluated(f"lambda x, y: {text}")


@pytest.mark.share(3)
@pytest.mark.parametrize("text", FORMS)
def test_questions_have_the_answers_of_numbers(text: str) -> None:
    f = function(text)
    g = hybridize(f)
    for n, m in PAIRS:
        x, y = (nd.array(numpy.random.RandomState(k).rand(k, 4).astype("float32")) for k in (n, m))
        with eagerly():
            wanted = f(x, y).asnumpy()
        found = g(x, y).asnumpy()
        assert found.shape == wanted.shape, (n, m)
        numpy.testing.assert_allclose(found, wanted, rtol=1e-5, err_msg=f"{n} {m}")


def test_comparisons_are_guards_with_their_lines() -> None:
    """One program takes all sizes that differ, however many come."""
    f = function("x * 2 if x.shape[0] == y.shape[0] else x * 3")
    g = hybridize(f)
    for n, m in [(9, 8), (5, 4), (7, 6), (3, 12), (12, 2)]:
        numpy.testing.assert_array_equal(g(nd.ones((n, 4)), nd.ones((m, 4))).asnumpy(), 3)
    program, = g.programs
    assert any(guard.startswith("not ") and guard.endswith(f"== 0 ({__file__}:1)") for guard in program.guards)


# the answer of a size would be another one than that of an integer
REFUSED = """
type(n) == int
type(n) in CLASSES
{int: 5}.get(type(n), 3)
set(map(type, s)) == {INT}
collections.Counter(type(d) for d in s)[int]
type(n).__name__ == "int"
str(type(n))
numpy.dtype(type(n)).kind
n.bit_length()
getattr(n, "numerator", -1)
hasattr(n, "real")
numpy.asarray(n).dtype.kind
numpy.issubdtype(numpy.asarray(s).dtype, numpy.integer)
inverse(n)
{6: 4}.get(n, 1)
"""
# it is the same one
ANSWERED = """
isinstance(n, collections.abc.Sequence)
isinstance(n, (numbers.Integral, list))
hasattr(n, "asnumpy")
getattr(n, "type", 3)
type(s) is tuple
numpy.prod(s) == 24
n == numpy.int64(6)
"""


@pytest.mark.parametrize("text", REFUSED.strip().splitlines())
def test_what_only_a_number_can_answer_is_noted(text: str) -> None:
    """Also where code swallows the error."""
    n = size(Dim("n", hint=6))
    with pytest.raises(Specialised), Asked().answering(True):
        try:
            evaluated(text, n=n, s=(n, 4))
        except Exception:  # noqa: BLE001
            pass
        refuse_swallowed()


@pytest.mark.parametrize("text", ANSWERED.strip().splitlines())
def test_sizes_answer_as_integers(text: str) -> None:
    n = size(Dim("n", hint=5))
    with Asked().answering(True):
        found = evaluated(text, n=n, s=(n, 4))
        refuse_swallowed()
    assert found == evaluated(text, n=5, s=(5, 4))


class Options:
    """Settings of a function."""
    type = "relu"


@pytest.mark.parametrize("text", ["(nd.relu(x) if Options.type == 'relu' else x) * float('2')",
                                  "x * int('2') if type(Options()) != int else y"])
def test_code_that_names_type_has_one_program_for_any_size(text: str) -> None:
    """Nothing is asked of sizes: an attribute has the name, or another object's class is asked for."""
    g = hybridize(function(text))
    for n in (4, 5, 8, 10, 12):
        numpy.testing.assert_array_equal(g(nd.ones((n, 4)), nd.ones((n, 4))).asnumpy(), 2)
    assert len(g.programs) == 1, g.report()


def test_a_note_has_the_name_of_its_kind_where_threads_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread's second call forgets the kind while the name is found out."""
    kinds: list[Any] = []
    monkeypatch.setattr(first_call, "note_name", lambda title, engine, kind: kinds.append(kind) or "call-1.txt")

    class Raced(first_call.FirstCall):
        """Its kind is forgotten as soon as it was read."""
        _like = property(lambda self: self.__dict__.pop("like", None), lambda self, x: self.__dict__.update(like=x))

    call = Raced()
    call._like = ("kind",)
    assert call._name(None) == "call-1.txt"
    assert kinds == [("kind",)]


class SingularValues(nn.HybridBlock):
    """The sum of what a matrix stretches by."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Dense(4, in_units=4, flatten=False)

    def forward(self, x: Any) -> Any:
        return np.linalg.svd(self.dense(x).as_np_ndarray())[1].sum()


def test_recorded_calls_of_python_code_have_a_program_for_each_size() -> None:
    """LAPACK's functions are called by NumPy: the program for any size was called with the sizes of another call."""
    net = SingularValues()
    net.initialize()
    for n in (4, 6, 9, 3, 6):
        x, found = nd.array(numpy.random.RandomState(n).rand(n, 4)), []
        for hybridized in (False, True):
            net.hybridize(hybridized, clear=False)
            with autograd.record():
                loss = net(x)
            loss.backward()
            found.append((loss.asnumpy(), net.dense.weight.grad().asnumpy()))
        for a, b in zip(*found):
            numpy.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("recorded", [False, True])
def test_what_has_no_program_for_any_size_is_traced_for_it_once(recorded: bool,
                                                                monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows over small images with few channels: no other size would lead the code elsewhere."""
    traces: list[bool] = []
    real = trace.run_traced
    monkeypatch.setattr(trace, "run_traced", lambda *a: traces.append(a[-1] is not None) or real(*a))
    net = nn.Conv2D(8, 3, in_channels=4)
    net.initialize()
    net.hybridize()
    for n in (8, 12, 14, 16):
        x = nd.ones((2, 4, n, n))
        if recorded:
            with autograd.record():
                loss = net(x).sum()
            loss.backward()
        else:
            net(x)
    assert traces.count(True) == 1, traces
