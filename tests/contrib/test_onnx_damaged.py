"""Damaged ONNX files are run or refused; ``python -m tests.fuzz.onnx_files`` tries thousands."""
from __future__ import annotations

from pathlib import Path

import pytest

import hybrid as mx
from hybrid.base.errors import FileFormatError

onnx = pytest.importorskip("onnx")


def test_damaged_files_are_run_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from ..fuzz.onnx_files import Corpus, failures
    monkeypatch.setenv("HYBRID_CC", "none")                # thousands of small programs are not compiled
    assert not failures(range(20), Corpus())


@pytest.mark.parametrize("seed", [3021, 3730, 4808, 9958])
def test_networks_that_lost_all_their_inputs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from ..fuzz.onnx_files import Corpus, failures
    monkeypatch.setenv("HYBRID_CC", "none")
    assert not failures(range(seed, seed + 1), Corpus())


@pytest.mark.parametrize("name", [b"second", b"middle", b"graphs"])
def test_names_that_are_no_text(name: bytes, tmp_path: Path) -> None:
    node = onnx.helper.make_node
    nodes = [node("Relu", ["x"], ["middle"], "second"), node("Exp", ["middle"], ["y"])]
    x, y = (onnx.helper.make_tensor_value_info(k, 1, [2]) for k in "xy")
    data = onnx.helper.make_model(onnx.helper.make_graph(nodes, "graphs", [x], [y])).SerializeToString()
    (tmp_path / "m.onnx").write_bytes(data.replace(name, b"\xc0" + name[1:]))
    with pytest.raises(FileFormatError, match="no text in UTF-8"):
        mx.contrib.onnx.import_to_gluon(tmp_path / "m.onnx")


@pytest.mark.thorough
@pytest.mark.parametrize("networks", [False, True], ids=["nodes", "networks"])
def test_ten_thousand_damaged_files(networks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from ..fuzz.onnx_files import Corpus, failures
    monkeypatch.setenv("HYBRID_CC", "none")
    assert not failures(range(10000), Corpus(networks))


def test_what_is_neither_run_nor_refused_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    import os
    import signal

    from ..fuzz import onnx_files

    def trial(seed: int, *_: object) -> str:
        if seed == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return "seed 1: raised" if seed == 1 else ""
    monkeypatch.setattr(onnx_files, "trial", trial)
    died, raised = onnx_files.failures(range(5), onnx_files.Corpus())
    assert "seed 3: the process ended with signal 9" in died and raised == "seed 1: raised"
