"""What the GPU's kernels cost, counted without a GPU: ``python benchmarks/gpu_counts.py [--only MLP] [--kernels]``.

Programs are compiled by NVRTC for an A100 and an H100 and not run. For each: launches, the most registers and bytes of
spills, warps of an SM, instructions for each FFMA or HMMA of the hottest loop, the width of global loads, the factor of
bank conflicts, the time by the model (gpu_model.py) and the roofline. Nothing here is a measurement. ``--kernels``
shows each launch. Needs NVRTC, cuobjdump and nvdisasm, all from PyPI.
"""
from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

os.environ["HYBRID_CUDA"] = "emulator"
os.environ["HYBRID_DEVICE"] = "gpu"
sys.path.insert(0, str(Path(__file__).parent))

import gpu_sass  # noqa: E402  after the settings
import nets  # noqa: E402
import numpy as np  # noqa: E402
from gpu_model import A100, H100, Gpu, Kernel, Time, model  # noqa: E402
from gpu_model_launches import LAUNCH, barriers, launched, shared_sums  # noqa: E402

import hybrid as mx  # noqa: E402
from hybrid import autograd, nd  # noqa: E402
from hybrid.codegen import cuda as printer  # noqa: E402
from hybrid.gluon import nn, rnn  # noqa: E402
from hybrid.runtime import cuda  # noqa: E402
from hybrid.runtime.cuda import emulator, interface, nvrtc, program  # noqa: E402

GPUS = (A100, H100)
GPU = mx.gpu(0)


class Recorded(NamedTuple):
    """A program: the CUDA of its kernels one by one and their launches, bytes of the arrays of each; and what is really
    launched."""
    source: str
    launches: list[printer.Launch]
    bytes: list[int]
    merged: str
    launched: list[printer.Launch]


class _Plan(interface.Plan):
    def run(self, pointers: Sequence[int]) -> None:
        """Nothing: what is launched is counted, not run."""

    def freeze(self, pointers: Sequence[int]) -> Callable[[], None]:
        """Nothing."""
        return lambda: None


class _Module(interface.Module):
    def __init__(self, source: str, kernels: Sequence[str], arch: str):
        self.source_path, self.kernels = "not run", tuple(kernels)
        self._source, self._arch = source, arch

    def plan(self, launches: Sequence[Sequence[Any]]) -> _Plan:
        """See ``Module.plan``."""
        return _Plan()

    def spilled(self, kernel: str) -> int:
        """See ``Module.spilled``."""
        return nvrtc.compile(self._source, self._arch).resources[kernel].spill_stores


class _Driver(emulator.EmulatorDriver):
    """Compiles nothing and runs nothing; kernels are printed for its GPU."""

    def __init__(self, arch: str, processors: int):
        super().__init__()
        self._arch, self._processors = arch, processors

    @property
    def processors(self) -> int:
        """Its multiprocessors."""
        return self._processors

    @property
    def arch(self) -> str:
        """What kernels are printed for."""
        return self._arch

    def load(self, source: str, kernels: Sequence[str]) -> Any:
        """See ``Driver.load``."""
        return _Module(source, kernels, self._arch)

    def alloc(self, nbytes: int) -> np.ndarray:
        """Memory that nobody reads."""
        return np.empty(max(nbytes, 1), np.uint8)


