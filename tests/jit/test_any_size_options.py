"""``hybridize(dynamic=...)`` with the sizes that may vary, and ``Dim``."""
import copy

import pytest

from hybrid import Dim, gluon, hybridize, nd, profiler
from hybrid.gluon import nn


def sizes_of(f):
    """What the programs' arguments are."""
    return [p.sizes for p in f.programs]


def test_sizes_that_are_named_vary_and_others_do_not():
    @hybridize(dynamic={"data": {0: "batch"}, "weights": {-1: "batch"}})
    def f(data, weights, *, scale):
        return nd.dot(weights, data) * scale
    for n in (3, 4, 5, 17):
        assert f(nd.ones((n, 2)), nd.ones((2, n)), scale=nd.ones((1,))).asnumpy()[0, 0] == n
    f(nd.ones((5, 3)), nd.ones((2, 5)), scale=nd.ones((1,)))
    assert sizes_of(f) == [("float32[3, 2]", "float32[2, 3]", "float32[1]"),
                           ("float32[n_batch, 2]", "float32[2, n_batch]", "float32[1]"),
                           ("float32[5, 3]", "float32[2, 5]", "float32[1]")]


def test_a_range():
    """Values outside of it have programs of their own, which are right too."""
    f = hybridize(lambda x: x.sum(axis=0), dynamic={0: {0: Dim("n", 1, 8)}})
    for n in (3, 4, 8, 9, 1, 0, 2):
        assert f(nd.ones((n, 2))).asnumpy().tolist() == [n, n]
    assert sorted(s for s, in sizes_of(f)) == ["float32[0, 2]", "float32[1, 2]", "float32[3, 2]", "float32[9, 2]",
                                               "float32[n_n, 2]"]


def test_a_range_proves_what_the_code_asks():
    """No guard, and no second program, for what all values of the range have in common."""
    f = hybridize(lambda x: x * 2 if x.shape[0] > 10 else x, dynamic={"x": {0: Dim("n", 11, 64)}})
    for n in (20, 30, 11, 64):
        f(nd.ones((n,)))
    assert len(f.programs) == 2 and not any("_n" in g for p in f.programs for g in p.guards)


def test_blocks_and_lists_of_arrays():
    net = nn.HybridSequential()
    net.add(nn.Dense(4, in_units=3))
    net.initialize()
    net.hybridize(dynamic={"x": {0: "batch"}})
    g = hybridize(lambda rows: rows[0] + rows[1], dynamic={"rows": {0: "n"}})
    for n in (3, 4, 5):
        assert net(nd.ones((n, 3))).shape == (n, 4)
        assert g([nd.ones((n,)), nd.ones((n,))]).shape == (n,)
    assert len(net.programs) == len(g.programs) == 2
    assert copy.deepcopy(net)(nd.ones((5, 3))).shape == (5, 4)


@pytest.mark.parametrize("wrong", ["yes", {"x": 0}, {"x": {"0": "n"}}, {"x": {0: "a b"}}, {"x": {0: 3}}, 2])
def test_what_is_no_option(wrong):
    with pytest.raises(ValueError, match="dynamic|name of a size"):
        hybridize(lambda x: x, dynamic=wrong)


@pytest.mark.parametrize("low,high", [(3, 2), (-1, 4), (1.5, 4), (1, 1 << 40)])
def test_what_is_no_range(low, high):
    with pytest.raises(ValueError, match="least and the greatest"):
        Dim("n", low, high)


def test_a_page_and_a_profile_of_a_size_that_varies():
    """The kernels of the program for any size, timed at the size of the call."""
    net = nn.HybridSequential()
    net.add(nn.Dense(8, activation="relu"), nn.Dense(3))
    net.initialize()
    net.hybridize(dynamic={"data": {0: "batch"}})
    for n in (2, 3, 5):
        net(nd.ones((n, 4)))
    page = net.explain(nd.ones((9, 4)))
    assert all(any(p.seconds) for p in page.programs) and "k0" in page.html
    profiler.set_config(aggregate_stats=True)
    profiler.set_state("run")
    net(nd.ones((11, 4)))
    profiler.set_state("stop")
    assert net.name in profiler.dumps(reset=True)
    assert sizes_of(net) == [("float32[n_batch, 4]",)]


def test_ways_into_programs_change_no_guard():
    """Code that asks for attributes by names that it computes reads all of them: not what calls are made by."""
    class Stack(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            for i in range(2):
                setattr(self, f"layer{i}", nn.Dense(4, in_units=4))

        def forward(self, x):
            for i in range(2):
                x = getattr(self, f"layer{i}")(x)
            return x
    net = Stack()
    net.initialize()
    net.hybridize()
    counts = []
    for _ in range(4):                                       # from the third call of a size on there is a way
        for n in (3, 4, 5, 6):
            net(nd.ones((n, 4)))
        counts.append(len(net._engine.entries))
    assert counts == [4] * 4, counts
