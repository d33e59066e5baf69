"""Symbol: a handle on a value of an operator graph. Methods and operators are attached in methods.py."""
from __future__ import annotations

from typing import Any, Iterator, Mapping, Sequence

import numpy as _np

from . import dtype as dt
from . import ir, names
from .device import Context, current_context
from .errors import AttributeValueError, HybridError, ShapeError, TraceError, user_location
from .ir import Node, Program
from .ops.attributes import Shape
from .ops.registry import Attrs, OpDef, find
from .scope import tracing

Info = "tuple[tuple[int, ...] | None, _np.dtype | None]"


class SymNode:
    """A node of the operator graph: a variable (``opdef`` None) or an operator. ``inputs``: (node, output number) of the
    inputs that are there. ``extra``: notes such as ``__shape__``. ``info``: shape and dtype of each output, None if unknown.
    """
    __slots__ = ("opdef", "name", "attrs", "inputs", "extra", "info", "holder", "serial")
    _count = [0]

    def __init__(self, opdef: OpDef | None, name: str, attrs: Attrs | None, inputs: Sequence[tuple["SymNode", int]], extra: dict[str, str] | None = None):
        self.opdef, self.name, self.attrs, self.inputs, self.extra = opdef, name, attrs, tuple(inputs), extra if extra is not None else {}
        self.holder: Any = None                          # what a captured variable stands for
        SymNode._count[0] += 1
        self.serial = SymNode._count[0]                  # creation order: random operators draw in it
        self.info: list[Any] = [_noted(self.extra)] if opdef is None else _infer(self)

    @property
    def outputs(self) -> int:
        """Number of outputs, hidden ones included."""
        return 1 if self.opdef is None else self.opdef.num_outputs(self.attrs)                  # type: ignore[arg-type]


def _noted(extra: Mapping[str, str]) -> tuple[Any, Any]:
    """Shape and dtype written on a variable."""
    shape = tuple(Shape().convert(extra["__shape__"])) if "__shape__" in extra else None
    code = int(extra.get("__dtype__", -1))
    return shape, dt.MX_CODES.get(code)


def known(shape: Any) -> bool:
    """Whether every length is known (0 and -1 mean unknown in a variable's shape)."""
    return shape is not None and all(d is not None and d >= 0 for d in shape)


def _infer(node: SymNode) -> list[Any]:
    """Shapes and dtypes of an operator's outputs, where its inputs' are known; completes variables on the way."""
    d, a = node.opdef, node.attrs
    assert d is not None and a is not None
    count = d.num_outputs(a)
    shapes = [n.info[k][0] for n, k in node.inputs]
    dtypes = [n.info[k][1] for n, k in node.inputs]
    partial = [s is None or (n.opdef is None and any(v <= 0 for v in s) and n.holder is not CONCRETE) for s, (n, _) in zip(shapes, node.inputs)]
    if any(partial) and d.params is not None and shapes and not partial[0]:
        full = d.complete([None if p and s is None else s for p, s in zip(partial, shapes)], a)
        for i, (n, _) in enumerate(node.inputs):
            if partial[i] and n.opdef is None and full[i] is not None:
                n.info[0] = (tuple(full[i]), n.info[0][1])
                shapes[i], partial[i] = tuple(full[i]), False
    if any(partial):
        return [(None, None)] * count
    first = next((t for t in dtypes if t is not None), dt.float32)
    for i, (n, _) in enumerate(node.inputs):
        if dtypes[i] is None:
            dtypes[i] = first if dt.is_float(first) else dt.float32
    padded = len(d.inputs) - len(shapes) if not d.variadic else 0
    train = bool(tracing() is not None and tracing().train)
    return d.infer([*shapes, *[None] * padded], [*dtypes, *[None] * padded], a, train)


CONCRETE = object()                   # holder of variables that stand for arrays: a 0 in their shape is a length


