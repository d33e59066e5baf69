"""Several processes on one machine: sums of arrays beside bare MPI, and training by two ranks beside one.

    mpirun -n 2 python benchmarks/ranks.py sums          microseconds of a sum of 100 MB, and the ratio to MPI's own
    python benchmarks/ranks.py training [ranks]          images a second of LeNet, one rank beside several (2)

Each rank has one thread. Times are the least of interleaved rounds; those of a round are the slowest rank's.
"""
from __future__ import annotations

import os

os.environ.setdefault("HYBRID_NUM_THREADS", "1")
os.environ.setdefault("HYBRID_COMPILE", "now")        # what is timed is compiled
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable

import nets
import numpy as np

import hybrid as mx
from hybrid import distributed as hvd
from hybrid import gluon, launch, nd

BATCH, MEGABYTES, ROUNDS = 64, 100, 12


def slowest(call: Callable[[], Any]) -> float:
    """Seconds of a call on the rank that takes longest; all begin together."""
    hvd.barrier()
    begin = time.perf_counter()
    call()
    return max(hvd.allgather_object(time.perf_counter() - begin))


def sums() -> None:
    """A sum of an array over the ranks, in place, and as a new array."""
    from mpi4py import MPI
    hvd.init()
    a, x = np.ones(MEGABYTES * 250_000, np.float32), nd.ones((MEGABYTES * 250_000,))
    calls = {"MPI in place": lambda: MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, a),
             "hybrid in place": lambda: hvd.allreduce_(x, average=False),
             "MPI to a new array": lambda: MPI.COMM_WORLD.Allreduce(a, np.empty_like(a)),
             "hybrid to a new array": lambda: hvd.allreduce(x, average=False).wait_to_read()}
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            a[:] = 0
            x[:] = 0
            best[name] = min(best[name], slowest(call))
    if hvd.rank() == 0:
        for name, seconds in best.items():
            bare = best["MPI in place" if "place" in name else "MPI to a new array"]
            print(f"{name:22s} {seconds * 1e6:9.0f} us   {seconds / bare:.2f} of MPI")


def worker() -> None:
    """Prints the least seconds of a step of LeNet on each rank's own batch."""
    hvd.init()
    mx.random.seed(1)
    net, loss = nets.train_lenet(), gluon.loss.SoftmaxCrossEntropyLoss()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1e-3}, kvstore="dist_sync")
    rng = np.random.RandomState(hvd.rank())
    x, y = nd.array(rng.rand(BATCH, 1, 28, 28)), nd.array(rng.randint(0, 10, BATCH))

    def steps(n: int) -> None:
        for _ in range(n):
            with mx.autograd.record():
                out = loss(net(x), y)
            out.backward()
            trainer.step(BATCH * hvd.size())
    steps(8)
    best = min(slowest(lambda: steps(4)) / 4 for _ in range(ROUNDS))
    if hvd.rank() == 0:
        print(json.dumps(best))


def training(ranks: int) -> None:
    """One rank and several, in turns."""
    best = {1: float("inf"), ranks: float("inf")}
    for _ in range(3):
        for n in best:
            done = subprocess.run([str(launch.mpirun()), "-n", str(n), sys.executable, __file__, "worker"],
                                  capture_output=True, text=True, check=True)
            best[n] = min(best[n], json.loads(done.stdout.splitlines()[-1]))
    for n, seconds in best.items():
        print(f"{n} ranks: {n * BATCH / seconds:9.0f} images a second, {n * best[1] / seconds:.2f} of one rank's")


def main() -> None:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["sums", "training", "worker"], metavar="sums|training")
    parser.add_argument("ranks", type=int, nargs="?", default=2, help="of training (2)")
    given = parser.parse_args()
    {"sums": sums, "worker": worker, "training": lambda: training(given.ranks)}[given.what]()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    main()
