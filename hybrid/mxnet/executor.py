"""Running a Symbol on arrays: ``Symbol.eval``, ``bind`` and ``simple_bind`` with MXNet's ``Executor``."""
from __future__ import annotations

from typing import Any, Mapping, Sequence

from .. import autograd, runtime
from ..buffers import tape
from ..buffers.array import NDArray, array, wrap, zeros_like
from ..buffers.moving import copied
from ..base.device import Context, current_context, refuse_apart, zeros
from ..autograd.dispatch import apply_program
from ..base.errors import AttributeValueError, HybridError, ShapeError, user_location
from ..nd.functions import resolve
from ..passes.differentiate import heads_read
from ..graph.lower import lower
from ..base.rng import get_state, next_key, set_state
from ..graph.inference import shapes_of
from ..graph.symbol import Symbol
from ..graph.symbol_inference import refuse_several_shapes
from ..graph.symnode import CONCRETE, SymNode
from .inspection import Call, calls_of, gradients_inside, values_inside

import numpy as np
from .binding import _by_name, _may_be_sparse, _requests, devices_of, storage


class Executor:
    """A Symbol bound to arrays: ``forward`` and ``backward``, compiled once for prediction and once for training.

    ``arg_dict``, ``grad_dict``, ``aux_dict``, ``outputs`` (also as lists: ``arg_arrays``, ``grad_arrays``,
    ``aux_arrays``).

    >>> y = sym.var('x') * 2
    >>> y.bind(cpu(), {'x': nd.ones((2,))}).forward()[0].asnumpy().tolist()
    [2.0, 2.0]
    """

    def __init__(self, symbol: Symbol, ctx: Context, args: Mapping[str, NDArray], grads: Mapping[str, NDArray],
                 reqs: Mapping[str, str], aux: Mapping[str, NDArray],
                 group2ctx: Mapping[str, Context] | None = None):
        self._symbol, self._ctx = symbol, ctx
        groups = self._groups = dict(group2ctx or {})
        # of the outputs
        self._places = [groups.get(n.extra.get("__ctx_group__", ""), ctx)
                        for n, _ in symbol.entries] if groups else None
        self.arg_dict, self.aux_dict = dict(args), dict(aux)
        self.grad_dict: dict[str, Any] = {n: grads.get(n) for n in args}
        self._reqs = dict(reqs)
        self._results: list[NDArray] | None = None          # of the newest run, on the tape if it was recorded
        self._outputs: list[NDArray] | None = None          # the arrays that every forward writes
        self._monitor: tuple[Any, bool] | None = None
        self._calls: list[Call] = []                        # what a monitor saw of the newest run
        self._programs: dict[Any, Any] = {}
        self._newest: Any = None                            # the program of the newest run
        wrong = next((r for r in self._reqs.values() if r not in ("write", "add", "null")), None)
        if wrong is not None:
            raise AttributeValueError(f"grad_req must be write, add or null, got {wrong!r}")
        self._refuse_apart(args, aux)
        self._slots = {n: tape.Slot(grad=g, req=self._reqs[n])
                       for n, g in self.grad_dict.items() if g is not None and self._reqs.get(n, "null") != "null"}
        self._recorded = False
        self._by_storage = resolve("nd", "sparse.by_storage")(symbol,
                                                              {n: x.stype
                                                               for n, x in args.items()}) if _may_be_sparse(symbol,
                args) else False

    def _refuse_apart(self, args: Mapping[str, NDArray], aux: Mapping[str, NDArray]) -> None:
        """DeviceError for arrays elsewhere than where the program runs, and gradients elsewhere than their arrays."""
        for n, x in ({} if self._groups else {**args, **aux}).items():
            refuse_apart(f"bind: the executor and its array {n!r}", self._ctx, x._ctx)
        for n, g in self.grad_dict.items():
            if g is not None:
                refuse_apart(f"bind: {n!r} and its gradient", args[n]._ctx, g._ctx)

    @property
    def arg_arrays(self) -> list[NDArray]:
        """Arguments in the Symbol's order."""
        return list(self.arg_dict.values())

    @property
    def grad_arrays(self) -> list[Any]:
        """Gradients in the order of the arguments, None where there is none."""
        return [self.grad_dict.get(n) for n in self.arg_dict]

    @property
    def aux_arrays(self) -> list[NDArray]:
        """Auxiliary states in the Symbol's order."""
        return list(self.aux_dict.values())

    @property
    def outputs(self) -> list[NDArray]:
        """The arrays that every ``forward`` writes its results into; zeros before the first."""
        if self._outputs is None:
            shapes = self._symbol.infer_shape(**{n: a.shape for n, a in {**self.arg_dict, **self.aux_dict}.items()})[1]
            types = self._symbol._types(**{n: a.dtype for n, a in {**self.arg_dict, **self.aux_dict}.items()})[1]
            if shapes is None or types is None:
                return []
            self._outputs = [wrap(zeros(s, t, c), c)
                             for s, t, c in zip(shapes, types, self._places or [self._ctx] * len(shapes))]
        return self._outputs

    def _publish(self) -> None:
        """The results of a run in the arrays of ``outputs``: who holds one of them, or a view of it, sees the new
        contents."""
        assert self._results is not None
        held = self._outputs or []
        fits = len(held) == len(self._results) and all(
            o.shape == r.shape and o.dtype == r.dtype and o.stype == r.stype for o, r in zip(held, self._results))
        if not fits:
            places = self._places or [r._ctx for r in self._results]
            self._outputs = [wrap(copied(r._data, c), c, type(r)) if r.stype == "default" else r.copy()
                             for r, c in zip(self._results, places)]
            return
        for target, result in zip(held, self._results):
            if result.stype == "default":
                target._write(result._data)
            else:
                target[:] = result

    def set_monitor_callback(self, callback: Any, monitor_all: bool = False) -> None:
        """Call ``callback(name, array)`` after each ``forward`` for every operator's output, with monitor_all for its
        inputs too, and after each ``backward`` for every operator's gradients of its inputs.

        A compiled program keeps no values inside: the graph is run again, operator by operator.
        """
        self._monitor = (callback, monitor_all)

    def get_optimized_symbol(self) -> Symbol:
        """The Symbol: what is compiled of it is in ``net.report()`` of a SymbolBlock."""
        return self._symbol

    def debug_str(self) -> str:
        """The graph as text."""
        return self._symbol.debug_str()

    def _report(self, train: bool, state: tuple[int, int]) -> None:
        """Values inside of the graph, to the monitor. state: of the random generator before the run."""
        assert self._monitor is not None
        callback, everything = self._monitor
        now = get_state()
        set_state(state)
        self._calls = calls_of(self._symbol, {**self.arg_dict, **self.aux_dict}, train)
        set_state(now)
        for name, x in values_inside(self._calls, everything):
            callback(name, x)

    @property
    def output_dict(self) -> dict[str, NDArray]:
        """The last results by output name."""
        return dict(zip(self._symbol.list_outputs(), self.outputs))

    def forward(self, is_train: bool = False, **kwargs: Any) -> list[NDArray]:
        """Run; ``kwargs``: new contents of arguments. With ``is_train`` it can be followed by ``backward``."""
        for name, value in kwargs.items():
            if name not in self.arg_dict:
                raise AttributeValueError(f"forward: the graph has no argument {name!r}; it has "
                                          f"{', '.join(self.arg_dict)}")
            if not hasattr(value, "shape"):
                raise AttributeValueError(f"forward: argument {name!r} must be an array, got {type(value).__name__}")
            if tuple(value.shape) != self.arg_dict[name].shape:
                raise ShapeError(f"forward: argument {name!r} was bound with shape {self.arg_dict[name].shape}, got "
                                 f"{tuple(value.shape)}: bind again, or use reshape()")
            self.arg_dict[name][:] = value
        state = get_state()
        self._run(bool(is_train), bool(is_train))
        self._publish()
        if self._monitor is not None:
            self._report(bool(is_train), state)
        return self.outputs

    def _run(self, train: bool, record: bool) -> None:
        arrays = [*(self._handle(n, x) for n, x in self.arg_dict.items()), *self.aux_dict.values()]
        if self._by_storage:
            with tape.flags(record, train):
                self._results = resolve("nd", "sparse.evaluate")(self._symbol,
                                                                 dict(zip([*self.arg_dict, *self.aux_dict], arrays)),
                                                                 train)
            self._recorded = record
            return
        program, draws = self._program(arrays, train)
        self._newest = program
        if draws:
            arrays.append(wrap(array(next_key(draws), self._ctx, np.uint32)._data, self._ctx))
        with tape.flags(record, train):
            self._results = apply_program(program, arrays, lambda p, raw: runtime.run(p, self._ctx, raw))
        self._recorded = record

    def _handle(self, name: str, x: NDArray) -> NDArray:
        """The argument with the gradient that this executor collects; other executors, or ``attach_grad``, may have
        others for the same array."""
        if x.stype != "default" and self._by_storage:
            return resolve("nd", "sparse.handle")(x, self._slots.get(name))
        if x.stype != "default":                                       # programs compute with dense arrays
            x = x.tostype("default")
        if name not in self._slots:
            return wrap(x._data, x._ctx, type(x)) if x._ag is not None else x
        handle = wrap(x._data, x._ctx, type(x))
        handle._ag = self._slots[name]
        return handle

    def _program(self, arrays: Sequence[NDArray], train: bool) -> Any:
        key = train, tuple((a.shape, a._data.dtype) for a in arrays)
        if key not in self._programs:
            nodes = {n.name: n for n in self._symbol.nodes() if n.opdef is None}
            stand_ins = {}
            for name, a in zip([*self.arg_dict, *self.aux_dict], arrays):
                node = SymNode(None, name, None, ())
                node.holder, node.info = CONCRETE, [(a.shape, a._data.dtype)]
                stand_ins[name] = node
            replaced: dict[str, Any] = {name: Symbol([(stand_ins[name], 0)]) for name in nodes}
            typed = self._symbol(**replaced)
            self._programs[key] = lower(typed, list(stand_ins.values()), train)
        return self._programs[key]

    def backward(self, out_grads: Any = None, is_train: bool = True) -> None:
        """Gradients of the last ``forward`` into ``grad_dict``. After a forward that was not for training it is run
        again, recorded.

        out_grads: an array, a list or a dict by output; those behind the last output are not used. is_train: MXNet's;
        the mode is that of ``forward``.
        """
        if not self._slots:
            return
        if not self._recorded:
            self._run(False, True)
        assert self._results is not None
        if isinstance(out_grads, Mapping):
            out_grads = [out_grads[n] for n in self._symbol.list_outputs()]
        grads = [out_grads] if isinstance(out_grads, NDArray) else out_grads
        if grads is None:
            self._refuse_missing_heads()
        # it may be called again
        autograd.backward(self._results, list(grads)[:len(self._results)] if grads is not None else None,
                          retain_graph=True)
        if self._monitor is not None:
            heads = list(grads)[:len(self._results)] if grads is not None else [None] * len(self._results)
            for name, x in gradients_inside(self._symbol, self._calls, heads, frozenset(self._slots)):
                self._monitor[0](name, x)

    def _refuse_missing_heads(self) -> None:
        """HybridError if ``backward`` needs gradients of the outputs: of losses it needs none, nor of custom operators
        that do not read theirs."""
        own_losses = any(n.opdef is not None and n.opdef.name == "Custom" for n in self._symbol.nodes())
        if self._by_storage or own_losses or self._newest is None:
            return
        wrt = tuple(i for i, n in enumerate(self.arg_dict) if n in self._slots)
        names = [n for n, r in zip(self._symbol.list_outputs(), heads_read(self._newest, wrt)) if r]
        if names:
            raise HybridError(f"{user_location()}: backward() needs out_grads, the gradients of {', '.join(names)}: "
                              f"only losses such as SoftmaxOutput and MakeLoss need none (sym.make_loss makes one)")

    def copy_params_from(self, arg_params: Mapping[str, NDArray], aux_params: Mapping[str, NDArray] | None = None,
                         allow_extra_params: bool = False) -> None:
        """New contents of arguments and auxiliary states by name."""
        for given, own, what in ((arg_params, self.arg_dict, "argument"),
                                 (aux_params or {}, self.aux_dict, "auxiliary state")):
            for name, value in given.items():
                if name in own:
                    own[name][:] = value
                elif not allow_extra_params:
                    raise AttributeValueError(f"the graph has no {what} {name!r}; it has {', '.join(own)}. Pass "
                                              f"allow_extra_params=True to ignore it")

    def reshape(self, partial_shaping: bool = False, allow_up_sizing: bool = False, **shapes: Any) -> "Executor":
        """Another executor for other input shapes, which shares its arrays with this one: those whose shapes stay
        whole, of others as much as the new shape needs. partial_shaping: shapes of arrays that were not named may
        change too. allow_up_sizing:
        arrays may grow, and are new ones then.
        """
        found = self._symbol.infer_shape(**shapes)
        if found[0] is None:
            raise ShapeError(f"reshape: the shapes {shapes} do not tell the shapes of all arguments")

        def resized(name: str, old: NDArray, shape: Any) -> NDArray:
            if old.shape == tuple(shape):
                return old
            if not partial_shaping and name not in shapes:
                raise ShapeError(f"reshape: {name!r}, which was not named, changes from {old.shape} to "
                                 f"{tuple(shape)}; pass partial_shaping=True if that is meant")
            count = int(np.prod(shape, dtype=np.int64))
            if count <= old.size:
                return wrap(old._data.reshape(-1)[:count].reshape(shape), self._ctx)
            if not allow_up_sizing:
                raise ShapeError(f"reshape: {name!r} would grow from {old.shape} to {tuple(shape)}; pass "
                                 f"allow_up_sizing=True if that is meant")
            return wrap(zeros(shape, old._data.dtype, self._ctx), self._ctx)
        args = {n: resized(n, a, s) for (n, a), s in zip(self.arg_dict.items(), found[0])}
        aux = {n: resized(n, a, s) for (n, a), s in zip(self.aux_dict.items(), found[2])}
        grads = {n: resized(n, g, args[n].shape) for n, g in self.grad_dict.items() if g is not None}
        return Executor(self._symbol, self._ctx, args, grads, self._reqs, aux, self._groups)


