"""Symbol: a handle on a value of an operator graph. Methods and operators are attached in methods.py."""
from __future__ import annotations

import math
import sys
from typing import Any, Iterator, Mapping, Sequence

from . import inference
from ..base import names
from ..buffers import array as _arrays
from ..base.device import Context, current_context
from ..base.errors import AttributeValueError, HybridError, TraceError, given_symbols, of_user, user_location
from ..base.profiling import unheard
from ..ops.registry import Attrs, OpDef, find
from ..base.scope import SCOPE, tracing
from .symbol_inference import Inferring
from .symnode import DETACHED, SymNode, graph_text, in_order, known
from .traced_number import looked_at_in
from .unevaluated import Unevaluated
from .node_notes import (_attributes, _note_start, _notes_apart, _own_notes, _refuse_plain, _shadow, cut, output_name,
                         variable_notes)


class Symbol(Unevaluated, Inferring):
    """One or more outputs of a graph. ``shape`` and ``dtype`` are known when those of the inputs are.

    >>> from hybrid import sym
    >>> sym.var('x') + 1
    <Symbol _plusscalar0>
    """
    __array_priority__ = 1000.0
    __slots__ = ("_entries", "_base", "_seen", "__weakref__")

    def __init__(self, entries: Sequence[tuple[SymNode, int]] | None):
        self._entries = list(entries or ())              # None: in one of MXNet's pickles, which then sets the state
        self._base: Any = None                           # (symbol, key) of which this is a view
        self._seen: Any = None                           # the symbol's entries when the view was read

    @property
    def entries(self) -> list[tuple[SymNode, int]]:
        """(node, output number) of each output. A view of a value that has changed since is read again."""
        if self._base is not None and self._base[0].entries is not self._seen:
            REREAD[0](self)
        return self._entries

    @entries.setter
    def entries(self, new: Sequence[tuple[SymNode, int]]) -> None:
        self._entries = list(new)

    def _view_of(self, parent: "Symbol", key: Any) -> "Symbol":
        """Note that this is a view."""
        self._base, self._seen = (parent, key), parent.entries
        return self

    @property
    def __class__(self) -> Any:                          # type: ignore[override]
        """For code of the user's that is traced, ``isinstance(x, nd.NDArray)`` holds as it does eagerly; in a
        ``hybrid_forward`` not where the trace has found that the code for arrays needs numbers."""
        if SCOPE.traces and of_user(frame := sys._getframe(1)):
            trace = SCOPE.traces[-1]
            if given_symbols(frame):
                if trace.shows_symbols:
                    return Symbol
                trace.showed_arrays = True
            return _arrays.NP_CLASS[0] if SCOPE.traces[-1].np_semantics or SCOPE.np_array else _arrays.NDArray
        return Symbol

    # ---- what it is
    def _one(self) -> tuple[SymNode, int]:
        if len(self.entries) != 1:
            raise HybridError(f"{user_location()}: a Symbol of {len(self.entries)} outputs was used as one value: "
                              f"index it first, as in s[0]")
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
        return math.prod(self.shape) if known(self.shape) else None

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
        text = f"<Symbol {self.name}>"
        if SCOPE.traces:
            SCOPE.traces[-1].texts.add(text)
        return text

    def __str__(self) -> str:
        """What ``print`` shows; in hybridized code also what is known while it is traced, and how to see the values."""
        text = repr(self)
        if not SCOPE.traces or len(self.entries) != 1:
            return text
        shape, dtype = self.entries[0][0].info[self.entries[0][1]]
        known = " ".join(str(v) for v in (dtype, None if shape is None else tuple(shape)) if v is not None)
        return f"{text} {known}: traced; hybrid.debug.print(x) shows its values at each call"

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

    # ---- devices mean nothing inside a program
    def as_in_context(self, context: Any) -> "Symbol":
        """Itself: a program runs on one device."""
        return self

    as_in_ctx = as_in_context

    def detach(self) -> "Symbol":
        """The value, through which no gradient flows."""
        out = create(find("BlockGrad"), [self], {}, None)
        out._one()[0].extra[DETACHED] = "True"
        return out._view_of(self, ALIAS) if tracing() is not None else out

    def wait_to_read(self) -> None:
        """Nothing to wait for."""

    # ---- the graph
    def nodes(self) -> list[SymNode]:
        """Every node below, inputs before users, depth first as MXNet orders them."""
        return in_order(self.entries)

    def _variables(self) -> tuple[list[SymNode], list[SymNode]]:
        order = self.nodes()
        aux = {id(n.inputs[i][0]) for n in order if n.opdef is not None
               for i in n.opdef.states(n.attrs, len(n.inputs))}      # type: ignore[arg-type]
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
        return Symbol([(n, k) for n in self.nodes()
                       for k in range(1 if n.opdef is None
                                      else n.opdef.num_visible(n.attrs))])   # type: ignore[arg-type]

    def get_children(self) -> "Symbol | None":
        """A group of the inputs of the nodes, of each node once."""
        inputs = [e for n in dict.fromkeys(n for n, _ in self.entries) for e in n.inputs]
        return Symbol(inputs) if inputs else None

    def attr(self, key: str) -> str | None:
        """An attribute or note of the node, as text."""
        return self.name if key == "name" else self.list_attr().get(key)

    def list_attr(self) -> dict[str, str]:
        """All attributes and notes of the node."""
        return _attributes(self.entries[0][0])

    def attr_dict(self) -> dict[str, dict[str, str]]:
        """Attributes by node name."""
        out = {n.name: _attributes(n) for n in self.nodes()}
        return {k: v for k, v in out.items() if v}

    def debug_str(self) -> str:
        """The graph as text: variables, and operators with their inputs and attributes."""
        return graph_text(self.nodes(), self.entries)

    def _set_attr(self, **kwargs: str) -> None:
        """Notes on the node, text by name."""
        if not all(isinstance(v, str) for v in kwargs.values()):
            raise AttributeValueError(f"notes on a Symbol must be text, got {kwargs!r}")
        node = self.entries[0][0]
        if node.opdef is not None:
            _refuse_plain(node.opdef, kwargs)
        node.extra.update(names.hidden(kwargs))

    # ---- composition
    def __call__(self, *args: "Symbol", name: str | None = None, **kwargs: "Symbol") -> "Symbol":
        """The graph with variables replaced by other symbols, by position or name; ``name``: of the new output node."""
        if args and kwargs:
            raise AttributeValueError("a Symbol is called with Symbols for its variables either by position or by "
                                      "name, not both")
        given = inference.named_arguments("composition", self.list_arguments(), self.list_inputs(), args, kwargs)
        wrong = next((v for v in given.values() if not isinstance(v, Symbol)), None)
        if wrong is not None:
            raise AttributeValueError(f"a Symbol is called with Symbols for its variables, got "
                                      f"{type(wrong).__name__}; run it with eval(), bind() or SymbolBlock")
        new: dict[int, Any] = {}
        head = self.entries[0][0]
        for n in self.nodes():
            if n.opdef is None:
                new[id(n)] = given[n.name]._one() if n.name in given else (n, 0)
            else:
                inputs = [(new[id(m)] if m.opdef is None else (new[id(m)][0], k)) for m, k in n.inputs]
                new[id(n)] = (SymNode(n.opdef, name if name and n is head else n.name, n.attrs, inputs, dict(n.extra)),
                              0)
        return Symbol([new[id(n)] if n.opdef is None else (new[id(n)][0], k) for n, k in self.entries])

    def _compose(self, *args: "Symbol", name: str | None = None, **kwargs: "Symbol") -> None:
        """Composition in place."""
        self.entries = self(*args, name=name, **kwargs).entries

    def __copy__(self) -> "Symbol":
        return Symbol(self.entries)

    def __deepcopy__(self, memo: Any) -> "Symbol":
        return self()

    def __reduce__(self) -> Any:
        return globals()["load_json"], (self.tojson(remove_amp_cast=False),)                 # type: ignore[attr-defined]


