"""Training over several processes: numbers equal one process's, faults end the job, checkpoints go on."""
from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

import hybrid as mx
from hybrid import gluon, launch
from hybrid.distributed import DistributedSampler, SplitSampler
from hybrid.gluon.over_ranks import relative

WORKER = Path(__file__).with_name("distributed_worker.py")


def loads() -> bool:
    """Whether mpi4py finds its MPI library (in another process: this one must not join a job)."""
    done = subprocess.run([sys.executable, "-c", "from mpi4py import MPI"], capture_output=True, check=False)
    return done.returncode == 0 and launch.mpirun() is not None


needs_mpi = pytest.mark.skipif(not loads(), reason="needs mpi4py and mpirun: pip install mpi4py mpich")


def run(*args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(args, capture_output=True, text=True, timeout=300, check=False, cwd=cwd,
                          env={**os.environ, "HYBRID_NUM_THREADS": "1"})


def worker(ranks: int, what: str, argument: str = "-") -> subprocess.CompletedProcess[str]:
    return run(str(launch.mpirun()), "-n", str(ranks), sys.executable, str(WORKER), what, argument)


def found(ranks: int, what: str, path: Path) -> dict[str, np.ndarray]:
    done = worker(ranks, what, str(path))
    assert done.returncode == 0, done.stderr
    with np.load(f"{path}.npz") as arrays:
        return dict(arrays)


@needs_mpi
def test_ranks_give_the_parameters_of_one_process(tmp_path: Path) -> None:
    one = found(1, "train", tmp_path / "1")
    for ranks in (2, 4):
        many = found(ranks, "train", tmp_path / str(ranks))
        for name, x in many.items():
            tolerance = {"half": 2e-3, "bfloat16": 2e-2, "normalised": 1e-12}.get(name.split()[-1], 1e-6)
            np.testing.assert_allclose(x, one[name], rtol=tolerance, atol=tolerance, err_msg=f"{ranks} {name}")
        np.testing.assert_allclose(many["eager"], many["horovod"], rtol=1e-6, atol=1e-6)
        for half in ("half", "horovod half", "bfloat16"):
            assert not np.array_equal(many[half], many["eager"])


@needs_mpi
def test_functions_stores_mismatches_normalisation_and_deterministic_sums() -> None:
    done = worker(3, "functions")
    assert done.returncode == 0, done.stderr


@needs_mpi
@pytest.mark.parametrize("what, told", [
    ("raise", "[rank 1] ValueError: a fault of rank 1"), ("exit", "rank 1: the end of the program"), ("kill", ""),
    ("children", ""), ("compiler", ""), ("late", "no word from rank 1")])
def test_a_fault_of_one_rank_ends_all(what: str, told: str) -> None:
    begin = time.monotonic()
    done = worker(2, "fault", what)
    assert done.returncode != 0 and told in done.stderr, done.stderr
    assert time.monotonic() - begin < 30


@needs_mpi
@pytest.mark.parametrize("what", ["checkpoint", "sharded"])
def test_a_checkpoint_goes_on_with_another_number_of_ranks(what: str, tmp_path: Path) -> None:
    found(2, what, tmp_path / "same")
    shutil.copy(tmp_path / "same.ckpt", tmp_path / "other.ckpt")
    found(2, what, tmp_path / "same")
    found(1, "checkpoint", tmp_path / "other")
    same, other = (np.load(tmp_path / f"{name}.npz")["values"] for name in ("same", "other"))
    np.testing.assert_allclose(same, other, rtol=1e-6, atol=1e-6)
    assert sorted(p.name for p in tmp_path.glob("*.ckpt")) == ["other.ckpt", "same.ckpt"]
    assert not list(tmp_path.glob(".*tmp"))


def version(path: Path) -> int:
    """What tells a job's checkpoint from the one before it."""
    file = path.with_suffix(".ckpt")
    return file.stat().st_mtime_ns if file.exists() else 0


@needs_mpi
@pytest.mark.thorough
def test_random_kills_leave_no_job_and_no_broken_checkpoint(tmp_path: Path) -> None:
    """HYBRID_TEST_KILLS of them (1000): the job ends within 30 seconds, and the next one goes on."""
    rng, path, reached = random.Random(0), tmp_path / "job", 0
    for _ in range(int(os.environ.get("HYBRID_TEST_KILLS", "1000"))):
        pids = path.with_suffix(".pids")
        pids.unlink(missing_ok=True)
        job = subprocess.Popen([str(launch.mpirun()), "-n", "2", sys.executable, str(WORKER), "kills", str(path)],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env={**os.environ, "HYBRID_NUM_THREADS": "1"})
        try:
            until = time.monotonic() + 100
            while not pids.exists():
                assert job.poll() is None and time.monotonic() < until, "the job did not begin"
                time.sleep(0.01)
            ranks = list(map(int, pids.read_text().split()))
            if rng.random() < 0.7:                           # while it trains; else while it begins
                written = version(path)
                while version(path) == written:
                    assert job.poll() is None and time.monotonic() < until, "no step was done"
                    time.sleep(0.002)
            time.sleep(0.5 * rng.random())
            os.kill(rng.choice(ranks), signal.SIGKILL)
            assert job.wait(timeout=30) != 0
        finally:
            job.kill()
            job.wait()
        until = time.monotonic() + 30
        while any(Path(f"/proc/{pid}").exists() for pid in ranks):
            assert time.monotonic() < until, "a rank lives on"
            time.sleep(0.01)
        if path.with_suffix(".ckpt").exists():
            with zipfile.ZipFile(path.with_suffix(".ckpt")) as parts:
                assert parts.testzip() is None
                now = json.loads(parts.read("about.json"))["extra"]["next"]
            assert now >= reached
            reached = now
    assert reached > 0


@needs_mpi
def test_a_program_of_horovods_runs_under_the_alias(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import mxnet as mx\nimport horovod.mxnet as hvd\nfrom mxnet import gluon\nhvd.init()\n"
                       "net = gluon.nn.Dense(2)\nnet.initialize(ctx=mx.cpu(hvd.local_rank()))\n"
                       "hvd.broadcast_parameters(net.collect_params(), root_rank=0)\n"
                       "x = mx.nd.ones((4, 3), ctx=mx.cpu(hvd.local_rank()))\nmx.random.seed(hvd.rank())\n"
                       "opt = hvd.DistributedOptimizer(mx.optimizer.create('sgd', learning_rate=0.5))\n"
                       "assert isinstance(opt, mx.optimizer.SGD) and opt.rescale_grad == 1 / hvd.size()\n"
                       "net(x)\nw, g = mx.nd.zeros((2,)), mx.nd.ones((2,)) * (hvd.rank() + 1)\n"
                       "mx.optimizer.get_updater(opt)(0, g, w)\nassert w.asnumpy().tolist() == [-0.75, -0.75], w\n"
                       "first = net.weight.data().asnumpy()\n"
                       "assert all((first == x).all() for x in hvd.allgather_object(first))\n"
                       "import horovod\nassert horovod.mxnet is hvd and mx.distributed\n")
    done = run(sys.executable, "-m", "hybrid.launch", "-n", "2", "--launcher", "local", sys.executable, "-m",
               "hybrid.as_mxnet", str(program))
    assert done.returncode == 0, done.stderr


# ---- without MPI
def test_importing_loads_no_mpi() -> None:
    code = ("import sys, hybrid, hybrid.gluon, hybrid.module, hybrid.kvstore; "
            "assert not any(m.startswith(('mpi4py', 'hybrid.collective', 'hybrid.distributed')) for m in sys.modules)")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_mpi4py_the_error_says_what_to_install() -> None:
    code = ("import sys; sys.modules['mpi4py'] = None\nimport hybrid as mx\n"
            "try:\n    mx.kv.create('dist_sync')\nexcept mx.MXNetError as err:\n    print(err)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install mpi4py" in done.stdout and "mpirun -n 2" in done.stdout


@pytest.mark.parametrize("name, told", [("dist_async", "use 'dist_sync'"), ("nccl", "pip install nvidia-nccl"),
                                        ("byteps", "there are dist"), ("p3store_dist", "there are dist")])
def test_stores_that_are_refused(name: str, told: str) -> None:
    with pytest.raises(mx.MXNetError, match=told):
        mx.kv.create(name)


def test_a_trainer_refuses_asynchronous_updates() -> None:
    net = gluon.nn.Dense(1, in_units=1)
    net.initialize()
    with pytest.raises(mx.MXNetError, match="without waiting for the other workers"):
        gluon.Trainer(net.collect_params(), "sgd", kvstore="dist_async")


def test_samplers_cover_the_data() -> None:
    parts = [list(DistributedSampler(10, seed=4, num_parts=3, part_index=i)) for i in range(3)]
    assert {len(p) for p in parts} == {4} and set(sum(parts, [])) == set(range(10))
    one = DistributedSampler(10, num_parts=2, part_index=0)
    assert list(one) != list(one)
    one.set_epoch(0)
    assert list(one) == list(DistributedSampler(10, num_parts=2, part_index=0))
    assert [sorted(SplitSampler(7, 3, i)) for i in range(3)] == [[0, 1], [2, 3], [4, 5]]
    with pytest.raises(mx.MXNetError, match="part_index"):
        SplitSampler(7, 3, 3)


def test_names_are_compared_by_their_order() -> None:
    assert relative(["a4_w", "a9_w", "b2_w"]) == relative(["a0_w", "a1_w", "b7_w"])
    assert relative(["a9_w", "a4_w"]) != relative(["a0_w", "a1_w"])


def test_the_launchers_command_line() -> None:
    command, env = launch.arguments(["-n", "2", "-s", "1", "--launcher", "local", "--env", "A:b:c", "python", "t.py",
                                     "--kv-store", "dist_sync", "-n", "5"], "mpirun", "HYDRA")
    assert command == ["mpirun", "-n", "2", "python", "t.py", "--kv-store", "dist_sync", "-n", "5"]
    assert env["A"] == "b:c" and os.environ.get("A") is None
    command, _ = launch.arguments(["-n", "4", "-H", "hosts", "--launcher", "ssh", "python", "t.py"], "mpirun",
                                  "mpirun (Open MPI) 4.1")
    assert command[:5] == ["mpirun", "-n", "4", "--hostfile", "hosts"]
    with pytest.raises(SystemExit):
        launch.arguments(["-n", "2", "--launcher", "ssh", "python", "t.py"], "mpirun", "")
