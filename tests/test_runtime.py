"""Loading compiled programs: the declarations cffi is given, and unloading them again."""
from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import cffi
import pytest

from hybrid.runtime import net_ffi

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
    """OpenMP keeps its threads waiting in its own library, which was unloaded with the last program."""
    run = subprocess.run([sys.executable, "-c", UNLOADS], env={**os.environ, "HYBRID_NUM_THREADS": "2"}, capture_output=True, text=True, check=False)
    assert run.returncode == 0 and run.stdout.split() == ["ended"], run.stderr


def test_declarations_are_what_cffi_makes_of_them(tmp_path: Path) -> None:
    pytest.importorskip("pycparser")
    ffi = cffi.FFI()
    ffi.cdef(net_ffi.CDEF)
    ffi.set_source("net_ffi", None)
    ffi.emit_python_code(str(tmp_path / "made.py"))
    written = [node.value for node in ast.walk(ast.parse((tmp_path / "made.py").read_text())) if isinstance(node, ast.Constant)]
    kept = [node.value for node in ast.walk(ast.parse(Path(net_ffi.__file__).read_text())) if isinstance(node, ast.Constant)]
    assert [v for v in kept if isinstance(v, (bytes, int))] == [v for v in written if isinstance(v, (bytes, int))]
