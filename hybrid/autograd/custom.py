"""Operators written in Python: ``CustomOp``, ``CustomOpProp``, ``register``, called as ``nd.Custom(x,
op_type='name')``.

Eagerly the code runs at once. Inside a hybridized net and in Symbols it is a call from within the program: what lies
before and after is compiled, and the code sees real arrays each time, so that ``asnumpy()`` works in it.
"""
from __future__ import annotations

from collections import namedtuple
from contextlib import nullcontext
from typing import Any, Callable, ContextManager, Mapping, Sequence

import numpy as np

from ..base import dtype as dt
from .. import ir
from ..base import names, pending
from ..graph import symbol
from ..buffers.array import NDArray, full_like, wrap
from ..base.device import Context, array_module, current_context, zeros
from .dispatch import as_inputs, common_context
from ..base.errors import AttributeValueError, HybridError, ShapeError
from ..ir import HostCall, Node
from ..ops.attributes import REQUIRED, Attrs, Bool, Enum, Shape, to_string
from ..ops.registry import OPS, Lowered, OpDef, _register, find
from ..base.scope import SCOPE, tracing
from ..buffers.tape import Entry, Slot, flags, wants_gradient
from .custom_shapes import _complete, _given, _ordered, _prop, _props


class CustomOp:
    """An operator's code. Override ``forward`` and ``backward``; write results with ``assign``.

    >>> class Double(CustomOp):
    ...     def forward(self, is_train, req, in_data, out_data, aux):
    ...         self.assign(out_data[0], req[0], in_data[0] * 2)
    ...     def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
    ...         self.assign(in_grad[0], req[0], out_grad[0] * 2)
    """

    def forward(self, is_train: bool, req: list[str], in_data: list[Any], out_data: list[Any], aux: list[Any]) -> None:
        """Fill ``out_data`` from ``in_data``. req: write, add or null for each output."""

    def backward(self, req: list[str], out_grad: list[Any], in_data: list[Any], out_data: list[Any],
                 in_grad: list[Any], aux: list[Any]) -> None:
        """Fill ``in_grad``. req: write, add or null for each input; null where no gradient is wanted."""

    def assign(self, dst: Any, req: str, src: Any) -> None:
        """Write ``src`` into ``dst`` as ``req`` says."""
        if req == "null":
            return
        if req not in ("write", "inplace", "add"):
            raise HybridError(f"assign: req must be null, write, inplace or add, got {req!r}")
        if tuple(np.shape(src)) != dst.shape and np.size(src) != 1:
            raise ShapeError(f"assign: the target has shape {dst.shape}, the value {tuple(np.shape(src))}")
        dst[()] = src if req != "add" else dst + src


class CustomOpProp:
    """What an operator takes and gives. Keyword arguments of ``nd.Custom`` come to ``__init__`` as text.

    >>> @register("double")
    ... class DoubleProp(CustomOpProp):
    ...     def create_operator(self, ctx, in_shapes, in_dtypes): return Double()
    """

    def __init__(self, need_top_grad: bool = True):
        self.need_top_grad_ = need_top_grad

    def infer_shape(self, in_shape: list[Any]) -> Any:
        """(input shapes, output shapes, auxiliary shapes) from the input shapes; by default every output is as the
        first input."""
        return in_shape, (in_shape[0],) * len(self.list_outputs()), ()

    def infer_type(self, in_type: list[Any]) -> Any:
        """(input, output, auxiliary) dtypes from the input dtypes; by default all are as the first."""
        return in_type, [in_type[0]] * len(self.list_outputs()), [in_type[0]] * len(self.list_auxiliary_states())

    def list_outputs(self) -> list[str]:
        """Names of the outputs."""
        return ["output"]

    def list_arguments(self) -> list[str]:
        """Names of the inputs."""
        return ["data"]

    def list_auxiliary_states(self) -> list[str]:
        """Names of inputs that ``forward`` may change."""
        return []

    def declare_backward_dependency(self, out_grad: list[int], in_data: list[int], out_data: list[int]) -> list[int]:
        """Which values ``backward`` needs; here it gets all of them."""
        return [*(out_grad if self.need_top_grad_ else ()), *in_data, *out_data]

    def create_operator(self, ctx: Any, in_shapes: list[Any], in_dtypes: list[Any]) -> CustomOp:
        """The operator for inputs of these shapes and dtypes (MXNet's numbers: 0 is float32). ctx: the device."""
        return CustomOp()


def register(reg_name: str) -> Callable[[type], type]:
    """Decorator of a CustomOpProp class: the name by which ``op_type`` finds it. A later class of the same name takes
    its place."""
    def add(prop_cls: type) -> type:
        _props[reg_name] = prop_cls
        return prop_cls
    return add