class Symbol:
    """One or more outputs of a graph. ``shape`` and ``dtype`` are known when those of the inputs are.

    >>> from hybrid import sym
    >>> sym.var('x') + 1
    <Symbol _plusscalar0>
    """
    __array_priority__ = 1000.0
    __slots__ = ("entries", "_base", "__weakref__")

    def __init__(self, entries: Sequence[tuple[SymNode, int]], base: Any = None):
        self.entries = list(entries)
        self._base = base                                # (symbol, key) of which this is a view

    # ---- what it is
    def _one(self) -> tuple[SymNode, int]:
        if len(self.entries) != 1:
            raise HybridError(f"a Symbol of {len(self.entries)} outputs was used as one value: index it first, as in s[0]")
        return self.entries[0]

    @property
    def name(self) -> str | None:
        """The node's name; None for a group."""
        return self.entries[0][0].name if len({id(n) for n, _ in self.entries}) == 1 else None

    @property
    def shape(self) -> Any:
        """Shape, or None where it is unknown."""
        n, k = self._one()
        return n.info[k][0]

    @property
    def dtype(self) -> Any:
        """Element type as a NumPy type, or None."""
        n, k = self._one()
        return n.info[k][1].type if n.info[k][1] is not None else None

    @property
    def ndim(self) -> Any:
        """Number of axes, or None."""
        return None if self.shape is None else len(self.shape)

    @property
    def size(self) -> Any:
        """Number of elements, or None."""
        return int(_np.prod(self.shape, dtype=_np.int64)) if known(self.shape) else None

    @property
    def context(self) -> Context:
        """The device of the trace, else the current one."""
        trace = tracing()
        return trace.ctx if trace is not None else current_context()

    ctx = context
    device = context
    stype = "default"

    def __repr__(self) -> str:
        if self.name is None:
            return f"<Symbol group [{', '.join(n.name for n, _ in self.entries)}]>"
        return f"<Symbol {self.name}>"

    def __hash__(self) -> int:
        return id(self)

    def __iter__(self) -> Iterator["Symbol"]:
        if len(self.entries) == 1 and tracing() is not None:
            if not self.shape:
                raise TraceError(f"{user_location()}: cannot loop over a traced value without axes or of unknown shape")
            return (self[i] for i in range(self.shape[0]))       # type: ignore[index]
        return (Symbol([e]) for e in self.entries)

    def __len__(self) -> int:
        if len(self.entries) == 1 and tracing() is not None and self.shape:
            return self.shape[0]
        return len(self.entries)

    # ---- what only the running program knows
    def _refuse(self, what: str, way: str) -> Any:
        raise TraceError(f"{user_location()}: {what} needs the value of {self!r}, which is known only when the compiled program runs. {way}")

    def __bool__(self) -> bool:
        return self._refuse("if, while, and, or, not", "Use F.where(condition, a, b) to choose by value; sizes (x.shape) can be tested; "
                            "or call the block without hybridize().")

    def __float__(self) -> float:
        return self._refuse("float()", "Keep it as an array, or compute it outside the hybridized code.")

    def __int__(self) -> int:
        return self._refuse("int()", "Keep it as an array, or compute it outside the hybridized code.")

    def __index__(self) -> int:
        return self._refuse("use as an index", "Use F.take(array, index).")

    def asnumpy(self) -> Any:
        """Refused: a traced value has no numbers yet."""
        return self._refuse(".asnumpy()", "Print or convert results outside the hybridized code, or call the block without hybridize().")

    def asscalar(self) -> Any:
        """Refused: a traced value has no numbers yet."""
        return self._refuse(".asscalar()", "Keep it as an array, or compute it outside the hybridized code.")

    item = asscalar
    tolist = asnumpy

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return self._refuse("conversion to a NumPy array", "Use hybrid's functions (F, nd, np) instead of numpy's on traced values.")

    # ---- devices mean nothing inside a program
    def as_in_context(self, context: Any) -> "Symbol":
        """Itself: a program runs on one device."""
        return self

    as_in_ctx = as_in_context

    def attach_grad(self, *args: Any, **kwargs: Any) -> None:
        """Refused inside a program."""
        raise TraceError(f"{user_location()}: attach_grad() inside hybridized code: call it on arrays before the call")

    def detach(self) -> "Symbol":
        """The value, through which no gradient flows."""
        return create(find("BlockGrad"), [self], {}, None)

    def wait_to_read(self) -> None:
        """Nothing to wait for."""

    # ---- the graph
    def nodes(self) -> list[SymNode]:
        """Every node below, inputs before users, depth first as MXNet orders them."""
        seen: set[int] = set()
        out: list[SymNode] = []
        for head, _ in self.entries:
            stack: list[tuple[SymNode, bool]] = [(head, False)]
            while stack:
                n, done = stack.pop()
                if done:
                    out.append(n)
                elif id(n) not in seen:
                    seen.add(id(n))
                    stack.append((n, True))
                    stack += [(m, False) for m, _ in reversed(n.inputs) if id(m) not in seen]
        return out

    def _variables(self) -> tuple[list[SymNode], list[SymNode]]:
        order = self.nodes()
        aux = {id(n.inputs[i][0]) for n in order if n.opdef is not None
               for i, name in enumerate(n.opdef.inputs) if name in n.opdef.aux and i < len(n.inputs)}
        found = [n for n in order if n.opdef is None]
        return [n for n in found if id(n) not in aux], [n for n in found if id(n) in aux]

    def list_arguments(self) -> list[str]:
        """Names of the variables that are no auxiliary states."""
        return [n.name for n in self._variables()[0]]

    def list_auxiliary_states(self) -> list[str]:
        """Names of the auxiliary states (BatchNorm's running statistics)."""
        return [n.name for n in self._variables()[1]]

    def list_inputs(self) -> list[str]:
        """Names of all variables in graph order."""
        return [n.name for n in self.nodes() if n.opdef is None]

    def list_outputs(self) -> list[str]:
        """Names of the outputs."""
        return [output_name(n, k) for n, k in self.entries]

    @property
    def num_outputs(self) -> int:
        """Number of outputs."""
        return len(self.entries)

    def get_internals(self) -> "Symbol":
        """A group of every node's outputs."""
        return Symbol([(n, k) for n in self.nodes() for k in range(1 if n.opdef is None else n.opdef.num_visible(n.attrs))])   # type: ignore[arg-type]

    def get_children(self) -> "Symbol | None":
        """A group of the node's inputs."""
        inputs = [e for n, _ in self.entries for e in n.inputs]
        return Symbol(inputs) if inputs else None

    def attr(self, key: str) -> str | None:
        """An attribute or note of the node, as text."""
        return self.list_attr().get(key)

    def list_attr(self) -> dict[str, str]:
        """All attributes and notes of the node."""
        n = self.entries[0][0]
        return {**(n.attrs.given() if n.attrs is not None else {}), **n.extra}

    def attr_dict(self) -> dict[str, dict[str, str]]:
        """Attributes by node name."""
        out = {n.name: {**(n.attrs.given() if n.attrs is not None else {}), **n.extra} for n in self.nodes()}
        return {k: v for k, v in out.items() if v}

    # ---- shapes
    def infer_shape(self, *args: Any, **kwargs: Any) -> Any:
        """(argument shapes, output shapes, auxiliary shapes) from some variables' shapes; Nones when they do not suffice."""
        shapes, _ = self._inferred(args, kwargs, {})
        lists = tuple([shapes[id(n)] for n in group] for group in self._variables())
        out = [shapes.get((id(n), k)) if n.opdef is not None else shapes[id(n)] for n, k in self.entries]
        if not all(known(s) and s is not None for s in [*lists[0], *out, *lists[1]]):
            return None, None, None
        return lists[0], out, lists[1]

    def infer_shape_partial(self, *args: Any, **kwargs: Any) -> Any:
        """Like infer_shape, with () for what stays unknown."""
        shapes, _ = self._inferred(args, kwargs, {})
        arguments, aux = self._variables()
        out = [shapes.get((id(n), k)) if n.opdef is not None else shapes[id(n)] for n, k in self.entries]
        return tuple([s if s is not None else () for s in group] for group in ([shapes[id(n)] for n in arguments], out, [shapes[id(n)] for n in aux]))

    def infer_type(self, *args: Any, **kwargs: Any) -> Any:
        """(argument, output, auxiliary) dtypes; float32 where nothing else is said."""
        given = {**dict(zip(self.list_arguments(), args)), **kwargs}
        arguments, aux = self._variables()
        common = next((_np.dtype(v) for v in given.values() if v is not None), _np.dtype("float32"))

        def of(n: SymNode) -> Any:
            return _np.dtype(given[n.name]).type if given.get(n.name) is not None else (n.info[0][1] or common).type
        return [of(n) for n in arguments], [common.type for _ in self.entries], [of(n) for n in aux]

    def _inferred(self, args: Sequence[Any], given: Mapping[str, Any], dtypes: Mapping[str, Any]) -> Any:
        named = {**dict(zip(self.list_arguments(), args)), **given}
        unknown = [k for k in named if k not in set(self.list_inputs())]
        if unknown:
            raise AttributeValueError(f"infer_shape: the graph has no variable {', '.join(map(repr, unknown))}; it has {', '.join(self.list_inputs())}")
        shapes: dict[Any, Any] = {}
        order = self.nodes()
        for n in order:
            if n.opdef is None:
                shapes[id(n)] = tuple(named[n.name]) if named.get(n.name) is not None else n.info[0][0]
        for _ in range(2):
            for n in order:
                if n.opdef is not None:
                    self._step(n, shapes)
        return shapes, dtypes

    def _step(self, n: SymNode, shapes: dict[Any, Any]) -> None:
        d, a = n.opdef, n.attrs
        assert d is not None and a is not None
        at = [id(m) if m.opdef is None else (id(m), k) for m, k in n.inputs]
        ins = [shapes.get(key) for key in at]
        unsure = [s is None or (m.opdef is None and any(v <= 0 for v in s)) for s, (m, _) in zip(ins, n.inputs)]
        if any(unsure) and d.params is not None and ins and not unsure[0]:
            for key, s, u, full in zip(at, ins, unsure, d.complete(ins, a)):
                if u and full is not None:
                    shapes[key] = tuple(full)
            ins = [shapes.get(key) for key in at]
        if any(s is None for s in ins):
            return
        padded = len(d.inputs) - len(ins) if not d.variadic else 0
        for k, (shape, _) in enumerate(d.infer([*ins, *[None] * padded], [*[dt.float32] * len(ins), *[None] * padded], a)):
            shapes[(id(n), k)] = shape

    # ---- composition
    def __call__(self, *args: "Symbol", **kwargs: "Symbol") -> "Symbol":
        """The graph with variables replaced by other symbols, by position or name."""
        kwargs.pop("name", None)
        given = {**dict(zip(self.list_arguments(), args)), **kwargs}
        new: dict[int, Any] = {}
        for n in self.nodes():
            if n.opdef is None:
                new[id(n)] = given[n.name]._one() if n.name in given else (n, 0)
            else:
                inputs = [(new[id(m)] if m.opdef is None else (new[id(m)][0], k)) for m, k in n.inputs]
                new[id(n)] = (SymNode(n.opdef, n.name, n.attrs, inputs, dict(n.extra)), 0)
        return Symbol([new[id(n)] if n.opdef is None else (new[id(n)][0], k) for n, k in self.entries])


