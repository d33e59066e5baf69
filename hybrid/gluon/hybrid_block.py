"""HybridBlock: a block that can be compiled. It defines ``hybrid_forward(F, x, **params)`` or plain ``forward(x)``."""
from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Callable, Sequence

from .. import autograd, nd
from ..base import names
from ..graph import symbol
from ..buffers.array import NDArray
from ..jit.changes import Changes
from ..base.device import current_context
from ..base.errors import (AttributeValueError, DeferredInitializationError, HybridError, ShapeError, shortened,
                           user_location)
from ..jit.api import HYBRIDIZE_BLOCKS, check_options
from ..jit.fast_path import NO_FAST_PATH
from ..base.scope import CASTS_VERSION, SCOPE, untraced
from ..serialize.export import export_symbol
from ..graph.symbol import Symbol, known, var
from ..jit.programs import Programs
from ..jit.trace import Hybridized
from ..jit.trace_state import Trace, active
from ..base.pytree import flatten, unflatten
from .blame import blame
from .assigned import UNREAD
from .block import BLOCK_VERSION, Block
from .exported_graph import graph_of, input_names, note_sizes
from .graph import run_graph, watcher
from .parameter import VERSION, Parameter
from .returning import Result
from .unchanged import Contents
from .hybrid_forms import _decorate, _form_of, _shadow, first_array, form_of_traced


