"""Shapes and arguments of operators written in Python."""
from __future__ import annotations

from typing import Any, Mapping, Sequence

from ..base.errors import AttributeValueError
from ..ops.attributes import Attrs, to_string

_props: dict[str, type] = {}


def _prop(values: Mapping[str, Any]) -> Any:
    given = dict(values)
    name = given.pop("op_type", None)
    if name is None:
        raise AttributeValueError("Custom needs op_type, the name a CustomOpProp was registered under")
    if name not in _props:
        raise AttributeValueError(f"no custom operator {name!r} is registered (mx.operator.register); known: "
                                  f"{', '.join(sorted(_props)) or 'none'}")
    try:
        return _props[name](**{k: v if isinstance(v, str) else to_string(v) for k, v in given.items()})
    except TypeError as err:
        raise AttributeValueError(f"custom operator {name!r} does not take {', '.join(given) or 'no arguments'}: {err}") from err  # noqa: E501


def _given(a: Attrs) -> dict[str, Any]:
    return {k: v for k, v in a.asdict().items() if k != "train"}


def _complete(shapes: list[Any], a: Attrs) -> list[Any]:
    """Shapes of inputs that infer_shape tells from the others."""
    values = _given(a)
    prop = _prop(values)
    n = len(prop.list_arguments())
    found = prop.infer_shape([list(s) if s is not None else [] for s in shapes[:n]])
    return [*(tuple(s) for s in found[0]), *(tuple(s) for s in (found[2] if len(found) > 2 else ()))]


def _ordered(prop: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    wanted = [*prop.list_arguments(), *prop.list_auxiliary_states()]
    if len(args) > len(wanted):
        raise AttributeValueError(f"{type(prop).__name__} takes {len(wanted)} arrays ({', '.join(wanted)}), got "
                                  f"{len(args)}")
    return [args[i] if i < len(args) else kwargs.pop(n, None) for i, n in enumerate(wanted)]