def bind(self: Symbol, ctx: Context | None = None, args: Any = None, args_grad: Any = None, grad_req: Any = "write",
         aux_states: Any = None,
         group2ctx: Mapping[str, Context] | None = None, **_: Any) -> Executor:
    """An executor on given arrays: lists in the order of list_arguments(), or dicts by name. group2ctx: see
    ``simple_bind``."""
    devices_of(self, ctx or current_context(), group2ctx)
    names, states = self.list_arguments(), self.list_auxiliary_states()
    arrays = _by_name("arrays", names, args, True)
    aux = _by_name("auxiliary states", states, aux_states, True)
    order = self.nodes()
    refuse_several_shapes(order, shapes_of(order, {n: x.shape for n, x in {**arrays, **aux}.items()}))
    return Executor(self, ctx or current_context(), arrays, _by_name("gradients", names, args_grad, False),
                    _requests(names, grad_req), aux, group2ctx)


def simple_bind(self: Symbol, ctx: Context | None = None, grad_req: Any = "write",
                type_dict: Mapping[str, Any] | None = None,
                stype_dict: Mapping[str, str] | None = None, group2ctx: Mapping[str, Context] | None = None,
                **shapes: Any) -> Executor:
    """An executor on new zero arrays, whose shapes are found out from those of the inputs: ``simple_bind(cpu(),
    data=(2, 3))``.

    stype_dict: storage types by name; other variables have what ``sym.var(stype=...)`` said. Gradients are sparse where
    their operators make them so.
    group2ctx: devices by the ``ctx_group`` that ``AttrScope`` wrote on nodes; the arrays are made there. The program
    runs on ``ctx``.
    """
    ctx = ctx or current_context()
    places = devices_of(self, ctx, group2ctx)
    shapes = {k: v for k, v in shapes.items() if k in self.list_inputs()}
    found = self.infer_shape(**shapes)
    if found[0] is None:
        partly = dict(zip(self.list_arguments(), self.infer_shape_partial(**shapes)[0]))
        raise ShapeError(f"simple_bind: the shapes {shapes} do not tell the shape of "
                         f"{', '.join(n for n, s in partly.items() if not s or 0 in s)}")
    types = self._types(**(type_dict or {}))
    float32 = np.dtype("float32")

    def blank(name: str, shape: Any, dtype: Any) -> NDArray:
        where = places.get(name, ctx)
        return wrap(zeros(shape, dtype, where), where)
    names, states = self.list_arguments(), self.list_auxiliary_states()
    args = {n: blank(n, s, t) for n, s, t in zip(names, found[0], types[0] or [float32] * len(names))}
    aux = {n: blank(n, s, t) for n, s, t in zip(states, found[2], types[2] or [float32] * len(states))}
    reqs = _requests(names, grad_req)
    stypes, kinds = storage(self, stype_dict)
    args = {n: zeros_like(x, stypes[n]) if stypes.get(n, "default") != "default" else x for n, x in args.items()}
    return Executor(self, ctx, args, {n: zeros_like(x, kinds.get(n, "default"))
                                      for n, x in args.items() if reqs[n] != "null"}, reqs, aux, group2ctx)


