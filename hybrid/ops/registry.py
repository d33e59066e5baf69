"""The registry of operators: one function says an operator; everything else is derived from it.

A minimal operator, registered from anywhere::

    from hybrid import ir
    from hybrid.ops.registry import op, Float

    @op("shifted_relu", "data", shift=Float(0.0))
    def shifted_relu(data, a):
        "relu(data - shift)."
        return ir.map("relu", data - a.shift)

It is then in ``hybrid.nd`` and ``hybrid.sym``, has a gradient, and compiles to C and CUDA.
"""
from __future__ import annotations

from dataclasses import field
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from ..base import dtype as dt
from ..base.records import dataclass
from .. import ir
from ..base.errors import AttributeValueError, DTypeError, HybridError, ShapeError, user_location
from ..base.names import nearest
from ..ir import Node, Program
from .attributes import (REQUIRED, Any_, Attribute, Attrs, Axes, Bool, DType, Enum, Float, Floats, Int, Number, Shape,
                         Str,
                         parse_attrs, to_string)

__all__ = ["Any_", "Attribute", "Attrs", "Axes", "Bool", "DType", "Enum", "Float", "Floats", "Int", "Lowered",
           "Number", "OPS",
           "OpDef", "REQUIRED", "Shape", "Str", "find", "namespace", "op", "also", "to_string"]

OptShape = "tuple[int, ...] | None"
CACHE_LIMIT = 4096                     # programs kept per operator; a new shape each call must not grow without end


@dataclass(frozen=True)
class Lowered:
    """What an operator becomes: output nodes, and new values of its auxiliary states by name or number of the input."""
    outputs: tuple[Node, ...]
    updates: Mapping[Any, Node] = field(default_factory=dict)


