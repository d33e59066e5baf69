"""Trainer: applies an optimizer to parameters after each backward pass, all of them in one program."""
from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, Sequence

from .. import optimizer as opt
from ..base import pending
from ..buffers.array import NDArray
from ..base.device import Context
from ..base.errors import AttributeValueError, HybridError, OrderError
from ..mxnet.kvstore import KVStore, KVStoreBase
from ..base.scope import SCOPE
from ..base.atomic import write_bytes
from . import traced_step
from ..buffers.tape import Slot
from ..jit.deferred import entrances, events
from .gradient_sums import GradientSums
from .parameter import Parameter
from .per_device import arrays_of
from .stored_rows import StoredRows
from .trainer_arguments import apply_groups, over_ranks, own_store, parameters_of, shards_of, sums_devices


class StaleGradientError(HybridError, UserWarning):
    """A step would use a gradient that backward has not written since the last step (MXNet raises UserWarning)."""


class Trainer:
    """Updates parameters from their gradients.

    params: a dict (or ParameterDict) or a list of Parameters; or a list of groups with rates of their own, ``{"params":
    net.features.collect_params(), "learning_rate": 0.01, "wd": 0}``, which become lr_mult and wd_mult of their
    Parameters. optimizer: a name with optimizer_params (a dict), or an Optimizer. kvstore: how gradients of several
    devices are brought together; within one process ``device``, ``local`` and the like add them up, None does not;
    ``dist_sync``, ``dist_device_sync``, ``dist`` and ``horovod`` add up those of all processes that mpirun started.
    compression_params: ``{'type': 'fp16'}`` or 'bf16' is what gradients are sent in between processes; without meaning
    within one. update_on_kvstore: whether weights are updated once and copied to the devices (the default with several
    devices; gradients stay as they are) or on each device, from gradients that ``allreduce_grads`` added up (False;
    gradients can then be changed before ``update``). shard_states: over several processes, each keeps the optimizer's
    states of some parameters, updates these and sends the others their values, to use less memory.

    >>> from hybrid import nd, autograd, gluon
    >>> net = gluon.nn.Dense(1, in_units=2); net.initialize()
    >>> trainer = Trainer(net.collect_params(), 'sgd', {'learning_rate': 0.1})
    >>> with autograd.record():
    ...     loss = net(nd.ones((4, 2))).sum()
    >>> loss.backward(); trainer.step(batch_size=4)
    """

    def __init__(self, params: Any, optimizer: Any, optimizer_params: dict[str, Any] | None = None,
                 kvstore: Any = "device", compression_params: dict[str, Any] | None = None,
                 update_on_kvstore: bool | None = None, shard_states: bool = False):
        self._params, groups = parameters_of(params)
        self._param2idx = {p.name: i for i, p in enumerate(self._params)}
        self._compression_params = compression_params
        self._contexts = self._check_contexts()
        self._init_optimizer(optimizer, optimizer_params or {})
        apply_groups(groups, self._optimizer)
        self._scale = self._optimizer.rescale_grad
        self.stored = StoredRows()                           # the values of row_sparse parameters
        self._ranks = over_ranks(kvstore, compression_params)
        self._shards = shards_of(self._ranks, self._params) if shard_states else None
        kvstore = kvstore if self._ranks is None else self._ranks
        self._own_store = own_store(kvstore, len(self._contexts))
        self._reduces = (self._own_store is not None or self._ranks is not None
                         or sums_devices(kvstore) and len(self._contexts) > 1)
        self._on_store(update_on_kvstore)
        self._kind = getattr(kvstore, "type", kvstore)
        self._sums = GradientSums(self._params, self._contexts, self._ranks, self._kind)
        self._kv_initialized = self._sharing = False
        self._amp_loss_scaler: Any = None                   # set by mixed-precision training
        self.joined: dict[Any, Any] = {}                    # programs of rounds that its steps end (jit/deferred)
        self.size = events.Size(self)                       # what they divide gradients by
        self._prepared: tuple[opt.Step, list[tuple[NDArray, Slot]]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_prepared": None, "size": None, "joined": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Of copies and pickles: the optimizer, which is one without parameters, has these again."""
        self.__dict__.update(state)
        self.size = events.Size(self)
        self._sums = GradientSums(self._params, self._contexts, self._ranks, self._kind)
        self._optimizer.param_dict = dict(enumerate(self._params))

    def _on_store(self, wanted: bool | None) -> None:
        """Whether weights are updated once and copied to the devices: always where weights are sparse, as their whole
        values are kept here; not, unless asked for, where gradients alone are, which are added up by rows."""
        sparse = [p for p in self._params if p.stype != "default"]
        for p in sparse:
            if p.trainer is not None:
                raise HybridError(f"Parameter {p.name!r} is {p.stype}, and another Trainer keeps its value: use that")
        if sparse and wanted is False:
            raise AttributeValueError(f"update_on_kvstore=False is not possible with sparse parameters, such as "
                                      f"{sparse[0].name!r}")
        for p in sparse:
            p.trainer = self
        by_rows = any(p._grad_stype != "default" for p in self._params)
        self._reduces = self._reduces or bool(sparse)
        self._update_on_kvstore = (bool(sparse) or self._updates_on_store(wanted, by_rows)) if self._reduces else None

    def _row_sparse_pull(self, parameter: Parameter, out: Any, row_id: Any, full_idx: bool = False) -> None:
        """Under MXNet's name: rows of a row_sparse parameter into arrays."""
        self.stored.pull(parameter, out if isinstance(out, list) else [out], row_id)

    @property
    def _kvstore(self) -> KVStoreBase | None:
        """What programs find under MXNet's name: the store that brings devices together, with the updater when it
        updates weights."""
        if not self._reduces or self._own_store is not None:
            return self._own_store
        store = KVStore(self._kind) if self._ranks is None else self._ranks.store
        if self._update_on_kvstore:
            store._set_updater(self._updaters[0])
        return store

    def _updates_on_store(self, wanted: bool | None, by_rows: bool) -> bool:
        """Whether weights are updated once for all devices, in the store. by_rows: whether some gradients are
        sparse."""
        store = self._own_store if self._ranks is None else self._ranks
        able = store is None or store.is_capable(KVStoreBase.OPTIMIZER)
        if wanted and not able:
            raise ValueError(f"update_on_kvstore=True: a kvstore of type {getattr(store, 'type', '')!r} does "
                             "not update weights (its is_capable('optimizer') is False)")
        return able and not by_rows if wanted is None else bool(wanted)

    @property
    def _params_to_init(self) -> list[Parameter]:
        """Under MXNet's name: parameters whose values are still to come, with their shapes."""
        return [p for p in self._params if p._deferred is not None]

    def _init_params(self) -> None:
        """Under MXNet's name: the store holds no copies, so there is nothing to hand out."""

    def _init_kvstore(self) -> None:
        """Under MXNet's name: what comes before the first step."""
        self._begin()

    def _check_contexts(self) -> list[Context]:
        contexts: list[Context] | None = None
        for p in self._params:
            ctx = p.list_ctx()
            if contexts is not None and contexts != ctx:
                raise AttributeValueError(f"all parameters must be on the same devices: {p.name!r} is on {ctx}, "
                                          f"the ones before it on {contexts}")
            contexts = ctx
        return contexts or []

    def _init_optimizer(self, optimizer: Any, optimizer_params: dict[str, Any]) -> None:
        if not isinstance(optimizer_params, dict):
            raise AttributeValueError(f"optimizer_params must be a dict of arguments, got "
                                      f"{type(optimizer_params).__name__}")
        by_index = dict(enumerate(self._params))
        if isinstance(optimizer, opt.Optimizer):
            if optimizer_params:
                raise AttributeValueError("optimizer_params belong to an optimizer given by name; this one is an "
                                          "object already")
            self._optimizer = optimizer
            self._optimizer.param_dict = by_index
        else:
            self._optimizer = opt.create(optimizer, param_dict=by_index, **optimizer_params)
        self._updaters = [opt.get_updater(self._optimizer) for _ in range(max(len(self._contexts), 1))]

    def __repr__(self) -> str:
        return f"Trainer({len(self._params)} parameters, {self._optimizer!r})"

    # ---- learning rate
    @property
    def optimizer(self) -> opt.Optimizer:
        """The optimizer."""
        return self._optimizer

    @property
    def learning_rate(self) -> float:
        """The learning rate now."""
        return self._optimizer.learning_rate

    def set_learning_rate(self, lr: float) -> None:
        """Another learning rate; raises UserWarning when a scheduler decides it."""
        self._optimizer.set_learning_rate(lr)

    # ---- steps
    def step(self, batch_size: float, ignore_stale_grad: bool = False) -> None:
        """One update of all parameters, with gradients divided by batch_size; after ``backward``, outside of
        ``record``.

        A parameter whose gradient backward has not written since the last step raises StaleGradientError (a
        UserWarning), or is left out with ignore_stale_grad. Inside a hybridized function the update becomes part of the
        compiled program, and gradients are used up there without being written to memory.
        """
        if SCOPE.traces:
            return traced_step.step(self, batch_size, ignore_stale_grad)
        entrances.step(self, batch_size, ignore_stale_grad, self._step)

    def _step(self, batch_size: float, ignore_stale_grad: bool) -> None:
        self._rescale(batch_size)
        if self._again() or self._ranks is None and self._skips():
            return
        self._begin()
        work = self._work(ignore_stale_grad)
        if self._reduces:
            numbers = work[0] if self._update_on_kvstore else self._trained()
            self._reduce(numbers)
            if self._ranks is not None and self._skips([self._sums.totals[i] for i in numbers]):
                return
        self._update(work)

    def step_follows(self) -> str:
        """Why a step cannot be one program with forward and backward pass; nothing where it can."""
        if self._own_store is not None or len(self._contexts) > 1 or self._reduces and self._ranks is None:
            return "gradients go through a kvstore first"
        shares = "with shard_states each process updates its share of the states" if self._shards is not None else ""
        return shares or ("the optimizer draws random numbers" if self._optimizer.draws else "")

    def prepared(self) -> bool:
        """Whether the last step was one program, of every parameter that is trained."""
        return self._prepared is not None

    def allreduce_grads(self) -> None:
        """Add up the gradients of the devices, on each device. Then change them, if need be, and call ``update``."""
        pending.settle_for("gradients were added up", arrays_of(self._params))
        self._refuse_on_store("allreduce_grads")
        self._begin()
        if self._reduces:
            self._reduce(self._trained())

    def _begin(self) -> None:
        """Before the first step: the first device's values on all devices, running statistics too, as MXNet's store
        hands them out."""
        if self._own_store is not None and not self._kv_initialized:
            for i, p in enumerate(self._params):
                self._own_store.broadcast(i, p.list_data()[0], p.list_data())
            if self._update_on_kvstore:
                self._own_store.set_optimizer(self._optimizer)
        elif self._reduces and not self._kv_initialized:
            self._sums.first_values(self._optimizer)
        self._kv_initialized = True

    def _trained(self) -> list[int]:
        return [i for i, p in enumerate(self._params) if p.grad_req != "null"]

    def update(self, batch_size: float, ignore_stale_grad: bool = False) -> None:
        """``step`` without ``allreduce_grads``."""
        self._refuse_on_store("update")
        pending.settle_for("parameters were updated", arrays_of(self._params))
        if SCOPE.traces:
            return traced_step.step(self, batch_size, ignore_stale_grad)
        self._rescale(batch_size)
        scaled_on_ranks, skips = self._ranks is not None and self._amp_loss_scaler is not None, self._skips()
        if not (self._ranks.any(skips) if scaled_on_ranks else skips):
            self._begin()
            self._update(self._work(ignore_stale_grad))

    def _refuse_on_store(self, name: str) -> None:
        if self._update_on_kvstore:
            raise OrderError(f"{name}() has no meaning when weights are updated once for all devices: make the "
                             f"Trainer with update_on_kvstore=False")

    def _rescale(self, batch_size: float) -> None:
        try:
            self._optimizer.rescale_grad = self._scale / batch_size
        except (TypeError, ZeroDivisionError):
            raise AttributeValueError(f"batch_size must be a number other than 0, got {batch_size!r}") from None

    def _skips(self, sums: Sequence[Any] | None = None) -> bool:
        """Whether the scaler of the loss skips this step because a gradient overflowed. sums: gradients summed over the
        ranks, the same on all of them, to look at in place of this rank's own."""
        scaler = self._amp_loss_scaler
        return scaler is not None and (scaler.has_overflow(self._params) if sums is None else scaler.overflown(sums))

    def _again(self) -> bool:
        """The last step once more, if nothing but numbers has changed: the short way of a training loop."""
        if self._prepared is None or self._amp_loss_scaler is not None or self._reduces:
            return False
        step, slots = self._prepared
        updater = self._updaters[0]
        if step.optimizer is not updater.optimizer or not step.unchanged(updater.states):
            return False
        for x, slot in slots:
            if x._ag is not slot or not slot.fresh:
                return False
        step.optimizer._set_current_context(self._contexts[0].device_id)
        step.run()
        for _, slot in slots:
            slot.fresh = False
        return True

    def _remember(self, step: opt.Step | None) -> None:
        """Keep a step on one device that updated every parameter that is trained."""
        self._prepared = None
        if (step is not None and not step.once and len(self._contexts) == 1 and self._own_store is None
            and step.indices == self._trained()):
            self._prepared = step, [(w, w._ag) for w in step.weights if w._ag is not None]

    def _work(self, ignore_stale_grad: bool) -> list[list[int]]:
        """Numbers of the parameters to update, for each device."""
        out: list[list[int]] = [[] for _ in self._contexts]
        for i, p in enumerate(self._params):
            if p._grad_req == "null":
                continue
            arrays = p.arrays().values()
            for k, x in enumerate(arrays):
                if x._ag is not None and x._ag.fresh:
                    out[k].append(i)
                elif not ignore_stale_grad:
                    raise self.stale(p, x.ctx)
        if self._update_on_kvstore:
            fresh = set(out[0]).intersection(*out[1:])
            out = [[i for i in out[0] if i in fresh]]
        return out

    def stale(self, p: Parameter, where: Any = None) -> StaleGradientError:
        """The error for a parameter without a new gradient."""
        on = f" on {where}" if where is not None else ""
        return StaleGradientError(
            f"backward has not written the gradient of parameter {p.name!r}{on} since the last step (or not at all). "
            f"Either loss.backward() "
            "was not called, or the loss does not depend on this parameter; if that is meant, call step with "
            "ignore_stale_grad=True, "
            "which leaves such parameters as they are")

    def _reduce(self, numbers: Sequence[int]) -> None:
        """Add up gradients: into a buffer when weights are updated once, else on every device. A store of the user's
        does what it does."""
        if self._own_store is not None:
            for i in numbers:
                p = self._params[i]
                self._own_store.pushpull(i, p.list_grad(), priority=-i,
                                         **({"out": p.list_data()} if self._update_on_kvstore else {}))
            return
        self._sums.add(numbers, spread=not self._update_on_kvstore)

    def _update(self, work: Sequence[Sequence[int]]) -> None:
        if self._own_store is not None and self._update_on_kvstore:         # it wrote the weights already
            for i in work[0]:
                for x in self._params[i].list_data():
                    x._ag.fresh = False                      # type: ignore[union-attr]
            return
        for k, numbers in enumerate(work):
            if not numbers:
                continue
            every, numbers = numbers, numbers if self._shards is None else self._shards.own(numbers)
            arrays = [list(self._params[i]._data.values()) for i in numbers]        # type: ignore[union-attr]
            weights = [row[k] if row[k].stype == "default" else self.stored.of(self._params[i])
                       for i, row in zip(numbers, arrays)]
            grads = ([self._sums.totals[i] for i in numbers] if self._update_on_kvstore
                     else [w._ag.grad for w in weights])
            self._remember(self._updaters[k].update(list(numbers), grads, weights))
            if self._update_on_kvstore:
                for row in arrays:
                    for other in row[1:] if row[0].stype == "default" else ():
                        row[0].copyto(other)
            if self._shards is not None:
                self._shards.send(every)
            for i in every:
                row = list(self._params[i]._data.values())                          # type: ignore[union-attr]
                for x in row if self._update_on_kvstore else row[k:k + 1]:
                    x._ag.fresh = False

    # ---- files
    def save_states(self, fname: str | Path) -> None:
        """Save the optimizer's states, counts, hyperparameters and scheduler, and the loss scale after
        ``amp.init_trainer``; training goes on from them bit for bit.

        The file appears whole or not at all. Parameters are saved apart (``net.save_parameters``); lr_mult and wd_mult
        of Parameters are not saved. With ``shard_states`` all ranks must call it, each with a name.
        """
        pending.settle_for("a Trainer's states were saved", arrays_of(self._params))
        with self.whole_states():
            write_bytes(fname, self._updaters[0].get_states(dump_optimizer=True, loss_scaler=self._amp_loss_scaler))

    @contextmanager
    def whole_states(self) -> Iterator[None]:
        """Scope in which each rank has the states of all parameters, where they are shared out; all ranks enter it."""
        if self._shards is None or self._sharing:
            yield
            return
        updater, self._sharing = self._updaters[0], True
        try:
            updater.states.update(self._shards.whole(updater))
            yield
        finally:
            self._sharing = False
            self._shards.keep_own(updater)

    def load_states(self, fname: str | Path) -> None:
        """Load what ``save_states`` wrote, here or in MXNet 1.9.1 (its pickles are read as data; no code in them runs);
        the loss scale, if the file has one, goes to a Trainer that ``amp.init_trainer`` knows.

        FileFormatError, and nothing changed, when the file is damaged or of another optimizer.
        """
        pending.settle_for("a Trainer's states were loaded", arrays_of(self._params))
        data = Path(fname).read_bytes()
        for updater in self._updaters:
            updater.set_states(data, self._amp_loss_scaler)
            if self._shards is not None:
                self._shards.keep_own(updater)
        self._optimizer.param_dict = dict(enumerate(self._params))
