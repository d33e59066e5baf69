"""Programs for any size: when a dimension is seen with a second value, the function is traced again with a symbol for
it (hybrid/ir/size.py), and one program then serves every value that passes its guards.

A comparison that the symbol's range does not decide (``if x.shape[0] > 4``) is answered with the traced value and kept
as a guard; calls that fail a guard do not use this program. If the code or a pass needs a concrete number
(``range(len(x))``), or the program does something that is not supported for symbolic sizes (``check``), the trace is
abandoned, and each size has a program of its own.

Only code whose latest ordinary trace was free of such things, changed nothing outside and called no function with a
cache is traced so (``AnySize.traced``), for symbols must not get into the user's objects. What another path of the code
changes in the symbolic trace is undone, and the trace is abandoned.
"""
from __future__ import annotations

import copy
from collections import Counter, OrderedDict
from itertools import count
from operator import is_
from typing import TYPE_CHECKING, Any, Callable, Sequence

from .. import runtime
from ..base import config
from ..base.pytree import ById
from ..graph.size_numbers import Computed
from ..graph.traced_number import TracedNumber
from ..ir.asked import Asked
from ..ir.at_sizes import AtSizes, at_values, refused, serves
from ..ir.size import Dim, Size, Specialised, size
from ..runtime import background
from ..runtime.job import Job
from ..runtime.observers import OBSERVERS

from . import sizes_note
from .concealed import holds_traced
from .dims import LEAST, Varying
from .dims import Dim as Named
from .programs import parts_of, state_of
from .view_steps import steps_at

if TYPE_CHECKING:
    from .compiled_call import Entry
    from .trace import Hybridized

Shape = tuple[Any, ...]
RENEW = 32                      # calls between attempts to install the launcher's fast path again
UNTIL_LAID = RENEW - 2          # first count of missed calls: the third call of a size installs it
MOST = 512                      # concrete sizes whose entries one program keeps
FEW = 3                         # calls of a size that run as plain Python while the program for any size is built
SEVERAL = 4                     # after so many sizes a program for any size takes the calls of those for one
KEPT = 16                       # recent shapes of a kind of call, to see which dimension varies
TRIES = 2                       # symbolic traces of a kind of call in which the same sizes are symbols
TRACES = 4                      # symbolic traces of a kind of call
_serial = count(1)


def generalised(calls: Sequence[Sequence[Shape]], new: Sequence[Shape], serial: int) -> list[Shape] | None:
    """Shapes in which each length is a size that differs between a call and earlier ones; None where none does. Lengths
    that were equal in all calls are one dimension (the batch of data and labels). Earlier calls with 0 or 1 where the
    new one has another length do not count."""
    alike = [old for old in calls
             if all(min(a, b) >= LEAST for s, t in zip(old, new) for a, b in zip(s, t) if a != b)]
    lengths = [[(*(old[k][i] for old in alike), b) for i, b in enumerate(t)] for k, t in enumerate(new)]
    varied = sorted({c for each in lengths for c in each if len(set(c)) > 1})
    names = {c: size(Dim(f"n{i}", LEAST, hint=c[-1], serial=serial)) for i, c in enumerate(varied)}
    return [tuple(names.get(c, c[-1]) for c in each) for each in lengths] if varied else None


def _named(old: Sequence[Shape], new: Sequence[Shape], serial: int,
           axes: Sequence[dict[int, Named]]) -> list[Shape] | None:
    values: dict[Named, int] = {}
    out = []
    for s, t, own in zip(old, new, axes):
        shape = list(t)
        for i, (a, b) in enumerate(zip(s, t)):
            if i in own:
                made = own[i].symbol(b, serial)
                if made is None or values.setdefault(own[i], b) != b:
                    return None
                shape[i] = size(made)
            elif a != b:
                return None
        out.append(tuple(shape))
    return out if values else None


