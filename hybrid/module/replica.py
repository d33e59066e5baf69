"""A Symbol's arrays on one device, and an executor for each set of input shapes that share the parameters."""
from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np

from ..buffers.array import ZEROS, NDArray, wrap, zeros_like
from ..base.device import Context, zeros
from ..base.errors import ShapeError
from ..mxnet.executor import Executor
from ..mxnet.binding import devices_of, storage
from ..graph.symbol import Symbol

Shapes = Mapping[str, tuple[int, ...]]


class Replica:
    """``params``, ``aux`` and ``grads`` by name; ``executor``, the one of the last ``prepare``.

    inputs: names of arguments that a batch fills, which differ between executors. reqs: gradient request of every
    argument. shared: another replica on the same device, whose parameters are used. group2ctx: devices by
    ``ctx_group``, see ``simple_bind``.
    """

    def __init__(self, symbol: Symbol, ctx: Context, inputs: Sequence[str], reqs: Mapping[str, str],
                 shared: "Replica | None" = None,
                 group2ctx: Mapping[str, Context] | None = None):
        self._groups, self._places = dict(group2ctx or {}), devices_of(symbol, ctx, group2ctx)
        self.symbol, self.ctx, self.reqs = symbol, ctx, dict(reqs)
        self._inputs = frozenset(inputs)
        self.params: dict[str, NDArray] = {}
        self.aux: dict[str, NDArray] = {}
        self.grads: dict[str, NDArray] = {}
        self._shared = shared
        self._executors: dict[Any, Executor] = {}
        self.executor: Any = None

    def prepare(self, shapes: Shapes, types: Mapping[str, Any]) -> Executor:
        """The executor for inputs of these shapes and dtypes, made when it is first asked for."""
        key = tuple(sorted((n, tuple(s), np.dtype(types[n]).str) for n, s in shapes.items()))
        if key not in self._executors:
            self._executors[key] = self._bind(shapes, types)
        self.executor = self._executors[key]
        return self.executor

    def _bind(self, shapes: Shapes, types: Mapping[str, Any]) -> Executor:
        symbol = self.symbol
        known = symbol.infer_shape(**shapes)
        if known[0] is None:
            partly = dict(zip(symbol.list_arguments(), symbol.infer_shape_partial(**shapes)[0]))
            raise ShapeError(f"the input shapes {dict(shapes)} do not tell the shape of "
                             f"{', '.join(n for n, s in partly.items() if not s or 0 in s)}: "
                             "give its shape too (label_shapes), or in sym.var(name, shape=...)")
        dtypes, (stypes, kinds) = symbol._types(**types), storage(symbol)
        arguments, states = symbol.list_arguments(), symbol.list_auxiliary_states()
        args, grads = {}, {}
        for name, shape, dtype in zip(arguments, known[0], dtypes[0] or [np.float32] * len(arguments)):
            if name in self._inputs:
                args[name] = self._blank(name, shape, dtype, stypes.get(name, "default"))
                if self.reqs[name] != "null":
                    grads[name] = zeros_like(args[name], "default")
            else:
                args[name] = self._parameter(name, shape, dtype, stypes.get(name, "default"),
                                             kinds.get(name, "default"))
                if name in self.grads:
                    grads[name] = self.grads[name]
        for name, shape, dtype in zip(states, known[2], dtypes[2] or [np.float32] * len(states)):
            if name not in self.aux:
                old = self._shared.aux.get(name) if self._shared else None
                self.aux[name] = old if old is not None else self._blank(name, shape, dtype)
            self._check(name, self.aux[name], shape)
        return Executor(symbol, self.ctx, args, grads, self.reqs, {n: self.aux[n] for n in states}, self._groups)

    def _parameter(self, name: str, shape: Any, dtype: Any, stype: str, grad_stype: str) -> NDArray:
        if name not in self.params:
            old = self._shared.params.get(name) if self._shared else None
            self.params[name] = old if old is not None else self._blank(name, shape, dtype, stype)
            if self.reqs[name] != "null":
                grad = self._shared.grads.get(name) if old is not None and self._shared else None
                self.grads[name] = grad if grad is not None else zeros_like(self.params[name], grad_stype)
        self._check(name, self.params[name], shape)
        return self.params[name]

    def _check(self, name: str, array: NDArray, shape: Any) -> None:
        if array.shape != tuple(shape):
            raise ShapeError(f"{name!r} has the shape {array.shape}, with these inputs it would need {tuple(shape)}: "
                             f"a parameter cannot depend on the input's size")

    def _blank(self, name: str, shape: Any, dtype: Any, stype: str = "default") -> NDArray:
        where = self._places.get(name, self.ctx)
        if stype != "default":
            return ZEROS[0](stype, shape, where, dtype)                     # type: ignore[no-any-return]
        return wrap(zeros(shape, dtype, where), where)
