"""Lengths that vary, in ONNX files: names of sizes are written as dim_param, and a file with dim_param is a network of
any length with one program, beside ONNX Runtime."""
from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import Dim, gluon, nd
from hybrid.contrib.onnx.any_length import AnyLengthNet

from .onnx_tools import close, run

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
h = onnx.helper if onnx else None
DRAW = np.random.RandomState(0)
NUMBERS = {"zero": np.int64(0), "one": np.int64(1), "first": np.int64([0]), "second": np.int64([1]),
           "rest": np.int64([-1]), "heads": np.int64([2]), "width": np.int64([4]), "all": np.int64([8]),
           "three": np.int64([3]), "weights": DRAW.randn(8, 8).astype(np.float32),
           "table": DRAW.randn(64, 8).astype(np.float32), "token": DRAW.randn(1, 1, 8).astype(np.float32)}
N = h.make_node


def length(axis: str, out: str) -> list[Any]:
    """The length of an axis of x as a vector of one, as PyTorch's exporter writes it."""
    return [N("Shape", ["x"], [f"{out}_shape"]), N("Gather", [f"{out}_shape", axis], [f"{out}_alone"], axis=0),
            N("Unsqueeze", [f"{out}_alone", "first"], [out])]


def heads() -> list[Any]:
    return [*length("zero", "b"), *length("one", "t"), N("MatMul", ["x", "weights"], ["q"]),
            N("Concat", ["b", "t", "heads", "width"], ["s"], axis=0), N("Reshape", ["q", "s"], ["r"]),
            N("Transpose", ["r"], ["l"], perm=[0, 2, 1, 3]), N("Transpose", ["r"], ["k"], perm=[0, 2, 3, 1]),
            N("MatMul", ["l", "k"], ["a"]), N("Softmax", ["a"], ["p"], axis=-1), N("MatMul", ["p", "l"], ["m"]),
            N("Transpose", ["m"], ["o"], perm=[0, 2, 1, 3]), N("Concat", ["b", "t", "all"], ["s2"], axis=0),
            N("Reshape", ["o", "s2"], ["y"])]


def positions() -> list[Any]:
    return [*length("one", "t"), N("Slice", ["table", "first", "t", "first"], ["p"]), N("Add", ["x", "p"], ["y"])]


def counted() -> list[Any]:
    return [*length("one", "t"), N("Range", ["zero", "t_alone", "one"], ["r"]), N("Gather", ["table", "r"], ["p"]),
            N("Add", ["x", "p"], ["y"])]


def class_token() -> list[Any]:
    one = onnx.numpy_helper.from_array(np.int64([1]))
    return [*length("zero", "b"), N("Concat", ["b", "rest", "rest"], ["s"], axis=0),
            N("ConstantOfShape", ["three"], ["ones"], value=one), N("Equal", ["s", "rest"], ["whole"]),
            N("Where", ["whole", "ones", "s"], ["s2"]), N("Expand", ["token", "s2"], ["c"]),
            N("Concat", ["c", "x"], ["y"], axis=1)]


def causal_mask() -> list[Any]:
    low = onnx.numpy_helper.from_array(np.float32([-1e9]))
    return [*length("one", "t"), N("Concat", ["t", "t"], ["s"], axis=0), N("ConstantOfShape", ["s"], ["f"], value=low),
            N("Trilu", ["f", "one"], ["mask"], upper=1), N("Transpose", ["x"], ["k"], perm=[0, 2, 1]),
            N("MatMul", ["x", "k"], ["a"]), N("Add", ["a", "mask"], ["am"]), N("Softmax", ["am"], ["p"], axis=-1),
            N("MatMul", ["p", "x"], ["y"])]


def last_step() -> list[Any]:
    return [*length("one", "t"), N("Sub", ["t_alone", "one"], ["l"]), N("Gather", ["x", "l"], ["y"], axis=1)]


def mean_by_length() -> list[Any]:
    return [*length("one", "t"), N("Cast", ["t_alone"], ["real"], to=1),
            N("ReduceSum", ["x", "second"], ["sum"], keepdims=0), N("Div", ["sum", "real"], ["y"])]


def length_as_data() -> list[Any]:
    return [*length("one", "t"), N("ReduceMax", ["t"], ["m"], keepdims=0), N("Cast", ["m"], ["real"], to=1),
            N("Add", ["x", "real"], ["y"])]


PATTERNS: list[Callable[[], list[Any]]] = [heads, positions, counted, class_token, causal_mask, last_step,
                                           mean_by_length, length_as_data]


def model(nodes: list[Any], path: Path) -> str:
    used = {name for n in nodes for name in n.input}
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", 1, ["batch", "time", 8])],
                         [h.make_tensor_value_info("y", 1, None)],
                         [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in NUMBERS.items() if k in used])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), str(path))
    return str(path)


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("make", PATTERNS, ids=lambda f: f.__name__)
def test_a_file_with_dim_param_takes_any_length(make: Any, hybridized: bool, tmp_path: Path) -> None:
    path = model(make(), tmp_path / "net.onnx")
    net = mx.contrib.onnx.import_to_gluon(path, ctx=mx.cpu())
    assert isinstance(net, gluon.SymbolBlock)
    if hybridized:
        net.hybridize()
    for shape in ((2, 5, 8), (3, 7, 8), (4, 9, 8), (11, 6, 8), (5, 31, 8), (2, 5, 8)):
        x = DRAW.randn(*shape).astype(np.float32)
        close([net(nd.array(x))], run(path, [x]))
    if hybridized:
        assert len(net.programs) <= 2, [p.sizes for p in net.programs]


