"""Inference in float32, bfloat16 and 8-bit integers beside OpenVINO and ONNX Runtime, one thread, in one run:

    python benchmarks/low_precision.py [mlp] [row] [resnet18_v1] [resnet50_v1]
    python benchmarks/low_precision.py --without avx512_bf16|avx512 [mlp] [row] [lenet] [resnet18_v1] [encoder] [lstm]

Needs openvino, onnxruntime and onnx. Times are the least processor time of interleaved rounds, in microseconds; errors
are relative to our float32 (root of the mean square).

``--without``: compiles as for a processor that lacks the instruction of bfloat16, or all of AVX-512, and times our
float32 beside ``hybridize(precision="bf16")``, which must not take longer there. Ends with 1 where results differ.
"""
from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
import tempfile
import time
from typing import Any, Callable

os.environ.setdefault("HYBRID_NUM_THREADS", "1")
os.environ.setdefault("HYBRID_COMPILE", "now")        # what is timed is compiled
os.environ.setdefault("OMP_NUM_THREADS", "1")

import nets
import numpy as np

import hybrid as mx
from hybrid import nd
from hybrid.base import system
from hybrid.contrib import onnx as mxonnx
from hybrid.contrib import quantization
from hybrid.gluon import nn, rnn
from hybrid.gluon.model_zoo import vision
from hybrid.runtime import toolchain

logging.disable(logging.WARNING)


def lstm() -> Any:
    """An LSTM layer, and a dense layer that is applied at each step."""
    net = nn.HybridSequential()
    net.add(rnn.LSTM(128, input_size=64), nn.Dense(10, flatten=False))
    return net


Make = Callable[[], Any]
IMAGE = (1, 3, 224, 224)
NETWORKS: dict[str, tuple[Make, tuple[int, ...]]] = {
    "mlp": (nets.mlp, (256, 512)), "row": (nets.mlp, (1, 512)), "resnet18_v1": (vision.resnet18_v1, IMAGE),
    "resnet50_v1": (vision.resnet50_v1, IMAGE)}
WITHOUT: dict[str, tuple[Make, tuple[int, ...]]] = {
    "mlp": NETWORKS["mlp"], "row": NETWORKS["row"], "lenet": (nets.lenet, (16, 1, 28, 28)),
    "resnet18_v1": NETWORKS["resnet18_v1"], "encoder": (nets.encoder, (1, nets.LENGTH, nets.WIDTH)),
    "lstm": (lstm, (32, 16, 64))}
LACKING = {"avx512_bf16": ("-mno-avx512bf16",), "avx512": ("-mno-avx512f",)}          # flags of the C compiler


def two(make: Make, x: Any, folder: str) -> tuple[Any, Any]:
    """A network twice, with the same parameters."""
    made = []
    for _ in range(2):
        mx.random.seed(1)
        made.append(make())
        made[-1].initialize(mx.init.Xavier())
        made[-1](x)
    made[0].save_parameters(f"{folder}/net.params")
    made[1].load_parameters(f"{folder}/net.params")
    return made[0], made[1]


def ours(make: Make, x: Any, folder: str) -> dict[str, Callable[[], np.ndarray]]:
    """Our three, and the float32 network as an ONNX file in the folder."""
    plain, low = two(make, x, folder)
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


def data(shape: tuple[int, ...]) -> Any:
    """Random data for a network's input."""
    return nd.array(np.abs(np.random.default_rng(0).standard_normal(shape)))


def beside_peers(names: list[str]) -> None:
    """Measure and print."""
    for name in names or list(NETWORKS):
        make, shape = NETWORKS[name]
        x = data(shape)
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(sys.stdout):
            calls = ours(make, x, folder)
            path, given = f"{folder}/net.onnx", x.asnumpy()
            small = quantized(path, given)
            calls |= {"OpenVINO float32": openvino(path, given, "f32"),
                      "OpenVINO bfloat16": openvino(path, given, "bf16"),
                      "OpenVINO int8": openvino(small, given, "f32"),
                      "ONNX Runtime float32": onnxruntime(path, given),
                      "ONNX Runtime int8": onnxruntime(small, given)}
            exact = calls["float32"]()
            best = measure(calls)
            print(f"{name} {shape}")
            for what, call in calls.items():
                error = np.sqrt(((call() - exact) ** 2).mean() / (exact ** 2).mean())
                print(f"  {what:22s} {best[what]:11.1f} us   {best[what] / best['float32']:5.2f} of float32   error "
                      f"{error:.4f}", flush=True)


def lack(feature: str) -> None:
    """From now on, compile as for a processor without a feature, and without those whose names begin with its name."""
    said, flags = dict(system.processor()), toolchain.machine_flags
    said["flags"] = " ".join(word for word in said.get("flags", "").split() if not word.startswith(feature))
    system.processor = lambda: said                                              # type: ignore[assignment]
    toolchain.machine_flags = lambda cc: flags(cc) + LACKING[feature]            # type: ignore[assignment]


def beside_float32(names: list[str]) -> bool:
    """Measure and print float32 beside bf16. Whether all results are the same."""
    same = True
    for name in names or list(WITHOUT):
        make, shape = WITHOUT[name]
        x = data(shape)
        with tempfile.TemporaryDirectory() as folder:
            plain, low = two(make, x, folder)
        plain.hybridize()
        low.hybridize(precision="bf16")
        calls = {"float32": lambda: plain(x).asnumpy(), "bfloat16": lambda: low(x).asnumpy()}   # noqa: B023
        best, equal = measure(calls), bool((calls["float32"]() == calls["bfloat16"]()).all())
        same &= equal
        told = "the same bits" if equal else "OTHER RESULTS"
        print(f"{name:12s} {shape!s:18s} float32 {best['float32']:9.1f} us   bf16 {best['bfloat16']:9.1f} us   "
              f"{best['bfloat16'] / best['float32']:.3f}   {told}", flush=True)
    return same


def main() -> int:
    """Runs what the command line asks for; 1 where results differ that must not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", nargs="*", help="all by default")
    parser.add_argument("--without", choices=list(LACKING), help="instructions that are not used")
    given = parser.parse_args()
    known = WITHOUT if given.without else NETWORKS
    if strange := [name for name in given.network if name not in known]:
        parser.error(f"there is no network {', '.join(strange)}; known: {', '.join(known)}")
    if not given.without:
        beside_peers(given.network)
        return 0
    with tempfile.TemporaryDirectory() as cache:              # the usual one knows a compiler with these instructions
        os.environ["HYBRID_CACHE"] = cache
        lack(given.without)
        return 0 if beside_float32(given.network) else 1


if __name__ == "__main__":
    sys.exit(main())
