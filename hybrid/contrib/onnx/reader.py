"""From an ONNX graph to a Symbol: each node by its row of the table ``FORMS`` (filled in by read_*.py), what is
constant by the ``onnx`` package itself."""
from __future__ import annotations

import math
from collections import ChainMap
from typing import Any, Callable, Mapping, MutableMapping

import numpy as np

from ...base import dtype as dt
from ...base.errors import AttributeValueError, DTypeError, FileFormatError, HybridError
from ...ops.registry import find
from ...graph.symbol import Symbol, create, var
from ...graph.symnode import known
from . import library
from .sizes import computed, is_size_array, settled, whole

Known = np.ndarray
FORMS: dict[str, Callable[["OnnxNode"], Any]] = {}
KNOWN = {"Constant", "ConstantOfShape", "Range"}         # of constants alone; reads() adds the others
MOST_FOLDED = 2**22                     # elements that a constant made of constants may have


def reads(*kinds: str) -> Callable[[Any], Any]:
    """Register how nodes are read: a function of an OnnxNode that gives a Symbol, numbers (an array), or a list for
    several outputs."""
    def add(fn: Any) -> Any:
        FORMS.update(dict.fromkeys(kinds, fn))
        KNOWN.update(kinds)
        return fn
    return add


def inlined(model: Any) -> Any:
    """The model with the functions in it, and operators that ONNX defines by others and that are not known here,
    written out."""
    if not model.functions and all(n.op_type in KNOWN for n in model.graph.node):
        return model
    try:
        return library.inliner()(_with_defaults(model), [("", name) for name in KNOWN], exclude=True,
                                 inline_schema_functions=True)
    except Exception:                                      # noqa: BLE001  what stays unknown is named when it is read
        return model


def _with_defaults(model: Any) -> Any:
    """The model with the attributes that its nodes leave to their defaults, for nodes that are written out: what they
    become would lack them."""
    out, onnx = type(model)(), library.onnx()
    out.CopyFrom(model)
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
    for n in out.graph.node:
        if n.op_type in KNOWN or n.domain not in ("", "ai.onnx") or not onnx.defs.has(n.op_type):
            continue
        given = {a.name for a in n.attribute}
        for name, a in onnx.defs.get_schema(n.op_type, opset, "").attributes.items():
            if name not in given and a.default_value.type:
                n.attribute.add().CopyFrom(a.default_value)
    return out


def dtype_of(code: int) -> np.dtype:
    """The dtype of ONNX's number for it."""
    try:
        found = library.onnx().helper.tensor_dtype_to_np_dtype(code)
    except KeyError:
        raise FileFormatError(f"the ONNX model has a value of element type {code}, which is no tensor type that "
                              f"onnx knows") from None
    if found not in dt.CODE_OF:
        raise DTypeError(f"the ONNX model has a value of dtype {found}, which Symbols do not have; they have "
                         f"{', '.join(map(dt.name, dt.CODE_OF))}")
    return dt.as_dtype(found)


