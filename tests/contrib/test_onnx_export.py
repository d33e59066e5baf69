"""ONNX files that are written: ONNX Runtime gives what this library gives."""
from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import gluon, ir, nd, sym
from hybrid.base.errors import AttributeValueError, HybridError
from hybrid.graph.symbol import create

from ..ops import gradient_rows
from .onnx_tools import close, exported, run
from ..gluon.test_golden_zoo import MODELS, ZOO, load
from ..paths import DATA

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(0)

# operators that are algorithms of many steps, or need functions that ONNX does not have
REFUSED = frozenset("""
    _npi_dft _npi_rdft _npi_irdft _npi_qr _linalg_potri _linalg_inverse _linalg_slogdet _npi_slogdet _linalg_syevd
    _npi_eigh _linalg_trsm
    _npi_solve _npi_eigvalsh _npi_tensorinv _npi_tensorsolve _linalg_gelqf gamma gammaln erfinv _random_pdf_gamma
    _random_pdf_poisson _random_pdf_negative_binomial
    _random_pdf_generalized_negative_binomial _random_pdf_dirichlet""".split())


def x(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def shapes(infos: Any) -> list[tuple[str, list[Any]]]:
    return [(i.name, [d.dim_value or d.dim_param for d in i.type.tensor_type.shape.dim]) for i in infos]


@pytest.mark.parametrize("model", MODELS)
def test_models_of_mxnet(model: str, tmp_path: Path) -> None:
    """From files that MXNet exported to what MXNet computed."""
    _, inputs, expected, _ = load(model, mx.cpu())
    arrays = [v.asnumpy() for v in inputs]
    path = mx.onnx.export_model(str(ZOO / model / "model-symbol.json"), str(ZOO / model / "model-0000.params"),
                                [a.shape for a in arrays],
                                [a.dtype for a in arrays], str(tmp_path / "model.onnx"))
    close(run(path, arrays), expected)


def test_lenet(tmp_path: Path) -> None:
    digits = np.load(DATA / "digits.npz")
    images = np.repeat(np.repeat(digits["images"][-360:].reshape(-1, 8, 8) / 16, 3, 1), 3, 2)
    data = np.pad(images, ((0, 0), (2, 2), (2, 2)))[:, None].astype(np.float32)
    path = mx.contrib.onnx.export_model(str(DATA / "lenet_digits-symbol.json"), str(DATA / "lenet_digits-0025.params"),
                                        [data.shape], np.float32, str(tmp_path / "lenet.onnx"))
    kinds = [n.op_type for n in onnx.load(path).graph.node]
    assert {"Conv", "MaxPool", "Gemm"} <= set(kinds) and len(kinds) < 16
    close(run(path, [data]), [np.load(DATA / "lenet_digits.test_logits.npy")])


def _rows() -> dict[str, list[Any]]:
    """The first rows of every operator that draws no numbers."""
    out: dict[str, list[Any]] = {}
    for d, row in gradient_rows.rows():
        if not row.train and len(out.setdefault(d.name, [])) < 2 and not d.random(d.parse(row.attrs), False):
            out[d.name].append(row)
    return out


def test_every_operator(tmp_path: Path) -> None:
    refused, count, path = set(), 0, str(tmp_path / "op.onnx")
    for name, rows in _rows().items():
        for row in rows:
            arrays = [a.astype(np.float32) if a.dtype.kind == "f" else a for a in row.inputs]
            symbol = create(row.op, [sym.var(f"x{k}", shape=a.shape, dtype=a.dtype) for k, a in enumerate(arrays)],
                            row.attrs, "y")
            missing = [] if row.op.variadic else [None] * (len(row.op.inputs) - len(arrays))
            program = row.op.program([a.shape for a in arrays] + missing, [a.dtype for a in arrays] + missing,
                                     row.op.parse(row.attrs))
            try:
                mx.onnx.export_model(symbol, {}, [a.shape for a in arrays], [a.dtype for a in arrays], path)
            except HybridError as err:
                assert f"operator {name} " in str(err)
                refused.add(name)
                continue
            wanted = ir.evaluate.run(program, arrays, np)[0][:len(symbol.list_outputs())]
            try:
                close(run(path, arrays), wanted)
            except AssertionError as err:
                raise AssertionError(f"{name} {row.attrs}") from err
            count += 1
    assert refused == REFUSED and count > 400


LOOPS = {
    "foreach": lambda a, b: sym.contrib.foreach(lambda row, s: (row * 2 + s, s + row), a, b)[0],
    "while": lambda a, b: sym.contrib.while_loop(lambda i, s: sym.sum(i) < 3, lambda i, s: ([s * i], [i + 1, s + 1]),
                                             [sym.zeros_like(sym.slice_axis(b, axis=0, begin=0, end=1)), b], 5)[0][0],
    "cond": lambda a, b: sym.contrib.cond(sym.sum(b) > 100, lambda: b * 2, lambda: b - 1),
}


@pytest.mark.parametrize("kind", LOOPS)
def test_loops(kind: str, tmp_path: Path) -> None:
    a, b = x(4, 3), x(3)
    symbol = LOOPS[kind](sym.var("a"), sym.var("b"))
    inputs = [{"a": a, "b": b}[n] for n in symbol.list_inputs()]
    path = mx.onnx.export_model(symbol, {}, [v.shape for v in inputs], np.float32, str(tmp_path / "loop.onnx"))
    net = gluon.SymbolBlock(symbol, [sym.var(n) for n in symbol.list_inputs()])
    close(run(path, inputs), [net(*map(nd.array, inputs))])


class Attention(gluon.HybridBlock):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.norm = gluon.nn.Dense(24, flatten=False), gluon.nn.LayerNorm()

    def hybrid_forward(self, F: Any, data: Any) -> Any:
        heads = F.reshape(F.transpose(F.reshape(self.qkv(data), (0, 0, 4, -1)), (0, 2, 1, 3)), (-3, 0, 0))
        mixed = F.batch_dot(F.softmax(F.batch_dot(heads, heads, transpose_b=True) / 2.5), heads)
        return self.norm(F.reshape(F.transpose(F.reshape(mixed, (-4, -1, 4, 0, 0)), (0, 2, 1, 3)), (0, 0, -1))) + data


def _convolutions() -> gluon.HybridBlock:
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Conv2D(4, 3), gluon.nn.BatchNorm(), gluon.nn.PReLU(), gluon.nn.AvgPool2D(2),
            gluon.nn.GlobalAvgPool2D(), gluon.nn.Dense(3))
    return net