def get_all_registered_operators() -> list[str]:
    """Names of all operators, as files hold them."""
    return sorted(OPS)


OperatorArguments = namedtuple("OperatorArguments", ["narg", "names", "types"])


def get_operator_arguments(op_name: str) -> OperatorArguments:
    """Number, names and types of an operator's inputs and attributes as MXNet lists them, in the order of its calls.

    >>> get_operator_arguments("Activation").names
    ['data', 'act_type']
    """
    d = find(op_name)
    rows = dict.fromkeys(d.inputs, "NDArray-or-Symbol" + "[]" * d.variadic)
    attributes = dict(d.attrs)
    counted = attributes.pop("num_args", None) if d.variadic else None
    if counted is not None and "args" not in d.inputs:         # inputs named args are counted without being told
        rows["num_args"] = "int, required"
    rows.update({name: _listed(attribute) for name, attribute in attributes.items()})
    if d.name == "Custom":
        rows["op_type"] = "string"                             # what else a call gives is for the CustomOpProp
    return OperatorArguments(len(rows), list(rows), list(rows.values()))


def _listed(attribute: Any) -> str:
    """An attribute's type, and its default."""
    comma = ", "
    if isinstance(attribute, Enum):
        kind, comma = f"{{{', '.join(sorted(map(repr, {*attribute.choices} - {*attribute.beyond})))}}}", ","
    elif isinstance(attribute, Bool):
        kind = "boolean"
    elif isinstance(attribute, Shape):
        kind = "Shape(tuple)"
    else:
        kind = {"str": "string"}.get(attribute.kind, attribute.kind)
    if attribute.default is REQUIRED:
        return f"{kind}, required"
    return f"{kind}{comma}optional, default={_default(attribute)}"


def _default(attribute: Any) -> str:
    value = attribute.default
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, tuple):
        return str(list(value)).replace(" ", "")
    return repr(str(value)) if isinstance(value, (str, type(None))) else f"{value:g}"


# scopes of the profiler around the user's code: watcher(name of the operator)
WATCHERS: list[Callable[[str], ContextManager[None]]] = []


def _watched(name: str) -> ContextManager[None]:
    return WATCHERS[0](name) if WATCHERS else nullcontext()


class Call:
    """One call: the property, shapes, dtypes and the operator, which is made when it first runs."""

    def __init__(self, values: Mapping[str, Any], shapes: Sequence[Any], dtypes: Sequence[Any]):
        self.op_type = str(values["op_type"])
        self.prop, self.name = _prop(values), f"custom operator {self.op_type!r}"
        self.count, self.aux = len(self.prop.list_arguments()), len(self.prop.list_auxiliary_states())
        if len(shapes) != self.count + self.aux:
            wanted = [*self.prop.list_arguments(), *self.prop.list_auxiliary_states()]
            raise AttributeValueError(f"{self.name} takes {len(wanted)} arrays ({', '.join(wanted)}), got {len(shapes)}")  # noqa: E501
        self.shapes, self.dtypes = [tuple(s) for s in shapes], [np.dtype(d) for d in dtypes]
        found = self.prop.infer_shape([list(s) for s in self.shapes[:self.count]])
        types = self.prop.infer_type([d.type for d in self.dtypes[:self.count]])
        for own, said in zip(self.shapes, found[0]):
            if own != tuple(said):
                raise ShapeError(f"{self.name}: infer_shape wants inputs of shapes {[tuple(s) for s in found[0]]}, "
                                 f"got {self.shapes[:self.count]}")
        n = len(self.prop.list_outputs())
        if len(found[1]) != n or len(types[1]) != n:
            raise ShapeError(f"{self.name} has {n} outputs, infer_shape told {len(found[1])} shapes and infer_type "
                             f"{len(types[1])} dtypes")
        self.outputs = [(tuple(int(v) for v in s), dt.as_dtype(t)) for s, t in zip(found[1], types[1])]
        self._operator: Any = None

    def operator(self, ctx: Context) -> Any:
        """The user's CustomOp."""
        if self._operator is None:
            self._operator = self.prop.create_operator(ctx, [list(s) for s in self.shapes],
                                                       [dt.CODE_OF[d] for d in self.dtypes])
        return self._operator

    def _new(self, ctx: Context, infos: Sequence[Any], cls: Any) -> list[NDArray]:
        return [wrap(zeros(shape, dtype, ctx), ctx, cls) for shape, dtype in infos]

    def forward(self, arrays: Sequence[NDArray], train: bool, ctx: Context, cls: Any = None) -> list[NDArray]:
        """Outputs; the arrays of auxiliary states may have changed."""
        out = self._new(ctx, self.outputs, cls)
        with outside(train), _watched(self.op_type):
            self.operator(ctx).forward(is_train=train, req=["write"] * len(out), in_data=list(arrays[:self.count]),
                                       out_data=out, aux=list(arrays[self.count:]))
        return out

    def backward(self, grads: Sequence[NDArray], arrays: Sequence[NDArray], outputs: Sequence[NDArray],
                 wanted: Sequence[bool], train: bool, ctx: Context,
                 cls: Any = None) -> list[NDArray]:
        """Gradients of the inputs; zeros where none is wanted."""
        found = self._new(ctx, list(zip(self.shapes, self.dtypes))[:self.count], cls)
        with outside(train), _watched(f"_backward_{self.op_type}"):
            self.operator(ctx).backward(req=["write" if w else "null" for w in wanted], out_grad=list(grads),
                                        in_data=list(arrays[:self.count]),
                                        out_data=list(outputs), in_grad=found, aux=list(arrays[self.count:]))
        return found


