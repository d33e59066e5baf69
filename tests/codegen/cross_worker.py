"""The C kernels on another machine: programs that are cross-compiled, for aarch64 and run by qemu, or for Windows and
run by wine, their results compared with float64; for macOS compiled alone (test_aarch64.py, test_other_systems.py)."""
from __future__ import annotations

import importlib.util
import json
import shutil
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Sequence

import numpy as np

from hybrid.runtime import cpu, toolchain

from . import sanit_programs
from .sanit_worker import Configuration, cases, compiled, prepare, results, wrong


@dataclass(frozen=True)
class Target:
    """A machine that is not this one: how to compile for it, and what runs its programs here."""
    compiler: tuple[str, ...]
    runner: tuple[str, ...] = ()

    def missing(self) -> str:
        """Why it cannot be tried here, or nothing."""
        if self.compiler[0] == sys.executable and importlib.util.find_spec("ziglang") is None:
            return "needs ziglang (pip install ziglang)"
        missing = [c for c in (self.compiler[0], *self.runner[:1]) if shutil.which(c) is None]
        return f"needs {' and '.join(missing)}" if missing else ""


ZIG = (sys.executable, "-m", "ziglang", "cc", "-fno-sanitize=undefined")
TARGETS = {"aarch64": Target(("aarch64-linux-gnu-gcc", "-static"), ("qemu-aarch64-static",)),
           "windows": Target((*ZIG, "-target", "x86_64-windows-gnu"), ("wine",)),
           "macos": Target((*ZIG, "-target", "aarch64-macos")),
           "macos-intel": Target((*ZIG, "-target", "x86_64-macos"))}
PLAIN = Configuration(16, (), (), (1, 17, 63), "-O1", fixed=("packed", "pictures"))
MAIN = r"""
#include <stdio.h>
#include <stdlib.h>
void net(void **table);
int main(int n, char **names) {                /* the number of slots, their sizes, their contents; the last is the arena */
  FILE *f = fopen(names[1], "rb");
  long long count, size[4096];
  void *slot[4096];
  if (n != 3 || !f || fread(&count, 8, 1, f) != 1 || count > 4096 || fread(size, 8, count, f) != (size_t)count) return 1;
  for (long long i = 0; i < count; i++) {
    char *room = malloc(size[i] + 128);
    slot[i] = room ? room + (64 - (size_t)room % 64) : 0;
    if (!slot[i] || fread(slot[i], 1, size[i], f) != (size_t)size[i]) return 2;
  }
  fclose(f);
  net(slot);
  f = fopen(names[2], "wb");
  for (long long i = 0; i < count - 1; i++) if (fwrite(slot[i], 1, size[i], f) != (size_t)size[i]) return 3;
  return fclose(f);
}
"""  # noqa: E501


def built(exe: cpu.CpuProgram, target: Target, folder: Path) -> Path:
    """An executable for the other machine of a program's C text."""
    source = Path(exe.report.source_path)
    made = folder / f"{source.stem}.exe"
    flags = [f for f in toolchain.FLAGS if f.startswith("-f") and f != "-fPIC"]
    done = subprocess.run([*target.compiler, *flags, "-O1", "-w", str(source), str(folder / "main.c"), "-o", str(made),
                           "-lm"], capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(done.stderr[-1000:])
    return made


def run(exe: cpu.CpuProgram, arrays: Sequence[np.ndarray], target: Target,
        folder: Path) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Outputs and the inputs' new values, as sanit_worker.run gives them."""
    prepared = run(exe.prepare, [arrays[s] for s in exe.slots], target, folder)[0] if exe.prepare is not None else []
    slots = [*arrays, *prepared, *exe._constants, *(np.zeros(shape, dtype) for shape, dtype in exe._new)]
    sizes = [*(a.nbytes for a in slots), exe._arena_bytes]
    made = built(exe, target, folder)
    given, out = made.with_suffix(".in"), made.with_suffix(".out")
    given.write_bytes(struct.pack(f"<{len(sizes) + 1}q", len(sizes),
                                  *sizes) + b"".join(np.ascontiguousarray(a).tobytes()
                                                     for a in slots) + b"\xff" * sizes[-1])
    subprocess.run([*target.runner, str(made), str(given), str(out)], check=True, stderr=subprocess.DEVNULL)
    raw, at = out.read_bytes(), np.cumsum([0, *sizes])
    new = [np.frombuffer(raw[at[i]:at[i + 1]], a.dtype).reshape(a.shape) for i, a in enumerate(slots)]
    return results(exe, new)


def checked(case: sanit_programs.Case, tol: float, target: Target, folder: Path) -> str:
    """What is wrong with a program's results, or nothing; where nothing runs it, with what the compiler says."""
    exe = compiled(case[0])[0]
    if not target.runner:
        built(exe, target, folder)
        return ""
    return wrong(case, *run(exe, case[1], target, folder), tol)


def main(name: str, every: int = 1) -> None:
    """Every program, or each so-manieth; a line of JSON for each, name and what is wrong."""
    flags, folder, target = toolchain.FLAGS, Path(sys.argv[1]), TARGETS[name]
    prepare(PLAIN)
    toolchain.FLAGS = flags
    (folder / "main.c").write_text(MAIN)
    with ThreadPoolExecutor(2) as pool:
        jobs = [(name, pool.submit(checked, case, tol, target, folder))
                for name, case, tol in list(cases(PLAIN))[::every]]
        for name, job in jobs:
            err = job.exception()
            print(json.dumps([name, f"{type(err).__name__}: {err}" if err is not None else job.result()]), flush=True)