@dataclass(eq=False)
class OpDef:
    """An operator. See ``op`` for the meaning of the fields."""
    name: str
    fn: Callable[..., Any]
    inputs: tuple[str, ...]
    optional: frozenset[str]
    variadic: bool
    aux: tuple[str, ...]
    attrs: dict[str, Attribute]
    names: dict[str, tuple[str, ...]]
    json: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    eager: Callable[..., Any] | None = None
    outputs: Callable[[Attrs], int] | None = None
    visible: Callable[[Attrs], int] | None = None
    params: Callable[..., Any] | None = None
    arity_attr: str | None = None
    draws: Callable[[Attrs, bool], bool] | None = None
    takes: Mapping[str, Callable[[Attrs], bool]] = field(default_factory=dict)
    output_names: tuple[str, ...] = ()                  # output_names.py gives them
    numbered: Callable[[Attrs], bool] | None = None     # whether a single output is called output0
    # names of a variadic operator's inputs, where they have some
    listed: Callable[[Attrs], Sequence[str]] | None = None
    # MXNet's text of the initializer of an input's variable that has none
    starts: Mapping[str, str] = field(default_factory=dict)
    # the indices that calls with given shapes and attributes take
    within: Callable[[Sequence[Any], Attrs], "list[tuple[int, int | None, int, int]]"] | None = None
    same_bits: str | None = None                        # this and ``gathers`` say what ``eager`` does: see ``op``
    gathers: bool = False
    cache: dict[Any, Program] = field(default_factory=dict, repr=False)
    known: dict[Any, Any] = field(default_factory=dict, repr=False)     # eager calls by what they depend on

    def runs_code_of_others(self) -> bool:
        """Whether shapes or results come from functions outside of this library."""
        return not self.fn.__module__.startswith("hybrid.")

    @property
    def __doc__(self) -> str:                           # type: ignore[override]
        return self.fn.__doc__ or ""

    @property
    def shown(self) -> str:
        """The name by which errors speak of the operator: where its own is for files alone, one that users write."""
        public = (f"{space}.{n}" for space in ("np", "npx", "nd") for n in self.names.get(space, ())
                  if not n.startswith("_"))
        return next(public, self.name.lstrip("_")) if self.name.startswith("_") else self.name

    def parse(self, given: Mapping[str, Any]) -> Attrs:
        """Attributes from Python objects or MXNet's strings."""
        try:
            return parse_attrs(self.attrs, given)
        except AttributeValueError as err:
            raise AttributeValueError(f"operator {self.shown}{err}") from None

    def num_outputs(self, a: Attrs) -> int:
        """How many outputs the operator has, hidden ones included."""
        return self.outputs(a) if self.outputs else 1

    def output_name(self, k: int, a: Attrs) -> str:
        """The last part of an output's name."""
        if self.output_names:
            return self.output_names[k]
        return f"output{k}" if self.num_visible(a) > 1 or self.numbered is not None and self.numbered(a) else "output"

    def num_visible(self, a: Attrs) -> int:
        """How many outputs the user sees."""
        return self.visible(a) if self.visible else self.num_outputs(a)

    def random(self, a: Attrs, train: bool) -> bool:
        """Whether a call with these attributes draws random numbers."""
        return "key" in self.needs and (self.draws is None or self.draws(a, train))

    def states(self, a: Attrs, count: int) -> frozenset[int]:
        """Which of a node's ``count`` inputs are auxiliary states."""
        return frozenset(i for i, name in enumerate(self.inputs[:count])
                         if name in self.aux) if self.aux else frozenset()

    def wants(self, name: str, a: Attrs) -> bool:
        """Whether a Symbol of the operator makes a variable for this input when none is given."""
        return name not in self.optional or name in self.takes and self.takes[name](a)

    def refuse_unread(self, nodes: Sequence[Any], a: Attrs) -> None:
        """An input that counts with other attributes alone must not be given: nothing would read it."""
        if len(self.optional) != 1 or self.variadic:                # of several, the next takes an absent one's place
            return
        for name, node in zip(self.inputs, nodes):
            if node is not None and name in self.takes and not self.takes[name](a):
                raise AttributeValueError(f"operator {self.shown} does not read its input {name!r} with these "
                                          f"attributes: leave it out, or set the attribute that asks for it")

    def lower(self, nodes: Sequence[Node | None], a: Attrs, train: bool = False, key: Node | None = None) -> Lowered:
        """The operator over primitives. nodes: one per input, None for an optional one that is absent."""
        self.refuse_unread(nodes, a)
        extra: dict[str, Any] = {}
        if "train" in self.needs:
            extra["train"] = bool(train)
        if "key" in self.needs:
            extra["key"] = key
        a = a.extended(**extra) if extra else a
        try:
            absent = [None] * (len(self.inputs) - len(nodes))
            out = self.fn(list(nodes), a) if self.variadic else self.fn(*nodes, *absent, a)
        except (ShapeError, DTypeError) as err:
            if str(err).startswith("operator "):
                raise
            raise type(err)(f"operator {self.shown}: {err} (inputs: {self._describe(nodes)})") from None
        except HybridError:
            raise
        except (ArithmeticError, LookupError, ValueError, TypeError, MemoryError) as err:
            # an axis, a window, a size that the inputs do not have
            raise ShapeError(f"operator {self.shown}: its attributes {a.given()} do not fit the inputs "
                             f"({self._describe(nodes)}): {err}") from err
        if isinstance(out, Lowered):
            return out
        return Lowered(tuple(out) if isinstance(out, (tuple, list)) else (out,))

    def _describe(self, nodes: Sequence[Node | None]) -> str:
        names = [f"{self.inputs[0]}{i}" for i in range(len(nodes))] if self.variadic else self.inputs
        return ", ".join(f"{n} {x.dtype.name}{x.shape}" for n, x in zip(names, nodes) if x is not None) or "none"

    def program(self, shapes: Sequence[Any], dtypes: Sequence[Any], a: Attrs, train: bool = False) -> Program:
        """The operator as a program for inputs of these shapes and dtypes (None: absent). The random key, where one
        is needed, is the last input. Kept.
        """
        cache_key = (tuple(shapes), tuple(dtypes), a, train and "train" in self.needs)
        hit = self.cache.get(cache_key)
        if hit is None:
            if len(self.cache) >= CACHE_LIMIT:
                self.cache.clear()
            hit = self.cache[cache_key] = self._build(shapes, dtypes, a, train)
        return hit

    def _build(self, shapes: Sequence[Any], dtypes: Sequence[Any], a: Attrs, train: bool) -> Program:
        nodes: list[Node | None] = []
        leaves: list[Node] = []
        for shape, dtype in zip(shapes, dtypes):
            if shape is None:
                nodes.append(None)
                continue
            if dtype not in dt.SUPPORTED:
                raise DTypeError(f"{user_location()}: operator {self.shown} does not compute in {np.dtype(dtype)}, "
                                 f"which eager arrays of the array API alone have: use the functions of "
                                 f"x.__array_namespace__() outside of hybridized code, or another dtype")
            leaves.append(ir.input(len(leaves), shape, dtype))
            nodes.append(leaves[-1])
        key = ir.input(len(leaves), (2,), np.uint32) if self.random(a, train) else None
        low = self.lower(nodes, a, train, key)
        slot = {n: leaf.attrs["slot"] for n, leaf in zip(self.inputs, nodes) if leaf is not None}
        updates = tuple((name if isinstance(name, int) else slot[name], node) for name, node in low.updates.items())
        made = Program(tuple(leaves) + ((key,) if key is not None else ()), low.outputs, updates)
        made.memo["name"] = self.name
        return made

    def infer(self, shapes: Sequence[Any], dtypes: Sequence[Any], a: Attrs,
              train: bool = False) -> list[tuple[tuple[int, ...], np.dtype]]:
        """Shape and dtype of every output."""
        return [(n.shape, n.dtype) for n in self.program(shapes, dtypes, a, train).outputs]

    def complete(self, shapes: Sequence[Any], a: Attrs) -> list[Any]:
        """Shapes with unknown ones (None, or with entries of 0 or -1) filled in where the operator knows how."""
        try:
            return list(self.params(list(shapes), a)) if self.params else list(shapes)
        except (IndexError, ZeroDivisionError) as err:
            inputs = ", ".join(f"{n} {s}" for n, s in zip(self.inputs, shapes) if s is not None)
            raise ShapeError(f"operator {self.shown}: its attributes {a.given()} do not fit the inputs ({inputs}): {err}") from err  # noqa: E501

    def __call__(self, *nodes: Node | None, **attrs: Any) -> Any:
        """Use an operator inside another's definition."""
        out = self.lower(nodes, self.parse(attrs)).outputs
        return out[0] if len(out) == 1 else out


