"""A parameter: a named array of a block that is initialized, trained, saved. Users find it in ``gluon.parameter``."""
from __future__ import annotations

from typing import Any

import numpy as np

from .. import autograd
from ..base import device, pending
from ..mxnet import initializer
from ..base import dtype as dt
from ..buffers.array import REBINDS, NDArray, array, wrap
from ..base.device import Context, cpu, current_context
from ..base.errors import AttributeValueError, DeferredInitializationError, HybridError, ShapeError, warn_user
from ..numpy import ndarray
from ..base.profiling import unheard
from ..base.scope import SCOPE, tracing
from ..graph.symbol import Symbol, known, var
from ..base.scope import untraced
from ..autograd.traced_grad import parameter_gradient
from .parameter_parts import Parts
from .parameter_values import STORAGE, check_loaded, devices_of, draw, fits, numbers, shape_known
from .per_device import VERSION, PerDevice, arrays_of
from .stored_rows import SparseAccess


class Parameter(Parts, SparseAccess):
    """An array of a block: weight, bias, statistics.

    shape may hold 0 or -1 where it is found out at the first call. grad_req: write, add or null.

    >>> p = Parameter('weight', shape=(2, 3)); p.initialize(); p.data().shape
    (2, 3)
    """

    def __init__(self, name: str, grad_req: str = "write", shape: Any = None, dtype: Any = np.float32,
                 lr_mult: float = 1.0, wd_mult: float = 1.0, init: Any = None, allow_deferred_init: bool = False,
                 differentiable: bool = True, stype: str = "default", grad_stype: str = "default"):
        self.name = name
        self._shape = tuple(shape) if isinstance(shape, (list, tuple)) else (shape,) if isinstance(shape, int) else None
        self._dtype, self._dtype_given = dt.as_dtype(dtype), dtype
        self.lr_mult, self.wd_mult, self.init = lr_mult, wd_mult, init
        self._allow_deferred_init, self._differentiable = allow_deferred_init, differentiable
        for kind in (stype, grad_stype):
            if kind not in STORAGE:
                raise AttributeValueError(f"Parameter {name!r}: storage types are {', '.join(STORAGE)}, got {kind!r}")
        self._stype, self._grad_stype = stype, grad_stype
        self._data: PerDevice | None = None
        self._deferred: tuple[Any, list[Context], Any, Any] | None = None
        self._var: Symbol | None = None
        self._traced: Symbol | None = None
        # of a row_sparse parameter the Trainer that keeps its value
        self.trainer: Any = None
        self._noted: Any = None
        self._grad_req = "null"
        # a block's that was made under NumPy's rules has np arrays
        self._np_array = SCOPE.np_array
        self.grad_req = grad_req

    def __repr__(self) -> str:
        return f"{type(self).__name__} {self.name} (shape={self.shape}, dtype={self.dtype})"

    def _signature_version(self) -> Any:
        return id(self), VERSION[0]

    def _changed(self) -> None:
        VERSION[0] += 1
        REBINDS[0] += 1

    # ---- properties
    @property
    def grad_req(self) -> str:
        """write, add or null."""
        return self._grad_req

    @grad_req.setter
    def grad_req(self, req: str) -> None:
        if req not in ("write", "add", "null"):
            raise AttributeValueError(f"grad_req must be write, add or null, got {req!r}")
        req = req if self._differentiable else "null"
        if req != self._grad_req:
            pending.settle_for(f"grad_req of {self.name!r} was changed", arrays_of([self]))
            self._grad_req = req
            if self._data is not None:
                self._init_grad()

    @property
    def dtype(self) -> Any:
        """Element type, in the form in which it was given: a NumPy type or its name."""
        return self._dtype_given

    @dtype.setter
    def dtype(self, dtype: Any) -> None:
        self.cast(dtype)

    @property
    def shape(self) -> Any:
        """Shape; 0 where it is not known yet (-1 under ``npx.set_np``), None when nothing is known."""
        if SCOPE.np_shape and self._shape is not None:
            return tuple(-1 if s == 0 else s for s in self._shape)
        return self._shape

    @shape.setter
    def shape(self, new: Any) -> None:
        if self._shape is None:
            self._shape = tuple(new)
            return
        if not fits(self._shape, new):
            raise ShapeError(f"Parameter {self.name!r} has shape {self._shape}, which does not fit {tuple(new)}")
        self._shape = tuple(new)

    @property
    def stype(self) -> str:
        """Storage type of the arrays: default (dense), row_sparse or csr."""
        return self._stype

    # ---- initialization
    def initialize(self, init: Any = None, ctx: Any = None, default_init: Any = None,
                   force_reinit: bool = False) -> None:
        """Make the array(s), or note how to when the shape is not known yet.

        init: for this parameter; default_init: when neither init nor the parameter's own says anything.
        """
        if self._data is not None and not force_reinit:
            warn_user(f"Parameter {self.name!r} is already initialized, ignoring. Set force_reinit=True to "
                      f"initialize it again.")
            return
        contexts = devices_of(ctx)
        default = initializer.create(default_init) or initializer.Uniform()
        chosen = init if init is not None else self.init if self.init is not None else default
        if not shape_known(self._shape):
            if not self._allow_deferred_init:
                raise ShapeError(f"Parameter {self.name!r} cannot be initialized: its shape {self._shape} is not "
                                 f"known; give the layer its input size, or let it be found out at the first call "
                                 f"(allow_deferred_init)")
            self._deferred = (chosen, contexts, default, None)
            self._data = None
            self._changed()
            return
        self._make(chosen, contexts, default, None)

    def _make(self, init: Any, contexts: list[Context], default: Any, data: Any, taken: bool = False) -> None:
        with autograd.pause(), untraced():
            if self._stype != "default":
                self._make_sparse(init, contexts, default, data)
                return
            if data is not None and data.stype != "default":
                data = data.tostype("default")
            if data is not None and not (taken and data.context == contexts[0]):
                data = array(data, contexts[0], self._dtype)
            given = None if data is None else data._data
            # as _blank makes them
            own = isinstance(given, np.ndarray) and given.shape == self._shape and given.ctypes.data % device.ALIGN == 0
            first = self._blank(contexts[0], given if own else None)
            if given is None:
                draw(self.name, init if init is not None else default, default, first)
            elif not own:
                first._write(given)
            self._data = PerDevice((c, first if i == 0 else first.copyto(c)) for i, c in enumerate(contexts))
        self._deferred = None
        self._init_grad()

    def _blank(self, ctx: Context, raw: Any = None) -> NDArray:
        return wrap(device.zeros(self._shape, self._dtype, ctx) if raw is None else raw, ctx,
                    ndarray if SCOPE.np_array or self._np_array else NDArray)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "trainer": None}                # a copy has no Trainer yet

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Of copies and pickles: arrays are copied without what collects their gradients; a parameter has it again."""
        self.__dict__.update(state)
        if self._data is not None and self._grad_req != "null" and any(x._ag is None for x in self._data.values()):
            self._init_grad()

    def _init_grad(self) -> None:
        assert self._data is not None
        for x in self._data.values():
            x._ag = None
            if self._grad_req != "null" and dt.is_float(self._dtype):
                x.attach_grad(self._grad_req, self._grad_stype)
        self._changed()

    def _finish_deferred_init(self) -> None:
        """Make the arrays now that the shape is known."""
        if self._deferred is None:
            return
        if not shape_known(self._shape):
            raise DeferredInitializationError(
                f"Parameter {self.name!r}: its shape {self._shape} is still not known. Sizes of 0 come from the first "
                "call: give it an array with no axis of length 0 there, or name them (in_units, in_channels); a block "
                "of your own may set them in its infer_shape(self, x)")
        init, contexts, default, data = self._deferred
        self._make(init, contexts, default, data)

    def _check(self, ctx: Context | None) -> Any:
        if self._data is not None:
            if ctx is None:
                if len(self._data) == 1:                 # faster than an iterator
                    return x if (x := self._data.first) is not None else next(iter(self._data.values()))
                ctx = current_context()
            if ctx in self._data:
                return self._data[ctx]
            raise HybridError(f"Parameter {self.name!r} was not initialized on {ctx}, only on "
                              f"{', '.join(map(str, self._data))}; use net.collect_params().reset_ctx({ctx})")
        if self._deferred is not None:
            raise DeferredInitializationError(
                f"Parameter {self.name!r} has not been initialized yet because its shape is not known: call the "
                "network once with data, or give the layer its input size (in_units, in_channels)")
        raise HybridError(f"Parameter {self.name!r} has not been initialized: call net.initialize() (or "
                          "net.collect_params().initialize()) before using it. A block whose layers are not attributes "
                          "of it (kept in a plain list, say) does not see their parameters")

    # ---- access
    def data(self, ctx: Context | None = None) -> NDArray:
        """The array on a device (the only one, or the current device's, when none is given). HybridError for a sparse
        parameter: see ``row_sparse_data``."""
        if self._stype != "default":
            self._refuse_sparse("data()", "row_sparse_data(row_id)")
        trace = tracing()
        if trace is not None:
            return trace.parameter(self)
        return self.var() if SCOPE.exporting else self._check(ctx)    # type: ignore[return-value]

    def arrays(self) -> PerDevice:
        """The arrays by device, whatever their storage type."""
        self._check(next(iter(self._data)) if self._data else None)
        assert self._data is not None
        return self._data

    def list_data(self) -> list[NDArray]:
        """The array on each device."""
        if self._stype != "default":
            self._refuse_sparse("list_data()", "list_row_sparse_data(row_id)")
        trace = tracing()
        if trace is not None:
            return [trace.parameter(self)]
        return list(self.arrays().values())

    def grad(self, ctx: Context | None = None) -> NDArray:
        """The gradient on a device."""
        if self._data is not None and self._grad_req == "null":
            raise HybridError(f"Parameter {self.name!r} has no gradient because its grad_req is 'null'")
        trace = tracing()
        if trace is not None:
            return parameter_gradient(trace, self)         # type: ignore[return-value]
        return self._check(ctx).grad

    def list_grad(self) -> list[NDArray]:
        """The gradient on each device."""
        return [self.grad()] if SCOPE.traces else [self.grad(c) for c in self.list_ctx()]

    def list_ctx(self) -> list[Context]:
        """Devices that hold the parameter."""
        if self._data is None:
            if self._deferred is not None:
                return self._deferred[1]
            raise HybridError(f"Parameter {self.name!r} has not been initialized: call net.initialize() first")
        return list(self._data)

    def set_data(self, data: Any) -> None:
        """New values on every device. In hybridized code they are written when it runs."""
        trace = tracing()
        if trace is not None:
            trace.parameter(self)[:] = data
            return
        self.shape = data.shape
        if self._data is None:
            if self._deferred is None:
                raise AttributeValueError(f"Parameter {self.name!r} has not been initialized, so its value cannot be "
                                          "set: call initialize() first")
            init, contexts, default, _ = self._deferred
            self._deferred = (init, contexts, default, data)
            self._finish_deferred_init()
            return
        if self._stype != "default":
            made = self._stored(data if isinstance(data, NDArray) else array(data, None, self._dtype))
            for x in self._data.values():
                x[:] = made
            if self.trainer is not None:
                self.trainer.stored.forget(self)
            return
        if isinstance(data, NDArray) and data.stype != "default":
            data = data.tostype("default")
        for ctx, x in self._data.items():
            if pending.WATCHED[0] and not SCOPE.recording and isinstance(data, NDArray) and data.context == ctx:
                x[x._whole] = data                           # may be put off (jit/deferred)
            else:
                x._write(array(data, ctx, self._dtype)._data)

    def zero_grad(self) -> None:
        """Set the gradients to zero."""
        if self._grad_req == "null":
            return
        if SCOPE.traces:
            parameter_gradient(SCOPE.traces[-1], self)[:] = 0
        elif self._data is not None:
            for x in self._data.values():
                x.zero_grad()

    def reset_ctx(self, ctx: Any) -> None:
        """Move to other devices; values that differ between several (running statistics) become their mean."""
        contexts = devices_of(ctx)
        if self._data is not None:
            source = next(iter(self._data.values())) if len(self._data) == 1 else self._reduce()
            self._data = PerDevice((c, source.copyto(c)) for c in contexts)
            self._init_grad()
        elif self._deferred is not None:
            self._deferred = (self._deferred[0], contexts, *self._deferred[2:])
        else:
            raise AttributeValueError(f"Parameter {self.name!r} cannot be moved before it is initialized")

    def cast(self, dtype: Any) -> None:
        """Another dtype, values converted."""
        self._dtype, self._dtype_given = dt.as_dtype(dtype), dtype
        self._var = None
        if self._data is not None:
            with autograd.pause(), untraced():
                self._data = PerDevice((c, x.astype(self._dtype)) for c, x in self._data.items())
            self._init_grad()

    # ---- symbols
    def var(self) -> Symbol:
        """The variable that stands for the parameter in a Symbol."""
        trace = tracing()
        if trace is not None:
            return trace.parameter(self)
        if self._var is None:
            self._var = self._variable()
        return self._var

    @unheard
    def _variable(self) -> Symbol:
        init = self.init if isinstance(self.init, (str, initializer.Initializer)) or self.init is None else None
        # MXNet writes the shape as it was when first a graph was built
        if self._noted is None:
            self._noted = self._shape
        out = var(self.name, shape=self._noted, dtype=self._dtype.name, lr_mult=self.lr_mult, wd_mult=self.wd_mult,
                  init=init, stype=self._stype)
        out._one()[0].info = [(self._shape, self._dtype)]
        return out

    def traced_variable(self) -> Symbol:
        """A fresh variable for a trace, of which shape and dtype may still be unknown."""
        self._traced = self._variable()
        return Symbol(self._traced.entries)

    def take_traced_shape(self) -> None:
        """The shape that a trace found out, without making the arrays."""
        found = self._traced._one()[0].info[0][0] if self._traced is not None else None
        if self._data is None and shape_known(found):
            self.shape = found
        self._traced = None

    @property
    def is_deferred(self) -> bool:
        """Whether it waits for its shape to be initialized."""
        return self._data is None and self._deferred is not None

    def finish_from_trace(self) -> None:
        """Take over the shape that a trace found out."""
        if self._data is None and self._traced is not None:
            found = self._traced._one()[0].info[0][0]
            if known(found):
                self.shape = numbers(found, self.name)
            if self._deferred is None:
                self._check(None)
            self._finish_deferred_init()
        self._traced = None

    # ---- files
    def _reduce(self) -> NDArray:
        """The value on the CPU (the mean over devices)."""
        values = list(self.arrays().values())
        if self._stype != "default":
            return (values[0] if self.trainer is None else self.trainer.stored.of(self)).copyto(cpu())
        if len(values) == 1:
            return values[0].as_in_context(cpu())
        return array(np.asarray(sum(v.asnumpy() for v in values) / len(values), self._dtype), cpu())

    def _load_init(self, data: NDArray, ctx: Any, cast_dtype: bool = False, dtype_source: str = "current",
                   own: bool = False) -> None:
        """Take over a loaded value. own: nobody else has it, so that its memory may become the parameter's."""
        if dtype_source not in ("current", "saved"):
            raise AttributeValueError(f"dtype_source must be current or saved, got {dtype_source!r}")
        check_loaded(self, data, cast_dtype)
        if np.dtype(data.dtype) != self._dtype:
            if dtype_source == "current":
                data = data.astype(self._dtype)
            else:
                self.cast(data.dtype)
        self._shape = data.shape
        contexts = devices_of(ctx) if ctx else None
        if self._data is None:
            chosen = contexts or (self._deferred[1] if self._deferred else [current_context()])
            self._make(None, chosen, None, data, own)
        else:
            if contexts and set(contexts) != set(self._data):
                self.reset_ctx(contexts)
            self.set_data(data)