@contextlib.contextmanager
def recording(gpu: Gpu) -> Iterator[list[Recorded]]:
    """The programs that are called meanwhile, once each, printed for a GPU."""
    found: list[Recorded] = []
    cls, old = program.CudaProgram, cuda._drivers.get(("emulator", 0))
    few, call = cls._few_launches, cls._run
    texts: dict[program.CudaProgram, tuple[Any, ...]] = {}

    def few_launches(self: program.CudaProgram, text: Any, processors: int, forms: dict[str, int]) -> Any:
        out = few(self, text, processors, forms)
        code, single = program.share_kernels(program.parse(text.source), text.launches)
        texts[self] = program.text_of(code), single, [launch.name for launch in text.launches], *out[:2]
        return out

    def run(self: program.CudaProgram, arrays: Sequence[Any]) -> Any:
        if isinstance(self, program.Preparation):              # once, and not at every call
            texts.pop(self, None)
        if self in texts:
            source, single, names, *out = texts.pop(self)
            found.append(Recorded(source, single, _bytes(self, names), *out))
        return call(self, arrays)
    cuda._drivers["emulator", 0] = _Driver(gpu.arch, gpu.sms)
    cls._few_launches, cls._run = few_launches, run                        # type: ignore[method-assign]
    try:
        yield found
    finally:
        cls._few_launches, cls._run = few, call                            # type: ignore[method-assign]
        if old is None:
            del cuda._drivers["emulator", 0]
        else:
            cuda._drivers["emulator", 0] = old


def _bytes(self: program.CudaProgram, names: Sequence[str]) -> list[int]:
    """Bytes that each launch reads and writes. Where a kernel has two, the first reads its arrays and the second writes
    its results, both with the program's working memory at most; running sums are read twice."""
    groups = {f"k{g.kernels[0].number}": g.kernels for g in self.planned.groups}
    reads, writes = ({name: sum(n.nbytes for k in parts for n in arrays(k)) for name, parts in groups.items()}
                     for arrays in (lambda k: k.reads, lambda k: k.stores))
    twice = {name for name, parts in groups.items() if parts[0].kind == "running"}
    left = self.report.scratch_bytes

    def of(name: str) -> int:
        whole = name.removesuffix("_parts")
        if f"{whole}_parts" not in names:
            return reads.get(name, 0) + writes.get(name, 0)
        return left + (writes if whole == name else reads).get(whole, 0) + (
            reads.get(name, 0) if name in twice else 0)
    return [of(n) for n in names]


# ---- programs
def inference(net: Any, *shapes: tuple[int, ...], dtype: str = "float32") -> Callable[[], Any]:
    """A hybridized network on zeros."""
    def call() -> Any:
        net.initialize(ctx=GPU)
        net.cast(dtype)
        net.hybridize(static_alloc=True, static_shape=True)
        return net(*(nd.zeros(s, ctx=GPU, dtype=dtype) for s in shapes))
    return call


def encoder(length: int, width: int, heads: int, dtype: str = "float32") -> Callable[[], Any]:
    """Four layers, batch 8."""
    def call() -> Any:
        nets.LENGTH, nets.WIDTH, nets.HEADS = length, width, heads
        return inference(nets.encoder(), (8, length, width), dtype=dtype)()
    return call


def token(heads: int, queries: int, keys: int, dtype: str = "float32") -> Callable[[], Any]:
    """Attention of a few queries over stored keys and values, 64 deep."""
    return lambda: inference(nets.Attention(), (heads, queries, 64), *((heads, keys, 64),) * 2, dtype=dtype)()


def step(make: Callable[[], Any], shape: tuple[int, ...], dtype: str = "float32") -> Callable[[], Any]:
    """A step of Adam, as one program."""
    def call() -> Any:
        net = make()
        net.initialize(ctx=GPU)
        net.cast(dtype)
        one = mx.hybridize(nets.gluon_step(net, nets.Step("", make, shape, "adam")))
        return one(nd.zeros(shape, ctx=GPU, dtype=dtype), nd.zeros(shape[:1], ctx=GPU))
    return call


def gradient(heads: int, length: int, dtype: str = "float32") -> Callable[[], Any]:
    """Attention of as many queries as keys, 64 deep, and its gradients."""
    def call() -> Any:
        net, arrays = nets.Attention(), [nd.zeros((heads, length, 64), ctx=GPU, dtype=dtype) for _ in range(3)]
        for a in arrays:
            a.attach_grad()

        @mx.hybridize
        def one(q: Any, k: Any, v: Any) -> Any:
            with autograd.record():
                y = net(q, k, v)
            y.backward()
            return y
        return one(*arrays)
    return call


