"""An environment with CuPy's own wheel where there is no GPU: ``python tests/stand_in/cuda/build.py [FOLDER]``.

Makes FOLDER/venv with the wheel, and FOLDER/lib with driver.c and runtime.c as libcuda and libcudart; builds CuPy's
runtime module, the one that links libcudart, again from the sources of the same release. Takes pip, gcc and g++, a few
minutes, 1 GB. Then

    make test-gpu bench-gpu PYTHON=FOLDER/python GPU_RUN="-m tests.stand_in.cuda.rehearse" BENCH_ARGS=--quick
"""
from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

RELEASE = "14.2.0"
HERE = Path(__file__).resolve().parent
PACKAGES = (f"cupy-cuda13x=={RELEASE}", "cython==3.2.*", "nvidia-cuda-runtime==13.0.*", "nvidia-cuda-crt==13.0.*",
            "nvidia-cuda-profiler-api==13.0.*", "nvidia-cuda-nvrtc==13.0.*", "nvidia-cuda-cccl==13.0.*", "cffi",
            "hypothesis", "matplotlib", "ml_dtypes", "numpy", "pytest", "pytest-xdist", "setuptools>=77", "wheel")
DEFINES = "CUPY_CUDA_VERSION=13000,CUPY_HIP_VERSION=0,CUPY_USE_CUDA_PYTHON=0,CUPY_CANN_VERSION=0"


def run(*command: object, cwd: Path | None = None, **settings: str) -> str:
    """Run a command; its output. ``settings``: environment variables."""
    return subprocess.run([str(c) for c in command], cwd=cwd, check=True, text=True, stdout=subprocess.PIPE,
                          env={**os.environ, **settings}).stdout


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


def sources(folder: Path, python: Path) -> Path:
    """CuPy's sources, from the source distribution of the release."""
    unpacked = folder / f"cupy-{RELEASE}"
    if not unpacked.is_dir():
        run(python, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "cupy", "--no-build-isolation",
            "-d", folder, f"cupy=={RELEASE}", CUPY_INSTALL_USE_STUB="1")             # pip runs setup.py: without CUDA
        with tarfile.open(folder / f"cupy-{RELEASE}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
    return unpacked


def build(folder: Path) -> None:
    """All steps; what is there already is kept."""
    folder.mkdir(parents=True, exist_ok=True)
    python = folder / "venv" / "bin" / "python"
    if not python.exists():
        run(sys.executable, "-m", "venv", folder / "venv")
    run(python, "-m", "pip", "install", "-q", *PACKAGES)
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    made, text = libraries(folder), sources(folder, python)
    run(python, "-m", "cython", "-3", "--cplus", "-E", DEFINES, "cupy_backends/cuda/api/runtime.pyx", "-I", ".",
        cwd=text)
    cuda = next(p.parent for p in site.glob("nvidia/*/include/cuda_runtime.h"))
    target = next((site / "cupy_backends" / "cuda" / "api").glob("runtime.*.so"))
    run("g++", "-w", "-O1", "-shared", "-fPIC", "-I.", "-Icupy_backends", f"-I{cuda}",
        f"-I{sysconfig.get_path('include')}", "cupy_backends/cuda/api/runtime.cpp", made, f"-Wl,-rpath,{made.parent}",
        "-o", target, cwd=text)
    starter = folder / "python"
    setting = f'HYBRID_STAND_IN=1 LD_LIBRARY_PATH="{made.parent}"'
    starter.write_text(f'#!/bin/sh\n{setting} exec "{python}" "$@"\n')
    starter.chmod(0o755)
    print(run(starter, "-c", "import cupy; x = cupy.zeros(3); print('CuPy', cupy.__version__, x.device)"), end="")


if __name__ == "__main__":
    build(Path(sys.argv[1] if len(sys.argv) > 1 else os.path.join("build", "stand-in")).resolve())
