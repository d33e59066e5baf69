"""One assignment that traced code did: what holds the value, what it was before, how every call does it again."""
from __future__ import annotations

import functools
from array import array as Buffer
from collections import deque
from types import BuiltinFunctionType, CodeType, MemberDescriptorType
from typing import Any, Iterator

import numpy as np

from ..base.errors import TraceError
from ..base.names import module_of
from ..buffers.array import REBINDS, NDArray
from .concealed import parts_of
from .reads import is_library
from .free_variables import GONE, OF_BLOCKS, OfThread, Place, attributes, guard_value
from ..graph.symbol import Symbol
from ..graph.symnode import CONCRETE

_PLAIN = (int, float, complex, str, bytes, type(None), np.generic, np.dtype, np.ndarray, Symbol, NDArray,
          BuiltinFunctionType, CodeType)
_NUMBERS = (int, float, bool, str, type(None))
_SLOTS = (MemberDescriptorType,)


class Holder:
    """Something that values are assigned to, with what it held. ``kind`` is how: attributes of an object, variables of
    a module, items, …"""

    def __init__(self, what: Any, kind: str):
        self.what, self.kind, self.before = what, kind, {}
        self.before = self.now()

    def now(self) -> dict[Any, Any]:
        """What it holds, by name, key or number."""
        what, kind = self.what, self.kind
        if kind == "items":
            return dict(what)
        if kind == "row":
            return dict(enumerate(what))
        if kind == "elements":
            return {None: what.copy() if isinstance(what, np.ndarray) else what[:]}
        if kind == "set":
            return {(type(v), v): v for v in what}
        if kind == "cell":
            value = Place(what, "").get()
            return {} if value is GONE else {"": value}
        if kind == "variables":
            return {k: what[k] for k in self.before if k in what}
        if kind == "class":
            return {k: v for k, v in vars(what).items() if not k.startswith("__") and (isinstance(v, Symbol)
                    or not callable(v) and not hasattr(type(v), "__get__"))}
        own = vars(what) if kind == "thread" else attributes(what)
        if kind == "settings":
            return {k: v for k, v in own.items() if isinstance(v, Symbol) and not _of_library(type(what))
                    # which a step sets itself
                    or type(v) in _NUMBERS and not k.startswith("_") and k != "rescale_grad"}
        if kind == "block":
            return {k: v for k, v in own.items() if k not in OF_BLOCKS and not k.startswith("_hybrid_")}
        found = {k: v for k, v in own.items() if not (isinstance(k, str) and k.startswith("_hybrid_"))}
        for name, slot in _slots_of(type(what)):  # type: ignore[arg-type]
            value = Place(what, slot).get()
            if value is not GONE:
                found[name] = value
        return found

    def differs(self) -> list[Any]:
        """Keys of what is held now and was not, and the other way round."""
        now, before = self.now(), self.before
        found = [k for k in {**before, **now} if not _same(before.get(k, GONE), now.get(k, GONE))]
        if not found and self.kind == "items":                      # the order may be another one
            return [k for k, old in zip(now, before) if k is not old and k != old][:1]
        return found

    def put(self, key: Any, value: Any) -> None:
        """Hold a value, GONE for none. A row or set is given as a whole, with ``key`` None."""
        what, kind = self.what, self.kind
        if kind in ("row", "set"):
            what.clear()
            (what.update if kind == "set" else what.extend)(value)
        elif kind == "elements":
            what[...if isinstance(what, np.ndarray) else slice(None)] = value
        elif kind == "cell":
            what.cell_contents = value
        elif kind == "class":
            type.__delattr__(what, key) if value is GONE else type.__setattr__(what, key, value)
        else:
            self._put(what if kind in ("items", "variables") else vars(what) if kind == "thread" else attributes(what),
                      key, value)

    def renew(self, key: Any, value: NDArray) -> None:
        """Hold another array of the same kind. Compiled code looks arrays up, and need not be compiled again."""
        if self.kind == "block":
            attributes(self.what)[key] = value
            attributes(self.what).pop("_exported", None)
        else:
            self.put(key, value)
        REBINDS[0] += 1

    def place(self, key: Any) -> Place | None:
        """Where compiled code looks the array up that is held under a key."""
        if self.kind not in ("block", "object", "variables", "cell", "thread"):
            return None
        if self.kind == "thread":
            return OfThread(self.what, key)
        cls: Any = type(self.what)
        return Place(self.what, dict(_slots_of(cls)).get(key, key) if self.kind == "object" else key)

    def _put(self, into: dict[Any, Any], key: Any, value: Any) -> None:
        slot = dict(_slots_of(type(self.what))).get(key) if self.kind == "object" else None  # type: ignore[arg-type]
        if slot is not None:
            slot.__delete__(self.what) if value is GONE else slot.__set__(self.what, value)
        elif value is GONE:
            into.pop(key, None)
        elif self.kind == "block":
            self.what.__setattr__(key, value)
        else:
            into[key] = value

    def restore(self, keys: list[Any]) -> None:
        """Hold what it held."""
        if self.kind in ("row", "set"):
            self.put(None, list(self.before.values()))
            return
        if self.kind == "items" and self.before.keys() == self.what.keys() and list(self.before) != list(self.what):
            self.what.clear()
            self.what.update(self.before)
        for key in keys:
            if self.kind == "block" and key in self.before:
                attributes(self.what)[key] = self.before[key]        # it was so: nobody need hear of it
            else:
                self.put(key, self.before.get(key, GONE))