class HybridBlock(Block[Result]):
    """A block that ``hybridize()`` compiles into one program at its first call with each kind of input.

    >>> net = nn.Dense(2)
    >>> net.initialize(); net.hybridize()
    >>> net(nd.ones((1, 3))).shape
    (1, 2)
    """

    def __init__(self, prefix: str | None = None, params: Any = None):
        super().__init__(prefix, params)
        d = self.__dict__
        d["_active"], d["_flags"], d["_engine"] = False, {}, None
        d["_fast_path_on"], d["_fast_path"] = False, NO_FAST_PATH
        d["_op_hooks"] = []
        d["_seen_key"], d["_seen_version"], d["_contents"], d["_form"] = -1, None, None, None

    _active: bool
    _engine: Hybridized | None
    _fast_path: list[Any]

    # ---- calls
    def __call__(self, *args: Any, **kwargs: Any) -> Result:
        fast = self._fast_path[0]
        if fast is not None:
            out = fast(*args, **kwargs) if kwargs else fast(*args)
            if out is not None:
                return out
        try:
            return self._slow_call(*args, **kwargs)
        except Exception as err:
            shortened(err)
            raise

    def _slow_call(self, *args: Any, **kwargs: Any) -> Any:
        """A call that the fast path did not take."""
        d = self.__dict__
        if not args and not kwargs and type(self).forward is HybridBlock.forward:
            raise TypeError(f"{user_location()}: {type(self).__name__} takes an array, and was called without one")
        if SCOPE.traces or not args or type(args[0]) is not NDArray and isinstance(first_array(args), Symbol):
            if SCOPE.traces and d["_form"] is None:
                d["_form"] = form_of_traced(args, kwargs)
            self._told_shapes(*args, **kwargs)
            return super()._slow_call(*args, **kwargs)
        if d["_form"] is None:
            d["_form"] = _form_of(args, kwargs)
        if not d["_active"] or SCOPE.plain:
            self._told_shapes(*args, **kwargs)
            return super()._slow_call(*args, **kwargs)
        if not d["_forward_hooks"] and not d["_forward_pre_hooks"] and not d["_op_hooks"]:
            return d["_engine"].slow_path(*args, **kwargs)
        for hook in list(d["_forward_pre_hooks"].values()):
            hook(self, args)
        out = self._watched_call(*args, **kwargs) if d["_op_hooks"] else d["_engine"](*args, **kwargs)
        for hook in list(d["_forward_hooks"].values()):
            hook(self, args, out)
        return out

    def forward(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls hybrid_forward with the parameters, on arrays or on Symbols."""
        first = x if isinstance(x, (NDArray, Symbol)) else first_array((x, *args))
        if isinstance(first, Symbol) or SCOPE.traces:
            params = {name: p.var() for name, p in self._reg_params.items()}
            with self.name_scope():
                return self._forward_of(symbol, x, args, params, kwargs)
        # forward() called by itself counts as a call for export()
        if self.__dict__["_form"] is None:
            self.__dict__["_form"] = _form_of((x, *args), kwargs)
        if first is None:
            raise AttributeValueError(f"{type(self).__name__} takes arrays (hybrid.nd, hybrid.np) or Symbols, got "
                                      f"{type(x).__name__}: wrap it with nd.array(x)")
        try:
            params = {name: p.data(first._ctx) for name, p in self._reg_params.items()}
        except DeferredInitializationError:
            try:
                self._infer_and_finish(x, *args, **kwargs)
            except TypeError as err:
                blame(self, err, 1 + len(args), self._reg_params)
                raise
            params = {name: p.data(first._ctx) for name, p in self._reg_params.items()}
        return self._forward_of(nd, x, args, params, kwargs)

    def _forward_of(self, F: Any, x: Any, args: Any, params: dict[str, Any],
                    kwargs: dict[str, Any]) -> Any:  # noqa: N803
        try:
            return self.hybrid_forward(F, x, *args, **params, **kwargs)
        except (HybridError, TypeError) as err:
            blame(self, err, 1 + len(args), params)
            raise

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N803  the field's name
        """The computation, with F the namespace of operators and parameters by name; override it (or ``forward``)."""
        raise NotImplementedError(f"{type(self).__name__} must define hybrid_forward(self, F, x, **params) or "
                                  f"forward(self, x)")

    # ---- shapes of parameters
    def _infer_and_finish(self, *args: Any, **kwargs: Any) -> None:
        self._infer_own(*args, **kwargs)
        for p in self._reg_params.values():
            p._finish_deferred_init()

    def _told_shapes(self, *args: Any, **kwargs: Any) -> None:
        """Call a subclass's own ``infer_shape`` where shapes of its parameters are not known yet, and those of the
        inputs are."""
        if type(self).infer_shape is HybridBlock.infer_shape or all(known(p.shape) and 0 not in p.shape
                                                                    for p in self._reg_params.values()):
            return
        first = first_array((args, kwargs))
        if first is not None and known(first.shape):
            self.infer_shape(*args, **kwargs)
            if isinstance(first, NDArray):
                for p in self._reg_params.values():
                    p._finish_deferred_init()

    def infer_shape(self, *args: Any, **kwargs: Any) -> None:
        """Find out the shapes of its parameters, and of the layers' below, from inputs. A block whose parameters'
        shapes do not follow from its operators overrides it: ``def infer_shape(self, x): self.weight.shape =
        (self.units, x.shape[1])``.
        """
        if self._reg_params:
            self._infer_own(*args, **kwargs)
        trace = Trace(getattr(first_array(args), "context", current_context()), False)
        with autograd.pause(), active(trace):
            leaves: list[Any] = []
            structure = flatten((args, kwargs), lambda v: isinstance(v, NDArray), leaves)
            inputs = [trace.variable(f"data{i}", None, x.shape, x._data.dtype) for i, x in enumerate(leaves)]
            args, kwargs = unflatten(structure, iter(inputs))
            with Changes(trace, self, args, kwargs) as assigned:
                self.forward(*args, **kwargs)
                assigned.undo()
        for p in trace.holders:
            if isinstance(p, Parameter):
                p.take_traced_shape()

    def _infer_own(self, *args: Any, **kwargs: Any) -> None:
        with untraced(), autograd.pause():
            leaves: list[Any] = []
            inputs = [_shadow(a, leaves, i) for i, a in enumerate(args)]
            params = {name: p._variable() for name, p in self._reg_params.items()}
            old, SCOPE.shadows = SCOPE.shadows, True
            try:
                with names.kept(), self.name_scope():
                    self.hybrid_forward(symbol, *inputs, **params,
                                        **{k: _shadow(v, leaves, len(args)) for k, v in kwargs.items()})
            except ShapeError as err:
                blame(self, err, len(args), params)
                raise
            finally:
                SCOPE.shadows = old
        for name, p in self._reg_params.items():
            found = params[name]._one()[0].info[0][0]
            if not known(found) or any(s <= 0 for s in found):
                raise DeferredInitializationError(f"the shape of parameter {p.name!r} could not be found out from "
                                                  f"inputs of shape "
                                                  f"{[getattr(a, 'shape', a) for a in args]}; give the layer its "
                                                  f"input size")
            p.shape = found

    def infer_type(self, *args: Any) -> None:
        """Take over the inputs' dtype for parameters that are not initialized."""
        for p in self._reg_params.values():
            if p._data is None and isinstance(first_array(args), NDArray):
                p.cast(first_array(args).dtype)

    # ---- compiling
    def hybridize(self, active: bool = True, backend: Any = None, backend_opts: Any = None, clear: bool = True,
                  **kwargs: Any) -> None:
        """Compile calls from now on (or no longer). Children are inlined into the outermost hybridized block.

        static_alloc, static_shape, inline_limit, forward_bulk_size, backward_bulk_size, backend: MXNet's options,
        accepted; memory is always planned and shapes are always static per signature, so they change nothing.
        precision: "bf16" lets products with parameters round their operands to bfloat16, where the processor multiplies
        these faster; in training those of dense layers and of their gradients. Sums, parameters, gradients and results
        stay float32. dynamic: False makes a program for each size, where otherwise
        one program serves all values of a size that came with a second one, if it can; {"data": {0: "batch"}} lets
        the sizes of these axes of these arguments (by name or place) alone vary so, and ``Dim("batch", 1, 512)`` in
        the place of a name says for which values.
        """
        kwargs = check_options(kwargs)
        d = self.__dict__
        d["_active"], d["_flags"] = bool(active), dict(kwargs)
        if clear or d["_engine"] is None:
            self._new_engine()
        d["_seen_key"] = -1
        self._set_fast_path()
        for child in self._children.values():
            child.hybridize(active, **kwargs)

    def _new_engine(self) -> None:
        options = dict(self.__dict__["_flags"])
        self.__dict__["_engine"] = Hybridized(self._traced_call, self.name or type(self).__name__, self._version_now,
                                              options=options, owner=self)

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles: all but the compiled programs, which a copy makes anew."""
        return {**self.__dict__, "_engine": None, "_fast_path_on": False, "_fast_path": NO_FAST_PATH, "_seen_key": -1,
                "_contents": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if state["_active"]:
            self._new_engine()
            self._set_fast_path()

    def _set_fast_path(self) -> None:
        """Whether calls may take the fast path: compiled, and no hooks of its own."""
        d = self.__dict__
        hooks = d["_forward_hooks"] or d["_forward_pre_hooks"] or d["_op_hooks"]
        d["_fast_path_on"] = d["_active"] and not hooks
        d["_fast_path"] = d["_engine"].fast_path if d["_fast_path_on"] else NO_FAST_PATH

    def _touched(self, state: int | None = None) -> None:
        super()._touched(state)
        if "_fast_path_on" in self.__dict__:
            self._set_fast_path()

    def _traced_call(self, *args: Any, **kwargs: Any) -> Any:
        # the newest kind of call is what is exported
        self.__dict__["_form"] = form_of_traced(args, kwargs)
        self._told_shapes(*args, **kwargs)
        return self._with_backward_hooks(self.forward(*args, **kwargs))

    def _version_now(self) -> Any:
        d = self.__dict__
        key = BLOCK_VERSION[0] + VERSION[0]
        if d["_seen_key"] != key:
            d["_seen_version"] = (self._signature_version(),
                                  tuple((p._shape, p._dtype) for p in self._all_parameters()))
            watched = self._watched()
            d["_seen_key"], d["_contents"] = key, Contents(watched) if watched else None
            # counters do not see a change inside a list: no fast path then
            if d["_engine"] is not None:
                d["_engine"].counters = None if d["_contents"] else (BLOCK_VERSION, VERSION)
        return (d["_seen_version"], d["_contents"].stamp()) if d["_contents"] else d["_seen_version"]

    # ---- watching operators
    def register_op_hook(self, callback: Callable[[bytes, bytes, NDArray], Any], monitor_all: bool = False) -> None:
        """callback(name of the value, name of the operator, array) for every operator's results once it is hybridized;
        with monitor_all for their inputs too. Such a block runs operator by operator, to look inside: slower than
        compiled.
        """
        super().register_op_hook(callback, monitor_all)
        self.__dict__["_op_hooks"] = [(callback, bool(monitor_all))]      # the newest alone, as in MXNet
        self._set_fast_path()

    def _watched_call(self, *args: Any, **kwargs: Any) -> Any:
        d = self.__dict__
        form = _form_of(args, kwargs)
        if any(p._data is None for p in self._all_parameters()):
            with autograd.pause():
                d["_engine"](*args, **kwargs)                     # finds out shapes
        d["_form"] = form
        leaves: list[Any] = []
        flatten((args, kwargs), lambda v: isinstance(v, NDArray), leaves)
        values = dict(zip(input_names(len(leaves)), leaves))
        names_of = {p.name: p for p in self._all_parameters()}
        out = run_graph(self._symbol(), lambda n: values[n] if n in values else names_of[n].data(leaves[0]._ctx), True,
                        watcher(d["_op_hooks"]))
        return out

    def _all_parameters(self) -> list[Parameter]:
        return list(self._collect_params_with_prefix().values())

    def _clear_cached_op(self) -> None:
        """Forget compiled programs."""
        if self._engine is not None:
            self._engine.clear()

    def cast(self, dtype: Any) -> None:
        """Another dtype for all parameters."""
        self._clear_cached_op()
        super().cast(dtype)

    def register_child(self, block: Block, name: str | None = None) -> None:
        """Add a child, which must be a HybridBlock too."""
        if not isinstance(block, HybridBlock):
            name = block.__name__ if isinstance(block, type) else type(block).__name__
            way = (f"make an instance, {name}(...)" if isinstance(block, type) and issubclass(block, Block) else
                   f"derive {name} from HybridBlock, or {type(self).__name__} from Block" if isinstance(block, Block)
                   else "put a function into nn.HybridLambda(function)" if callable(block) else "give it a layer")
            what = f"the class {name}" if isinstance(block, type) else name
            raise ValueError(f"{user_location()}: the children of a HybridBlock must be HybridBlocks, got {what}: "
                             f"{way}")
        super().register_child(block, name)
        if self.__dict__.get("_engine") is not None:
            self._clear_cached_op()

    def optimize_for(self, x: Any, *args: Any, backend: Any = None, **kwargs: Any) -> None:
        """Hybridize and call once; there is one backend a device here."""
        self.hybridize(True)
        self(x, *args)

    def report(self) -> Any:
        """The compile report of the newest program: kernels, fused operators, reasons, memory, source file."""
        return self._engine.report() if self._engine is not None else None

    def explain(self, *args: Any, **kwargs: Any) -> Any:
        """A page that shows what a call is compiled to and how it runs: ``hybrid.explain``."""
        from ..debug import explain  # noqa: PLC0415  the page's drawings load only for one
        return explain(self, *args, **kwargs)

    @property
    def cache_misses(self) -> list[str]:
        """Why calls had to be compiled: the field of the signature that differed."""
        return self._engine.cache_misses if self._engine is not None else []

    programs = Programs()                       # the compiled programs (hybrid/jit/programs.py)

    # ---- export
    def _symbol(self) -> Symbol:
        form = self.__dict__["_form"]
        if form is None:
            raise HybridError("call the block once with data before export(), so that its inputs are known "
                              "(Please first call block.hybridize() and then run forward with this block at least "
                              "once before calling export.)")
        version = (self._version_now(), form, CASTS_VERSION[0], UNREAD[0])
        if self.__dict__.get("_exported", (None,))[0] != version:  # the second export has the names of the first
            self.__dict__["_exported"] = version, graph_of(self, form)
        return self.__dict__["_exported"][1]

    @property
    def _cached_graph(self) -> Any:
        """Inputs and outputs of the last call's graph as Symbols, () before the first: MXNet's name for them."""
        return self._get_graph() if self.__dict__["_form"] is not None else ()

    def _get_graph(self, *args: Any) -> tuple[list[Symbol], Symbol]:
        if args:
            self.__dict__["_form"] = _form_of(args, {})
        out = self._symbol()
        given = self.__dict__.get("_inputs") or input_names(len(self.__dict__["_form"][1]))
        found = {n.name: n for n in out.nodes() if n.opdef is None}
        return [Symbol([(found[n], 0)]) if n in found else var(n) for n in given], out

    def export(self, path: str, epoch: int = 0, remove_amp_cast: bool = True) -> tuple[str, str]:
        """Write ``path-symbol.json`` and ``path-%04d.params``, which MXNet 1.9.1 loads too; without the casts of mixed
        precision unless told. The names of sizes that ``hybridize(dynamic={"data": {0: "batch"}})`` gave are notes
        ``__size_names__`` of the inputs, one for each axis, with commas between."""
        sym = self._symbol()
        if self._engine is not None:
            note_sizes(self._get_graph()[0], self.__dict__["_form"], self._engine)
        params = {p.name: p for p in self.collect_params().values()}
        arguments, aux = set(sym.list_arguments()), set(sym.list_auxiliary_states())
        export_symbol(sym, {k: p._reduce() for k, p in params.items() if k in arguments},
                      {k: p._reduce() for k, p in params.items() if k in aux}, path, epoch,
                      remove_amp_cast)
        return f"{path}-symbol.json", f"{path}-{epoch:04d}.params"

    def export_c(self, folder: str | os.PathLike[str], *inputs: Any, name: str | None = None,
                 plain: bool = False, bindings: Sequence[str] = (), device: bool = False,
                 int8: Sequence[Any] = (), cuda: Sequence[str] = ()) -> list[Path]:
        """Write the network, as it predicts for inputs of some shapes, as C files that need no Python (docs/export_c.md
        says how they are used); their paths. inputs: arrays, or shapes as ``(1, 3, 224, 224)`` or ``((1, 128),
        "int32")``; without any, those of the last call; a length that each call gives is a name or None. plain: C11
        alone, without GNU's vectors: slower, for other compilers. bindings: other languages that call it, ``("java",
        "r")``, each in a folder of its own. device: for devices without an operating system. int8: examples of inputs,
        for products in integers of eight bits. cuda: architectures of GPUs, ``("sm_80", "sm_90")``.

        >>> net.export_c("digits", (1, 1, 28, 28))             # doctest: +SKIP
        """
        from ..export import export_c  # noqa: PLC0415  prints programs, which few processes do
        return export_c(self, folder, *inputs, name=name, plain=plain, bindings=bindings, device=device, int8=int8,
                        cuda=cuda)


HYBRIDIZE_BLOCKS.append(_decorate)