class outside:                                           # noqa: N801  a scope
    """Scope of the user's code: nothing is recorded or traced."""

    def __init__(self, train: bool):
        self._flags = flags(False, train)

    def __enter__(self) -> None:
        self._old, SCOPE.traces, self._symbolic, SCOPE.symbolic = SCOPE.traces, [], SCOPE.symbolic, False
        self._flags.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._flags.__exit__(*error)
        SCOPE.traces, SCOPE.symbolic = self._old, self._symbolic


# ---- eager
class _Recorded:
    """A call on the tape."""

    def __init__(self, call: Call, arrays: Sequence[NDArray], outputs: Sequence[NDArray], train: bool):
        self.call, self.train = call, train
        self.arrays = [wrap(x._data, x._ctx, type(x)) for x in arrays]
        self.outputs = [wrap(x._data, x._ctx, type(x)) for x in outputs]

    def _pull(self, entry: Entry, grads: list[Any]) -> list[Any]:
        ctx = self.outputs[0]._ctx
        filled = [g if g is not None else full_like(o, 0) for g, o in zip(grads, self.outputs)]
        wanted = [s is not None for s in entry.sources][:self.call.count]
        found = self.call.backward(filled, self.arrays, self.outputs, wanted, self.train, ctx, type(self.outputs[0]))
        return [*(g if w else None for g, w in zip(found, wanted)), *[None] * self.call.aux]


def _eager(arrays: list[NDArray], values: Mapping[str, Any]) -> list[NDArray]:
    call = Call(values, [x.shape for x in arrays], [x._data.dtype for x in arrays])
    ctx = common_context(call.name, arrays) if arrays else current_context()
    train = SCOPE.training
    seen = [wrap(x._data, x._ctx, type(x)) for x in arrays]
    out = call.forward(seen, train, ctx, type(arrays[0]) if arrays else None)
    for x in arrays[call.count:]:
        x._bump()
    if SCOPE.recording and any(wants_gradient(x) for x in arrays[:call.count]):
        entry = Entry(None, list(arrays), out, function=_Recorded(call, arrays, out, train))
        for i, o in enumerate(out):
            o._ag = Slot(entry, i)
    return out


# ---- in programs
class CustomDef(OpDef):
    """``Custom``, whose attributes and inputs depend on ``op_type``."""

    def runs_code_of_others(self) -> bool:
        """The property's."""
        return True

    def parse(self, given: Mapping[str, Any]) -> Attrs:
        """Any attributes; all but op_type are the property's."""
        texts = {k: v if isinstance(v, str) else to_string(v) for k, v in given.items()}
        _prop(texts)                                      # an unknown op_type is an error here
        return Attrs(texts, texts)

    def output_name(self, k: int, a: Attrs) -> str:
        """The property's."""
        return str(_prop(_given(a)).list_outputs()[k])

    def states(self, a: Attrs, count: int) -> frozenset[int]:
        """The inputs behind the arguments."""
        return frozenset(range(len(_prop(_given(a)).list_arguments()), count))


