"""The base of all optimizers: hyperparameters, multipliers, update counts, and the way from a rule to an update."""
from __future__ import annotations

from typing import Any, Callable, Hashable, Sequence, TypeVar

import numpy as np

from ..base import dtype as dt
from ..buffers.array import ZEROS, NDArray, wrap
from ..base.device import zeros
from ..base.errors import AttributeValueError, HybridError, warn_user
from ..base.names import among, nearest
from ..graph.traced_number import of_this_call, set_at_each_call
from ..ir import Node, Program
from .program import Row, Scalars, build, ignores_index, numbers_of_all
from . import rows
from .step import flat

LOW = ("float16", "bfloat16")


def zeros_like(weight: NDArray, dtype: Any = None, stype: str = "default") -> Any:
    """Zeros in a weight's shape and device, in its dtype or another, of a storage type."""
    kind = np.dtype(weight.dtype if dtype is None else dtype)
    return ZEROS[0](stype, weight.shape, weight._ctx,
                    kind) if stype != "default" else wrap(zeros(weight.shape, kind, weight._ctx), weight._ctx)


def wide_zeros_like(weight: NDArray, stype: str = "default") -> Any:
    """Zeros in float32, also for a weight in float16 (float64 for float64)."""
    return zeros_like(weight, dt.float64 if weight.dtype == dt.float64 else dt.float32, stype)


Kind = TypeVar("Kind", bound="Optimizer")


