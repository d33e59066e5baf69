"""Worker processes and the programs around them: Ctrl-C, kills, start methods, forks after compiled programs ran."""
from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

HEAD = """
import multiprocessing, os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)          # tests in the background of a shell inherit that it is ignored
import numpy as np
import hybrid as mx
from hybrid import gluon, nd
from hybrid.gluon.data import DataLoader, SimpleDataset
def numbers(n=10): return SimpleDataset(list(range(n)))
"""  # noqa: E501


def program(tmp_path: Path, code: str) -> Path:
    path = tmp_path / "program.py"
    path.write_text(HEAD + code)
    return path


def run(tmp_path: Path, code: str, timeout: float = 120, **env: str) -> Any:
    return subprocess.run([sys.executable, str(program(tmp_path, code))], capture_output=True, text=True,
                          timeout=timeout, env={**os.environ, **env})


def ok(tmp_path: Path, code: str, **env: str) -> str:
    done = run(tmp_path, code, **env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie that nobody waits for does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def gone(pids: list[int], seconds: float = 15) -> bool:
    deadline = time.monotonic() + seconds
    while any(alive(p) for p in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not any(alive(p) for p in pids)


def shared_memory() -> set[str]:
    return {n for n in os.listdir("/dev/shm") if not n.startswith(("sem.", "pymp-"))}


ENDLESS = """
loader = DataLoader(numbers(10**6).transform(lambda i: np.full((300, 300), i, np.float32)), 4, num_workers=2)
it = iter(loader)
next(it)
print(*loader._pool.pids, flush=True)
"""


def start(tmp_path: Path, code: str) -> tuple[subprocess.Popen[str], list[int]]:
    process = subprocess.Popen([sys.executable, str(program(tmp_path, code))], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True,
                               start_new_session=True)
    assert process.stdout is not None
    return process, [int(p) for p in process.stdout.readline().split()]


@pytest.mark.parametrize("what", ["loading", "sleeping", "computing"])
def test_ctrl_c(tmp_path: Path, what: str) -> None:
    rest = {"loading": "for b in it: pass", "sleeping": "time.sleep(100)",
            "computing": "while True: np.ones((300, 300)) @ np.ones((300, 300))"}[what]
    before = shared_memory()
    process, pids = start(tmp_path, ENDLESS + rest)
    time.sleep(0.5)
    assert len(pids) == 2 and all(map(alive, pids))
    os.killpg(process.pid, signal.SIGINT)                         # as a terminal does: the whole group
    _, err = process.communicate(timeout=30)
    assert process.returncode in (1, -signal.SIGINT) and err.count("KeyboardInterrupt") == 1 and "Traceback" in err
    assert err.count("Traceback") == 1                            # the parent's alone
    assert gone(pids) and shared_memory() == before


def test_many_ctrl_c_at_odd_moments(tmp_path: Path) -> None:
    """Interrupted anywhere, the loader ends its workers, and works when it is used again."""
    code = """
import random, signal, threading
loader = DataLoader(numbers(400).transform(lambda i: np.full((100, 100), i)), 4, num_workers=2)
rng = random.Random(0)
interrupted = 0
for attempt in range(25):
    timer = threading.Timer(rng.uniform(0.001, 0.08), os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        for b in loader: pass
        time.sleep(1)
    except KeyboardInterrupt:
        interrupted += 1
    timer.join()
got = [int(b.asnumpy()[j, 0, 0]) for b in loader for j in range(4)]
assert got == list(range(400)), got
loader.close()
assert not multiprocessing.active_children()
print(interrupted)
"""
    # Python itself loses one that comes inside a fork hook or a finalizer
    assert int(ok(tmp_path, code)) >= 23


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM], ids=["kill", "term"])
def test_parent_killed(tmp_path: Path, signum: int) -> None:
    before = shared_memory()
    process, pids = start(tmp_path, ENDLESS + "for b in it: time.sleep(0.01)")
    assert len(pids) == 2
    process.send_signal(signum)
    process.communicate(timeout=30)
    assert gone(pids) and shared_memory() == before


