"""Errors and surroundings of hybridized code: messages, threads, no compiler, cache folders."""
from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import numpy as onp
import pytest

import hybrid as mx
from hybrid import nd
from hybrid.buffers.array import NDArray
from hybrid.base.errors import DeviceError, TraceError
from hybrid.gluon import nn

from ..hybridize_tools import ON_GPU, arr, same
from ..paths import ROOT


# ---- errors
def test_arrays_of_two_devices(monkeypatch: Any) -> None:
    monkeypatch.setenv("HYBRID_CUDA", "emulator")
    x, y = nd.ones((2,), ctx=mx.cpu()), nd.ones((2,), ctx=mx.gpu(0))
    f = mx.hybridize(lambda a, b: a + b)
    for call in (lambda: x + y, lambda: f(x, y), lambda: f(x, y)):
        with pytest.raises(DeviceError, match=r"cpu\(0\).*gpu\(0\)"):
            call()
    same(f(x, x), nd.full((2,), 2.0, ctx=mx.cpu()))
    g = mx.hybridize(lambda a: a + y)
    with pytest.raises(DeviceError):
        g(x)


def test_exception_while_tracing_leaves_the_block_usable() -> None:
    class Net(nn.HybridBlock):
        fail = True

        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Dense(2)

        def forward(self, x: Any) -> Any:
            y = self.fc(x)
            if self.fail:
                raise KeyError("mine")
            return y
    net = Net()
    net.initialize()
    net.hybridize()
    x = arr(2, 3)
    for _ in range(2):
        with pytest.raises(KeyError, match="mine"):
            net(x)
    assert isinstance(x + 1, NDArray)                       # no trace is left behind
    net.hybridize(False)
    net.fail = False
    want = net(x)
    net.hybridize()
    same(net(x), want)


def test_exception_while_tracing_a_change_in_place() -> None:
    state = {"fail": True}

    def f(x: Any) -> Any:
        x += 1
        if state["fail"]:
            raise ValueError("stop")
        return x * 2
    g = mx.hybridize(f)
    x = nd.ones((2,))
    with pytest.raises(ValueError, match="stop"):
        g(x)
    same(x, nd.full((2,), 2.0))                              # as in plain Python: the change came before the error
    state["fail"] = False
    same(g(x), nd.full((2,), 6.0))
    same(x, nd.full((2,), 3.0))


def test_threads_compile_once() -> None:
    def f(x: Any) -> Any:
        return (x * 3 + 1).sum()
    g = mx.hybridize(f)
    x = arr(50, 50)
    want = f(x)
    barrier = threading.Barrier(8)
    got: list[Any] = []

    def work() -> None:
        barrier.wait()
        for _ in range(20):
            got.append(g(x))
    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(g.cache_misses) == 1 and len(got) == 160
    for v in got:
        same(v, want, 1e-3)


def test_changed_attribute_retraces() -> None:
    class Net(nn.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.alpha = 1

        def forward(self, x: Any) -> Any:
            return x * self.alpha
    outer = nn.HybridSequential()
    net = Net()
    outer.add(net)
    for block in (net, outer):
        block.hybridize()
        x = nd.ones((2,))
        net.alpha = 1
        same(block(x), x)
        same(block(x), x)
        net.alpha = 2
        same(block(x), x * 2)
        assert "attributes" in block.cache_misses[-1]


def _line_of(text: str) -> int:
    return next(i for i, line in enumerate(Path(__file__).read_text().splitlines(), 1) if line.rstrip().endswith(text))


@pytest.mark.parametrize("as_block", [False, True])
def test_data_dependent_code_names_the_line(as_block: bool) -> None:
    def branch(x: Any) -> Any:
        if x.sum() > 0:  # mark-if
            return x
        return -x

    def numbers(x: Any) -> Any:
        return x * float(x.sum().asnumpy()[0])  # mark-asnumpy

    def scalar(x: Any) -> Any:
        return x * x.sum().asscalar()  # mark-asscalar

    def to_numpy(x: Any) -> Any:
        return x + onp.sin(onp.asarray(x))  # mark-numpy
    for fn, mark in ((branch, "# mark-" + "if"), (numbers, "# mark-" + "asnumpy"), (scalar, "# mark-" + "asscalar"),
                     (to_numpy, "# mark-" + "numpy")):
        if as_block:
            class Net(nn.HybridBlock):
                def forward(self, x: Any) -> Any:
                    return fn(x)
            target: Any = Net()
            target.hybridize()
        else:
            target = mx.hybridize(fn)
        with pytest.raises(TraceError) as err:
            target(nd.ones((2,)))
        assert f"{__file__}:{_line_of(mark)}" in str(err.value)
        target.hybridize(False)
        assert isinstance(target(nd.ones((2,))), NDArray)


# ---- surroundings
def _python(code: str, check: bool = True, **env: str) -> subprocess.CompletedProcess:
    full = {**os.environ, "PYTHONPATH": str(ROOT), **env}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env=full, capture_output=True, text=True,
                          timeout=120, check=False)
    assert not check or done.returncode == 0, done.stderr
    return done


PROGRAM = """
    import warnings
    import numpy as onp
    import hybrid as mx
    from hybrid import nd
    from hybrid.gluon import nn
    mx.random.seed(0)
    net = nn.HybridSequential()
    net.add(nn.Dense(8, activation='relu', in_units=4), nn.Dense(2, in_units=8))
    net.initialize(mx.init.One())
    x = nd.array(onp.arange(8.0).reshape(2, 4))
    want = net(x)
    net.hybridize()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter('always')
        for _ in range(3):
            got = net(x)
        other = mx.hybridize(lambda v: v * 3)(x)
    assert onp.allclose(got.asnumpy(), want.asnumpy()), (got, want)
    assert onp.allclose(other.asnumpy(), x.asnumpy() * 3)
    print(len([w for w in seen if issubclass(w.category, (RuntimeWarning, UserWarning))]))
"""


