"""Rounds on a GPU: what is put off runs on CUDA's null stream, as its calls would have.

Calls on other streams are not put off: an event that the user records on a stream comes behind the kernels of the calls
before it, and what waits for the event must find their results.
"""
from __future__ import annotations

import contextlib
from typing import Any, Iterator

from ...base import config
from ...base.device import Context, find_cupy, on

OTHER_STREAM = "it runs on another CUDA stream than the null stream"
_NOTHING: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()


def on_other_stream(ctx: Context) -> bool:
    """Whether calls on a device run now on another stream than CUDA's null stream."""
    cupy = find_cupy() if ctx.device_type == "gpu" and not config.cuda_emulated() else None
    if cupy is None:
        return False
    with on(ctx):
        return bool(cupy.cuda.get_current_stream().ptr)


def as_on_null_stream(ctx: Context | None) -> contextlib.AbstractContextManager[Any]:
    """Scope in which what was put off on a device (None: the CPU) is done. If its results are first looked at on
    another stream, they are there when the scope ends, since nothing on that stream waits for them."""
    return _on_null_stream(ctx) if ctx is not None and on_other_stream(ctx) else _NOTHING


@contextlib.contextmanager
def _on_null_stream(ctx: Context) -> Iterator[None]:
    null = find_cupy().cuda.Stream.null                  # type: ignore[union-attr]
    with on(ctx), null:
        yield
        null.synchronize()
