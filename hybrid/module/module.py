"""Module: a Symbol with its parameters, an optimizer, and executors on one or several devices."""
from __future__ import annotations

import logging
import os
from typing import Any, Mapping, Sequence

from ..mxnet import checkpoint, kvstore as kvstores
from .. import serialize
from .. import optimizer as opt
from ..buffers.array import NDArray
from ..base.device import Context, cpu, current_context
from ..base.errors import AttributeValueError, FileFormatError, OrderError, warn_user
from ..nd.functions import resolve
from ..mxnet.initializer import Uniform
from ..mxnet.data_iter import DataDesc
from ..base.atomic import write_bytes
from ..graph.symbol import Symbol
from .base import BaseModule, as_list
from .batches import arrays_of, batch_size, descriptions, mean, merged, part, part_shape, renamed, resized
from .group import ExecutorGroup
from .parameters import (check_names, check_wanted_rows, devices_by_group, gradient_requests, optimizer_for,
                         set_values, spread_first)
from .replica import Replica


class Module(BaseModule):
    """A network given as a Symbol, for training and prediction.

    symbol: its outputs (a loss such as SoftmaxOutput, for training). data_names, label_names: variables that batches
    fill; all others are parameters. context: a device or a list of them, over which batches are divided.
    fixed_param_names:
    parameters that are not trained. state_names: variables that are kept between calls and set with ``set_states``.
    group2ctxs: devices by the ``ctx_group`` of nodes, one or a list of them for each device of context. work_load_list,
    compression_params: MXNet's options for clusters of devices, accepted; they change nothing here.

    >>> x = sym.FullyConnected(sym.var('data'), num_hidden=2, name='fc')
    >>> mod = Module(sym.SoftmaxOutput(x, name='softmax'))
    >>> mod.bind([('data', (4, 3))], [('softmax_label', (4,))]); mod.init_params(); mod.init_optimizer()
    >>> mod.forward_backward(io.DataBatch([nd.ones((4, 3))], [nd.zeros((4,))])); mod.update()
    >>> mod.get_outputs()[0].shape
    (4, 2)
    """

    def __init__(self, symbol: Symbol, data_names: Any = ("data",), label_names: Any = ("softmax_label",),
                 logger: Any = logging, context: Any = None,
                 work_load_list: Any = None, fixed_param_names: Any = None, state_names: Any = None,
                 group2ctxs: Any = None, compression_params: Any = None):
        super().__init__(logger)
        if not isinstance(symbol, Symbol):
            raise AttributeValueError(f"Module takes a Symbol, got {type(symbol).__name__}; a Gluon network is "
                                      f"trained with gluon.Trainer")
        self.symbol = self._symbol = symbol
        self._context: list[Context] = as_list(context if context is not None else current_context())
        self._data_names, self._label_names = list(data_names or ()), list(label_names or ())
        self._fixed_param_names, self._state_names = list(fixed_param_names or ()), list(state_names or ())
        arguments = symbol.list_arguments()
        for names, what in ((self._data_names, "data_names"), (self._state_names, "state_names"),
                            (self._fixed_param_names, "fixed_param_names")):
            check_names(names, arguments, what)
        absent = [n for n in self._label_names if n not in arguments]
        if absent and self._label_names != ["softmax_label"]:
            warn_user(f"Module: label_names {absent} are not among the symbol's arguments")
        inputs = {*self._data_names, *self._label_names, *self._state_names}
        self._param_names = [n for n in arguments if n not in inputs]
        self._aux_names = symbol.list_auxiliary_states()
        self._layouts = [s.attr("__layout__") for s in symbol]
        self._group2ctxs = group2ctxs
        self._replicas: list[Replica] = []
        self._data_shapes: list[DataDesc] = []
        self._label_shapes: list[DataDesc] = []
        self._optimizer: Any = None
        self._updater: Any = None
        self._preload_opt_states: str | None = None
        self._ranks: Any = None                             # how gradients go over several processes
        self._monitor: Any = None

    # ---- files
    @staticmethod
    def load(prefix: str, epoch: int, load_optimizer_states: bool = False, **kwargs: Any) -> "Module":
        """A module from a checkpoint: ``prefix-symbol.json`` and ``prefix-%04d.params`` (and ``.states``)."""
        symbol, args, auxs = checkpoint.load_checkpoint(prefix, epoch)
        mod = Module(symbol=symbol, **kwargs)
        mod._loaded = args, auxs
        mod.params_initialized = True
        if load_optimizer_states:
            mod._preload_opt_states = f"{prefix}-{epoch:04d}.states"
        return mod

    _loaded: tuple[Mapping[str, NDArray], Mapping[str, NDArray]] | None = None       # of a checkpoint, until bind()

    def save_checkpoint(self, prefix: str, epoch: int, save_optimizer_states: bool = False,
                        remove_amp_cast: bool = True) -> None:
        """Write ``prefix-symbol.json`` and ``prefix-%04d.params``; if wanted, the optimizer's states to ``.states``."""
        serialize.symbol_json.save(self._symbol, f"{prefix}-symbol.json", remove_amp_cast=remove_amp_cast)
        self.save_params(f"{prefix}-{epoch:04d}.params")
        logging.info('Saved checkpoint to "%s"', f"{prefix}-{epoch:04d}.params")
        if save_optimizer_states:
            self.save_optimizer_states(f"{prefix}-{epoch:04d}.states")

    def save_optimizer_states(self, fname: str | os.PathLike[str]) -> None:
        """Write the optimizer's states."""
        self.needs("save_optimizer_states", optimizer=self.optimizer_initialized)
        write_bytes(fname, self._updater.get_states())

    def load_optimizer_states(self, fname: str | os.PathLike[str]) -> None:
        """Read what ``save_optimizer_states`` wrote."""
        self.needs("load_optimizer_states", optimizer=self.optimizer_initialized)
        try:
            with open(fname, "rb") as f:
                self._updater.set_states(f.read())
        except FileFormatError as err:
            raise FileFormatError(f"{os.fspath(fname)}: {err}") from None

    # ---- what it is
    @property
    def data_names(self) -> list[str]:
        """Names of the data variables."""
        return self._data_names

    @property
    def label_names(self) -> list[str]:
        """Names of the label variables."""
        return self._label_names

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs."""
        return self._symbol.list_outputs()

    @property
    def data_shapes(self) -> list[DataDesc]:
        """Names and shapes of the data of a batch."""
        self.needs("data_shapes", binded=self.binded)
        return self._data_shapes

    @property
    def label_shapes(self) -> list[DataDesc] | None:
        """Names and shapes of the labels of a batch; None without labels."""
        self.needs("label_shapes", binded=self.binded)
        return self._label_shapes or None

    @property
    def _exec_group(self) -> ExecutorGroup:
        return ExecutorGroup(self)

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """Names and shapes of the outputs."""
        self.needs("output_shapes", binded=self.binded)
        given = {d.name: tuple(d.shape) for d in (*self._data_shapes, *self._label_shapes)
                 if d.name in self._symbol.list_arguments()}
        return list(zip(self.output_names, self._symbol.infer_shape(**given)[1]))

    # ---- binding
    def bind(self, data_shapes: Any, label_shapes: Any = None, for_training: bool = True,
             inputs_need_grad: bool = False, force_rebind: bool = False,
             shared_module: "Module | None" = None, grad_req: Any = "write") -> None:
        """Make executors for batches of these shapes.

        data_shapes, label_shapes: DataDescs or (name, shape) pairs, as an iterator's provide_data and provide_label.
        inputs_need_grad: whether ``get_input_grads`` will be asked for. shared_module: a module whose parameters are
        used. grad_req: "write", "add" or "null", one for all parameters or by name.
        """
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        if inputs_need_grad and not for_training:
            raise AttributeValueError("bind: inputs_need_grad needs for_training=True")
        kept = self._loaded or (self.get_params() if self.params_initialized and self.binded else None)
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        self._describe(data_shapes, label_shapes)
        reqs = self._requests(grad_req)
        inputs = [*self._data_names, *self._label_names, *self._state_names]
        if shared_module is not None and (not shared_module.binded or not shared_module.params_initialized
                                          or shared_module._context != self._context):
            raise AttributeValueError("bind: shared_module must be bound, with parameters, on the same devices")
        shared: Sequence[Any] = shared_module._replicas if shared_module is not None else [None] * len(self._context)
        self._replicas = [Replica(self._symbol, ctx, inputs, reqs, old, groups)
                          for ctx, old, groups in zip(self._context, shared,
                                                      devices_by_group(self._group2ctxs, len(self._context)))]
        self._prepare()
        self.binded = True
        if shared_module is not None:
            self.params_initialized = True
            if shared_module.optimizer_initialized:
                self.borrow_optimizer(shared_module)
        elif kept is not None:
            self._loaded = None
            self.init_params(None, *kept, force_init=True, allow_extra=True)

    def _requests(self, grad_req: Any) -> dict[str, str]:
        trained = [n for n in self._param_names if self.for_training and n not in self._fixed_param_names]
        return gradient_requests(grad_req, self._symbol.list_arguments(), self._data_names, trained,
                                 self.inputs_need_grad)

    def _describe(self, data_shapes: Any, label_shapes: Any) -> None:
        self._data_shapes = descriptions(data_shapes, self._data_names, "data_shapes")
        self._label_shapes = descriptions(label_shapes, self._label_names, "label_shapes") if label_shapes else []

    def _prepare(self) -> None:
        """An executor on each device for its part of a batch of the present shapes."""
        arguments = set(self._symbol.list_arguments())
        given = [d for d in (*self._data_shapes, *self._label_shapes) if d.name in arguments]
        for i, replica in enumerate(self._replicas):
            shapes = {d.name: part_shape(d, i, len(self._replicas)) for d in given}
            replica.prepare(shapes, {d.name: d.dtype for d in given})
            if self._monitor is not None:
                self._monitor.install(replica.executor)

    def reshape(self, data_shapes: Any, label_shapes: Any = None) -> None:
        """Batches of other shapes from here on, with the same parameters."""
        self.needs("reshape", binded=self.binded)
        self._describe(data_shapes, label_shapes)
        self._prepare()

    # ---- parameters
    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """Copies of the parameters and of the auxiliary states (their mean over the devices) on the CPU."""
        if self._loaded is not None:
            return {k: v.copy() for k, v in self._loaded[0].items()}, {k: v.copy() for k, v in self._loaded[1].items()}
        self.needs("get_params", binded=self.binded, params=self.params_initialized)
        first = self._replicas[0]
        return ({n: first.params[n].copyto(cpu()) for n in self._param_names},
                {n: mean([r.aux[n] for r in self._replicas]) for n in self._aux_names})

    def init_params(self, initializer: Any = Uniform(0.01), arg_params: Any = None, aux_params: Any = None,
                    allow_missing: bool = False,
                    force_init: bool = False, allow_extra: bool = False) -> None:
        """Values for parameters and auxiliary states: given ones, else by the initializer.

        allow_missing: where some values are given, others come from the initializer (with None they stay as they are).
        allow_extra: values of unknown names are ignored; without it they are an error in ``set_params`` with
        allow_missing, and a warning here, as they pass in MXNet.
        """
        if self.params_initialized and not force_init:
            if self._loaded is None:
                warn_user("Parameters already initialized and force_init=False. init_params call ignored.")
            return
        self.needs("init_params", binded=self.binded)
        notes = self._symbol.attr_dict()
        first = self._replicas[0]
        for given, arrays, names in ((arg_params, first.params, self._param_names),
                                     (aux_params, first.aux, self._aux_names)):
            set_values(arrays, names, given, initializer, notes, allow_missing, allow_extra)
        spread_first(self._replicas)
        self.params_initialized = True

    def prepare(self, data_batch: Any, sparse_row_id_fn: Any = None) -> None:
        """Called with the next batch while one is worked on. sparse_row_id_fn: gives, for a batch, a dict from names of
        row_sparse parameters to the rows that it needs; parameters are whole on every device here, so that it is only
        looked at.
        """
        self.needs("prepare", binded=self.binded)
        if sparse_row_id_fn is None:
            return
        if not self.optimizer_initialized:
            warn_user("Parameters are not updated in the KVStore. No need to call sparse_row_id_fn.")
            return
        check_wanted_rows(sparse_row_id_fn(data_batch), self._replicas[0].params, self._param_names)

    # ---- training
    def init_optimizer(self, kvstore: Any = "local", optimizer: Any = "sgd",
                       optimizer_params: Any = (("learning_rate", 0.01),), force_init: bool = False) -> None:
        """An optimizer for ``update``. Its rescale_grad is 1 / batch size unless it is given.

        kvstore: "local" or "device"; "dist_sync" and its like (or a store that ``mx.kv.create`` made) sum gradients
        over all processes that mpirun started; parameters begin with rank 0's.
        """
        self.needs("init_optimizer", binded=self.binded, params=self.params_initialized)
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring...")
            return
        kind = str(getattr(kvstore, "type", kvstore))
        self._ranks = self._over_ranks(kvstore) if kind.startswith(("dist", "horovod")) else None
        # as MXNet: a batch is that of all workers for dist_sync, and one worker's for dist
        workers = self._ranks.world.size if self._ranks is not None and "_sync" in kind else 1
        rescale = 1.0 / (batch_size(self._data_shapes) * workers)
        names = dict(enumerate(self._param_names))
        optimizer = optimizer_for(optimizer, optimizer_params, self._symbol, names, rescale)
        self._optimizer, self._updater = optimizer, opt.get_updater(optimizer)
        self.optimizer_initialized = True
        if self._preload_opt_states is not None:
            self.load_optimizer_states(self._preload_opt_states)
            self._preload_opt_states = None

    def _over_ranks(self, kvstore: Any) -> Any:
        """Gradients summed over processes; parameters begin with rank 0's."""
        from .over_ranks import GradientsOverRanks              # noqa: PLC0415  loads only for several processes
        ranks = GradientsOverRanks(kvstores.create(kvstore) if isinstance(kvstore, str) else kvstore)
        ranks.begin(self._replicas[0].params)
        spread_first(self._replicas)
        return ranks

    def borrow_optimizer(self, shared_module: "Module") -> None:
        """Use another module's optimizer, with its states."""
        self.needs("borrow_optimizer", optimizer=shared_module.optimizer_initialized)
        self._optimizer, self._updater = shared_module._optimizer, shared_module._updater
        self._ranks = shared_module._ranks
        self.optimizer_initialized = True

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Run on a batch. When its shapes differ from the bound ones, executors for them are made (once).

        is_train: whether ``backward`` follows; by default whether the module was bound for training.
        """
        self.needs("forward", binded=self.binded, params=self.params_initialized)
        arrays = self._arrays(data_batch)
        for i, replica in enumerate(self._replicas):
            for d, values in arrays:
                target = replica.executor.arg_dict.get(d.name)
                if target is not None:
                    target[:] = part(values, d, i, len(self._replicas))
            replica.executor.forward(self.for_training if is_train is None else is_train)

    def _arrays(self, batch: Any) -> list[tuple[DataDesc, Any]]:
        """The arrays of a batch with their descriptions; makes executors for new shapes."""
        data, label, described = arrays_of(batch)
        if len(data) != len(self._data_shapes):
            raise AttributeValueError(f"forward: a batch has {len(data)} arrays of data, the module is bound for "
                                      f"{len(self._data_shapes)} ({', '.join(self._data_names)})")
        own = renamed(getattr(described, "provide_data", None), self._data_shapes, data)
        labels = renamed(getattr(described, "provide_label", None), self._label_shapes, label) if label else []
        bound = (*self._data_shapes, *self._label_shapes)
        if any(tuple(new.shape) != tuple(old.shape) for new, old in zip((*own, *labels), bound)):
            self.reshape(own, labels or resized(self._label_shapes, batch_size(own)))
        return [*zip(own, data), *zip(labels, label)]

    def backward(self, out_grads: Any = None) -> None:
        """Gradients of the last ``forward``. out_grads: gradients of the outputs, which losses do without."""
        self.needs("backward", binded=self.binded, params=self.params_initialized)
        if not self.for_training:
            raise OrderError("backward: the module was bound with for_training=False")
        for i, replica in enumerate(self._replicas):
            grads = None if out_grads is None else [part(g, DataDesc("", g.shape, layout=layout), i,
                                                         len(self._replicas)).as_in_context(replica.ctx)
                                                    for g, layout in zip(as_list(out_grads), self._layouts)]
            replica.executor.backward(grads)

    def update(self) -> None:
        """One step of the optimizer on the gradients of the last ``backward``."""
        self.needs("update", binded=self.binded, params=self.params_initialized, optimizer=self.optimizer_initialized)
        first, others = self._replicas[0], self._replicas[1:]
        rows = [(i, first.grads[n], first.params[n]) for i, n in enumerate(self._param_names) if n in first.grads]
        for other in others:
            for name, grad in first.grads.items():
                grad += other.grads[name].as_in_context(first.ctx)
        if rows and self._ranks is not None:
            rows = self._ranks.summed(rows)
        if rows:
            self._updater(*map(list, zip(*rows)))
        for other in others:
            for name in first.grads:
                first.params[name].copyto(other.params[name])

    # ---- results
    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """Outputs of the last ``forward``: one array an output, or a list of the devices' parts."""
        self.needs("get_outputs", binded=self.binded, params=self.params_initialized)
        return merged([r.executor.outputs for r in self._replicas], merge_multi_context, self._layouts)

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """Gradients of the data of the last ``backward``."""
        self.needs("get_input_grads", binded=self.binded, params=self.params_initialized)
        if not self.inputs_need_grad:
            raise OrderError("get_input_grads: bind with inputs_need_grad=True")
        layouts = {d.name: d.layout for d in self._data_shapes}
        return merged([[r.executor.grad_dict[n] for n in self._data_names] for r in self._replicas],
                      merge_multi_context, [layouts[n] for n in self._data_names])

    def get_states(self, merge_multi_context: bool = True) -> list[Any]:
        """Values of the variables of state_names."""
        self.needs("get_states", binded=self.binded, params=self.params_initialized)
        return merged([[r.executor.arg_dict[n] for n in self._state_names] for r in self._replicas],
                      merge_multi_context, [None] * len(self._state_names))

    def set_states(self, states: Any = None, value: Any = None) -> None:
        """New values of the variables of state_names: what ``get_states(False)`` gave, or one number for all."""
        self.needs("set_states", binded=self.binded, params=self.params_initialized)
        for k, name in enumerate(self._state_names):
            for i, replica in enumerate(self._replicas):
                given = value if states is None else states[k][i] if isinstance(states[k], (list, tuple)) else states[k]
                replica.executor.arg_dict[name][:] = given

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Add the last outputs to a metric. labels: arrays in the order of label_names (``pre_sliced``: a list of them
        for each device)."""
        if pre_sliced:
            labels = [resolve("nd", "concat")(*parts, dim=0) for parts in zip(*labels)]
        names = [d.name for d in self._label_shapes] or self._label_names
        eval_metric.update_dict(dict(zip(names, labels or ())), dict(zip(self.output_names, self.get_outputs())))

    def install_monitor(self, mon: Any) -> None:
        """Let a Monitor see the values inside."""
        self.needs("install_monitor", binded=self.binded)
        self._monitor = mon
        for replica in self._replicas:
            mon.install(replica.executor)