def _of_library(cls: type) -> bool:
    return module_of(cls).split(".")[0] == "hybrid"


@functools.lru_cache(1024)
def _slots_of(cls: Any) -> tuple[tuple[str, Any], ...]:
    if is_library(module_of(cls)):
        return ()
    return tuple((k, v) for base in cls.__mro__ for k, v in vars(base).items() if isinstance(v, _SLOTS))


def _same(a: Any, b: Any) -> bool:
    """Whether a value is as good as another one: numbers and text by value, new containers by what they hold."""
    if a is b:
        return True
    if type(a) is not type(b) or a is GONE:
        return False
    if isinstance(a, (list, tuple, deque)):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(map(_same, a.values(), b.values()))
    if isinstance(a, np.ndarray):
        return a.shape == b.shape and a.dtype == b.dtype and (
            all(map(_same, a.flat, b.flat)) if a.dtype == object else a.tobytes() == b.tobytes())
    if isinstance(a, (bytearray, Buffer)):
        return a == b
    plain = isinstance(a, (int, float, complex, str, bytes, np.generic, np.dtype))
    return plain and bool(guard_value(a) == guard_value(b))


def is_buffer(value: Any) -> bool:
    """Whether a value holds numbers, or anything, that code can write into (no array of this library)."""
    return isinstance(value, (bytearray, Buffer)) or isinstance(value, np.ndarray) and value.flags.writeable


