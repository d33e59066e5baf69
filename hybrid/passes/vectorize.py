"""Vectorization: a program for one example becomes a program for a batch of examples (``vmap``).

Each value is batched, with the examples along axis 0, or the same for all of them. A primitive with a batched argument
becomes one primitive over the whole batch by its rule in ``RULES``; everything else stays as it is.
"""
from __future__ import annotations

from typing import Any, Callable, Sequence

import numpy as np

from .. import ir
from ..base.errors import HybridError
from ..ir import Body, Node
from ..ir.build import make
from ..ir.node import made_from
from ..ir.scan import STEPS, item, scan
from ..ir.vjp import GRADS, register_grad
from .rewrite import relaid

Value = tuple[Node, bool]                 # a node, and whether axis 0 of it is the batch
Rule = Callable[[Node, Sequence[Node], Sequence[bool], int], Any]
RULES: dict[str, Rule] = {}


def vectorize(roots: Sequence[Node], known: dict[Node, Value], size: int) -> list[Value]:
    """The roots over a batch of ``size`` examples. known: what stands for inputs of the program, batched or not.

    HybridError for code that runs on the host, which takes one example at a time.

    >>> x = ir.input(0, (3,), "float32")
    >>> [(total, batched)] = vectorize([ir.reduce("sum", x, (0,))], {x: (ir.input(0, (8, 3), "float32"), True)}, 8)
    >>> total.shape, batched
    ((8,), True)
    """
    found: dict[Node, Any] = dict(known)
    for n in ir.toposort(roots):
        if n not in found:
            args = [found[a] for a in n.args]
            made_from(n)
            if n.prim == "random_bits" and not args[0][1]:            # every example has draws of its own
                found[n] = (ir.random_bits(args[0][0], (size, *n.shape), n.attrs["stream"]), True)
            elif not any(flag for _, flag in args):
                same = all(new is old for (new, _), old in zip(args, n.args))
                found[n] = (n if same else make(n.prim, tuple(a for a, _ in args), **n.attrs), False)
            elif n.prim in RULES:
                found[n] = RULES[n.prim](n, [a for a, _ in args], [b for _, b in args], size)
            else:
                raise HybridError(f"vmap: {n.prim} cannot be done for many examples at once; it runs Python code "
                                  "on one example. Call it in a loop, or write it with operators.")
    return [found[r] for r in roots]


def batched(value: Value, size: int) -> Node:
    """The value with the batch along axis 0: what is the same for all examples is repeated."""
    node, has_batch = value
    return node if has_batch else ir.expand(ir.reshape(node, (1, *node.shape)), (size, *node.shape))


def _all(args: Sequence[Node], flags: Sequence[bool], size: int) -> tuple[Node, ...]:
    return tuple(batched(v, size) for v in zip(args, flags))


def _moved(axes: Sequence[int]) -> tuple[int, ...]:
    """Axes of one example as axes of a batch."""
    return tuple(a + 1 for a in axes)


def _rule(*prims: str) -> Callable[[Rule], Rule]:
    def add(rule: Rule) -> Rule:
        RULES.update({p: rule for p in prims})
        return rule
    return add


@_rule("map", "rows", "bitcast", "cast", "detach", "argsort", "slice", "pad", "concat", "window", "unwindow", "reduce",
       "argreduce", "cumulate")
def _same(n: Node, args: Sequence[Node], flags: Sequence[bool], size: int) -> Value:
    return relaid(n, _all(args, flags, size), range(1, 1 + n.args[0].ndim)), True


@_rule("reshape", "expand")
def _shaped(n: Node, args: Sequence[Node], flags: Sequence[bool], size: int) -> Value:
    return getattr(ir, n.prim)(args[0], (size, *n.shape)), True


@_rule("permute")
def _permute(n: Node, args: Sequence[Node], flags: Sequence[bool], size: int) -> Value:
    return ir.permute(args[0], (0, *_moved(n.attrs["axes"]))), True


@_rule("random_bits")
def _random(n: Node, args: Sequence[Node], flags: Sequence[bool], size: int) -> Value:
    raise HybridError("vmap: a random key that differs from example to example cannot be drawn from")


@_rule("gather")
def _gather(n: Node, args: Sequence[Node], flags: Sequence[bool], size: int) -> Value:
    (x, idx), axis = args, n.attrs["axis"]
    if not flags[1]:
        return ir.gather(x, idx, axis + 1), True
    if not flags[0]:
        return _to_front(ir.gather(x, idx, axis), axis), True
    length, rest = n.args[0].shape[axis], n.args[0].shape[:axis] + n.args[0].shape[axis + 1:]
    rows = ir.reshape(_front(x, axis + 1, 1), (size * length, *rest))
    out = ir.gather(rows, _offset(idx, length, size), 0)              # (batch, index axes, axes before and after)
    return _into(out, 1, n.args[1].ndim, axis + 1), True


