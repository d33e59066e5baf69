"""The package ``onnx``, which is optional: it is imported when a file is written or read."""
from __future__ import annotations

from typing import Any

from ...base.errors import HybridError

OPSETS = range(13, 18)                  # the forms that are written are the same in these


def onnx() -> Any:
    """The module ``onnx``; HybridError, saying what to install, where it is missing."""
    try:
        import onnx as found  # noqa: PLC0415
    except ImportError as err:
        raise HybridError("ONNX files are written and read with the package onnx, which is not installed: pip install "
                          "onnx") from err
    return found


def evaluator() -> Any:
    """The package's own evaluator of nodes on NumPy's arrays."""
    from onnx.reference import ReferenceEvaluator  # noqa: PLC0415
    return ReferenceEvaluator


def inliner() -> Any:
    """The package's function that writes out functions (since onnx 1.15)."""
    from onnx.inliner import inline_selected_functions  # noqa: PLC0415
    return inline_selected_functions


def loop() -> Any:
    """The evaluator's operator Loop, which stacks results of every rank along a new axis, as ONNX says: the package's
    own joins them along the first axis."""
    import numpy as np  # noqa: PLC0415
    from onnx.reference.ops.op_loop import Loop as Joined  # noqa: PLC0415

    class Loop(Joined):                                    # type: ignore[misc]
        def _run(self, *args: Any, **keywords: Any) -> Any:
            stacked: list[list[Any]] = [[] for _ in range(self.K)]
            run_body: Any = getattr(self, "_run_body")  # noqa: B009  the package has no types

            def kept(*given: Any, **named: Any) -> Any:
                found = run_body(*given, **named)
                for k, rows in enumerate(stacked):
                    rows.append(found[len(found) - self.K + k])
                return [*found[:len(found) - self.K], *(np.zeros(1) for _ in stacked)]
            self._run_body = kept
            try:
                found = super()._run(*args, **keywords)
            finally:
                self._run_body = run_body
            first = len(found) - self.K if self.K else len(found)
            return (*found[:first], *(np.stack([np.asarray(v) for v in rows]) for rows in stacked))
    return Loop


def suppression() -> Any:
    """The evaluator's operator NonMaxSuppression, which takes ONNX's defaults where inputs are left out: by these it
    selects no box."""
    import numpy as np  # noqa: PLC0415
    from onnx.reference.ops.op_non_max_suppression import NonMaxSuppression as Whole  # noqa: PLC0415

    class NonMaxSuppression(Whole):                        # type: ignore[misc]
        def _run(self, boxes: Any, scores: Any, most: Any = None, overlap: Any = None, least: Any = None,
                 center_point_box: Any = None) -> Any:
            most = np.zeros(1, np.int64) if most is None else most
            if not np.any(most):
                return (np.zeros((0, 3), np.int64),)
            return super()._run(boxes, scores, most, np.zeros(1, np.float32) if overlap is None else overlap, least,
                                center_point_box=center_point_box)
    return NonMaxSuppression


def optional() -> Any:
    """The evaluator's operator Optional, whose result is the value itself, as the operators that read it take it: the
    package's own puts it into a list."""
    from onnx.reference.op_run import OpRun  # noqa: PLC0415

    class Optional(OpRun):                                 # type: ignore[misc]
        def _run(self, x: Any = None, type: Any = None) -> Any:  # noqa: A002  ONNX's name
            return (x,)

        def _check_and_fix_outputs(self, res: Any) -> Any:
            return res                                     # None, too
    return Optional
