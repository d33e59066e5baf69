"""What a parameter's value may be: shapes that fit, devices, first values, values of files."""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ..base.device import Context, current_context
from ..base.errors import AttributeValueError, FileFormatError, ShapeError
from ..buffers.array import NDArray
from ..ir.size import Size, Specialised
from ..mxnet import initializer

STORAGE = ("default", "row_sparse", "csr")      # MXNet's storage types


def shape_known(shape: Any) -> bool:
    """Whether every length is a positive number (0 and -1 are unknown)."""
    return shape is not None and all(s > 0 for s in shape)


def numbers(shape: tuple[Any, ...], name: str) -> tuple[int, ...]:
    """A shape that a trace found out. Specialised where it depends on a size that varies."""
    if any(type(d) is Size for d in shape):
        raise Specialised(f"the shape of Parameter {name!r} depends on a size that varies")
    return shape


def fits(shape: Sequence[int], new: Sequence[int]) -> bool:
    """Whether a shape may become another one: lengths of 0 and -1 are not known yet."""
    return len(shape) == len(new) and all(a in (0, -1, b) for a, b in zip(shape, new))


def devices_of(ctx: Any) -> list[Context]:
    """The devices that an argument names: one, several, or (None) the current one."""
    out: list[Any] = [current_context()] if ctx is None else [ctx] if isinstance(ctx, (Context, str)) else list(ctx)
    if not all(isinstance(c, Context) for c in out):
        raise AttributeValueError(f"ctx must be a device such as hybrid.cpu() or hybrid.gpu(0), or a list of them, "
                                  f"got {ctx!r}")
    return out


def draw(name: str, chosen: Any, default: Any, into: NDArray) -> None:
    """Fill an array. As in MXNet the parameter's name does not matter here: the initializer treats it as a weight."""
    made = initializer.create(chosen)
    if not isinstance(made, initializer.Initializer):            # Mixed, Load, a function: they go by the name
        made(initializer.InitDesc(name), into)
        return
    caller = default if isinstance(default, initializer.Initializer) else made
    caller(initializer.InitDesc(name, {"__init__": chosen}), into)


def check_loaded(parameter: Any, data: NDArray, cast_dtype: bool) -> None:
    """Refuses a value of a file whose shape does not fit, or whose dtype differs and may not be converted."""
    if parameter._shape is not None and not fits(parameter._shape, data.shape):
        raise ShapeError(f"Parameter {parameter.name!r} has shape {parameter._shape}, the loaded value {data.shape}")
    if np.dtype(data.dtype) != parameter._dtype and not cast_dtype:
        raise FileFormatError(f"Parameter {parameter.name!r} has dtype {parameter._dtype}, the loaded value "
                              f"{np.dtype(data.dtype)}; pass cast_dtype=True to convert")