class Change:
    """One assignment that the code did. old, new: the values; of rows and sets all they held."""

    def __init__(self, holder: Holder, key: Any, old: Any, new: Any):
        self.holder, self.key, self.old, self.new = holder, key, old, new
        self.kept, self.at = False, ""                   # whether every call does it; else the line
        self.traced = list(traced_in(new))
        # numbers of the program's results that take the place of ``traced``
        self.results: list[int] = []

    def settle(self, trace: Any, line: str) -> None:
        """Take traced values out of the user's objects, and find out whether every call can do the same: an array takes
        the place of one of the same kind. line: where the code does it."""
        old, new = self.old, self.new
        if self.holder.kind == "items" and any(True for _ in traced_in(self.key)):
            raise TraceError(f"{line}: a key of a dict is an array, which is known only when the compiled program "
                             "runs. Use keys without arrays, or call this block or function without hybridize.")
        if isinstance(new, NDArray) and isinstance(old,
                                                   NDArray) and new.stype == "default" and new._ctx == trace.ctx and self.holder.place(self.key) is not None:  # noqa: E501
            self.new = new = trace.capture(new)
            self.traced = [new]
        if not self.traced:
            return
        if isinstance(new, Symbol) and isinstance(old,
                                                  NDArray) and old._ag is None and self.holder.place(
                self.key) is not None and len(new.entries) == 1:
            node, k = new._one()
            self.kept = (tuple(node.info[k][0] or ()) == old.shape and node.info[k][1] == old._data.dtype
                         and old._ctx == trace.ctx
                         and not any(old is x for x in trace.numbers) and not (trace.recording and _on_tape(node)))
        self.undo()

    def undo(self) -> None:
        """Take traced values out again."""
        self.holder.restore([self.key])

    def do(self, results: list[Any]) -> None:
        """Put a call's results where the traced values were."""
        arrays = {}
        for s, k in zip(self.traced, self.results):
            node, array = s._one()[0], results[k]
            made = node.opdef is not None and array._ag is not None and array._ag.entry is not None
            arrays[id(s)] = array.detach() if made and not _on_tape(node) else array
        new = replaced(self.new, arrays, set())
        if self.kept:
            same = type(new) is type(self.old)
            self.holder.renew(self.key, new if same else new.as_np_ndarray() if self.old.np_semantics
                              else new.as_nd_ndarray())
        else:
            self.holder.put(self.key, new)

    def what(self) -> str:
        """What was assigned, in words."""
        what, kind = self.holder.what, self.holder.kind
        if kind in ("variables", "cell"):
            return f"the variable {self.key or 'of an enclosing function'!s}"
        if kind in ("items", "row", "set", "elements"):
            return f"a {type(what).__name__}"
        return f"{what.__name__ if isinstance(what, type) else type(what).__name__}.{self.key}"


def _on_tape(node: Any) -> bool:
    """Whether a gradient flows into a value of a call that is recorded."""
    return node.opdef is not None and node.recorded and node.opdef.name != "BlockGrad"


def traced_in(value: Any) -> Iterator[Symbol]:
    """The traced values in a value, and in what it holds."""
    seen: dict[int, Any] = {}
    todo = [value]
    while todo:
        v = todo.pop()
        if id(v) in seen:
            continue
        seen[id(v)] = v
        if isinstance(v, Symbol):
            if _is_traced(v):
                yield v
        elif not isinstance(v, _PLAIN) or _of_objects(v):
            todo += parts_of(v)


def _of_objects(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == object


def _is_traced(s: Symbol) -> bool:
    """Whether a Symbol is a value of a trace, and none that the user composed of variables."""
    seen: set[int] = set()
    todo, variables = [n for n, _ in s.entries], False
    while todo:
        n = todo.pop()
        if id(n) in seen:
            continue
        seen.add(id(n))
        if n.opdef is None:
            if n.holder is CONCRETE:
                return True
            variables = True
        todo += [m for m, _ in n.inputs]
    return not variables


def replaced(value: Any, arrays: dict[int, Any], seen: set[int]) -> Any:
    """A value with arrays in the place of traced values: containers and objects are changed in place, tuples made
    anew."""
    if isinstance(value, Symbol):
        return arrays.get(id(value), value)
    if isinstance(value, _PLAIN) and not _of_objects(value) or id(value) in seen:
        return value
    if isinstance(value, tuple):
        parts = [replaced(v, arrays, seen) for v in value]
        return type(value)(*parts) if hasattr(type(value), "_fields") else tuple(parts)
    seen.add(id(value))
    if isinstance(value, (list, deque, np.ndarray)):
        items = value.reshape(-1) if isinstance(value, np.ndarray) else value
        for i, v in enumerate(items):
            items[i] = replaced(v, arrays, seen)
    elif isinstance(value, dict):
        for k, v in value.items():
            value[k] = replaced(v, arrays, seen)
    else:
        own = attributes(value)
        for k, v in list(own.items()):
            own[k] = replaced(v, arrays, seen)
        for _, slot in _slots_of(type(value)):  # type: ignore[arg-type]
            v = Place(value, slot).get()
            if v is not GONE:
                slot.__set__(value, replaced(v, arrays, seen))
    return value
