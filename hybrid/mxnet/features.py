"""MXNet's ``runtime``: which features are there. A name that MXNet knows and this library has no use for is off."""
from __future__ import annotations

from collections import OrderedDict
from typing import Iterable

from ..base import device

NAMES = ("CUDA CUDNN NCCL CUDA_RTC TENSORRT CPU_SSE CPU_SSE2 CPU_SSE3 CPU_SSE4_1 CPU_SSE4_2 CPU_SSE4A CPU_AVX "
         "CPU_AVX2 OPENMP SSE F16C JEMALLOC BLAS_OPEN "
         "BLAS_ATLAS BLAS_MKL BLAS_APPLE LAPACK MKLDNN OPENCV CAFFE PROFILER DIST_KVSTORE CXX14 INT64_TENSOR_SIZE "
         "SIGNAL_HANDLER DEBUG TVM_OP").split()
_ALWAYS = {"OPENMP", "LAPACK", "PROFILER", "INT64_TENSOR_SIZE", "F16C"}        # NumPy has LAPACK, sizes are 64 bits
_OF_GPUS = {"CUDA", "CUDA_RTC"}


class Feature:
    """One feature: ``name`` and ``enabled``."""

    def __init__(self, name: str, enabled: bool):
        self.name, self.enabled = name, enabled

    def __repr__(self) -> str:
        return f"{'✔' if self.enabled else '✖'} {self.name}"


def feature_list() -> list[Feature]:
    """All features, on and off."""
    gpus = device.num_gpus() > 0
    return [Feature(n, n in _ALWAYS or gpus and n in _OF_GPUS) for n in NAMES]


class Features(OrderedDict):
    """Features by name.

    >>> Features().is_enabled("OPENMP")
    True
    """

    def __init__(self, found: Iterable[tuple[str, Feature]] | None = None):
        super().__init__(found if found is not None else [(f.name, f) for f in feature_list()])

    def __repr__(self) -> str:
        return str(list(self.values()))

    def is_enabled(self, feature_name: str) -> bool:
        """Whether a feature is on. RuntimeError for a name that MXNet does not know."""
        name = feature_name.upper()
        if name not in self:
            raise RuntimeError(f"Feature {name!r} is unknown, known features are: {list(self)}")
        return bool(self[name].enabled)


__all__ = ["Feature", "Features", "feature_list"]
