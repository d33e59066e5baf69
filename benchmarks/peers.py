"""Who takes part: for each, a workload as a function that makes n calls and returns the seconds they took, or None."""
from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Iterator, Sequence

import nets
import numpy as np
from nets import Step, Workload

import hybrid as mx
from hybrid import nd

Call = Callable[[], Any]
Timed = Callable[[int], float]
Made = tuple[Timed, "Call | None"]                # what is timed, and its result (an array), to be checked
ABSENT: dict[str, str] = {}
THREADS = int(os.environ.get("HYBRID_NUM_THREADS", "1"))


def timed(call: Call) -> Timed:
    """Seconds of some calls."""
    def run(n: int) -> float:
        begin = time.perf_counter()
        for _ in range(n):
            call()
        return time.perf_counter() - begin
    return run


def needs(peer: str, *modules: str) -> bool:
    """Whether a peer's packages are there; says once what is not."""
    try:
        for m in modules:
            __import__(m)
    except ImportError as err:
        if peer not in ABSENT:
            ABSENT[peer] = str(err)
            print(f"without {peer}: {err}", file=sys.stderr)
    return peer not in ABSENT


def data(work: Workload) -> list[np.ndarray]:
    """A workload's inputs, the same for everyone."""
    rng = np.random.RandomState(0)
    return [rng.standard_normal(s).astype("float32") for s in work.shapes]


def batch(work: Step) -> tuple[np.ndarray, np.ndarray]:
    """A batch and its labels."""
    rng = np.random.RandomState(0)
    return rng.rand(*work.shape).astype("float32"), rng.randint(0, 10, work.shape[0])


@functools.lru_cache(None)
def network(work: Workload | Step) -> Any:
    """The network with its weights, for eager calls and as a source of weights."""
    mx.random.seed(1)
    net = work.make()
    net.initialize(mx.init.Xavier())
    net(*([nd.array(x) for x in data(work)] if isinstance(work, Workload) else [nd.zeros(work.shape)]))
    return net


@functools.lru_cache(None)
def saved(work: Workload | Step) -> str:
    """The network's parameters as a file."""
    folder = tempfile.mkdtemp()
    name = str(Path(folder) / "net.params")
    network(work).save_parameters(name)
    return name


# ---- inference
def hybridized(work: Workload) -> Made:
    """This library, compiled."""
    net, xs = work.make(), [nd.array(x) for x in data(work)]
    if network(work).collect_params():
        net.load_parameters(saved(work))
    net.hybridize(static_alloc=True, static_shape=True)
    return timed(lambda: net(*xs)), lambda: net(*xs).asnumpy()


def eager(work: Workload) -> Made:
    """This library, eager: NumPy."""
    net, xs = network(work), [nd.array(x) for x in data(work)]
    return timed(lambda: net(*xs)), lambda: net(*xs).asnumpy()


def numpy(work: Workload) -> Made | None:
    """What one would write by hand in NumPy; None where nobody would (convolution, attention)."""
    net, xs = network(work), data(work)
    kind, x = type(net), xs[0]
    forms: dict[Any, Call] = {
        nets.Product: lambda: xs[0] @ xs[1], nets.Elementwise: lambda: x * x + np.float32(1),
        nets.Softmax: lambda: _softmax(x), nets.Gelu: lambda: _gelu(x)}
    call: Call | None = forms.get(kind)
    if kind.__name__ == "LayerNorm":
        call = functools.partial(_layer_norm, x, net.gamma.data().asnumpy(), net.beta.data().asnumpy())
    elif work.make is nets.mlp:
        call = functools.partial(_perceptron, x, [(np.ascontiguousarray(d.weight.data().asnumpy().T),
                                                   d.bias.data().asnumpy()) for d in net])
    return call and (timed(call), call)


def _softmax(x: np.ndarray) -> np.ndarray:
    y = np.exp(x - x.max(-1, keepdims=True))
    y /= y.sum(-1, keepdims=True)
    return y


def _gelu(x: np.ndarray) -> np.ndarray:
    return np.float32(0.5) * x * (1 + np.tanh(np.float32(0.7978845608) * (x + np.float32(0.044715) * x * x * x)))