@_rule("scatter_add")
def _scatter(n: Node, args: Sequence[Node], flags: Sequence[bool], size: int) -> Value:
    (idx, update), axis, length = args, n.attrs["axis"], n.attrs["size"]
    if not flags[0]:
        return ir.scatter_add(idx, update, axis + 1, length), True
    update = batched((update, flags[1]), size)
    count = n.args[0].ndim
    order = [0, *range(axis + 1, axis + 1 + count)]
    order += [i for i in range(update.ndim) if i not in order]
    out = ir.scatter_add(_offset(idx, length, size), ir.permute(update, order), 0, size * length)
    return _into(ir.reshape(out, (size, length, *out.shape[1:])), 1, 1, axis + 1), True


def _offset(idx: Node, length: int, size: int) -> Node:
    """Indices into the rows of all examples, laid one after another."""
    start = ir.reshape(ir.iota(size, idx.dtype) * length, (size, *(1,) * (idx.ndim - 1)))
    return idx + start


def _front(x: Node, axis: int, to: int) -> Node:
    """x with one axis moved forward."""
    order = [i for i in range(x.ndim) if i != axis]
    return ir.permute(x, [*order[:to], axis, *order[to:]])


def _to_front(x: Node, axis: int) -> Node:
    return _front(x, axis, 0)


def _into(x: Node, begin: int, count: int, to: int) -> Node:
    """x with ``count`` axes from ``begin`` on moved so that they begin at axis ``to``."""
    moving = list(range(begin, begin + count))
    rest = [i for i in range(x.ndim) if i not in moving]
    return ir.permute(x, [*rest[:to], *moving, *rest[to:]])


@_rule("dot")
def _dot(n: Node, args: Sequence[Node], flags: Sequence[bool], size: int) -> Value:
    (ca, cb), (ba, bb) = n.attrs["contract"], n.attrs["batch"]
    a, b = args
    if flags[0]:
        ca, ba = _moved(ca), _moved(ba)
    if flags[1]:
        cb, bb = _moved(cb), _moved(bb)
    if all(flags):
        return ir.dot(a, b, (ca, cb), ((0, *ba), (0, *bb))), True
    out = ir.dot(a, b, (ca, cb), (ba, bb))
    free = a.ndim - len(ca) - len(ba)
    return _to_front(out, len(ba) + (0 if flags[0] else free)), True


# ---- gradients of one's own
@_rule("with_grad")
def _with_grad(n: Node, args: Sequence[Node], flags: Sequence[bool], size: int) -> Value:
    value = batched((args[0], flags[0]), size)
    attrs = (n.attrs["name"], n.attrs["attrs"], size, (True, *flags[1:]))
    return ir.with_grad(value, args[1:], "batched", attrs), True


@register_grad("batched")
def _pull(g: Node, attrs: Any, value: Node, *inputs: Node) -> tuple[Node | None, ...]:
    """The gradient that was registered for one example, over the batch."""
    name, own, size, flags = attrs
    given = [(g, True), *zip((value, *inputs), flags)]
    leaves = [ir.input(i, x.shape[1:] if b else x.shape, x.dtype) for i, (x, b) in enumerate(given)]
    found = GRADS[name](leaves[0], own, *leaves[1:])
    kept = [f for f in found if f is not None]
    results = iter(vectorize(kept, dict(zip(leaves, given)), size))
    out: list[Node | None] = []
    for f, has_batch in zip(found, flags[1:]):
        if f is None:
            out.append(None)
            continue
        whole = batched(next(results), size)
        out.append(whole if has_batch else ir.reduce("sum", whole, (0,)))
    return tuple(out)


# ---- loops
class LoopResults:
    """The results of a loop over a batch: by number of the item, as ``ir.scan.item`` counts them."""

    def __init__(self, values: dict[int, Value]):
        self.values = values


class _Loop:
    """A loop, its arguments, and which of its values differ from example to example."""

    def __init__(self, n: Node, args: Sequence[Node], flags: Sequence[bool], size: int):
        self.n, self.args, self.size, self.body = n, list(args), size, n.attrs["body"]
        self.carries, self.slices = n.attrs["carries"], n.attrs["slices"]
        self.stops, self.reverse, self.length = n.attrs["stops"], n.attrs["reverse"], n.attrs["length"]
        inputs = len(self.body.inputs)
        self.count = (args[inputs], flags[inputs]) if len(args) > inputs else None
        self.came, self.flags = list(flags[:inputs]), list(flags[:inputs])
        self.ragged = self.count is not None and self.count[1]
        while self._spread():
            pass

    def _spread(self) -> bool:
        """Mark carried values that a step makes different from example to example; whether there were any."""
        below = {leaf for leaf, flag in zip(self.body.inputs, self.flags) if flag}
        for m in ir.toposort(self.body.outputs):
            if any(a in below for a in m.args):
                below.add(m)
        self.made = [o in below for o in self.body.outputs]
        self.ragged = self.ragged or self.stops and self.made[self.carries]
        new = [old or made or self.ragged for old, made in zip(self.flags[:self.carries], self.made)]
        if new == self.flags[:self.carries]:
            return False
        self.flags[:self.carries] = new
        return True

    def arguments(self) -> list[Node]:
        """The loop's arguments over the batch; slices have the steps along axis 0 and the batch along axis 1."""
        out = []
        for i, (x, came, flag) in enumerate(zip(self.args, self.came, self.flags)):
            if self.carries <= i < self.carries + self.slices:
                out.append(_front(x, 1, 0) if flag else x)
            else:
                out.append(batched((x, came), self.size) if flag else x)
        return out

    def leaves(self) -> list[Node]:
        """Inputs of the new body for those of the old one."""
        return [ir.input(i, (self.size, *leaf.shape) if flag else leaf.shape, leaf.dtype)
                for i, (leaf, flag) in enumerate(zip(self.body.inputs, self.flags))]


