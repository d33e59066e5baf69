"""BucketingModule: one Symbol for each kind of batch (each length of sequences), with the same parameters."""
from __future__ import annotations

import logging
from typing import Any, Callable, Mapping

import numpy as np

from .. import serialize
from ..buffers.array import array
from ..graph.symbol import Symbol
from ..mxnet import checkpoint
from ..base.errors import AttributeValueError
from ..base.names import NameManager
from .base import BaseModule
from .module import Module


class BucketingModule(BaseModule):
    """Modules made by ``sym_gen(bucket_key)``, which gives (symbol, data_names, label_names), when a batch with that
    ``bucket_key`` comes first. default_bucket_key: the key of the module that owns the parameters; it has all of them.
    """

    def __init__(self, sym_gen: Callable[[Any], Any], default_bucket_key: Any = None, logger: Any = logging,
                 context: Any = None, work_load_list: Any = None,
                 fixed_param_names: Any = None, state_names: Any = None, group2ctxs: Any = None,
                 compression_params: Any = None):
        super().__init__(logger)
        if default_bucket_key is None:
            raise AttributeValueError("BucketingModule: give default_bucket_key, the key of the largest bucket")
        self._sym_gen, self._default_bucket_key = sym_gen, default_bucket_key
        self._fixed_param_names = list(fixed_param_names or ())
        self._options = {"logger": logger, "context": context, "fixed_param_names": fixed_param_names,
                         "state_names": state_names, "group2ctxs": group2ctxs}
        self._buckets: dict[Any, Module] = {}
        self._curr_bucket_key = default_bucket_key
        self._grad_req: Any = "write"
        self._monitor: Any = None
        self._symbols: dict[Any, Symbol] = {}             # of files, in place of those that sym_gen makes
        self._loaded: Any = None                          # parameters of files, until bind()
        self._names = self._generated(default_bucket_key)

    @staticmethod
    def load(prefix: str, epoch: int, sym_gen: Callable[[Any], Any] | None = None, default_bucket_key: Any = None,
             **kwargs: Any) -> "BucketingModule":
        """A module from what ``save_checkpoint`` wrote; sym_gen tells the names of data and labels."""
        arg_params, aux_params = checkpoint.load_params(prefix, epoch)
        keys = [int(k) for k in serialize.load(f"{prefix}.buckets")[0].asnumpy()]
        symbols = {k: serialize.symbol_json.load(f"{prefix}-{k}-symbol.json") for k in keys}
        return BucketingModule.load_dict(symbols, sym_gen, default_bucket_key, arg_params, aux_params, **kwargs)

    @staticmethod
    def load_dict(sym_dict: Mapping[Any, Symbol] | None = None, sym_gen: Callable[[Any], Any] | None = None,
                  default_bucket_key: Any = None, arg_params: Any = None, aux_params: Any = None,
                  **kwargs: Any) -> "BucketingModule":
        """A module of Symbols by bucket key, with parameters; sym_gen tells the names of data and labels."""
        given = {"sym_dict": sym_dict, "sym_gen": sym_gen, "default_bucket_key": default_bucket_key,
                 "arg_params": arg_params, "aux_params": aux_params}
        missing = [name for name, value in given.items() if value is None]
        if missing:
            raise AttributeValueError(f"BucketingModule: {', '.join(missing)} must be given to load one")
        assert sym_gen is not None and sym_dict is not None
        made = BucketingModule(sym_gen, default_bucket_key, **kwargs)
        made._symbols, made._loaded, made.params_initialized = dict(sym_dict), (arg_params, aux_params), True
        return made

    @property
    def _curr_module(self) -> Module:
        self.needs("BucketingModule", binded=self.binded)
        return self._buckets[self._curr_bucket_key]

    def _generated(self, bucket_key: Any) -> Any:
        """What sym_gen gives, its automatic names counted from 0 for every bucket, so that parameters of all buckets
        have the same names."""
        with NameManager():
            return self._sym_gen(bucket_key)

    def _make(self, bucket_key: Any) -> Module:
        symbol, data_names, label_names = self._generated(bucket_key)
        return Module(self._symbols.get(bucket_key, symbol), data_names, label_names, **self._options)

    # ---- what it is
    @property
    def symbol(self) -> Any:                              # type: ignore[override]
        """The symbol of the bucket in use."""
        return self._curr_module.symbol

    @property
    def data_names(self) -> list[str]:
        """Names of the data variables."""
        return self._curr_module.data_names if self.binded else list(self._names[1])

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs."""
        return self._curr_module.output_names if self.binded else self._names[0].list_outputs()

    @property
    def data_shapes(self) -> Any:
        """Names and shapes of the data of the bucket in use."""
        return self._curr_module.data_shapes

    @property
    def label_shapes(self) -> Any:
        """Names and shapes of the labels of the bucket in use."""
        return self._curr_module.label_shapes

    @property
    def output_shapes(self) -> Any:
        """Names and shapes of the outputs of the bucket in use."""
        return self._curr_module.output_shapes

    # ---- binding
    def bind(self, data_shapes: Any, label_shapes: Any = None, for_training: bool = True,
             inputs_need_grad: bool = False, force_rebind: bool = False,
             shared_module: Any = None, grad_req: Any = "write") -> None:
        """Bind the default bucket; others are bound when their batches come."""
        if shared_module is not None:
            raise AttributeValueError("BucketingModule.bind: shared_module is not supported")
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        kept = self._loaded or (self.get_params() if self.params_initialized else None)
        self.for_training, self.inputs_need_grad, self._grad_req = for_training, inputs_need_grad, grad_req
        main = self._make(self._default_bucket_key)
        main.bind(data_shapes, label_shapes, for_training, inputs_need_grad, grad_req=grad_req)
        self._buckets, self._curr_bucket_key = {self._default_bucket_key: main}, self._default_bucket_key
        self.binded = True
        if kept is not None:
            self._loaded = None
            main.set_params(*kept)

    def switch_bucket(self, bucket_key: Any, data_shapes: Any, label_shapes: Any = None) -> None:
        """Use the module of a bucket from here on."""
        self.needs("switch_bucket", binded=self.binded)
        if bucket_key not in self._buckets:
            main, new = self._buckets[self._default_bucket_key], self._make(bucket_key)
            new.bind(data_shapes, label_shapes, self.for_training, self.inputs_need_grad,
                     shared_module=main if main.params_initialized else None,
                     grad_req=self._grad_req)
            if self._monitor is not None:
                new.install_monitor(self._monitor)
            self._buckets[bucket_key] = new
        self._curr_bucket_key = bucket_key

    def prepare(self, data_batch: Any, sparse_row_id_fn: Any = None) -> None:
        """Bind the bucket of a batch that comes next."""
        self.needs("prepare", binded=self.binded, params=self.params_initialized)
        key = self._curr_bucket_key
        self.switch_bucket(data_batch.bucket_key, data_batch.provide_data, data_batch.provide_label)
        self._curr_bucket_key = key

    # ---- parameters
    def get_params(self) -> Any:
        """Copies of the parameters and of the auxiliary states."""
        self.needs("get_params", binded=self.binded, params=self.params_initialized)
        return self._buckets[self._default_bucket_key].get_params()

    def init_params(self, *args: Any, **kwargs: Any) -> None:
        """As Module.init_params, for all buckets."""
        self.needs("init_params", binded=self.binded)
        self._buckets[self._default_bucket_key].init_params(*args, **kwargs)
        self.params_initialized = True

    def get_states(self, merge_multi_context: bool = True) -> Any:
        """As Module.get_states."""
        return self._curr_module.get_states(merge_multi_context)

    def set_states(self, states: Any = None, value: Any = None) -> None:
        """As Module.set_states."""
        self._curr_module.set_states(states, value)

    def init_optimizer(self, kvstore: Any = "local", optimizer: Any = "sgd",
                       optimizer_params: Any = (("learning_rate", 0.01),), force_init: bool = False) -> None:
        """One optimizer for all buckets."""
        self.needs("init_optimizer", binded=self.binded, params=self.params_initialized)
        main = self._buckets[self._default_bucket_key]
        main.init_optimizer(kvstore, optimizer, optimizer_params, force_init)
        for other in self._buckets.values():
            if other is not main:
                other.borrow_optimizer(main)
        self.optimizer_initialized = True

    # ---- batches
    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Run the module of the batch's bucket."""
        self.needs("forward", binded=self.binded, params=self.params_initialized)
        key = data_batch.bucket_key if data_batch.bucket_key is not None else self._default_bucket_key
        self.switch_bucket(key, data_batch.provide_data, data_batch.provide_label)
        self._curr_module.forward(data_batch, is_train)

    def backward(self, out_grads: Any = None) -> None:
        """Gradients of the last ``forward``."""
        self._curr_module.backward(out_grads)

    def update(self) -> None:
        """One step of the optimizer."""
        self.needs("update", binded=self.binded, params=self.params_initialized, optimizer=self.optimizer_initialized)
        main = self._buckets[self._default_bucket_key]
        if not self._curr_module.optimizer_initialized:
            self._curr_module.borrow_optimizer(main)
        self._curr_module.update()

    def get_outputs(self, merge_multi_context: bool = True) -> Any:
        """Outputs of the last ``forward``."""
        return self._curr_module.get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context: bool = True) -> Any:
        """Gradients of the data of the last ``backward``."""
        return self._curr_module.get_input_grads(merge_multi_context)

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Add the last outputs to a metric."""
        self._curr_module.update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon: Any) -> None:
        """Let a Monitor see the values inside of all buckets."""
        self._monitor = mon
        for module in self._buckets.values():
            module.install_monitor(mon)

    def save_checkpoint(self, prefix: str, epoch: int, remove_amp_cast: bool = False) -> None:
        """Write the parameters, the default bucket's symbol, those of all buckets that came
        (``prefix-KEY-symbol.json``) and their keys (``prefix.buckets``)."""
        self._buckets[self._default_bucket_key].save_checkpoint(prefix, epoch, remove_amp_cast=remove_amp_cast)
        if not all(isinstance(k, (int, np.integer)) for k in self._buckets):
            raise AttributeValueError(f"save_checkpoint: keys of buckets must be integers to be written, got "
                                      f"{', '.join(map(repr, self._buckets))}")
        for key, module in self._buckets.items():
            serialize.symbol_json.save(module.symbol, f"{prefix}-{key}-symbol.json", remove_amp_cast=remove_amp_cast)
        serialize.save(f"{prefix}.buckets", [array(np.array(list(self._buckets)), dtype=np.int32)])
