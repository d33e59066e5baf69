"""kvstores within one process: values by key; what is pushed is summed and assigned, or given to an updater."""
from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any, Callable

import numpy as np

from .. import optimizer as opt
from ..buffers.array import NDArray
from ..base.errors import AttributeValueError, HybridError
from ..nd.functions import resolve
from ..base.atomic import write_bytes

Updater = Callable[[Any, NDArray, NDArray], None]


class KVStoreBase:
    """What a store of one's own defines. Registered, it is made by ``create`` under its class's name.

    >>> @KVStoreBase.register
    ... class Mine(KVStoreBase):
    ...     pass
    >>> type(create("mine")).__name__
    'Mine'
    """

    OPTIMIZER = "optimizer"
    kv_registry: dict[str, type["KVStoreBase"]] = {}

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """Give the value to all workers, and write it to ``out``."""
        raise self._missing("broadcast")

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Sum the values of all workers and devices into ``out`` (into the values where there is none)."""
        raise self._missing("pushpull")

    def set_optimizer(self, optimizer: Any) -> None:
        """Let the store update weights."""
        raise self._missing("set_optimizer")

    def save_optimizer_states(self, fname: Any, dump_optimizer: bool = False) -> None:
        """Write the optimizer's states to a file."""
        raise self._missing("save_optimizer_states")

    def load_optimizer_states(self, fname: Any) -> None:
        """Read the optimizer's states from a file."""
        raise self._missing("load_optimizer_states")

    def is_capable(self, capability: str) -> bool:
        """Whether the store can do something: ``optimizer`` is that it updates weights."""
        raise self._missing("is_capable")

    def _missing(self, name: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} does not define {name}")

    @property
    def type(self) -> str:
        """The store's kind."""
        raise self._missing("type")

    @property
    def rank(self) -> int:
        """The number of this worker."""
        raise self._missing("rank")

    @property
    def num_workers(self) -> int:
        """How many workers there are."""
        raise self._missing("num_workers")

    @staticmethod
    def register(klass: builtins.type["KVStoreBase"]) -> builtins.type["KVStoreBase"]:
        """Decorator: ``create`` makes the class by its name in lower case."""
        KVStoreBase.kv_registry[klass.__name__.lower()] = klass
        return klass


class _OneWorker(KVStoreBase):
    """A store of one process."""

    @property
    def rank(self) -> int:
        """The number of this worker: 0, the only one."""
        return 0

    @property
    def num_workers(self) -> int:
        """One."""
        return 1


@KVStoreBase.register
class TestStore(_OneWorker):
    """A store that keeps nothing: ``broadcast`` copies, ``pushpull`` sums. For tests of code that takes any store."""

    __test__ = False                                         # no test case of pytest's

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        for target in out if isinstance(out, list) else [out]:
            target[:] = value

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        values = value if isinstance(value, list) else [value]
        total = values[0].copy()
        for v in values[1:]:
            total += v.as_in_context(total.context)
        self.broadcast(key, total, value if out is None else out)

    @staticmethod
    def is_capable(capability: str) -> bool:  # type: ignore[override]
        return _capable(capability, False)

    @property
    def type(self) -> str:
        return "teststore"


def _capable(capability: str, answer: bool) -> bool:
    if capability.lower() != KVStoreBase.OPTIMIZER:
        raise ValueError(f"Unknown capability: {capability}; known: {KVStoreBase.OPTIMIZER}")
    return answer