def test_parent_killed_with_two_loaders(tmp_path: Path) -> None:
    """The second loader's workers hold no end of the first one's pipes."""
    process, pids = start(tmp_path, """
loaders = [DataLoader(numbers(100), 2, num_workers=2) for _ in range(3)]
its = [iter(l) for l in loaders]
for it in its: next(it)
print(*[p for l in loaders for p in l._pool.pids], flush=True)
time.sleep(100)
""")
    assert len(pids) == 6 and all(map(alive, pids))
    process.kill()
    process.communicate(timeout=30)
    assert gone(pids)


@pytest.mark.parametrize("end", ["pass", "raise RuntimeError('user')", "sys.exit(3)", "del it, loader", "del loader"],
                         ids=["end", "error", "exit",
    "deleted", "iterator-left"])
def test_end_of_the_program(tmp_path: Path, end: str) -> None:
    before = shared_memory()
    process, pids = start(tmp_path, ENDLESS + end)
    assert process.communicate(timeout=30)[1].count("Traceback") == ("error" in end.lower())
    assert len(pids) == 2 and gone(pids, 3) and shared_memory() == before


def test_output_of_workers_arrives(tmp_path: Path) -> None:
    out = ok(tmp_path, "list(DataLoader(numbers(4).transform(lambda i: print(f'sample {i}') or i), 2, num_workers=2))",
             PYTHONUNBUFFERED="")
    assert sorted(out.split("\n")) == ["", *(f"sample {i}" for i in range(4))]


# ---- compiled programs and forks
COMPILED = """
net = gluon.nn.HybridSequential()
net.add(gluon.nn.Dense(256, activation='relu'), gluon.nn.Dense(256))
net.initialize()
net.hybridize()
big = nd.ones((64, 512, 64))
x = nd.array(np.random.rand(256, 256))
wave = mx.hybridize(lambda a: (a * 2 + 1).tanh())
expected = [float(net(x).sum().asscalar()), float(wave(big).sum().asscalar())]
assert len(os.listdir('/proc/self/task')) > 1, 'no threads: nothing is tested'
def use(i):
    fresh = mx.hybridize(lambda a: a.exp() * 3)              # compiled in the worker
    return np.array([net(x).sum().asscalar(), wave(big).sum().asscalar(), fresh(big).sum().asscalar()])
"""


@pytest.mark.skipif(os.environ.get("HYBRID_CC") == "none", reason="needs a compiler")
def test_compiled_programs_in_forked_workers(tmp_path: Path) -> None:
    """The parent's threads are not in the child; a parallel region there must not wait for them."""
    out = ok(tmp_path, COMPILED + """
for epoch in range(4):
    loader = DataLoader(numbers(8).transform(use), 2, num_workers=2, timeout=60)
    for batch in loader:
        np.testing.assert_allclose(batch.asnumpy()[:, :2], [expected] * 2, rtol=1e-4)
        net(x), wave(big)                                     # the parent goes on with its own threads
    assert len(list(loader)) == 4
print('done')
""", HYBRID_NUM_THREADS="2", HYBRID_DEVICE="cpu")
    assert out == "done\n"


def test_fork_by_hand_after_a_compiled_program(tmp_path: Path) -> None:
    out = ok(tmp_path, COMPILED + """
import signal
child = os.fork()
if not child:
    signal.alarm(60)
    os._exit(0 if np.allclose(use(0)[:2], expected, rtol=1e-4) else 1)
assert os.waitpid(child, 0)[1] == 0
assert np.allclose(use(0)[:2], expected, rtol=1e-4)
print('done')
""", HYBRID_NUM_THREADS="2", HYBRID_DEVICE="cpu")
    assert out == "done\n"