@pytest.mark.skipif(ON_GPU, reason="a matter of the CPU")
def test_no_compiler_warns_once(tmp_path: Path) -> None:
    assert _python(PROGRAM, HYBRID_CC="none", HYBRID_CACHE=str(tmp_path)).stdout.strip() == "1"


@pytest.mark.skipif(ON_GPU, reason="a matter of the CPU")
def test_unusable_cache_folder_warns_once(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert _python(PROGRAM, HYBRID_CACHE=str(blocked / "cache")).stdout.strip() == "1"
    if os.geteuid():
        tmp_path.chmod(0o500)
        assert _python(PROGRAM, HYBRID_CACHE=str(tmp_path / "cache")).stdout.strip() == "1"
        tmp_path.chmod(0o700)


@pytest.mark.skipif(ON_GPU, reason="a matter of the CPU")
def test_two_processes_fill_one_cache(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "HYBRID_CACHE": str(tmp_path / "cache")}
    started = [subprocess.Popen([sys.executable, "-c", textwrap.dedent(PROGRAM)], env=env, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)
               for _ in range(3)]
    for p in started:
        out, err = p.communicate(timeout=120)
        assert p.returncode == 0 and out.strip() == "0", err
    files = [f.name for f in (tmp_path / "cache").iterdir()]
    whole = [f for f in files if not f.startswith(".lock")]              # what processes wait for each other by
    assert whole and all(f.endswith((".so", ".c", ".txt", ".tidied")) for f in whole), files


WRONG_INPUTS = {"None": (None, "None as its data"), "list": ([1], "list of 1"), "tuple": ((1, 1), "tuple of 2"),
                "dict": ({"a": 1}, "dict of 1")}


@pytest.mark.parametrize(("given", "message"), WRONG_INPUTS.values(), ids=WRONG_INPUTS.keys())
def test_what_is_no_array(given: Any, message: str) -> None:
    x = nd.ones((2, 3))
    given = {"a": x} if isinstance(given, dict) else type(given)(x for _ in given) if given is not None else None
    net = nn.HybridSequential()
    net.add(nn.Dense(3))
    net.initialize()
    net.hybridize()
    with pytest.raises(mx.errors.AttributeValueError, match=message):
        net(given)
    assert net(x).shape == (2, 3)


def test_unknown_parameter_names_near_ones() -> None:
    net = nn.Dense(3, in_units=2, prefix="last_")
    with pytest.raises(KeyError, match="last_wieght.*nearest: last_weight"):
        net.collect_params()["last_wieght"]


# ---- what a beginner writes
BEGINNERS: list[tuple[str, Any, type[Exception], str]] = [
    ("a list", lambda x: x + [1, 2, 3], TypeError, r"\+ takes arrays and numbers, got .* and a list .*nd.array"),
    ("None", lambda x: x * None, TypeError, r"\* takes arrays and numbers, got .* and None; a function without return"),
    ("a text", lambda x: "2" - x, TypeError, r"- takes arrays and numbers, got .* and a str"),
    ("too many inputs", lambda x: LAYER(x, x), TypeError, "Dense takes 1 input, got 2"),
    ("no input", lambda x: LAYER(), TypeError, "Dense takes an array, and was called without one"),
    ("no such child", lambda x: nn.HybridSequential().add(nn.Dense), ValueError, r"the class Dense: make an instance"),
    ("a function as child", lambda x: nn.HybridSequential().add(lambda v: v), ValueError, "HybridLambda"),
]
LAYER = nn.Dense(2)
LAYER.initialize()


@pytest.mark.parametrize("name, fn, kind, text", BEGINNERS, ids=[name for name, *_ in BEGINNERS])
@pytest.mark.parametrize("how", [lambda f: f, mx.hybridize], ids=["eager", "hybridized"])
def test_errors_of_beginners(name: str, fn: Any, kind: type[Exception], text: str, how: Any) -> None:
    with pytest.raises(kind, match=rf"test_hybridize_errors.py:\d+: .*{text}"):
        how(fn)(nd.ones((2, 3)))


@pytest.mark.parametrize("fn, kind, text", [
    (lambda x: nd.where(x), mx.base.MXNetError, "operator where needs the input 'x', which was not given"),
    (lambda x: x.softmaxx(), AttributeError, "an array has no attribute 'softmaxx'"),
    (lambda x: f"{x:.2f}", TypeError, "the format '.2f' needs the value"),
    (lambda x: nn.Dense(2)(x), mx.base.MXNetError, "Parameter .* has not been initialized: call net.initialize"),
], ids=["where", "attribute", "format", "initialize"])
def test_errors_of_beginners_in_compiled_code(fn: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=rf"test_hybridize_errors.py:\d+: .*{text}"):
        mx.hybridize(fn)(nd.ones((2, 3)))


def test_a_traced_value_says_what_it_is_and_how_to_see_it(capsys):
    @mx.hybridize
    def f(x):
        print(x * 2)
        return x
    f(nd.ones((2, 3)))
    assert re.fullmatch(r"<Symbol \w+> float32 \(2, 3\): traced; hybrid\.debug\.print\(x\) shows its values at each "
                        r"call\n", capsys.readouterr().out)


def test_a_loop_over_a_computed_range_points_to_loops():
    @mx.hybridize
    def f(x):
        for _ in range(x.sum()):
            x = x + 1
        return x
    with pytest.raises(mx.HybridError, match=r"range\(\) needs the value of an array \(sum\d+, float32 of shape "
                                             r"\(1,\)\).*while_loop.*foreach"):
        f(nd.ones((2,)))
