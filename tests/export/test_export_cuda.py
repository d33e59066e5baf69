"""Networks for GPUs as C: the written launcher over a stand-in for the driver, whose kernels are the written CUDA in
the emulator. No GPU has run it."""
from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import nd
from hybrid.export import export_c
from hybrid.gluon import nn
from hybrid.runtime.cuda import emulator, nvrtc

from ..gluon import golden_models
from ..c_tools import STRICT, run_example
from .test_export_c import Encoder

pytestmark = pytest.mark.skipif(not all(map(shutil.which, ("gcc", "g++"))), reason="needs gcc and g++")
NVRTC = pytest.mark.skipif(not nvrtc.available(), reason="needs NVRTC")

# memory of the "GPU" is the processor's; what the driver does not promise is not there: memory begins as NaN
DRIVER = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct EmuOptions { int order; unsigned seed; int sums, resident; };
struct EmuLaunch {
  int kernel; unsigned grid[3], block[3]; unsigned long dynamic_bytes; int cooperative, first_arg, args;
};
static int (*emu_run)(const struct EmuLaunch *, int, const int *, void **, const struct EmuOptions *);
static int (*emu_kernel_args)(int);
static char names[4096];
static int pushed, alive, most_shared;
static int wrong(const char *what) { fprintf(stderr, "driver: %s\n", what); return 1; }
int cuInit(unsigned flags) { return flags ? wrong("cuInit") : getenv("NO_GPU") ? 100 : 0; }
int cuDeviceGet(int *device, int number) { *device = 7; return number; }
int cuDeviceGetAttribute(int *value, int which, int device) {
  *value = which == 75 ? atoi(getenv("MAJOR")) : which == 76 ? atoi(getenv("MINOR")) : -1;
  return device != 7 || *value < 0;
}
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = names; alive++; return device != 7; }
int cuDevicePrimaryCtxRelease_v2(int device) { alive--; return device != 7; }
int cuCtxPushCurrent_v2(void *context) { return context == names ? pushed++, 0 : wrong("context"); }
int cuCtxPopCurrent_v2(void **context) { *context = names; pushed--; return 0; }
int cuModuleLoadData(void **module, const void *image) {
  if (!pushed || memcmp(image, "\177ELF", 4)) return wrong("no cubin");
  const unsigned char *flags = (const unsigned char *)image + 0x30;      /* e_flags of the file */
  fprintf(stderr, "architecture %d\n", flags[1] ? flags[1] : flags[0]);
  *module = dlopen(getenv("MODULE"), RTLD_NOW);
  if (!*module) return wrong(dlerror());
  *(void **)&emu_run = dlsym(*module, "emu_run");
  *(void **)&emu_kernel_args = dlsym(*module, "emu_kernel_args");
  snprintf(names, sizeof names, " %s ", getenv("KERNELS"));
  alive++;
  return !emu_run || !emu_kernel_args;
}
int cuModuleUnload(void *module) { alive--; return dlclose(module); }
int cuModuleGetFunction(void **function, void *module, const char *name) {
  char word[256];
  snprintf(word, sizeof word, " %s ", name);
  char *at = strstr(names, word), *p;
  long number = 1;
  if (!module || !at) return wrong(name);
  for (p = names + 1; p <= at; p++) number += *p == ' ';
  *function = (void *)number;
  return 0;
}
int cuFuncSetAttribute(void *function, int which, int value) { most_shared = value; return !function || which != 8; }
int cuMemAlloc_v2(unsigned long long *pointer, size_t bytes) {
  void *p = aligned_alloc(256, (bytes + 255) / 256 * 256);
  memset(p, 0xff, bytes);
  *pointer = (unsigned long long)p;
  alive++;
  return !pushed;
}
int cuMemFree_v2(unsigned long long pointer) { free((void *)pointer); alive--; return !pushed; }
int cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t n) { memcpy((void *)to, from, n); return !pushed; }
int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t n) { memcpy(to, (void *)from, n); return !pushed; }
int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **arguments, void **extra) {
  struct EmuLaunch l = {(int)(long)function - 1, {x, y, z}, {bx, by, bz}, shared, 0, 0, 0};
  struct EmuOptions options = {0, 1, 0, 1};
  void *table[4096];
  int index[4096];
  if (!pushed || stream || extra || (shared > 49152 && most_shared < (int)shared)) return wrong("launch");
  l.args = emu_kernel_args(l.kernel);
  for (int i = 0; i < l.args; i++) index[i] = i, table[i] = *(void **)arguments[i];
  return emu_run(&l, 1, index, table, &options);
}
__attribute__((destructor)) static void end(void) { if (alive || pushed) wrong("something is left"); }
"""


def built(folder: Path, name: str) -> dict[str, str]:
    """The example program, the stand-in for the driver and the emulated kernels; the environment that they need."""
    (folder / "driver.c").write_text(DRIVER)
    subprocess.run(["gcc", "-O1", "-w", "-shared", "-fPIC", "driver.c", "-o", "libcuda.so.1", "-ldl"], cwd=folder,
                   check=True)
    done = subprocess.run(["gcc", *STRICT, "-O1", "-g", f"{name}.c", "example.c", "-o", "example", "-lpthread", "-ldl"],
                          cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]
    text = (folder / f"{name}.cu").read_text()
    assert "#include" not in text
    kernels = re.findall(r'extern "C" __global__ void (?:__launch_bounds__\([\d, ]+\) )?(\w+)\(', text)
    module = emulator.compile_module(text, kernels)
    return {"MODULE": str(module), "KERNELS": " ".join(kernels), "LD_LIBRARY_PATH": str(folder), "MAJOR": "9",
            "MINOR": "0"}


def same(net: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, *inputs: Any) -> None:
    net.initialize(mx.init.Xavier())
    y = net(*inputs)
    wanted = [a.asnumpy() for a in (y if isinstance(y, (list, tuple)) else [y])]
    export_c(net, folder, *inputs, name="net", cuda=("sm_80", "sm_90"))
    for key, value in built(folder, "net").items():
        monkeypatch.setenv(key, value)
    for a, b in zip(wanted, run_example(folder, "net", list(inputs), wanted)):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)


@NVRTC
def test_lenet_reads_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net, pixels, labels, logits = golden_models.lenet(mx.cpu())
    export_c(net, tmp_path, (16, 1, 28, 28), name="lenet", cuda=("sm_80", "sm_90"))
    for key, value in built(tmp_path, "lenet").items():
        monkeypatch.setenv(key, value)
    (got,) = run_example(tmp_path, "lenet", [pixels[:16]], [logits[:16]])
    np.testing.assert_allclose(got, logits[:16], atol=1e-3)
    run = ["./example", "lenet.weights"]
    for major, minor, said in (("9", "0", "architecture 90"), ("8", "6", "architecture 80"),
                               ("7", "5", "there is no GPU that this program can use")):
        done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True,
                              env={**os.environ, "MAJOR": major, "MINOR": minor})
        assert said in done.stderr and (done.returncode != 0) == (major == "7"), done
        assert "driver:" not in done.stderr
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "NO_GPU": "1"})
    assert done.returncode == 1 and "there is no GPU" in done.stderr
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, env={"PATH": os.environ["PATH"]})
    assert done.returncode == 1 and ("there is no GPU" in done.stderr or Path("/dev/nvidia0").exists())


@NVRTC
@pytest.mark.skipif(shutil.which("nvcc") is None or shutil.which("cmake") is None, reason="needs nvcc and cmake")
def test_the_toolkit_and_cmake_build_it(tmp_path: Path) -> None:
    """The kernels by CUDA's own compiler, which brings headers of the system; the launcher by CMake, without it."""
    net = nn.HybridSequential()
    net.add(nn.Dense(16, activation="tanh", in_units=8), nn.Dense(3, in_units=16))
    net.initialize()
    export_c(net, tmp_path, (2, 8), name="net", cuda=("sm_80",))
    for command in (["nvcc", "-cubin", "-arch=sm_80", "net.cu", "-o", "net.cubin"], ["cmake", "-B", "build"],
                    ["cmake", "--build", "build"]):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "net.cubin").read_bytes().startswith(b"\177ELF") and (tmp_path / "build" / "example").is_file()