def test_forks_beside_busy_threads(tmp_path: Path) -> None:
    """Threads that make graph nodes and draw random numbers all the time hold locks at any moment; a child gets them
    free."""
    out = ok(tmp_path, """
import threading
stop = threading.Event()
def busy():
    i = 0
    while not stop.is_set():
        i += 1
        nd.zeros((2, 1 + i % 50)).reshape((-1,)) * float(i) + nd.random.uniform(shape=(2,)).sum()
threads = [threading.Thread(target=busy, daemon=True) for _ in range(3)]
for t in threads: t.start()
for attempt in range(12):
    batches = list(DataLoader(numbers(4).transform(lambda i: (nd.ones((3,)) * i + nd.random.uniform(shape=(3,))).sum()), 2, num_workers=2, timeout=30))
    assert len(batches) == 2
stop.set()
print('done')
""", HYBRID_DEVICE="cpu")  # noqa: E501
    assert out == "done\n"


# ---- start methods
SPAWNED = """
from hybrid.gluon.data.vision import transforms
class Squares:
    def __len__(self): return 6
    def __getitem__(self, i): return nd.full((2,), i * i), i
def batchify(samples): return nd.stack(*[s[0] for s in samples]), [s[1] for s in samples]
if __name__ == '__main__':
    multiprocessing.set_start_method(METHOD)
    got = list(DataLoader(Squares(), 4, num_workers=2, batchify_fn=batchify))
    assert [b[1] for b in got] == [[0, 1, 2, 3], [4, 5]] and got[1][0].asnumpy().tolist() == [[16, 16], [25, 25]]
    net = transforms.Compose([transforms.Resize(4), transforms.ToTensor(), transforms.Normalize(0.5, 0.5)])
    pictures = SimpleDataset([nd.zeros((8, 8, 3), dtype='uint8')] * 4).transform_first(net)
    assert next(iter(DataLoader(pictures, 4, num_workers=1))).asnumpy().tolist() == np.full((4, 3, 4, 4), -1.0).tolist()
    def local(x): raise ValueError('from ' + str(x))
    try:
        list(DataLoader(numbers().transform(lambda x: x), 2, num_workers=1))
    except mx.HybridError as err:
        print(err)
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_start_methods(tmp_path: Path, method: str) -> None:
    out = ok(tmp_path, SPAWNED.replace("METHOD", repr(method)), HYBRID_DEVICE="cpu")
    assert out == "" if method == "fork" else f"start method '{method}'" in out and "no lambdas" in out


def test_spawn_without_a_main_guard_is_a_clear_error(tmp_path: Path) -> None:
    done = run(tmp_path,
               "multiprocessing.set_start_method('spawn', force=True)\nlist(DataLoader(numbers(), 2, num_workers=1))",
               HYBRID_DEVICE="cpu")
    assert done.returncode == 1 and "__name__" in done.stderr and "LoaderError" in done.stderr


def test_a_gpu_as_default_device(tmp_path: Path) -> None:
    """Workers stay on the CPU; batches arrive on the default device."""
    out = ok(tmp_path, """
made = DataLoader(numbers(4).transform(lambda i: nd.ones((2,)) * i), 2, num_workers=2, batchify_fn=lambda s: (nd.stack(*s), str(s[0].ctx)))
for x, where in made: assert (x.ctx, where) == (mx.gpu(0), 'cpu(0)'), (x.ctx, where)
for way in ({}, {'num_workers': 1}, {'num_workers': 1, 'thread_pool': True}):
    assert [b.ctx for b in DataLoader(numbers(4), 2, **way)] == [mx.gpu(0)] * 2
    with mx.cpu():
        assert [b.ctx for b in DataLoader(numbers(4), 2, **way)] == [mx.cpu(0)] * 2
print('done')
""", HYBRID_DEVICE="gpu", HYBRID_CUDA="emulator")  # noqa: E501
    assert out == "done\n"