OPS: dict[str, OpDef] = {}             # by JSON name, other JSON names included
_SPACES: dict[str, dict[str, OpDef]] = {"nd": {}, "np": {}, "npx": {}}
VERSION = [0]                          # grows with each registration; namespaces made earlier look again
CHANGED: list[Callable[[], None]] = []                       # called then

def _names(given: Any) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def op(name: str, inputs: str = "data", *, mx: Any = (), np: Any = (), npx: Any = (), json: Any = (), aux: str = "",
       needs: Sequence[str] = (), eager: Any = None, outputs: Any = None, visible: Any = None, params: Any = None,
       arity_attr: str | None = None, draws: Any = None, takes: Any = None, starts: Mapping[str, str] | None = None,
       listed: Callable[[Attrs], Sequence[str]] | None = None, within: Any = None, same_bits: str | None = None,
       gathers: bool = False, doc: str = "",
       **attrs: Attribute) -> Callable[[Callable[..., Any]], OpDef]:
    """Register an operator.

    name: MXNet's name in JSON. inputs: names; ``bias?`` may be absent, ``*data`` is a list. mx, np, npx: further names
    in ``nd``/``sym``, ``np`` and ``npx``. json: further names in files. aux: inputs that are auxiliary states. needs:
    ``train`` and ``key`` give ``a.train`` and ``a.key``. eager: ``f(xp, arrays, a) -> arrays``, a faster way that must
    equal the derived one. outputs, visible: number of outputs as a function of the attributes. params: completes
    unknown input shapes. arity_attr: the attribute that counts a variadic input. draws: whether a call with given
    attributes and training flag draws random numbers, for operators that do so only sometimes. takes: for an optional
    input, whether calls with given attributes have it. starts: how a Symbol's variable for an input is initialized
    unless it says so itself, in MXNet's JSON: ``{"gamma": '["one", {}]'}``. listed: names of a variadic
    operator's inputs for given attributes, where they have names of their own. within: ``f(shapes, a)`` gives what is
    an error beyond: (input, row of it or None for all, least, most index). same_bits: given where ``eager`` gives the
    bits of the program, so that either may be run at any call: the name of a loop in kernels/c/launcher_loops.h that
    gives them too, of floats of 32 and 64 bits, or "". gathers: whether ``eager`` reads or writes just the elements
    that are named, so that no compiled form is faster. doc: what it computes, where the function has no docstring.
    """
    words = inputs.split()
    variadic = bool(words) and words[0].startswith("*")

    def add(fn: Callable[..., Any]) -> OpDef:
        if doc:
            fn.__doc__ = doc
        spaces = {"nd": (() if name.startswith("_") else (name,)) + _names(mx), "np": _names(np), "npx": _names(npx)}
        d = OpDef(name, fn, tuple(w.strip("*?") for w in words),
                  frozenset(w.rstrip("?") for w in words if w.endswith("?")),
                  variadic, tuple(aux.split()), attrs, spaces, _names(json), tuple(needs), eager, outputs, visible,
                  params, arity_attr, draws,
                  takes or {}, listed=listed, starts=starts or {}, within=within, same_bits=same_bits, gathers=gathers)
        _register(d)
        return d
    return add


