"""Programs with every kind of C kernel at odd sizes; a program of its own, under AddressSanitizer and
UndefinedBehaviorSanitizer, whose arrays begin anywhere and end where their memory ends.
"""
from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hybrid import ir
from hybrid.ir import Node, Program
from hybrid.passes.differentiate import vjp_program
from hybrid.runtime import toolchain
from hybrid.runtime.cpu import CpuProgram

# Each array lies at the very end of its own block and begins one element off, so that reading or writing beyond it is
# seen.
HARNESS = r"""
#include <stdio.h>
#include <stdlib.h>
void net(void **);
int main(int n, char **args) {
    int slots = n - 4;
    void *table[256];
    FILE *in = fopen(args[1], "rb");
    long inputs = atol(args[3]);
    for (int i = 0; i < slots; i++) {
        char *rest;
        long size = strtol(args[4 + i], &rest, 10), element = atol(rest + 1);
        int arena = i == slots - 1;
        char *block = arena ? aligned_alloc(64, (size + 127) / 64 * 64) : malloc(size + element);
        table[i] = arena ? block : block + element;
        if (i < inputs && size && fread(table[i], 1, size, in) != (size_t)size) return 3;
    }
    net(table);
    FILE *out = fopen(args[2], "wb");
    for (int i = inputs; i < slots - 1; i++) fwrite(table[i], 1, atol(args[4 + i]), out);
    fclose(out);
    return 0;
}
"""
SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g1")


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape) + len(shape)).standard_normal(shape).astype("float32")


def softmax(x: Node, axis: int) -> Node:
    e = ir.map("exp", x - ir.reduce("max", x, (axis,), True))
    return e / ir.reduce("sum", e, (axis,), True)


def layer_norm(x: Node) -> Node:
    c = x - ir.reduce("sum", x, (1,), True) / x.shape[1]
    return c * ir.map("rsqrt", ir.reduce("sum", c * c, (1,), True) / x.shape[1] + 1e-5)


def conv(x: Node, w: Node, pad: int = 0, stride: int = 1, groups: int = 1) -> Node:
    win = ir.window(ir.pad(x, (0, 0, pad, pad), (0, 0, pad, pad)), (2, 3), w.shape[2:], (stride, stride), (1, 1))
    if groups == 1:
        return ir.permute(ir.dot(w, win, ((1, 2, 3), (1, 4, 5))), (1, 0, 2, 3))
    each, filters = x.shape[1] // groups, w.shape[0] // groups
    win = ir.reshape(win, (x.shape[0], groups, each, *win.shape[2:]))
    y = ir.dot(ir.reshape(w, (groups, filters, *w.shape[1:])), win, ((2, 3, 4), (2, 5, 6)), ((0,), (1,)))
    return ir.reshape(ir.permute(y, (2, 0, 1, 3, 4)), (x.shape[0], w.shape[0], *y.shape[3:]))


def program(outputs: Any, *arrays: np.ndarray) -> tuple[Program, list[np.ndarray]]:
    leaves = tuple(ir.input(i, a.shape, a.dtype) for i, a in enumerate(arrays))
    return Program(leaves, tuple(outputs(*leaves))), list(arrays)


def rows(n: int) -> tuple[Program, list[np.ndarray]]:
    """Row, reduction and elementwise kernels."""
    def outputs(x: Node, y: Node) -> list[Node]:
        return [softmax(x, 1), softmax(x, 0), layer_norm(x), ir.map("tanh", x) + 1, ir.map("erf", x) * x,
                ir.map("sigmoid", x - y), ir.map("log", x * x + 1),
                ir.reduce("sum", x, (0,)), ir.reduce("sum", x * y, (0, 1)), ir.reduce("max", x, (1,)),
                ir.argreduce("argmax", x, 1), ir.argsort(x),
                ir.concat([x, ir.map("exp", y)], 1), ir.permute(x, (1, 0)) * 2]
    return program(outputs, random(5, n), random(5, n))


def products(n: int) -> tuple[Program, list[np.ndarray]]:
    """Products of every layout, with plain and costly epilogues."""
    def outputs(a: Node, b: Node, c: Node, v: Node) -> list[Node]:
        ab, abt = ir.dot(a, b, ((1,), (0,))), ir.dot(a, c, ((1,), (1,)))
        return [ab + v, ir.map("tanh", abt), ir.permute(ab, (1, 0)), ir.map("erf", ir.permute(abt, (1, 0))) + 1,
                ir.dot(a, a, ((0,), (0,))), ir.dot(a, v, ((1,), (0,))),
                ir.dot(ir.reshape(v, (1, n)), c, ((1,), (1,)))]
    return program(outputs, random(23, n), random(n, n), random(n, n), random(n))


def convolutions(n: int) -> tuple[Program, list[np.ndarray]]:
    """Dense, strided, grouped, depthwise, pointwise, pooling; lines of n pixels."""
    def outputs(x: Node, w: Node, deep: Node, point: Node) -> list[Node]:
        y = conv(x, w, 1)
        pooled = ir.reduce("max", ir.window(ir.pad(x, (0, 0, 1, 1), (0, 0, 1, 1), -np.inf), (2, 3), (3, 3), (2, 2),
                                            (1, 1)), (4, 5))
        return [ir.map("relu", y), conv(x, w, 1, 2), ir.map("tanh", conv(x, deep, 1, 1, 4)), conv(x, deep, 1, 2, 4),
                conv(x, point), pooled,
                conv(x, ir.slice(w, (0, 0, 0, 0), (18, 2, 3, 3)), 1, 1, 2)]
    return program(outputs, random(2, 4, 9, n), random(18, 4, 3, 3), random(4, 1, 3, 3), random(33, 4, 1, 1))


