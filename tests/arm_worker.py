"""The C kernels on another machine: programs cross-compiled for aarch64 and run by qemu, their results compared with
float64 (test_aarch64.py)."""
from __future__ import annotations

import json
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Sequence

import numpy as np

from hybrid.runtime import cpu, toolchain

from . import sanit_programs
from .sanit_worker import Configuration, cases, compiled, prepare, results, wrong

COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64-static"
PLAIN = Configuration(16, (), (), (1, 17, 63), "-O1", fixed=("packed", "pictures"))
MAIN = r"""
#include <stdio.h>
#include <stdlib.h>
void net(void **table);
int main(int n, char **names) {                /* the number of slots, their sizes, their contents; the last is the arena */
  FILE *f = fopen(names[1], "rb");
  long count, size[4096];
  void *slot[4096];
  if (n != 3 || !f || fread(&count, 8, 1, f) != 1 || count > 4096 || fread(size, 8, count, f) != (size_t)count) return 1;
  for (long i = 0; i < count; i++) {
    slot[i] = aligned_alloc(64, (size[i] + 127) / 64 * 64);
    if (!slot[i] || fread(slot[i], 1, size[i], f) != (size_t)size[i]) return 2;
  }
  fclose(f);
  net(slot);
  f = fopen(names[2], "wb");
  for (long i = 0; i < count - 1; i++) if (fwrite(slot[i], 1, size[i], f) != (size_t)size[i]) return 3;
  return fclose(f);
}
"""  # noqa: E501


def built(exe: cpu.CpuProgram, folder: Path) -> Path:
    """An executable for the other machine of a program's C text."""
    source = Path(exe.report.source_path)
    made = folder / f"{source.stem}.exe"
    flags = [f for f in toolchain.FLAGS if f.startswith("-f") and f != "-fPIC"]
    subprocess.run([COMPILER, *flags, "-O1", str(source), str(folder / "main.c"), "-o", str(made), "-lm", "-static"],
                   check=True)
    return made


def run(exe: cpu.CpuProgram, arrays: Sequence[np.ndarray], folder: Path) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Outputs and the inputs' new values, as sanit_worker.run gives them."""
    prepared = run(exe.prepare, [arrays[s] for s in exe.slots], folder)[0] if exe.prepare is not None else []
    slots = [*arrays, *prepared, *exe._constants, *(np.zeros(shape, dtype) for shape, dtype in exe._new)]
    sizes = [*(a.nbytes for a in slots), exe._arena_bytes]
    made = built(exe, folder)
    given, out = made.with_suffix(".in"), made.with_suffix(".out")
    given.write_bytes(struct.pack(f"<{len(sizes) + 1}q", len(sizes),
                                  *sizes) + b"".join(np.ascontiguousarray(a).tobytes()
                                                     for a in slots) + b"\xff" * sizes[-1])
    subprocess.run([EMULATOR, str(made), str(given), str(out)], check=True)
    raw, at = out.read_bytes(), np.cumsum([0, *sizes])
    new = [np.frombuffer(raw[at[i]:at[i + 1]], a.dtype).reshape(a.shape) for i, a in enumerate(slots)]
    return results(exe, new)


def checked(case: sanit_programs.Case, tol: float, folder: Path) -> str:
    """What is wrong with a program's results, or nothing."""
    return wrong(case, *run(compiled(case[0])[0], case[1], folder), tol)


def main() -> None:
    """Every program; a line of JSON for each, name and what is wrong."""
    flags, folder = toolchain.FLAGS, Path(sys.argv[1])
    prepare(PLAIN)
    toolchain.FLAGS = flags
    (folder / "main.c").write_text(MAIN)
    with ThreadPoolExecutor(2) as pool:
        jobs = [(name, pool.submit(checked, case, tol, folder)) for name, case, tol in cases(PLAIN)]
        for name, job in jobs:
            err = job.exception()
            print(json.dumps([name, f"{type(err).__name__}: {err}" if err is not None else job.result()]), flush=True)
