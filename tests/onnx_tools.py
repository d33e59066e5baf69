"""Running ONNX files by ONNX Runtime, and writing them from networks."""
from __future__ import annotations

from pathlib import Path
from typing import Any, Sequence

import numpy as np

import hybrid as mx


def run(path: Any, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Results of a model on one thread."""
    import onnxruntime  # noqa: PLC0415
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, {i.name: x for i, x in zip(session.get_inputs(), inputs)})


def exported(net: Any, inputs: Sequence[np.ndarray], folder: Path, **more: Any) -> tuple[str, list[np.ndarray]]:
    """The path of a network's ONNX file, and the network's own results. The network is hybridized."""
    net.hybridize()
    out = net(*(mx.nd.array(x, dtype=x.dtype) for x in inputs))
    net.export(str(folder / "net"))
    path = mx.onnx.export_model(str(folder / "net-symbol.json"), str(folder / "net-0000.params"), [x.shape for x in inputs], [x.dtype for x in inputs],
                                str(folder / "net.onnx"), **more)
    return path, [x.asnumpy() for x in (out if isinstance(out, (list, tuple)) else [out])]


def close(found: Sequence[Any], wanted: Sequence[Any], tolerance: float = 1e-4) -> None:
    """The same shapes, dtypes and numbers."""
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted):
        a, b = (np.asarray(x.asnumpy() if hasattr(x, "asnumpy") else x) for x in (a, b))
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=tolerance, atol=tolerance * max(1.0, float(np.abs(np.nan_to_num(b)).max(initial=0))))