def recurrent(layer: Any, batch: int) -> Callable[[], Any]:
    """64 steps of 256 units on 256 inputs."""
    return lambda: inference(layer(256, input_size=256), (64, batch, 256))()


def stem() -> nn.HybridSequential:
    """The first layers of ResNet-18, with one of its later convolutions."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(64, 7, 2, 3, use_bias=False), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(3, 2, 1),
            nn.Conv2D(64, 3, 1, 1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"),
            nn.Conv2D(128, 3, 2, 1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"), nn.GlobalAvgPool2D(),
            nn.Dense(10))
    return net


def grouped() -> nn.HybridSequential:
    """A stage of ResNeXt-50 (32 x 4d): two blocks of 256 channels on 56 x 56 pixels, without what they are added to."""
    net = nn.HybridSequential()
    for _ in range(2):
        net.add(nn.Conv2D(128, 1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"),
                nn.Conv2D(128, 3, 1, 1, groups=32, use_bias=False), nn.BatchNorm(), nn.Activation("relu"),
                nn.Conv2D(256, 1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))
    net.add(nn.GlobalAvgPool2D(), nn.Dense(10))
    return net


def programs() -> dict[str, Callable[[], Any]]:
    """Those of the review, by name."""
    square = (4096, 4096)
    resnet = nets.vision.resnet18_v1
    return {
        "MLP, batch 1": lambda: inference(nets.mlp(), (1, 512))(),
        "MLP, batch 256": lambda: inference(nets.mlp(), (256, 512))(),
        "LeNet, batch 16": lambda: inference(nets.lenet(), (16, 1, 28, 28))(),
        "softmax (4096, 1024)": lambda: inference(nets.Softmax(), (4096, 1024))(),
        "LayerNorm (4096, 1024)": lambda: inference(nn.LayerNorm(in_channels=1024), (4096, 1024))(),
        "GELU, 16M": lambda: inference(nets.Gelu(), (1 << 24,))(),
        "GEMM 4096, float32": lambda: inference(nets.Product(), square, square)(),
        "GEMM 4096, float16": lambda: inference(nets.Product(), square, square, dtype="float16")(),
        "GEMM 4096, bfloat16": lambda: inference(nets.Product(), square, square, dtype="bfloat16")(),
        "GEMM 4096, float32, transposed": lambda: inference(nets.Product(True), square, square)(),
        "GEMM 4096, bfloat16, transposed": lambda: inference(nets.Product(True), *[square] * 2, dtype="bfloat16")(),
        "Adam step of the MLP": step(nets.TRAINING[1].make, nets.TRAINING[1].shape),
        "Adam step of LeNet": step(nets.TRAINING[2].make, nets.TRAINING[2].shape),
        "Adam step over 32,000 classes": step(lambda: nn.Dense(32000), (512, 512)),
        "Adam step of ResNet-18, batch 32": step(resnet, (32, 3, 224, 224)),
        "attention and its gradients, 64 heads, length 1024": gradient(64, 1024),
        "attention and its gradients, 64 heads, length 1024, bfloat16": gradient(64, 1024, "bfloat16"),
        "encoder 4 x 256, length 128": encoder(128, 256, 4),
        "encoder 4 x 512, length 1024": encoder(1024, 512, 8),
        "encoder 4 x 512, length 1024, bfloat16": encoder(1024, 512, 8, "bfloat16"),
        "token over 4096 keys, 8 x 16 heads": token(8 * 16, 1, 4096),
        "token over 4096 keys, 16 heads, float16": token(16, 1, 4096, "float16"),
        "64 queries over 4096 keys, 16 heads": token(16, 64, 4096),
        "order of a row of 1,000,000": lambda: mx.hybridize(nd.argsort)(nd.zeros((1, 10**6), ctx=GPU)),
        "first 100 of a row of 1,000,000": lambda: mx.hybridize(lambda x: nd.topk(x, k=100))(nd.zeros((1, 10**6), GPU)),
        "first 50 of 32 rows of 50,000": lambda: mx.hybridize(lambda x: nd.topk(x, k=50))(nd.zeros((32, 50000), GPU)),
        "running sums, 16M": lambda: mx.hybridize(nd.cumsum)(nd.zeros((1 << 24,), ctx=GPU)),
        "running sums (4096, 1024)": lambda: mx.hybridize(nd.cumsum)(nd.zeros((4096, 1024), ctx=GPU), axis=1),
        "LSTM, 64 steps, batch 32": recurrent(rnn.LSTM, 32),
        "LSTM, 64 steps, batch 1": recurrent(rnn.LSTM, 1),
        "GRU, 64 steps, batch 32": recurrent(rnn.GRU, 32),
        "RNN, 64 steps, batch 64": recurrent(rnn.RNN, 64),
        "ResNet-18, batch 1": lambda: inference(resnet(), (1, 3, 224, 224))(),
        "ResNet-18, batch 32": lambda: inference(resnet(), (32, 3, 224, 224))(),
        "ResNet-18, batch 32, float16": lambda: inference(resnet(), (32, 3, 224, 224), dtype="float16")(),
        "Adam step of convolutions, batch 32": step(stem, (32, 3, 224, 224)),
        "Adam step of convolutions, batch 32, float16": step(stem, (32, 3, 224, 224), "float16"),
        "MobileNetV2, batch 32": lambda: inference(nets.vision.mobilenet_v2_1_0(), (32, 3, 224, 224))(),
        "Adam step of MobileNetV2, batch 32": step(nets.vision.mobilenet_v2_1_0, (32, 3, 224, 224)),
        "Adam step of grouped convolutions, batch 32": step(grouped, (32, 256, 56, 56)),
    }


# ---- counting
def kernels(recorded: Recorded, gpu: Gpu) -> list[Kernel]:
    """The launches of a program, compiled for a GPU."""
    compiled = nvrtc.compile(recorded.source, gpu.arch)
    code = gpu_sass.sass(compiled.cubin)
    parts = re.split(r'extern "C" __global__ void (?:__launch_bounds__\([\d, ]+\) )?(\w+)\(', recorded.source)
    texts = dict(zip(parts[1::2], parts[2::2]))
    out = []
    for launch, count in zip(recorded.launches, recorded.bytes):
        r = compiled.resources[launch.name]
        out.append(Kernel(launch.name, texts[launch.name], launch.blocks, launch.threads, r.registers,
                          r.shared + launch.shared, r.spill_stores, code[launch.name], count))
    return [k._replace(bytes=k.bytes + 2 * shared_sums(k)) for k in out]


def in_launches(recorded: Recorded, times: Sequence[Time], gpu: Gpu) -> tuple[float, int, int]:
    """Time of a program's launches, and registers and spills of those of several kernels."""
    us = {(launch.name, id(launch.args)): t.us for launch, t in zip(recorded.launches, times)}
    total = sum(launched(launch, lambda stage: us[stage.name, id(stage.args)], gpu) for launch in recorded.launched)
    if not any(launch.waves for launch in recorded.launched):
        return total, 0, 0
    resources = nvrtc.compile(recorded.merged, gpu.arch).resources
    found = [resources[launch.name] for launch in recorded.launched if launch.waves]
    return total, max(r.registers for r in found), max(r.spill_stores for r in found)


