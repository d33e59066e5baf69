"""Sums by NCCL, on stand-ins for CuPy and NCCL: over two GPUs of a process, and over processes with a GPU each."""
from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Iterator

import numpy as np
import pytest

import hybrid as mx
from hybrid import HybridError, autograd, device, gluon, launch, nd

from ..cuda import fake_cupy
from . import fake_nccl
from ..cuda.test_cuda_cupy import stand_in  # noqa: F401  the fixture
from .test_distributed import needs_mpi

GPUS = [mx.gpu(0), mx.gpu(1)]
WORKER = Path(__file__).with_name("nccl_worker.py")


@pytest.fixture
def two_gpus(stand_in: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:  # noqa: F811
    monkeypatch.setattr(fake_cupy.STATE, "devices", 2)
    for name in ("nccl", "Event"):
        monkeypatch.setattr(fake_cupy.CUPY.cuda, name, None, raising=False)
    monkeypatch.setattr(fake_cupy.CUPY.cuda, "runtime", fake_cupy.CUPY.cuda.runtime)
    fake_nccl.into(fake_cupy.CUPY)
    fake_nccl.CALLS.clear()
    yield


# ---- one process
def weights(kvstore: str, on_store: bool) -> np.ndarray:
    rng, net = np.random.RandomState(0), gluon.nn.Dense(3, in_units=5)
    net.initialize(mx.init.Constant(0.1), ctx=GPUS)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1}, kvstore=kvstore,
                            update_on_kvstore=on_store)
    for _ in range(3):
        x = nd.array(rng.randn(8, 5).astype("float32"))
        with autograd.record():
            losses = [(net(part) ** 2).sum() for part in gluon.utils.split_and_load(x, GPUS)]
        autograd.backward(losses)
        trainer.step(8)
    copies = [np.concatenate([p.data(c).asnumpy().ravel() for p in net.collect_params().values()]) for c in GPUS]
    np.testing.assert_array_equal(*copies)
    return copies[0]


@pytest.mark.parametrize("on_store", [True, False])
def test_a_trainer_adds_up_the_gradients_of_two_gpus(two_gpus: None, on_store: bool) -> None:
    found = weights("nccl", on_store)
    assert fake_nccl.CALLS.count(("reduce", 15, "float32", 2)) == 3            # of the weight, at each step
    np.testing.assert_allclose(found, weights("device", on_store), rtol=1e-6)


def test_a_store_adds_up_what_two_gpus_push(two_gpus: None) -> None:
    store, out = mx.kv.create("nccl"), [nd.zeros((2, 3), ctx=c, dtype="float64") for c in GPUS]
    assert store.type == "nccl" and store.num_workers == 1
    store.init("w", nd.ones((2, 3), ctx=GPUS[1], dtype="float64"))
    store.push("w", [nd.full((2, 3), v, ctx=c, dtype="float64") for v, c in zip((2, 5), GPUS)])
    store.pull("w", out=out)
    assert [x.asnumpy().tolist() for x in out] == [[[7.0] * 3] * 2] * 2
    assert ("reduce", 6, "float64", 2) in fake_nccl.CALLS
    store.push("w", [nd.ones((2, 3), ctx=GPUS[0], dtype="float64")])           # one device alone: nothing to add up
    store.pull("w", out=out[0])
    assert out[0].asnumpy().tolist() == [[1.0] * 3] * 2


def test_without_nccl_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(device._probe, "cupy", None)
    with pytest.raises(HybridError, match="pip install nvidia-nccl-cu12.*'device' needs none"):
        mx.kv.create("nccl")


# ---- several processes
def worker(ranks: int, what: str, argument: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "HYBRID_NUM_THREADS": "1", "HYBRID_DEVICE": "gpu", "HYBRID_CUDA": ""}
    return subprocess.run([str(launch.mpirun()), "-n", str(ranks), sys.executable, str(WORKER), what, argument],
                          capture_output=True, text=True, timeout=100, check=False, env=env)


@needs_mpi
def test_two_ranks_on_gpus_give_the_parameters_of_one(tmp_path: Path) -> None:
    found = {}
    for ranks in (1, 2):
        done = worker(ranks, "train", str(tmp_path / str(ranks)))
        assert done.returncode == 0, done.stderr
        with np.load(tmp_path / f"{ranks}.npz") as arrays:
            found[ranks] = dict(arrays)
    for name, x in found[2].items():
        if name not in ("pushed", "unwaited"):
            tolerance = 2e-3 if name == "half" else 1e-5
            np.testing.assert_allclose(x, found[1][name], rtol=tolerance, atol=tolerance, err_msg=name)
    assert found[2]["pushed"].tolist() == [3.0] * 4
    assert not np.allclose(found[2]["unwaited"], found[1]["unwaited"], rtol=0.01), "finish waits for nothing"


@needs_mpi
@pytest.mark.parametrize("what, told", [("late", r"rank 0 has waited .* for rank 1; the limit is 2 s"),
                                        ("same", "ranks 0, 1 share a GPU, and NCCL needs one for each")])
def test_a_fault_during_a_sum_ends_all(what: str, told: str) -> None:
    done = worker(2, "fault", what)
    assert done.returncode != 0
    assert re.search(told, done.stderr + done.stdout), done.stderr
