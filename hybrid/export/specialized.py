"""What is exported: the compiled signature of a network or a function, and names for all its arrays."""
from __future__ import annotations

import inspect
import math
import re
from dataclasses import dataclass, field
from typing import Any, Callable, Sequence

import numpy as np

from .. import nd
from ..autograd import predict_mode
from ..base import rng
from ..base.device import cpu
from ..base.errors import AttributeValueError, HybridError
from ..buffers.array import NDArray
from ..ir import Program
from ..jit.compiled_call import Entry
from ..graph.size_numbers import Computed
from ..ir.size import Specialised
from ..jit.any_size import doubts
from ..jit.trace import Hybridized
from ..runtime.staged import has_calls
from .sizes import OpenSizes, at_hint, is_open, shapes_of
from .training import RANDOM, Training, name_of, training_of


# characters that a name in a C comment and a JSON text had better not have
_OTHER = re.compile(r"[^A-Za-z0-9_.:/+ -]")


# words of C and C++
RESERVED = frozenset("""auto break case char class const continue default delete do double else enum extern float for
    goto if inline int long main namespace new operator private protected public register restrict return short
    signed sizeof static struct switch template this throw try typedef union unsigned using virtual void volatile while
    """.split())  # noqa: E501


@dataclass
class Array:
    """An array of the exported program: its name, shape and dtype. value: of one that is a weight."""
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    value: np.ndarray | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of its elements; an expression where a call gives a size."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass
class Specialized:
    """A program with its arrays: ``inputs`` by slot; ``arguments`` of them are given at each call, the others are
    weights. picks: of each output, whether it is a result or an input, and which."""
    program: Program
    inputs: list[Array]
    arguments: int
    outputs: list[Array]
    picks: list[tuple[str, int]]
    frozen: frozenset[int]
    entry: Entry
    training: Training | None = None     # of a program that changes its weights
    titles: list[str] = field(default_factory=list)      # of the arguments, in the function's own words
    sizes: OpenSizes = field(default_factory=OpenSizes)  # that calls give


def sample(value: Any) -> NDArray:
    """An input as an array: itself, or zeros of a shape, or of a (shape, dtype)."""
    if isinstance(value, NDArray):
        return value
    if isinstance(value, np.ndarray):
        return nd.array(value, dtype=value.dtype)
    shape, dtype = value, "float32"
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], (tuple, list)):
        shape, dtype = value
    if not isinstance(shape, (tuple, list)) or not all(isinstance(d, (int, np.integer)) and d > 0 for d in shape):
        raise AttributeValueError(f"export_c takes arrays, shapes like (1, 3, 224, 224) or ('batch', 3, 224, 224), "
                                  f"or ((1, 128), 'int32'); got {value!r}")
    return nd.zeros(tuple(shape), dtype=dtype)


def _open(values: Sequence[Any]) -> tuple[list[Any], list[Any] | None, OpenSizes]:
    """Inputs without sizes that a call gives: the shapes with them, None where there are none, and those sizes."""
    pairs = [v if isinstance(v, tuple) and len(v) == 2 and isinstance(v[0], (tuple, list)) else (v, "float32")
             for v in values]
    if not any(isinstance(s, (tuple, list)) and is_open(s) for s, _ in pairs):
        return list(values), None, OpenSizes()
    pairs = [(p[0].shape, p[0].dtype) if hasattr(p[0], "shape") else p for p in pairs]
    shapes, sizes = shapes_of(pairs)
    return [(at_hint(s), d) for s, d in shapes], [s for s, _ in shapes], sizes


