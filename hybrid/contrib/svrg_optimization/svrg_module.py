"""SVRGModule: a Module trained with variance-reduced gradients.

R. Johnson and T. Zhang, "Accelerating stochastic gradient descent using predictive variance reduction" (NIPS 2013).
"""
from __future__ import annotations

import logging
from typing import Any, Sequence

from ...mxnet import kvstore as kvstores
from ... import nd
from ... import optimizer as opt
from ...base.device import cpu
from ...base.errors import OrderError
from ...module import Module
from ...module.batches import batch_size
from .svrg_optimizer import _SVRGOptimizer


class SVRGModule(Module):
    """A Module whose gradients are corrected: g(w) - g(w_old) + mean over all data of g(w_old).

    update_freq: every so many epochs w_old becomes the present weights and their gradient over all data is computed.
    Everything else is as in Module.

    >>> mod = SVRGModule(sym.LinearRegressionOutput(sym.FullyConnected(sym.var('data'), num_hidden=1), name='lro'),
    ...                  label_names=('lro_label',), update_freq=2)
    >>> mod.fit(io.NDArrayIter(np.ones((4, 3)), np.ones(4), 2, label_name='lro_label'), eval_metric='mse', num_epoch=2)
    """

    def __init__(self, symbol: Any, data_names: Any = ("data",), label_names: Any = ("softmax_label",),
                 logger: Any = logging, context: Any = None,
                 work_load_list: Any = None, fixed_param_names: Any = None, state_names: Any = None,
                 group2ctxs: Any = None,
                 compression_params: Any = None, update_freq: int | None = None):
        if not isinstance(update_freq, int) or isinstance(update_freq, bool):
            raise TypeError(f"SVRGModule: update_freq must be an integer, every so many epochs the full gradients are "
                            f"computed; got {update_freq!r}")
        if update_freq <= 0:
            raise ValueError(f"SVRGModule: update_freq must be a positive integer, got {update_freq}")
        rest = (data_names, label_names, logger, context if context is not None else cpu(), work_load_list,
                fixed_param_names, state_names, group2ctxs,
                compression_params)
        super().__init__(symbol, *rest)
        self.update_freq = update_freq
        self._mod_aux = Module(symbol, *rest)
        self._ctx_len = len(self._context)
        self._param_dict: list[dict[str, Any]] = []
        self._kvstore: Any = None

    # ---- binding
    def bind(self, data_shapes: Any, label_shapes: Any = None, for_training: bool = True,
             inputs_need_grad: bool = False, force_rebind: bool = False,
             shared_module: Any = None, grad_req: Any = "write") -> None:
        """As Module.bind, also for the module of the old weights."""
        rest = (data_shapes, label_shapes, for_training, inputs_need_grad, force_rebind, shared_module, grad_req)
        super().bind(*rest)
        if for_training:
            self._mod_aux.bind(*rest)

    def reshape(self, data_shapes: Any, label_shapes: Any = None) -> None:
        """As Module.reshape, also for the module of the old weights."""
        super().reshape(data_shapes, label_shapes)
        if self._mod_aux.binded:
            self._mod_aux.reshape(data_shapes, label_shapes)

    def init_optimizer(self, kvstore: Any = "local", optimizer: Any = "sgd",
                       optimizer_params: Any = (("learning_rate", 0.01),),
                       force_init: bool = False) -> None:
        """As Module.init_optimizer."""
        self.needs("init_optimizer", binded=self.binded, params=self.params_initialized)
        self._param_dict = [{n: nd.zeros(x.shape, ctx=ctx, dtype=x.dtype) for n, x in self.get_params()[0].items()}
                            for ctx in self._context]
        self._kvstore = kvstores.create(kvstore) if isinstance(kvstore,
                                                               str) and self._ctx_len > 1 else kvstore if not isinstance(kvstore, str) else None  # noqa: E501
        made = self._create_optimizer(_SVRGOptimizer.__name__, optimizer, self._kvstore, optimizer_params)
        super().init_optimizer(kvstore or "local", made, optimizer_params, force_init)
        for name, x in self._param_dict[0].items() if self._kvstore is not None else ():
            self._kvstore.init(f"{name}_full", nd.zeros(x.shape))

    def _create_optimizer(self, optimizer: str, default_opt: Any, kvstore: Any, optimizer_params: Any) -> Any:
        names = dict(enumerate([*self._param_names, *(f"{n}_full" for n in self._param_dict[0])]))
        given = {"rescale_grad": 1.0 / batch_size(self._data_shapes), **dict(optimizer_params)}
        return opt.create(optimizer, default_optimizer=default_opt, param_idx2name=names, **given)

    # ---- batches
    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """As Module.forward; for training with the old weights too."""
        super().forward(data_batch, is_train)
        if is_train:
            # before the first full gradients the old weights are the present ones
            if not self._mod_aux.params_initialized:
                self._mod_aux.init_params(None, *self.get_params())
            self._mod_aux.forward(data_batch, is_train)

    def backward(self, out_grads: Any = None) -> None:
        """As Module.backward; with the old weights too."""
        super().backward(out_grads)
        if self._mod_aux.binded:
            self._mod_aux.backward(out_grads)

    def update(self) -> None:
        """One step of the optimizer on the corrected gradients."""
        self.needs("update", binded=self.binded, params=self.params_initialized, optimizer=self.optimizer_initialized)
        self._update_svrg_gradients()
        super().update()

    def prepare(self, data_batch: Any, sparse_row_id_fn: Any = None) -> None:
        """As Module.prepare."""
        super().prepare(data_batch, sparse_row_id_fn)
        self._mod_aux.prepare(data_batch, sparse_row_id_fn)

    def _epoch(self, epoch: int, train_data: Any, *rest: Any) -> Any:
        if epoch % self.update_freq == 0:
            self.update_full_grads(train_data)
            train_data.reset()
        return super()._epoch(epoch, train_data, *rest)

    # ---- gradients
    def update_full_grads(self, train_data: Any) -> None:
        """Take the present weights as the old ones, and compute their mean gradient over all batches.

        (MXNet adds the last mean to the sum again each time; here the mean is that of the data.)
        """
        if not self._param_dict:
            raise OrderError("update_full_grads: call init_optimizer() first")
        self._mod_aux.init_params(None, *self.get_params(), force_init=True)
        train_data.reset()
        count, padding = 0, 0
        for totals in self._param_dict:
            for name in self._param_names:
                totals[name][:] = 0
        for batch in train_data:
            self._mod_aux.forward(batch, is_train=True)
            self._mod_aux.backward()
            count, padding = count + 1, batch.pad or 0
            self._add_gradients()
        batches = count - padding / train_data.batch_size
        for name in self._param_names:
            means = []
            for totals in self._param_dict:
                totals[name] /= batches
                means.append(totals[name])
            if self._kvstore is not None:
                self._accumulate_kvstore(name, means)

    def _add_gradients(self) -> None:
        for name, grads in zip(self._param_names, self._mod_aux._exec_group.grad_arrays):
            for totals, grad in zip(self._param_dict, grads):
                if grad is not None:
                    totals[name] += grad

    def _accumulate_kvstore(self, key: str, value: Sequence[Any]) -> None:
        """The sum of the devices' mean gradients through the kvstore, divided among them."""
        self._kvstore.push(f"{key}_full", value)
        self._kvstore._barrier()
        self._kvstore.pull(f"{key}_full", value)
        self._allocate_gradients(key, value)

    def _allocate_gradients(self, key: str, value: Sequence[Any]) -> None:
        for totals, x in zip(self._param_dict, value):
            totals[key] = x / self._ctx_len

    def _svrg_grads_update_rule(self, g_curr_batch_curr_weight: Sequence[Any],
                                g_curr_batch_special_weight: Sequence[Any],
                                g_special_weight_all_batch: Sequence[Any]) -> Sequence[Any]:
        """g(w) - g(w_old) + mean of g(w_old), in place of the first."""
        for now, old, full in zip(g_curr_batch_curr_weight, g_curr_batch_special_weight, g_special_weight_all_batch):
            now -= old
            now += full
        return g_curr_batch_curr_weight

    def _update_svrg_gradients(self) -> None:
        rows = zip(self._param_names, self._exec_group.grad_arrays, self._mod_aux._exec_group.grad_arrays)
        for name, now, old in rows:
            if now[0] is not None:
                self._svrg_grads_update_rule(now, old, [totals[name] for totals in self._param_dict])


__all__ = ["SVRGModule"]
