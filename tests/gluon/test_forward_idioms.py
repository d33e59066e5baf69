"""hybrid_forward as user code writes it: results and exported graphs against MXNet 1.9.1 (data/idioms.*, written by
oracle/record_idioms.py)."""
from __future__ import annotations

import importlib.util
import json

import numpy as onp
import pytest

import hybrid as mx
from hybrid import gluon, nd

from ..paths import DATA, TESTS

_spec = importlib.util.spec_from_file_location("forward_idioms", TESTS / "oracle" / "forward_idioms.py")
idioms = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(idioms)
GRAPHS = json.loads((DATA / "idioms.json").read_text())
ARRAYS = onp.load(DATA / "idioms.npz")


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
@pytest.mark.parametrize("name", idioms.IDIOMS)
def test_results(name, hybridized):
    got, _ = idioms.run(mx, name, hybridized)
    want = [ARRAYS[k] for k in ARRAYS.files if k.rsplit(".", 1)[0] == name]
    assert len(got) == len(want)
    for a, b in zip(got, want):
        assert a.shape == b.shape and a.dtype == b.dtype
        onp.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", GRAPHS)
def test_exported_graph(name, tmp_path):
    with mx.name.NameManager():
        assert idioms.run(mx, name, True, str(tmp_path / "m"))[1] == GRAPHS[name]


@pytest.mark.parametrize("name", idioms.IDIOMS)
def test_exported_graph_runs_again(name, tmp_path):
    want, text = idioms.run(mx, name, False, str(tmp_path / "m"))
    net = gluon.SymbolBlock.imports(str(tmp_path / "m-symbol.json"), ["data"], str(tmp_path / "m-0000.params"))
    got = idioms.flat(net(nd.array(onp.linspace(-1, 1, 24).reshape(2, 3, 4))))
    for a, b in zip(got, want):
        onp.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_what_broadcasts_is_exported_under_its_name(tmp_path):
    """MXNet's elemwise operators do not broadcast; shapes are known at export, so the right ones are written."""
    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, pair, scale):  # noqa: N803
            a, b = pair
            return a * F.arange(0, a.shape[-1]) + b[0] - scale, a + a
    net = Net(prefix="net_")
    a, b, c = nd.ones((2, 3)), nd.array([[1, 2, 3]]), nd.array([[5], [6]])
    want = [o.asnumpy() for o in net([a, b], c)]
    net.export(str(tmp_path / "m"))
    nodes = json.loads((tmp_path / "m-symbol.json").read_text())["nodes"]
    assert ([n["op"] for n in nodes
             if n["op"].startswith(("broadcast", "elemwise"))] == ["broadcast_mul", "broadcast_add", "broadcast_sub",
                                                                   "elemwise_add"])
    assert [n["name"] for n in nodes if n["op"] == "null"] == ["data0", "data1",
                                                               "data2"] and all("attrs" not in n for n in nodes
            if n["op"] == "null")
    back = gluon.SymbolBlock.imports(str(tmp_path / "m-symbol.json"), ["data0", "data1", "data2"],
                                     str(tmp_path / "m-0000.params"))
    for x, y in zip(back(a, b, c), want):
        onp.testing.assert_array_equal(x.asnumpy(), y)


def test_the_shape_that_is_written_is_the_first_one(tmp_path):
    deferred, given = gluon.nn.Dense(2, prefix="d_"), gluon.nn.Dense(2, in_units=3, prefix="g_")
    for net, shape in ((deferred, "(2, 0)"), (given, "(2, 3)")):
        net.initialize()
        net(nd.ones((1, 3)))
        net.export(str(tmp_path / "m"))
        nodes = json.loads((tmp_path / "m-symbol.json").read_text())["nodes"]
        assert nodes[1]["attrs"]["__shape__"] == shape


@pytest.mark.parametrize("hybridized", [False, True])
def test_arrays_and_symbols_are_not_mixed(hybridized: bool) -> None:
    """A ValueError, as in MXNet, whichever comes first; Symbols of unknown shapes beside known ones are taken."""
    class Sum(gluon.HybridBlock):
        def hybrid_forward(self, F, a, b):  # noqa: N803
            return a + b
    block = Sum()
    if hybridized:
        block.hybridize()
    for mixed in ((nd.ones((3,)), mx.sym.var("a")), (mx.sym.var("a"), nd.ones((3,)))):
        with pytest.raises(ValueError, match="needs the input|a Symbol cannot be combined with"):
            block(*mixed)
    assert block(mx.sym.var("a", shape=(2, 3)), mx.sym.var("b")).list_arguments() == ["a", "b"]
    assert block(nd.ones((3,)), nd.ones((3,))).asnumpy().tolist() == [2, 2, 2]
