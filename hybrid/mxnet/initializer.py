"""Initializers of parameters, with MXNet's names, defaults and JSON form."""
from __future__ import annotations

import json
import logging
import math
import re
from typing import Any, Callable, TypeVar

import numpy as np

from ..base.other_names import hinted as _hinted
from ..nd.draws import normal, raw_normal, raw_uniform, to_device, uniform
from ..buffers.array import NDArray, wrap
from ..buffers.moving import copied, put
from ..base.errors import AttributeValueError
from ..base.names import among
from ..ops.rnn import GATES, GATE_SUFFIXES, packed_pieces

_registry: dict[str, type["Initializer"]] = {}


class InitDesc(str):
    """A parameter's name with its attributes and the global initializer."""
    attrs: dict[str, Any]
    global_init: Any

    def __new__(cls, name: str, attrs: dict[str, Any] | None = None, global_init: Any = None) -> "InitDesc":
        out = super().__new__(cls, name)
        out.attrs, out.global_init = attrs or {}, global_init
        return out


Kind = TypeVar("Kind", bound="type[Initializer]")


def register(cls: Kind) -> Kind:
    """Make an initializer known by its lower-case name."""
    _registry[cls.__name__.lower()] = cls
    return cls


def alias(*names: str) -> Callable[[type["Initializer"]], type["Initializer"]]:
    """Further names of an initializer."""
    def add(cls: type["Initializer"]) -> type["Initializer"]:
        for n in names:
            _registry[n] = cls
        return cls
    return add


def create(given: Any, **kwargs: Any) -> Any:
    """An initializer from an object, a name or MXNet's JSON text; None stays None."""
    if given is None or isinstance(given, Initializer) or callable(given) and not isinstance(given, type):
        return given
    if isinstance(given, type):
        return given(**kwargs)
    text = str(given)
    if text.startswith("["):
        try:
            name, kwargs = json.loads(text)
        except ValueError:
            raise AttributeValueError(f"{text[:80]!r} is no initializer") from None
    else:
        name = text
    if str(name).lower() not in _registry:
        raise AttributeValueError(f"unknown initializer {among(name, _registry)}")
    return _registry[str(name).lower()](**kwargs)


class Initializer:
    """Base: names decide what is initialized how (bias, gamma, beta, running statistics, weight)."""

    def __init__(self, **kwargs: Any):
        self._kwargs = kwargs

    _verbose, _print_func = False, None

    def set_verbosity(self, verbose: bool = False, print_func: Any = None) -> "Initializer":
        """Log a line for every parameter: its name, what filled it, and ``print_func`` of it (the norm over the root of
        the size)."""
        self._verbose, self._print_func = bool(verbose), print_func
        return self

    def _say(self, desc: Any, how: Any, arr: NDArray) -> None:
        if self._verbose and isinstance(desc, InitDesc):
            shown = (self._print_func(arr) if self._print_func is not None
                     else str(np.float32(np.linalg.norm(arr.asnumpy()) / arr.size ** 0.5)))
            logging.info("Initialized %s as %s: %s", desc, how, shown)

    def dumps(self) -> str:
        """MXNet's JSON text: ``["xavier", {"magnitude": 3}]``."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Initializer) and type(self) is type(other) and self._kwargs == other._kwargs

    def __hash__(self) -> int:
        return hash(self.dumps())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self._kwargs.items())})"

    def __call__(self, desc: Any, arr: NDArray) -> None:
        """Fill an array according to its name."""
        init: Any = getattr(desc, "attrs", {}).get("__init__", "")           # an initializer, its name or its JSON text
        if init:
            if isinstance(desc, InitDesc) and desc.global_init is None:
                desc.global_init = self
            create(init)._init_weight(desc, arr)
            self._say(desc, init, arr)
            return
        for suffix, fill in (("weight", self._init_weight), ("bias", self._init_bias), ("gamma", self._init_gamma),
                             ("beta", self._init_beta),
                             ("min", self._init_zero), ("max", self._init_one), ("running_mean", self._init_zero),
                             ("moving_mean", self._init_zero),
                             ("running_var", self._init_one), ("moving_var", self._init_one),
                             ("moving_inv_var", self._init_zero),
                             ("moving_avg", self._init_zero)):
            if str(desc).endswith(suffix):
                fill(desc, arr)
                self._say(desc, suffix, arr)
                return
        self._init_default(desc, arr)

    def _init_weight(self, desc: Any, arr: NDArray) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define _init_weight")

    def _init_default(self, desc: Any, arr: NDArray) -> None:
        raise AttributeValueError(f"no rule says how to initialize {str(desc)!r}: names end in weight, bias, gamma, "
                                  f"beta, …; give the parameter an init=")

    def _init_zero(self, desc: Any, arr: NDArray) -> None:
        arr._write(0)

    def _init_one(self, desc: Any, arr: NDArray) -> None:
        arr._write(1)

    _init_bias = _init_beta = _init_zero
    _init_gamma = _init_one


@register
@alias("zeros")
class Zero(Initializer):
    """All zeros."""

    def __init__(self) -> None:
        super().__init__()

    def _init_weight(self, desc: Any, arr: NDArray) -> None:
        arr._write(0)


@register
@alias("ones")
class One(Initializer):
    """All ones."""

    def __init__(self) -> None:
        super().__init__()

    def _init_weight(self, desc: Any, arr: NDArray) -> None:
        arr._write(1)


@register
class Constant(Initializer):
    """A number, or an array of the parameter's shape."""

    def __init__(self, value: Any = 0.0):
        super().__init__(value=value.asnumpy().tolist() if isinstance(value, NDArray) else value.tolist()
                         if isinstance(value, np.ndarray) else value)
        self.value = value

    def _init_weight(self, desc: Any, arr: NDArray) -> None:
        raw = self.value.asnumpy() if isinstance(self.value, NDArray) else np.asarray(self.value)
        arr._write(to_device(raw.astype(arr._data.dtype), arr))


