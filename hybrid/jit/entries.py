"""The compiled calls of a function, by the signatures of calls and by what the code of their traces read."""
from __future__ import annotations

from typing import Any

from .compiled_call import Entry
from .free_variables import Guard

GUARDS = 16                     # sets of places read that are kept for each kind of call


class Entries(dict[Any, Entry]):
    """Compiled calls by their whole signatures, the oldest first. guards: what the traces of each kind of call read."""

    def __init__(self) -> None:
        super().__init__()
        self.guards: dict[Any, list[Guard]] = {}

    def known(self, plain: Any) -> tuple[Any, Entry | None]:
        """The whole signature of a call, with what is read of objects, and the entry for it."""
        signature = (*plain, ())
        for guard in self.guards.get(plain, ()):
            signature = (*plain, guard.stamp())
            entry = self.get(signature)
            if entry is not None:
                return signature, entry
        return signature, None

    def guard(self, plain: Any, guard: Guard) -> Guard:
        """Remember a guard; an equal one that is known already stands for it."""
        known = self.guards.setdefault(plain, [])
        for old in known:
            if old.key == guard.key:
                return old
        if len(known) >= GUARDS:
            gone = known.pop(0)
            for k in [k for k, e in self.items() if e.guard is gone]:
                del self[k]
        known.append(guard)
        return guard

    def drop(self, entry: Entry) -> None:
        """Forget an entry."""
        for signature in [s for s, e in self.items() if e is entry]:
            del self[signature]

    def clear(self) -> None:
        """Forget all."""
        super().clear()
        self.guards.clear()