class Family:
    """A program for symbolic sizes, and the entries made of it for concrete ones. kind: the calls' signature without
    sizes; shapes: of the arguments, symbolic."""

    def __init__(self, kind: Any, shapes: list[Shape], entry: "Entry", asked: Asked):
        self.kind, self.shapes, self.entry, self.asked = kind, shapes, entry, asked
        entry.family = self
        self.calls: OrderedDict[Any, "Entry"] = OrderedDict()    # by signature
        self._came: Counter[tuple[int, ...]] = Counter()         # calls of each size before the program is built
        self.takes_over = True                           # whether there may be other programs whose calls it can take

    def sizes(self, shapes: Sequence[Shape]) -> dict[str, int] | None:
        """Values of the dimensions for a call with these shapes; None if shapes or guards do not match."""
        found: dict[Any, int] = {}
        for own, given in zip(self.shapes, shapes):
            for a, b in zip(own, given):
                if type(a) is not Size:
                    if a != b:
                        return None
                elif found.setdefault(a, b) != b or not _dim(a).low <= b <= _dim(a).high:
                    return None
        values = {_dim(s).name: n for s, n in found.items()}
        fit = self.asked.hold(values) and all(h.at(values).fits() for h in self.entry.captured if type(h) is Computed)
        return values if fit and serves(self.entry.program, values) else None

    def newest(self) -> "Entry | None":
        """The newest entry, whose prepacked parameters others reuse."""
        return next(reversed(self.calls.values()), None)

    def count_early_call(self, entry: "Entry") -> bool:
        """Count a call before the program is built; whether the entry's size has come a few times only, this one
        included."""
        if len(self._came) > MOST:
            self._came.clear()
        self._came[size := tuple(entry.program.values.values())] += 1            # type: ignore[attr-defined]
        return self._came[size] <= FEW

    def serves(self, signature: Any) -> bool:
        """Whether its program can do the calls of a signature."""
        return ((_kind(signature[:-1]), signature[6]) == self.kind
                and self.sizes([shape for shape, *_ in signature[1]]) is not None)

    def at(self, values: dict[str, int]) -> "Entry":
        """The entry for these values of the dimensions."""
        entry = copy.copy(self.entry)
        entry.program = AtSizes(self.entry.program, values)
        entry.captured = [h.at(values) if type(h) is Computed else h for h in entry.captured]
        entry.views = {k: (kind, i, steps_at(steps, values)) for k, (kind, i, steps) in entry.views.items()}
        entry.draws = at_values(entry.draws, values)
        entry.demands = [d.for_sizes(values) for d in entry.demands]
        entry.before = [each.at(values) if hasattr(each, "at") else each for each in entry.before]
        entry.arrays, entry.missed = [], UNTIL_LAID
        entry.seen = entry.checked = entry.collected = entry.marked = -1
        last = self.newest()
        if last is not None:
            entry.bound = last.bound                     # its prepacked parameters are reused
            collected = last.collected                   # read before slots and arrays: another thread may replace them
            if entry.frozen and collected >= 0 and all(map(is_, entry.captured, last.captured)):
                entry.slots, entry.arrays, entry.collected = last.slots, last.arrays, collected
        return entry


