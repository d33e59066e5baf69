"""Record the public names of CuPy and the parameters of its functions, for the stand-in of tests/cuda/fake_cupy.py.

    python tests/oracle/record_cupy.py tests/data/cupy_names.json       # with CuPy installed; no GPU is needed
"""
from __future__ import annotations

import inspect
import json
import sys
from typing import Any

import cupy


def parameters(value: Any) -> str | None:
    """A function's parameters; None where they are not known (ufuncs and other compiled functions)."""
    try:
        return ",".join(str(p.replace(default=p.empty, annotation=p.empty))
                        for p in inspect.signature(value).parameters.values()) if inspect.isfunction(value) else None
    except (TypeError, ValueError):
        return None


def names(owner: Any) -> dict[str, str | None]:
    """Public names of a module, each with its parameters."""
    return {n: parameters(getattr(owner, n)) for n in sorted(dir(owner)) if not n.startswith("_")
            and not inspect.ismodule(getattr(owner, n))}


found = {"version": cupy.__version__, "cupy": names(cupy), "linalg": names(cupy.linalg),
         "stride_tricks": names(cupy.lib.stride_tricks),
         "ufuncs": sorted(n for n in dir(cupy) if isinstance(getattr(cupy, n), cupy.ufunc)),
         "ndarray": sorted(dir(cupy.ndarray)),
         "stream": sorted(dir(cupy.cuda.Stream)), "graph": sorted(dir(cupy.cuda.graph.Graph)),
         "driver": sorted(dir(cupy.cuda.driver)),
         "runtime": sorted(n for n in dir(cupy.cuda.runtime) if not n.startswith(("_", "cuda")) and n[0].islower()),
         "device": sorted(dir(cupy.cuda.Device)),
         "function": sorted(dir(cupy.cuda.function.Module))}
with open(sys.argv[1], "w") as f:
    json.dump(found, f, separators=(",", ":"))