class Reader:
    """Values by name: Symbols, or numbers where they are known. ``params``: the numbers that Symbols use, by the names
    of their variables.

    shapes: of the inputs. inputs: Symbols that stand for them; with these, what is computed from lengths stays so
    (sizes.py), and the graph is right for other lengths, too. parameters: variables that there are already.
    """

    def __init__(self, model: Any, shapes: Mapping[str, tuple[int, ...]], inputs: Mapping[str, Symbol] | None = None,
                 parameters: Mapping[str, Symbol] | None = None):
        self.onnx = library.onnx()
        self.opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
        self.params: dict[str, Known] = {}
        self.variables: dict[str, Symbol] = dict(parameters or {})
        self.any_length = inputs is not None
        self.values: MutableMapping[str, Any] = self._constants(model.graph)
        self.names: dict[str, int] = {}
        self.lacking: dict[str, tuple[int, str]] = {}         # outputs that no form gives: the node, and the error
        self.inputs = [i.name for i in model.graph.input if i.name not in self.values]
        for i in model.graph.input:
            if i.name not in self.values:
                self.values[i.name] = inputs[i.name] if inputs is not None else var(
                    i.name, shape=shapes.get(i.name), dtype=self.dtype(i.type.tensor_type.elem_type))
        self.outputs = self._run(model.graph)

    def _run(self, graph: Any) -> list[Symbol]:
        for number, node in enumerate(graph.node):
            self._node(node, number)
        return [self.symbol(o.name, self.value(o.name)) for o in graph.output]

    def _constants(self, graph: Any) -> dict[str, Any]:
        """The numbers in a graph by name."""
        out = {}
        for t in graph.initializer:
            try:
                out[t.name] = self.onnx.numpy_helper.to_array(t)
            except (KeyError, TypeError, ValueError) as err:
                raise FileFormatError(f"the numbers of {t.name!r} in the ONNX model are damaged: {err}") from err
        return out

    def inside(self, graph: Any, given: Mapping[str, Any]) -> list[Symbol]:
        """The results of a graph within a node, which sees the values around it. given: its inputs by name."""
        around = self.values
        own = self._constants(graph)
        self.values = ChainMap({**own, **given}, around)
        try:
            return self._run(graph)
        finally:
            self.values = around

    def dtype(self, code: int) -> np.dtype:
        """The dtype of ONNX's number for it."""
        return dtype_of(code)

    def value(self, name: str) -> Any:
        """What a name stands for."""
        if name not in self.values and name in self.lacking:
            number, text = self.lacking[name]
            raise _numbered(AttributeValueError(text), number)
        if name not in self.values:
            raise FileFormatError(f"the ONNX graph uses {name!r}, which nothing in it computes")
        return self.values[name]

    def symbol(self, name: str, value: Any) -> Symbol:
        """A value as a Symbol: numbers become a variable, whose value is a parameter."""
        if isinstance(value, Symbol):
            return value
        if name not in self.variables and is_size_array(value):
            self.variables[name] = self._sizes_as_data(value)
        if name not in self.variables:
            self.params[name] = value
            self.variables[name] = var(name, shape=value.shape, dtype=value.dtype)
        return self.variables[name]

    def _sizes_as_data(self, value: Known) -> Symbol:
        """What is computed from lengths as an array of integers."""
        one = [self._size_as_data(whole(v)) for v in value.reshape(-1)]
        flat = one[0] if len(one) == 1 else create(find("Concat"), one, {"dim": 0}, self.fresh("lengths"))
        name, shape = ("_np_reshape", "newshape") if not value.ndim else ("Reshape", "shape")
        return flat if value.ndim == 1 else create(find(name), [flat], {shape: value.shape}, self.fresh("lengths"))

    def _size_as_data(self, n: Any) -> Symbol:
        """An array of one integer."""
        if type(n) is int:
            return create(find("_full"), [], {"shape": (1,), "value": n, "dtype": "int64"}, self.fresh("length"))
        counted = create(find("_arange"), [], {"start": 0, "stop": n + 1, "dtype": "int64"}, self.fresh("counted"))
        return create(find("slice_axis"), [counted], {"axis": 0, "begin": n, "end": n + 1}, self.fresh("length"))

    def fresh(self, hint: str) -> str:
        """A name that nothing has."""
        n = self.names.get(hint, 0)
        self.names[hint] = n + 1
        return f"{hint}_{n}" if n or hint in self.values else hint

    def _node(self, proto: Any, number: int) -> None:
        where = f"node {number} ({proto.op_type}{f' {proto.name!r}' if proto.name else ''})"
        try:
            n = OnnxNode(self, proto, where)
            found = self._constant(n)
            if found is None:
                form = FORMS.get(proto.op_type) if proto.domain in ("", "ai.onnx") else None
                if form is None:
                    raise AttributeValueError(f"the operator "
                                              f"{proto.op_type!r}{f' of {proto.domain!r}' if proto.domain else ''} is "
                                              f"not known here")
                found = form(n)
        except HybridError as err:
            raise _numbered(type(err)(f"ONNX {where}: {err}"), number) from None
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as err:
            # attributes or inputs that are none of this operator's
            raise _numbered(FileFormatError(f"ONNX {where} does not follow ONNX's definition of the operator: "
                                            f"{type(err).__name__}: {err}"), number) from err
        found = found if isinstance(found, list) else [found]
        outputs = list(proto.output)
        for o in outputs[len(found):]:                       # an error where something reads it
            self.lacking[o] = number, f"ONNX {where}: only the first {len(found)} of its outputs are known here"
        for name, value in zip(outputs, found):
            if name:
                self.values[name] = value
        if isinstance(found[0], Symbol) and len(outputs) == 1:
            _name(found[0], outputs[0], n)

    def _constant(self, n: "OnnxNode") -> Any:
        """The result of a node of constants, or of lengths; None where operators compute it."""
        if any(map(is_size_array, n.values)):
            found = computed(n)
            n.values = [settled(v) for v in n.values] if found is None else n.values
            return found
        known = n.kind not in (*FOLDED_NEVER, *KEPT) and all(isinstance(v, Known) for v in n.values if v is not None)
        return self._folded(n) if known else None

    def _folded(self, n: "OnnxNode") -> Any:
        """A node of constants, computed by the package's own evaluator; None where it cannot."""
        if _size(n) > 64 * MOST_FOLDED:
            raise AttributeValueError(f"its result would have {_size(n)} elements")
        if sum(v.size for v in n.values if v is not None) > MOST_FOLDED:
            return None
        reference = library.evaluator()
        imports = [self.onnx.helper.make_opsetid("", self.opset)]
        given = {name: v for name, v in zip(n.proto.input, n.values) if name}
        infos = [self.onnx.helper.make_tensor_value_info(k, self.onnx.helper.np_dtype_to_tensor_dtype(v.dtype),
                                                         v.shape) for k, v in given.items() if v is not None]
        outputs = [self.onnx.helper.make_empty_tensor_value_info(o) for o in n.proto.output if o]
        graph = self.onnx.helper.make_graph([n.proto], "one", infos, outputs)
        try:
            with np.errstate(all="ignore"):
                found = reference(self.onnx.helper.make_model(graph, opset_imports=imports)).run(None, given)
        except Exception:                                  # noqa: E501, BLE001  whatever it does not know is read as other nodes are
            return None
        if not all(isinstance(v, (np.ndarray, np.generic)) for v in found):
            return None                                      # sequences and optionals are no arrays
        made = iter(found)
        return [np.asarray(next(made)) if o else None for o in n.proto.output]


