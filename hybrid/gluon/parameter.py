"""Parameters (from one_parameter.py), and dictionaries of them by full name."""
from __future__ import annotations

from collections import OrderedDict
from typing import Any, ItemsView, Iterator, KeysView, ValuesView

import numpy as np

from ..mxnet import initializer
from .. import serialize
from ..base import dtype as dt
from ..buffers.array import NDArray
from ..base.device import Context
from ..base.errors import AttributeValueError, DeferredInitializationError, FileFormatError, ShapeError
from ..base.names import nearest
from .constant import Constant
from .one_parameter import VERSION, Parameter
from .parameter_values import shape_known


class ParameterDict:
    """Parameters by full name, below a prefix, perhaps shared with another dictionary."""

    def __init__(self, prefix: str = "", shared: "ParameterDict | None" = None):
        self._prefix, self._shared = prefix, shared
        self._params: OrderedDict[str, Parameter] = OrderedDict()

    def __repr__(self) -> str:
        lines = "\n".join(f"  {p}" for p in self.values())
        return f"{self._prefix + ' ' if self._prefix else ''}(\n{lines}\n)"

    def __getitem__(self, key: str) -> Parameter:
        if key not in self._params:
            near = nearest(str(key), self._params) or "".join(f"; {name}" for name in list(self._params)[:5])
            raise KeyError(f"no parameter {key!r} among {len(self._params)}{near}")
        return self._params[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._params)

    def __contains__(self, key: object) -> bool:
        return key in self._params

    def __len__(self) -> int:
        return len(self._params)

    def items(self) -> ItemsView[str, Parameter]:
        """(name, parameter) pairs."""
        return self._params.items()

    def keys(self) -> KeysView[str]:
        """Names."""
        return self._params.keys()

    def values(self) -> ValuesView[Parameter]:
        """Parameters."""
        return self._params.values()

    @property
    def prefix(self) -> str:
        """What names begin with."""
        return self._prefix

    def _find(self, name: str) -> Parameter | None:
        if name in self._params:
            return self._params[name]
        if self._shared is not None and name in self._shared._params:
            self._params[name] = self._shared._params[name]
            return self._params[name]
        return None

    def get(self, name: str, **kwargs: Any) -> Parameter:
        """The parameter prefix + name, made if it is not there; what is known of it must agree."""
        full = self._prefix + name
        p = self._find(full)
        if p is None:
            p = self._params[full] = Parameter(full, **kwargs)
            return p
        for key, value in kwargs.items():
            self._agree(p, key, value)
        return p

    @staticmethod
    def _agree(p: Parameter, key: str, value: Any) -> None:
        """What is asked of a parameter that exists: taken over where it says nothing yet, an error where it differs."""
        found = getattr(p, key, None)
        if found is None:
            setattr(p, key, value)
        elif key == "shape":
            value = (value,) if isinstance(value, int) else tuple(value) if value is not None else found
            if len(found) != len(value) or any(a > 0 and b > 0 and a != b for a, b in zip(found, value)):
                raise ShapeError(f"Parameter {p.name!r} exists with shape {found}, which does not fit {value}")
            p._shape = tuple(b if a in (0, -1) else a for a, b in zip(found, value))
        elif value is not None and (dt.as_dtype(value) != p._dtype if key == "dtype" else value != found):
            raise AttributeValueError(f"Parameter {p.name!r} exists with {key}={found!r}, {value!r} was asked for: "
                                      f"use another name, or ask for the same")

    def get_constant(self, name: str, value: Any = None) -> Constant:
        """The constant prefix + name, made from a value if it is not there."""
        full = self._prefix + name
        p = self._find(full)
        if p is None:
            if value is None:
                raise KeyError(f"no constant named {full!r}; give a value to make it")
            p = self._params[full] = Constant(full, value)
        if not isinstance(p, Constant):
            raise AttributeValueError(f"Parameter {full!r} exists and is no constant")
        if value is not None:
            given = value.asnumpy() if isinstance(value, NDArray) else np.asarray(value)
            if p.shape != given.shape or not (p.value.asnumpy() == given.astype(p.dtype)).all():
                raise AttributeValueError(f"constant {full!r} exists with another value; use another name, or "
                                          f"set_data to change it")
        return p

    def update(self, other: "ParameterDict") -> None:
        """Take over another dictionary's parameters."""
        for k, v in other.items():
            if k in self._params and self._params[k] is not v:
                raise AttributeValueError(f"two different parameters are named {k!r}")
            self._params[k] = v

    def initialize(self, init: Any = None, ctx: Any = None, verbose: bool = False, force_reinit: bool = False) -> None:
        """Initialize every parameter; Uniform(0.07) where nothing else is said."""
        default = initializer.create(init) or initializer.Uniform()
        if verbose and isinstance(default, initializer.Initializer):
            default.set_verbosity(True)
        for p in self.values():
            p.initialize(None, ctx, default, force_reinit=force_reinit)

    def zero_grad(self) -> None:
        """Set every gradient to zero."""
        for p in self.values():
            p.zero_grad()

    def reset_ctx(self, ctx: Any) -> None:
        """Move every parameter."""
        for p in self.values():
            p.reset_ctx(ctx)

    def list_ctx(self) -> list[Context]:
        """Devices of the parameters."""
        return list(dict.fromkeys(c for p in self.values() for c in p.list_ctx()))

    def setattr(self, name: str, value: Any) -> None:
        """Set an attribute of every parameter (grad_req, lr_mult, …)."""
        for p in self.values():
            setattr(p, name, value)

    def cast(self, dtype: Any) -> None:
        """Another dtype for every parameter."""
        for p in self.values():
            p.cast(dtype)

    def save(self, filename: Any, strip_prefix: str = "") -> None:
        """Save by full name (without a prefix)."""
        out = {}
        for name, p in self.items():
            if not name.startswith(strip_prefix):
                raise AttributeValueError(f"the prefix {strip_prefix!r} is to be stripped, but parameter {name!r} "
                                          f"does not begin with it")
            out[name[len(strip_prefix):]] = p._reduce()
        serialize.save(filename, out)

    def load(self, filename: Any, ctx: Any = None, allow_missing: bool = False, ignore_extra: bool = False,
             restore_prefix: str = "",
             cast_dtype: bool = False, dtype_source: str = "current") -> None:
        """Load by full name."""
        self.load_dict(serialize.load(filename), ctx, allow_missing, ignore_extra, restore_prefix, str(filename),
                       cast_dtype, dtype_source)

    def load_dict(self, param_dict: Any, ctx: Any = None, allow_missing: bool = False, ignore_extra: bool = False,
                  restore_prefix: str = "",
                  filename: str | None = None, cast_dtype: bool = False, dtype_source: str = "current") -> None:
        """Take over arrays by full name (``arg:`` and ``aux:`` before it are dropped)."""
        source = filename or "the dict"
        # a model without parameters: its file holds an empty list
        param_dict = param_dict or {}
        if not isinstance(param_dict, dict):
            raise FileFormatError(f"{source} holds arrays without names, so it cannot be loaded into parameters")
        values = {restore_prefix + (k[4:] if k[:4] in ("arg:", "aux:") else k): v for k, v in param_dict.items()}
        fill(self._params, values, source, ctx, allow_missing, ignore_extra, cast_dtype, dtype_source)


