"""As a plugin of pytest (``-p tests.cuda.cuda_alone``): of the files given, the tests that run kernels, so that files
about more than CUDA can be given too."""
from __future__ import annotations

from typing import Any


def runs_kernels(item: Any) -> bool:
    """Whether a test's name, its file's or its fixtures say so."""
    said = any(name in item.nodeid.lower() for name in ("cuda", "gpu", "emulated"))
    return said or "cuda_device" in getattr(item, "fixturenames", ())


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Leave the others out."""
    left = [item for item in items if not runs_kernels(item)]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if runs_kernels(item)]