class KVStore(_OneWorker):
    """Values by key (all integers, or all strings).

    >>> from hybrid import nd
    >>> kv, out = create("local"), nd.zeros((2,))
    >>> kv.init("w", nd.ones((2,))); kv.push("w", [nd.ones((2,)), nd.ones((2,))]); kv.pull("w", out=out)
    >>> out.asnumpy().tolist()
    [2.0, 2.0]
    """

    def __init__(self, kind: str = "local"):
        self._kind = kind
        self._values: dict[Any, NDArray] = {}
        self._updater: Any = None

    @property
    def type(self) -> str:
        """The name it was made with."""
        return self._kind

    def is_capable(self, capability: str) -> bool:
        """Whether the store can do something: ``optimizer`` is that it updates weights. ValueError for what is not
        known."""
        return _capable(capability, True)

    def init(self, key: Any, value: Any) -> None:
        """First values; each key once."""
        for k, (v, *_) in _pairs(key, value):
            self._check_type(k)
            if k in self._values:
                raise HybridError(f"kvstore: key {k!r} is there already; init() takes each key once")
            self._values[k] = v.copy()

    def push(self, key: Any, value: Any, priority: int = 0) -> None:
        """Sum the values of each key; the sum takes the stored value's place, or goes to the updater with it."""
        for k, values in _pairs(key, value):
            stored = self._stored(k)
            total = self._added(values, stored.context)
            total = total.tostype(values[0].stype) if total.stype != values[0].stype else total
            if self._updater is not None:
                self._updater(k, total, stored)
            else:
                self._values[k] = total.copy() if total is values[0] else total

    def _added(self, values: Any, ctx: Any) -> Any:
        """The sum of arrays on several devices, on one."""
        total = values[0].as_in_context(ctx)
        for v in values[1:]:
            total = total + v.as_in_context(total.context)
        return total

    def pull(self, key: Any, out: Any = None, priority: int = 0, ignore_sparse: bool = True) -> None:
        """Copy the value of each key into ``out`` (an array or a list of arrays a key). ignore_sparse: sparse arrays
        stay as they are, as in MXNet; ``row_sparse_pull`` fills those."""
        assert out is not None, "pull needs out: the array, or arrays, to write to"
        for k, targets in _pairs(key, out):
            stored = self._stored(k)
            for t in targets:
                if t.stype == "default" or not ignore_sparse:
                    stored.copyto(t)

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """``push``, then ``pull`` into ``out`` (into the values where there is none)."""
        self.push(key, value, priority)
        self.pull(key, value if out is None else out, priority)

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """``init``, then ``pull``."""
        self.init(key, value)
        self.pull(key, out, priority)

    def row_sparse_pull(self, key: Any, out: Any = None, priority: int = 0, row_ids: Any = None) -> None:
        """Rows of row_sparse values into row_sparse arrays, which store these rows and no others then.

        row_ids: numbers of rows, an array for each array of ``out``, or one for all of them.
        """
        assert out is not None and row_ids is not None, "row_sparse_pull needs out and row_ids"
        every = [(k, t) for k, targets in _pairs(key, out) for t in targets]
        ids = _flat(row_ids)
        assert len(ids) in (1,
                            len(every)), f"row_sparse_pull: {len(ids)} arrays of row_ids for {len(every)} arrays in out; give one for each, or one for all"  # noqa: E501
        for n, (k, target) in enumerate(every):
            stored = self._stored(k)
            for x, what in ((stored, f"the value of key {k!r}"), (target, "an array in out")):
                if x.stype != "row_sparse":
                    raise AttributeValueError(f"row_sparse_pull: {what} is {x.stype}, expected row_sparse: use "
                                              f"pull(), or x.tostype('row_sparse')")
            numbers = ids[n if len(ids) > 1 else 0]
            resolve("nd", "sparse.retain")(stored, np.unique(numbers.asnumpy().astype(np.int64)), out=target)

    # ---- updating
    def set_optimizer(self, optimizer: Any) -> None:
        """Let an optimizer update the stored weights with the gradients that are pushed."""
        if not isinstance(optimizer, opt.Optimizer):
            raise TypeError(f"set_optimizer takes an Optimizer, got {builtins.type(optimizer).__name__}: make one "
                            f"with mx.optimizer.create")
        self._set_updater(opt.get_updater(optimizer))

    def _set_updater(self, updater: Updater) -> None:
        self._updater = updater

    set_updater = _set_updater

    def set_gradient_compression(self, compression_params: Any) -> None:
        """Refused: nothing is sent anywhere within one process."""
        raise HybridError(f"gradient compression is not supported for a kvstore of type {self._kind!r}: within one "
                          f"process nothing is sent")

    def save_optimizer_states(self, fname: Any, dump_optimizer: bool = False) -> None:
        """Save the states of the optimizer that was set."""
        assert self._updater is not None, "there is no optimizer whose states could be saved: call set_optimizer first"
        write_bytes(fname, self._updater.get_states(dump_optimizer))

    def load_optimizer_states(self, fname: Any) -> None:
        """Load what ``save_optimizer_states`` wrote."""
        assert self._updater is not None, "there is no optimizer to take the states: call set_optimizer first"
        self._updater.set_states(Path(fname).read_bytes())

    def _barrier(self) -> None:
        """Wait for the other workers: there are none."""

    # ---- keys
    def _check_type(self, key: Any) -> None:
        other = next(iter(self._values), key)
        if isinstance(other, str) != isinstance(key, str):
            raise HybridError(f"kvstore: keys are all numbers or all text; there is {other!r}, got {key!r}")

    def _stored(self, key: Any) -> Any:
        self._check_type(key)
        if key not in self._values:
            raise HybridError(f"kvstore: there is no key {key!r}: call init() first")
        return self._values[key]


def _pairs(keys: Any, values: Any) -> list[tuple[Any, list[NDArray]]]:
    """(key, arrays) for a key with an array or a list of them, or for lists of keys and of these."""
    if not isinstance(keys, (list, tuple)):
        keys, values = [keys], [values]
    if not isinstance(values, (list, tuple)) or len(values) % max(len(keys), 1):
        raise AttributeValueError(f"kvstore: {len(keys)} keys, but "
                                  f"{len(values) if isinstance(values, (list, tuple)) else 1} values")
    each = len(values) // max(len(keys), 1)
    groups = [values[i * each:(i + 1) * each] if each > 1 else values[i] for i in range(len(keys))]
    out = []
    for k, group in zip(keys, groups):
        arrays = list(group) if isinstance(group, (list, tuple)) else [group]
        if not isinstance(k, (str, int)) or not arrays or not all(isinstance(a, NDArray) for a in arrays):
            raise AttributeValueError(f"kvstore: keys are numbers or text and values arrays or lists of them, got "
                                      f"{k!r} with {group!r:.80}")
        out.append((k, arrays))
    return out


def _flat(row_ids: Any) -> list[NDArray]:
    """Arrays of row numbers from an array or (nested) lists of them."""
    if isinstance(row_ids, (list, tuple)):
        return [x for part in row_ids for x in _flat(part)]
    if not isinstance(row_ids, NDArray):
        raise AttributeValueError(f"row_sparse_pull: row_ids must be an array or a list of arrays, got "
                                  f"{type(row_ids).__name__}")
    return [row_ids]


__all__ = ["KVStore", "KVStoreBase", "TestStore"]
