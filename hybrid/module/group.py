"""What MXNet's programs find at ``module._exec_group``."""
from __future__ import annotations

from typing import Any, Sequence

from ..buffers.array import NDArray
from ..mxnet.data_iter import DataDesc
from ..mxnet.executor import Executor
from .batches import extent


class ExecutorGroup:
    """The executors of a bound Module and its arrays: by name, each a list over the devices.

    An array of data or labels stands there with the slice of the batch that it holds, ``(slice(0, 4), array)``, as in
    MXNet.
    """

    def __init__(self, module: Any):
        self._module = module
        self._replicas = module._replicas
        self.contexts = module._context
        self.param_names, self.aux_names = module._param_names, module._aux_names
        self.data_names, self.label_names, self.state_names = (module._data_names, module._label_names,
                                                               module._state_names)
        self.fixed_param_names = module._fixed_param_names
        self.data_shapes, self.label_shapes = module._data_shapes, module._label_shapes or None
        self.for_training, self.inputs_need_grad = module.for_training, module.inputs_need_grad
        self.output_names = module.output_names

    @property
    def arg_names(self) -> list[str]:
        """Names of all arguments, as those of the executors' arrays."""
        return self._module._symbol.list_arguments()                                # type: ignore[no-any-return]

    @property
    def num_outputs(self) -> int:
        """How many outputs the Symbol has."""
        return len(self.output_names)

    @property
    def grad_req(self) -> dict[str, str]:
        """Gradient requests of all arguments."""
        return dict(self._replicas[0].reqs)

    @property
    def slices(self) -> list[slice]:
        """The samples of a batch that each device has."""
        cuts = [extent(self.data_shapes[0], i, len(self._replicas)) for i in range(len(self._replicas))]
        return [slice(start, stop) for _, start, stop in cuts]

    @property
    def batch_size(self) -> int:
        """Samples in a batch, those of all devices together."""
        return self.slices[-1].stop                                                 # type: ignore[no-any-return]

    @property
    def data_layouts(self) -> list[int]:
        """The batch axis of each array of data."""
        return [DataDesc.get_batch_axis(d.layout) for d in self.data_shapes]

    @property
    def execs(self) -> list[Executor]:
        """The executor of each device."""
        return [r.executor for r in self._replicas]

    @property
    def param_arrays(self) -> list[list[NDArray]]:
        """Parameters."""
        return [[r.params[n] for r in self._replicas] for n in self.param_names]

    @property
    def grad_arrays(self) -> list[list[Any]]:
        """Gradients of the parameters, None where none is wanted."""
        return [[r.grads.get(n) for r in self._replicas] for n in self.param_names]

    @property
    def aux_arrays(self) -> list[list[NDArray]]:
        """Auxiliary states."""
        return [[r.aux[n] for r in self._replicas] for n in self.aux_names]

    @property
    def data_arrays(self) -> list[list[tuple[slice, NDArray]]]:
        """Data of the last batch."""
        return self._parts(self.data_names)

    @property
    def label_arrays(self) -> list[list[tuple[slice, NDArray]]] | None:
        """Labels of the last batch; None for a module that was bound without labels."""
        return None if self.label_shapes is None else self._parts([n for n in self.label_names if n in self.arg_names])

    @property
    def state_arrays(self) -> list[list[NDArray]]:
        """States that stay from batch to batch."""
        return [[e.arg_dict[n] for e in self.execs] for n in self.state_names]

    @property
    def input_grad_arrays(self) -> list[list[Any]] | None:
        """Gradients of the data; None where they are not wanted."""
        return [[e.grad_dict[n] for e in self.execs] for n in self.data_names] if self.inputs_need_grad else None

    def _parts(self, names: Sequence[str]) -> list[list[tuple[slice, NDArray]]]:
        return [[(part, e.arg_dict[n]) for part, e in zip(self.slices, self.execs)] for n in names]

    def get_output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """Names and shapes of the outputs."""
        return self._module.output_shapes                                           # type: ignore[no-any-return]

    def get_outputs(self, merge_multi_context: bool = True) -> Any:
        """Outputs of the last ``forward``."""
        return self._module.get_outputs(merge_multi_context)

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """As Module.forward."""
        self._module.forward(data_batch, is_train)

    def backward(self, out_grads: Any = None) -> None:
        """As Module.backward."""
        self._module.backward(out_grads)
