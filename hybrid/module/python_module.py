"""Modules written in Python: PythonModule, without parameters, and PythonLossModule, whose gradient is a function."""
from __future__ import annotations

import logging
from typing import Any, Callable, Sequence

from ..buffers.array import NDArray
from ..base.errors import AttributeValueError, OrderError
from ..mxnet.initializer import Uniform
from ..mxnet.data_iter import DataDesc
from ..nd import array
from .base import BaseModule
from .batches import descriptions



class PythonModule(BaseModule):
    """A module without parameters. A subclass defines ``forward``, ``backward``, ``get_outputs``, ``get_input_grads``
    and ``_compute_output_shapes``.

    data_names, label_names (None: it needs none), output_names: lists of names.
    """

    def __init__(self, data_names: Sequence[str], label_names: Sequence[str] | None, output_names: Sequence[str],
                 logger: Any = logging):
        super().__init__(logger)
        self._data_names, self._output_names = list(data_names), list(output_names)
        self._label_names = list(label_names) if label_names is not None else None
        self._data_shapes: Any = None
        self._label_shapes: Any = None
        self._output_shapes: Any = None

    # ---- what it is
    @property
    def data_names(self) -> list[str]:
        """Names of the data."""
        return self._data_names

    @property
    def label_names(self) -> list[str] | None:
        """Names of the labels."""
        return self._label_names

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs."""
        return self._output_names

    @property
    def data_shapes(self) -> Any:
        """Names and shapes of the data of a batch."""
        return self._data_shapes

    @property
    def label_shapes(self) -> Any:
        """Names and shapes of the labels of a batch; None where it has none."""
        return self._label_shapes

    @property
    def output_shapes(self) -> Any:
        """Names and shapes of the outputs."""
        return self._output_shapes

    def _compute_output_shapes(self) -> Any:
        """(name, shape) pairs of the outputs, from ``data_shapes`` and ``label_shapes``."""
        raise NotImplementedError(f"{type(self).__name__} must define _compute_output_shapes")

    # ---- parameters: none
    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:   # type: ignore[override]
        """Two empty dicts."""
        return {}, {}

    def init_params(self, initializer: Any = Uniform(0.01), arg_params: Any = None, aux_params: Any = None,
                    allow_missing: bool = False,  # type: ignore[override]
                    force_init: bool = False, allow_extra: bool = False) -> None:
        """Nothing to do."""
        self.params_initialized = True

    def init_optimizer(self, kvstore: Any = "local", optimizer: Any = "sgd",
                       optimizer_params: Any = (("learning_rate", 0.01),),
                       force_init: bool = False) -> None:  # type: ignore[override]
        """Nothing to do."""
        self.optimizer_initialized = True

    def update(self) -> None:                             # type: ignore[override]
        """Nothing to do."""

    def install_monitor(self, mon: Any) -> None:          # type: ignore[override]
        """Nothing to see."""

    def update_metric(self, eval_metric: Any, labels: Any,
                      pre_sliced: bool = False) -> None:    # type: ignore[override]
        """Add the last outputs to a metric, where the module takes labels."""
        if self._label_shapes is None:
            return
        if pre_sliced:
            raise AttributeValueError("update_metric: labels of several devices are not supported by Python modules")
        eval_metric.update(labels, self.get_outputs())

    def bind(self, data_shapes: Any, label_shapes: Any = None, for_training: bool = True,
             inputs_need_grad: bool = False,  # type: ignore[override]
             force_rebind: bool = False, shared_module: Any = None, grad_req: Any = "write") -> None:
        """Note the shapes of batches."""
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        if grad_req != "write":
            raise AttributeValueError(f"bind: a Python module has grad_req='write' alone, got {grad_req!r}")
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        self._data_shapes = descriptions(data_shapes, self._data_names, "data_shapes")
        self._label_shapes = descriptions(label_shapes, self._label_names,
                                          "label_shapes") if label_shapes and self._label_names is not None else None
        self._output_shapes = self._compute_output_shapes()
        self.binded = True


class PythonLossModule(PythonModule):
    """A loss: its output is its data, and the data's gradient is ``grad_func(scores, labels)`` (an NDArray or a NumPy
    array).

    >>> loss = PythonLossModule(grad_func=lambda scores, labels: scores - labels.one_hot(10))         # doctest: +SKIP
    """

    def __init__(self, name: str = "pyloss", data_names: Sequence[str] = ("data",),
                 label_names: Sequence[str] = ("softmax_label",), logger: Any = logging,
                 grad_func: Callable[[NDArray, NDArray], Any] | None = None):
        if len(data_names) != 1 or len(label_names) != 1:
            raise AttributeValueError(f"PythonLossModule takes one array of data and one of labels, got "
                                      f"{list(data_names)} and {list(label_names)}")
        if grad_func is not None and not callable(grad_func):
            raise TypeError(f"grad_func must be a function of (scores, labels), got {type(grad_func).__name__}")
        super().__init__(data_names, label_names, [name + "_output"], logger)
        self._name, self._grad_func = name, grad_func
        self._scores: Any = None
        self._labels: Any = None
        self._scores_grad: Any = None

    def _compute_output_shapes(self) -> list[DataDesc]:
        return [DataDesc(self._name + "_output", self._data_shapes[0].shape)]

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:      # type: ignore[override]
        """Keep the scores, and the labels where ``backward`` follows."""
        self._scores = data_batch.data[0]
        if self.for_training if is_train is None else is_train:
            self._labels = data_batch.label[0]

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:           # type: ignore[override]
        """The scores."""
        return [self._scores]

    def backward(self, out_grads: Any = None) -> None:    # type: ignore[override]
        """The gradient of the scores."""
        if out_grads is not None:
            raise AttributeValueError("backward: a loss takes no gradients of its outputs")
        if not self.for_training:
            raise OrderError("backward: the module was bound with for_training=False")
        self._backward_impl()

    def _backward_impl(self) -> None:
        if self._grad_func is None:
            raise NotImplementedError("PythonLossModule: give grad_func, or define _backward_impl")
        grad = self._grad_func(self._scores, self._labels)
        self._scores_grad = grad if isinstance(grad, NDArray) else array(grad)

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """The gradient of the scores."""
        return [self._scores_grad]


__all__ = ["PythonLossModule", "PythonModule"]
