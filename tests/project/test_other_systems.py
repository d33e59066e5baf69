"""Systems that are not Linux: what Linux alone has is in one module, everything works where it is not there, and
generated C compiles for Windows and macOS."""
from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

from hybrid import kernels
from hybrid.base import system
from hybrid.runtime import launcher, toolchain

from ..codegen.cross_worker import TARGETS, ZIG
from ..paths import ROOT

ON_CPU = pytest.mark.skipif(os.environ.get("HYBRID_DEVICE", "cpu") != "cpu", reason="a matter of the CPU")
# what Python does not have on Windows, of what this library uses on Linux
WITHOUT = """
import os, select, signal, subprocess, sys
subprocess._USE_POSIX_SPAWN = False
import numpy, cffi                             # which look at the system themselves
for name in ("fork", "register_at_fork", "geteuid", "getegid", "getuid", "posix_spawn", "memfd_create", "pidfd_open",
             "uname", "sched_getaffinity", "killpg", "nice", "O_CLOEXEC", "O_NOFOLLOW", "O_DIRECTORY",
             "RTLD_NOW", "RTLD_NODELETE", "preadv", "pread", "POSIX_SPAWN_OPEN", "POSIX_SPAWN_DUP2", "MFD_CLOEXEC"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("pthread_sigmask", "SIGKILL"):
    delattr(signal, name)
del select.poll
sys.modules["fcntl"] = sys.modules["resource"] = sys.modules["pwd"] = None
"""
WORK = """
import warnings
import numpy as np
warnings.simplefilter("error", RuntimeWarning)
import hybrid as mx
from hybrid import autograd, gluon, hybridize, nd
from hybrid.gluon import nn
from hybrid.base import system
from hybrid.runtime import toolchain
assert not system.OWNERS and not system.LOCKS
if {compiler}:
    assert toolchain.compiler() is not None
else:
    warnings.simplefilter("default")
net = nn.HybridSequential()
net.add(nn.Dense(8, activation="tanh"), nn.Dense(1))
net.initialize(mx.init.Xavier())
net.hybridize()
trainer, loss = gluon.Trainer(net.collect_params(), "sgd", {{"learning_rate": 0.1}}), gluon.loss.L2Loss()
x = nd.array(np.random.RandomState(0).randn(32, 4))
y = x.sum(axis=1, keepdims=True)
seen = []
for _ in range(12):
    with autograd.record():
        error = loss(net(x), y).mean()
    error.backward()
    trainer.step(1)
    seen.append(error.asscalar())
assert seen[-1] < seen[0] / 2, seen
@hybridize
def wide(x):
    return nd.exp(x).sum(axis=1)
large = nd.ones((2048, 512))
np.testing.assert_allclose(wide(large).asnumpy(), np.full(2048, np.exp(1) * 512, "float32"), rtol=1e-5)
net.save_parameters("net.params")
again = nn.HybridSequential()
again.add(nn.Dense(8, activation="tanh"), nn.Dense(1))
again.load_parameters("net.params")
np.testing.assert_allclose(again(x).asnumpy(), net(x).asnumpy(), rtol=1e-5, atol=1e-6)
for batch in gluon.data.DataLoader(gluon.data.ArrayDataset(x, y), batch_size=16):
    pass
print("works")
"""


def alone(tmp_path: Path, program: str, **env: str) -> "subprocess.CompletedProcess[str]":
    around = {k: v for k, v in os.environ.items() if k not in ("HYBRID_CC", "HYBRID_CACHE", "HYBRID_WARM")}
    (tmp_path / "work").mkdir()                  # a process beside it would remove what is not locked from /tmp
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600, cwd=tmp_path,
                          env={**around, "HYBRID_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT),
                               "TMPDIR": str(tmp_path / "work"), **env})


@ON_CPU
@pytest.mark.parametrize("compiler", [True, False])
def test_everything_works_without_what_linux_alone_has(tmp_path: Path, compiler: bool) -> None:
    if compiler and toolchain.compiler() is None:
        pytest.skip("needs a compiler")
    done = alone(tmp_path, WITHOUT + WORK.format(compiler=compiler), **({} if compiler else {"HYBRID_CC": "none"}))
    assert done.returncode == 0 and done.stdout == "works\n", done.stderr
    said = [line for line in done.stderr.splitlines() if "no C compiler" in line]
    assert len(said) == (0 if compiler else 1), done.stderr


def test_what_linux_alone_has_is_asked_for_in_one_module() -> None:
    """Outside of it nothing names the calls that other systems lack, but where it is told whether they are there."""
    asked = re.compile(r"\bos\.(getuid|geteuid|register_at_fork|posix_spawn|memfd_create|sched_getaffinity|killpg|"
                       r"RTLD_\w+|O_CLOEXEC|O_NOFOLLOW|uname)\b|\bfcntl\.\w|^\s*import (fcntl|resource|pwd)\b", re.M)
    guarded = {"hybrid/base/forking.py", "hybrid/runtime/toolchain.py", "hybrid/gluon/data/transport.py"}
    found = {str(p.relative_to(ROOT)) for folder in ("hybrid", "codegen", "kernels")
             for p in (ROOT / folder).rglob("*.py") if asked.search(p.read_text(encoding="utf-8"))}
    assert found - guarded - {"hybrid/base/system.py"} == set()


