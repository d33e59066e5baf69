"""Damaged ONNX files: each is read and run, or refused by a HybridError; nothing else, and in bounded time.

    python -m tests.fuzz.onnx_files [--count 10000] [--seed 0] [--networks]

Files of the ``onnx`` package's node tests are changed in their bytes, or in the fields of their messages, which passes
the parser more often; with ``--networks`` files of networks as well, in all the ways of onnx_changes.py. They run in a
worker process: one that dies or hangs is a failure, too.
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

from ..fuzz import onnx_changes
from .onnx_corpus import Sample, networks, nodes

SECONDS = 20                     # that a file may take
MOST_BYTES = 4 << 30             # of memory that a worker may ask for
NETWORKS = 0.6                   # of the files with ``--networks``; the others are single nodes


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


class Corpus:
    """Which models are damaged, and how: the same file for the same seed."""

    def __init__(self, with_networks: bool = False):
        self.nodes, self.networks = nodes(), networks() if with_networks else []

    def file(self, seed: int) -> tuple[Sample, bytes]:
        """A model, and its damaged file."""
        rng = random.Random(seed)
        if not self.networks:
            sample = rng.choice(self.nodes)
            return sample, onnx_changes.first_kinds(rng, sample.model)
        sample = rng.choice(self.networks if rng.random() < NETWORKS else self.nodes)
        return sample, onnx_changes.any_kind(rng, sample.model)


def trial(seed: int, corpus: Corpus, folder: str) -> str:
    """'' where the damaged file of a seed is read and run, or refused; else what happened."""
    sample, data = corpus.file(seed)
    path = os.path.join(folder, f"{seed}.onnx")
    with open(path, "wb") as out:
        out.write(data)
    found = outcome(path, sample.inputs())
    os.unlink(path)
    return found and f"seed {seed} ({sample.name}): {found}"


def worker(seeds: range, corpus: Corpus, folder: str) -> None:
    """Trials one after another, each named before it begins; SIGALRM ends one that hangs."""
    import resource
    import hybrid.contrib.onnx  # noqa: F401  loaded before the clock runs
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    for seed in seeds:
        with open(os.path.join(folder, "now"), "w") as out:
            out.write(str(seed))
        signal.alarm(SECONDS)
        found = trial(seed, corpus, folder)
        signal.alarm(0)
        if found:
            with open(os.path.join(folder, "found"), "a") as out:
                out.write(found + "\n")


def failures(seeds: range, corpus: Corpus) -> list[str]:
    """What went wrong with the files of these seeds."""
    out: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        while seeds:
            child = os.fork()
            if not child:
                status = 1
                try:
                    worker(seeds, corpus, folder)
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
    parser.add_argument("--networks", action="store_true", help="networks as well, damaged in more ways")
    options = parser.parse_args()
    found = failures(range(options.seed, options.seed + options.count), Corpus(options.networks))
    print("\n".join(found) or f"{options.count} damaged files: each is run or refused")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