def var(name: str, attr: Mapping[str, str] | None = None, shape: Any = None, lr_mult: Any = None, wd_mult: Any = None,
        dtype: Any = None, init: Any = None, stype: Any = None, profiler_scope: Any = None, **kwargs: str) -> Symbol:
    """A variable.

    >>> var('data', shape=(0, 3)).shape
    (0, 3)
    """
    if not isinstance(name, str):
        raise AttributeValueError(f"a variable's name must be text, got {name!r}")
    extra = variable_notes(name, attr, shape, lr_mult, wd_mult, dtype, init, stype, kwargs)
    return Symbol([(SymNode(None, name, None, (), extra), 0)])


def Group(symbols: Sequence[Symbol]) -> Symbol:  # noqa: N802  MXNet's name
    """Several outputs as one Symbol."""
    symbols = list(symbols)
    if not symbols or not all(isinstance(s, Symbol) for s in symbols):
        raise AttributeValueError(f"Group takes a list of Symbols, got {symbols!r}")
    return Symbol([e for s in symbols for e in s.entries])


def create(d: OpDef, inputs: Sequence[Any], attrs: Mapping[str, Any], name: str | None, hint: str | None = None,
           casts: Sequence[Any] = ()) -> Symbol:
    """A new node. Arrays among the inputs are captured by the active trace; missing parameters become variables. casts:
    what casts its inputs."""
    make = _create if d.runs_code_of_others() else _create_unheard
    return make(d, inputs, attrs, name, hint, casts)