def test_python_without_its_global_lock_is_told() -> None:
    program = "import sys\nsys._is_gil_enabled = lambda: False\nimport hybrid"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0 and "not safe without Python's global lock" in done.stderr


def test_a_program_is_started_where_nothing_else_can(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(subprocess, "_USE_POSIX_SPAWN", False)
    monkeypatch.delattr(os, "posix_spawn")
    with open(tmp_path / "said", "w+b") as file:
        process = system.start([sys.executable, "-c", "print('here'); raise SystemExit(3)"], 1, file.fileno(), {})
        assert system.waited(process) == 3
        assert system.content(os.dup(file.fileno())).decode().strip() == "here"
        slow = system.start([sys.executable, "-c", "import time; time.sleep(60)"], 1, file.fileno(), {})
        system.kill(slow)
        assert system.waited(slow) < 0


# ---- generated C for other systems, by the compiler of pip
# what CPython's PC/pyconfig.h says of a 64-bit Windows, as far as the headers ask for it
WINDOWS_PYTHON = """
#define Py_PYCONFIG_H
#define MS_WINDOWS 1
#define MS_WIN64 1
#define NT_THREADS 1
#define HAVE_DECLSPEC_DLL 1
#define Py_ENABLE_SHARED 1
#define SIZEOF_VOID_P 8
#define SIZEOF_SIZE_T 8
#define SIZEOF_TIME_T 8
#define SIZEOF_SHORT 2
#define SIZEOF_INT 4
#define SIZEOF_LONG 4
#define SIZEOF_LONG_LONG 8
#define SIZEOF_DOUBLE 8
#define SIZEOF_FLOAT 4
#define SIZEOF_WCHAR_T 2
#define SIZEOF_PID_T 4
#define ALIGNOF_SIZE_T 8
#define ALIGNOF_MAX_ALIGN_T 8
#define HAVE_STDDEF_H 1
#define HAVE_SYS_TYPES_H 1
#define HAVE_SYS_STAT_H 1
#define HAVE_ERRNO_H 1
#define HAVE_WCHAR_H 1
"""
WITH_ZIG = pytest.mark.skipif(importlib.util.find_spec("ziglang") is None,
                              reason="needs ziglang (pip install ziglang)")


@ON_CPU
@pytest.mark.thorough
@pytest.mark.parametrize("name", [n for n in TARGETS if n != "aarch64"])
def test_programs_for_other_systems(name: str, tmp_path: Path) -> None:
    """Each fourth of all kinds of programs: on Windows run by wine, where that is installed; for macOS compiled."""
    if TARGETS[name].missing():
        pytest.skip(TARGETS[name].missing())
    code = (f"import sys; sys.path.append({str(ROOT)!r}); from tests.codegen import cross_worker; "
            f"cross_worker.main({name!r}, {4 if TARGETS[name].runner else 8})")
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=1800,
                          env={**os.environ, "HYBRID_CACHE": str(tmp_path / "cache"), "HYBRID_VERIFY": "0",
                               "WINEPREFIX": str(tmp_path / "wine"), "WINEDEBUG": "-all"})
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0 and len(said) > 7, done.stderr[-2000:]
    assert [s for s in said if s[1]] == []


@WITH_ZIG
@pytest.mark.thorough
@pytest.mark.parametrize("target", ["x86_64-windows-gnu", "aarch64-macos", "x86_64-macos"])
def test_threads_and_launcher_for_other_systems(target: str, tmp_path: Path) -> None:
    """The launcher is compiled against this Python's headers, with Windows's settings of sizes in place of Linux's."""
    for name in ("pool.c", "device_plan.c"):
        (tmp_path / name).write_text(kernels.self_contained("c", name))
        done = subprocess.run([*ZIG, "-target", target, "-O1", "-shared", str(tmp_path / name), "-o",
                               str(tmp_path / f"{name}.bin")], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    headers = launcher._headers()
    if not (headers / "Python.h").exists():
        pytest.skip("needs Python's headers")
    (tmp_path / "launcher.c").write_text(kernels.self_contained("c", "launcher.c"))
    inside = [f"-I{tmp_path}", f"-I{headers}", f"-I{numpy.get_include()}"]
    # a header that NumPy's settings for Linux ask for
    (tmp_path / "endian.h").write_text("#define LITTLE_ENDIAN 1\n#define BIG_ENDIAN 2\n#define BYTE_ORDER 1\n")
    if "windows" in target:
        (tmp_path / "windows.h").write_text(WINDOWS_PYTHON)
        inside += ["-include", str(tmp_path / "windows.h")]
    done = subprocess.run([*ZIG, "-target", target, "-O1", "-c", *inside, str(tmp_path / "launcher.c"), "-o",
                           str(tmp_path / "launcher.o")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
