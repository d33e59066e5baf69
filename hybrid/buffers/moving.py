"""Raw arrays: made of Python's numbers, and moved between devices."""
from __future__ import annotations

from typing import Any

import numpy as np

from ..base import dtype as dt
from ..base.device import Context, aligned_copy, array_module, gpu, on
from ..base.errors import AttributeValueError
from . import evict
from .foreign import as_numpy


def beside(value: Any, ctx: Context) -> Any:
    """A value to assign on a device: CuPy takes its own arrays and numbers there, no NumPy arrays and no lists."""
    return move(np.asarray(value), ctx, False) if isinstance(value, (np.ndarray, list, tuple)) else value


def put(raw: Any, key: Any, value: Any, ctx: Context) -> None:
    """``raw[key] = value`` for a raw array of a device, on that device: CuPy computes on the current one, whose stream
    does not wait for others'."""
    if type(raw) is np.ndarray:
        raw[key] = value
        return
    with on(ctx):
        raw[key] = beside(value, ctx)


def copied(raw: Any, ctx: Context) -> Any:
    """A copy of a raw array of a device, there."""
    if type(raw) is np.ndarray:
        return raw.copy()
    with on(ctx):
        return raw.copy()


def cast(raw: Any, dtype: Any, ctx: Context) -> Any:
    """A raw array of a device in another type, there; itself where it has the type."""
    with on(ctx):
        return raw.astype(dtype, copy=False)


def from_gpu(raw: Any) -> np.ndarray:
    """The numbers of a raw array of CuPy, when its device's current stream has computed them: ``get`` alone would ask
    the current device for a stream."""
    with on(gpu(int(raw.device.id))):
        return raw.get()                                     # type: ignore[no-any-return]


def move(raw: Any, ctx: Context, copy: bool) -> Any:
    """A raw array on a device: itself where it is there already and no copy is asked for."""
    xp = array_module(ctx)
    if xp is np:
        host = raw if isinstance(raw, np.ndarray) else from_gpu(raw)
        return aligned_copy(host) if copy else host
    with on(ctx):
        if isinstance(raw, xp.ndarray) and raw.device.id != ctx.device_id:
            return _of_other_gpu(xp, raw)
        return xp.array(raw) if copy else xp.asarray(raw)


def _of_other_gpu(xp: Any, raw: Any) -> Any:
    """A copy of another GPU's array on the current one. Copies between null streams wait for both GPUs. Other streams
    are made to wait: the copy for what is queued there, and what is queued there later, which may get the array's
    memory once nobody holds it, for the copy. CuPy copies only what lies in one piece.
    """
    to = xp.cuda.get_current_stream()
    with xp.cuda.Device(raw.device.id):
        raw = raw if raw.flags.c_contiguous or raw.flags.f_contiguous else raw.copy()
        source = xp.cuda.get_current_stream()
        if to.ptr == source.ptr == 0:
            written = None
        else:
            written = xp.cuda.Event(disable_timing=True)
            written.record(source)
    if written is None:
        return xp.array(raw)
    to.wait_event(written)
    out = xp.array(raw)
    read = xp.cuda.Event(disable_timing=True)
    read.record(to)
    with xp.cuda.Device(raw.device.id):
        source.wait_event(read)
    return out


def assignable(key: Any, value: Any) -> Any:
    """A value for ``x[key] = value``: what has one element has no axes, as y[1] of one axis has the shape (1,), and
    x[0, 0] = y[1] is meant. TypeError for what is no number or array."""
    if value is None or isinstance(value, (str, bytes, dict)):
        raise TypeError(f"x[{key!r:.60}] = value takes numbers and arrays, got {value!r:.60}")
    if isinstance(value, (list, tuple)) and len(value) == 1:
        value = np.asarray(value[0])
    return value.reshape(()) if getattr(value, "size", 0) == 1 and value.ndim else value


def from_python(source: Any, dtype: Any) -> tuple[np.ndarray, np.dtype]:
    """A raw array of numbers or nested lists, and its dtype."""
    wanted = dt.as_dtype(dtype)
    nested = [x.asnumpy() if isinstance(x, evict.Held) else x     # type: ignore[attr-defined]
             
              for x in source] if isinstance(source, (list, tuple)) else source
    try:
        raw = (as_numpy(nested).astype(wanted) if hasattr(type(nested), "__dlpack__")
               else np.array(nested, dtype=wanted))
    except OverflowError:                                    # -1 in uint8: around, as in C
        raw = np.array(nested).astype(wanted)
    except (ValueError, TypeError) as err:
        raise AttributeValueError(f"an array takes real numbers, and lists of them of equal lengths: {err}") from None
    return raw, wanted
