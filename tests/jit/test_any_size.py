"""Programs for any size: one program serves every value of a size that came with a second value."""
import functools
import itertools
import re

import numpy
import pytest

from hybrid import gluon, hybridize, nd
from hybrid.base.errors import ShapeError
from hybrid.gluon import nn
from hybrid.ir.index import Ix, Var, bounds, div, linear, mod, unlinear, var
from hybrid.ir.size import Dim, Specialised, at_least, greater, hint, quotient, size, smaller
from hybrid.jit.compile_policy import eagerly

SIZES = (7, 33, 2, 3, 13, 14, 15, 16, 17, 64, 100, 256, 33, 7)         # around tiles and vectors
N, M = size(Dim("n", hint=64)), size(Dim("m", hint=8))


def arrays(*shapes, seed=0):
    """Normal numbers in arrays of such shapes."""
    draw = numpy.random.RandomState(seed)
    return [nd.array(draw.randn(*s).astype("float32")) for s in shapes]


def check(f, shapes, sizes=SIZES, programs=2):
    """A function at many sizes against plain Python. shapes: of a size, those of its arguments."""
    for n in sizes:
        given = arrays(*shapes(n), seed=n)
        found = f(*given)
        with eagerly():
            wanted = f(*given)
        pairs = zip(found, wanted) if isinstance(wanted, (list, tuple)) else [(found, wanted)]
        for a, b in pairs:
            assert a.shape == b.shape, n
            numpy.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=2e-5, atol=2e-5, err_msg=str(n))
    assert len(f.programs) <= programs, [str(p) for p in f.programs]
    assert any("n0" in str(p.sizes) for p in f.programs)


