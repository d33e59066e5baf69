"""benchmarks/gpu_peers.py where none of the other libraries is installed: what is called in which order, and what a
failure becomes. The modules here record calls; they compute nothing."""
from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ..paths import ROOT

pytest.importorskip("onnx")
BESIDE = ("gpu_peers", "gpu_tensorrt", "gpu_networks", "gpu_timing", "onnx_models", "symbols", "nets")


class Recorder:
    """An object of which every call is noted as ``name.method``; results are those given, or further recorders."""

    def __init__(self, calls: list[str], name: str, **results: Any):
        self._calls, self._name, self._results = calls, name, results

    def __getattr__(self, method: str) -> Any:
        result = self._results.get(method)
        if result is not None and not callable(result):
            return result

        def call(*args: Any) -> Any:
            self._calls.append(f"{self._name}.{method}")
            return result(*args) if result else None
        return call

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *error: object) -> None:
        pass


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The calls of modules that record what is asked of TensorRT and CuPy: of engines with an input and an output."""
    noted: list[str] = []
    addresses: dict[str, int] = {}
    context = Recorder(noted, "context", execute_async_v3=lambda stream: stream == 7 and len(addresses) == 2,
                       set_tensor_address=addresses.__setitem__)
    engine = Recorder(noted, "engine", num_io_tensors=2, get_tensor_name=lambda i: ("x0", "y")[i],
                      get_tensor_shape=lambda name: {"x0": (1, 512), "y": (1, 2)}[name],
                      get_tensor_dtype=lambda name: SimpleNamespace(itemsize=4),
                      create_execution_context=lambda: context)
    builder = Recorder(noted, "builder", create_network=lambda flags: flags,
                       build_serialized_network=lambda network, config: b"plan",
                       create_builder_config=lambda: Recorder(noted, "config"))
    parser = Recorder(noted, "parser", parse=lambda model: model[:1] == b"\x08", num_errors=1,
                      get_error=lambda i: "it is no model")
    recorder = SimpleNamespace(
        Logger=type("Logger", (), {"ERROR": 1, "__init__": lambda self, level: None}), Builder=lambda logger: builder,
        OnnxParser=lambda network, logger: parser, BuilderFlag=SimpleNamespace(TF32=1),
        NetworkDefinitionCreationFlag=SimpleNamespace(STRONGLY_TYPED=0),
        Runtime=lambda logger: Recorder(noted, "runtime", deserialize_cuda_engine=lambda plan: engine))
    graph = Recorder(noted, "graph")
    stream = Recorder(noted, "stream", ptr=7, end_capture=lambda: graph)

    def empty(n: int, dtype: str) -> Any:
        return Recorder(noted, "array", data=SimpleNamespace(ptr=n), set=lambda given: given.nbytes == n or 1 / 0)
    cupy = SimpleNamespace(empty=empty, cuda=SimpleNamespace(Stream=lambda non_blocking: stream),
                           get_default_memory_pool=lambda: SimpleNamespace(free_all_blocks=int, total_bytes=int))
    for setting in ("HYBRID_COMPILE", "XLA_PYTHON_CLIENT_PREALLOCATE"):               # which benchmarks set, taken back
        monkeypatch.setenv(setting, os.environ.get(setting, "now"))
    before = {name: sys.modules.pop(name) for name in BESIDE if name in sys.modules}
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.setitem(sys.modules, "tensorrt", recorder)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    yield noted
    for name in BESIDE:
        sys.modules.pop(name, None)
    sys.modules.update(before)


def test_the_order_of_calls_of_tensorrt(calls: list[str]) -> None:
    import gpu_peers  # noqa: PLC0415  beside the benchmarks
    import gpu_timing  # noqa: PLC0415
    one, as_graph = gpu_peers.tensorrt_work("cuda", True)[:2]
    row = gpu_timing.measure(one.program, one.by, one.make, one.wait, True)
    assert (row.program, row.by, row.error) == ("MLP, batch 1", "TensorRT", "")
    built = ["builder.create_network", "parser.parse", "builder.create_builder_config", "config.clear_flag",
             "builder.build_serialized_network", "runtime.deserialize_cuda_engine", "engine.create_execution_context"]
    assert calls[:len(built)] == built
    sets, run = "context.set_tensor_address", "context.execute_async_v3"
    assert calls.count(sets) == 2 and calls.count("array.set") == 1 and calls.count(run) == 5
    start = calls.index(run)
    assert sets not in calls[start:] and calls[start - 1] == "stream.synchronize"     # what is copied has arrived
    assert calls[start:] == [run, run, "stream.synchronize", run, "stream.synchronize", run, run, "stream.synchronize"]
    calls.clear()
    assert not gpu_timing.measure(as_graph.program, as_graph.by, as_graph.make, as_graph.wait, True).error
    assert calls[:6] == [run, "stream.synchronize", "stream.begin_capture", run, "stream.end_capture", "graph.launch"]
    assert "builder.create_network" not in calls                                      # the engine is there already


def test_a_model_that_cannot_be_read(calls: list[str]) -> None:
    import gpu_tensorrt  # noqa: PLC0415  beside the benchmarks
    with pytest.raises(RuntimeError, match="it is no model"):
        gpu_tensorrt.engine(b"no model")


def test_what_fails_is_a_row(calls: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
                             capsys: pytest.CaptureFixture[str]) -> None:
    import gpu_peers  # noqa: PLC0415  beside the benchmarks

    def absent(device: str, quick: bool) -> Any:
        raise ImportError("there is no such package")

    def broken(device: str, quick: bool) -> Any:
        raise RuntimeError("it sees no GPU")

    def works(device: str, quick: bool) -> Any:
        return [gpu_peers.Work("slow", f"torch.compile, {gpu_peers.AUTOTUNE}", lambda: int, int),
                gpu_peers.Work("wrong", "a library", lambda: 1 / 0, int),
                gpu_peers.Work("right", "it", lambda: int, int)]
    monkeypatch.setattr(gpu_peers, "LIBRARIES", {"A": absent, "B": broken, "C": works})
    monkeypatch.setattr(gpu_peers.gpu_timing, "gpu_name", lambda: "none")
    report = tmp_path / "report.md"
    for seconds, last in (("100", None), ("0", "left out after 0 s")):
        monkeypatch.setattr(sys, "argv", ["gpu_peers.py", "--quick", "--seconds", seconds, "--out", str(report)])
        gpu_peers.main()
        table = [line for line in report.read_text().splitlines() if line.startswith("| ")][1:]
        assert [line.split(" | ")[0] for line in table] == ["| all", "| wrong", "| right", "| slow"]
        assert "it sees no GPU" in table[0] and (last or "ZeroDivisionError") in table[1]
        assert (last or "| slow") in table[3]
    assert "A is left out: there is no such package" in capsys.readouterr().out