@register
class Uniform(Initializer):
    """Uniform in [-scale, scale]."""

    def __init__(self, scale: float = 0.07):
        super().__init__(scale=scale)
        self.scale = scale

    def _init_weight(self, desc: Any, arr: NDArray) -> None:
        uniform(arr, -self.scale, self.scale)


@register
class Normal(Initializer):
    """Normal with standard deviation sigma."""

    def __init__(self, sigma: float = 0.01):
        super().__init__(sigma=sigma)
        self.sigma = sigma

    def _init_weight(self, desc: Any, arr: NDArray) -> None:
        normal(arr, 0.0, self.sigma)


@register
class Orthogonal(Initializer):
    """Orthogonal matrices (Saxe et al. 2013)."""

    def __init__(self, scale: float = 1.414, rand_type: str = "uniform"):
        super().__init__(scale=scale, rand_type=rand_type)
        if rand_type not in ("uniform", "normal"):
            raise AttributeValueError(f"Orthogonal: rand_type must be uniform or normal, got {rand_type!r}")
        self.scale, self.rand_type = scale, rand_type

    def _init_weight(self, desc: Any, arr: NDArray) -> None:
        rows, columns = arr.shape[0], int(np.prod(arr.shape[1:]))
        draw = raw_uniform((rows, columns), -1.0,
                                 1.0) if self.rand_type == "uniform" else raw_normal((rows, columns), 0.0, 1.0)
        u, _, v = np.linalg.svd(draw, full_matrices=False)
        q = self.scale * (u if u.shape == draw.shape else v)
        arr._write(to_device(q.reshape(arr.shape).astype(arr._data.dtype), arr))


@register
class Xavier(Initializer):
    """Scale by fan-in and fan-out (Glorot and Bengio 2010)."""

    def __init__(self, rnd_type: str = "uniform", factor_type: str = "avg", magnitude: float = 3):
        super().__init__(rnd_type=rnd_type, factor_type=factor_type, magnitude=magnitude)
        self.rnd_type, self.factor_type, self.magnitude = rnd_type, factor_type, float(magnitude)

    def _init_weight(self, desc: Any, arr: NDArray) -> None:
        shape = arr.shape
        if len(shape) < 2:
            raise AttributeValueError(f"Xavier cannot initialize {str(desc)!r} of shape {shape}: it needs two axes or "
                                      f"more")
        space = math.prod(shape[2:])
        fan_in, fan_out = shape[1] * space, shape[0] * space
        factors = {"avg": (fan_in + fan_out) / 2.0, "in": fan_in, "out": fan_out}
        if self.factor_type not in factors or self.rnd_type not in ("uniform", "gaussian"):
            raise AttributeValueError(f"Xavier: factor_type is avg, in or out, rnd_type uniform or gaussian; got "
                                      f"{self.factor_type}, {self.rnd_type}")
        scale = math.sqrt(self.magnitude / factors[self.factor_type])
        if self.rnd_type == "uniform":
            uniform(arr, -scale, scale)
        else:
            normal(arr, 0.0, scale)


@register
class MSRAPrelu(Xavier):
    """Scale for PReLU nets (He et al. 2015)."""

    def __init__(self, factor_type: str = "avg", slope: float = 0.25):
        super().__init__("gaussian", factor_type, 2.0 / (1 + slope**2))
        self._kwargs = {"factor_type": factor_type, "slope": slope}


