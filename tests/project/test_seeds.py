"""The code of the five documents that this library is made after, with only the import changed, and what they call
impossible."""
from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import time
import types

import numpy as onp
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd, np, npx, sym
from hybrid.gluon import nn

from ..paths import DATA

SEEDS = DATA / "seeds"


class Timer:
    """What the book's package offers."""

    def __init__(self):
        self.start = time.time()

    def stop(self):
        return time.time() - self.start


def code_of(name):
    """A document's code; shell lines (``!ls``) are left to the shell."""
    text = (SEEDS / f"{name}.txt").read_text().replace("import mxnet",
                                                       "import hybrid").replace("from mxnet", "from hybrid")
    return "\n".join(line for line in text.split("\n") if not line.startswith("!"))


@pytest.fixture
def numpy_off():
    yield
    npx.reset_np()


def run_code(name, monkeypatch, tmp_path):
    """Runs a document in an empty folder, as __main__ would; its names and what it printed."""
    monkeypatch.chdir(tmp_path)
    d2l = types.ModuleType("d2l")
    d2l.Timer = Timer
    monkeypatch.setitem(sys.modules, "d2l", d2l)
    module = types.ModuleType("seed")
    monkeypatch.setitem(sys.modules, "seed", module)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code_of(name), f"seed_{name}.py", "exec"), module.__dict__)
    return module.__dict__, printed.getvalue()


@pytest.mark.parametrize("name", ["000", "003"])
def test_portable_through_hybridizing(name, monkeypatch, tmp_path):
    names, text = run_code(name, monkeypatch, tmp_path)
    assert text.count(f"<NDArray 1x2 @{mx.current_context()}>") == 2
    eager, compiled = text.split("=== net(x) ===")[1:3]
    rows = [[float(v) for v in part.split("]]")[0].split("[[")[1].split()] for part in (eager, compiled)]
    onp.testing.assert_allclose(rows[0], rows[1], rtol=1e-5, atol=1e-6)
    assert "<Symbol data>" in text and "_dense2_fwd>" in text
    assert "type(x): NDArray, F: hybrid.ndarray" in text or "type(x): NDArray, F: mxnet.ndarray" in text
    last = text.split("=== 1st forward ===")[-1]
    assert ("type(x): Symbol" in last.split("=== 2nd forward ===")[0]
            and last.split("=== 2nd forward ===")[1].strip() == "")
    graph = json.loads(names["y_json"])
    assert [n["op"] for n in graph["nodes"] if n["op"] != "null"] == ["FullyConnected", "Activation", "FullyConnected",
                                                                      "Activation", "FullyConnected"]
    assert graph["arg_nodes"] == [0, 1, 2, 5, 6, 9, 10] and graph["heads"] == [[11, 0, 0]]
    if name == "003":
        assert sym.load("model.json").tojson() == names["y_json"]
        assert len(nd.load("model.params")) == 6
    else:
        assert (tmp_path / "my_model-symbol.json").exists() and (tmp_path / "my_model-0000.params").exists()


def test_lenet_with_its_own_weight(monkeypatch, tmp_path):
    names, text = run_code("001", monkeypatch, tmp_path)
    assert text.count(f"<NDArray 16x1x28x28 @{mx.current_context()}>") == 2 and text.count("<Symbol data>") >= 1
    net, net2, x = names["net"], names["net2"], names["x"]
    assert net(x).shape == (16, 10)
    onp.testing.assert_allclose(net2(x).asnumpy(), net(x).asnumpy(), rtol=1e-5, atol=1e-6)
    net2.hybridize()
    onp.testing.assert_allclose(net2(x).asnumpy(), net(x).asnumpy(), rtol=1e-5, atol=1e-6)


def test_lenet_saved_as_symbol_and_parameters(monkeypatch, tmp_path):
    names, text = run_code("002", monkeypatch, tmp_path)
    loaded, values = sym.load("model.json"), nd.load("model.params")
    assert loaded.tojson() == names["y"].tojson()
    assert set(values) == set(loaded.list_arguments()) - {"data"}
    block = gluon.SymbolBlock(loaded, [sym.var("data")])
    block.collect_params().load("model.params")
    x = nd.random_normal(shape=(3, 1, 28, 28))
    onp.testing.assert_allclose(block(x).asnumpy(), names["net"](x).asnumpy(), rtol=1e-5, atol=1e-6)


def test_compilers_and_interpreters(monkeypatch, tmp_path, numpy_off):
    names, text = run_code("004", monkeypatch, tmp_path)
    assert text.count("10\n") >= 2 and "Without hybridization: " in text and "With    hybridization: " in text
    assert text.count("module F: ") == 2                              # once eager, once while tracing, never again
    assert (tmp_path / "my_mlp-symbol.json").exists() and (tmp_path / "my_mlp-0000.params").exists()
    assert isinstance(names["net"](names["x"]), np.ndarray)


