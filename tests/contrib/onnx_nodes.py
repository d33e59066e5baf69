"""The node tests of the ``onnx`` package, run through ``import_to_gluon``: which pass, and why the others do not.

    python tests/contrib/onnx_nodes.py [part of a name] [--write]

``--write`` records the failing ones in tests/data/onnx_nodes_failing.txt.
"""
from __future__ import annotations

import os
import signal
import sys
import tempfile
import warnings
from collections import Counter
from typing import Any

import numpy as np

from ..paths import DATA

RECORD = DATA / "onnx_nodes_failing.txt"
SECONDS = 20


def cases() -> list[Any]:
    """All node tests, without those that repeat a name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases
        found = {c.name: c for c in collect_testcases(None)}           # type: ignore[arg-type]
    return [found[name] for name in sorted(found)]


def recorded() -> dict[str, str]:
    """The tests that are known to fail, with the reason."""
    rows = (line.split("\t", 1) for line in RECORD.read_text().splitlines() if line)
    return {name: reason for name, reason in rows}


def _late(*_: Any) -> None:
    raise TimeoutError(f"longer than {SECONDS} seconds")


def _plain(value: Any) -> Any:
    return value.asnumpy() if hasattr(value, "asnumpy") else value


def _proto(value: Any) -> Any:
    """What a test holds as messages, as arrays and lists."""
    from onnx import OptionalProto, SequenceProto, TensorProto, numpy_helper
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, SequenceProto):
        return numpy_helper.to_list(value)
    if isinstance(value, OptionalProto):
        return numpy_helper.to_optional(value)
    return value


def _compare(case: Any, found: Any, wanted: Any) -> None:
    if wanted is None:
        assert found is None, "a value where none was expected"
    elif isinstance(wanted, (list, tuple)):
        assert isinstance(found, (list, tuple)) and len(found) == len(wanted), "another sequence"
        for a, b in zip(found, wanted):
            _compare(case, _plain(a), b)
    else:
        found, wanted = np.asarray(found), np.asarray(wanted)
        assert found.shape == wanted.shape, f"shape {found.shape}, expected {wanted.shape}"
        if wanted.dtype.kind in "OUS":
            assert found.astype(str).tolist() == wanted.astype(str).tolist(), "other strings"
            return
        assert found.dtype == wanted.dtype, f"dtype {found.dtype}, expected {wanted.dtype}"
        close = {"float16": 4e-3, "bfloat16": 3e-2}.get(wanted.dtype.name, 1e-3)      # four units in the last place
        if wanted.dtype.kind == "V" or wanted.dtype.name.startswith(("bfloat", "float8", "float4", "int4", "uint4",
                                                                     "int2", "uint2")):
            found, wanted = found.astype(np.float32), wanted.astype(np.float32)
        np.testing.assert_allclose(found, wanted, rtol=max(case.rtol or 0, close),
                                   atol=max(case.atol or 0, close / 100))


def _given(value: Any) -> Any:
    import hybrid as mx
    if not isinstance(value, np.ndarray):
        return value
    try:
        return mx.nd.array(value, dtype=value.dtype)
    except (mx.MXNetError, TypeError, ValueError):         # an array of strings, or of a dtype of ONNX alone
        return value


def run(case: Any, folder: str) -> str:
    """'' where a test passes, else the reason."""
    import onnx
    import hybrid as mx
    path = os.path.join(folder, "node.onnx")
    signal.signal(signal.SIGALRM, _late)
    signal.alarm(SECONDS)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"), mx.util.np_shape(True):
            warnings.simplefilter("ignore")
            onnx.save(case.model, path)
            net = mx.contrib.onnx.import_to_gluon(path, ctx=mx.cpu())
            for inputs, outputs in case.data_sets:
                found = net(*[_given(_proto(v)) for v in inputs])
                several = len(case.model.graph.output) > 1
                found = list(found) if several and isinstance(found, (list, tuple)) else [found]
                assert len(found) == len(outputs), f"{len(found)} outputs, expected {len(outputs)}"
                for a, b in zip(found, outputs):
                    if "bernoulli" not in case.name:        # draws have no one right answer
                        _compare(case, _plain(a), _proto(b))
    except Exception as err:                                            # noqa: BLE001  any reason is reported
        return f"{type(err).__name__}: {' '.join(str(err).split())[:150]}"
    finally:
        signal.alarm(0)
    return ""


def main(words: list[str]) -> None:
    """Runs the tests whose name holds a word and prints the failing ones by operator."""
    names = [w for w in words if not w.startswith("--")]
    chosen = [c for c in cases() if not names or any(w in c.name for w in names)]
    failing, by = {}, Counter()
    with tempfile.TemporaryDirectory() as folder:
        for c in chosen:
            reason = run(c, folder)
            if reason:
                failing[c.name] = reason
                by[c.model.graph.node[0].op_type] += 1
                print(c.name, reason, sep="\t", flush=True)
    print(f"{len(chosen) - len(failing)} of {len(chosen)} pass;", ", ".join(f"{k} {n}" for k, n in by.most_common()))
    if "--write" in words:
        text = "".join(f"{k}\t{v.replace(folder, '')}\n" for k, v in failing.items())
        RECORD.with_suffix(".new").write_text(text)
        os.replace(RECORD.with_suffix(".new"), RECORD)


if __name__ == "__main__":
    main(sys.argv[1:])
