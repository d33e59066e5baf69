"""Kernels that do the same are one C function; large programs are compiled in several units at the same time."""
from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cffi import FFI

from hybrid import ir
from hybrid.base import system
from hybrid.base.errors import CompileError
from hybrid.codegen.program import helper_functions, kernel_deduplication
from hybrid.codegen.loops import Printed
from hybrid.ir import Node, Program
from hybrid.passes.pipeline import plan
from hybrid.runtime import compiler_process, reference, shared_objects
from hybrid.runtime.build import JOINING
from hybrid.runtime.cpu import CpuProgram, compiled

from ..cpu_kernels import conv
from ..programs import normal

pytestmark = pytest.mark.skipif(os.environ.get("HYBRID_CC") == "none", reason="needs a compiler")


def functions(source: str) -> list[str]:
    """Names of the kernels' functions."""
    return re.findall(r"^(?:static|HY_KERNEL) void (k\d+)\([^;]*\) \{$", source, re.MULTILINE)


def checked(p: Program, arrays: list[np.ndarray], *args: Any) -> CpuProgram:
    """The compiled program, which gives what the reference gives."""
    exe = CpuProgram(plan(p, *args))
    want = reference.run(p, [a.copy() for a in arrays], np)[0]
    for got, exact in zip(exe([a.copy() for a in arrays]), want, strict=True):
        np.testing.assert_allclose(got, exact, rtol=1e-5, atol=1e-5)
    return exe


def unrolled(x: Node, w: Node) -> list[Node]:
    """A recurrent cell's states for a sequence (batch, steps, width)."""
    batch, steps, width = x.shape
    out: list[Node] = []
    for t in range(steps):
        part = ir.reshape(ir.slice(x, (0, t, 0), (batch, 1, width)), (batch, width))
        out.append(ir.map("tanh", part + ir.dot(out[-1], w, ((1,), (0,))) if out else part))
    return out


def test_offsets_become_arguments() -> None:
    x, w = ir.input(0, (5, 40, 7), "float32"), ir.input(1, (7, 7), "float32")
    # weights this small keep roundings from growing over the 40 steps
    exe = checked(Program((x, w), tuple(unrolled(x, w))), [normal(5, 40, 7), normal(7, 7) * np.float32(0.3)])
    assert len(functions(exe.report.source)) < 5 and len(exe.report.kernels) == 40


@pytest.mark.parametrize("count", (2, kernel_deduplication.MANY, 60))
@pytest.mark.parametrize("dtype", ("float32", "float64"))
def test_constants_become_arguments_where_there_are_many(count: int, dtype: str) -> None:
    leaves = [ir.input(i, (3, 50), dtype) for i in range(count)]
    p = Program(tuple(leaves), tuple(ir.map("exp", v * (0.1 + i)) + ir.reduce("sum", v, (1,), keepdims=True)
                                     for i, v in enumerate(leaves)))
    exe = checked(p, [normal(3, 50, dtype=dtype) for _ in leaves], JOINING)
    assert len(functions(exe.report.source)) == (count if count < kernel_deduplication.MANY else 1)


def printed(name: str, body: str, before: str = "", kind: str = "elementwise") -> Printed:
    return Printed(name, f"{before}static void {name}(float *p0) {{\n{body}\n}}\n", [], kind)


@pytest.mark.parametrize("line", ("  float a[{}];",
                                  "  #pragma GCC unroll {}", "  static const float c = 0x1.{}p+0f;",
                                  "  acc[{}] = p0[7];", "  p0[q / {}] = 1;", "  p0[q % {}] = 1;"),
                         ids=("array", "pragma", "static", "register", "quotient", "remainder"))
def test_numbers_that_must_be_constants_stay(line: str) -> None:
    kernels = [printed(f"k{i}", line.format(i + 3)) for i in range(8)]
    assert [p.name for p in kernel_deduplication.share(kernels)] == [p.name for p in kernels]


@pytest.mark.parametrize("kind", ("elementwise", "reduction"))
def test_sizes_become_arguments_of_elementwise_kernels(kind: str) -> None:
    kernels = [printed(f"k{i}", f"  for (long i = 0; i < {i + 3}; i++) p0[i * {2 * i + 1} + {i + 3}] = 2;", kind=kind)
               for i in range(8)]
    out = kernel_deduplication.share(kernels)
    if kind == "reduction":                                  # its loop is what takes the time
        assert [p.name for p in out] == [p.name for p in kernels]
    else:
        assert ([p.name for p in out] == ["k0"] * 8 and out[2].numbers == ("5", "5")
                and "i < num0_; i++) p0[i * num1_ + num0_] = 2;" in out[0].source)


def test_updates_of_many_sizes_are_one_function() -> None:
    sizes = [(3, 5), (7, 1), (65, 63), (17, 2), (129, 3)]
    leaves = [ir.input(i, s, "float32") for i, s in enumerate(sizes)]
    exe = checked(Program(tuple(leaves), tuple(v * 0.5 for v in leaves)), [normal(*s) for s in sizes])
    assert len(functions(exe.report.source)) == 1 and len(exe.report.kernels) == len(sizes)