def output_name(n: SymNode, k: int) -> str:
    """MXNet's name of an output."""
    if n.opdef is None:
        return n.name
    if n.opdef.num_visible(n.attrs) > 1:                                  # type: ignore[arg-type]
        return f"{n.name}_output{k}"
    return f"{n.name}_output"


def var(name: str, attr: Mapping[str, str] | None = None, shape: Any = None, lr_mult: Any = None, wd_mult: Any = None, dtype: Any = None,
        init: Any = None, stype: Any = None, profiler_scope: Any = None, **kwargs: str) -> Symbol:
    """A variable.

    >>> var('data', shape=(0, 3)).shape
    (0, 3)
    """
    if not isinstance(name, str):
        raise AttributeValueError(f"a variable's name must be text, got {name!r}")
    extra = dict(attr or {})
    if shape is not None:
        extra["__shape__"] = str(tuple(shape))
    if lr_mult is not None:
        extra["__lr_mult__"] = str(lr_mult)
    if wd_mult is not None:
        extra["__wd_mult__"] = str(wd_mult)
    if dtype is not None:
        extra["__dtype__"] = str(dt.CODE_OF[dt.as_dtype(dtype)])
    if init is not None:
        extra["__init__"] = init if isinstance(init, str) else init.dumps()
    if stype is not None:
        extra["__storage_type__"] = str({"default": 0, "row_sparse": 1, "csr": 2}.get(stype, stype))
    for k, v in kwargs.items():
        if not (k.startswith("__") and k.endswith("__")):
            raise AttributeValueError(f"attribute {k!r} of a variable must begin and end with two underscores")
        extra[k] = str(v)
    return Symbol([(SymNode(None, name, None, (), extra), 0)])


