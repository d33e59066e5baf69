"""Batches: their descriptions, the parts for several devices, and results put together again."""
from __future__ import annotations

from typing import Any, Sequence

from ..buffers.array import NDArray
from ..base.device import cpu
from ..base.errors import ShapeError
from ..nd.functions import resolve
from ..mxnet.data_iter import DataDesc


def descriptions(given: Any, names: Sequence[str], what: str) -> list[DataDesc]:
    """DataDescs of exactly these names."""
    out = [d if isinstance(d, DataDesc) else DataDesc(*d) for d in given]
    if sorted(d.name for d in out) != sorted(names):
        raise ValueError(f"bind: {what} are of {', '.join(d.name for d in out) or 'nothing'}, the module has "
                         f"{', '.join(names) or 'none'}")
    return out


def renamed(provided: Any, bound: Sequence[DataDesc], arrays: Sequence[Any]) -> list[DataDesc]:
    """Descriptions of a batch's arrays: its own, else the bound ones with the arrays' shapes."""
    if provided:
        own = {d.name: d for d in (d if isinstance(d, DataDesc) else DataDesc(*d) for d in provided)}
        if set(own) == {d.name for d in bound}:
            return [DataDesc(d.name, x.shape, own[d.name].dtype, d.layout) for d, x in zip(own.values(), arrays)]
    return [DataDesc(d.name, x.shape, d.dtype, d.layout) for d, x in zip(bound, arrays)]


def arrays_of(batch: Any) -> tuple[list[Any], list[Any], Any]:
    """Data and labels of a batch, or of a list with one batch for each device, and the batch that describes them."""
    if not isinstance(batch, list):
        # also a namedtuple of data alone
        return list(batch.data), list(getattr(batch, "label", None) or ()), batch
    data, label = [[resolve("nd", "concat")(*xs, dim=0) for xs in zip(*(getattr(b, what, None) or () for b in batch))]
                   for what in ("data", "label")]
    return data, label, batch[0]


def batch_size(data: Sequence[DataDesc]) -> int:
    """The number of samples of a batch, by the first array of its data."""
    return data[0].shape[max(DataDesc.get_batch_axis(data[0].layout), 0)]


def resized(labels: Sequence[DataDesc], samples: int) -> list[DataDesc]:
    """Descriptions of labels for another number of samples, for a batch that has no labels."""
    return [DataDesc(d.name, (samples, *d.shape[1:]), d.dtype, d.layout) for d in labels]


def extent(d: DataDesc, i: int, n: int) -> tuple[int, int, int]:
    """Batch axis of an array (-1: none), and where device i of n has its part of it."""
    axis = DataDesc.get_batch_axis(d.layout)
    size = d.shape[max(axis, 0)] if d.shape else 0
    if axis >= 0 and size < n:
        raise ShapeError(f"a batch of {size} cannot be divided over {n} devices")
    return axis, size * i // n, size * (i + 1) // n


def part_shape(d: DataDesc, i: int, n: int) -> tuple[int, ...]:
    """Shape of the part of device i of n."""
    axis, start, stop = extent(d, i, n)
    return tuple(stop - start if a == axis else s for a, s in enumerate(d.shape))


def part(x: Any, d: DataDesc, i: int, n: int) -> Any:
    """The part of an array for device i of n."""
    if n == 1:
        return x
    axis, start, stop = extent(DataDesc(d.name, x.shape, d.dtype, d.layout), i, n)
    return resolve("nd", "slice_axis")(x, axis=axis, begin=start, end=stop) if axis >= 0 else x


def merged(parts: Sequence[Sequence[NDArray]], merge: bool, layouts: Sequence[str | None]) -> list[Any]:
    """One array an output from the devices' parts, or lists of them. layouts: of the outputs; without samples in it the
    first part counts."""
    if not merge:
        return [list(p) for p in zip(*parts)]
    axes = [DataDesc.get_batch_axis(layout) for layout in layouts]
    return [p[0] if len(p) == 1 or axis < 0 else resolve("nd",
                                                         "concat")(*(x.as_in_context(p[0].ctx) for x in p), dim=axis)
                                                         for p, axis in zip(zip(*parts), axes)]


def mean(values: Sequence[NDArray]) -> NDArray:
    """The mean of arrays, on the CPU."""
    out = values[0].copyto(cpu())
    for x in values[1:]:
        out += x.as_in_context(cpu())
    return out / len(values) if len(values) > 1 else out


def fill(name: str, target: NDArray, value: Any) -> None:
    """A parameter's new value; ShapeError where it does not fit."""
    if tuple(value.shape) != target.shape:
        raise ShapeError(f"{name!r} has the shape {target.shape}, a value of shape {tuple(value.shape)} was given")
    target[:] = value
