"""Exported models from other languages: the written example programs give Python's numbers, and the library's words
where something is wrong."""
from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import pytest

import hybrid as mx
from hybrid import nd
from hybrid.export import export_c
from hybrid.export.__main__ import main
from hybrid.export.bindings import LANGUAGES
from hybrid.gluon import nn

from ..gluon import golden_models
from ..c_tools import exported

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None or shutil.which("make") is None, reason="needs gcc, make")
TOOLS = {"cpp": ("g++",), "rust": ("rustc",), "go": ("go",), "java": ("javac",), "scala": ("javac", "scalac"),
         "r": ("Rscript",), "perl": ("perl",), "python": ("python3",), "csharp": ("mcs", "mono")}
UNTESTED = {"julia"}                                 # which is no part of Debian
ELSEWHERE = {"javascript"}                           # test_browser.py, in Node.js and in a browser


def needs(language: str) -> None:
    """Skip where a language's tools are missing."""
    for tool in TOOLS[language]:
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool}")
    if language == "perl" and subprocess.run(["perl", "-MFFI::Platypus", "-e", "1"], capture_output=True).returncode:
        pytest.skip("needs FFI::Platypus (Debian: libffi-platypus-perl)")


def run(folder: Path, language: str, *arguments: Any) -> subprocess.CompletedProcess[str]:
    """What the example of a language gives for a weights file, threads, and files of inputs and outputs."""
    given = " ".join(map(str, arguments))
    return subprocess.run(["make", "-s", "-C", str(folder / language), "run", f"ARGS={given}"], capture_output=True,
                          text=True, timeout=280)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A small network and a function of several arrays, exported for all languages."""
    where = tmp_path_factory.mktemp("bindings")
    net = nn.HybridSequential()
    net.add(nn.Dense(16, activation="tanh", in_units=8), nn.Dense(3, in_units=16))
    x = nd.array(np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8))
    (wanted,) = exported(net, where / "mlp", "mlp", x)
    net.export_c(where / "mlp", x, bindings=tuple(LANGUAGES))
    x.asnumpy().tofile(where / "x.bin")
    wanted.tofile(where / "wanted.bin")
    np.zeros(3, np.float32).tofile(where / "short.bin")

    def kinds(data: Any, type: Any, model: Any) -> Any:
        return data * 2, type + 1, (model > 0).astype("bool"), model.astype("float16"), type.astype("int64") * 2 ** 40
    export_c(kinds, where / "kinds", x, ((3,), "int32"), ((2, 2), "float64"), bindings=tuple(LANGUAGES))
    yield where


@pytest.mark.parametrize("language", sorted(TOOLS))
def test_a_network_gives_the_same_bits(folder: Path, language: str) -> None:
    needs(language)
    for threads in (1, 2):
        done = run(folder / "mlp", language, "../mlp.weights", threads, folder / "x.bin", folder / f"{language}.bin")
        assert done.returncode == 0, done
        assert (folder / f"{language}.bin").read_bytes() == (folder / "wanted.bin").read_bytes()
    assert done.stdout.startswith("output: ") and len(done.stdout.split()) == 7
    first = np.fromfile(folder / "wanted.bin", np.float32)[0]
    np.testing.assert_allclose(float(done.stdout.split()[1]), first, rtol=1e-4)


@pytest.mark.parametrize("language", sorted(TOOLS))
def test_what_is_wrong_is_said(folder: Path, language: str) -> None:
    needs(language)
    for arguments, said in ((["none"], r"none: the file cannot be opened"),
                            (["../mlp.weights", 0], r"mlp_set_threads: .*a number out of its range"),
                            (["../../kinds/kinds.weights"], r"kinds.weights: .*another model"),
                            (["../mlp.weights", 1, folder / "short.bin"], r"data has 16 elements, got 3\b")):
        done = run(folder / "mlp", language, *arguments)
        assert done.returncode != 0 and re.search(said, done.stderr), (arguments, done)


@pytest.mark.parametrize("language", sorted(TOOLS))
def test_several_arrays_of_many_types(folder: Path, language: str) -> None:
    """Inputs and outputs whose names are words of the languages."""
    needs(language)
    given = np.linspace(-1, 1, 16, dtype=np.float32), np.array([5, -7, 9], np.int32), np.array([[1, 0], [-2, 3e-3]])
    wanted = [given[0] * 2, given[1] + 1, given[2] > 0, given[2].astype(np.float16), given[1].astype(np.int64) << 40]
    for i, a in enumerate(given):
        a.tofile(folder / f"in{i}.bin")
    results = [folder / f"{language}{i}.bin" for i in range(len(wanted))]
    done = run(folder / "kinds", language, "../kinds.weights", 1, *(folder / f"in{i}.bin" for i in range(3)), *results)
    assert done.returncode == 0, done
    for path, a in zip(results, wanted):
        assert path.read_bytes() == a.tobytes(), (path, done.stdout)


def test_the_wheel_needs_no_package(folder: Path, tmp_path: Path) -> None:
    """The wheel for Python, installed where there is no other package; lists, buffers and what it refuses."""
    subprocess.run(["make", "-s", "-C", str(folder / "mlp" / "python"), "wheel"], check=True, timeout=280)
    (wheel,) = (folder / "mlp" / "python").glob("*.whl")
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", str(tmp_path),
                    str(wheel)], check=True, timeout=280)
    code = f"""
