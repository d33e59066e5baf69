"""What ``hybridize(precision="bf16")`` makes of products, as the report says it, and where it makes nothing of them."""
from __future__ import annotations

from typing import Any

import pytest

import hybrid as mx
from hybrid import autograd, ir, nd
from hybrid.gluon import nn
from hybrid.passes.low_precision import in_bfloat16, roundings
from hybrid.runtime import toolchain

from .test_low_precision import LAYERS

pytest.importorskip("ml_dtypes")


def sources(make: Any, shape: tuple[int, ...], options: dict[str, Any], trains: bool) -> tuple[list[str], Any]:
    """The C of a hybridized network, called or trained, and its report."""
    mx.random.seed(2)
    net = make()
    net.initialize(mx.init.Xavier())
    x = nd.random.normal(shape=shape)
    net(x)
    net.hybridize(**options)
    if trains:
        with autograd.record():
            y = net(x)
        y.backward()
    else:
        net(x)
    report = net.report()
    return [r.source for r in (report, report.backward) if r is not None], report


@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("name", ["dense", "row", "conv", "pointwise", "several"])
def test_without_the_instruction_programs_are_float32s(name: str, trains: bool, monkeypatch: Any) -> None:
    """Their C is, which is therefore as fast; the report says why of each product."""
    def several() -> Any:
        net = nn.HybridSequential()
        net.add(nn.Conv2D(32, 3, padding=1), nn.BatchNorm(), nn.Flatten(), nn.Dense(64, activation="relu"), nn.Dense(4))
        return net
    make, shape = LAYERS[name] if name in LAYERS else (several, (2, 16, 12, 12))
    monkeypatch.setattr(toolchain, "words", frozenset)
    exact, plain = sources(make, shape, {}, trains)
    near, report = sources(make, shape, {"precision": "bf16"}, trains)
    assert near == exact and all(near) and plain.precision == []
    assert len(report.precision) == (3 if name == "several" else 1), report.precision
    assert all("float32: the processor has no instruction" in line for line in report.precision)
    assert f"  bf16: {report.precision[0]}" in str(report).split("\n")


def test_the_report_says_what_becomes_of_products(monkeypatch: Any) -> None:
    """Of those a processor with the instruction rounds, and of others."""
    def parts(shape: tuple[int, ...], channels: int, kernel: int) -> tuple[ir.Program, frozenset[int]]:
        x, w = ir.input(0, shape, "float32"), ir.input(1, (64, channels, kernel, kernel), "float32")
        win = ir.make("window", (x,), axes=(2, 3), size=(kernel,) * 2, stride=(1, 1), dilation=(1, 1))
        y = ir.dot(w, win, ((1, 2, 3), (1, 4, 5)))
        small = ir.dot(ir.input(2, (2, 8), "float32"), ir.input(3, (8, 8), "float32"), ((1,), (0,)))
        both = ir.dot(ir.input(1, w.shape, "float32"), w, ((0, 1, 2, 3), (0, 1, 2, 3)))
        return ir.Program(tuple(ir.input(i, s, "float32") for i, s in enumerate((shape, w.shape, (2, 8), (8, 8)))),
                          (y, small, both)), frozenset({1, 3})
    known = frozenset({"bfloat16"})
    for channels, kernel, told in ((32, 5, "operands are rounded"), (64, 3, "rounded after Winograd's transform"),
                                   (65, 3, "Winograd's form of float32")):
        if channels == 65:
            monkeypatch.setattr("hybrid.passes.low_precision.fastest_form", lambda *a: "")
        program, slots = parts((1, channels, 20, 20), channels, kernel)
        lines = roundings(in_bfloat16(program, slots, known), slots, known, True)
        assert len(lines) == 2 and told in lines[0] and "too small" in lines[1], lines
        training = roundings(program, slots, known, False)
        assert "a training step" in training[0] and "fewer cycles" in training[1]