def specialize(call: Callable[..., Any], name: str, inputs: Sequence[Any], names: dict[int, str]) -> Specialized:
    """Trace a call with some inputs. names: of weights, by id of the Parameter."""
    values, shapes, sizes = _open(inputs)
    arrays = [sample(x) for x in values]
    if any(a.context != cpu(0) for a in arrays):
        raise HybridError("export_c writes C for processors: give inputs on mx.cpu()")
    engine = Hybridized(call, name)
    with predict_mode():
        entry = engine.specialization(*arrays) if shapes is None else _entry_for(engine, arrays, shapes, sizes)
    _check(entry, name)
    change = training_of(entry, name)
    given = [Array("data" if len(arrays) == 1 else f"data{i}", s, np.dtype(a.dtype))
             for i, (a, s) in enumerate(zip(arrays, shapes or [a.shape for a in arrays]))]
    used = {a.name for a in given}
    weights = [_weight(h, x, names, used) for h, x in zip(entry.captured, entry.fixed(arrays))]
    program = entry.program
    every = [*given, *weights]
    if entry.draws:                                      # the generator's key comes last
        key = np.array([n & 0xFFFFFFFF for n in rng.get_state()], np.uint32)
        every.append(Array(RANDOM, key.shape, key.dtype, key))
    outputs = []
    for i, (kind, k) in enumerate(entry.picks):
        n = program.outputs[k] if kind == "output" else program.inputs[k]
        outputs.append(Array("output" if len(entry.picks) == 1 else f"output{i}", n.shape, n.dtype))
    return Specialized(program, every, len(given), outputs, list(entry.picks),
                       frozenset(program.memo.get("frozen", frozenset())), entry, change, _titles(call, given), sizes)


def _entry_for(engine: Hybridized, arrays: Sequence[NDArray], shapes: Sequence[Any], sizes: OpenSizes) -> Entry:
    """The entry of a call in which some lengths are symbols."""
    try:
        entry = engine.specialization_for(shapes, sizes.asked, *arrays)
    except Specialised as err:
        raise needs_number(engine.name, sizes, str(err)) from None
    why = doubts(entry)
    if any(isinstance(h, Computed) for h in entry.captured):
        why.append("computes other numbers from them")
    if why:
        raise needs_number(engine.name, sizes, f"it {why[0]}")
    return entry


def needs_number(name: str, sizes: OpenSizes, why: str) -> HybridError:
    """The error for a network that cannot be exported with sizes which calls give."""
    return HybridError(f"{name} cannot be exported with {', '.join(sizes.names)} open ({why}): give numbers as lengths")


def _titles(call: Callable[..., Any], given: Sequence[Array]) -> list[str]:
    """C names for the arguments: those of a function's parameters, else those of the tables."""
    plain = [re.sub(r"\W", "_", a.name) for a in given]
    try:
        own = [p.name for p in inspect.signature(call).parameters.values() if p.kind in (p.POSITIONAL_ONLY,
                                                                                        p.POSITIONAL_OR_KEYWORD)]
    except (TypeError, ValueError):
        return plain
    fits = len(own) >= len(given) and all(n.isascii() and n not in ("model", "rate") for n in own[:len(given)])
    return [f"{n}_" if n in RESERVED else n for n in own[:len(given)]] if fits else plain


def _check(entry: Entry, name: str) -> None:
    """Refuse what C alone cannot do."""
    advice = f"{name} cannot be exported to C"
    if has_calls(entry.program):
        raise HybridError(f"{advice}: it calls Python code (a custom operator); write it with hybrid's operators")
    if entry.draws and not entry.program.updates:
        raise HybridError(f"{advice}: it draws random numbers, which only a training step may; leave out random "
                          f"operators")
    if entry.demands:
        raise HybridError(f"{advice}: it checks its data while it runs, such as indices that must be in range: use "
                          f"mode='clip'")
    if entry.assigned or entry.once:
        raise HybridError(f"{advice}: it assigns attributes of Python objects at each call; return the values")
    if entry.drew or entry.outside:
        raise HybridError(f"{advice}: it draws from another library's generator or reads the machine's state")
    if entry.changes_arguments:
        raise HybridError(f"{advice}: it changes its inputs in place; return new arrays")


def _weight(holder: Any, x: Any, names: dict[int, str], used: set[str]) -> Array:
    """A captured array with a name that no other has."""
    plain = _OTHER.sub("_", names.get(id(holder)) or getattr(holder, "name", None) or name_of(holder) or "constant")
    name, n = str(plain), 0
    while name in used or name == "__metadata__":
        n += 1
        name = f"{plain}.{n}"
    used.add(name)
    raw = np.array(x.asnumpy() if hasattr(x, "asnumpy") else x)
    return Array(name, tuple(raw.shape), raw.dtype, raw)