import array, sys
sys.path.insert(0, {str(tmp_path)!r})
from mlp import INPUTS, OUTPUTS, Model
model = Model()
x = array.array("f", open({str(folder / "x.bin")!r}, "rb").read())
wanted = open({str(folder / "wanted.bin")!r}, "rb").read()
y = model.run(x)
assert y.shape == OUTPUTS[0].shape == (2, 3) and y.tobytes() == wanted and y[1, 2] == y.tolist()[1][2]
assert model.run([x.tolist()[:8], x.tolist()[8:]]).tobytes() == wanted
for bad in (array.array("d", x), [1.0], [[1.0] * 2] * 8, [[1.0], [2.0, 3.0]]):
    try:
        model.run(bad)
    except (TypeError, ValueError) as err:
        print(err)
"""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "data is of float32, got elements of the code 'd'", "data has 16 elements, got 1",
        "data has shape (2, 8), got (8, 2)", "lists of different lengths are no array"]


@pytest.mark.thorough
@pytest.mark.parametrize("language", sorted(TOOLS))
def test_a_lenet_reads_the_digits(tmp_path: Path, language: str) -> None:
    needs(language)
    _, pixels, labels, logits = golden_models.lenet(mx.cpu())
    files = [str(golden_models.DATA / f"lenet_digits{end}") for end in ("-symbol.json", "-0025.params")]
    assert main([*files, "--shape", "data=360,1,28,28", "-o", str(tmp_path), "--name", "lenet", "--bindings",
                 language]) == 0
    pixels.asnumpy().tofile(tmp_path / "pixels.bin")
    done = run(tmp_path, language, "../lenet.weights", 2, tmp_path / "pixels.bin", tmp_path / "logits.bin")
    assert done.returncode == 0, done
    got = np.fromfile(tmp_path / "logits.bin", np.float32).reshape(360, 10)
    assert int((got.argmax(1) == labels).sum()) == 338
    np.testing.assert_allclose(got, logits, atol=1e-4)


def test_every_language_is_tested_or_said_not_to_be() -> None:
    assert set(LANGUAGES) == set(TOOLS) | (UNTESTED | ELSEWHERE) & set(LANGUAGES)


def test_what_cannot_be_bound_is_refused(tmp_path: Path) -> None:
    net = nn.Dense(3, in_units=2)
    net.initialize()
    for wanted, name, said in ((("cobol",), "net", "there are bindings for .*not for 'cobol'"),
                               ("rust", "net", "a tuple of languages"),
                               (("go",), "func", "word of one of the languages.*func_net")):
        with pytest.raises(ValueError, match=said):
            net.export_c(tmp_path, (1, 2), name=name, bindings=wanted)
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd")

    def step(x: Any) -> Any:
        with mx.autograd.record():
            loss = net(x).sum()
        loss.backward()
        trainer.step(1)
        return loss
    with pytest.raises(mx.errors.HybridError, match="training steps: export it without bindings"):
        export_c(step, tmp_path, (1, 2), name="learner", bindings=("cpp",))
    assert not any(tmp_path.iterdir())