def _numbered(err: HybridError, number: int) -> HybridError:
    """An error with the number of the node, in the graph, that cannot be read."""
    err.onnx_node = number                                   # type: ignore[attr-defined]
    return err


def _name(s: Symbol, name: str, n: "OnnxNode") -> None:
    """The operator that gives a node's result has the name of the result."""
    head = s.entries[0][0]
    if head in n.made:
        head.name = name


KEPT = ("QuantizeLinear", "DequantizeLinear")            # parameters of 8 bits stay such
FOLDED_NEVER = ("RandomNormal", "RandomUniform", "If", "Loop", "Scan")


def _size(n: "OnnxNode") -> int:
    """How many numbers the result of a node of constants has, where it may be many more than it is made of."""
    return elements_of(n.kind, n.values)


def elements_of(kind: str, v: Any) -> int:
    """How many elements the result of an operator has, where it may be many more than it is made of; else 0."""
    if kind == "ConstantOfShape":
        return math.prod(map(int, v[0]))
    if kind == "Expand":
        return math.prod(np.broadcast_shapes(v[0].shape, tuple(map(int, v[1]))))
    if kind == "Tile":
        return v[0].size * math.prod(map(int, v[1]))
    if kind == "Range":
        return int(abs((v[1] - v[0]) / v[2])) + 1
    return 0


class OnnxNode:
    """A node while it is read: its inputs (``values``: Symbols, numbers, or None where left out), attributes, and what
    makes operators of it."""

    def __init__(self, reader: Reader, proto: Any, where: str):
        self.reader, self.proto, self.where, self.kind, self.opset = reader, proto, where, proto.op_type, reader.opset
        self.values = [reader.value(name) if name else None for name in proto.input]
        self.attrs = {a.name: reader.onnx.helper.get_attribute_value(a) for a in proto.attribute}
        self.made: list[Any] = []

    def __len__(self) -> int:
        return len(self.values)

    def has(self, k: int) -> bool:
        """Whether an input is there."""
        return k < len(self.values) and self.values[k] is not None

    def __getitem__(self, k: int) -> Symbol:
        """An input as a Symbol."""
        if not self.has(k):
            raise FileFormatError(f"input {k} is missing")
        name = self.proto.input[k]
        return self.reader.symbol(name, self.reader.value(name))

    def all(self) -> list[Symbol]:
        """All inputs."""
        return [self[k] for k in range(len(self))]

    def known(self, k: int, what: str) -> np.ndarray | None:
        """The numbers of an input; None where it is left out, an error where they are not known."""
        if not self.has(k):
            return None
        if not isinstance(self.values[k], Known):
            raise AttributeValueError(f"its {what} is computed while the model runs, and must be known when it is read"
                                      " (if that is because of lengths the file leaves open, give input_shapes)")
        return self.values[k]

    def ints(self, name: str, k: int | None = None, default: Any = None) -> Any:
        """Integers from an attribute (older opsets) or an input (newer ones)."""
        if name in self.attrs:
            given = self.attrs[name]
        else:
            given = self.known(k, name) if k is not None else None
        if given is None:
            return default
        return [whole(v) for v in np.atleast_1d(np.asarray(given))]

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute; text as str."""
        value = self.attrs.get(name, default)
        return value.decode() if isinstance(value, bytes) else value

    def shape(self, k: int = 0) -> tuple[int, ...]:
        """The shape of an input, which must be known."""
        return self.shape_of(self[k])

    def shape_of(self, s: Symbol) -> tuple[int, ...]:
        """The shape of a Symbol."""
        if not known(s.shape):
            raise AttributeValueError("the shape of its input is not known: give input_shapes")
        return tuple(s.shape)

    def op(self, name: str, *inputs: Any, **attrs: Any) -> Symbol:
        """An operator of this library."""
        out = create(find(name), list(inputs), attrs,
                     self.reader.fresh(f"{self.proto.output[0]}_{name.strip('_').lower()}"))
        self.made.append(out.entries[0][0])
        return out

    def constant(self, hint: str, array: Any) -> Symbol:
        """New numbers as a parameter."""
        return self.reader.symbol(self.reader.fresh(f"{self.proto.output[0]}_{hint}"), np.asarray(array))

    def fail(self, text: str) -> AttributeValueError:
        """An error about this node."""
        return AttributeValueError(text)