def test_updates_read_their_rates_by_one_function() -> None:
    """Every parameter has a rate and a decay of its own in one array, as a trainer hands them over."""
    count = 3 * kernel_deduplication.MANY
    rates, leaves = ir.input(0, (2 * count,), "float64"), [ir.input(i + 1, (7, 13), "float32") for i in range(count)]

    def scalar(i: int) -> Node:
        return ir.cast(ir.reshape(ir.slice(rates, (i,), (1,)), ()), "float32")
    p = Program((rates, *leaves), tuple(v - scalar(2 * i) * (v + scalar(2 * i + 1)) for i, v in enumerate(leaves)))
    exe = checked(p, [normal(2 * count, dtype="float64"), *(normal(7, 13) for _ in leaves)])
    assert len(functions(exe.report.source)) == 1 and len(exe.report.kernels) == count


def transform(i: int, size: int, more: str = "") -> Printed:
    """A kernel with a long function of its own."""
    body = "\n".join(f"  to[{j}] += x[i + {j * size}] * {j}.5f;" for j in range(helper_functions.LONG // 20))
    helper = f"static __attribute__((noinline)) void k{i}_in(const float *x, float *to, long i) {{\n{body}{more}\n}}\n"
    return printed(f"k{i}", f"  k{i}_in(p0 + (3 * {i}), p0, 7);\n  k{i}_in(p0, p0, f(1, 2));", helper, "convolution")


def test_long_functions_of_kernels_are_shared() -> None:
    functions, out = helper_functions.share_helpers([transform(i, 16 * (i + 1)) for i in range(helper_functions.MANY)])
    assert len(functions) == 0 and "k1_in(p0, p0" in out[1].source                 # too many numbers differ
    made = [printed(f"k{i}", f"  k{i}_in(p0 + (3 * {i}), p0, f(1, 2));",
                    "static __attribute__((noinline)) void " + f"k{i}_in(const float *x, float *to, long i) {{\n"
                    f"  for (long c = 0; c < {16 * i}; c++) {{\n{'    to[1] = HYV_B(2.5f);' * 150}\n  }}\n}}\n",
                    "convolution") for i in range(helper_functions.MANY)]
    functions, out = helper_functions.share_helpers(made)
    assert [f.name
            for f in functions] == ["k0_in"] and "long i, const long num0_)" in functions[0].source and "c < num0_;" in functions[0].source  # noqa: E501
    assert all(f"k0_in(p0 + (3 * {i}), p0, f(1, 2), {16 * i});" in p.source and "noinline" not in p.source
               for i, p in enumerate(out))
    assert helper_functions.share_helpers(made[1:]) == ([], made[1:])


def tile(i: int, size: int) -> Printed:
    """A kernel with a short function of its own."""
    helper = f"static __attribute__((noinline)) void k{i}_tile(float *to) {{\n  to[{size}] = 1.5f;\n}}\n"
    return printed(f"k{i}", f"  k{i}_tile(p0 + {i});", helper, "contraction")


def test_equal_functions_of_kernels_are_shared() -> None:
    """Short ones, or those of few kernels, where they are the same; of few kernels none gets an argument."""
    functions, out = helper_functions.share_helpers([tile(0, 7), tile(1, 8), tile(2, 7), tile(3, 9)])
    assert [(f.name, "num0_" in f.source) for f in functions] == [("k0_tile", False)]
    assert [f"k{owner}_tile(p0 + {i});" in out[i].source for i, owner in enumerate((0, 1, 0, 3))] == [True] * 4
    assert ["noinline" in p.source for p in out] == [False, True, False, True]
    functions, out = helper_functions.share_helpers([transform(i, 16 * (i % 2 + 1)) for i in range(4)])
    assert [f.name for f in functions] == ["k0_in", "k1_in"] and "k1_in(p0, p0, f(1, 2))" in out[3].source


def test_layers_of_many_widths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Winograd's transforms are shared, and give what the reference gives."""
    monkeypatch.setattr(helper_functions, "MANY", 2)
    monkeypatch.setenv("HYBRID_TUNE", "0")
    x = y = ir.input(0, (1, 50, 8, 8), "float32")
    inputs, arrays = [x], [normal(1, 50, 8, 8)]
    for i in range(3):
        w = ir.input(i + 1, (52 + 2 * i, y.shape[1], 3, 3), "float32")
        inputs, arrays = [*inputs, w], [*arrays, normal(*w.shape) * np.float32(0.1)]
        y = ir.map("relu", conv(y, w, 1))
    p = Program(tuple(inputs), (y,))
    p.memo["frozen"] = frozenset(range(1, len(inputs)))
    exe = compiled(p)
    want = reference.run(p, arrays, np)[0][0]
    np.testing.assert_allclose(exe(arrays)[0], want, rtol=1e-4, atol=1e-4 * np.abs(want).max())
    assert "num0_" in exe.report.source


def test_numbers_of_helper_functions_stay() -> None:
    kernels = [printed(f"k{i}", f"  k{i}_tile(p0);",
                       f"static void k{i}_tile(float *p0) {{\n  p0[p0[0] + {i}] = 1;\n}}\n") for i in range(8)]
    assert [p.name for p in kernel_deduplication.share(kernels)] == [p.name for p in kernels]


def test_what_an_argument_replaces() -> None:
    kernels = [printed(f"k{i}", f"  p0[q + {i + 1}] = 0x{i}.8p+0f * x + 0x{i}.8p+0f + p0[q + 7];") for i in range(6)]
    out = kernel_deduplication.share([*kernels, printed("k9", "  p0[q + 3] = 0x2.8p+0f * x + 0x2.8p+0f + p0[q + 7];")])
    assert [p.name for p in out] == ["k0"] * 7 and [bool(p.source) for p in out] == [True] + [False] * 6
    assert ("p0[q + num0_] = num1_ * x + num1_ + p0[q + 7];" in out[0].source
            and "const long num0_, const float num1_) {" in out[0].source)
    assert out[2].numbers == out[6].numbers == ("3", "0x2.8p+0f") and "__attribute__((noinline));" in out[0].source


@pytest.mark.parametrize("cores", (1, 2, 5))
def test_large_programs_are_compiled_in_units(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []
    run = shared_objects.run
    monkeypatch.setattr(system, "idle_cores", lambda: cores)
    monkeypatch.setattr(shared_objects, "run",
                        lambda commands, c, *rest: (ran.extend(commands), run(commands, c, *rest)))
    monkeypatch.setattr("hybrid.codegen.c.LARGE", 100)
    monkeypatch.setattr(shared_objects, "UNIT", 100)
    x, w = ir.input(0, (65, 33 + cores), "float32"), ir.input(1, (33 + cores, 129), "float32")
    y = ir.map("relu", ir.dot(x, w, ((1,), (0,))))
    p = Program((x, w), (ir.map("exp", y - ir.reduce("max", y, (1,), keepdims=True)), ir.reduce("sum", y, (0,))))
    exe = checked(p, [normal(65, 33 + cores), normal(33 + cores, 129)])
    assert shared_objects.UNITS in exe.report.source and len(ran) == (1 if cores == 1 else cores + 1)
    assert any("-DHY_UNIT=1" in c for c in ran) == (cores > 1)


def test_an_error_in_one_unit_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "idle_cores", lambda: 3)
    text = f"#if HY_UNIT == 1\nthis is no C\n#endif\n{shared_objects.UNITS}\nint x;\n#endif\n"
    with pytest.raises(CompileError, match="refused the generated program"):
        shared_objects.build(text)


def test_units_of_a_long_text_stay_when_the_compiler_is_cut_off(monkeypatch: pytest.MonkeyPatch,
                                                                tmp_path: Path) -> None:
    monkeypatch.setenv("HYBRID_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(system, "idle_cores", lambda: 2)
    monkeypatch.setattr(shared_objects, "LONG_UNIT", 100)
    units = "".join(f"#if HY_UNIT == {i}\nint x{i} = {i};\n#endif\n" for i in range(4))
    text = f"{units}{shared_objects.UNITS}\nint x;\n#endif\n"
    text += "/*" + "-" * (390 - len(text)) + "*/\n"
    ran: list[str] = []
    run = shared_objects.run
    def noted(commands: list[list[str]], c: Path, *rest: object) -> str:
        ran.extend(w for command in commands for w in command if w.startswith("-DHY_UNIT="))
        return run(commands, c, *rest)                  # type: ignore[arg-type]
    monkeypatch.setattr(shared_objects, "run", noted)
    ended = compiler_process.ended
    def cut_off(process: object, *rest: object) -> int:
        if len([r for r in (tmp_path / "cache").glob("unit-*.o")]) == 2:
            raise KeyboardInterrupt
        return ended(process, *rest)                    # type: ignore[arg-type]
    with monkeypatch.context() as m:
        m.setattr(compiler_process, "ended", cut_off)
        with pytest.raises(KeyboardInterrupt):
            shared_objects.build(text)
    assert ran == [f"-DHY_UNIT={i}" for i in range(4)]
    ran.clear()
    so, _ = shared_objects.build(text)
    assert ran == ["-DHY_UNIT=2", "-DHY_UNIT=3"]
    assert not [*(tmp_path / "cache").glob("unit-*")]
    library = FFI()
    library.cdef("".join(f"extern int x{i};" for i in range(4)))
    found = library.dlopen(str(so))
    assert [found.x0, found.x1, found.x2, found.x3] == [0, 1, 2, 3]


def test_both_sides_agree_on_the_line() -> None:
    assert shared_objects.UNITS == kernel_deduplication.UNITS