def gradients(n: int) -> tuple[Program, list[np.ndarray]]:
    """Gradients of a product, a row kernel and a convolution."""
    def outputs(x: Node, w: Node, image: Node, filters: Node) -> list[Node]:
        return [softmax(ir.dot(x, w, ((1,), (1,))), 1), ir.map("relu", conv(image, filters, 1))]
    forward, arrays = program(outputs, random(6, n), random(7, n), random(1, 3, 5, n), random(5, 3, 3, 3))
    heads = [random(*o.shape) for o in forward.outputs]
    return vjp_program(forward, (0, 1, 2, 3)), [*arrays, *heads]


def depthwise_gradients(n: int) -> tuple[Program, list[np.ndarray]]:
    """Gradients of the filters of depthwise convolutions over n channels, channels last."""
    def outputs(x: Node, g: Node, h: Node) -> list[Node]:
        padded = ir.pad(x, (0, 1, 1, 0), (0, 1, 1, 0))
        return [ir.permute(ir.dot(y, ir.window(padded, (1, 2), (3, 3), (s, s), (1, 1)), ((0, 1, 2), (0, 1, 2)),
                                  ((3,), (3,))), (1, 2, 0)) for y, s in ((g, 1), (h, 2))]
    return program(outputs, random(2, 7, 5, n), random(2, 7, 5, n), random(2, 4, 3, n))


def half_products(n: int) -> tuple[Program, list[np.ndarray]]:
    """Products of halves of every layout, of casts, and of what comes out of a ReLU."""
    def outputs(a: Node, b: Node, x: Node, w: Node) -> list[Node]:
        y = ir.map("relu", a)
        return [ir.dot(a, b, ((1,), (0,))), ir.permute(ir.dot(a, b, ((1,), (1,))), (1, 0)), y,
                ir.dot(y, b, ((1,), (0,))), ir.dot(y, a, ((0,), (0,))) + b,
                ir.dot(ir.cast(x, np.float16), ir.cast(w, np.float16), ((1,), (1,)))]
    halves = [random(*s).astype(np.float16) for s in ((45, n), (n, n))]
    return program(outputs, *halves, random(23, n), random(n, n))


KINDS = {"rows": rows, "products": products, "convolutions": convolutions, "gradients": gradients,
         "depthwise gradients": depthwise_gradients}


def vectors_of(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors of so many bytes in the rest of a test, which is skipped where the machine has none."""
    if width > toolchain.vector_bytes():
        pytest.skip(f"no vectors of {width} bytes here")
    cc = toolchain.compiler()
    if cc is not None:
        toolchain.flags(cc)                      # kept for the whole process: those of the machine's own vectors
    monkeypatch.setattr(toolchain, "vector_bytes", lambda: width)


def without_sanitizers(folder: Path) -> str | None:
    """Why the sanitizers cannot be used, or None."""
    cc = toolchain.compiler()
    if cc is None:
        return "no C compiler"
    (folder / "probe.c").write_text("int main(void) { return 0; }")
    built = subprocess.run([cc, *SANITIZE, str(folder / "probe.c"), "-o", str(folder / "probe")], capture_output=True,
                           text=True, check=False)
    if built.returncode:
        return "no sanitizer library"
    ran = subprocess.run([str(folder / "probe")], capture_output=True, text=True, check=False)
    return None if ran.returncode == 0 else "programs with sanitizers do not run here"


def run_sanitized(exe: CpuProgram, arrays: list[np.ndarray], folder: Path) -> list[np.ndarray]:
    """Results of a program's C, built with sanitizers."""
    cc = toolchain.compiler()
    assert cc is not None
    (folder / "net.c").write_text(exe.report.source)
    (folder / "main.c").write_text(HARNESS)
    flags = [f for f in (*toolchain.FLAGS, *toolchain.machine_flags(cc)) if f not in ("-shared", "-fPIC", "-O2")]
    built = subprocess.run([cc, "-O1", *flags, *SANITIZE, str(folder / "net.c"), str(folder / "main.c"), "-o",
                            str(folder / "net"), "-lm"],
                           capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr[-3000:]
    prepared = exe.prepare([arrays[s] for s in exe.planned.slots]) if exe.prepare is not None else []
    given = [*arrays, *prepared, *exe._constants]
    (folder / "in").write_bytes(b"".join(np.ascontiguousarray(a).tobytes() for a in given))
    fresh = [np.empty(shape, dtype) for shape, dtype in exe._new]
    sizes = [f"{a.nbytes}:{a.dtype.itemsize}" for a in (*given, *fresh)] + [f"{exe._arena_bytes}:1"]
    ran = subprocess.run([str(folder / "net"), str(folder / "in"), str(folder / "out"), str(len(given)), *sizes],
                         capture_output=True, text=True, check=False,
                         # the harness frees nothing
                         env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})
    assert ran.returncode == 0, ran.stderr[-3000:]
    raw, at, stored = (folder / "out").read_bytes(), 0, []
    for n in fresh:
        stored.append(np.frombuffer(raw, n.dtype, n.size, at).reshape(n.shape))
        at += n.nbytes
    slots = [*given, *stored]
    return [slots[i].reshape(shape) for i, shape in exe._results]