def fill(params: Any, values: dict[str, NDArray], source: str, ctx: Any, allow_missing: bool, ignore_extra: bool,
         cast_dtype: bool, dtype_source: str,
         own: bool = False) -> None:
    """Put loaded values into parameters. All is checked before anything is changed. own: nobody else has the values."""
    missing, extra = [k for k in params if k not in values], [k for k in values if k not in params]
    if missing and not allow_missing:
        other = ". It has names as save_parameters writes them: use net.load_parameters" if not any("." in k
                for k in params) and any("." in k for k in values) else ""
        raise FileFormatError(f"{source} has no value for {_some(missing)}; it holds {_some(list(values))}. Pass "
                              f"allow_missing=True to go on without{other}")
    if extra and not ignore_extra:
        raise FileFormatError(f"{source} holds {_some(extra)}, which the network does not have; it has "
                              f"{_some(list(params)) or 'none'}. "
                              "Pass ignore_extra=True to ignore them")
    for k, p in params.items():
        if k in values and p.shape is not None and (len(p.shape) != len(values[k].shape)
                                                    or any(a not in (0, -1, b)
                                                           for a, b in zip(p.shape, values[k].shape))):
            raise ShapeError(f"{source}: parameter {k!r} has shape {p.shape}, the loaded value {values[k].shape}")
    for k, p in params.items():
        if k in values:
            p._load_init(values[k], ctx, cast_dtype, dtype_source, own)


def _some(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:4]))
    return shown + (f" and {len(names) - 4} more" if len(names) > 4 else "")


__all__ = ["VERSION", "Constant", "DeferredInitializationError", "Parameter", "ParameterDict", "fill", "shape_known"]
