"""What the ranks of tests/distributed/test_nccl.py run, each on a GPU of its own of the stand-in for CuPy:
``mpirun -n 2 python nccl_worker.py WHAT PATH``."""
from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "stand_in"), str(TESTS.parent)]

import hybrid as mx  # noqa: E402
from hybrid import autograd, gluon, nd  # noqa: E402
from hybrid import distributed as hvd  # noqa: E402
from hybrid.collective import nccl  # noqa: E402
from tests.cuda import fake_cupy  # noqa: E402
from tests.distributed import fake_nccl  # noqa: E402


BATCH = 8


def trained(kvstore: str, compiled: bool = False, **options: object) -> np.ndarray:
    """Parameters after steps on this rank's share of each batch, on its GPU."""
    ctx, rng, share = mx.gpu(hvd.rank()), np.random.RandomState(0), BATCH // hvd.size()
    net, loss_of = gluon.nn.Dense(3, in_units=5), gluon.loss.L2Loss()
    net.initialize(mx.init.Constant(0.1 * (hvd.rank() + 1)), ctx=ctx)
    hvd.broadcast_parameters(net.collect_params())
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.05}, kvstore=kvstore, **options)

    def step(x: nd.NDArray, y: nd.NDArray) -> nd.NDArray:
        with autograd.record():
            loss = loss_of(net(x), y)
        loss.backward()
        trainer.step(BATCH)
        return loss
    call = mx.hybridize(step) if compiled else step
    rows = slice(hvd.rank() * share, (hvd.rank() + 1) * share)
    for _ in range(4):
        x, y = rng.randn(BATCH, 5).astype("float32"), rng.randn(BATCH, 3).astype("float32")
        call(nd.array(x[rows], ctx=ctx), nd.array(y[rows], ctx=ctx))
    assert all(p.data().context == ctx for p in net.collect_params().values())
    return np.concatenate([p.data().asnumpy().ravel() for p in net.collect_params().values()])


def trained_without_waiting() -> np.ndarray:
    """The same where sums are read before they are there; they are waited for at the end."""
    begun: list[nccl.DeviceSum] = []
    finish = nccl.DeviceSum.finish
    nccl.DeviceSum.finish = lambda self: begun.append(self)                 # type: ignore[method-assign]
    found = trained("dist_device_sync")
    nccl.DeviceSum.finish = finish                                          # type: ignore[method-assign]
    for one in begun:
        one.finish()
    return found


def train(path: str) -> None:
    found = {}
    for name, arguments in {"device": {"kvstore": "dist_device_sync"}, "host": {"kvstore": "dist_sync"},
                            "compiled": {"kvstore": "dist_device_sync", "compiled": True},
                            "half": {"kvstore": "dist_device_sync", "compression_params": {"type": "fp16"}}}.items():
        before = len(fake_nccl.CALLS)
        found[name] = trained(**arguments)                       # type: ignore[arg-type]
        kinds = {c[0] for c in fake_nccl.CALLS[before:]} - {"join"}
        assert kinds == (set() if name == "host" or hvd.size() == 1 else {"allGather" if name == "half"
                                                                          else "allReduce"}), (name, kinds)
    found["unwaited"] = trained_without_waiting()
    mx.collective.start().deterministic = True
    found["in order"] = trained("dist_device_sync")
    store = mx.kv.create("dist_device_sync")
    summed = nd.zeros((4,), ctx=mx.gpu(hvd.rank()))
    store.init("w", nd.zeros((4,), ctx=summed.context))
    store.push("w", nd.ones((4,), ctx=summed.context) * (hvd.rank() + 1))
    store.pull("w", out=summed)
    found["pushed"] = summed.asnumpy()
    if hvd.rank() == 0:
        np.savez(path, **found)


def fault(what: str) -> None:
    """Rank 1 does not begin a sum that rank 0 has begun, after all have agreed on it; or shares rank 0's GPU."""
    if what == "late" and hvd.rank() == 1:
        nccl.DeviceSum.__init__ = lambda *a: time.sleep(60)                 # type: ignore[method-assign,assignment]
    os.environ["HYBRID_COLLECTIVE_TIMEOUT"] = "2"
    if what == "same":                                        # both on one GPU
        fake_cupy.CUPY.cuda.runtime.deviceGetPCIBusId = lambda n: "0000:00:00.0"
    trained("dist_device_sync")


if __name__ == "__main__":
    fake_nccl.into(fake_cupy.CUPY)
    fake_cupy.STATE.devices = 2
    hvd.init()
    (train if sys.argv[1] == "train" else fault)(sys.argv[2])