def _create(d: OpDef, inputs: Sequence[Any], attrs: Mapping[str, Any], name: str | None, hint: str | None,
            casts: Sequence[Any]) -> Symbol:
    attrs, own_notes = _notes_apart(d, looked_at_in(d.name, attrs) if SCOPE.numbers else attrs)
    entries: list[Any] = []
    for x in inputs:
        if isinstance(x, Symbol) and d.variadic:
            entries.extend(x.entries)
        else:
            entries.append(None if x is None else _entry(x))
    if inputs and inputs[0] is None and SCOPE.traces and not d.variadic and d.inputs[0] not in d.optional:
        raise AttributeValueError(f"{user_location()}: operator {d.name} was given None as its {d.inputs[0]}, where "
                                  f"it takes an array")
    if d.arity_attr and d.arity_attr not in attrs:
        attrs[d.arity_attr] = len(entries)
    a = d.parse(attrs)
    name = names.current().get(name, hint or d.name.lower())
    if not d.variadic:
        entries = _complete_inputs(d, a, entries, name, own_notes)
    elif d.arity_attr:
        # MXNet makes variables for inputs that are counted and not given
        entries = _counted_inputs(d, a, entries, name, int(attrs[d.arity_attr]), own_notes)
    if casts:
        entries = casts[0].entries(d, a, entries)
    if SCOPE.recording and SCOPE.traces:
        entries = [cut(e) for e in entries]
    notes = {**names.notes(), **own_notes}
    if notes:
        _refuse_plain(d, notes)
    node = SymNode(d, name, a, [e for e in entries if e is not None], notes)
    if SCOPE.traces and (d.aux or "key" in d.needs):
        SCOPE.traces[-1].stateful.append(node)
    count = d.num_visible(a)
    return Symbol([(node, k) for k in range(count)])


_create_unheard = unheard(_create)


def _entry(x: Any) -> tuple[SymNode, int]:
    if isinstance(x, Symbol):
        return x._one()
    trace = tracing()
    if isinstance(x, (list, tuple, dict)) and any(hasattr(v, "shape")
                                                  for v in (x.values() if isinstance(x, dict) else x)):
        raise AttributeValueError(f"{user_location()}: a {type(x).__name__} of {len(x)} was given where one array is "
                                  f"taken; pass its elements, each by itself")
    if trace is None and SCOPE.shadows and hasattr(x, "shape"):
        return _shadow(x)
    if trace is None:
        raise AttributeValueError(f"{user_location()}: a Symbol cannot be combined with {type(x).__name__} outside of "
                                  f"hybridized code; use sym.var for inputs")
    return trace.capture(x)._one()


def _complete_inputs(d: OpDef, a: Attrs, entries: list[Any], name: str, notes: Mapping[str, str]) -> list[Any]:
    entries = entries + [None] * (len(d.inputs) - len(entries))
    for i, input_name in enumerate(d.inputs):
        _note_start(d, input_name, entries[i])
        if entries[i] is not None and entries[-1] is None and input_name in d.takes and not d.wants(input_name, a):
            # MXNet leaves the unused input out: the next one takes its place
            entries = [*entries[:i], None, *entries[i:-1]]
        if entries[i] is None and d.wants(input_name, a):
            entries[i] = var(f"{name}_{input_name}", attr={**_own_notes(d, a, input_name), **notes})._one()
    while entries and entries[-1] is None:
        entries.pop()
    return entries


def _counted_inputs(d: OpDef, a: Attrs, entries: list[Any], name: str, count: int,
                    notes: Mapping[str, str]) -> list[Any]:
    """The inputs of a variadic operator; variables for those that are counted and not given."""
    listed = d.listed(a) if d.listed is not None else ()
    for input_name, entry in zip(listed, entries):
        _note_start(d, input_name, entry)
    made = [var(f"{name}_{listed[i]}", attr={**_own_notes(d, a, listed[i]), **notes}) if i < len(listed)
            else var(f"{name}_arg{i}")
            for i in range(len(entries), max(count, len(listed)))]
    return [*entries, *(v._one() for v in made)]


def attach_files(files: Any) -> None:
    """Give Symbols their methods that read and write files (that module comes after this one)."""
    setattr(Symbol, "tojson", lambda self, remove_amp_cast=True, **_: files.dumps(self, remove_amp_cast))
    setattr(Symbol, "save", lambda self, fname, remove_amp_cast=True, **_: files.save(self, fname, remove_amp_cast))
    setattr(Symbol, "__setstate__", lambda self, state: setattr(self, "entries", files.loads(state["handle"]).entries))
    globals().update(load=files.load, load_json=files.loads, fromjson=files.loads)


Variable = var
symbol = sys.modules[__name__]         # MXNet's module mx.sym.symbol holds what mx.sym holds
ALIAS: Any = object()                 # in place of the key of a view: all elements, in whatever shape
REREAD: list[Any] = []                # traced_indexing.py puts here what reads a view again
FUNCTIONS: dict[str, Any] = {}        # creation functions that nd has too
RESOLVE: list[Any] = []               # functions.py puts the lookup of operator functions here


def __getattr__(name: str) -> Any:
    """Operators as functions: sym.FullyConnected, sym.relu, sym.contrib, …; ``__all__`` for ``from mxnet.symbol import
    *``."""
    if name == "__all__" and RESOLVE:
        return sorted(n for n in {*globals(), *FUNCTIONS, *RESOLVE[1]("sym")} if not n.startswith("_"))
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    if RESOLVE and not name.startswith("__"):
        return RESOLVE[0]("sym", name)
    raise AttributeError(f"module 'hybrid.symbol' has no attribute {name!r}")