class AnySize:
    """The programs with symbolic sizes of one hybridized function."""

    def __init__(self) -> None:
        self.families: list[Family] = []
        self._seen: dict[Any, list[list[Shape]]] = {}
        self._tried: dict[Any, Counter[Any]] = {}        # traces of a kind of call, by the places of symbols
        # places of symbols of a kind of call with which there is no program for any size
        self._failed: dict[Any, list[Any]] = {}          # the code raised; with other sizes it may take another branch
        self._unfit: dict[Any, list[Any]] = {}           # the code ran, but its operations have none: not tried again
        self._fit: dict[Any, Any] = {}                   # kinds of calls that may be traced so: at which version
        self._varying: Varying | None = None             # which sizes may be symbols
        self.why: list[str] = []                         # what kept a program from being one for any size

    def clear(self) -> None:
        """Forget all."""
        self.families.clear()
        self._seen.clear()
        self._tried.clear()
        self._failed.clear()
        self._unfit.clear()
        self._fit.clear()
        self.why.clear()

    def lines(self) -> list[str]:
        """Why sizes that varied have a program each, for the report."""
        why = [*self.why, *(each for family in self.families for each in refused(family.entry.program))]
        return list(dict.fromkeys(why)) if any(len(seen) > 1 for seen in self._seen.values()) else []

    def traced(self, plain: Any, version: Any, entry: "Entry") -> None:
        """Note an ordinary trace: whether calls of its kind may be traced with symbolic sizes."""
        kind = _kind(plain)
        self._fit.pop(kind, None)
        why = doubts(entry)
        if not why:
            self._fit[kind] = version
        elif (told := f"it {why[0]}") not in self.why:
            self.why.append(told)

    def entry(self, owner: "Hybridized", plain: Any, structure: Any, arrays: Sequence[Any], held: Sequence[Any],
              cls: Any) -> "tuple[Entry | None, bool]":
        """The entry of a signature that is seen for the first time, from a symbolic program; None if this size needs
        one of its own. Also whether a cache miss was noted, as for every program that is made. plain: the signature
        without what was read of Python's objects."""
        if not arrays or plain[2].device_type != "cpu" or plain[8] is not None:
            return None, False
        shapes = [a.shape for a in arrays]
        kind = _kind(plain)
        for family in self.families:
            if family.kind == (kind, plain[6]) and (values := family.sizes(shapes)) is not None:
                guard = family.entry.guard
                if guard.stamp() == family.entry.stamp:
                    return self._kept(owner, plain, family, values), False
        if self._varying is None:
            self._varying = Varying(owner)
        wanted = self._wanted(owner, kind, plain[6], shapes, self._varying.axes(structure, shapes))
        if wanted is None:
            return None, False
        new = self._new(owner, kind, plain, structure, arrays, held, cls, wanted)
        if new is None or (values := new.sizes(shapes)) is None:
            return None, True
        self.families.append(new)
        for entry in self._served_by(owner, new):
            for part in parts_of(entry):
                runtime.set_aside(part, entry.ctx)
        sizes_note.write(owner, kind, self._seen[kind])
        return self._kept(owner, plain, new, values), True

    def _kept(self, owner: "Hybridized", plain: Any, family: Family, values: dict[str, int]) -> "Entry":
        entry = family.at(values)
        owner.entries.guards.setdefault(plain, []).append(entry.guard)
        owner.entries[(*plain, entry.stamp)] = family.calls[(*plain, entry.stamp)] = entry
        if len(family.calls) == SEVERAL:
            count = len(family.shapes)
            calls = [[shape for shape, *_ in signature[1][:count]] for signature in family.calls]
            sizes_note.write(owner, _kind(plain), calls, SEVERAL)
        if len(family.calls) > MOST:
            gone, _ = family.calls.popitem(last=False)
            owner.entries.pop(gone, None)
            owner.entries.guards.pop(gone[:-1], None)
        return entry

    def _wanted(self, owner: "Hybridized", kind: Any, version: Any, shapes: list[Shape],
                axes: Any) -> list[Shape] | None:
        """Symbolic shapes to trace a call with; None for calls that are not traced so."""
        if (seen := self._seen.get(kind)) is None:
            seen = self._seen[kind] = sizes_note.read(owner, kind, shapes)
            # an earlier process called a program for any size with so many sizes: trace one at once
            if len(seen) >= SEVERAL:
                self._fit.setdefault(kind, version)
        serial = next(_serial)
        if axes is None:
            # all that ever differed; where that cannot be traced, what differs from the latest call
            ways = [generalised(seen, shapes, serial), *(generalised([old], shapes, serial) for old in reversed(seen))]
        else:
            ways = [_named(old, shapes, serial, axes) for old in reversed(seen)]
        tried, failed = self._tried.setdefault(kind, Counter()), self._failed.setdefault(kind, [])
        unfit = self._unfit.setdefault(kind, [])
        unfit += [_places(f.shapes) for f in self.families if f.kind == (kind, version) and refused(f.entry.program)
                  and _places(f.shapes) not in unfit]
        wanted = next((w for w in ways if w is not None and tried[_places(w)] < TRIES
                       and not any(places < _places(w) for places in failed)
                       and not any(places <= _places(w) for places in unfit)), None)
        if shapes not in seen:
            seen.append(shapes)
            del seen[:-KEPT]
        if (wanted is None or self._fit.get(kind) != version or tried.total() >= TRACES
                or config.compile_mode() == "never"):
            return None
        tried[_places(wanted)] += 1
        return wanted

    def _new(self, owner: "Hybridized", kind: Any, plain: Any, structure: Any, arrays: Sequence[Any],
             held: Sequence[Any], cls: Any, wanted: list[Shape]) -> Family | None:
        asked = Asked()
        try:
            entry = owner.traced_for(plain, structure, arrays, held, cls, wanted, asked)
        except Exception as err:                             # noqa: BLE001  the trace for this size alone tells the user
            self.why.append(str(err))
            (self._unfit if asked.ran else self._failed)[kind].append(_places(wanted))
            return None
        return Family((kind, owner.version()), wanted, entry, asked)

    def unbuilt(self, owner: "Hybridized", entry: "Entry") -> Job | None:
        """The job of building the program of which an entry is one size, where it is not built yet and this call may
        run as plain Python instead. If it is built, it takes over the calls of other programs where it can."""
        family = entry.family
        if family.takes_over and len(family.calls) >= SEVERAL and state_of(family.entry) == "compiled":
            self._take_over(owner, family)
        if (not isinstance(entry.program, AtSizes) or entry.recorded or entry.draws or OBSERVERS
            or not family.count_early_call(entry)):
            return None
        return runtime.being_built(entry.program, entry.ctx)

    def _take_over(self, owner: "Hybridized", family: Family) -> None:
        """Have the owner forget programs for one size, or for fewer sizes, whose calls the family's program can do:
        several sizes came since, so none is the usual one."""
        family.takes_over = False
        for each in self._served_by(owner, family):
            owner.forget(each)
        for old in [f for f in self.families if f is not family and f.calls.keys().isdisjoint(owner.entries)]:
            self.families.remove(old)

    @staticmethod
    def _served_by(owner: "Hybridized", family: Family) -> list["Entry"]:
        """The entries of other programs that the family can serve."""
        return list({id(e): e for signature, e in list(owner.entries.items())
                     if e.family is not family and e.stamp == e.guard.stamp() and family.serves(signature)}.values())


