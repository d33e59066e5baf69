"""Odd ways in which code assigns to what outlives a call."""
from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import heapq
import types

import numpy as onp

from .tools import add
from .written_objects import Box, Descriptor, Items, Noted, Owner, Point, Scaled, Slotted, argument, attribute, closure


def _set_slot(o):
    o.a += 1
    return o.a


def _set_property(o):
    o.value = o.value + 1
    return o.value


def _delete_property(o):
    v = o.value
    del o.value
    return v


def _deleted_attribute(o):
    o.k = 1.
    n = len(o.names)
    del o.k
    return n


def _swapped(o):
    o.a, o.b = o.b, o.a + o.b
    return o.a


def _chained(o):
    o.a = o.b = o.a + o.b
    return o.a + o.b


def _walrus(o):
    o.append(k := len(o) + 1.)
    return k


def _del_item(o):
    o["n"] = o.get("n", 0) + 1
    del o["gone" if "gone" in o else "n"]
    return len(o) + 1


def _setdefault(o):
    o.setdefault("list", []).append(1.)
    return len(o["list"])


def _augmented(o):
    o["a"] += 1
    o["b"] *= 2
    return o["a"] + o["b"]


def _star(o):
    first, *o[:] = [*o, 3.]
    return first


def _starts_anew(o):
    o[:] = [v + 1 for v in o]
    return sum(o)


def _extended(o):
    o += [1.]
    return len(o)


def _multiplied(o):
    o *= 2
    return len(o)


def _merged(o):
    o |= {"k": o.get("k", 0.) + 1}
    return o["k"]


def _union(o):
    o |= {len(o)}
    return len(o)


def _difference(o):
    o -= {min(o)}
    return len(o)


def _nested_write(o):
    o.inner.list[0]["k"] += 1
    return o.inner.list[0]["k"]


def _method_of_nested(o):
    return o.inner.items(2)


def _heap(o):
    heapq.heappush(o, -len(o) - 1.)
    return o[0]


def _call_setattr(o):
    setattr(o, "a", getattr(o, "a", 0.) + 1)
    return o.a


def _object_setattr(o):
    object.__setattr__(o, "a", o.a + 1)
    return o.a


def _dict_of(o):
    o.__dict__["a"] = o.__dict__["a"] + 1
    return o.a


def _vars_update(o):
    vars(o).update(a=o.a + 1)
    return o.a


def _delattr(o):
    delattr(o, "a")
    o.a = 2.
    return o.a


def _with(o):
    with o:
        return o.n


def _with_twice(o):
    with o as a, o as b:
        return a.n + b.n


def _iadd_attribute(o):
    o.items += 3
    return o.items.n


def _class_attribute(o):
    type(o).number += 1
    return o.number


def _shadowed(o):
    o.number += 1
    return o.number + type(o).number


def _class_list(o):
    o.shared.append(1.)
    return len(o.shared)


def _descriptor(o):
    o.field += 1
    return o.field


def _replaced(o):
    o[0] = dataclasses.replace(o[0], x=o[0].x + 1)
    return o[0].x


def _replaced_tuple(o):
    o[0] = o[0]._replace(x=o[0].x + 1)
    return o[0].x


def _copied(o):
    o[0] = copy.copy(o[0])
    o[0].x += 1
    return o[0].x


def _default_factory(o):
    o["k"].append(1.)
    return len(o["k"])


def _counter(o):
    o.update(["a", "b", "a"])
    return o["a"]


def _moved(o):
    o.move_to_end(next(iter(o)))
    return next(iter(o.values()))


def _popitem(o):
    k, v = o.popitem()
    o[k] = v + 1
    return v


def _deque(o):
    o.appendleft(len(o) + 1.)
    o.rotate(1)
    return o[0]


def _bytes(o):
    o[0] += 1
    return float(o[0])


def _numpy(o):
    o[0] += 1
    return float(o[0])


def _numpy_out(o):
    onp.add(o, 1, out=o)
    return float(o[1])


def _numpy_fill(o):
    o.fill(o[0] + 1)
    return float(o[1])


def _numpy_view(o):
    o.reshape(-1)[1:] += 1
    return float(o[1])


def _items(o):
    o["k"] = o["k"] + 1
    return o["k"] + o.n


def _function_attribute(o):
    o.calls = getattr(o, "calls", 0) + 1
    return o.calls


def _finally(o):
    try:
        return o["n"]
    finally:
        o["n"] += 1


def _except(o):
    try:
        raise KeyError(o["n"])
    except KeyError as err:
        o["n"] += err.args[0] + 1
    return o["n"]


def _loop(o):
    for k in ("a", "b"):
        o[k] += 1
    return o["b"]


def _generator_writes(o):
    def steps():
        for _ in range(3):
            o["a"] += 1
            yield o["a"]
    return sum(steps())


def _comprehension_writes(o):
    return sum([o.append(1.) or len(o) for _ in range(2)])


def _lambda_writes(o):
    bump = lambda: o.__setitem__("a", o["a"] + 1)  # noqa: E731
    bump()
    return o["a"]


