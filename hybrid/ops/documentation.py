"""The text of ``help(nd.Convolution)``: what the registry knows of an operator, as a docstring."""
from __future__ import annotations

import inspect

from .attributes import REQUIRED, Attribute, Enum, Shape
from .examples import examples, imports
from .registry import OpDef

KINDS = {"int": "an integer", "float": "a number", "number": "a number", "bool": "True or False", "str": "text",
         "shape": "a tuple of integers, or one integer", "axes": "an axis, several, or None for all of them",
         "floats": "a tuple of numbers", "dtype": "a dtype: its name, or NumPy's type"}


def document(d: OpDef, public: str, first: str = "") -> str:
    """The docstring of an operator's function: what it computes, its arrays, its attributes, its results, an example.

    public: the name by which the function is asked for, without its namespace. first: what the function calls its
    first array, if not as the operator does.
    """
    parts = [inspect.cleandoc(d.__doc__) if d.__doc__ else f"The operator {d.name}."]
    if d.inputs:
        parts.append("\n".join(["Arrays", "------", *_arrays(d, first)]))
    if d.attrs:
        parts.append("\n".join(["Attributes", "----------", *(_row(n, a) for n, a in d.attrs.items()
                                                               if n not in d.inputs)]))
    parts.append("\n".join(["Result", "------", *_results(d)]))
    parts.append("\n".join(["Errors", "------", *_errors(d)]))
    example = examples().get(d.name)
    if example:
        parts.append("\n".join(["Example", "-------", imports(example), *example]))
    return "\n\n".join(parts)


def _arrays(d: OpDef, first: str = "") -> list[str]:
    names = [first or d.inputs[0], *d.inputs[1:]]
    if d.variadic:
        return [f"{names[0]}: a list of arrays" if first else f"*{names[0]}: any number of arrays, or one list of them"]
    rows = []
    for name, shown in zip(d.inputs, names):
        notes = ["may be left out"] if name in d.optional else []
        if name in d.aux:
            notes.append("an auxiliary state: training calls write it")
        rows.append(f"{shown}: an array" + "".join(f"; {n}" for n in notes))
    return rows


def kind_of(a: Attribute) -> str:
    """What values an attribute takes, in words."""
    if isinstance(a, Enum):
        return "one of " + ", ".join(map(repr, a.choices))
    if isinstance(a, Shape) and a.none:
        return "a tuple of integers, of which each may be None"
    return KINDS.get(a.kind, "a value")


def _row(name: str, a: Attribute) -> str:
    given = "it must be given" if a.default is REQUIRED else f"{a.default!r} unless given"
    return f"{name}: {kind_of(a)}; {given}" + (f". {a.doc}" if a.doc else "")


def _results(d: OpDef) -> list[str]:
    many = d.visible is not None or d.outputs is not None
    rows = ["One array, or a list of several where the attributes ask for them." if many else "One array."]
    if "dtype" in d.attrs:
        rows.append("Its dtype is the attribute ``dtype``.")
    rows.append("out: an array into which the result is written; name: the node's name in a graph.")
    if "key" in d.needs:
        rows.append("It draws random numbers: ``mx.random.seed`` makes them repeat.")
    return rows


def _errors(d: OpDef) -> list[str]:
    rows = ["ShapeError, DTypeError: the arrays do not fit together, or do not fit the attributes."]
    if d.attrs:
        rows.append("AttributeValueError: an attribute is unknown, missing or not of its kind.")
    return rows


__all__ = ["document", "kind_of"]