def call_uncompiled(job: Job, call: Callable[[], Any]) -> Any:
    """Run a call as plain Python; its time is counted for the job that builds its program."""
    with background.CALLS.without_program(job):
        return call()


def _places(shapes: Sequence[Shape]) -> frozenset[tuple[int, int]]:
    """Which axes of which arguments have symbols."""
    return frozenset((k, i) for k, s in enumerate(shapes) for i, n in enumerate(s) if type(n) is Size)


def _dim(s: Any) -> Dim:
    """The dimension that a size is."""
    return s.terms[0][0][0]                              # type: ignore[no-any-return]


def _kind(plain: Any) -> Any:
    """A call's signature without sizes and without the version."""
    return plain[0], tuple((len(s), *rest) for s, *rest in plain[1]), *plain[2:6], plain[7:]


def doubts(entry: "Entry") -> list[str]:
    """What the entry does that is not supported for symbolic sizes, in words."""
    found = {"assigns values": entry.assigned or entry.once,
             "changes arrays while it is recorded": entry.recorded and entry.written,
             "shows values": entry.watches,
             "does more than one program": entry.after,
             "has numbers among its arguments": entry.numbers is not None,
             "reads what is outside": entry.drew or entry.outside,
             "may ask by type() whether a size is an int (it names type, and compares by is)": entry.tells_types,
             "changes what is outside or calls a function with a cache": entry.leaves_traces}
    return [what for what, is_so in found.items() if is_so]


def check(entry: "Entry") -> None:
    """Raises Specialised if a symbolic entry does something that is not supported."""
    why = doubts(entry)
    if not why and not entry.recorded and not hasattr(entry.exe, "at"):
        why = ["is no compiled program"]
    if not why and _has_size(entry.structure):
        why = ["gives back sizes"]
    if why:
        raise Specialised(f"it {why[0]}")


def _has_size(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(map(_has_size, value))
    return holds_traced(value.value if isinstance(value, ById) else value, (Size, TracedNumber), hidden=True)
