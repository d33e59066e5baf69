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


def exported(net: Any, data: np.ndarray, folder: Path, traced: bool = False,
             **more: Any) -> tuple[str, list[np.ndarray]]:
    """The path of the ONNX file of a network with one input, and the network's own results. traced: by the files of
    ``net.export``."""
    if traced:
        net.hybridize()
    out = net(mx.nd.array(data, dtype=data.dtype))
    if traced:
        net.export(str(folder / "net"))
        symbol, params = str(folder / "net-symbol.json"), str(folder / "net-0000.params")
    else:
        symbol, params = net(mx.sym.var("data")), {p.name: p.data() for p in net.collect_params().values()}
    path = mx.onnx.export_model(symbol, params, [data.shape], [data.dtype], str(folder / "net.onnx"), **more)
    return path, [x.asnumpy() for x in (out if isinstance(out, (list, tuple)) else [out])]


def close(found: Sequence[Any], wanted: Sequence[Any], tolerance: float = 1e-4) -> None:
    """The same shapes, dtypes and numbers."""
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted):
        a, b = (np.asarray(x.asnumpy() if hasattr(x, "asnumpy") else x) for x in (a, b))
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=tolerance,
                                   atol=tolerance * max(1.0, float(np.abs(np.nan_to_num(b)).max(initial=0))))
