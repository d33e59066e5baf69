"""Inference over many machines with Dask: images in chunks, and a network that goes to each worker once.

    pip install 'dask[distributed]'
    python examples/batch_inference_dask.py                                     # two processes of this machine
    python examples/batch_inference_dask.py --scheduler tcp://host:8786         # the workers of a cluster

hybrid must be installed where the workers are. Dask moves no arrays of hybrid: a worker gets the number of a chunk,
reads the images itself (here from a file that all machines see) and gives numbers back.
"""
from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as onp

import hybrid as mx
from hybrid import nd

DATA = Path(__file__).resolve().parent / "data"
TEST = 360                                     # the last digits of the file


def read(begin: int, count: int) -> tuple[onp.ndarray, onp.ndarray]:
    """Some of the test images as (count, 1, 28, 28) float32, and their labels (count,)."""
    with onp.load(DATA / "digits.npz") as f:
        at = slice(len(f["images"]) - TEST + begin, len(f["images"]) - TEST + begin + count)
        images, labels = f["images"][at].astype("float32") / 16, f["labels"][at]
    wide = images.repeat(3, axis=1).repeat(3, axis=2)
    return onp.pad(wide, ((0, 0), (2, 2), (2, 2)))[:, None], labels


def classified(begin: int, count: int, net: Any) -> tuple[int, int, int, int]:
    """What a worker does with a chunk: how many of its images are read right, how many there are, and which process and
    which object of it did it."""
    images, labels = read(begin, count)
    found = net(nd.array(images)).asnumpy().argmax(axis=1)
    return int((found == labels).sum()), len(labels), os.getpid(), id(net)


def run(client: Any, chunk: int) -> tuple[int, int, int, int]:
    """How many images are read right, how many there are, and how many processes and copies of the network did it."""
    net = mx.gluon.SymbolBlock.imports(str(DATA / "lenet_digits-symbol.json"), ["data"],
                                       str(DATA / "lenet_digits-0025.params"))
    net.hybridize()
    # pickled once; each worker unpickles it once and keeps it, and with it the compiled program
    everywhere = client.scatter(net, broadcast=True)
    begins = list(range(0, TEST, chunk))
    counts = [min(chunk, TEST - b) for b in begins]
    done = client.gather(client.map(classified, begins, counts, net=everywhere, pure=False))
    return (sum(d[0] for d in done), sum(d[1] for d in done), len({d[2] for d in done}),
            len({(d[2], d[3]) for d in done}))


def main() -> None:
    """Start workers, or take those of a cluster, and let them read the digits."""
    from dask.distributed import Client  # noqa: PLC0415

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scheduler", help="the address of a cluster's scheduler")
    parser.add_argument("--workers", type=int, default=2, help="processes to start on this machine without one")
    parser.add_argument("--chunk", type=int, default=24, help="images that a worker takes at a time")
    options = parser.parse_args()
    os.environ.setdefault("HYBRID_NUM_THREADS", "1")           # of each worker, of which there is one for each core
    os.environ.setdefault("HYBRID_COMPILE", "now")
    workers = {"n_workers": options.workers, "threads_per_worker": 1, "dashboard_address": None}
    with Client(options.scheduler) if options.scheduler else Client(**workers) as client:
        right, images, processes, copies = run(client, options.chunk)
    print(f"{right} of {images} digits right; {processes} worker processes, {copies} copies of the network")


if __name__ == "__main__":
    main()