DYNAMIC = {        # network, its input's shape, what varies, another shape, the output's shape as it is declared
    "attention": (Attention, (2, 5, 24), None, (3, 7, 24), ["n0", "n1", 24]),
    "pictures": (_convolutions, (1, 3, 12, 12), [("n", 3, None, None)], (4, 3, 20, 16), ["n", 3]),
    "lstm": (lambda: gluon.rnn.LSTM(6, 2, layout="NTC", bidirectional=True), (2, 5, 4), [("n", 5, 4)], (3, 5, 4),
             ["n", 5, 12]),
    "counted": (lambda: gluon.nn.HybridLambda(lambda F, d: F.broadcast_add(d, F.contrib.arange_like(d, axis=1))),
                (2, 5), [("n", "t")], (3, 4), ["n", "t"]),
    "gru": (lambda: gluon.rnn.GRU(6, 2), (5, 2, 4), [(None, "n", 4)], (6, 3, 4), ["n0", "n", 6]),
}


@pytest.mark.parametrize("kind", DYNAMIC)
def test_lengths_that_vary(kind: str, tmp_path: Path) -> None:
    make, given, varying, others, declared = DYNAMIC[kind]
    net = make()
    net.initialize(mx.init.Xavier())
    data, more = x(*given), x(*others)
    path, wanted = exported(net, data, tmp_path, traced=kind == "lstm", dynamic=True, dynamic_input_shapes=varying)
    close(run(path, [data]), wanted)
    close(run(path, [more]), [net(nd.array(more))])
    assert shapes(onnx.load(path).graph.output)[0][1] == declared