def _lower(nodes: Sequence[Node], a: Attrs) -> Lowered:
    call, train = Call(_given(a), [n.shape for n in nodes], [n.dtype for n in nodes]), a.train
    count, states = call.count, nodes[call.count:]

    def forward(xp: Any, arrays: Sequence[Any]) -> list[Any]:
        ctx = device_of(xp, arrays)
        own = [*arrays[:count], *(xp.array(x) for x in arrays[count:])]
        given = [wrap(x, ctx) for x in own]
        return [x._data for x in (*call.forward(given, train, ctx), *given[count:])]

    def vjp(grads: Sequence[Node], node: Node) -> list[Node | None]:
        floats = [i for i, n in enumerate(nodes[:count]) if dt.is_float(n.dtype)]
        results = [ir.make("host_item", (node,), index=i) for i in range(len(call.outputs) + call.aux)]

        def backward(xp: Any, arrays: Sequence[Any]) -> list[Any]:
            ctx = device_of(xp, arrays)
            k, m = len(grads), len(grads) + len(nodes)
            given = [wrap(x, ctx) for x in arrays]
            found = call.backward(given[:k], given[k:m], given[m:], [i in floats for i in range(count)], train, ctx)
            return [found[i]._data for i in floats]
        # states as forward left them, and outputs
        after = [*results[len(call.outputs):], *results[:len(call.outputs)]]
        again = HostCall(f"{call.name}, backward", backward, tuple((nodes[i].shape, nodes[i].dtype) for i in floats))
        pulled = dict(zip(floats, ir.host(again, [*grads, *node.args[:count], *after])))
        return [pulled.get(i) for i in range(len(nodes))]
    made = ir.host(HostCall(call.name, forward, (*call.outputs, *((n.shape, n.dtype) for n in states)), vjp), nodes)
    n = len(call.outputs)
    return Lowered(tuple(made[:n]), {count + i: made[n + i] for i in range(len(states))})


def device_of(xp: Any, arrays: Sequence[Any]) -> Context:
    if xp is np:
        here = current_context()
        return here if array_module(here) is np else Context("cpu", 0)
    return Context("gpu", arrays[0].device.id if arrays else 0)


CUSTOM = CustomDef("Custom", _lower, ("data",), frozenset(), True, (), {}, {"nd": ()}, needs=("train",),
                   outputs=lambda a: len(_prop(_given(a)).list_outputs()), params=_complete)
_register(CUSTOM)


def _call(symbolic: bool, args: Sequence[Any], name: str | None, out: Any, kwargs: dict[str, Any]) -> Any:
    arrays = {k: v for k, v in kwargs.items() if isinstance(v, (NDArray, symbol.Symbol))}
    values = {k: v for k, v in kwargs.items() if k not in arrays and v is not None}
    prop = _prop(values)
    wanted = [*prop.list_arguments(), *prop.list_auxiliary_states()]
    inputs = _ordered(prop, args, arrays)
    if arrays:
        raise AttributeValueError(f"custom operator {values['op_type']!r} has no input {', '.join(arrays)}; it has "
                                  f"{', '.join(wanted)}")
    if symbolic or tracing() is not None or any(isinstance(x, symbol.Symbol) for x in inputs):
        name = names.current().get(name, "custom")
        notes = {k: v if isinstance(v, str) else to_string(v) for k, v in values.items()}
        filled = [symbol.var(f"{name}_{n}", attr=notes) if x is None else x for n, x in zip(wanted, inputs)]
        with names.NameManager():                         # the name is final: no prefix, no number
            return symbol.create(CUSTOM, filled, values, name)
    if any(x is None for x in inputs):
        raise AttributeValueError(f"custom operator {values['op_type']!r} needs {', '.join(wanted)}; missing: "
                                  f"{', '.join(n for n, x in zip(wanted, inputs) if x is None)}")
    ctx = next((x._ctx for x in inputs if isinstance(x, NDArray)), None)
    given = [x for x in as_inputs(CUSTOM, inputs, ctx) if x is not None]
    if pending.WATCHED[0] and SCOPE.recording:
        found = pending.LATER[0].python_code(str(values["op_type"]), given, lambda: _eager(given, values))
    else:
        found = _eager(given, values)
    if out is not None:
        for target, value in zip(out if isinstance(out, (list, tuple)) else [out], found):
            target[:] = value
        return out
    return found[0] if len(found) == 1 else found


def Custom(*args: Any, name: str | None = None, out: Any = None, **kwargs: Any) -> Any:  # noqa: N802  MXNet's name
    """Call a registered custom operator: ``nd.Custom(x, label, op_type='softmax')``. Inputs by position or name; every
    other keyword argument goes to the CustomOpProp as text. One result, or a list of them."""
    kwargs.pop("attr", None)
    return _call(False, args, name, out, kwargs)


def symbolic_custom(*args: Any, name: str | None = None, **kwargs: Any) -> Any:
    """``sym.Custom``: inputs that are not given become variables."""
    kwargs.pop("attr", None)
    return _call(True, args, name, None, kwargs)
