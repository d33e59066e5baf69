"""MXNet's older ``contrib.autograd``: sections, and functions that give gradients of functions."""
from __future__ import annotations

import functools
from typing import Any, Callable

from .. import autograd
from ..buffers.array import NDArray, full_like
from ..base.errors import AttributeValueError

set_is_training = autograd.set_training
is_training, mark_variables, backward = autograd.is_training, autograd.mark_variables, autograd.backward


def train_section() -> Any:
    """Scope of ``autograd.record()``."""
    return autograd.record(train_mode=True)


def test_section() -> Any:
    """Scope of ``autograd.pause()``: nothing is recorded."""
    return autograd.pause(train_mode=False)


def compute_gradient(outputs: Any) -> None:
    """``backward`` of outputs."""
    backward(outputs)


def grad_and_loss(func: Callable[..., Any], argnum: Any = None) -> Callable[..., tuple[list[Any], Any]]:
    """A function that gives (gradients of its arguments, results of func). argnum: numbers of the arguments, all by
    default.

    >>> from hybrid import nd
    >>> grads, y = grad_and_loss(lambda x: x * x)(nd.array([3.0])); (grads[0].asscalar(), y.asscalar())
    (np.float32(6.0), np.float32(9.0))
    """
    @functools.wraps(func)
    def wrapped(*args: Any) -> tuple[list[Any], Any]:
        chosen = args if argnum is None else [args[i]
                                              for i in (argnum if isinstance(argnum, (list, tuple)) else [argnum])]
        if not all(isinstance(x, NDArray) for x in chosen):
            raise AttributeValueError(f"grad_and_loss: gradients are of arrays, got "
                                      f"{', '.join(type(x).__name__ for x in chosen)}")
        grads = [full_like(x, 0) for x in chosen]
        mark_variables(list(chosen), grads)
        with train_section():
            outputs = func(*args)
        backward(outputs)
        return grads, outputs
    return wrapped


def grad(func: Callable[..., Any], argnum: Any = None) -> Callable[..., list[Any]]:
    """A function that gives the gradients of func's arguments."""
    with_loss = grad_and_loss(func, argnum)

    @functools.wraps(with_loss)
    def wrapped(*args: Any) -> list[Any]:
        return with_loss(*args)[0]
    return wrapped


__all__ = ["backward", "compute_gradient", "grad", "grad_and_loss", "is_training", "mark_variables", "set_is_training",
           "test_section", "train_section"]