def test_names(tmp_path: Path) -> None:
    """Inputs, outputs and parameters have MXNet's names; labels of losses are left out."""
    symbol = sym.SoftmaxOutput(sym.FullyConnected(sym.var("data"), num_hidden=3, name="fc"), name="softmax")
    params = {"arg:fc_weight": nd.array(x(3, 4)), "fc_bias": nd.array(x(3))}
    path = mx.onnx.export_model(symbol, [params, {}], input_shape=[(2, 4)], input_type=np.float32,
                                onnx_file_path=str(tmp_path / "a.onnx"), run_shape_inference=True)
    graph = onnx.load(path).graph
    assert (shapes(graph.input), shapes(graph.output)) == ([("data", [2, 4])], [("softmax", [2, 3])])
    assert sorted(i.name for i in graph.initializer) == ["fc_bias",
                                                         "fc_weight"] and [n.op_type for n in graph.node] == ["Gemm",
            "Softmax"]
    given = sym.var("data")
    several = sym.Group([sym.split(given, num_outputs=2, name="s")[1], given])
    path = mx.onnx.export_model(several, {}, [(2, 4)], np.float32, str(tmp_path / "b.onnx"))
    data = x(2, 4)
    assert [o.name for o in onnx.load(path).graph.output][0] == "s1"
    close(run(path, [data]), [data[:, 2:], data])


@pytest.mark.parametrize("opset", [13, 17])
def test_opsets(opset: int, tmp_path: Path) -> None:
    net = Attention()
    net.initialize()
    path, wanted = exported(net, x(2, 5, 24), tmp_path, opset_version=opset)
    model = onnx.load(path)
    assert (model.opset_import[0].version == opset
            and ("LayerNormalization" in [n.op_type for n in model.graph.node]) == (opset == 17))


def test_half_precision(tmp_path: Path) -> None:
    net = gluon.nn.Dense(3)
    net.initialize()
    net.cast("float16")
    data = x(2, 4).astype(np.float16)
    path, wanted = exported(net, data, tmp_path)
    close(run(path, [data]), wanted, 1e-2)


ERRORS = {
    "random": (lambda: mx.onnx.export_model(sym.random.uniform(shape=(2,), name="u") + sym.var("a"), {}, [(2,)]),
               r"_random_uniform \(node 'u'\).*random numbers"),
    "custom-operator": (lambda: mx.onnx.export_model(sym.linalg.potrf(sym.var("a"), name="p"), {}, [(2, 2)]),
                        r"_linalg_potrf \(node 'p'\).*cannot be written as ONNX"),
    "no-shapes": (lambda: mx.onnx.export_model(sym.var("a") + 1, {}), "in_shapes is missing.*a"),
    "too-many-shapes": (lambda: mx.onnx.export_model(sym.var("a") + 1, {}, [(2,), (3,)]), "2 shapes.*1 inputs.*a"),
    "opset": (lambda: mx.onnx.export_model(sym.var("a") + 1, {}, [(2,)], opset_version=9), "opsets 13 to 17"),
    "no-symbol": (lambda: mx.onnx.export_model(gluon.nn.Dense(2), {}, [(2,)]), "a Symbol or the path.*Dense"),
    "params": (lambda: mx.onnx.export_model(sym.var("a") + 1, 3, [(2,)]), "params must be.*int"),
    "types": (lambda: mx.onnx.export_model(sym.var("a") + sym.var("b"), {}, [(2,), (2,)], []), "0 dtypes for 2 inputs"),
    "fixed-length": (lambda: mx.onnx.export_model(sym.broadcast_add(sym.var("a"), sym.arange(3)), {}, [(3,)],
                                                  dynamic_input_shapes=[(None,)]), "cannot be broadcast"),
    "needed-length": (lambda: mx.onnx.export_model(sym.sort(sym.var("a"), name="steps"), {}, [(3,)],
                                                   dynamic_input_shapes=[("n",)]),
                      "'steps' needs lengths that are known"),
    "dynamic-shapes": (lambda: mx.onnx.export_model(sym.var("a") + 1, {}, [(3,)], dynamic=True,
                                                    dynamic_input_shapes=[(None, 3)]), "does not fit the inputs"),
}


@pytest.mark.parametrize("kind", ERRORS)
def test_errors(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call, words = ERRORS[kind]
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HybridError, match=words):
        call()
    assert not list(tmp_path.iterdir())


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    for call in (lambda: mx.onnx.export_model(sym.var("a"), {}, [(2,)]),
                 lambda: mx.contrib.onnx.import_model(__file__)):
        with pytest.raises(HybridError, match=r"pip install onnx"):
            call()


def test_operator_support() -> None:
    names = mx.onnx.get_operator_support()
    assert {"Convolution", "BatchNorm", "RNN", "Dropout"} <= set(names) and "_random_uniform" not in names
    assert json.dumps(names) and isinstance(AttributeValueError("x"), HybridError)
