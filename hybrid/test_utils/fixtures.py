"""What is around a test: devices, environment variables, files, iterators."""
from __future__ import annotations

import functools
import os
import platform
import sys
from contextlib import contextmanager
from typing import Any, Callable, Iterator

import numpy as np

from ..base import device
from .. import nd
from ..base.device import Context
from ..base.errors import AttributeValueError
from ..gluon.data.vision import MNIST
from ..mxnet.data_iter import DataBatch, DataIter, NDArrayIter


def default_context() -> Context:
    """The current device."""
    return device.current_context()


def set_default_context(ctx: Context) -> None:
    """The current device of this thread from here on, outside of ``with`` blocks."""
    stack = device._stack()
    if stack:
        stack[0] = ctx
    else:
        stack.append(ctx)


def list_gpus() -> range:
    """Numbers of the GPUs that can be used."""
    return range(device.num_gpus())


def has_tvm_ops() -> bool:
    """False: there are no operators made by TVM."""
    return False


def is_op_runnable() -> bool:
    """True: all operators run everywhere."""
    return True


def is_cd_run() -> bool:
    """Whether CD_JOB is 1 in the environment."""
    return os.environ.get("CD_JOB", "0") == "1"


def is_aarch64_run() -> bool:
    """Whether the processor is a 64-bit ARM."""
    return platform.machine() == "aarch64"


@contextmanager
def environment(*args: Any) -> Iterator[None]:
    """Environment variables inside a ``with`` block: ``environment(name, value)`` or ``environment({name: value})``;
    None unsets one.

    >>> with environment('HYBRID_DEBUG', '1'):
    ...     os.environ['HYBRID_DEBUG']
    '1'
    """
    if not (len(args) == 2 or len(args) == 1 and isinstance(args[0], dict)):
        raise AttributeValueError(f"environment takes a name and a value, or a dict of them, got {args!r}")
    wanted = args[0] if len(args) == 1 else {args[0]: args[1]}
    before = {name: os.environ.get(name) for name in wanted}
    _set(wanted)
    try:
        yield
    finally:
        nd.waitall()
        _set(before)


def _set(values: dict[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@contextmanager
def discard_stderr() -> Iterator[None]:
    """What is written to standard error inside a ``with`` block, also by C code, is lost."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
        sys.stderr.flush()
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def retry(n: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: a test that draws random numbers may fail n - 1 times."""
    if n < 1:
        raise AttributeValueError(f"retry: n must be 1 or more, got {n}")

    def decorate(f: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(f)
        def call(*args: Any, **kwargs: Any) -> Any:
            for _ in range(n - 1):
                try:
                    return f(*args, **kwargs)
                except AssertionError:
                    nd.waitall()
            return f(*args, **kwargs)
        return call
    return decorate


def get_mnist(path: str | None = None) -> dict[str, np.ndarray]:
    """MNIST as ``train_data``, ``train_label``, ``test_data``, ``test_label``: images (N, 1, 28, 28) in [0, 1],
    labels int32.

    path: the folder of its files, as of gluon.data.vision.MNIST.
    """
    out = {}
    for name in ("train", "test"):
        digits = MNIST(root=path, train=name == "train")
        out[f"{name}_data"] = digits._data.asnumpy().transpose(0, 3, 1, 2).astype(np.float32) / 255
        out[f"{name}_label"] = np.asarray(digits._label)
    return out


def get_mnist_iterator(batch_size: int, input_shape: Any, num_parts: int = 1, part_index: int = 0,
                       path: str | None = None) -> tuple[NDArrayIter, NDArrayIter]:
    """Iterators over MNIST for training (shuffled) and testing; ``input_shape`` of one axis: flat images."""
    data = get_mnist(path)
    flat = len(input_shape) == 1
    iters = []
    for name in ("train", "test"):
        x, y = data[f"{name}_data"], data[f"{name}_label"]
        x, y = (x[part_index::num_parts], y[part_index::num_parts]) if name == "train" else (x, y)
        iters.append(NDArrayIter(x.reshape(len(x), -1) if flat else x, y.astype(np.float32), batch_size,
                                 shuffle=name == "train"))
    return iters[0], iters[1]


class DummyIter(DataIter):
    """Gives the first batch of another iterator for ever."""

    def __init__(self, real_iter: Any):
        super().__init__(real_iter.batch_size)
        self.real_iter = real_iter
        self.provide_data, self.provide_label = real_iter.provide_data, real_iter.provide_label
        self.the_batch: DataBatch = next(real_iter)

    def next(self) -> DataBatch:
        """The batch."""
        return self.the_batch
