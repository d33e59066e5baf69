"""Tensor maps, by which one thread of a kernel copies a box of an array: what the driver is told to make them
(``cuTensorMapEncodeTiled``, CUDA 12 and later), for the launches in C and for the emulator."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hybrid.codegen.cuda import TensorMap

ENCODE = "cuTensorMapEncodeTiled"
TYPES = {"float16": 6, "float32": 7, "float64": 8, "bfloat16": 9}      # CUtensorMapDataType
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}                                # CUtensorMapSwizzle, by bytes
BYTES = 128                                                            # of a tensor map, which begins at 64


def fields(m: TensorMap, argument: int = 0, launch: int = 0) -> dict[str, Any]:
    """The fields of a ``Map`` (kernels/c/device_plan.h). argument: its index among the arguments of all launches of a
    plan; launch: the number of the kernel."""
    return {"argument": argument, "launch": launch, "type": TYPES[m.dtype], "swizzle": SWIZZLES[m.swizzle],
            "rank": len(m.sizes), "offset": m.offset, "size": m.sizes, "stride": m.strides, "box": m.box}
