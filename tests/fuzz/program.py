"""A random program as text: inputs, statements, results. It can be run, lifted to float64, perturbed and printed."""
from __future__ import annotations

import dataclasses
import re
import warnings
from typing import Any

import numpy as onp

import hybrid as mx
from hybrid import autograd, nd
from hybrid.buffers.array import NDArray

EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}


@dataclasses.dataclass(frozen=True)
class Input:
    """An array that is given: its name, shape, dtype and how its numbers are drawn."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    kind: str                                 # normal, ties, odd
    seed: int
    fixed: bool = False                       # whether its first axis has one length in all calls

    def text(self, rows: int | str | None = None) -> str:
        """The statement that makes the array; rows: another length of the first axis, or a name that holds it."""
        other = rows is not None and self.shape and not self.fixed
        shape = str(self.shape) if not other else f"({rows}, {', '.join(map(str, self.shape[1:]))})"
        draw = {"normal": f"rng.randn(*{shape})", "ties": f"rng.randint(-2, 3, {shape})",
                "odd": f"rng.choice([0., -0., 1, -1, onp.inf, -onp.inf, onp.nan, 2.5, 1e-30], {shape})"}[self.kind]
        return f"rng = onp.random.RandomState({self.seed}); {self.name} = nd.array({draw}, dtype='{self.dtype}')"

    def make(self, dtype: str | None = None, rows: int | None = None) -> NDArray:
        """The array; rows: another length of the first axis."""
        names: dict[str, Any] = {"onp": onp, "nd": nd}
        exec(self.text(rows), names)
        made = names[self.name]
        return made.astype(dtype) if dtype and self.dtype.startswith(("float", "bfloat")) else made


@dataclasses.dataclass(frozen=True)
class Program:
    """Statements over named arrays; casts in them are spelt F16, F32, so that they can be lifted."""

    inputs: tuple[Input, ...]
    statements: tuple[str, ...]
    results: tuple[str, ...]
    gradient: bool = False
    setup: tuple[str, ...] = ()               # run before, once for each way (networks)
    rows: tuple[int | None, ...] = (None,)    # lengths of the first axis, a call for each; None: the inputs' own

    def function(self) -> str:
        body = [*self.statements, f"return ({', '.join(self.results)},)"]
        return f"def f({', '.join(i.name for i in self.inputs)}):\n" + "\n".join("    " + line for line in body)

    def alone(self) -> str:
        """The program as a user would run it: eager and hybridized, called with each size."""
        floats = [i.name for i in self.inputs if i.dtype.startswith(("float", "bfloat"))]
        one = f"g({', '.join(i.name for i in self.inputs)})"
        show = [f"print(n, {one})"] if not self.gradient else [
            *(f"{n}.attach_grad()" for n in floats),
            f"with autograd.record(): y = sum((v * v).mean() for v in {one})", "y.backward()",
            f"print(n, {', '.join(n + '.grad' for n in floats)})"]
        several = len(self.rows) > 1
        sizes = tuple(self.inputs[0].shape[0] if n is None else n for n in (*self.rows, *self.rows[:1]))
        call = [f"for n in {sizes if several else '(0, 1, 2)'}:",
                *("    " + line for line in (*(i.text("n" if several else None) for i in self.inputs), *show))]
        ways = ["mx.random.seed(1)", *self.setup, *self.function().split("\n"), "g = hybridize(f)", *call]
        return "\n".join(["import numpy as onp", "import hybrid as mx", "from hybrid import autograd, gluon, nd",
                          "from hybrid.gluon import nn", "F16, F32 = 'float16', 'float32'",
                          "for hybridize in (lambda f: f, mx.hybridize):", *("    " + line for line in ways)])


def namespace(lifted: bool = False) -> dict[str, Any]:
    from hybrid import gluon
    from hybrid.gluon import nn
    return {"nd": nd, "onp": onp, "mx": mx, "nn": nn, "gluon": gluon, "autograd": autograd,
            "F16": "float64" if lifted else "float16", "F32": "float64" if lifted else "float32"}


def call(program: Program, fn: Any, rows: int | None, dtype: str | None = None, off: Any = None) -> list[onp.ndarray]:
    """What one call gives: its results, the inputs as it left them, and gradients. off: what is done to the inputs'
    numbers before."""
    given = [i.make(dtype, rows) for i in program.inputs]
    if off is not None:
        given = [nd.array(off(x.asnumpy()), dtype=x.dtype) for x in given]
    floats = [g for g in given if g.dtype in (onp.float16, onp.float32, onp.float64)]
    if program.gradient:
        for x in floats:
            x.attach_grad()
        with autograd.record():
            out = fn(*given)
            total = sum((v * v).mean() for v in out if onp.dtype(v.dtype).kind == "f")
        total.backward()
        return [onp.asarray(v.asnumpy()) for v in (*out, *(x.grad for x in floats))]
    return [onp.asarray(v.asnumpy()).copy() for v in (*fn(*given), *given)]


def plain(program: Program) -> Any:
    """The function as it is written."""
    names = namespace()
    mx.random.seed(1)
    exec("\n".join(program.setup), names)
    exec(compile(program.function(), "<fuzz>", "exec"), names)
    return names["f"]


# functions whose gradient is computed from their rounded result, and what it is: near 1 that is all of its error
_FROM_RESULT = {"tanh": lambda y, g: g * (1 - y * y), "sigmoid": lambda y, g: g * y * (1 - y),
                "softmax": lambda y, g: y * (g - (y * g).sum(axis=-1, keepdims=True))}


class _RoundedResults:
    """The functions of nd; those of ``_FROM_RESULT`` give a result that is off by about a rounding, and its
    gradient."""

    def __init__(self, rng: onp.random.RandomState, size: float):
        self._rng, self._size = rng, size

    def __getattr__(self, name: str) -> Any:
        made = getattr(nd, name)
        if name not in _FROM_RESULT:
            return made
        rng, size, gradient = self._rng, self._size, _FROM_RESULT[name]

        class Rounded(autograd.Function):
            def forward(self, x: NDArray) -> NDArray:
                y = made(x)
                self.y = y * nd.array(1 + size * (rng.rand(*y.shape) * 2 - 1), dtype=y.dtype)
                return self.y

            def backward(self, g: NDArray) -> NDArray:
                return gradient(self.y, g)
        return lambda x, **given: Rounded()(x)               # the softmax of the last axis is the only one generated


def _used(rng: onp.random.RandomState, size: float) -> Any:
    """A function that gives its array; the gradient that comes back through it is off by about a rounding. Gradients
    of several uses of an array are added up, and what sums of large ones leave is no better known than these."""
    class Used(autograd.Function):
        def forward(self, x: NDArray) -> NDArray:
            return x * 1

        def backward(self, g: NDArray) -> NDArray:
            return g * nd.array(1 + size * (rng.rand(*g.shape) * 2 - 1), dtype=g.dtype)
    return lambda x: Used()(x)


def perturbed(program: Program, rng: onp.random.RandomState, size: float, lifted: bool = True) -> Any:
    """The function in float64, with each statement's result off by about a rounding of its own dtype, and each input
    that has no equal numbers: what sums of large terms leave when these cancel is no better known than the terms."""
    def f(*given: Any) -> tuple[Any, ...]:
        names = namespace(lifted)
        if program.gradient and size:
            names.update(nd=_RoundedResults(rng, size), used=_used(rng, size))
        names.update(zip((i.name for i in program.inputs), given))

        def disturb(name: str) -> None:
            value = names.get(name)
            if isinstance(value, NDArray) and onp.dtype(value.dtype).kind == "f" and size:
                noise = nd.array(1 + size * (rng.rand(*value.shape) * 2 - 1), dtype=value.dtype)
                if program.gradient:
                    names[name] = value * noise
                else:
                    value[:] = value * noise
        for i in program.inputs:
            if i.kind == "normal":
                disturb(i.name)
        for line in program.statements:
            name, equals, text = line.partition(" = ")
            exec(name + equals + re.sub(r"\b[vx]\d+\b", r"used(\g<0>)", text) if "used" in names else line, names)
            if name := re.match(r"\w+", line):
                disturb(name.group())
        return tuple(names[r] for r in program.results)
    return f


def quiet(act: Any) -> Any:
    with warnings.catch_warnings(), onp.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return act()
