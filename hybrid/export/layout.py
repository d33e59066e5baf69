"""Where the arrays of an exported program lie: in the caller's inputs and outputs, in the model, or in the
workspace."""
from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from ..base.errors import HybridError
from ..ir.size import fixed
from ..runtime.build import Listing
from .specialized import Array, Specialized
from .training import COUNT, RANDOM, Training

CACHE_LINE = 64


@dataclass
class Space:
    """Memory that arrays are put into, one after the other."""
    size: int = 0
    unit: int = CACHE_LINE

    def take(self, nbytes: int) -> int:
        """The offset of so many bytes, on a cache line or another unit."""
        at = self.size
        self.size += -(-max(nbytes, 1) // self.unit) * self.unit if fixed(nbytes) else (
            (nbytes + self.unit - 1) // self.unit * self.unit)
        return at


@dataclass
class Layout:
    """Statements that fill pointer tables, and the sizes of what they point into.

    weights: arrays of the weights file; places: of each, whether it stays in the model, and its offset. run, prepare:
    C text of each slot of the program's table and of that of the program which prepares values.
    """
    weights: list[Array] = field(default_factory=list)
    places: list[tuple[bool, int]] = field(default_factory=list)
    arrays: Space = field(default_factory=Space)
    temporary: Space = field(default_factory=Space)
    workspace: Space = field(default_factory=Space)
    run: list[tuple[str, str]] = field(default_factory=list)
    prepare: list[tuple[str, str]] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    counter: int = 0                     # the offset of the count of steps
    random: int = 0                      # and that of the random generator's seed and count

    def place(self, a: Array, kept: bool) -> str:
        """Adds an array to the weights file; its address. kept: whether it stays in the model."""
        offset = (self.arrays if kept else self.temporary).take(a.nbytes)
        self.weights.append(a)
        self.places.append((kept, offset))
        return f"{'m->arrays' if kept else 'once'} + {offset}"


def _constants(listing: Listing, prefix: str) -> list[Array]:
    return [Array(f"{prefix}{i}", a.shape, a.dtype, a) for i, a in enumerate(listing.recipe.constants)]


def lay_out(what: Specialized, listing: Listing) -> Layout:
    """Places for all arrays of a program."""
    out = Layout()
    main, prepared = listing.recipe, listing.prepare
    out.workspace.take(main.arena_bytes)                 # first: the table's last slot points to it
    read = _read_slots(listing)
    own = {i: a for i, a in enumerate(what.inputs) if i >= what.arguments}
    training = what.training
    at = {slot: out.place(a, slot in read or training is not None) for slot, a in own.items()
          if training is None or slot != training.slot}
    own_constants = _constants(listing, "hybrid.constant")
    if what.sizes:
        own_constants.pop()                              # the values of the sizes, which a call gives
    constants = [*own_constants,
                 *(_constants(prepared, "hybrid.packing") if prepared is not None else [])]
    places = [out.place(a, i < len(own_constants) or training is not None) for i, a in enumerate(constants)]
    if training is not None:
        _count_steps(out, training)
    made = [out.arrays.take(_nbytes(shape, d)) for shape, d in main.inputs[main.given:]]
    for slot, a in enumerate(what.inputs):
        given = f"(void *)inputs[{slot}]" if slot < what.arguments else at[
                slot] if slot in read and slot in at else "NULL"
        if training is not None and slot == training.slot:
            given = f"workspace + {out.workspace.take(a.nbytes)}"
        out.run.append((given, a.name))
    out.run += [(f"m->arrays + {offset}", f"packed {list(main.inputs[main.given + i][0])}")
                for i, offset in enumerate(made)]
    out.run += [(places[i], a.name) for i, a in enumerate(own_constants)]
    if what.sizes:
        out.run.append(("(void *)(uintptr_t)sizes", "the sizes of the call"))
    _results(what, listing, out)
    if prepared is not None:
        _prepare(listing, out, at, places[len(own_constants):], made)
    return out


def _count_steps(out: Layout, training: Training) -> None:
    """Places for the count of steps, and of random draws."""
    out.counter = out.arrays.take(8)
    out.weights.append(Array(COUNT, (), np.dtype(np.int64), training.counter()))
    out.places.append((True, out.counter))
    if training.draws:
        out.random = out.places[[a.name for a in out.weights].index(RANDOM)][1]
        out.after.append(f"((uint32_t *)(void *)(m->arrays + {out.random}))[1] += {training.draws}u;")


def lay_out_constants(what: Specialized, listing: Listing) -> Layout:
    """Places for all arrays of a program whose weights are constants in its text, ``hy_weight0`` and so on."""
    out, main = Layout(), listing.recipe
    if listing.prepare is not None:
        raise HybridError("a program that prepares weights has no form for devices")
    out.workspace.take(main.arena_bytes)                 # first: the table's last slot points to it
    read = _read_slots(listing)

    def constant(a: Array) -> str:
        out.weights.append(a)
        return f"(void *)hy_weight{len(out.weights) - 1}"
    for slot, a in enumerate(what.inputs):
        weight = constant(a) if slot >= what.arguments and slot in read else "NULL"
        out.run.append((f"(void *)inputs[{slot}]" if slot < what.arguments else weight, a.name))
    out.run += [(constant(a), a.name) for a in _constants(listing, "constant")]
    _results(what, listing, out)
    return out


def _nbytes(shape: tuple[int, ...], dtype: np.dtype) -> int:
    return math.prod(shape) * dtype.itemsize


def _read_slots(listing: Listing) -> set[int]:
    """Inputs that the program itself reads or writes, or gives back."""
    fused, recipe = listing.planned.fused, listing.recipe
    read = {n.attrs["slot"] for k in fused.kernels for n in (*k.reads, *k.stores) if n.prim == "input"}
    read |= {i for i, _ in recipe.results} | set(recipe.written) | {slot for slot, _, _ in recipe.updates}
    return {s for s in read if s < recipe.given} | {i for _, i, _ in recipe.updates if i < recipe.given}


def _results(what: Specialized, listing: Listing, out: Layout) -> None:
    """Fresh arrays: the caller's outputs where each is one, else in the workspace, to be copied."""
    recipe = listing.recipe
    first = recipe.arena_slot - len(recipe.fresh)
    direct: dict[int, int] = {}
    for j, (kind, k) in enumerate(what.picks):
        place = recipe.results[k][0] if kind == "output" else k
        if place >= first and place not in direct:
            direct[place] = j
        else:
            out.after.append(f"memcpy(outputs[{j}], b[{place}], {what.outputs[j].nbytes});")
    for i, (shape, d) in enumerate(recipe.fresh):
        if first + i in direct:
            j = direct[first + i]
            out.run.append((f"outputs[{j}]", what.outputs[j].name))
        else:
            out.run.append((f"workspace + {out.workspace.take(_nbytes(shape, d))}", f"new value {list(shape)}"))
    for slot, place, shape in recipe.updates:
        if place < first:
            raise HybridError("a program whose inputs take one another's place cannot be exported to C: assign a copy")
        out.after.append(f"memcpy(b[{slot}], b[{place}], {_nbytes(shape, recipe.inputs[slot][1])});")
    out.run.append(("workspace", "intermediate values"))


def _prepare(listing: Listing, out: Layout, at: dict[int, str], constants: list[str], made: list[int]) -> None:
    """The table of the program that prepares values."""
    assert listing.prepare is not None
    recipe, names = listing.prepare.recipe, [n for _, n in out.run]
    if recipe.given != len(recipe.inputs) or recipe.updates or not recipe.simple:
        results = {i for i, _ in recipe.results}
        if recipe.updates or recipe.given != len(recipe.inputs) or len(results) != len(recipe.results):
            raise HybridError("weights that are packed in several ways cannot be exported to C")
    out.prepare = [(at[s], names[s]) for s in listing.recipe.slots]
    out.prepare += [(c, "constant") for c in constants]
    first = recipe.arena_slot - len(recipe.fresh)
    place = {i: k for k, (i, _) in enumerate(recipe.results)}
    for i in range(first, recipe.arena_slot):
        out.prepare.append((f"m->arrays + {made[place[i]]}", f"packed {list(recipe.fresh[i - first][0])}"))
    for k, (i, _) in enumerate(recipe.results):
        if i < first:
            raise HybridError("a weight that is packed as it is cannot be exported to C")
    out.prepare.append((f"once + {out.temporary.take(recipe.arena_bytes)}", "intermediate values"))
