"""An environment with CuPy's own wheel where there is no GPU: ``python tests/stand_in/cuda/build.py [FOLDER]``.

Makes FOLDER/venv with the wheel, and FOLDER/lib with driver.c and runtime.c as libcuda and libcudart; builds CuPy's
runtime module, the one that links libcudart, again from the sources of the same release. Takes pip, gcc and g++, a few
minutes, 1 GB. Then

    make test-gpu bench-gpu PYTHON=FOLDER/python GPU_RUN="-m tests.stand_in.cuda.rehearse" BENCH_ARGS=--quick

With ``--beside`` the packages lie in FOLDER/site, beside those of the Python that runs this, which has the others
already: a quarter of the memory, and seconds.
"""
from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

RELEASE = "14.2.0"
HERE = Path(__file__).resolve().parent
CUPY = (f"cupy-cuda13x=={RELEASE}", "cuda-pathfinder", "cython==3.2.*", "nvidia-cuda-runtime==13.0.*",
        "nvidia-cuda-crt==13.0.*", "nvidia-cuda-profiler-api==13.0.*", "nvidia-cuda-cccl==13.0.*", "setuptools>=77")
OTHERS = ("nvidia-cuda-nvrtc==13.0.*", "cffi", "hypothesis", "matplotlib", "ml_dtypes", "numpy", "pytest",
          "pytest-xdist", "wheel")
DEFINES = "CUPY_CUDA_VERSION=13000,CUPY_HIP_VERSION=0,CUPY_USE_CUDA_PYTHON=0,CUPY_CANN_VERSION=0"


def run(*command: object, cwd: Path | None = None, **settings: str) -> str:
    """Run a command; its output. ``settings``: environment variables."""
    done = subprocess.run([str(c) for c in command], cwd=cwd, text=True, capture_output=True,
                          env={**os.environ, **settings})
    if done.returncode:
        raise OSError(f"{command[0]} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def libraries(folder: Path) -> Path:
    """Our libcudart, and libcuda as a link to it."""
    lib = folder / "lib"
    lib.mkdir(exist_ok=True)
    made = lib / "libcudart_emu.so"
    run("gcc", "-w", "-O1", "-shared", "-fPIC", "-Wl,-soname,libcudart_emu.so", *sorted(HERE.glob("*.c")),
        "-o", made, "-ldl", "-lpthread")
    link = lib / "libcuda.so.1"
    link.unlink(missing_ok=True)
    link.symlink_to(made.name)
    return made


class Place(NamedTuple):
    """A Python, the folder that CuPy is in, and the setting with which it finds it."""
    python: Path
    site: Path
    setting: str


def own_environment(folder: Path) -> Place:
    """An environment with CuPy, and what the tests and benchmarks take, alone."""
    python = folder / "venv" / "bin" / "python"
    if not python.exists():
        run(sys.executable, "-m", "venv", folder / "venv")
    run(python, "-m", "pip", "install", "-q", *CUPY, *OTHERS)
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    return Place(python, Path(site), "")


def beside(folder: Path) -> Place:
    """CuPy beside the packages of this Python. An index that does not answer is not asked again."""
    site = folder / "site"
    run(sys.executable, "-m", "pip", "install", "-q", "--retries", "0", "--no-deps", "--no-compile", "--target", site,
        *CUPY)
    return Place(Path(sys.executable), site, f'PYTHONPATH="{site}${{PYTHONPATH:+:$PYTHONPATH}}" ')


def sources(folder: Path, place: Place) -> Path:
    """CuPy's sources, from the source distribution of the release."""
    unpacked = folder / f"cupy-{RELEASE}"
    if not unpacked.is_dir():
        run(place.python, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "cupy", "--no-build-isolation",
            "-d", folder, f"cupy=={RELEASE}", CUPY_INSTALL_USE_STUB="1",             # pip runs setup.py: without CUDA
            PYTHONPATH=str(place.site))
        with tarfile.open(folder / f"cupy-{RELEASE}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
    return unpacked


def runtime_module(text: Path, place: Place, made: Path) -> None:
    """CuPy's runtime module of its sources, linked with ours, in place of the wheel's."""
    run(place.python, "-m", "cython", "-3", "--cplus", "-E", DEFINES, "cupy_backends/cuda/api/runtime.pyx", "-I", ".",
        cwd=text, PYTHONPATH=str(place.site))
    cuda = next(p.parent for p in place.site.glob("nvidia/*/include/cuda_runtime.h"))
    target = next((place.site / "cupy_backends" / "cuda" / "api").glob("runtime.*.so"))
    run("g++", "-w", "-O0", "-shared", "-fPIC", "-I.", "-Icupy_backends", f"-I{cuda}",
        f"-I{sysconfig.get_path('include')}", "cupy_backends/cuda/api/runtime.cpp", made, f"-Wl,-rpath,{made.parent}",
        "-o", target, cwd=text)


def build(folder: Path, environment: Callable[[Path], Place]) -> Path:
    """All steps; what is there already is kept. The starter: what runs a script with CuPy over the stand-in."""
    folder.mkdir(parents=True, exist_ok=True)
    place, made = environment(folder), libraries(folder)
    runtime_module(sources(folder, place), place, made)
    starter = folder / "python"
    starter.write_text(f'#!/bin/sh\nHYBRID_STAND_IN=1 LD_LIBRARY_PATH="{made.parent}" {place.setting}'
                       f'exec "{place.python}" "$@"\n')
    starter.chmod(0o755)
    print(run(starter, "-c", "import cupy; x = cupy.zeros(3); print('CuPy', cupy.__version__, x.device)"), end="")
    return starter


if __name__ == "__main__":
    paths = [a for a in sys.argv[1:] if a != "--beside"]
    build(Path(paths[0] if paths else os.path.join("build", "stand-in")).resolve(),
          beside if "--beside" in sys.argv else own_environment)
