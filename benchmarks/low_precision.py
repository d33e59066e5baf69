"""Inference in float32, bfloat16 and 8-bit integers beside OpenVINO and ONNX Runtime, one thread, in one run:

    python benchmarks/low_precision.py [mlp] [row] [resnet18_v1] [resnet50_v1]

Needs openvino, onnxruntime and onnx. Times are the least processor time of interleaved rounds, in
microseconds; errors are relative to
our float32 (root of the mean square).
"""
from __future__ import annotations

import contextlib
import logging
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

os.environ.setdefault("HYBRID_NUM_THREADS", "1")
os.environ.setdefault("HYBRID_COMPILE", "now")        # what is timed is compiled
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import hybrid as mx
from hybrid import nd
from hybrid.contrib import onnx as mxonnx
from hybrid.contrib import quantization
from hybrid.gluon import nn
from hybrid.gluon.model_zoo import vision

logging.disable(logging.WARNING)


def mlp() -> Any:
    """Of 164 thousand products a row."""
    net = nn.HybridSequential()
    net.add(nn.Dense(256, activation="relu"), nn.Dense(128, activation="relu"), nn.Dense(2))
    return net


NETWORKS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "mlp": (mlp, (256, 512)), "row": (mlp, (1, 512)),
    **{name: (getattr(vision, name), (1, 3, 224, 224)) for name in ("resnet18_v1", "resnet50_v1")}}


def ours(make: Callable[[], Any], x: Any, folder: str) -> dict[str, Callable[[], np.ndarray]]:
    """Our three, and the float32 network as an ONNX file in the folder."""
    nets = []
    for _ in range(2):
        mx.random.seed(1)
        nets.append(make())
        nets[-1].initialize(mx.init.Xavier())
        nets[-1](x)
    plain, low = nets
    plain.save_parameters(f"{folder}/net.params")
    low.load_parameters(f"{folder}/net.params")
    plain.hybridize()
    plain(x)
    plain.export(f"{folder}/net")
    mxonnx.export_model(f"{folder}/net-symbol.json", f"{folder}/net-0000.params", [x.shape], np.float32,
                        f"{folder}/net.onnx")
    eight = quantization.quantize_net_v2(plain, calib_data=[x], calib_mode="naive",
                                         quantize_granularity="channel-wise")
    low.hybridize(precision="bf16")
    eight.hybridize()
    return {"float32": lambda: plain(x).asnumpy(), "bfloat16": lambda: low(x).asnumpy(),
            "int8": lambda: eight(x).asnumpy()}


def quantized(path: str, x: np.ndarray) -> str:
    """An ONNX file with 8-bit products, by ONNX Runtime's tools."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self.rest = iter([{"data": x}])

        def get_next(self) -> Any:
            return next(self.rest, None)
    out = path.replace(".onnx", "-int8.onnx")
    quantize_static(path, out, Reader(), quant_format=QuantFormat.QDQ, per_channel=True,
                    activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
    return out


def openvino(path: str, x: np.ndarray, precision: str) -> Callable[[], np.ndarray]:
    """A call of OpenVINO."""
    import openvino as ov
    core = ov.Core()
    compiled = core.compile_model(core.read_model(path), "CPU", {
        "INFERENCE_NUM_THREADS": 1, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": "1",
        "INFERENCE_PRECISION_HINT": precision})
    request = compiled.create_infer_request()
    return lambda: np.array(next(iter(request.infer([x], share_inputs=True, share_outputs=True).values())))


def onnxruntime(path: str, x: np.ndarray) -> Callable[[], np.ndarray]:
    """A call of ONNX Runtime."""
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda: session.run(None, {name: x})[0]


def measure(calls: dict[str, Callable[[], np.ndarray]], seconds: float = 8.0) -> dict[str, float]:
    """The least processor time of each, in microseconds: other work on the machine counts less so."""
    best = dict.fromkeys(calls, float("inf"))
    many = {}
    for name, call in calls.items():
        call()
        start = time.perf_counter()
        call()
        many[name] = max(1, int(2e-3 / (time.perf_counter() - start)))
    end = time.perf_counter() + seconds * len(calls) / 4
    while time.perf_counter() < end:
        for name, call in calls.items():
            start = time.process_time()
            for _ in range(many[name]):
                call()
            best[name] = min(best[name], (time.process_time() - start) / many[name] * 1e6)
    return best


def main(names: list[str]) -> None:
    """Measure and print."""
    for name in names or list(NETWORKS):
        make, shape = NETWORKS[name]
        x = nd.array(np.abs(np.random.default_rng(0).standard_normal(shape)))
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(sys.stdout):
            calls = ours(make, x, folder)
            path, data = f"{folder}/net.onnx", x.asnumpy()
            small = quantized(path, data)
            calls |= {"OpenVINO float32": openvino(path, data, "f32"),
                      "OpenVINO bfloat16": openvino(path, data, "bf16"),
                      "OpenVINO int8": openvino(small, data, "f32"), "ONNX Runtime float32": onnxruntime(path, data),
                      "ONNX Runtime int8": onnxruntime(small, data)}
            exact = calls["float32"]()
            best = measure(calls)
            print(f"{name} {shape}")
            for what, call in calls.items():
                error = np.sqrt(((call() - exact) ** 2).mean() / (exact ** 2).mean())
                print(f"  {what:22s} {best[what]:11.1f} us   {best[what] / best['float32']:5.2f} of float32   error "
                      f"{error:.4f}", flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    main(sys.argv[1:])