def test_lengths_of_one_and_gradients(tmp_path: Path) -> None:
    path = model(positions(), tmp_path / "net.onnx")
    net = mx.contrib.onnx.import_to_gluon(path, ctx=mx.cpu())
    assert isinstance(net, AnyLengthNet)
    net.hybridize()
    for shape in ((1, 1, 8), (1, 3, 8), (2, 4, 8)):
        x = nd.array(DRAW.randn(*shape))
        x.attach_grad()
        with mx.autograd.record():
            y = net(x)
        y.backward()
        close([y], run(path, [x.asnumpy()]))
        assert (x.grad.asnumpy() == 1).all()
        table = net.collect_params()["table"].grad().asnumpy()
        assert (table[:shape[1]] == shape[0]).all() and not table[shape[1]:].any()
    with pytest.raises(mx.MXNetError, match="takes 1 inputs"):
        net(x, x)


class Encoder(gluon.HybridBlock):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.norm = gluon.nn.Dense(8, flatten=False), gluon.nn.LayerNorm()

    def forward(self, data: Any, mask: Any) -> Any:
        scores = nd.batch_dot(data, data, transpose_b=True) + nd.expand_dims(mask, axis=1)
        return self.norm(self.inner(nd.batch_dot(nd.softmax(scores), data)) + data)


def dims(infos: Any) -> list[list[Any]]:
    return [[d.dim_param or d.dim_value for d in i.type.tensor_type.shape.dim] for i in infos]


def test_names_of_sizes_are_written(tmp_path: Path) -> None:
    """hybridize names them, the exported symbol carries them, and the ONNX file has them as dim_param."""
    net = Encoder()
    net.initialize()
    net.hybridize(dynamic={"data": {0: "batch", 1: Dim("time", 2, 64)}, "mask": {0: "batch", 1: Dim("time", 2, 64)}})
    data, mask = (DRAW.randn(*s).astype(np.float32) for s in ((2, 5, 8), (2, 5)))
    net(nd.array(data), nd.array(mask))
    files = net.export(str(tmp_path / "net"))
    notes = mx.sym.load(files[0]).attr_dict()
    assert (notes["data0"]["__size_names__"], notes["data1"]["__size_names__"]) == ("batch,time,", "batch,time")
    path = mx.onnx.export_model(*files, [data.shape, mask.shape], np.float32, str(tmp_path / "net.onnx"))
    graph = onnx.load(path).graph
    assert dims(graph.input) == [["batch", "time", 8], ["batch", "time"]]
    assert dims(graph.output) == [["batch", "time", 8]]
    again = mx.contrib.onnx.import_to_gluon(path, ctx=mx.cpu())
    again.hybridize()
    for n, t in ((2, 5), (3, 7), (4, 9), (6, 33)):
        inputs = [DRAW.randn(n, t, 8).astype(np.float32), DRAW.randn(n, t).astype(np.float32)]
        wanted = [net(*map(nd.array, inputs))]
        close(run(path, inputs), wanted)
        close([again(*map(nd.array, inputs))], wanted)
    assert len(again.programs) <= 2
    fixed = mx.onnx.export_model(*files, [data.shape, mask.shape], np.float32, str(tmp_path / "fixed.onnx"),
                                 dynamic_input_shapes=[data.shape, mask.shape])
    assert dims(onnx.load(fixed).graph.input) == [[2, 5, 8], [2, 5]]


def test_names_of_the_inputs_of_a_file_name_its_sizes(tmp_path: Path) -> None:
    """An imported network's sizes are named by the file's inputs, and are written again."""
    path = model(heads(), tmp_path / "net.onnx")
    net = mx.contrib.onnx.import_to_gluon(path, ctx=mx.cpu())
    net.hybridize(dynamic={"x": {0: "rows", 1: "columns"}})
    for shape in ((2, 5, 8), (3, 7, 8), (4, 9, 8)):
        net(nd.array(DRAW.randn(*shape)))
    assert [p.sizes for p in net.programs] == [("float32[2, 5, 8]",), ("float32[n_rows, n_columns, 8]",)]
    files = net.export(str(tmp_path / "again"))
    written = mx.onnx.export_model(*files, [(2, 5, 8)], np.float32, str(tmp_path / "again.onnx"))
    assert dims(onnx.load(written).graph.input) == [["rows", "columns", 8]]
    x = DRAW.randn(5, 6, 8).astype(np.float32)
    close(run(written, [x]), run(path, [x]))
    net.hybridize()
    net(nd.array(x))
    net.export(str(tmp_path / "again"))
    assert "__size_names__" not in (tmp_path / "again-symbol.json").read_text()
