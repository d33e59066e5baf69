"""HYBRID_DEBUG: what each level prints, in words a user can read."""
from __future__ import annotations

import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.jit.debug import own_part
from hybrid.gluon import nn


def run(level, monkeypatch, capsys, call):
    monkeypatch.setenv("HYBRID_DEBUG", str(level))
    call()
    out = capsys.readouterr()
    assert out.out == ""
    return out.err


def program():
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(4, activation="relu", in_units=3), nn.LayerNorm(in_channels=4))
    net.initialize()
    net.hybridize()
    net(nd.ones((2, 3)))


def test_levels(monkeypatch, capsys):
    text = run(0, monkeypatch, capsys, program)
    assert text == ""
    text = run(1, monkeypatch, capsys, program)
    assert ("compiled net in" in text and "fused" in text and "memory: eager" in text and "cache miss" not in text
            and "arena  " not in text)
    text = run(2, monkeypatch, capsys, program)
    assert "arena          0 …" in text and "static void" not in text
    text = run(3, monkeypatch, capsys, program)
    assert ("static void k0" in text
            or "__global__" in text) and "cache miss" not in text and len(text.splitlines()) < 150
    text = run(4, monkeypatch, capsys, program)
    assert "hybrid: net: cache miss, first call" in text


def misses(f, *calls):
    for args, kwargs in calls:
        f(*args, **kwargs)
    return f.cache_misses[1:]


def test_cache_misses_in_words():
    f = mx.hybridize(lambda x, k=1, **more: x * k)
    x = nd.ones((2, 3))
    assert misses(f, ((x,), {}), ((nd.ones((4, 3)),), {}), ((nd.ones((2, 3), dtype="float64"),), {}), ((x, 5), {}),
                  ((x,), {"k": 7}),
                  ((x,), {"other": {"a": x * 1}})) == [
        "arrays: input 0 float32(2, 3) -> float32(4, 3)",
        "arrays: input 0 float32(2, 3) -> float64(2, 3)",
        "structure: argument 1 left out -> 5",
        "structure: argument k left out -> 7",
        "structure: argument other left out -> dict of (a: an array); arrays: 1 -> 2"]


def test_modes_and_attributes_in_words():
    net = nn.Dense(2, in_units=3)
    net.initialize()
    net.hybridize()
    x = nd.ones((1, 3))
    net(x)
    with autograd.predict_mode(), autograd.record(train_mode=True):
        net(x)
    assert net.cache_misses[1] == "training: False -> True; recording: False -> True"
    net._flatten = False
    net(x)
    assert net.cache_misses[2] == "attributes: attribute '_flatten' of Dense was the last that was assigned"


def test_a_source_without_kernels_is_shown_whole():
    assert own_part("int x;\n") == "int x;\n"
    assert (own_part("a\nb\nstatic void k0(int *p) {\n}\n") == "  (2 lines of helper functions before this are in the "
                                                               "source file)\nstatic void k0(int *p) {\n}\n")


@pytest.mark.parametrize("text", ["abc", "-1", ""])
def test_odd_values_of_the_setting(text, monkeypatch, capsys):
    out = run(text, monkeypatch, capsys, program)
    assert ("compiled net" in out) == bool(text)


def test_the_report_names_the_block(monkeypatch, capsys):
    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x):  # noqa: N803
            return x * 2
    net = Net()
    net.hybridize()
    assert f"compiled {net.name} in" in run(1, monkeypatch, capsys, lambda: net(nd.ones((2,))))