def _changed() -> None:
    VERSION[0] += 1
    for call in CHANGED:
        call()


def _register(d: OpDef) -> None:
    for json_name in (d.name, *d.json):
        if json_name in OPS:
            raise AttributeValueError(f"an operator named {json_name!r} is registered already")
    for json_name in (d.name, *d.json):
        OPS[json_name] = d
    for space, names in d.names.items():
        for n in names:
            if n in _SPACES[space] and _SPACES[space][n] is not d:
                raise AttributeValueError(f"{space}.{n} is registered already, for {_SPACES[space][n].name}")
            _SPACES[space][n] = d
    _changed()


def also(known: str, *names: str) -> None:
    """Further names of an operator in files."""
    d = OPS[known]
    for name in names:
        if name in OPS:
            raise AttributeValueError(f"an operator named {name!r} is registered already")
        OPS[name] = d
    d.json = (*d.json, *names)
    _changed()


def namespace(space: str) -> dict[str, OpDef]:
    """Operators of ``nd`` (and ``sym``), ``np`` or ``npx`` by dotted name."""
    return _SPACES[space]


def find(name: str) -> OpDef:
    """The operator of a JSON name; an unknown one gives an error that names the nearest."""
    hit = OPS.get(name)
    if hit is None:
        raise AttributeValueError(f"operator {name!r} is not known here{nearest(name, OPS)}")
    return hit


def unregister(d: OpDef) -> None:
    """Take an operator out again (tests, notebooks)."""
    for table in (OPS, *_SPACES.values()):
        for n in [n for n, o in table.items() if o is d]:
            del table[n]
    _changed()


def promote(*nodes: Node) -> np.dtype:
    """The dtype at which nodes meet."""
    return dt.promote(*(n.dtype for n in nodes))