def Group(symbols: Sequence[Symbol]) -> Symbol:  # noqa: N802  MXNet's name
    """Several outputs as one Symbol."""
    if not symbols or not all(isinstance(s, Symbol) for s in symbols):
        raise AttributeValueError(f"Group takes a list of Symbols, got {symbols!r}")
    return Symbol([e for s in symbols for e in s.entries])


def create(d: OpDef, inputs: Sequence[Any], attrs: Mapping[str, Any], name: str | None, hint: str | None = None) -> Symbol:
    """A new node. Arrays among the inputs are captured by the active trace; missing parameters become variables."""
    attrs = dict(attrs)
    entries: list[Any] = []
    for x in inputs:
        if isinstance(x, Symbol) and d.variadic:
            entries.extend(x.entries)
        else:
            entries.append(None if x is None else _entry(x))
    if d.arity_attr and d.arity_attr not in attrs:
        attrs[d.arity_attr] = len(entries)
    a = d.parse(attrs)
    name = names.current().get(name, hint or d.name.lower())
    if not d.variadic:
        entries = _complete_inputs(d, a, entries, name)
    node = SymNode(d, name, a, [e for e in entries if e is not None])
    count = d.num_visible(a)
    return Symbol([(node, k) for k in range(count)])


def _entry(x: Any) -> tuple[SymNode, int]:
    if isinstance(x, Symbol):
        return x._one()
    trace = tracing()
    if trace is None:
        raise AttributeValueError(f"{user_location()}: a Symbol cannot be combined with {type(x).__name__} outside of hybridized code; use sym.var for inputs")
    return trace.capture(x)._one()


