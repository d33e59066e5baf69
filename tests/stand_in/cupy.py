"""``import cupy`` gives the stand-in of tests/cuda/fake_cupy.py: for trying the whole test suite as on a GPU,
without one.

    HYBRID_DEVICE=gpu PYTHONPATH=tests/stand_in:. python -m pytest tests
"""
import sys

from hybrid.runtime.cuda import cupy_driver, driver_api
from tests.cuda import fake_cupy


class _Compiler:
    """The driver's compiler: names for sources, which the stand-in's modules know."""
    compile = staticmethod(fake_cupy.compile_for_fake)

    @staticmethod
    def version() -> tuple[int, int]:
        """Of the compiler."""
        return 13, 0


driver_api.library = fake_cupy.library                     # type: ignore[assignment]
cupy_driver.nvrtc = _Compiler                              # type: ignore[attr-defined]
sys.modules["cupy"] = fake_cupy.CUPY