class Optimizer:
    """Base class of the optimizers.

    rescale_grad: factor of every gradient (a Trainer sets it to 1 / batch size). param_idx2name: names by index, for
    multipliers by name; parameters whose names end neither in ``_weight`` nor in ``_gamma`` then get no weight decay.
    wd:
    weight decay. clip_gradient: gradients are clipped to [-clip_gradient, clip_gradient]; None, 0 and negative numbers
    mean no clipping. learning_rate: default 0.01; with an lr_scheduler it becomes that one's base. sym: a Symbol whose
    variables' ``__lr_mult__`` and ``__wd_mult__`` count. begin_num_update: number of updates already done.
    multi_precision:
    float16 (and bfloat16) weights are updated in a float32 copy. param_dict: Parameters by index, whose lr_mult and
    wd_mult count.

    **Writing an optimizer.** The update of one parameter is said once, as a function of nodes of :mod:`hybrid.ir`; it
    is then compiled for all parameters together. ``shared`` names attributes that the rule reads as numbers,
    ``scalars`` numbers that differ between parameters (:meth:`numbers` gives them). Anything else that the rule depends
    on is part of
    :meth:`flags`.

    >>> @Optimizer.register
    ... class Halving(Optimizer):
    ...     shared = (*Optimizer.shared, "decay")
    ...     def __init__(self, decay=0.5, **kwargs):
    ...         super().__init__(**kwargs)
    ...         self.decay = decay
    ...     def rule(self, w, g, states, s):
    ...         return w * s.decay - s.gradient(g) * s.lr, []

    An optimizer in MXNet's way, which overrides ``create_state`` and ``update(index, weight, grad, state)`` and changes
    the arrays itself, works too.
    """
    opt_registry: dict[str, type["Optimizer"]] = {}
    shared: tuple[str, ...] = ("rescale_grad", "clip_gradient")
    scalars: tuple[str, ...] = ("lr", "wd")
    draws = False                                     # whether the rule draws random numbers
    master_last = False                               # multi_precision states: (state, copy), else (copy, state)
    aggregate_num = 0
    takes_lists = False                               # whether an overridden update_multi_precision takes lists
    rowwise = False                                   # whether the rule treats each row of a weight by itself
    sparse_states = False                             # whether states have the weight's storage type

    def __init__(self, rescale_grad: float = 1.0, param_idx2name: dict[Any, str] | None = None, wd: float = 0.0,
                 clip_gradient: float | None = None,
                 learning_rate: float | None = None, lr_scheduler: Any = None, sym: Any = None,
                 begin_num_update: int = 0,
                 multi_precision: bool = False, param_dict: dict[Any, Any] | None = None, **unknown: Any):
        if unknown:
            takes = _arguments(type(self))
            raise AttributeValueError(f"{type(self).__name__} has no argument "
                                      f"{', '.join(repr(name) + nearest(name, takes) for name in unknown)}; it takes "
                                      f"{', '.join(takes)}")
        for name, value in (("learning_rate", learning_rate), ("wd", wd), ("rescale_grad", rescale_grad),
                            ("clip_gradient", clip_gradient)):
            _check_number(type(self).__name__, name, value)
        if param_idx2name is not None and not isinstance(param_idx2name, dict):
            raise AttributeValueError(f"param_idx2name must be a dict from index to name, got "
                                      f"{type(param_idx2name).__name__}")
        self.rescale_grad, self.wd, self.clip_gradient, self.multi_precision = rescale_grad, wd, clip_gradient, bool(
                multi_precision)
        self.lr_scheduler = lr_scheduler
        self.lr = 0.01 if learning_rate is None and lr_scheduler is None else learning_rate
        if lr_scheduler is not None and learning_rate is not None and lr_scheduler.base_lr != learning_rate:
            warn_user(f"{type(self).__name__}'s learning_rate {learning_rate} (given, or its default) replaces the "
                      f"base_lr {lr_scheduler.base_lr} of the lr_scheduler: give the optimizer that learning_rate "
                      f"to keep it")
            lr_scheduler.base_lr = learning_rate
        self.begin_num_update = self.num_update = begin_num_update
        self._all_index_update_counts: dict[int, dict[Any, int]] = {0: {}}
        self._index_update_count = self._all_index_update_counts[0]
        self.idx2name = dict(param_idx2name or {})
        self.sym_info: Any = (sym.attr_dict(), sym.list_arguments()) if sym is not None else ()
        self.param_dict = param_dict if param_dict else {}
        self._programs: dict[Any, Program] = {}
        self.lr_mult: dict[Any, float] = {}
        self.wd_mult: dict[Any, float] = {}
        self.set_lr_mult({})
        self.set_wd_mult({})

    def __repr__(self) -> str:
        return f"{type(self).__name__}(learning_rate={self.lr}, wd={self.wd})"

    def __getstate__(self) -> dict[str, Any]:
        # parameters are shared, programs are made again
        return {**self.__dict__, "param_dict": {}, "_programs": {}}

    # ---- registry
    @staticmethod
    def register(klass: type[Kind]) -> type[Kind]:
        """Make an optimizer class known to :meth:`create_optimizer` by its name in lower case. A decorator."""
        name = klass.__name__.lower()
        old = Optimizer.opt_registry.get(name)
        if old is not None:
            warn_user(f"optimizer {klass.__module__}.{klass.__name__} replaces {old.__module__}.{old.__name__}")
        Optimizer.opt_registry[name] = klass
        return klass

    @staticmethod
    def create_optimizer(name: str, **kwargs: Any) -> "Optimizer":
        """An optimizer by name (upper or lower case), with the arguments of its class.

        >>> Optimizer.create_optimizer("sgd", learning_rate=0.1).learning_rate
        0.1
        """
        if isinstance(name, Optimizer):
            return name
        found = Optimizer.opt_registry.get(str(name).lower())
        if found is None:
            raise AttributeValueError(f"unknown optimizer {among(name, Optimizer.opt_registry)}")
        return found(**kwargs)

    # ---- what a subclass says
    def rule(self, w: Node, g: Node, states: list[Node], s: Scalars) -> tuple[Node, Sequence[Node]]:
        """New weight and states from weight, gradient and states (float32 nodes, or float64), with the numbers
        ``s``."""
        raise NotImplementedError(f"{type(self).__name__} must define rule(w, g, states, s), or update(index, weight, "
                                  f"grad, state)")

    @ignores_index
    def numbers(self, index: Any, lr: float, wd: float, t: int) -> tuple[float, ...]:
        """The numbers of one parameter at its update number t (1, 2, ...), in the order of ``scalars``."""
        return lr, wd

    def flags(self) -> tuple[Hashable, ...]:
        """What changes the form of the rule: another value compiles another program."""
        return (self.clips(),)

    def form(self, index: Any) -> Hashable:
        """What changes the form of the rule for one parameter alone; the rule finds it in ``s.form``."""
        return None

    def is_lazy(self, index: Any, weight: Any, grad: Any, multi_precision: bool = False) -> bool:
        """Whether rows without a gradient are left alone, as MXNet does where a gradient is row_sparse: the array
        given, or a Parameter's ``grad_stype`` (``nn.Embedding(sparse_grad=True)``). Weights with a float32 copy are
        updated whole by optimizers with ``master_last`` (SGD, NAG, ...), as in MXNet."""
        sparse = "row_sparse" in (grad.stype, getattr(self.param_dict.get(index), "_grad_stype", None))
        whole = self.master_last and multi_precision and self.low_precision(weight)
        return sparse and self.lazy(index, weight) and not whole

    def lazy(self, index: Any, weight: Any) -> bool:
        """Whether a row_sparse gradient updates its own rows alone: ``lazy_update`` of the optimizers that have it."""
        return bool(getattr(self, "lazy_update", False))

    def state_stype(self, weight: Any) -> str:
        """The storage type of states."""
        return weight.stype if getattr(self, "lazy_update", self.sparse_states) else "default"

    def clips(self) -> bool:
        """Whether gradients are clipped."""
        return self.clip_gradient is not None and self.clip_gradient > 0

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """States of a weight: None, an array, or a tuple of them (None stays None inside)."""
        return None

    # ---- states with a float32 copy
    def low_precision(self, weight: NDArray) -> bool:
        """Whether a weight is updated in a float32 copy."""
        return self.multi_precision and np.dtype(weight.dtype).name in LOW

    def create_state_multi_precision(self, index: Any, weight: NDArray) -> Any:
        """States of a weight, with its float32 copy where multi_precision asks for one."""
        if self.low_precision(weight):
            copy = weight.astype("float32")
            state = self.create_state(index, copy)
            return (state, copy) if self.master_last else (copy, state)
        if np.dtype(weight.dtype).name in LOW:
            warn_user(f"{type(self).__name__} accumulates in {weight._data.dtype.name}, which is coarse: consider "
                      f"multi_precision=True")
        return self.create_state(index, weight)

    def states_of(self, weight: NDArray, state: Any, master: bool) -> list[NDArray]:
        """The arrays of a state in the order of the program: those of create_state, then the float32 copy."""
        if not master:
            return flat(state)
        inner, copy = self.parted_state(state)
        return [*flat(inner), copy]

    def parted_state(self, state: Any) -> tuple[Any, NDArray]:
        """A state with a float32 copy as two: what ``create_state`` gave, and the copy."""
        if not isinstance(state, (tuple, list)) or len(state) != 2:
            raise HybridError("multi_precision needs the states that create_state_multi_precision gave, a pair with a "
                              "float32 copy of the weight")
        inner, copy = state if self.master_last else reversed(state)
        return inner, copy

    # ---- updates
    def is_compiled(self) -> bool:
        """Whether updates are programs made from ``rule`` (not so when a subclass overrides ``update`` in MXNet's
        way)."""
        own = type(self)
        return (own.update is Optimizer.update and own.update_multi_precision is Optimizer.update_multi_precision
                and own.rule is not Optimizer.rule)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Update a weight (in place) from its gradient; lists of all four update many in one program.

        index: what names the parameter in counts and multipliers. state: from ``create_state``, changed in place.
        """
        self._run(index, weight, grad, state, False)

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """As :meth:`update`, with states from ``create_state_multi_precision``."""
        own = type(self)
        if own.update is Optimizer.update:
            self._run(index, weight, grad, state, True)
        elif isinstance(index, (list, tuple)):
            for row in zip(index, weight, grad, state):
                self.update_multi_precision(*row)
        elif self.low_precision(weight):
            inner, copy = self.parted_state(state)
            self.update(index, copy, grad.astype("float32"), inner)
            weight[:] = copy.astype(weight.dtype)
        else:
            self.update(index, weight, grad, state)

    def _run(self, index: Any, weight: Any, grad: Any, state: Any, multi_precision: bool) -> None:
        if not isinstance(index, (list, tuple)):
            index, weight, grad, state = [index], [weight], [grad], [state]
        rows.update(self, index, weight, grad, state, multi_precision)

    def program(self, parameters: Sequence[Row]) -> Program:
        """The program for parameters described by rows, made once."""
        key = (self.flags(), *parameters)
        if key not in self._programs:
            self._programs[key] = build(self, parameters)
        return self._programs[key]

    def advance(self, indices: Sequence[Any]) -> list[float]:
        """Count an update of some parameters; all numbers of the program, in its order."""
        self._update_count(indices)
        return self.gather(indices, self._rates(indices), self._get_wds(indices))

    def _rates(self, indices: Sequence[Any]) -> list[float]:
        """The learning rates; asked for one by one where a subclass has its own ``_get_lr``, or counts on one index a
        call (aggregate_num = 1)."""
        if type(self)._get_lr is not Optimizer._get_lr:
            return [self._get_lr(i) for i in indices]
        rates = self._get_lrs(indices)
        return rates if len(rates) == len(indices) else [self._get_lrs([i])[0] for i in indices]

    def gather(self, indices: Sequence[Any], lrs: Sequence[float], wds: Sequence[float]) -> list[float]:
        """The shared numbers, then those of each parameter."""
        out = self.common()
        times = [self._index_update_count[i] for i in indices]
        try:
            return out + numbers_of_all(self.numbers, indices, lrs, wds, times)
        except (ZeroDivisionError, OverflowError) as err:
            said = ", ".join(f"{n}={getattr(self, n, None)}" for n in self.shared)
            raise AttributeValueError(f"{type(self).__name__}: the update cannot be computed with {said} ({err})") from None  # noqa: E501

    def common(self) -> list[float]:
        """The numbers that all parameters share."""
        try:
            return [float(getattr(self, n) or 0.0) for n in self.shared]
        except (TypeError, ValueError):
            for n in self.shared:
                _check_number(type(self).__name__, n, getattr(self, n))
            raise

    # ---- counts
    def _set_current_context(self, device_id: int) -> None:
        """Count from now on for the parameters' copies on one device."""
        self._index_update_count = self._all_index_update_counts.setdefault(device_id, {})

    def _update_count(self, index: Any) -> None:
        counts = self._index_update_count
        for i in index if isinstance(index, (list, tuple)) else (index,):
            n = counts[i] = counts.get(i, self.begin_num_update) + 1
            if n > self.num_update:
                self.num_update = n

    # ---- learning rates and weight decays
    @property
    def learning_rate(self) -> Any:
        """The learning rate now."""
        return self.lr if self.lr_scheduler is None else self.lr_scheduler(self.num_update)

    def set_learning_rate(self, lr: float) -> None:
        """Another learning rate; raises UserWarning when a scheduler decides it."""
        if self.lr_scheduler is not None:
            raise UserWarning("the learning rate comes from the lr_scheduler of this optimizer, so it cannot be set; "
                              "change the scheduler's base_lr")
        given = of_this_call(lr)
        _check_number(type(self).__name__, "learning_rate", given)
        set_at_each_call(self, "lr", lr)

    def set_lr_scale(self, args_lrscale: Any) -> None:
        """MXNet's old name; raises DeprecationWarning as there."""
        raise DeprecationWarning("use set_lr_mult")

    def set_lr_mult(self, args_lr_mult: dict[Any, float]) -> None:
        """Factors of the learning rate, by name (with ``sym`` or ``param_idx2name``) or by index."""
        self.lr_mult = {**self._from_symbol("__lr_mult__"), **args_lr_mult}

    def set_wd_mult(self, args_wd_mult: dict[Any, float]) -> None:
        """Factors of the weight decay, by name or by index; 0 for named parameters that are no ``_weight`` or
        ``_gamma``."""
        none = {n: 0.0 for n in self.idx2name.values() if not self._decays(n)}
        self.wd_mult = {**none, **self._from_symbol("__wd_mult__"), **args_wd_mult}

    def _decays(self, name: str) -> bool:
        return name.endswith(("_weight", "_gamma"))

    def _from_symbol(self, attribute: str) -> dict[str, float]:
        if not self.sym_info:
            return {}
        attrs, names = self.sym_info
        found = {n: attrs[n][attribute] for n in names if attribute in attrs.get(n, {})}
        return {name: _factor(name, attribute, text) for name, text in found.items()}

    def _multiplied(self, value: float, indices: Sequence[Any], table: dict[Any, float], attribute: str) -> list[float]:
        params, names = self.param_dict, self.idx2name
        out = []
        for i in indices:
            if i in params:
                out.append(value * getattr(params[i], attribute))
            elif i in table:
                out.append(value * table[i])
            elif i in names:
                out.append(value * table.get(names[i], 1.0))
            else:
                out.append(value)
        return out

    def _get_lrs(self, indices: Sequence[Any]) -> list[float]:
        return self._multiplied(self.learning_rate, indices, self.lr_mult, "lr_mult")

    def _get_lr(self, index: Any) -> float:
        return self._get_lrs([index])[0]

    def _get_wds(self, indices: Sequence[Any]) -> list[float]:
        return self._multiplied(self.wd, indices, self.wd_mult, "wd_mult")

    def _get_wd(self, index: Any) -> float:
        return self._get_wds([index])[0]


def _check_number(owner: str, name: str, value: Any) -> None:
    if value is None:
        return
    try:
        float(value)
    except (TypeError, ValueError):
        raise AttributeValueError(f"{owner}: {name} must be a number, got {value!r}") from None


def _factor(name: str, attribute: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise AttributeValueError(f"the symbol's variable {name!r} has {attribute} = {text:.80}, expected a number") from None  # noqa: E501


def _arguments(cls: type) -> list[str]:
    """Names of all arguments of an optimizer class and its bases."""
    out: dict[str, None] = {}
    for c in cls.__mro__:
        code = getattr(c.__dict__.get("__init__"), "__code__", None)
        out.update(dict.fromkeys(code.co_varnames[1:code.co_argcount] if code else ()))
    return list(out)


register = Optimizer.register
create: Callable[..., Optimizer] = Optimizer.create_optimizer