def _complete_inputs(d: OpDef, a: Attrs, entries: list[Any], name: str) -> list[Any]:
    entries = entries + [None] * (len(d.inputs) - len(entries))
    for i, input_name in enumerate(d.inputs):
        if entries[i] is None and _wanted(d, a, input_name):
            entries[i] = var(f"{name}_{input_name}", attr=_own_notes(d, a, input_name))._one()
    while entries and entries[-1] is None:
        entries.pop()
    return entries


def _own_notes(d: OpDef, a: Attrs, input_name: str) -> dict[str, str]:
    """What MXNet writes on a parameter's variable that an operator makes itself: the operator's attributes."""
    notes = a.given()
    if input_name in d.aux:
        notes["__init__"] = '["zero", {}]' if input_name.endswith("mean") else '["one", {}]'
    return notes


def _wanted(d: OpDef, a: Attrs, name: str) -> bool:
    if name not in d.optional:
        return True
    if name == "bias":
        return not a.no_bias
    return name == "gamma" and a.asdict().get("act_type") == "prelu"


# ---- from the graph to a program
def lower(symbol: Symbol, inputs: Sequence[SymNode], train: bool) -> tuple[Program, int]:
    """A program whose inputs are the variables ``inputs`` in order, then (if operators draw random numbers) the random key.
    Returns it with the number of draws. Shapes and dtypes of the variables must be known.
    """
    leaves = []
    for i, n in enumerate(inputs):
        shape, dtype = n.info[0]
        if not known(shape):
            raise ShapeError(f"the shape of variable {n.name!r} is not known: {shape}")
        leaves.append(ir.input(i, shape, dtype or dt.float32))
    value: dict[Any, Node] = {(id(n), 0): leaf for n, leaf in zip(inputs, leaves)}
    order = symbol.nodes()
    draws = {id(n): i for i, n in enumerate(sorted((n for n in order if n.opdef is not None and n.opdef.random(n.attrs, train)), key=lambda n: n.serial))}
    key = ir.input(len(leaves), (2,), _np.uint32) if draws else None
    updates: dict[int, Node] = {}
    slots = {id(n): i for i, n in enumerate(inputs)}
    for n in order:
        if n.opdef is None:
            if (id(n), 0) not in value:
                raise AttributeValueError(f"the graph's variable {n.name!r} is none of the inputs: {', '.join(m.name for m in inputs)}")
            continue
        nodes: list[Any] = [value[(id(m), k)] for m, k in n.inputs]
        if not n.opdef.variadic:
            nodes += [None] * (len(n.opdef.inputs) - len(nodes))
        own = None
        if id(n) in draws:
            own = _key(key, draws[id(n)])
        low = n.opdef.lower(nodes, n.attrs, train, own)                   # type: ignore[arg-type]
        for k, out in enumerate(low.outputs):
            value[(id(n), k)] = out
        for name, out in low.updates.items():
            target = n.inputs[n.opdef.inputs.index(name)][0]
            if id(target) in slots:
                value[(id(target), 0)] = out
                updates[slots[id(target)]] = out
    outputs = tuple(value[(id(n), k)] for n, k in symbol.entries)
    program = Program(tuple(leaves) + ((key,) if key is not None else ()), outputs, tuple(updates.items()))
    return program, len(draws)


def _key(key: Node | None, i: int) -> Node:
    assert key is not None
    return key if i == 0 else ir.map("add", key, ir.data(_np.array([0, i], _np.uint32)))


def attach_files(files: Any) -> None:
    """Give Symbols their methods that read and write files (that module comes after this one)."""
    Symbol.tojson = lambda self, **_: files.dumps(self)                 # type: ignore[attr-defined]
    Symbol.save = lambda self, fname, **_: files.save(self, fname)      # type: ignore[attr-defined]
    globals().update(load=files.load, load_json=files.loads, fromjson=files.loads)


Variable = var
FUNCTIONS: dict[str, Any] = {}        # creation functions that nd has too
RESOLVE: list[Any] = []               # functions.py puts the lookup of operator functions here


def __getattr__(name: str) -> Any:
    """Operators as functions: sym.FullyConnected, sym.relu, sym.contrib, …"""
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    if RESOLVE and not name.startswith("__"):
        return RESOLVE[0]("sym", name)
    raise AttributeError(f"module 'hybrid.symbol' has no attribute {name!r}")
