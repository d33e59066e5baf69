"""ONNX files to damage: single nodes and whole networks, with inputs that fit them."""
from __future__ import annotations

import functools
import importlib.util
import io
import os
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator

import numpy as np

from ..contrib.onnx_nodes import _given, _proto, cases

TESTS = Path(__file__).resolve().parent.parent
LARGEST = 1 << 19                # bytes of a file that is worth damaging: in larger ones most bytes are parameters


@dataclass(frozen=True)
class Sample:
    """A model that is right, and arrays to call it with."""
    name: str
    model: Any
    arrays: tuple[Any, ...]

    def inputs(self) -> list[Any]:
        """The arrays as NDArrays, where these have the dtype."""
        return [_given(_proto(v)) for v in self.arrays]


def nodes() -> list[Sample]:
    """The node tests of the ``onnx`` package."""
    return [Sample(c.name, c.model, tuple(c.data_sets[0][0])) for c in cases()]


@functools.cache
def networks() -> list[Sample]:
    """Networks of the ``onnx`` package, of PyTorch's exporter, and of this library's."""
    return [s for s in (*_of_the_package(), *_of_pytorch(), *_of_this_library(), *_quantized())
            if s.model.ByteSize() <= LARGEST]


def _of_the_package() -> Iterator[Sample]:
    import onnx  # noqa: PLC0415
    from onnx.backend.test.loader import load_model_tests  # noqa: PLC0415
    for kind in ("simple", "pytorch-converted", "pytorch-operator"):
        for case in sorted(load_model_tests(kind=kind), key=lambda c: c.name):
            folder = Path(case.model_dir)
            model = onnx.load(str(folder / "model.onnx"))
            files = sorted((folder / "test_data_set_0").glob("input_*.pb"), key=lambda p: int(p.stem.split("_")[1]))
            constants = {t.name for t in model.graph.initializer}
            kinds = [v.type.WhichOneof("value") for v in model.graph.input if v.name not in constants]
            if all(k == "tensor_type" for k in kinds) and len(files) == len(kinds):
                yield Sample(case.name, model, tuple(onnx.numpy_helper.to_array(onnx.load_tensor(str(p)))
                                                     for p in files))


def _of_pytorch() -> Iterator[Sample]:
    import onnx  # noqa: PLC0415
    with zipfile.ZipFile(TESTS / "data" / "onnx_torch.zip") as archive:
        for name in sorted(n for n in archive.namelist() if n.endswith(".onnx")):
            arrays = np.load(io.BytesIO(archive.read(name.replace(".onnx", ".npz"))))
            yield Sample(name, onnx.load_from_string(archive.read(name)), (arrays["x"],))


def _of_this_library() -> Iterator[Sample]:
    """The networks that MXNet exported, written as ONNX files, and the LeNet of the digits."""
    import onnx  # noqa: PLC0415
    import hybrid as mx  # noqa: PLC0415
    path = TESTS / "oracle" / "exported_models.py"
    spec = importlib.util.spec_from_file_location("exported_models", path)
    assert spec is not None and spec.loader is not None
    known: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(known)
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(TESTS / "data" / "exported_models.zip") as archive:
            archive.extractall(folder)
        given = {name: (os.path.join(folder, name, "m-symbol.json"), os.path.join(folder, name, "m-0000.params"),
                        np.load(os.path.join(folder, name, "io.npz"))) for name in sorted(known.CASES)}
        digits = TESTS / "data" / "lenet_digits"
        given["lenet"] = f"{digits}-symbol.json", f"{digits}-0025.params", {
            "i0": np.zeros((2, 1, 28, 28), np.float32), "numpy": False}
        for name, (symbol, params, io_) in given.items():
            inputs = [io_[k] for k in sorted(io_) if k[0] == "i" and k[1:].isdigit()]
            out = os.path.join(folder, f"{name}.onnx")
            with mx.util.np_shape(bool(io_["numpy"])):
                try:
                    mx.onnx.export_model(symbol, params, [x.shape for x in inputs], [x.dtype for x in inputs], out)
                except mx.MXNetError:                      # deformable convolutions
                    continue
            yield Sample(name, onnx.load(out), tuple(inputs))


def _quantized() -> Iterator[Sample]:
    """A network whose products are between QuantizeLinear and DequantizeLinear."""
    import onnx  # noqa: PLC0415
    from onnx import helper as h  # noqa: PLC0415
    draw = np.random.RandomState(0)
    constants = {"xs": np.float32(0.02), "xz": np.uint8(120), "ws": np.full(4, 0.01, np.float32),
                 "wz": np.zeros(4, np.int8), "w": draw.randint(-127, 128, (4, 3, 3, 3)).astype(np.int8)}
    nodes_ = [h.make_node("QuantizeLinear", ["x", "xs", "xz"], ["q"]),
              h.make_node("DequantizeLinear", ["q", "xs", "xz"], ["d"]),
              h.make_node("DequantizeLinear", ["w", "ws", "wz"], ["dw"], axis=0),
              h.make_node("Conv", ["d", "dw"], ["y"], kernel_shape=[3, 3])]
    shape = (1, 3, 8, 8)
    graph = h.make_graph(nodes_, "qdq", [h.make_tensor_value_info("x", 1, shape)],
                         [h.make_tensor_value_info("y", 1, None)],
                         [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()])
    yield Sample("qdq", h.make_model(graph, opset_imports=[h.make_opsetid("", 17)]),
                 (draw.randn(*shape).astype(np.float32),))
