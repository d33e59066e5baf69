"""Operators written in Python as MXNet's oldest programs have them: ``NumpyOp`` and ``NDArrayOp``. New code derives
``CustomOp``."""
from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ..base.errors import warn_user
from .custom import CustomOp, CustomOpProp, register, symbolic_custom

_numbers = itertools.count()


class PythonOp:
    """Base of both: an instance is an operator, and calling it with Symbols gives a Symbol. need_top_grad: whether
    ``backward`` reads the gradients of the outputs, False for losses.
    """

    def __init__(self, need_top_grad: bool = True):
        self.need_top_grad_ = need_top_grad
        self._op_type: str | None = None
        warn_user(f"{type(self).__name__} is deprecated: derive CustomOp and CustomOpProp")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.get_symbol(*args, **kwargs)

    def get_symbol(self, *args: Any, **kwargs: Any) -> Any:
        """The operator's Symbol on input Symbols, given by position or name."""
        raise NotImplementedError(f"{type(self).__name__}: derive NumpyOp or NDArrayOp")

    def forward(self, in_data: list[Any], out_data: list[Any]) -> None:
        """Fill ``out_data``; by default with the first input."""
        out_data[0][:] = in_data[0]

    def backward(self, out_grad: list[Any], in_data: list[Any], out_data: list[Any], in_grad: list[Any]) -> None:
        """Fill ``in_grad``; by default with ones."""
        in_grad[0][:] = 1.0

    def infer_shape(self, in_shape: list[Any]) -> tuple[list[Any], list[Any]]:
        """(input shapes, output shapes) from the input shapes that are known; by default the output is as the first
        input."""
        return in_shape, [in_shape[0]]

    def list_outputs(self) -> list[str]:
        """Names of the outputs."""
        return ["output"]

    def list_arguments(self) -> list[str]:
        """Names of the inputs."""
        return ["data"]

    def need_top_grad(self) -> bool:
        """Whether ``backward`` reads the gradients of the outputs."""
        return self.need_top_grad_

    def _symbol(self, runner: type[CustomOp], args: Any, kwargs: dict[str, Any]) -> Any:
        if self._op_type is None:
            self._op_type = f"_{type(self).__name__}{next(_numbers)}"
            register(self._op_type)(_property_of(self, runner))
        return symbolic_custom(*args, op_type=self._op_type, **kwargs)


class NumpyOp(PythonOp):
    """An operator whose code sees NumPy arrays.

    >>> class Double(NumpyOp):
    ...     def forward(self, in_data, out_data): out_data[0][:] = 2 * in_data[0]
    ...     def backward(self, out_grad, in_data, out_data, in_grad): in_grad[0][:] = 2 * out_grad[0]
    """

    def get_symbol(self, *args: Any, **kwargs: Any) -> Any:
        """The operator's Symbol on input Symbols, given by position or name."""
        return self._symbol(_OnNumPy, args, kwargs)


class NDArrayOp(PythonOp):
    """An operator whose code sees NDArrays."""

    def get_symbol(self, *args: Any, **kwargs: Any) -> Any:
        """The operator's Symbol on input Symbols, given by position or name."""
        return self._symbol(_OnArrays, args, kwargs)

    def declare_backward_dependency(self, out_grad: list[int], in_data: list[int], out_data: list[int]) -> list[int]:
        """Which values ``backward`` reads; here it gets all of them."""
        return [*(out_grad if self.need_top_grad() else ()), *in_data, *out_data]


class _OnArrays(CustomOp):
    """Runs an operator's code on the arrays themselves."""

    def __init__(self, op: PythonOp):
        self.op = op

    def forward(self, is_train: bool, req: list[str], in_data: list[Any], out_data: list[Any], aux: list[Any]) -> None:
        self.op.forward(in_data=in_data, out_data=out_data)

    def backward(self, req: list[str], out_grad: list[Any], in_data: list[Any], out_data: list[Any],
                 in_grad: list[Any], aux: list[Any]) -> None:
        self.op.backward(out_grad=out_grad, in_data=in_data, out_data=out_data, in_grad=in_grad)


class _OnNumPy(_OnArrays):
    """Runs an operator's code on NumPy copies, and copies what it wrote back."""

    def forward(self, is_train: bool, req: list[str], in_data: list[Any], out_data: list[Any], aux: list[Any]) -> None:
        results = [np.zeros(x.shape, x.dtype) for x in out_data]
        self.op.forward(in_data=[x.asnumpy() for x in in_data], out_data=results)
        for target, value in zip(out_data, results):
            target[:] = value

    def backward(self, req: list[str], out_grad: list[Any], in_data: list[Any], out_data: list[Any],
                 in_grad: list[Any], aux: list[Any]) -> None:
        given = [[x.asnumpy() for x in arrays] for arrays in (out_grad, in_data, out_data)]
        results = [np.zeros(x.shape, x.dtype) for x in in_grad]
        self.op.backward(out_grad=given[0], in_data=given[1], out_data=given[2], in_grad=results)
        for target, value in zip(in_grad, results):
            target[:] = value


def _property_of(op: PythonOp, runner: type[CustomOp]) -> type[CustomOpProp]:
    class Property(CustomOpProp):
        """What one operator takes and gives."""

        def __init__(self) -> None:
            super().__init__(need_top_grad=op.need_top_grad())

        def list_arguments(self) -> list[str]:
            return op.list_arguments()

        def list_outputs(self) -> list[str]:
            return op.list_outputs()

        def infer_shape(self, in_shape: list[Any]) -> Any:
            found = op.infer_shape(in_shape)
            return found[0], found[1], []

        def create_operator(self, ctx: Any, in_shapes: list[Any], in_dtypes: list[Any]) -> CustomOp:
            return runner(op)                                    # type: ignore[call-arg]
    return Property


__all__ = ["NDArrayOp", "NumpyOp", "PythonOp"]