@register
class Bilinear(Initializer):
    """Weights of bilinear upsampling."""

    def _init_weight(self, desc: Any, arr: NDArray) -> None:
        shape = arr.shape
        if len(shape) != 4:
            raise AttributeValueError(f"Bilinear makes weights of four axes (of a Deconvolution), {str(desc)!r} has "
                                      f"shape {shape}")
        f = math.ceil(shape[3] / 2.0)
        c = (2 * f - 1 - f % 2) / (2.0 * f)
        x, y = np.arange(shape[3]), np.arange(shape[2])
        plane = np.outer(1 - np.abs(y / f - c), 1 - np.abs(x / f - c))
        arr._write(to_device(np.broadcast_to(plane, shape).astype(arr._data.dtype), arr))


@register
class LSTMBias(Initializer):
    """Zero but for the forget gate."""

    def __init__(self, forget_bias: float = 1.0):
        super().__init__(forget_bias=forget_bias)
        self.forget_bias = forget_bias

    def _init_weight(self, desc: Any, arr: NDArray) -> None:
        arr._write(0)
        n = arr.shape[0] // 4
        put(arr._data, slice(n, 2 * n), self.forget_bias, arr._ctx)
        arr._bump()


class Mixed:
    """Initializers by name pattern."""

    def __init__(self, patterns: list[str], initializers: list[Any]):

        if len(patterns) != len(initializers):
            raise AttributeValueError("Mixed needs one initializer a pattern")
        self.map = [(re.compile(p), create(i)) for p, i in zip(patterns, initializers)]

    def __call__(self, name: Any, arr: NDArray) -> None:
        """Use the first pattern that matches."""
        for pattern, init in self.map:
            if pattern.match(name):
                init(name, arr)
                return
        raise AttributeValueError(f"no pattern of Mixed matches {str(name)!r}; add '.*' as the last one")


class Load:
    """Values from a dict of arrays, another initializer for the rest."""

    def __init__(self, param: dict[str, NDArray], default_init: Any = None, verbose: bool = False):
        self.param = {k[4:] if k[:4] in ("arg:", "aux:") else k: v for k, v in param.items()}
        self.default_init, self.verbose = create(default_init), verbose

    def __call__(self, name: Any, arr: NDArray) -> None:
        """Fill from the dict."""
        if name in self.param:
            if self.param[name].shape != arr.shape:
                raise AttributeValueError(f"parameter {str(name)!r} has shape {arr.shape}, the loaded one "
                                          f"{self.param[name].shape}")
            arr._write(self.param[name]._data)
            self._say(name, "loading")
        elif self.default_init is None:
            raise AttributeValueError(f"no loaded value and no default initializer for {str(name)!r}")
        else:
            self.default_init(name, arr)
            self._say(name, "default")

    def _say(self, name: Any, how: str) -> None:
        if self.verbose:
            logging.info("Initialized %s by %s", name, how)


@register
class FusedRNN(Initializer):
    """The packed weights of ``rnn.FusedRNNCell``: each gate's weights by their own names (``l0_i2h_i_weight``), forget
    gates' biases with forget_bias.

    init: an initializer, its name or JSON text; None for the one that initializes the whole network. The rest as
    FusedRNNCell takes them.
    """

    def __init__(self, init: Any, num_hidden: int, num_layers: int, mode: str, bidirectional: bool = False,
                 forget_bias: float = 1.0):
        init = create(init)
        super().__init__(init=init.dumps() if init is not None else None, num_hidden=num_hidden, num_layers=num_layers,
                         mode=mode,
                         bidirectional=bidirectional, forget_bias=forget_bias)
        self._init, self._forget_bias = init, forget_bias
        self._layout = (mode, num_hidden, num_layers, bidirectional)

    def _init_weight(self, desc: Any, arr: NDArray) -> None:
        mode, hidden, layers, ways = self._layout
        init = self._init if self._init is not None else getattr(desc, "global_init", None)
        if init is None:
            raise AttributeValueError(f"{str(desc)!r}: FusedRNN without init needs the initializer of the whole network")  # noqa: E501
        base = sum(math.prod(shape) for *_, shape in packed_pieces(mode, 0, hidden, layers, ways))
        width = (arr.size - base) // (hidden * GATES[mode] * (2 if ways else 1))
        at = 0
        for group, gate, kind, shape in packed_pieces(mode, width, hidden, layers, ways):
            count = math.prod(shape)
            piece = wrap(copied(arr._data[at:at + count].reshape(shape), arr._ctx), arr._ctx)
            name = f"{group}{GATE_SUFFIXES[mode][gate]}_{kind}"
            if mode == "lstm" and name.endswith("_f_bias"):
                piece._write(self._forget_bias)
            else:
                init(InitDesc(name, global_init=getattr(desc, "global_init", None)), piece)
            put(arr._data, slice(at, at + count), piece._data.reshape(-1), arr._ctx)
            at += count
        arr._bump()

_hinted(globals())
