"""ONNX models in TensorRT (10 and later), on CuPy's memory and a stream of CuPy's."""
from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import cupy
import numpy as np
import tensorrt as trt


def engine(model: bytes) -> Any:
    """The engine of a serialized ONNX model. Its numbers have the types that the model gives them, and float32 is
    multiplied as such, not as TF32; RuntimeError with the parser's words where it cannot be read."""
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(network, logger)
    if not parser.parse(model):
        raise RuntimeError("; ".join(str(parser.get_error(i)) for i in range(parser.num_errors)))
    config = builder.create_builder_config()
    config.clear_flag(trt.BuilderFlag.TF32)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise RuntimeError("TensorRT builds no engine of the model; its log says why")
    return trt.Runtime(logger).deserialize_cuda_engine(plan)


class Inference:
    """Calls of an engine on a stream; its inputs' bytes are copied once. As a CUDA graph: ``graph()``."""

    def __init__(self, engine: Any, inputs: dict[str, bytes], stream: Any):
        self.engine, self.stream, self.context = engine, stream, engine.create_execution_context()
        self.arrays: dict[str, Any] = {}
        with stream:
            for name in map(engine.get_tensor_name, range(engine.num_io_tensors)):
                nbytes = prod(engine.get_tensor_shape(name)) * int(engine.get_tensor_dtype(name).itemsize)
                self.arrays[name] = cupy.empty(nbytes, "uint8")
                if name in inputs:
                    self.arrays[name].set(np.frombuffer(inputs[name], "uint8"))
                self.context.set_tensor_address(name, self.arrays[name].data.ptr)
        stream.synchronize()

    def __call__(self) -> None:
        """Begin one inference; the stream knows when it is done."""
        if not self.context.execute_async_v3(self.stream.ptr):
            raise RuntimeError("TensorRT does not run the engine; its log says why")

    def graph(self) -> Callable[[], None]:
        """The same as a CUDA graph. An inference before it is not captured: TensorRT makes its resources in it."""
        self()
        self.stream.synchronize()
        self.stream.begin_capture()
        self()
        captured = self.stream.end_capture()
        return lambda: captured.launch(self.stream)