def evaluate(self: Symbol, ctx: Context | None = None, **kwargs: NDArray) -> list[NDArray]:
    """The outputs for arrays by variable name: ``(a + b).eval(a=x, b=y)``."""
    states = set(self.list_auxiliary_states())
    ctx = ctx or next((v._ctx for v in kwargs.values()), None)          # where the arrays are
    return bind(self, ctx, {k: v for k, v in kwargs.items() if k not in states},
                aux_states={k: v for k, v in kwargs.items() if k in states}, grad_req="null").forward()


def optimize_for(self: Symbol, backend: str, args: Any = None, aux: Any = None, ctx: Any = None,
                 **options: Any) -> Symbol:
    """The Symbol itself: there is one compiler here, and it needs no preparation. backend: an unknown one is left out,
    as MXNet does."""
    return self


def get_backend_symbol(self: Symbol, backend: str) -> Symbol:
    """The Symbol itself for ``MKLDNN`` and ``MKLDNN_QUANTIZE``, which MXNet's CPU builds have and whose graphs give the
    same numbers. HybridError for others: there are no backends to partition a graph for."""
    if backend in ("MKLDNN", "MKLDNN_QUANTIZE"):
        return self
    raise HybridError(f"backend {backend!r} is not there: one compiler compiles every graph here; bind() or "
                      f"SymbolBlock run the Symbol as it is")


for _name, _method in (("optimize_for", optimize_for), ("get_backend_symbol", get_backend_symbol), ("bind", bind),
                       ("_bind", bind), ("simple_bind", simple_bind), ("_simple_bind", simple_bind),
                       ("eval", evaluate)):
    setattr(Symbol, _name, _method)