def _map_writes(o):
    list(map(o.append, [1., 2.]))
    return len(o)


def _partial_writes(o):
    functools.partial(o.__setitem__, "a")(o["a"] + 1)
    return o["a"]


def _reduce_writes(o):
    return functools.reduce(lambda a, b: o.append(a) or a + b, [1., 2., 3.]) + len(o)


def _sorted_key_writes(o):
    sorted([3., 1.], key=lambda v: o.append(v) or v)
    return len(o)


def _cleared(o):
    n = len(o) + 1
    o.clear()
    o.extend([0.] * n)
    return n


def _insert(o):
    o.insert(0, o[0] + 1)
    return o[0]


def _remove(o):
    o.remove(o[0])
    o.extend([5., 6.])
    return o[0]


def _slice_delete(o):
    del o[:1]
    o.append(9.)
    return o[0] + len(o)


KINDS = {
    "slot": (Slotted, _set_slot), "property": (Scaled, _set_property), "property_deleted": (Scaled, _delete_property),
    "attribute_deleted": (Noted, _deleted_attribute), "swapped": (lambda: Box(a=1., b=2.), _swapped),
    "chained": (lambda: Box(a=1., b=2.), _chained), "walrus": (list, _walrus), "item_deleted": (dict, _del_item),
    "setdefault": (dict, _setdefault), "augmented": (lambda: {"a": 1., "b": 2.}, _augmented),
    "star": (lambda: [1., 2.], _star), "starts_anew": (lambda: [1., 2.], _starts_anew), "extended": (list, _extended),
    "multiplied": (lambda: [1.], _multiplied), "merged": (dict, _merged), "union": (set, _union),
    "difference": (lambda: set(range(9)), _difference),
    "nested_write": (lambda: Box(inner=Box(list=[{"k": 1.}])), _nested_write),
    "method_of_nested": (lambda: Box(inner=Box(items=Items())), _method_of_nested), "heap": (list, _heap),
    "setattr": (lambda: Box(a=1.), _call_setattr), "object_setattr": (lambda: Box(a=1.), _object_setattr),
    "dict_of": (lambda: Box(a=1.), _dict_of), "vars_update": (lambda: Box(a=1.), _vars_update),
    "delattr": (lambda: Box(a=1.), _delattr), "with": (Items, _with), "with_twice": (Items, _with_twice),
    "iadd_attribute": (lambda: Box(items=Items()), _iadd_attribute),
    "class_attribute": (lambda: type("Own", (Owner,), {"number": 1.})(), _class_attribute),
    "shadowed": (Owner, _shadowed), "class_list": (lambda: type("Own", (Owner,), {"shared": []})(), _class_list),
    "descriptor": (lambda: type("Own", (), {"field": Descriptor()})(), _descriptor), "replaced": (
        lambda: [Point()], _replaced),
    "replaced_tuple": (lambda: [collections.namedtuple("P", "x y")(1., 2.)], _replaced_tuple),
    "copied": (lambda: [Point()], _copied), "default_factory": (lambda: collections.defaultdict(list),
                                                               _default_factory),
    "counter": (collections.Counter, _counter), "moved": (lambda: collections.OrderedDict(a=1., b=2., c=3.), _moved),
    "popitem": (lambda: {"a": 1.}, _popitem), "deque": (lambda: collections.deque([1., 2.]), _deque),
    "bytes": (lambda: bytearray(3), _bytes), "numpy": (lambda: onp.zeros(3), _numpy),
    "numpy_out": (lambda: onp.zeros(3), _numpy_out), "numpy_fill": (lambda: onp.zeros(3), _numpy_fill),
    "numpy_view": (lambda: onp.zeros((2, 2)).T[:, 0], _numpy_view), "items": (Items, _items),
    "function_attribute": (lambda: (lambda: 0), _function_attribute), "finally": (lambda: {"n": 1.}, _finally),
    "except": (lambda: {"n": 1.}, _except), "loop": (lambda: {"a": 1., "b": 2.}, _loop),
    "generator_writes": (lambda: {"a": 1.}, _generator_writes), "comprehension_writes": (list, _comprehension_writes),
    "lambda_writes": (lambda: {"a": 1.}, _lambda_writes), "map_writes": (list, _map_writes),
    "partial_writes": (lambda: {"a": 1.}, _partial_writes), "reduce_writes": (list, _reduce_writes),
    "sorted_key_writes": (list, _sorted_key_writes), "cleared": (list, _cleared), "insert": (lambda: [1.], _insert),
    "remove": (lambda: [1., 2., 3.], _remove), "slice_delete": (lambda: [1., 2., 3.], _slice_delete),
    "namespace": (lambda: types.SimpleNamespace(a=1.), _call_setattr),
}


for _name, (_make, _change) in KINDS.items():
    for _way in (closure, attribute, argument):
        add(f"state.written_{_name}.{_way.__name__}",
            functools.partial(lambda H, way, make, change: way(H, make, change), way=_way, make=_make, change=_change))
