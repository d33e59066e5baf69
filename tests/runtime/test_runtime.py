"""Loading compiled programs: the declarations cffi is given, and unloading them again."""
from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from importlib import resources
from pathlib import Path

import cffi
import pytest

from hybrid.runtime import launcher, net_ffi, toolchain

UNLOADS = """
import gc, time
import numpy as np
from hybrid import ir
from hybrid.passes.pipeline import plan
from hybrid.runtime.cpu import CpuProgram
x = ir.input(0, (1 << 18,), "float32")
for k in range(3):
    exe = CpuProgram(plan(ir.Program((x,), (ir.map("tanh", x) + float(k),))))
    exe([np.ones(1 << 18, "float32")])
    del exe
    gc.collect()
    time.sleep(0.02)
print("ended")
"""


def test_a_program_that_is_dropped_leaves_its_threads_their_code() -> None:
    """Threads wait for work in a library, which must not be unloaded with the last program."""
    run = subprocess.run([sys.executable, "-c", UNLOADS], env={**os.environ, "HYBRID_NUM_THREADS": "2"},
                         capture_output=True, text=True, check=False)
    assert run.returncode == 0 and run.stdout.split() == ["ended"], run.stderr


@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_the_launcher_is_compiled_where_it_can_be(cc: str, tmp_path: Path) -> None:
    """Calls would go through Python without it, silently."""
    if shutil.which(cc) is None or not (launcher._headers() / "Python.h").exists():
        pytest.skip(f"no {cc}, or no headers of Python")
    run = subprocess.run([sys.executable, "-c", "from hybrid.runtime import launcher; print(launcher.load())"],
                         env={**os.environ, "HYBRID_WARM": "", "HYBRID_CC": cc, "HYBRID_CACHE": str(tmp_path)},
                         capture_output=True, text=True, check=False)
    assert "Launcher" in run.stdout, run.stdout + run.stderr


def test_clang_is_given_no_flags_of_gcc_for_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "_version_text", lambda cc, mtime: "clang version 19.1.0")
    assert toolchain.vectorizing() == ()


def test_declarations_are_what_cffi_makes_of_them(tmp_path: Path) -> None:
    pytest.importorskip("pycparser")
    ffi = cffi.FFI()
    ffi.cdef(net_ffi.CDEF)
    ffi.set_source("net_ffi", None)
    ffi.emit_python_code(str(tmp_path / "made.py"))
    written = [node.value for node in ast.walk(ast.parse((tmp_path / "made.py").read_text()))
               if isinstance(node, ast.Constant)]
    kept = [node.value for node in ast.walk(ast.parse(Path(net_ffi.__file__).read_text()))
            if isinstance(node, ast.Constant)]
    assert [v for v in kept if isinstance(v, (bytes, int))] == [v for v in written if isinstance(v, (bytes, int))]


STRESS = r"""
#include "pool.c"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/wait.h>
typedef struct { int *hits, n; } Data;
static void part(void *p) {
  Data *d = p;
  const int *me = hy_pool_me();
  for (int i = (long)d->n * me[0] / me[1]; i < (long)d->n * (me[0] + 1) / me[1]; i++) d->hits[i]++;
}
static void nested(void *p) { if (hy_pool_me()[0] == 0) hy_pool_run(part, p, 3, 4); }
static void *user(void *number) {
  int n = 500 + (int)(long)number;
  Data d = {calloc(n, sizeof(int)), n};
  for (int k = 0; k < 600; k++) {
    hy_pool_run(k % 7 ? part : nested, &d, 2 + k % 9, 4);
    for (int i = 0; i < n; i++) if (d.hits[i] != k + 1) { printf("turn %d, element %d: %d\n", k, i, d.hits[i]); abort(); }
    if (k % 200 == 199) { struct timespec t = {0, 2000000}; nanosleep(&t, NULL); }
  }
  free(d.hits);
  return NULL;
}
int main(void) {
  pthread_t t[4];
  for (int round = 0; round < 2; round++) {
    for (long i = 0; i < 4; i++) pthread_create(t + i, NULL, user, (void *)i);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    if (FORK && round == 0) {
      pid_t child = fork();
      if (!child) { alarm(60); user((void *)7); _exit(0); }
      int status;
      waitpid(child, &status, 0);
      if (status) { puts("the child ended badly"); return 1; }
    }
  }
  puts("ok");
  return 0;
}
"""  # noqa: E501


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@pytest.mark.parametrize("flags, fork", [("-O2", 1), ("-O1 -fsanitize=thread", 0),
                                         ("-O1 -fsanitize=address,undefined", 1)], ids=["plain", "races", "memory"])
def test_threads_do_each_part_once(flags: str, fork: int, tmp_path: Path) -> None:
    """Loops from several threads at once, nested, after sleeping, and in a forked process."""
    (tmp_path / "stress.c").write_text(STRESS)
    source = resources.files("hybrid.kernels").joinpath("c")
    made = subprocess.run(["gcc", *flags.split(), f"-DFORK={fork}", f"-I{source}", str(tmp_path / "stress.c"), "-o",
                           str(tmp_path / "stress"), "-lpthread"],
                          capture_output=True, text=True, check=False)
    if made.returncode and "sanitize" in flags:
        pytest.skip("the compiler has no such sanitizer")
    assert made.returncode == 0, made.stderr
    run = subprocess.run([str(tmp_path / "stress")], capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == 0 and run.stdout == "ok\n", run.stdout + run.stderr[-3000:]
