"""The training examples learn, print what they say and save their images."""
from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ..paths import ROOT

EXAMPLES = ROOT / "examples"
DRAWS = importlib.util.find_spec("matplotlib") is not None


def example(name: str, folder: Path, *args: str) -> str:
    """What an example prints, run in another folder."""
    env = {"HYBRID_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **os.environ}                # tests run side by side
    done = subprocess.run([sys.executable, str(EXAMPLES / f"{name}.py"), *args], cwd=folder, env=env,
                          capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr, done.stderr
    return done.stdout


def number(text: str, name: str) -> float:
    found = re.search(rf"^ +{name} +(-?[\d.]+(?:e-?\d+)?)", text, re.M)
    assert found, f"no row {name!r} in\n{text}"
    return float(found[1])


def check_picture(text: str, path: Path) -> None:
    if not DRAWS:
        assert "matplotlib is not installed" in text
        return
    assert str(path.name) in text
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" and path.stat().st_size > 5000


def test_train_digits_reaches_the_accuracy_and_the_eager_losses(tmp_path: Path) -> None:
    text = example("train_digits", tmp_path)
    assert number(text, "largest difference of the losses") < 1e-4
    assert number(text, "test accuracy") >= 0.93
    epochs = [(int(m[1]), float(m[2]), float(m[3]))
              for m in re.finditer(r"^ +(\d+) +(\d\.\d+) +(\d\.\d+)$", text, re.M)]
    assert epochs[0][0] == 1 and epochs[-1][0] == 25
    assert epochs[-1][1] < 0.05 < epochs[0][1] and epochs[0][2] < epochs[-1][2]
    right, every = (list(map(int, re.findall(r"\d+", line)))
                    for line in (re.search(r"right.*", text)[0],
                                 re.search(r" of  .*", text)[0]))   # type: ignore[index]
    assert len(right) == 11 and sum(right[:10]) == right[10] and every[10] == sum(every[:10]) == 360
    assert right[10] / 360 == pytest.approx(number(text, "test accuracy"), abs=1e-4)
    check_picture(text, tmp_path / "out" / "train_digits.png")


def test_train_step_gives_the_same_three_ways(tmp_path: Path) -> None:
    text = example("train_step", tmp_path, "--epochs", "1", "--optimizer", "sgd", "--lr", "0.1")
    assert number(text, "largest difference of the losses") < 1e-5
    assert number(text, "largest difference of a weight") < 1e-5
    assert "gradients, eager                  written: 802816 bytes" in text
    assert "gradients, one program            not written" in text
    before, after = map(int, re.findall(r"\d+", re.search(r"kernels of the one program +(.*)",
                                                          text)[1]))            # type: ignore[index]
    assert after < before


@pytest.mark.thorough
def test_tabular_comes_near_the_noise(tmp_path: Path) -> None:
    text = example("tabular", tmp_path, "--epochs", "25")
    line = number(text, "linear least squares")
    net = number(text, "network, after 25 epochs")
    assert number(text, "noise: the least possible") == 1.0 < net < 1.3 < line < number(text, "mean of the rows seen")
    order = re.findall(r"^ +(x\d) ", text, re.M)
    assert set(order[:5]) == {"x0", "x1", "x2", "x3", "x4"} and len(order) == 10
    check_picture(text, tmp_path / "out" / "tabular.png")


def test_tabular_reads_a_table(tmp_path: Path) -> None:
    lines = ["a,b,told", *(f"{i % 7},{i % 5},{2 * (i % 7) - 3 * (i % 5)}" for i in range(200))]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    text = example("tabular", tmp_path, "--csv", "t.csv", "--epochs", "20", "--batch", "10", "--wd", "0")
    assert number(text, "network, after 20 epochs") < 0.5
    (tmp_path / "bad.csv").write_text("a,b\n1,x\n")
    done = subprocess.run([sys.executable, str(EXAMPLES / "tabular.py"), "--csv", "bad.csv"], cwd=tmp_path,
                          capture_output=True, text=True)
    assert done.returncode == 1 and "numbers alone" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.thorough
def test_denoise_takes_noise_off(tmp_path: Path) -> None:
    text = example("denoise", tmp_path, "--epochs", "6")
    assert number(text, "network") < 0.75 * min(number(text, "noisy"), number(text, "smoothed"))
    check_picture(text, tmp_path / "out" / "denoise.png")


@pytest.mark.thorough
def test_char_lm_learns_and_writes(tmp_path: Path) -> None:
    text = example("char_lm", tmp_path, "--epochs", "24", "--units", "32", "--layers", "1")
    rows = [(int(m[1]), float(m[2]), float(m[3])) for m in re.finditer(r"^ +(\d+) +(\d\.\d{3}) +(\d\.\d{3})  Shall I ",
                                                                       text, re.M)]
    assert rows[0][0] == 1 and rows[-1][0] == 24
    assert rows[-1][1] < 2.4 < rows[0][1] and rows[-1][2] < rows[0][2]
    written = "\n".join(re.findall(r"^  \| (.*)$", text, re.M))
    assert written.startswith("Shall I ") and len(written) > 200


@pytest.mark.parametrize("name", ["train_digits", "train_step", "tabular", "denoise", "char_lm"])
def test_help(name: str, tmp_path: Path) -> None:
    assert "--epochs" in example(name, tmp_path, "--help")


def test_short_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("To be or not to be")
    done = subprocess.run([sys.executable, str(EXAMPLES / "char_lm.py"), "--text", "t.txt"], cwd=tmp_path,
                          capture_output=True, text=True)
    assert done.returncode == 1 and "too few for --length" in done.stderr and "Traceback" not in done.stderr
