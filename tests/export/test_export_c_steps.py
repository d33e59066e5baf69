"""Training steps as C, and model files as C from the command line."""
from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import nd
from hybrid.export import _flags, export_c, load_weights
from hybrid.export.__main__ import main
from hybrid.gluon import nn

from ..c_tools import build, run_example

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")


def learner(optimizer: str, **options: Any) -> tuple[Any, Any, Any]:
    """A small network, its Trainer and its training step."""
    mx.random.seed(7)
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(16, activation="relu", in_units=6), nn.BatchNorm(in_channels=16), nn.Dropout(0.3),
                nn.Dense(4, in_units=16))
    net.initialize(mx.init.Xavier())
    trainer = mx.gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": 0.05, **options})
    loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()

    def step(x: Any, y: Any) -> Any:
        with mx.autograd.record():
            loss = loss_of(net(x), y)
        loss.backward()
        trainer.step(x.shape[0])
        return loss
    return net, trainer, step


@pytest.mark.parametrize("optimizer, options", [("sgd", {"momentum": 0.9, "wd": 0.01}), ("adam", {})])
def test_training_steps_give_the_same_bits(tmp_path: Path, optimizer: str, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(2)
    x, y = nd.array(rng.normal(size=(8, 6))), nd.array(rng.integers(0, 4, 8))
    net, trainer, step = learner(optimizer, **options)
    mx.random.seed(5)
    export_c(step, tmp_path, x, y, name="learner")
    compiled = mx.hybridize(step)
    mx.random.seed(5)                                    # as the model begins
    losses = [compiled(x, y).asnumpy() for _ in range(9)]
    assert "int learner_step(learner_model *model, const float *x, const float *y, double rate, float *output);" in (
        tmp_path / "learner.h").read_text()
    build(tmp_path, "learner.c", "example.c", flags=tuple(_flags().split()))
    x.asnumpy().tofile(tmp_path / "x.bin")
    y.asnumpy().tofile(tmp_path / "y.bin")
    done = subprocess.run(["./example", "learner.weights", "1", "6", "0.05", "six.weights", "x.bin", "y.bin"],
                          cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 6, done
    assert np.array_equal(np.array(done.stdout.split()[-8:], np.float32), losses[5])
    done = subprocess.run(["./example", "six.weights", "1", "3", "0.05", "nine.weights", "x.bin", "y.bin"],
                          cwd=tmp_path, capture_output=True, text=True)
    learned = load_weights(tmp_path / "nine.weights")
    for p in net.collect_params().values():
        assert np.array_equal(p.data().asnumpy(), learned[p.name]), p.name
    other, other_trainer, other_step = learner(optimizer, **options)
    drawn = load_weights(tmp_path / "six.weights", other_trainer)["hybrid.random"]
    mx.random.set_state(tuple(map(int, drawn)))
    compiled = mx.hybridize(other_step)
    assert np.array_equal(compiled(x, y).asnumpy(), losses[6])           # states and counts are there too


def test_steps_that_skip_zeros_are_built_without_warnings(tmp_path: Path) -> None:
    """Gradients behind relu are often zero: their products have kernels of their own."""
    net = nn.HybridSequential()
    net.add(nn.Dense(84, activation="relu", in_units=400), nn.Dense(10, in_units=84))
    net.initialize(mx.init.Xavier())
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"momentum": 0.9})
    x, y = nd.random.normal(shape=(32, 400)), nd.arange(32) % 10
    loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()

    def step(data: Any, label: Any) -> Any:
        with mx.autograd.record():
            loss = loss_of(net(data), label).mean()
        loss.backward()
        trainer.step(1)
        return loss
    export_c(step, tmp_path, x, y, name="learner")
    assert "if (!hy_sparse(" in (tmp_path / "learner.c").read_text()
    build(tmp_path, "learner.c", "example.c", flags=tuple(_flags().split()))
    x.asnumpy().tofile(tmp_path / "x.bin")
    y.asnumpy().tofile(tmp_path / "y.bin")
    done = subprocess.run(["./example", "learner.weights", "2", "5", "0.01", "new.weights", "x.bin", "y.bin"],
                          cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done
    compiled = mx.hybridize(step)
    for _ in range(5):
        compiled(x, y)
    learned = load_weights(tmp_path / "new.weights")
    for p in net.collect_params().values():
        np.testing.assert_allclose(p.data().asnumpy(), learned[p.name], rtol=1e-5, atol=1e-6)


def test_steps_that_need_python_are_refused(tmp_path: Path) -> None:
    x, y = nd.ones((8, 6)), nd.zeros((8,))
    *_, step = learner("nadam")
    with pytest.raises(mx.errors.HybridError, match="Nadam cannot be exported to C"):
        export_c(step, tmp_path, x, y, name="model")
    with pytest.raises(mx.errors.HybridError, match="draws random numbers"):
        export_c(lambda a: nd.random.normal(shape=(3,)) + a.sum(), tmp_path, x, name="model")


def test_the_command_line_takes_model_files(tmp_path: Path) -> None:
    net = nn.HybridSequential()
    net.add(nn.Dense(5, activation="relu"), nn.BatchNorm(), nn.Dense(3))
    net.initialize()
    net.hybridize()
    x = nd.array(np.linspace(-2, 2, 8, dtype=np.float32).reshape(2, 4))
    wanted = net(x).asnumpy()
    net.export(str(tmp_path / "m"))
    symbol, params = str(tmp_path / "m-symbol.json"), str(tmp_path / "m-0000.params")
    ways = {"plain": [symbol, params, "--shape", "data=2,4"]}
    if importlib.util.find_spec("safetensors"):
        nd.save(str(tmp_path / "m.safetensors"), nd.load(params))
        ways["safe"] = [symbol, str(tmp_path / "m.safetensors"), "--shape", "data=2,4"]
    if importlib.util.find_spec("onnx"):
        mx.contrib.onnx.export_model(symbol, params, [(2, 4)], "float32", str(tmp_path / "m.onnx"))
        ways["onnx_file"] = [str(tmp_path / "m.onnx")]
    for name, given in ways.items():
        assert main([*given, "-o", str(tmp_path / name)]) == 0
        build(tmp_path / name, f"{name}.c", "example.c", flags=("-O1", "-march=native"))
        (got,) = run_example(tmp_path / name, name, [x], [wanted])
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("given, said", [
    (["--shape", "dat=2,4"], "has no input 'dat'"), ([], "--shape data="), (["--shape", "data=-1,4"], "whole numbers"),
    (["--shape", "data"], "INPUT=VALUE")])
def test_the_command_line_says_what_is_wrong(tmp_path: Path, given: list[str], said: str,
                                             capsys: pytest.CaptureFixture[str]) -> None:
    net = nn.Dense(3, in_units=4)
    net.initialize()
    net(nd.ones((1, 4)))
    net.export(str(tmp_path / "m"))
    files = [str(tmp_path / "m-symbol.json"), str(tmp_path / "m-0000.params")]
    assert main([*files, *given, "-o", str(tmp_path / "c")]) == 1
    assert said in capsys.readouterr().err


def test_a_model_that_is_not_there_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none.json"), "-o", str(tmp_path / "c")]) == 1
    assert "there is no file" in capsys.readouterr().err