def test_the_seeds_run_in_a_fresh_process(tmp_path):
    """Nothing of the test process helps: the first document by itself."""
    (tmp_path / "seed.py").write_text(code_of("001"))
    done = subprocess.run([sys.executable, "seed.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# ---- "Operators that do not work with hybridize": here they do
def block(function):
    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, *args):
            return function(F, *args)
    return Net()


IMPOSSIBLE = {
    "broadcast_add": lambda F, x: F.broadcast_add(x, F.ones((1, 1))),
    "plus": lambda F, x: x + F.ones((1, 1)),
    "minus": lambda F, x: x - F.ones((1, 4)),
    "times": lambda F, x: x * F.full((3, 1), 2),
    "divided": lambda F, x: x / F.full((1, 1), 2),
    "modulo": lambda F, x: x % F.full((1, 4), 2),
    "less": lambda F, x: x < F.zeros((1, 1)),
    "less_equal": lambda F, x: x <= F.zeros((3, 1)),
    "greater": lambda F, x: x > F.zeros((1, 4)),
    "greater_equal": lambda F, x: x >= F.zeros((1, 4)),
    "equal": lambda F, x: x == F.zeros((1, 4)),
    "not_equal": lambda F, x: x != F.zeros((1, 4)),
    "shape": lambda F, x: x.reshape((x.shape[0] * x.shape[1],)) * x.shape[-1],
    "index": lambda F, x: x[0],
    "slice": lambda F, x: x[1:, ::2],
    "array": lambda F, x: x + F.array([1.0, 2.0, 3.0, 4.0]),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_what_mxnet_cannot_hybridize(name):
    net = block(IMPOSSIBLE[name])
    x = nd.array(onp.arange(12.0).reshape(3, 4) - 5)
    eager = net(x)
    net.hybridize()
    for _ in range(2):
        got = net(x)
        assert got.shape == eager.shape and got.dtype == eager.dtype
        onp.testing.assert_array_equal(got.asnumpy(), eager.asnumpy())


@pytest.mark.parametrize("op", ["iadd", "isub", "imul", "itruediv", "imod"])
def test_in_place_arithmetic(op):
    import operator

    def forward(F, x, y):
        z = x * 2
        z = getattr(operator, op)(z, y)
        return z
    net = block(forward)
    x, y = nd.array([[1.0, 5], [7, 9]]), nd.array([[2.0, 3], [4, 5]])
    eager = net(x, y).asnumpy()
    net.hybridize()
    onp.testing.assert_array_equal(net(x, y).asnumpy(), eager)
    onp.testing.assert_array_equal(x.asnumpy(), [[1, 5], [7, 9]])


def test_assignment_inside_forward():
    def forward(F, x):
        y = x + 1
        y[:] = y * 2
        y[0] = 7
        return y
    net = block(forward)
    x = nd.ones((2, 2))
    onp.testing.assert_array_equal(net(x).asnumpy(), [[7, 7], [4, 4]])
    net.hybridize()
    onp.testing.assert_array_equal(net(x).asnumpy(), [[7, 7], [4, 4]])


def test_asnumpy_inside_forward_says_why_not():
    net = block(lambda F, x: F.array(x.asnumpy()))
    net.hybridize()
    with pytest.raises(mx.errors.HybridError, match="asnumpy"):
        net(nd.ones((2,)))
    net.hybridize(False)
    assert net(nd.ones((2,))).shape == (2,)


def test_an_if_on_data_names_file_and_line():
    def forward(F, x):
        if x.sum() > 0:
            return x
        return -x
    net = block(forward)
    net.hybridize()
    with pytest.raises(mx.errors.HybridError) as err:
        net(nd.ones((2,)))
    assert "test_seeds.py" in str(err.value)


def test_an_if_on_attributes_works():
    class Net(gluon.HybridBlock):
        negate = False

        def hybrid_forward(self, F, x):
            for _ in range(2):
                x = x + 1
            return -x if self.negate else x
    net, x = Net(), nd.zeros((2,))
    net.hybridize()
    onp.testing.assert_array_equal(net(x).asnumpy(), [2, 2])
    net.negate = True
    onp.testing.assert_array_equal(net(x).asnumpy(), [-2, -2])


def test_the_type_that_is_printed(capsys):
    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            print(f"type(x): {type(x).__name__}")
            return F.relu(x)
    net, x = Net(), nd.ones((2,))
    net(x)
    net.hybridize()
    net(x)
    net(x)
    assert capsys.readouterr().out == "type(x): NDArray\ntype(x): Symbol\n"


def test_training_is_the_same_hybridized():
    grads = []
    for hybridized in (False, True):
        mx.random.seed(3)
        net = nn.HybridSequential()
        net.add(nn.Dense(8, activation="relu", in_units=5), nn.Dense(2, in_units=8))
        net.initialize()
        if hybridized:
            net.hybridize()
        x = nd.array(onp.linspace(-1, 1, 20).reshape(4, 5))
        with autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        grads.append([p.grad().asnumpy() for p in net.collect_params().values()])
    for a, b in zip(*grads):
        onp.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