def _layer_norm(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
    y = x - x.mean(-1, keepdims=True)
    return y * (gamma / np.sqrt((y * y).mean(-1, keepdims=True) + np.float32(1e-5))) + beta


def _perceptron(x: np.ndarray, weights: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    for i, (w, b) in enumerate(weights):
        x = x @ w + b
        if i + 1 < len(weights):
            np.maximum(x, 0, out=x)
    return x


def onnxruntime(work: Workload) -> Made | None:
    """ONNX Runtime on the same network."""
    if not needs("ONNX Runtime", "onnxruntime", "onnx"):
        return None
    import onnxruntime as ort
    from onnx_models import to_onnx
    options = ort.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = ort.InferenceSession(to_onnx(network(work), work.shapes), options, providers=["CPUExecutionProvider"])
    feed = {f"x{i}": x for i, x in enumerate(data(work))}

    def call() -> Any:
        return session.run(None, feed)[0]
    return timed(call), call


def openvino(work: Workload) -> Made | None:
    """OpenVINO on the same ONNX model, for latency, in float32."""
    if not needs("OpenVINO", "openvino", "onnx"):
        return None
    import openvino as ov
    from onnx_models import to_onnx
    core = ov.Core()
    model = core.compile_model(core.read_model(to_onnx(network(work), work.shapes)), "CPU",
                               {"INFERENCE_NUM_THREADS": THREADS, "PERFORMANCE_HINT": "LATENCY",
                                "INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": 1})
    request, xs = model.create_infer_request(), data(work)

    def call() -> Any:
        return request.infer(xs, share_inputs=True, share_outputs=True)[0]
    return timed(call), call


def torch(work: Workload, compiled: bool = False) -> Made | None:
    """torch's eager mode, or torch.compile."""
    if not needs("torch", "torch"):
        return None
    import torch as pt
    from torch_models import to_torch, whole
    pt.set_num_threads(THREADS)
    model, xs = to_torch(network(work), len(work.shapes)), [pt.from_numpy(x) for x in data(work)]
    model = whole(model) if compiled else model

    def call() -> Any:
        with pt.inference_mode():
            return model(*xs)
    return timed(call), lambda: call().numpy()


def jax(work: Workload) -> Made | None:
    """JAX's jit."""
    if not needs("JAX", "jax"):
        return None
    import jax.numpy as jnp
    from jax_models import to_jax
    fn, xs = to_jax(network(work), len(work.shapes)), [jnp.asarray(x) for x in data(work)]
    return timed(lambda: fn(*xs)), lambda: np.asarray(fn(*xs))


class MXNet:
    """MXNet 1.9.1 in a process of its own (MXNET_PYTHON), statically allocated."""

    def __init__(self, python: str):
        env = {**os.environ, "OMP_NUM_THREADS": str(THREADS)}
        self.process = subprocess.Popen([python, str(Path(__file__).with_name("mxnet_server.py"))],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, env=env)

    def ask(self, **fields: Any) -> Any:
        """One request."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(fields) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the process that times MXNet ended; run benchmarks/mxnet_server.py with MXNET_PYTHON "
                               "to see why")
        return json.loads(line)

    def __call__(self, work: Workload | Step) -> Made:
        file = saved(work)
        self.ask(title=work.title, file=file)
        return (lambda n: self.ask(calls=n)["seconds"]), (lambda: np.load(file + ".npy")) if isinstance(work, Workload) else None  # noqa: E501


# ---- training
def hybrid_step(work: Step, compiled: bool = True, blocks: bool = False) -> Made:
    """The whole step as one program, or eager; blocks: the ordinary loop of a hybridized net, whose rounds hybrid joins
    by itself (not with HYBRID_DEFER=0)."""
    net, (x, y) = work.make(), batch(work)
    net.load_parameters(saved(work))
    if blocks:
        net.hybridize()
    step, a, b = nets.gluon_step(net, work), nd.array(x), nd.array(y)
    step = mx.hybridize(step) if compiled else step
    return timed(lambda: step(a, b)), None


def torch_step(work: Step, compiled: bool = False) -> Made | None:
    """torch with its fused optimizer, eager or compiled."""
    if not needs("torch", "torch"):
        return None
    import torch as pt
    import torch_models
    pt.set_num_threads(THREADS)
    step, (x, y) = torch_models.torch_step(network(work), work, compiled), batch(work)
    a, b = pt.from_numpy(x), pt.from_numpy(y)
    return timed(lambda: step(a, b)), None


def jax_step(work: Step) -> Made | None:
    """JAX, the step jitted."""
    if not needs("JAX", "jax"):
        return None
    import jax.numpy as jnp
    import jax_models
    step, (x, y) = jax_models.jax_step(network(work), work), batch(work)
    a, b = jnp.asarray(x), jnp.asarray(y)
    return timed(lambda: step(a, b)), None


@functools.lru_cache(None)
def _mxnet() -> MXNet | None:
    return MXNet(os.environ["MXNET_PYTHON"]) if "MXNET_PYTHON" in os.environ else None


def makers(work: Workload | Step) -> Iterator[tuple[str, Callable[[], Made | None]]]:
    """Everyone who could take part in a workload, by name."""
    if isinstance(work, Step):
        yield from (("hybrid", lambda: hybrid_step(work)), ("hybrid eager", lambda: hybrid_step(work, False)),
                    ("hybrid, ordinary loop", lambda: hybrid_step(work, False, True)),
                    ("torch", lambda: torch_step(work)),
                    ("torch.compile", lambda: torch_step(work, True)), ("JAX", lambda: jax_step(work)))
    else:
        yield from (("hybrid", lambda: hybridized(work)), ("hybrid eager", lambda: eager(work)),
                    ("NumPy", lambda: numpy(work)),
                    ("ONNX Runtime", lambda: onnxruntime(work)), ("OpenVINO", lambda: openvino(work)),
                    ("torch", lambda: torch(work)),
                    ("torch.compile", lambda: torch(work, True)), ("JAX", lambda: jax(work)))
    server = _mxnet()
    if server is not None:
        yield "MXNet 1.9.1", lambda: server(work)