class Counted(NamedTuple):
    """A program on a GPU. ``per_product``: instructions for each FFMA or HMMA of the main loop of the longest kernel
    that multiplies; ``barriers``: of the grid, within launches."""
    program: str
    gpu: str
    launches: int
    barriers: int
    registers: int
    spills: int
    warps: int
    per_product: float
    width: int                                             # bits of most global loads of the longest launch
    bank: float
    us: float
    roofline: float
    times: list[tuple[Kernel, Time]]


def count(name: str, gpu: Gpu, recorded: list[Recorded]) -> Counted:
    """All launches of what a program is."""
    parts = [[(k, model(k, gpu)) for k in kernels(r, gpu)] for r in recorded]
    times = [x for part in parts for x in part]
    whole = [in_launches(r, [t for _, t in part], gpu) for r, part in zip(recorded, parts)]
    all_launched = [launch for r in recorded for launch in r.launched]
    longest, t = max(times, key=lambda x: x[1].us)
    products = max((x for _, x in times if x.products), key=lambda x: x.us, default=None)
    loads = gpu_sass.counts(longest.code)
    asynchronous = sum(i.op.startswith("LDGSTS") for i in longest.code)
    width = 128 if loads["LDG.128"] + asynchronous >= max(loads["LDG.64"], loads["LDG"]) else 64 if (
        loads["LDG.64"] >= loads["LDG"]) else 32
    texts = {k.name: k.text for k, _ in times}
    return Counted(name, gpu.name, len(all_launched), sum(barriers(x, texts.get(x.name, "")) for x in all_launched),
                   max([*(k.registers for k, _ in times), *(n for _, n, _ in whole)]),
                   max([*(k.spills for k, _ in times), *(n for _, _, n in whole)]), t.warps,
                   products.main / products.products if products else 0, width, max(x.bank for _, x in times),
                   sum(us for us, _, _ in whole), sum(x.roofline for _, x in times), times)


