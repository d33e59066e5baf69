"""ONNX files that are read: files of PyTorch's exporter, of this library, and single nodes against ONNX Runtime."""
from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import gluon, nd
from hybrid.base.errors import AttributeValueError, FileFormatError, HybridError

from .onnx_tools import close, exported, run
from ..gluon.test_golden_zoo import MODELS, ZOO, load
from ..paths import DATA

onnx = pytest.importorskip("onnx")
RNG = np.random.default_rng(0)
FILES = ["attention", "lstm", "gru", "rnn", "unet", "shuffle", "indexing"]


def f(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def listed(found: Any) -> list[Any]:
    return list(found) if isinstance(found, (list, tuple)) else [found]


def written(path: Path, kind: str, inputs: list[np.ndarray], constants: dict[int, Any], outputs: int = 1,
            opset: int = 17, **attrs: Any) -> Any:
    """A model of one node. constants: inputs that are known, by position; None for one that is left out."""
    h = onnx.helper
    count = len(inputs) + len(constants)
    # x0, c1, x2: the inputs in order
    names = [("" if constants[k] is None else f"c{k}") if k in constants else f"x{k}" for k in range(count)]
    node = h.make_node(kind, names, [f"y{k}" for k in range(outputs)], **attrs)
    infos = [h.make_tensor_value_info(name, h.np_dtype_to_tensor_dtype(a.dtype), a.shape)
             for name, a in zip([n for n in names if n.startswith("x")], inputs)]
    tensors = [onnx.numpy_helper.from_array(np.asarray(v), f"c{k}") for k, v in constants.items() if v is not None]
    graph = h.make_graph([node], "one", infos, [h.make_tensor_value_info(f"y{k}", 1, None) for k in range(outputs)],
                         tensors)
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return model


IMAGE = f(2, 4, 7, 6)
NODES: dict[str, tuple[Any, ...]] = {          # kind, inputs, constants, attributes
    "conv-same": ("Conv", [IMAGE], {1: f(6, 2, 3, 3), 2: f(6)},
                  {"auto_pad": "SAME_UPPER", "group": 2, "strides": [2, 2]}),
    "conv-uneven-padding": ("Conv", [IMAGE], {1: f(3, 4, 3, 2)}, {"pads": [1, 0, 2, 1], "dilations": [1, 2]}),
    "conv-1d": ("Conv", [f(2, 3, 9)], {1: f(4, 3, 3)}, {"pads": [1, 1]}),
    "conv-transpose": ("ConvTranspose", [f(1, 2, 3, 4)], {1: f(2, 3, 3, 3)},
                       {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
    "conv-transpose-uneven": ("ConvTranspose", [f(1, 2, 3, 4)], {1: f(2, 3, 3, 3)},
                              {"strides": [2, 2], "pads": [0, 1, 1, 0]}),
    "conv-transpose-shape": ("ConvTranspose", [f(1, 1, 3, 3)], {1: f(1, 2, 3, 3)},
                             {"strides": [3, 2], "output_shape": [10, 8]}),
    "gemm": ("Gemm", [f(3, 4)], {1: f(5, 4), 2: f(5)}, {"transB": 1}),
    "gemm-scaled": ("Gemm", [f(4, 3)], {1: f(4, 5), 2: f(1, 5)}, {"transA": 1, "alpha": 0.5, "beta": 2.0}),
    "matmul": ("MatMul", [f(2, 3, 4)], {1: f(4, 5)}, {}),
    "einsum": ("Einsum", [f(2, 3, 4), f(2, 5, 4)], {}, {"equation": "bij, bkj -> bik"}),
    "batch-norm": ("BatchNormalization", [IMAGE], {1: f(4), 2: f(4), 3: f(4), 4: np.abs(f(4))}, {"epsilon": 0.01}),
    "instance-norm": ("InstanceNormalization", [IMAGE], {1: f(4), 2: f(4)}, {}),
    "layer-norm": ("LayerNormalization", [f(2, 3, 4)], {1: f(4), 2: f(4)}, {}),
    "layer-norm-axes": ("LayerNormalization", [f(2, 3, 4)], {1: f(3, 4)}, {"axis": 1}),
    "lrn": ("LRN", [IMAGE], {}, {"size": 3, "alpha": 0.1, "bias": 2.0}),
    "max-pool-ceil": ("MaxPool", [IMAGE], {}, {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    "max-pool-uneven": ("MaxPool", [IMAGE], {}, {"kernel_shape": [3, 2], "pads": [1, 0, 0, 1]}),
    "max-pool-dilated": ("MaxPool", [IMAGE], {}, {"kernel_shape": [3, 2], "dilations": [2, 3], "pads": [1, 0, 2, 1],
                                                  "strides": [2, 1]}),
    "average-pool": ("AveragePool", [IMAGE], {}, {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    "average-pool-whole": ("AveragePool", [IMAGE], {},
                           {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
    "average-pool-uneven": ("AveragePool", [IMAGE], {}, {"kernel_shape": [3, 2], "pads": [0, 0, 2, 1]}),
    "global-pool": ("GlobalAveragePool", [IMAGE], {}, {}),
    "prelu": ("PRelu", [IMAGE], {1: f(4, 1, 1)}, {}),
    "prelu-last-axis": ("PRelu", [IMAGE], {1: f(6)}, {}),
    "leaky": ("LeakyRelu", [f(9)], {}, {}),
    "elu": ("Elu", [f(9)], {}, {"alpha": 0.7}),
    "selu": ("Selu", [f(9)], {}, {}),
    "celu": ("Celu", [f(9)], {}, {"alpha": 2.0}),
    "thresholded": ("ThresholdedRelu", [f(9)], {}, {"alpha": 0.5}),
    "hard-sigmoid": ("HardSigmoid", [f(9)], {}, {"alpha": 0.3}),
    "hard-swish": ("HardSwish", [f(9)], {}, {}),
    "softplus": ("Softplus", [f(9)], {}, {}),
    "clip": ("Clip", [f(9)], {1: np.float32(-0.5), 2: np.float32(0.4)}, {}),
    "clip-above": ("Clip", [f(9)], {1: None, 2: np.float32(0.4)}, {}),
    "softmax": ("Softmax", [f(2, 3, 4)], {}, {"axis": 1}),
    "add-number": ("Add", [f(2, 3)], {1: np.float32(2)}, {}),
    "divide-integers": ("Div", [np.array([7, -7, 6])], {1: np.array([2, 2, -4])}, {}),
    "mod": ("Mod", [np.array([7, -7, 6])], {1: np.array([3, 3, -4])}, {}),
    "fmod": ("Mod", [f(5)], {1: f(5)}, {"fmod": 1}),
    "pow": ("Pow", [np.abs(f(5))], {1: np.float32(1.5)}, {}),
    "max-of-three": ("Max", [f(2, 3), f(3), f(2, 1)], {}, {}),
    "mean-of-three": ("Mean", [f(3), f(3), f(3)], {}, {}),
    "greater": ("Greater", [f(3), f(3)], {}, {}),
    "not": ("Not", [f(5) > 0], {}, {}),
    "is-inf": ("IsInf", [np.array([1, np.inf, -np.inf], np.float32)], {}, {"detect_negative": 0}),
    "where": ("Where", [f(2, 3) > 0, f(3), f(2, 1)], {}, {}),
    "cast": ("Cast", [f(5) * 4], {}, {"to": 7}),
    "flatten": ("Flatten", [f(2, 3, 4)], {}, {"axis": 2}),
    "reshape": ("Reshape", [f(2, 3, 4)], {1: np.array([0, -1, 2])}, {}),
    "squeeze": ("Squeeze", [f(2, 1, 3, 1)], {1: np.array([-1])}, {}),
    "unsqueeze": ("Unsqueeze", [f(2, 3)], {1: np.array([0, -1])}, {}),
    "expand": ("Expand", [f(3, 1)], {1: np.array([2, 1, 4])}, {}),
    "tile": ("Tile", [f(2, 3)], {1: np.array([2, 1])}, {}),
    "slice": ("Slice", [f(5, 6, 4)], {1: np.array([-3, 5]), 2: np.array([1000, 0]), 3: np.array([0, 1]),
                                      4: np.array([1, -2])}, {}),
    "slice-nothing": ("Slice", [f(5, 6)], {1: np.array([7]), 2: np.array([9]), 3: np.array([1])}, {}),
    "gather": ("Gather", [f(3, 5)], {1: np.array([[0, -1], [2, 3]])}, {"axis": 1}),
    "gather-one": ("Gather", [f(3, 5)], {1: np.array(-2)}, {"axis": 1}),
    "gather-data": ("Gather", [f(5, 3), np.array([4, 0, -1])], {}, {}),
    "gather-nd": ("GatherND", [f(3, 4, 2)], {1: np.array([[0, 1], [2, 3]])}, {}),
    "gather-elements": ("GatherElements", [f(3, 4), np.array([[0, -1], [2, 1], [3, 3]])], {}, {"axis": 1}),
    "scatter-nd": ("ScatterND", [f(3, 4), f(2, 4)], {1: np.array([[2], [-3]])}, {}),
    "grid-sample": ("GridSample", [f(1, 2, 4, 5), f(1, 3, 3, 2)], {}, {"align_corners": 1}),
    "det": ("Det", [f(3, 3)], {}, {}),
    "one-hot": ("OneHot", [np.array([1, -1, 7])], {1: np.array(4), 2: np.array([-1, 2], np.float32)}, {"axis": 0}),
    "cumulative-sum": ("CumSum", [f(3, 4)], {1: np.array(1)}, {"exclusive": 1, "reverse": 1}),
    "triangle": ("Trilu", [f(3, 4)], {1: np.array(1)}, {"upper": 0}),
    "argmax": ("ArgMax", [f(3, 4)], {}, {"axis": 1, "keepdims": 0}),
    "pad-edge": ("Pad", [f(2, 3)], {1: np.array([0, 1, 0, 2])}, {"mode": "edge"}),
    "pad-reflect": ("Pad", [f(2, 4)], {1: np.array([0, 1, 0, 2])}, {"mode": "reflect"}),
    "pad-negative": ("Pad", [f(4, 5)], {1: np.array([-1, 1, 1, -2]), 2: np.float32(3)}, {}),
    "depth-to-space": ("DepthToSpace", [f(1, 8, 2, 3)], {}, {"blocksize": 2, "mode": "CRD"}),
    "space-to-depth": ("SpaceToDepth", [f(1, 2, 4, 6)], {}, {"blocksize": 2}),
    "reduce-sum": ("ReduceSum", [f(2, 3, 4)], {1: np.array([0, 2])}, {"keepdims": 0}),
    "reduce-all": ("ReduceMean", [f(2, 3, 4)], {}, {}),
    "reduce-l2": ("ReduceL2", [f(2, 3, 4)], {}, {"axes": [1], "keepdims": 0}),
    "reduce-log-sum-exp": ("ReduceLogSumExp", [f(2, 3)], {}, {"axes": [1], "keepdims": 0}),
    "resize-nearest": ("Resize", [f(1, 2, 3, 3)], {1: None, 2: np.array([1, 1, 2, 2], np.float32)},
                       {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
    "resize-linear": ("Resize", [f(1, 2, 4, 6)], {1: None, 2: None, 3: np.array([1, 2, 7, 4])}, {"mode": "linear"}),
    "resize-corners": ("Resize", [f(1, 1, 4, 7)], {1: None, 2: np.array([1, 1, 0.6, 1.3], np.float32)},
                       {"mode": "cubic", "coordinate_transformation_mode": "align_corners"}),
    "resize-nearest-uneven": ("Resize", [f(1, 1, 4, 7)], {1: None, 2: None, 3: np.array([1, 1, 7, 5])}, {}),
    "resize-linear-1d": ("Resize", [f(1, 2, 5)], {1: None, 2: None, 3: np.array([1, 2, 8])},
                         {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"}),
    "resize-cubic-outside": ("Resize", [f(1, 2, 4, 6)], {1: None, 2: np.array([1, 1, 1.5, 2], np.float32)},
                             {"mode": "cubic", "exclude_outside": 1}),
    "resize-cubic": ("Resize", [f(1, 2, 4, 6)], {1: None, 2: np.array([1, 1, 1.5, 0.5], np.float32)},
                     {"mode": "cubic", "coordinate_transformation_mode": "asymmetric"}),
}


@pytest.mark.parametrize("name", NODES)
def test_nodes(name: str, tmp_path: Path) -> None:
    kind, inputs, constants, attrs = NODES[name]
    outputs = {"ArgMax": 7, "Cast": 7, "Greater": 9, "Not": 9,
               "IsInf": 9}.get(kind,
                               onnx.helper.np_dtype_to_tensor_dtype(inputs[-1].dtype if kind == "Where"
                                                                    else inputs[0].dtype))
    model = written(tmp_path / "node.onnx", kind, inputs, constants, **attrs)
    model.graph.output[0].type.tensor_type.elem_type = 1 if kind == "OneHot" else outputs
    (tmp_path / "node.onnx").write_bytes(model.SerializeToString())
    wanted = run(tmp_path / "node.onnx", inputs)
    net = mx.contrib.onnx.import_to_gluon(str(tmp_path / "node.onnx"), mx.cpu())
    close(listed(net(*(nd.array(v, dtype=v.dtype) for v in inputs))), wanted)


@pytest.mark.parametrize("outputs", [{"opset": 9, "axis": 1}], ids=["softmax-9"])
def test_older_opsets(outputs: Any, tmp_path: Path) -> None:
    """Before opset 13 Softmax was over all axes from one on."""
    data = f(2, 3, 4)
    written(tmp_path / "node.onnx", "Softmax", [data], {}, **outputs)
    net = mx.contrib.onnx.import_to_gluon(str(tmp_path / "node.onnx"), mx.cpu())
    e = np.exp(data)
    close([net(nd.array(data))], [e / e.sum((1, 2), keepdims=True)])


@pytest.mark.parametrize("name", FILES)
def test_files_of_pytorch(name: str, tmp_path: Path) -> None:
    """PyTorch's results, and for a batch of another length where the file leaves it open."""
    with zipfile.ZipFile(DATA / "onnx_torch.zip") as archive:
        (tmp_path / "net.onnx").write_bytes(archive.read(f"{name}.onnx"))
        arrays = dict(np.load(io.BytesIO(archive.read(f"{name}.npz"))))
    wanted = [arrays[k] for k in sorted(k for k in arrays if k.startswith("y"))]
    net = mx.contrib.onnx.import_to_gluon(str(tmp_path / "net.onnx"), ctx=mx.cpu())
    if name in ("attention", "lstm"):
        net.hybridize()
    x, axis = arrays["x"], int(arrays["axis"])
    close(listed(net(nd.array(x, dtype=x.dtype))), wanted)
    if axis >= 0:
        more = listed(net(nd.array(np.concatenate([x, x], axis), dtype=x.dtype)))
        close([np.take(y.asnumpy(), range(w.shape[axis]), axis) for y, w in zip(more, wanted)], wanted)


@pytest.mark.parametrize("model", MODELS)
def test_there_and_back(model: str, tmp_path: Path) -> None:
    _, inputs, expected, _ = load(model, mx.cpu())
    path = mx.onnx.export_model(str(ZOO / model / "model-symbol.json"), str(ZOO / model / "model-0000.params"),
                                [v.shape for v in inputs], [v.dtype for v in inputs],
                                str(tmp_path / "model.onnx"))
    symbol, arg_params, aux_params = mx.contrib.onnx.import_model(path)
    assert (set(aux_params) == set(symbol.list_auxiliary_states())
            and any(k.endswith("running_mean") for k in aux_params))
    original = mx.nd.load(str(ZOO / model / "model-0000.params"))
    assert all((original[f"arg:{k}"].asnumpy() == v.asnumpy()).all()
               for k, v in arg_params.items() if f"arg:{k}" in original)
    net = mx.contrib.onnx.import_to_gluon(path, [mx.cpu()])
    close(listed(net(*inputs)), expected)


def test_recurrent_layers_there_and_back(tmp_path: Path) -> None:
    net = gluon.rnn.LSTM(5, 2, bidirectional=True)
    net.initialize(mx.init.Uniform(0.5))
    data = f(4, 2, 3)
    path, wanted = exported(net, data, tmp_path)
    assert [n.op_type for n in onnx.load(path).graph.node].count("LSTM") == 2
    close(run(path, [data]), wanted)
    again = mx.contrib.onnx.import_to_gluon(path, mx.cpu())
    assert "RNN" in again._symbol().tojson()
    close(listed(again(nd.array(data))), wanted)


def test_loops_there_and_back(tmp_path: Path) -> None:
    """A foreach, and the loop that suppression of boxes becomes."""
    a, b, boxes = f(4, 3), f(3), np.abs(f(1, 6, 6))
    sums = mx.sym.contrib.foreach(lambda row, s: (row * 2 + s, s + row), mx.sym.var("a"), mx.sym.var("b"))[0]
    for symbol, inputs in ((sums, [a, b]), (mx.sym.contrib.box_nms(mx.sym.var("a"), overlap_thresh=0.1), [boxes])):
        path = mx.onnx.export_model(symbol, {}, [v.shape for v in inputs], np.float32, str(tmp_path / "loop.onnx"))
        assert "Scan" in [n.op_type for n in onnx.load(path).graph.node]
        net = mx.contrib.onnx.import_to_gluon(path, mx.cpu())
        wanted = gluon.SymbolBlock(symbol, [mx.sym.var(n) for n in symbol.list_inputs()])(*map(nd.array, inputs))
        close(listed(net(*map(nd.array, inputs))), [wanted])


def _condition(h: Any) -> tuple[Any, list[Any]]:
    """x + 1 where its sum is positive, else 2 x."""
    def part(kind: str) -> Any:
        return h.make_graph([h.make_node(kind, ["x", "two"], ["z"])], kind, [],
                            [h.make_tensor_value_info("z", 1, [3])], [h.make_tensor("two", 1, [1], [2.0])])
    nodes = [h.make_node("ReduceSum", ["x"], ["s"], keepdims=0), h.make_node("Greater", ["s", "zero"], ["c"]),
             h.make_node("If", ["c"], ["y"], then_branch=part("Add"), else_branch=part("Mul"))]
    return nodes, [h.make_tensor("zero", 1, [], [0.0])]


@pytest.mark.parametrize("kind", ["branches", "functions"])
def test_graphs_within(kind: str, tmp_path: Path) -> None:
    """Branches within a node, and a function of the file."""
    h = onnx.helper
    imports = [h.make_opsetid("", 17), h.make_opsetid("own", 1)]
    nodes, tensors = _condition(h) if kind == "branches" else ([h.make_node("twice", ["x"], ["y"], domain="own")], [])
    twice = h.make_function("own", "twice", ["a"], ["b"], [h.make_node("Add", ["a", "a"], ["b"])], imports[:1])
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", 1, [3])], [h.make_tensor_value_info("y", 1, [3])],
                         tensors)
    (tmp_path / "a.onnx").write_bytes(h.make_model(graph, opset_imports=imports,
                                                   functions=[twice] if kind == "functions" else [],
                                                   ir_version=8).SerializeToString())
    net = mx.contrib.onnx.import_to_gluon(str(tmp_path / "a.onnx"), mx.cpu())
    data = np.array([1, 2, 3], np.float32)
    for x, y in ((data, data + 2 if kind == "branches" else data * 2), (-data, -data * 2)):
        close([net(nd.array(x))], [y])


def test_optionals_hold_the_value_itself(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    h, float32 = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [h.make_node("Optional", ["x"], ["some"]), h.make_node("OptionalGetElement", ["some"], ["value"]),
             h.make_node("OptionalHasElement", ["some"], ["has"]), h.make_node("Add", ["value", "x"], ["twice"]),
             h.make_node("Optional", [], ["none"], type=h.make_tensor_type_proto(float32, ["n"])),
             h.make_node("OptionalHasElement", ["none"], ["lacks"])]
    outputs = [h.make_tensor_value_info("twice", float32, ["n"]),
               *(h.make_tensor_value_info(k, onnx.TensorProto.BOOL, []) for k in ("has", "lacks"))]
    model = h.make_model(h.make_graph(nodes, "g", [h.make_tensor_value_info("x", float32, ["n"])], outputs),
                         opset_imports=[h.make_opsetid("", 18)], ir_version=8)
    onnx.save(model, str(tmp_path / "net.onnx"))
    twice, has, lacks = mx.contrib.onnx.import_to_gluon(str(tmp_path / "net.onnx"))(nd.array([1, 2]))
    assert twice.asnumpy().tolist() == [2, 4] and has.asnumpy().tolist() is True and lacks.asnumpy().tolist() is False


def test_metadata(tmp_path: Path) -> None:
    net = gluon.nn.Dense(3)
    net.initialize()
    path, _ = exported(net, f(2, 4), tmp_path, dynamic=True, dynamic_input_shapes=[("n", 4)])
    found = mx.contrib.onnx.get_model_metadata(path)
    assert found == {"input_tensor_data": [("data", (0, 4), 1)], "output_tensor_data": [(f"{net.prefix}fwd", (0, 3))]}


def test_training_goes_on(tmp_path: Path) -> None:
    """What was read can be trained."""
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Conv2D(3, 3), gluon.nn.BatchNorm(), gluon.nn.Dense(2))
    net.initialize()
    path, _ = exported(net, f(2, 1, 5, 5), tmp_path)
    again = mx.contrib.onnx.import_to_gluon(path, mx.cpu())
    trainer = gluon.Trainer(again.collect_params(), "sgd", {"learning_rate": 0.1})
    data, losses = nd.array(f(6, 1, 5, 5)), []
    for _ in range(4):
        with mx.autograd.record():
            loss = (again(data) ** 2).mean()
        loss.backward()
        trainer.step(1)
        losses.append(float(loss.asscalar()))
    assert losses[-1] < losses[0]


def _shaped(path: Path) -> None:
    written(path, "Range", [np.array(0), np.array(5), np.array(1)], {})


def _loop_target(path: Path) -> None:
    written(path, "Reshape", [f(2, 3), np.array([3, 2])], {})


BAD = {
    "operator": (lambda p: written(p, "NonZero", [f(3)], {}), AttributeValueError,
                 r"node 0 \(NonZero\).*'NonZero' is not known here"),
    "computed-shape": (_loop_target, AttributeValueError,
                       r"node 0 \(Reshape\): its shape is computed while the model runs"),
    "computed-range": (_shaped, AttributeValueError, r"node 0 \(Range\)"),
    "huge-constant": (lambda p: written(p, "ConstantOfShape", [], {0: np.array([1 << 30, 1 << 20])}),
                      AttributeValueError, r"node 0 \(ConstantOfShape\).*elements"),
    "training": (lambda p: written(p, "BatchNormalization", [IMAGE], {k: np.abs(f(4)) for k in (1, 2, 3, 4)},
                                   outputs=3, training_mode=1),
                 AttributeValueError, "training_mode=1 is not supported"),
    "cell": (lambda p: written(p, "GRU", [f(2, 1, 3)], {1: f(1, 6, 3), 2: f(1, 6, 2)}, hidden_size=2),
             AttributeValueError, "linear_before_reset=0 is not supported"),
    "dtype": (lambda p: written(p, "Neg", [np.zeros(3, np.int16)], {}), HybridError, "dtype int16"),
    "damaged": (lambda p: p.write_bytes(b"\x08\x07garbage"), FileFormatError, "no valid ONNX model"),
    "shapes": (lambda p: written(p, "Conv", [f(1, 3, 2, 2)], {1: f(2, 3, 5, 5)}), HybridError,
               r"node 0 \(Conv\).*larger than the padded input"),
    "missing": (lambda p: None, FileNotFoundError, "there is no file"),
}


@pytest.mark.parametrize("kind", BAD)
def test_errors(kind: str, tmp_path: Path) -> None:
    make, error, words = BAD[kind]
    make(tmp_path / "bad.onnx")
    with pytest.raises(error, match=words):
        mx.contrib.onnx.import_model(str(tmp_path / "bad.onnx"))


def test_open_lengths_that_the_network_needs(tmp_path: Path) -> None:
    model = written(tmp_path / "a.onnx", "Upsample", [f(1, 1, 2, 2)], {1: np.array([1, 1, 1.5, 1.5], np.float32)},
                    opset=9, mode="linear")
    for axis in (2, 3):
        model.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = f"d{axis}"
    (tmp_path / "a.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(AttributeValueError, match="give input_shapes"):
        mx.contrib.onnx.import_model(str(tmp_path / "a.onnx"))
    with pytest.raises(AttributeValueError, match="no input 'z'; it has x0"):
        mx.contrib.onnx.import_model(str(tmp_path / "a.onnx"), input_shapes={"z": (1,)})
    net = mx.contrib.onnx.import_to_gluon(str(tmp_path / "a.onnx"), mx.cpu(), input_shapes={"x0": (1, 1, 4, 6)})
    assert net(nd.array(f(1, 1, 4, 6))).shape == (1, 1, 6, 9)
