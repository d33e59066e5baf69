"""Exported C in tests: the compiler, the example program, what Python gives."""
from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

import hybrid as mx

STRICT = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
LIBRARIES = ["-lm", "-lpthread"]


def build(folder: Path, *sources: str, cc: str = "gcc", flags: tuple[str, ...] = (), out: str = "example") -> Path:
    """Compile without a warning; the program."""
    command = [cc, *(STRICT if cc != "g++" else STRICT[1:]), *flags, *sources, "-o", out, *LIBRARIES]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]
    return folder / out


# what clang has for Windows, without the words that are GCC's: they are not those of Microsoft's compiler
MSVC = ("--target=x86_64-pc-windows-msvc", "-fms-compatibility-version=19.30", "-nostdinc", "-isystem",
        str(Path(__file__).parent / "data" / "headers_64bit_windows"), *(f"-U__{w}__" for w in (
            "GNUC", "SIZE_TYPE", "INT64_TYPE", "UINT64_TYPE", "INT32_TYPE", "PTRDIFF_TYPE", "INTPTR_TYPE")))


def check_for_msvc(folder: Path, *sources: str) -> None:
    """Syntax alone, for a target without GCC's words: no warning, no array of variable length, no name that begins with
    two underscores once everything is expanded. Microsoft's own compiler has not read it."""
    for source in sources:
        done = subprocess.run(["clang", *MSVC, *STRICT, "-Wvla", "-fsyntax-only", source], cwd=folder,
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:3000]
        done = subprocess.run(["clang", *MSVC, "-E", "-P", source], cwd=folder, capture_output=True, text=True)
        assert set(re.findall(r"\b__\w+", done.stdout)) <= {"__metadata__"}          # a word of the file format


def run_example(folder: Path, name: str, inputs: list[Any], outputs: list[Any], threads: int = 1,
                program: str = "example") -> list[np.ndarray]:
    """What the example program gives for inputs; outputs: arrays of the shapes and dtypes that are expected."""
    paths = []
    for i, x in enumerate(inputs):
        x.asnumpy().tofile(folder / f"in{i}.bin")
        paths.append(f"in{i}.bin")
    targets = [f"out{i}.bin" for i in range(len(outputs))]
    done = subprocess.run([f"./{program}", f"{name}.weights", str(threads), *paths, *targets], cwd=folder,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [np.fromfile(folder / t, y.dtype).reshape(y.shape) for t, y in zip(targets, outputs)]


def exported(net: Any, folder: Path, name: str, *inputs: Any) -> list[np.ndarray]:
    """Export a network; what Python's compiled call gives."""
    net.initialize(mx.init.Xavier())
    net(*inputs)
    net.export_c(folder, *inputs, name=name)
    net.hybridize()
    y = net(*inputs)
    return [a.asnumpy() for a in (y if isinstance(y, (list, tuple)) else [y])]