def record(make: Callable[[], Any], gpu: Gpu) -> list[Recorded]:
    """The programs of a workload."""
    with recording(gpu) as found:
        make()
    return found


def figures(c: Counted) -> dict[str, float]:
    """What budgets hold."""
    return {"launches": c.launches, "spills": c.spills, "bank": c.bank, "per_product": round(c.per_product, 2),
            "us": round(c.us + c.launches * LAUNCH, 1), "roofline": round(c.roofline, 1)}


def show(c: Counted, each: bool) -> None:
    """A line of the table; each: and one for each launch."""
    print(f"| {c.program} | {c.gpu} | {c.launches} | {c.barriers} | {c.registers} | {c.spills} | {c.warps} | "
          f"{c.per_product:.2f} | {c.width} | {c.bank:.0f} | {c.us:.1f} | "
          f"{c.us + c.launches * LAUNCH:.1f} | {c.roofline:.1f} |", flush=True)
    for k, t in c.times if each else ():
        print(f"    {k.name:14} {t.form:5} {k.blocks:6} x {k.threads:4}, {k.registers:3} registers, {k.shared:6} "
              f"bytes shared, {t.warps:2} warps, loop of {t.main:4} for {t.products:3}: {t.us:8.1f} us ({t.bound})"
              + f", {k.spills} bytes spilled" * bool(k.spills))


def main() -> None:
    """Count all, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="the program of this name, or those whose names hold it")
    parser.add_argument("--kernels", action="store_true", help="each launch")
    parser.add_argument("--json", action="store_true", help="the figures that tests/data/gpu_budgets.json holds")
    given = parser.parse_args()
    if not given.json:
        print("By a model, not measured.\n\n| program | GPU | launches | barriers | registers | spills | warps | "
              "instructions for a product | loads | bank factor | us | with launches, us | roofline, us |\n|"
              + "---|" * 13)
    table: dict[str, dict[str, dict[str, float]]] = {}
    known = programs()
    for name, make in ({given.only: known[given.only]} if given.only in known else known).items():
        for gpu in GPUS if given.only in name else ():
            c = count(name, gpu, record(make, gpu))
            table.setdefault(name, {})[gpu.name] = figures(c)
            if not given.json:
                show(c, given.kernels)
    if given.json:
        print(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
