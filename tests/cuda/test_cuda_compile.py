"""NVRTC without a GPU: cubins, what ptxas reports, the disk cache, and errors that name the saved source."""
from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest

from hybrid.base.errors import CompileError
from hybrid.runtime.cuda import emulator, nvrtc

from .cuda_tools import _alike, check_cuda_source
from .kernels_everywhere import compiled, kinds

pytestmark = pytest.mark.skipif(not nvrtc.available(), reason="no NVRTC (pip install nvidia-cuda-nvrtc)")

ADD_ONE = '#include "hybrid_cuda.cuh"\nextern "C" __global__ void add_one(float *x) { x[threadIdx.x] += 1.f; }\n'
SPILLS = r"""
extern "C" __global__ void __launch_bounds__(1024) spills(float *x) {
    float v[128];
#pragma unroll
    for (int i = 0; i < 128; i++) v[i] = x[i * 1024 + threadIdx.x];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 128; i++) x[i * 1024 + threadIdx.x] = v[127 - i] * v[(i * 7) % 128];
}
"""


@pytest.fixture
def cache_folder(tmp_path, monkeypatch):
    """An empty disk cache, and nothing remembered in this process."""
    monkeypatch.setenv("HYBRID_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(nvrtc, "_memory", {})
    monkeypatch.setattr(emulator, "_memory", {})
    return tmp_path / "cache"


def test_compiles_for_both_architectures_without_a_gpu():
    found = check_cuda_source(ADD_ONE, ["add_one"])
    assert set(found) == {"sm_80", "sm_90"} and 0 < found["sm_90"]["add_one"].registers < 32


def test_spills_are_reported_and_refused():
    compiled = nvrtc.compile(SPILLS, "sm_90")
    assert compiled.resources["spills"].spill_stores > 0 and compiled.resources["spills"].registers == 64
    with pytest.raises(AssertionError, match="spills .* bytes with 64 registers"):
        check_cuda_source(SPILLS, ["spills"])


def test_denormals_are_kept():
    text = 'extern "C" __global__ void k(float *x) { x[0] = x[1] * x[2]; }'
    assert nvrtc.compile(text, "sm_90").cubin != nvrtc.compile(text, "sm_90", ["--ftz=true"]).cubin


def test_the_log_of_ptxas_as_data():
    log = ("ptxas info    : Compiling entry function 'a' for 'sm_90'\nptxas info    : Function properties for a\n"
           "    8 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads\n"
           "ptxas info    : Used 40 registers, used 1 barriers, 8 bytes cumulative stack size, 128 bytes smem\n"
           "ptxas info    : Function properties for called\n"
           "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
           "ptxas info    : Compiling entry function 'b' for 'sm_90'\nptxas info    : Used 6 registers\n"
           "ptxas info    : Function properties for called\n"
           "    0 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n")
    assert nvrtc.resources(log) == {"a": nvrtc.Resources(40, 16, 24, 8, 128), "b": nvrtc.Resources(6, 4, 4)}


def test_an_error_holds_the_log_and_the_path_of_the_source(cache_folder):
    with pytest.raises(CompileError, match='identifier "y" is undefined') as e:
        nvrtc.compile('extern "C" __global__ void k(float *x) { x[0] = y; }', "sm_90")
    path = re.search(r"Source: (\S+\.cu)", str(e.value))
    assert path and "x[0] = y" in Path(path[1]).read_text()


@pytest.mark.parametrize("arch, message", [("sm_20", "cannot compile for sm_20; it knows sm_"),
                                           ("gpu", "is no GPU architecture")])
def test_unknown_architectures(arch, message):
    with pytest.raises(CompileError, match=message):
        nvrtc.compile(ADD_ONE, arch)


def test_compiled_once_then_read_from_disk(cache_folder, monkeypatch):
    first = nvrtc.compile(ADD_ONE, "sm_90")
    assert sorted(p.suffix for p in cache_folder.iterdir()) == [".cu", ".cubin", ".log"]
    assert cache_folder.stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr(nvrtc, "_memory", {})
    monkeypatch.setattr(nvrtc, "_compile", None)
    assert nvrtc.compile(ADD_ONE, "sm_90") == first
    with pytest.raises(TypeError):                         # other options, other file
        nvrtc.compile(ADD_ONE, "sm_90", ["--maxrregcount=32"])


def test_a_damaged_file_is_compiled_again(cache_folder, monkeypatch):
    first = nvrtc.compile(ADD_ONE, "sm_90")
    next(cache_folder.glob("*.cubin")).write_bytes(b"")
    monkeypatch.setattr(nvrtc, "_memory", {})
    assert nvrtc.compile(ADD_ONE, "sm_90").cubin == first.cubin
    module = emulator.EmulatorDriver().load(ADD_ONE, ["add_one"])
    del module


def test_a_damaged_emulator_module_is_compiled_again(cache_folder):
    text = ADD_ONE + "// damaged\n"
    path = emulator.compile_module(text, ["add_one"])
    path.write_bytes(path.read_bytes()[:100])
    module = emulator.EmulatorDriver().load(text, ["add_one"])
    assert module.plan([("add_one", (1, 1, 1), (32, 1, 1), 0, (0,))])


def test_threads_compile_one_text_once(cache_folder, monkeypatch):
    calls, real = [], nvrtc._compile
    monkeypatch.setattr(nvrtc, "_compile", lambda *a: calls.append(1) or real(*a))
    threads = [threading.Thread(target=nvrtc.compile, args=(ADD_ONE, "sm_80")) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert calls == [1]


def test_a_folder_that_cannot_be_used_costs_a_warning_at_most(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("HYBRID_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(nvrtc, "_memory", {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        assert nvrtc.compile(ADD_ONE, "sm_90").cubin[:4] == b"\x7fELF"
        assert emulator.EmulatorDriver().load(ADD_ONE, ["add_one"]).kernels == ("add_one",)


@pytest.mark.unwatched                                      # the watcher would be a library more
def test_two_processes_fill_one_folder(cache_folder):
    script = ("from hybrid.runtime.cuda import nvrtc, emulator\n"
              f"text = {ADD_ONE!r}\n"
              "print(len(nvrtc.compile(text, 'sm_90').cubin)); emulator.EmulatorDriver().load(text, ['add_one'])")
    env = {**os.environ, "HYBRID_CACHE": str(cache_folder)}
    runs = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=env, text=True)
            for _ in range(3)]
    sizes = {r.communicate()[0] for r in runs}
    assert len(sizes) == 1 and all(r.returncode == 0 for r in runs)
    assert {p.suffix for p in cache_folder.iterdir()
            if p.name not in (".tidied", ".lock")} - {".txt"} == {".cpp", ".cu", ".cubin", ".log", ".so"}
    assert len(list(cache_folder.glob("*.cubin"))) == len(list(cache_folder.glob("*.so"))) == 1


def test_architectures_that_are_printed_alike() -> None:
    assert _alike("sm_80", "sm_90") and _alike("sm_100", "sm_90a") and _alike("sm_86", "sm_120")
    assert not _alike("sm_75", "sm_90") and not _alike("sm_86", "sm_90") and not _alike("sm_75", "sm_89")


def test_kernels_for_all_gpus() -> None:
    """What ``make compile-gpu`` compiles at once: one that fails is told, and the others are compiled without it."""
    assert kinds() == {"sm_75": ["sm_75"], "sm_80": ["sm_80", "sm_100"], "sm_86": ["sm_86", "sm_89", "sm_120"],
                       "sm_90a": ["sm_90a"]}
    right, wrong = (f'extern "C" __global__ void kernel(float *x) {{ x[0] = {y}; }}\n' for y in ("1", "nowhere"))
    found = compiled([right, wrong, right], "sm_75")
    assert found[0] == found[2] and found[0].registers > 0 and 'identifier "nowhere" is undefined' in found[1]