@_rule("scan")
def _scan(n: Node, args: Sequence[Node], flags: Sequence[bool], size: int) -> Any:
    loop = _Loop(n, args, flags, size)
    return (_ragged(loop) if loop.ragged else _even(loop)), True


def _even(loop: _Loop) -> LoopResults:
    """A loop that does the same number of steps for every example."""
    leaves, c = loop.leaves(), loop.carries
    values = vectorize(loop.body.outputs, dict(zip(loop.body.inputs, zip(leaves, loop.flags))), loop.size)
    outputs = [batched(v, loop.size) if f else v[0] for v, f in zip(values[:c], loop.flags)]
    outputs += [v[0] for v in values[c:]]
    given = loop.arguments()
    made = scan(Body(tuple(leaves), tuple(outputs)), given[:c], given[c:c + loop.slices], given[c + loop.slices:],
                loop.length, count=loop.count[0] if loop.count else None, reverse=loop.reverse, stops=loop.stops)
    found: dict[int, Value] = {i: (item(made, i), loop.flags[i]) for i in range(c)}
    for k, (_, has_batch) in enumerate(values[c + loop.stops:], c):
        stack = item(made, k)
        found[k] = (_front(stack, 1, 0) if has_batch else stack, has_batch)
    found[STEPS] = (item(made, STEPS), False)
    return LoopResults(found)


def _ragged(loop: _Loop) -> LoopResults:
    """A loop whose number of steps differs: all examples go on together, those that are done keep their values.

    Three more values are carried: the number of the step, which examples go on, and how many steps each has done.
    """
    c, size, one = loop.carries, loop.size, np.dtype(np.int64)
    old, counts = loop.leaves(), loop.count is not None
    given = loop.arguments()
    limit = batched(loop.count, size) if loop.count is not None else ir.full(loop.length, (size,), one)
    first = [ir.const(loop.length - 1 if loop.reverse else 0, one), ir.full(True, (size,), np.dtype(bool)),
             ir.full(0, (size,), one)]
    begin = [*given[:c], *first]
    rest = [*given[c + loop.slices:], *([limit] if counts else [])]
    order = [*begin, *given[c:c + loop.slices], *rest]
    sliced = range(len(begin), len(begin) + loop.slices)
    leaves = [ir.input(i, x.shape[1:] if i in sliced else x.shape, x.dtype) for i, x in enumerate(order)]
    own = [*leaves[:c], *leaves[len(begin):len(begin) + len(old) - c]]
    t, alive, steps = leaves[c:c + 3]
    goes = ir.map("logical_and", alive, ir.map("lt", ir.expand(t, (size,)), leaves[-1] if counts else limit))
    values = vectorize(loop.body.outputs, dict(zip(loop.body.inputs, zip(own, loop.flags))), size)

    def chosen(new: Value, otherwise: Node | None) -> Node:
        whole = batched(new, size)
        held = otherwise if otherwise is not None else ir.full(0, whole.shape, whole.dtype)
        mask = ir.expand(ir.reshape(goes, (size, *(1,) * (whole.ndim - 1))), whole.shape)
        return ir.map("where", mask, whole, held)
    still = ir.map("logical_and", goes, batched(values[c], size)) if loop.stops else goes
    forward = not loop.reverse
    news = [chosen(v, x) for v, x in zip(values[:c], own)]
    news += [t + (1 if forward else -1), still if forward else alive, steps + ir.cast(goes, one)]
    some = [ir.reduce("max", ir.cast(still, one), (0,))] if forward else []
    flag = [ir.map("ne", s, 0) for s in some]
    stacks = [chosen(v, None) for v in values[c + loop.stops:]]
    made = scan(Body(tuple(leaves), (*news, *flag, *stacks)), begin, given[c:c + loop.slices], rest, loop.length,
                reverse=loop.reverse, stops=forward)
    found: dict[int, Value] = {i: (item(made, i), True) for i in range(c)}
    found.update({c + k: (_front(item(made, c + 3 + k), 1, 0), True) for k in range(len(stacks))})
    found[STEPS] = (item(made, c + 2), True)
    return LoopResults(found)


@_rule("item")
def _item(n: Node, args: Sequence[Any], flags: Sequence[bool], size: int) -> Value:
    return args[0].values[n.attrs["index"]]