@NVRTC
@pytest.mark.thorough
def test_other_networks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = nd.random.normal(shape=(2, 3, 24, 24))
    net = nn.HybridSequential()
    net.add(nn.Conv2D(32, 3, padding=1, strides=2), nn.BatchNorm(), nn.Activation("relu"), nn.Conv2D(32, 3, groups=4),
            nn.MaxPool2D(2), nn.GlobalAvgPool2D(), nn.Dense(8), nn.HybridLambda("softmax"))
    same(net, tmp_path / "convolutions", monkeypatch, x)
    same(Encoder(), tmp_path / "encoder", monkeypatch, nd.random.normal(shape=(2, 8, 32)))
    same(mx.gluon.rnn.LSTM(16, layout="NTC"), tmp_path / "lstm", monkeypatch, nd.random.normal(shape=(2, 12, 8)))


def test_what_the_form_does_not_have_is_refused(tmp_path: Path) -> None:
    net = nn.Dense(3, in_units=2)
    net.initialize()
    for more, said in (({"device": True}, "device=True alone"), ({"plain": True}, "cuda=... alone")):
        with pytest.raises(ValueError, match=said):
            export_c(net, tmp_path, (1, 2), name="net", cuda=("sm_80",), **more)
    for wrong in ("sm_80", True, ("hopper",), (80,)):
        with pytest.raises(ValueError, match="a tuple of architectures"):
            export_c(net, tmp_path, (1, 2), name="net", cuda=wrong)                                # type: ignore[arg-type]
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd")

    def step(x: Any) -> Any:
        with mx.autograd.record():
            loss = net(x).sum()
        loss.backward()
        trainer.step(1)
        return loss
    with pytest.raises(mx.errors.HybridError, match="training step"):
        export_c(step, tmp_path, (1, 2), name="learner", cuda=("sm_80",))
    assert not any(tmp_path.iterdir())