# ---- sizes
def test_arithmetic_of_sizes_is_exact():
    """Sums, products, quotients and remainders are those of numbers, whatever the value."""
    forms = [N * 64 + 3, (N * 4 + 3) // 4, (N * 4 + 3) % 4, -(-N // 16), (N - 3) // 2 + 1, N * M // N, (N + 5) % M,
             smaller(N, 14), greater(N - 20, M), N * M % M, -(-(N * M) // 14) * 14]
    wanted = [lambda n, m: n * 64 + 3, lambda n, m: n, lambda n, m: 3, lambda n, m: -(-n // 16),
              lambda n, m: (n - 3) // 2 + 1, lambda n, m: m, lambda n, m: (n + 5) % m, lambda n, m: min(n, 14),
              lambda n, m: max(n - 20, m), lambda n, m: 0, lambda n, m: -(-(n * m) // 14) * 14]
    for form, right in zip(forms, wanted):
        for n in (2, 3, 13, 14, 15, 16, 17, 100):
            for m in (2, 5, 8):
                value = form if isinstance(form, int) else form.value({"n": n, "m": m})
                assert value == right(n, m), (form, n, m)


def test_what_ranges_do_not_tell_is_never_assumed():
    """A comparison is proved, or it is an error; so is a number."""
    assert N > 1 and N != 1 and N * 4 >= N and N * M > N - 1 and not N * 3 < 6
    assert at_least(N * M - N, 0) and hint(N * 2) == 128
    for ask in (lambda: N == 64, lambda: N > 4, lambda: N < M, lambda: range(N), lambda: float(N), lambda: [0] * N,
                lambda: bool(N - 2), lambda: quotient(5, N - 2)):
        with pytest.raises(Specialised):
            ask()


def test_indices_with_sizes_in_them():
    """Offsets with strides that are sizes are taken apart again, and quotients are within their bounds."""
    i, j, k = Var("i", M), Var("j", N), Var("k", 4)
    idx = (var(i), var(j), var(k))
    assert tuple(unlinear(linear((M, N, 4), idx), (M, N, 4))) == idx
    flat = Var("f", N * 4)
    assert div(var(flat) * 4 + var(k), 4) == var(flat) and mod(var(flat) * 4 + var(k), 4) == var(k)
    low, high = bounds(linear((M, N, 4), idx))
    assert low == 0 and high == M * N * 4 - 1
    assert div(Ix(3) + var(j) * N, N).terms                  # 3 may be more than a row: it stays a quotient


# ---- programs
def test_elementwise():
    check(hybridize(lambda x: nd.tanh(x) * 2 + x), lambda n: [(n, 5)], (7, 1, 0, *SIZES), 4)


@pytest.mark.parametrize("axis", [0, 1])
def test_softmax_along_an_axis_of_any_size_and_across_it(axis):
    check(hybridize(lambda x: nd.softmax(x, axis=axis)), lambda n: [(n, 40)], (7, 33, 2, 3, 14, 16, 17, 64, 257, 300))


def test_reductions():
    check(hybridize(lambda x: [f(x, axis=a) for f in (nd.sum, nd.max) for a in (0, 1)]), lambda n: [(n, n + 1)],
          (7, 5, 2, 3, 16, 33, 4, 8), 5)


def test_long_sums_keep_their_digits():
    f = hybridize(lambda x: nd.sum(x, axis=1))
    for n in (10, 20, 1_000_001):
        x = numpy.full((2, n), 0.1, "float32")
        numpy.testing.assert_allclose(f(nd.array(x)).asnumpy(), x.sum(1, dtype="float64"), rtol=2e-6)
    assert len(f.programs) == 2


def test_sizes_that_change_one_after_the_other_are_one_program_in_the_end():
    """Batches change, then lengths, then features: all that ever differed are symbols of the last program."""
    f = hybridize(lambda x: nd.tanh(x) * 2 + x)
    for shape in ((4, 6, 8), (4, 7, 8), (5, 7, 8), (5, 7, 9), (9, 11, 12), (3, 20, 5), (11, 3, 2), (6, 6, 6)):
        x, = arrays(shape)
        numpy.testing.assert_allclose(f(x).asnumpy(), numpy.tanh(x.asnumpy()) * 2 + x.asnumpy(), rtol=2e-5, atol=2e-5)
    assert [p.sizes for p in f.programs] == [("float32[n0, n1, n2]",)]


def test_the_first_sizes_program_goes_when_several_sizes_came():
    """A batch and a smaller last one have a program each; for many sizes one program serves all, also the first."""
    f = hybridize(lambda x: nd.tanh(x) * 2 + x)
    x, = arrays((64, 5))
    first = [f(x).asnumpy() for _ in range(3)]
    for n in (64, 40, 64):
        f(*arrays((n, 5)))
    assert [p.sizes for p in f.programs] == [("float32[64, 5]",), ("float32[n0, 5]",)]
    for n in (1, 9, 3, 64, 7, 64, 2):
        f(*arrays((n, 5)))
    assert [p.sizes for p in f.programs] == [("float32[n0, 5]",), ("float32[1, 5]",)]
    assert len(f.report().programs) == 2
    for y in first:
        numpy.testing.assert_allclose(f(x).asnumpy(), y, rtol=2e-6)


def test_a_size_stays_one_program_where_another_one_cannot():
    """Code that needs one length as a number still has one program for all values of the other."""
    f = hybridize(lambda x: sum(x[:, i] for i in range(x.shape[1])))
    for shape in ((4, 3), (4, 2), (5, 2), (6, 2), (7, 2), (8, 2)):
        x, = arrays(shape)
        numpy.testing.assert_allclose(f(x).asnumpy(), x.asnumpy().sum(1), rtol=1e-5, atol=1e-5)
    assert len(f.programs) <= 4 and ("float32[n0, 2]",) in [p.sizes for p in f.programs], [p.sizes for p in f.programs]


def test_dense_layers():
    net = nn.HybridSequential()
    net.add(nn.Dense(64, activation="relu"), nn.Dense(33, activation="tanh"), nn.Dense(2))
    net.initialize()
    net.hybridize()
    check(net, lambda n: [(n, 20)], programs=2)


def test_rows_of_a_dense_layer_that_fall_on_few_lines_of_the_cache():
    """Rows 512 numbers apart are put together, some tiles at a time; 300 of them are several such parts."""
    net = nn.Dense(70, in_units=512)
    net.initialize()
    net.hybridize()
    check(net, lambda n: [(n, 512)], (3, 9, 14, 15, 100, 300, 301))


def test_parameters_that_change_are_seen_by_all_sizes():
    net = nn.Dense(40, in_units=30)
    net.initialize()
    net.hybridize()
    check(net, lambda n: [(n, 30)], (3, 4, 5, 6, 7))
    net.weight.set_data(net.weight.data() * 3)
    check(net, lambda n: [(n, 30)], (4, 5, 8))
    net.bias.set_data(nd.ones(40))
    check(net, lambda n: [(n, 30)], (4, 5, 8, 3))


def test_sizes_share_the_addresses_of_parameters():
    """Hundreds of sizes are called once each: what each keeps of its own is what differs."""
    net = nn.HybridSequential()
    net.add(nn.Dense(5, in_units=4), nn.Dense(6, in_units=5))
    net.initialize()
    net.hybridize()
    for n in range(2, 8):
        net(nd.ones((n, 4)))
    bound = [e.bound for e in net._engine.entries.values() if e.family is not None and e.bound is not None]
    assert len(bound) >= 3
    for one, other in itertools.pairwise(bound):
        ours, theirs = [{id(pointer): a for pointer, (_, a) in zip(b._keep, b._kept)} for b in (one, other)]
        assert len(ours.keys() & theirs) == len(ours) - 1       # but for the array of the sizes
    net[0].weight.set_data(nd.ones((5, 4)))
    for n in (3, 9):
        x = nd.array(numpy.random.randn(n, 4).astype("float32"))
        got = net(x).asnumpy()
        with eagerly():
            numpy.testing.assert_allclose(got, net(x).asnumpy(), rtol=1e-5, atol=1e-5)


def test_layer_norm_and_a_residual():
    class Block(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.norm, self.up, self.down = nn.LayerNorm(), nn.Dense(96, flatten=False), nn.Dense(48, flatten=False)

        def forward(self, x):
            return x + self.down(nd.relu(self.up(self.norm(x))))
    net = Block()
    net.initialize()
    net.hybridize()
    check(net, lambda n: [(2, n, 48)])


@pytest.mark.parametrize("masked", [False, True])
def test_attention_over_any_length(masked):
    @hybridize
    def attention(q, k, v, m):
        scores = nd.batch_dot(q, k, transpose_b=True) / 4
        return nd.batch_dot(nd.softmax(scores + m if masked else scores), v)
    check(attention, lambda n: [(3, n, 16), (3, n, 16), (3, n, 16), (3, n, n)],
          (7, 33, 2, 3, 13, 14, 15, 16, 28, 29, 127, 128, 129, 300), 2)


def test_decoding_with_kept_keys():
    @hybridize
    def step(q, k, v, new_k, new_v):
        k, v = nd.concat(k, new_k, dim=1), nd.concat(v, new_v, dim=1)
        return nd.batch_dot(nd.softmax(nd.batch_dot(q, k, transpose_b=True)), v), k, v
    check(step, lambda n: [(4, 1, 16), (4, n, 16), (4, n, 16), (4, 1, 16), (4, 1, 16)], range(1, 40), 3)


def test_movement_and_embedding():
    table = nn.Embedding(50, 16)
    table.initialize()

    @hybridize
    def f(x, i):
        heads = x.reshape((0, 0, 4, 8)).transpose((0, 2, 1, 3)).reshape((-3, 0, 8))
        return heads * 2, nd.flip(x, axis=1), table(nd.abs(i) * 3), x.reshape((-1, 16)) + 1, nd.tile(x, (1, 2, 1))
    check(f, lambda n: [(2, n, 32), (n,)])


def test_convolutions_over_any_batch():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(32, 5, strides=2, activation="relu"), nn.MaxPool2D(2, 2), nn.Conv2D(8, 1), nn.Flatten(),
            nn.Dense(5))
    net.initialize()
    net.hybridize()
    check(net, lambda n: [(n, 3, 40, 40)], (4, 9, 2, 3, 17))


# ---- guards
def test_what_the_code_asks_is_a_guard():
    """Where the answer would be another one, the program is not taken; the report tells the line."""
    @hybridize
    def f(x):
        return x * 2 if x.shape[0] > 10 else x + 1
    check(f, lambda n: [(n, 3)], (20, 30, 40, 5, 6, 11, 10, 9), 4)
    assert any("test_any_size.py" in g for p in f.programs for g in p.guards)


def test_code_that_needs_the_number_has_a_program_for_each_size():
    @hybridize
    def f(x):
        y = x[0]
        for i in range(1, x.shape[0]):
            y = y + x[i] * i
        return y
    for n in (2, 3, 4, 5):
        x, = arrays((n, 3), seed=n)
        found = f(x)
        with eagerly():
            numpy.testing.assert_allclose(found.asnumpy(), f(x).asnumpy(), rtol=1e-5)
    assert len(f.programs) == 4


def test_sizes_that_are_given_back_or_shown_are_numbers():
    @hybridize
    def f(x):
        return x * 2, x.shape[0], f"{x.shape}"
    for n in (2, 3, 4):
        assert f(nd.ones((n, 2)))[1:] == (n, f"({n}, 2)")


@pytest.mark.parametrize("give", [lambda n: n, lambda n: (n, [n + 1]), lambda n: divmod(n * 3, 4), lambda n: {"n": n},
                                  lambda n: frozenset([n]), lambda n: functools.partial(max, n), ValueError,
                                  lambda n: {n: 1}], ids=range(8))
def test_sizes_in_any_result_are_integers(give):
    """Also where nothing prints or compares them in the traced code."""
    f = hybridize(lambda x: (x * 2, give(x.shape[0])))
    for n in (2, 3, 4, 9):
        assert repr(f(nd.ones((n, 2)))[1]) == repr(give(n))


def test_two_axes_of_their_own():
    check(hybridize(lambda x, y: nd.dot(x, y)), lambda n: [(n, 6), (6, n + 4)], (7, 33, 2, 14, 16, 64, 3), 3)


def test_axes_that_must_agree():
    """Arguments that had the same two sizes are one dimension; a call in which they differ is not the program's."""
    f = hybridize(lambda x, y: x + y)
    for n in (3, 5, 8):
        assert f(nd.ones((n, 2)), nd.ones((n, 2))).shape == (n, 2)
    assert f(nd.ones((8, 2)), nd.ones((1, 2))).shape == (8, 2)
    with pytest.raises(ShapeError):
        f(nd.ones((8, 2)), nd.ones((7, 2)))


def test_calls_of_many_sizes_are_forgotten():
    from hybrid.jit import any_size
    f = hybridize(lambda x: x + 1)
    for n in range(2, any_size.MOST + 60):
        assert f(nd.ones((n,))).shape == (n,)
    assert len(f._engine.entries) <= any_size.MOST + 4
    assert len(f._engine.entries.guards) <= any_size.MOST + 4


# ---- the user's objects
@pytest.mark.parametrize("maxsize", [None, 128])
def test_sizes_are_not_kept_by_the_users_code(maxsize):
    """No symbol gets into lists, dicts and caches of the user's, whose contents are those of plain Python."""
    def made():
        kept, table, asked = [], {7: 2.0, 5: 3.0}, []

        @functools.lru_cache(maxsize)
        def cached(n):
            asked.append(n)
            return n * 2

        def keeping(x):
            kept.append(x.shape[0])
            return x * 2

        def filling(x):                                      # only for sizes that are new, after an ordinary trace
            if x.shape[0] not in table:
                table[x.shape[0]] = x.shape[0] * 0.5
            return x * 3

        def caching(x):
            return x * cached(x.shape[0])

        def both(x):                                         # the cache is called for some sizes only
            return x * cached(x.shape[0]) if x.shape[0] > 5 else x
        return (keeping, filling, caching, both), (kept, table, asked)
    (plain, wanted), (functions, found) = made(), made()
    for f, g in zip(plain, map(hybridize, functions)):
        for n in (7, 5, 8, 9, 4, 3, 8):
            numpy.testing.assert_array_equal(g(nd.ones((n, 2))).asnumpy(), f(nd.ones((n, 2))).asnumpy())
    assert found == wanted
    assert all(type(k) is int for part in found for k in part)


def test_a_program_for_any_size_is_one_cache_miss():
    """Also where it is abandoned; sizes that it serves are none."""
    f = hybridize(lambda x: x + 1)
    g = hybridize(lambda x: sum(x[i] for i in range(x.shape[0])))
    for h, count in ((f, 2), (g, 4)):
        for n in (2, 4, 5, 6):
            h(nd.ones((n, 3)))
        assert len(h.cache_misses) == count and h.cache_misses[1] == "arrays: input 0 float32(2, 3) -> float32(4, 3)"


def test_the_report_says_why_each_size_has_a_program():
    """Nothing of sizes that did not vary; the reason where they did and have a program each."""
    @hybridize
    def repeated(x):
        return sum(x * i for i in range(x.shape[0]))

    repeated(nd.ones((7, 3)))
    assert repeated.report().sizes == []
    for n in (8, 9):
        repeated(nd.ones((n, 3)))
    assert len(repeated.report().sizes) == 1
    assert "each size has a program of its own: " in str(repeated.report())
    assert re.fullmatch(r".*test_any_size\.py:\d+: the number n0 is needed", repeated.report().sizes[0])
