"""Damaged ONNX files: each is read and run, or refused by a HybridError; nothing else, and in bounded time.

    python -m tests.fuzz.onnx_files [--count 10000] [--seed 0]

Files of the ``onnx`` package's node tests are changed in their bytes, or in the fields of their messages, which passes
the parser more often. They run in a worker process: one that dies or hangs is a failure, too.
"""
from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import warnings
from typing import Any

import numpy as np

from ..onnx_nodes import _given, _proto, cases

SECONDS = 20                     # that a file may take
MOST_BYTES = 4 << 30             # of memory that a worker may ask for
SIZES = (-1, 0, 1, 2, 3, 7, 1 << 20, 1 << 31, (1 << 63) - 1, -(1 << 63))


def changed_bytes(rng: random.Random, data: bytes) -> bytes:
    """The file with some bytes set, cut out, or doubled."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(out) or 1)
        kind = rng.randrange(4)
        if kind == 0 and out:
            out[at] = rng.randrange(256)
        elif kind == 1 and out:
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del out[at:at + rng.randrange(1, 16)]
        else:
            out[at:at] = out[at:at + rng.randrange(1, 16)]
    return bytes(out)


def changed_fields(rng: random.Random, model: Any) -> bytes:
    """The file with some fields of its messages replaced, dropped, or moved."""
    out = type(model)()
    out.CopyFrom(model)
    for _ in range(rng.choice((1, 1, 2, 4))):
        _change(rng, out.graph)
    return out.SerializeToString()


def _change(rng: random.Random, graph: Any) -> None:
    nodes = list(graph.node)
    node = rng.choice(nodes) if nodes else None
    shapes = [v.type.tensor_type.shape for v in (*graph.input, *graph.output)]
    kind = rng.randrange(8)
    if kind == 0 and node is not None and node.input:
        node.input[rng.randrange(len(node.input))] = rng.choice(["", "none", *(o for n in nodes for o in n.output),
                                                                 *(v.name for v in graph.input)])
    elif kind == 1 and node is not None and node.input:
        del node.input[rng.randrange(len(node.input))]
    elif kind == 2 and node is not None:
        node.op_type = rng.choice([rng.choice(nodes).op_type, "Reshape", "Loop", "Tile", "Expand", "Range", "None"])
    elif kind == 3 and node is not None and node.attribute:
        a = rng.choice(list(node.attribute))
        a.i, a.f = rng.choice(SIZES), rng.choice((0.0, -1.0, float("nan"), 1e38))
        a.type = rng.randrange(0, 15) if rng.random() < 0.3 else a.type
        if a.ints:
            a.ints[rng.randrange(len(a.ints))] = rng.choice(SIZES)
    elif kind == 4 and node is not None and node.attribute:
        del node.attribute[rng.randrange(len(node.attribute))]
    elif kind == 5 and graph.initializer:
        t = rng.choice(list(graph.initializer))
        t.data_type = rng.randrange(0, 24) if rng.random() < 0.5 else t.data_type
        if t.dims:
            t.dims[rng.randrange(len(t.dims))] = rng.choice(SIZES)
    elif kind == 6 and shapes and (shape := rng.choice(shapes)).dim:
        rng.choice(list(shape.dim)).dim_value = rng.choice(SIZES)
    elif kind == 7 and graph.input:
        rng.choice(list(graph.input)).type.tensor_type.elem_type = rng.randrange(0, 24)


def outcome(path: str, inputs: list[Any]) -> str:
    """'' where a file is read and run, or refused as it should be; else what it raised."""
    import hybrid as mx
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"), mx.util.np_shape(True):
            warnings.simplefilter("ignore")
            net = mx.contrib.onnx.import_to_gluon(path, ctx=mx.cpu())
            found = net(*inputs)
            for value in found if isinstance(found, (list, tuple)) else [found]:
                if hasattr(value, "asnumpy"):
                    value.asnumpy()
    except mx.MXNetError:
        return ""
    except Exception as err:                               # noqa: BLE001  this is what is looked for
        return f"{type(err).__name__}: {str(err)[:300]}"
    return ""


def trial(seed: int, models: list[Any], folder: str) -> str:
    """One damaged file; the same for the same seed."""
    rng = random.Random(seed)
    case = rng.choice(models)
    data = case.model.SerializeToString()
    path = os.path.join(folder, f"{seed}.onnx")
    with open(path, "wb") as out:
        out.write(changed_bytes(rng, data) if rng.random() < 0.4 else changed_fields(rng, case.model))
    found = outcome(path, [_given(_proto(v)) for v in case.data_sets[0][0]])
    os.unlink(path)
    return found and f"seed {seed} ({case.name}): {found}"


def worker(seeds: range, models: list[Any], folder: str) -> None:
    """Trials one after another, each named before it begins; SIGALRM ends one that hangs."""
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    for seed in seeds:
        with open(os.path.join(folder, "now"), "w") as out:
            out.write(str(seed))
        signal.alarm(SECONDS)
        found = trial(seed, models, folder)
        signal.alarm(0)
        if found:
            with open(os.path.join(folder, "found"), "a") as out:
                out.write(found + "\n")


def failures(seeds: range, models: list[Any]) -> list[str]:
    """What went wrong with the files of these seeds."""
    out: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        while seeds:
            child = os.fork()
            if not child:
                status = 1
                try:
                    worker(seeds, models, folder)
                    status = 0
                finally:
                    os._exit(status)
            status = os.waitpid(child, 0)[1]
            if not status:
                break
            with open(os.path.join(folder, "now")) as file:
                seed = int(file.read())
            died = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"status {os.WEXITSTATUS(status)}"
            out.append(f"seed {seed}: the process ended with {died} (signal {int(signal.SIGALRM)}: it hangs)")
            seeds = range(seed + 1, seeds.stop)
        if os.path.exists(found := os.path.join(folder, "found")):
            with open(found) as file:
                out += file.read().splitlines()
    return out


def main() -> int:
    """Try files; 1 where one is neither run nor refused."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found = failures(range(options.seed, options.seed + options.count), cases())
    print("\n".join(found) or f"{options.count} damaged files: each is run or refused")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
