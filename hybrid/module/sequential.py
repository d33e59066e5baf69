"""SequentialModule: modules one after the other, each with the outputs of the one before as its data."""
from __future__ import annotations

import copy
import logging
from typing import Any

from ..buffers.array import NDArray
from ..base.errors import AttributeValueError
from ..mxnet.initializer import Uniform
from ..mxnet.data_iter import DataDesc
from .base import BaseModule


class SequentialModule(BaseModule):
    """``add(module, take_labels=True, auto_wiring=True)`` puts modules into a chain.

    take_labels: the module gets the batch's labels (a loss, and its metric). auto_wiring: outputs of the one before
    stand for the module's data in their order, whatever they are called.

    >>> net = SequentialModule().add(Module(body, label_names=None)).add(Module(head), take_labels=True, auto_wiring=True)     # doctest: +SKIP
    """  # noqa: E501
    META_TAKE_LABELS = "take_labels"
    META_AUTO_WIRING = "auto_wiring"

    def __init__(self, logger: Any = logging):
        super().__init__(logger)
        self._modules: list[Any] = []
        self._metas: list[dict[str, Any]] = []
        self._label_shapes: Any = None

    def add(self, module: Any, **kwargs: Any) -> "SequentialModule":
        """Put a module at the end; returns self."""
        unknown = set(kwargs) - {self.META_TAKE_LABELS, self.META_AUTO_WIRING}
        if unknown:
            raise AttributeValueError(f"add: unknown {', '.join(sorted(unknown))}; known: take_labels, auto_wiring")
        self._modules.append(module)
        self._metas.append(kwargs)
        self.binded = self.params_initialized = self.optimizer_initialized = False
        return self

    def _takes_labels(self, i: int) -> bool:
        return bool(self._metas[i].get(self.META_TAKE_LABELS))

    # ---- what it is
    @property
    def data_names(self) -> list[str]:
        """Names of the first module's data."""
        return self._modules[0].data_names if self._modules else []

    @property
    def output_names(self) -> list[str]:
        """Names of the last module's outputs."""
        return self._modules[-1].output_names if self._modules else []

    @property
    def data_shapes(self) -> Any:
        """Names and shapes of the first module's data."""
        self.needs("data_shapes", binded=self.binded)
        return self._modules[0].data_shapes

    @property
    def label_shapes(self) -> Any:
        """Names and shapes of the labels; None where no module takes them."""
        self.needs("label_shapes", binded=self.binded)
        return self._label_shapes

    @property
    def output_shapes(self) -> Any:
        """Names and shapes of the last module's outputs."""
        self.needs("output_shapes", binded=self.binded)
        return self._modules[-1].output_shapes

    # ---- binding and parameters
    def bind(self, data_shapes: Any, label_shapes: Any = None, for_training: bool = True,
             inputs_need_grad: bool = False,  # type: ignore[override]
             force_rebind: bool = False, shared_module: Any = None, grad_req: Any = "write") -> None:
        """Bind each module for the outputs of the one before."""
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        if shared_module is not None or not self._modules:
            raise AttributeValueError("bind: shared_module is not supported by SequentialModule" if self._modules
                                      else "bind: the chain is empty: call add() first")
        if inputs_need_grad and not for_training:
            raise AttributeValueError("bind: inputs_need_grad needs for_training=True")
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        self._label_shapes = label_shapes if any(map(self._takes_labels, range(len(self._modules)))) else None
        shapes = data_shapes
        for i, module in enumerate(self._modules):
            if self._metas[i].get(self.META_AUTO_WIRING):
                shapes = self._wired(i, shapes)
            module.bind(shapes, label_shapes if self._takes_labels(i) else None, for_training,
                        inputs_need_grad if i == 0 else for_training, force_rebind, None, grad_req)
            shapes = module.output_shapes
        self.binded = True

    def _wired(self, i: int, shapes: Any) -> list[DataDesc]:
        names = self._modules[i].data_names
        if len(names) != len(shapes):
            raise AttributeValueError(f"bind: module {i} takes {len(names)} arrays of data ({', '.join(names)}), it "
                                      f"is given {len(shapes)}")
        return [DataDesc(name, tuple(d[1])) for name, d in zip(names, shapes)]

    def init_params(self, initializer: Any = Uniform(0.01), arg_params: Any = None, aux_params: Any = None,
                    allow_missing: bool = False,  # type: ignore[override]
                    force_init: bool = False, allow_extra: bool = False) -> None:
        """Values for the parameters of each module; each takes those that it has."""
        if self.params_initialized and not force_init:
            return
        self.needs("init_params", binded=self.binded)
        owner: dict[str, int] = {}
        for i, module in enumerate(self._modules):
            module.init_params(initializer=initializer, arg_params=arg_params, aux_params=aux_params,
                               allow_missing=allow_missing, force_init=force_init,
                               allow_extra=True)
            for name in (name for values in module.get_params() for name in values):
                if owner.setdefault(name, i) != i:
                    raise AttributeValueError(f"modules {owner[name]} and {i} both have a parameter named {name!r}: "
                                              f"name layers apart")
        extra = [k for given in (arg_params, aux_params) for k in given or () if k not in owner]
        if extra and not allow_extra:
            raise AttributeValueError(f"no module has a parameter {', '.join(map(repr, extra))}; pass "
                                      f"allow_extra=True to ignore such values")
        self.params_initialized = True

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:   # type: ignore[override]
        """Parameters and auxiliary states of all modules."""
        self.needs("get_params", binded=self.binded, params=self.params_initialized)
        found = [m.get_params() for m in self._modules]
        return {k: v for args, _ in found for k, v in args.items()}, {k: v for _, aux in found for k, v in aux.items()}

    def init_optimizer(self, kvstore: Any = "local", optimizer: Any = "sgd",
                       optimizer_params: Any = (("learning_rate", 0.01),),
                       force_init: bool = False) -> None:  # type: ignore[override]
        """An optimizer for each module."""
        self.needs("init_optimizer", binded=self.binded, params=self.params_initialized)
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring.")
            return
        for module in self._modules:
            module.init_optimizer(kvstore, optimizer, optimizer_params, force_init)
        self.optimizer_initialized = True

    # ---- computation
    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:      # type: ignore[override]
        """Run one after the other."""
        self.needs("forward", binded=self.binded, params=self.params_initialized)
        batch = copy.copy(data_batch)
        for i, module in enumerate(self._modules):
            module.forward(batch, is_train)
            if i + 1 < len(self._modules):
                batch.data = module.get_outputs()
                names = [d[0] for d in self._modules[i + 1].data_shapes]
                batch.provide_data = [DataDesc(name, x.shape) for name, x in zip(names, batch.data)]

    def backward(self, out_grads: Any = None) -> None:    # type: ignore[override]
        """Gradients, from the last module to the first."""
        self.needs("backward", binded=self.binded, params=self.params_initialized)
        for i, module in reversed(list(enumerate(self._modules))):
            module.backward(out_grads)
            if i:
                out_grads = module.get_input_grads()

    def update(self) -> None:                             # type: ignore[override]
        """One step of each module's optimizer."""
        self.needs("update", binded=self.binded, params=self.params_initialized, optimizer=self.optimizer_initialized)
        for module in self._modules:
            module.update()

    # ---- results
    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:           # type: ignore[override]
        """The last module's outputs."""
        self.needs("get_outputs", binded=self.binded, params=self.params_initialized)
        return self._modules[-1].get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """Gradients of the first module's data."""
        self.needs("get_input_grads", binded=self.binded, params=self.params_initialized)
        return self._modules[0].get_input_grads(merge_multi_context)

    def update_metric(self, eval_metric: Any, labels: Any,
                      pre_sliced: bool = False) -> None:    # type: ignore[override]
        """Add the outputs of the modules that take labels to a metric."""
        self.needs("update_metric", binded=self.binded, params=self.params_initialized)
        for i, module in enumerate(self._modules):
            if self._takes_labels(i):
                module.update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon: Any) -> None:          # type: ignore[override]
        """Let a Monitor see the values inside of each module."""
        self.needs("install_monitor", binded=self.binded)
        for module in self._modules:
            module.install_monitor(mon)


__all__ = ["SequentialModule"]
