"""Arrays that code keeps in objects of many kinds."""
from __future__ import annotations

import collections
import functools
import types

import numpy as onp

from hybrid import nd

from .tools import add, arr
from .written_objects import Box, Scaled, Noted, Items, Slotted, Owner, Point


def _traced_kinds():
    """Ways to keep a traced value in an object."""
    return {
        "slot": (Slotted, lambda o, x: setattr(o, "a", x * 2), lambda o: o.a),
        "property": (Scaled, lambda o, x: setattr(o, "value", x), lambda o: o.value),
        "noted": (Noted, lambda o, x: setattr(o, "k", x), lambda o: o.k),
        "items": (Items, lambda o, x: o.__setitem__("k", x), lambda o: o["k"]),
        "descriptor": (Owner, lambda o, x: setattr(o, "field", x), lambda o: o.field),
        "nested": (lambda: {"a": [Box(k=None)]}, lambda o, x: setattr(o["a"][0], "k", x), lambda o: o["a"][0].k),
        "deque": (lambda: collections.deque(maxlen=2), lambda o, x: o.append(x), lambda o: o[-1]),
        "default_dict": (lambda: collections.defaultdict(list), lambda o, x: o["k"].append(x), lambda o: o["k"][-1]),
        "tuple": (lambda: [()], lambda o, x: o.__setitem__(0, (x, x + 1)), lambda o: o[0][1]),
        "function": (lambda: (lambda: 0), lambda o, x: setattr(o, "k", x), lambda o: o.k),
        "class": (lambda: type("C", (), {}), lambda o, x: setattr(o, "k", x), lambda o: o.k),
        "dataclass": (Point, lambda o, x: setattr(o, "more", [x]), lambda o: o.more[0]),
        "namespace": (types.SimpleNamespace, lambda o, x: o.__dict__.update(k=x), lambda o: o.k),
        "closure_in_list": (list, lambda o, x: o.append(lambda: x), lambda o: o[-1]()),
        "partial_in_list": (list, lambda o, x: o.append(functools.partial(nd.relu, x)), lambda o: o[-1]()),
        "object_array": (lambda: onp.empty(1, object), lambda o, x: o.__setitem__(0, x), lambda o: o[0]),
        "user_list": (collections.UserList, lambda o, x: o.append(x), lambda o: o[-1]),
        "user_dict": (collections.UserDict, lambda o, x: o.update(k=x), lambda o: o["k"]),
        "chain_map": (collections.ChainMap, lambda o, x: o.update(k=x), lambda o: o["k"]),
        "exception": (lambda: [ValueError()], lambda o, x: setattr(o[0], "k", x), lambda o: o[0].k),
        "exception_args": (lambda: [None], lambda o, x: o.__setitem__(0, ValueError(x)), lambda o: o[0].args[0]),
        "set": (set, lambda o, x: o.add(x), lambda o: list(o)[0]),
        "dict_key": (dict, lambda o, x: o.__setitem__(x, 1.), lambda o: list(o)[-1]),
        "iterator": (list, lambda o, x: o.append(iter([x])), lambda o: next(o[-1])),
        "weak_key": (lambda: Box(k=None), lambda o, x: setattr(o, "k", {"x": {"y": x}}), lambda o: o.k["x"]["y"]),
        "numpy_item": (lambda: onp.zeros(1, "f4"), lambda o, x: o.__setitem__(slice(None), x), lambda o: nd.array(o)),
        "array_item": (lambda: nd.zeros(1), lambda o, x: o.__setitem__(slice(None), x), lambda o: o),
    }


def _kept(H, make, keep, read):
    o = make()

    def code(x):
        keep(o, x)
        return x + 1
    f = H(code)
    for v in (1., 2., 3., 4.):
        yield f(arr(v)), read(o) + 0


def _kept_before(H, make, keep, read):
    """The value of the call before is used by the next one."""
    o = make()
    keep(o, arr(1.))

    def code(x):
        before = read(o)
        keep(o, x + before)
        return before * 2
    f = H(code)
    for v in (1., 2., 3., 4.):
        yield f(arr(v)), read(o) + 0


for _name, (_make, _keep, _read) in _traced_kinds().items():
    for _way in (_kept, _kept_before):
        if _way is _kept or _name not in ("iterator", "numpy_item", "array_item", "set"):
            add(f"state.traced{_way.__name__}.{_name}", functools.partial(
                lambda H, way, make, keep, read: way(H, make, keep, read), way=_way, make=_make, keep=_keep,
                read=_read))
