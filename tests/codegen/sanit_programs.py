"""Programs that take every form of C kernel, at any size: what test_sanitized.py runs under sanitizers."""
from __future__ import annotations

from typing import Any, Callable, Iterator, Sequence

import numpy as np

from hybrid import ir
from hybrid.base import dtype as dt
from hybrid.ir import Node, Program
from hybrid.ir.pairs import pairs
from hybrid.passes.differentiate import vjp_program
from . import test_packed_convolutions, test_packed_products, test_packed_volumes, test_sparsity
from .. import programs
from ..cuda import cuda_forms
from ..passes import test_batch_in_lanes, test_horizontal_fusion
from ..cpu_kernels import KINDS, conv, layer_norm, program, random, softmax
Case = tuple[Program, list[np.ndarray]]


def _backward(case: Case) -> Case:
    """The gradients of a program, for random heads."""
    forward, arrays = case
    floats = tuple(i for i, a in enumerate(arrays) if a.dtype == np.float32)
    return vjp_program(forward, floats), [*arrays, *(random(*o.shape) for o in forward.outputs)]


def _pools(x: Node) -> list[Node]:
    """Windows of two and three, with and without a step, a border, a function after them or before."""
    def pool(op: str, k: int, s: int, p: int) -> Node:
        fill = -np.inf if op == "max" else 0.0
        return ir.reduce(op, ir.window(ir.pad(x, (0, 0, p, p), (0, 0, p, p), fill), (2, 3), (k, k), (s, s), (1, 1)),
                         (4, 5))
    computed = ir.reduce("max", ir.window(ir.map("tanh", x), (2, 3), (2, 2), (2, 2), (1, 1)), (4, 5))
    return [pool("max", 2, 2, 0) * 2, pool("sum", 3, 1, 1) / 9, pool("max", 3, 2, 1),
            ir.map("relu", pool("sum", 2, 2, 1)), computed]


def flat(n: int) -> Case:
    """Elementwise kernels: light and costly functions, types, movement, a draw."""
    def outputs(x: Node, y: Node, h: Node, b: Node, i: Node, d: Node, v: Node, key: Node) -> list[Node]:
        kept = ir.map("lt", ir.random_bits(key, x.shape, 1), ir.const(2**31, "uint32"))
        drawn = ir.cast(ir.map("shr", ir.random_bits(key, x.shape, 2), 8), "float32") * 2.0**-24
        even = ir.cast(ir.map("shr", ir.random_bits(key, (4, n, 16), 3), 8), "float32") * 2.0**-24
        return [x * y + v, ir.map("erf", x) * ir.map("tanh", y), ir.map("where", ir.map("gt", x, 0), x, y),
                ir.map("gt", x, y), ir.map("tanh", h) * 2 + h, ir.map("exp", b),
                ir.cast(i, "float32") / 3 + v, i * i - 3, ir.map("exp", d) * d, ir.permute(x, (1, 0)),
                ir.pad(x, (1, 2), (2, 1), 0.5) + 1, ir.slice(x, (4, 0), (3, n), (-2, 1)),
                ir.concat([x * 2, ir.map("exp", y), ir.pad(x, (0, 3), (0, 0))], 1), ir.map("where", kept, x, 0),
                ir.cast(x, "float16"), ir.cast(h, "bfloat16"),
                ir.cast(ir.reduce("max", ir.window(h, (0, 1), (2, 1), (1, 1), (1, 1)), (2, 3)), "float32"),
                ir.cast(h, "float32") * x + 1, ir.map("relu", h) * h,
                ir.map("tanh", ir.map("maximum", ir.map("relu", x) * 2, 0.0)) + v,
                ir.map("sin", x) + ir.map("cos", y), ir.map("pow", ir.map("abs", x) + 0.5, y),
                ir.map("log1p", ir.map("abs", x)),
                ir.map("arctan2", x, y), y * (ir.map("tanh", (x + x * x * x * 0.044) * 0.8) + 1.0),
                drawn * x, even, ir.map("expm1", x) + ir.map("softplus", y) + ir.map("log2", ir.map("abs", x) + 0.1),
                ir.map("floor", x * 3) + ir.map("exp",
                                                ir.map("sign",
                                                       y) + ir.map("rint",
                                                                   y)) + ir.map("ceil", x) * ir.map("trunc", y),
                                                                   ir.map("sqrt", x * x) / (y * y + 1),
                ir.map("minimum", ir.map("maximum", x, -0.5), 0.5), ir.map("floor", x * 3),
                ir.gather(x, ir.const(2, "int64"), 0)]
    rng = np.random.default_rng(n)
    return program(outputs, random(5, n), random(5, n) * 0.7, random(5, n).astype("float16"),
                   random(5, n).astype(dt.as_dtype("bfloat16")),
                   rng.integers(-9, 9, (5, n)).astype("int32"), random(5, n).astype("float64"), random(n),
                   np.array([3, 9], "uint32"))


def lanes(n: int) -> Case:
    """What is known only lane by lane: the place of the greatest of a few, counts, rows chosen by an index; slices that
    differ in their offset alone."""
    def outputs(x: Node, y: Node, table: Node, at: Node) -> list[Node]:
        place = ir.argreduce("argmax", ir.reshape(x, (3, 4, n)), 1)
        chosen = ir.map("exp", ir.gather(table, at, 0))
        return [ir.cast(place, "float32") * ir.map("exp", y),
                ir.map("where", ir.map("lt", ir.iota(n), max(n - 2, 1)), ir.map("tanh", y), 0), chosen * 2,
                ir.bitcast(x, "int32") * 2, *(ir.map("tanh", ir.slice(x, (i, 0), (2, n), (1, 1))) for i in range(6))]
    return program(outputs, random(12, n), random(3, n), random(5, n), np.array([3, 0, 4, 4, 1, 2, 0]))


def running(x: Node, y: Node, h: Node, d: Node, i: Node) -> list[Node]:
    """Running sums along and across, from either end, of several types."""
    return [ir.cumulate(ir.map("tanh", x), 1), ir.cumulate(x, 0), ir.cumulate(x, 1, True),
            *(ir.cumulate(y * 2, axis, axis == 1) for axis in range(3)),
            *(ir.cumulate(a, axis) for a in (h, d, i) for axis in (0, 1))]


def reductions(n: int) -> Case:
    """Sums, products, extremes and their places, along, across, between and of all, of many columns; other types."""
    def outputs(x: Node, y: Node, h: Node, d: Node, i: Node, many: Node) -> list[Node]:
        across = [ir.reduce("sum", many, (0,)), ir.reduce("max", many * 2, (0,)),
                  ir.map("exp", ir.reduce("min", many, (0,))), softmax(many, 0)]
        each = [ir.reduce(op, a, axes) for op in ("sum", "max", "min")
                for a, axes in ((x, (1,)), (x, (0,)), (y, (0, 2)), (y, (1,)), (y, (0, 1, 2)))]
        places = [ir.argreduce(op, a, axis) for op in ("argmax", "argmin") for a, axis in ((x, 0), (x, 1), (y, 1))]
        mean = ir.reduce("sum", y, (0, 2)) / (y.shape[0] * n)
        return [*across, *each, *places, ir.reduce("prod", 1 + x * 0.01, (1,)),
                ir.map("log", ir.reduce("sum", ir.map("exp", x), (1,))), ir.reduce("sum", h, (1,)),
                ir.reduce("max", d, (0,)), softmax(d, 1), softmax(d * 2, 0), layer_norm(d), ir.argsort(d),
                ir.argsort(i, True),
                ir.argreduce("argmin", d, 1), ir.argreduce("argmax", d, 0),
                ir.reduce("max", ir.map("tanh", d), (1,)), ir.reduce("sum", i, (1,)), ir.reduce("max", i, (0,)), mean,
                y - ir.reshape(mean, (1, 3, 1)),
                ir.map("exp", ir.reduce("sum", x, (0,)) * 0.1), *running(x, y, h, d, i)]
    return program(outputs, random(7, n), random(4, 3, n), random(3, n).astype("float16"),
                   random(5, n).astype("float64"),
                   np.random.default_rng(n).integers(-99, 99, (4, n)).astype("int64"), random(6, 5 * n + 29))


def attention(n: int) -> Case:
    """softmax(Q Kᵀ + mask) V of several heads, and a layer normalisation of it with a residual."""
    def outputs(q: Node, k: Node, v: Node, mask: Node, x: Node) -> list[Node]:
        weights = softmax(ir.dot(q, k, ((2,), (2,)),
                                 ((0,), (0,))) * 0.3 + ir.expand(ir.reshape(mask, (1, 1, n)), (3, 9, n)), 2)
        y = ir.dot(weights, v, ((2,), (1,)), ((0,), (0,)))
        few = ir.dot(softmax(ir.dot(ir.slice(q, (0, 0, 0), (3, 2, 7), (1, 1, 1)), k, ((2,), (2,)), ((0,), (0,))), 2),
                     v, ((2,), (1,)), ((0,), (0,)))
        return [y, few, layer_norm(ir.reshape(y, (9, 21)) + x),
                softmax(ir.dot(q + 1, k, ((2,), (2,)), ((0,), (0,))), 1)]
    return program(outputs, random(3, 9, 7), random(3, n, 7), random(3, n, 7),
                   np.where(np.arange(n) < max(n - 2, 1), 0, -1e9).astype("float32"), random(9, 21))


def scans(n: int) -> Case:
    """Loops over steps of a recurrent layer of n units, forwards and backwards, and one whose steps need nothing of
    each other."""
    def outputs(x: Node, w: Node, b: Node, start: Node) -> list[Node]:
        def step(carries: Any, slices: Any, constants: Any) -> Any:
            h = ir.map("tanh", ir.dot(carries[0], constants[0], ((1,), (1,))) * 0.3 + slices[0] + constants[1])
            return [h], [h * 2]
        down, stacked = ir.loop(step, [start], [x], [w, b])
        up, _ = ir.loop(step, [start], [x], [w, b], reverse=True)
        _, apart = ir.loop(lambda carries, slices, constants: ([],
                                                               [ir.map("exp",
                                                                       ir.dot(slices[0], constants[0],
                ((1,), (0,))) * 0.1) + 1]), [], [x], [w])
        return [down[0], stacked[0], up[0], apart[0]]
    return program(outputs, random(4, 2, n), random(n, n), random(n), random(2, n))


def order(n: int) -> Case:
    """Sorting, elements by their indices, and sums into places."""
    def outputs(x: Node, i: Node, d: Node, at: Node, wide: Node, tall: Node, cube: Node) -> list[Node]:
        turned = ir.permute(tall, (1, 0))
        flat = ir.slice(ir.reshape(cube, (131, 16 * (n + 9))), (0, 0), (131, n + 130), (1, 1))
        across = [turned * 2, ir.map("tanh", turned) + flat,
                  *(ir.permute(cube, axes) + 1 for axes in ((2, 1, 0), (0, 2, 1))),
                  # other types: in blocks
                  ir.cast(ir.permute(ir.reshape(cube, (16 * (n + 9), 131)), (1, 0)), "float64") * 2]
        first = [ir.cast(ir.slice(ir.argsort(a, down), (0, 0), (a.shape[0], min(2, n)), (1, 1)), "float32")
                 for a, down in ((x, True), (i, False), (d, True))]
        return [*first, *across,
                ir.argsort(x), ir.argsort(x, True), ir.argsort(ir.permute(x, (1, 0))), ir.argsort(i),
                ir.argsort(d, True), ir.gather(x, at, 1), ir.gather(wide, at, 0),
                ir.scatter_add(at, wide, 0, 5), ir.scatter_add(at, ir.map("exp", x), 1, n),
                ir.gather(ir.map("exp", x), at, 1) * 2]
    rng = np.random.default_rng(n)
    return program(outputs, random(4, n), rng.integers(0, 5, (3, n)).astype("int32"), random(2, n).astype("float64"),
                   rng.integers(0, n, n) % 5, random(n, n + 2),
                   random(n + 130, 131), random(131, 16, n + 9))


def pools(n: int) -> Case:
    """Pools of images with lines of n pixels."""
    return program(_pools, random(2, 3, 8, max(n, 3)))


def enlarged(n: int) -> Case:
    """Images made larger: each pixel repeated, and zeros between pixels."""
    def outputs(x: Node) -> list[Node]:
        twice = ir.reshape(ir.expand(ir.reshape(x, (2, 3, 4, 1, n, 1)), (2, 3, 4, 2, n, 2)), (2, 3, 8, 2 * n))
        return [twice * 2, ir.map("tanh", ir.reshape(ir.expand(ir.reshape(x, (24, n, 1)), (24, n, 3)), (24, 3 * n)))]
    return program(outputs, random(2, 3, 4, n))


def training(n: int) -> Case:
    """Gradients of a small network of convolutions and pools for images n pixels wide: of images, filters and
    factors."""
    n = max(n, 3)

    def outputs(x: Node, first: Node, second: Node, scale: Node) -> list[Node]:
        y = conv(x, first, 1)
        mean = ir.reduce("sum", y, (0, 2, 3), True) / (y.size // y.shape[1])
        y = ir.map("relu", (y - mean) * ir.reshape(scale, (1, 6, 1, 1)))
        y = ir.reduce("max", ir.window(y, (2, 3), (2, 2), (2, 2), (1, 1)), (4, 5))
        y = ir.map("relu", conv(y, second, 1))
        return [ir.reduce("sum", y, (2, 3))]
    return _backward(program(outputs, random(4, 3, 8, n), random(6, 3, 3, 3), random(5, 6, 3, 3), random(6)))


def strided(n: int) -> Case:
    """Gradients of a strided and of a depthwise convolution."""
    n = max(n, 3)

    def outputs(x: Node, w: Node, deep: Node) -> list[Node]:
        return [conv(x, w, 1, 2), conv(x, deep, 1, 1, 4)]
    return _backward(program(outputs, random(3, 4, 7, n), random(8, 4, 3, 3), random(4, 1, 3, 3)))


def channels_last(n: int) -> Case:
    """Gradients of filters from data and gradients that lie channels last, of images n pixels wide."""
    n = max(n, 3)

    def outputs(x: Node, g: Node, deep: Node, narrow: Node) -> list[Node]:
        def gradient(x: Node, g: Node, border: int, stride: int, dilation: int) -> Node:
            win = ir.window(ir.pad(x, (0, border, border, 0), (0, border, border, 0)), (1, 2), (3, 3),
                            (stride, stride), (dilation, dilation))
            filters = ir.dot(g, ir.permute(win, (0, 1, 2, 4, 5, 3)), ((0, 1, 2), (0, 1, 2)))
            return ir.permute(filters, (1, 2, 0, 3))
        return [gradient(x, g, 1, 1, 1), gradient(deep, g, 2, 1, 2) * 2, gradient(deep, narrow, 1, 2, 1)]
    return program(outputs, random(3, 6, n, 3), random(3, 6, n, 24), random(3, 6, n, 17),
                   random(3, 3, (n + 1) // 2, 16))


def updates(n: int) -> Case:
    """New values of many arrays, written over the old ones by one kernel: plain, costly, and with a norm of each."""
    shapes = [(n,), (3, n), (), (n, 2), (1,), (n, 3, 3)]
    xs = [ir.input(i, s, "float32") for i, s in enumerate(shapes)]
    gs = [ir.input(len(xs) + i, s, "float32") for i, s in enumerate(shapes)]
    new = [x - 0.1 * g / (ir.map("sqrt", g * g) + 0.1) for x, g in zip(xs, gs)]
    new[1] = xs[1] * ir.map("sqrt", ir.reduce("sum", gs[1] * gs[1], (0, 1)))
    new[3] = ir.map("tanh", xs[3]) + gs[3]
    return Program((*xs, *gs), (), tuple(enumerate(new))), [random(*s) for s in (*shapes, *shapes)]


def windows(n: int) -> Case:
    """A row of an array written at a place that the call gives; the others stay."""
    cache, new, place = ir.input(0, (3, n, 8), "float32"), ir.input(1, (3, 1, 8), "float32"), ir.input(2, (), "int32")
    here = ir.map("eq", ir.cast(ir.iota(n), "int32"), ir.expand(place, (n,)))
    row = ir.map("where", ir.expand(ir.reshape(here, (1, n, 1)), cache.shape), ir.expand(new, cache.shape), cache)
    return Program((cache, new, place), (), ((0, row),)), [random(3, n, 8), random(3, 1, 8), np.array(n // 2, np.int32)]


def products(n: int) -> Case:
    """Products of matrices in other types, batches of them, and their gradients with costly epilogues."""
    def outputs(a: Node, b: Node, h: Node, g: Node, x: Node, y: Node, i: Node, p: Node, q: Node) -> list[Node]:
        small = ir.dot(ir.cast(p, "int32"), ir.cast(q, "int32"), ((1,), (0,)))
        return [ir.cast(small, "float32") * 0.25, ir.dot(p, q, ((1,), (0,))), ir.dot(a, b, ((1,), (0,))),
                ir.dot(h, g, ((1,), (1,))), ir.dot(ir.map("tanh", x), y, ((2,), (1,)), ((0,), (0,))) + 1,
                ir.map("sigmoid", ir.dot(x, x, ((1,), (1,)), ((0,), (0,)))), ir.dot(i, i, ((0,), (0,))),
                ir.dot(ir.slice(a, (0, 0), (1, n), (1, 1)), b, ((1,), (0,)))]
    return program(outputs, random(9, n).astype("float64"), random(n, n).astype("float64"),
                   random(7, n).astype("float16"), random(5, n).astype("float16"),
                   random(3, 11, n), random(3, n, 13), np.random.default_rng(n).integers(-9, 9, (4, n)).astype("int32"),
                   *(np.random.default_rng(n).integers(-128, 127, s).astype("int8") for s in ((7, n), (n, 11))))


def behind_relu(n: int) -> Case:
    """Products with what is half zero: of rows and of columns, with lines in place and turned, of one word of steps and
    of several."""
    rows, depth, columns, few = 96 + n, 117 + n % 11, 112 + n % 17, 53 + n % 11

    def outputs(x: Node, y: Node, tall: Node, wide: Node, deep: Node) -> list[Node]:
        a, b = ir.map("relu", x), ir.map("relu", y)
        return [a, b, ir.dot(b, tall, ((0,), (0,))), ir.map("tanh", ir.dot(a, wide, ((1,), (0,))) * 0.1),
                ir.dot(a, deep, ((1,), (1,)))]
    return program(outputs, random(rows, depth), random(few, rows), random(few, columns), random(depth, columns),
                   random(columns, depth))


SIZED: dict[str, Callable[[int], Case]] = {
    **KINDS, "flat": flat, "lanes": lanes, "reductions": reductions, "attention": attention,
    "scans": scans, "order": order, "pools": pools, "enlarged": enlarged,
    "training": training, "strided": strided, "updates": updates, "windows": windows, "other products": products,
    "behind relu": behind_relu, "channels last": channels_last,
    "pools' gradients": lambda n: _backward(pools(n)), "attention's gradients": lambda n: _backward(attention(n)),
}


def joined(cases: Sequence[Case]) -> Case:
    """Several programs as one, which the compiler reads once."""
    arrays: list[np.ndarray] = []
    leaves: list[Node] = []
    outputs: list[Node] = []
    updates: list[tuple[int, Node]] = []
    for p, own in cases:
        first = len(leaves)
        new = {n: ir.input(first + n.attrs["slot"], n.shape, n.dtype) for n in p.inputs}
        for n in p.order():
            new.setdefault(n, n if not n.args else ir.make(n.prim, tuple(new[a] for a in n.args), **n.attrs))
        leaves += [new[n] for n in p.inputs]
        outputs += [new[o] for o in p.outputs]
        updates += [(first + slot, new[u]) for slot, u in p.updates]
        arrays += own
    return Program(tuple(leaves), tuple(outputs), tuple(updates)), arrays


def _cases() -> Iterator[tuple[str, Case, float]]:
    """The programs that every backend must compute."""
    halves = {name: any(dt.is_float(n.dtype) and n.dtype.itemsize == 2 for n in p.order())
              for name, (p, _) in programs.CASES.items()}
    for tol, of_halves in ((4e-3, True), (1e-5, False)):
        names = [name for name, is_half in halves.items() if is_half == of_halves]
        for at in range(0, len(names), 20):
            yield f"programs to {tol:g}, from {names[at]}", joined([programs.CASES[name]
                                                                    for name in names[at:at + 20]]), tol


def _forms() -> Iterator[tuple[str, Case, float]]:
    """The forms of CUDA kernels, those of one tolerance together."""
    forms = [f for name, f in cuda_forms.FORMS.items() if name != "greatest with NaN in parts"]
    for tol in sorted({f.tol for f in forms}):
        some = [f for f in forms if f.tol == tol]
        for at in range(0, len(some), 24):
            whole, arrays, _, _ = cuda_forms.program(some[at:at + 24])
            yield f"forms to {tol:g}, from {at}", (whole, arrays), tol


def _together() -> Iterator[tuple[str, Case, float]]:
    """Kernels that run together."""
    for name, case in test_horizontal_fusion.programs().items():
        yield f"together {name}", case, 1e-5


def _packed() -> Iterator[tuple[str, Case, float]]:
    """Convolutions, channels last."""
    for name in test_packed_convolutions.SHAPES:
        yield f"packed {name}", test_packed_convolutions.program(name), 1e-5
    for name in ("3x3x3_odd", "3x3x3_far", "two_planes", "beyond", "strided", "stem", "grouped", "column",
                 "depthwise_strided"):
        yield f"packed volume {name}", test_packed_volumes.program(name), 1e-5
    for form in test_packed_products.FORMS:
        for name in ("one_row", "row_in_parts", "63_65", "shallow"):
            yield f"packed {form} {name}", test_packed_products.program(form, name), 1e-5
    for name in test_sparsity.PACKED:
        yield f"packed behind relu {name}", (test_sparsity.packed(name), test_sparsity.packed_arrays(name, 0.4)), 1e-5


    arrays = [random(2, 20, 15, 17), random(37, 20, 3, 3), random(33, 37, 1, 1)]
    x, first, second = (ir.input(i, a.shape, a.dtype) for i, a in enumerate(arrays))
    y = ir.map("relu", conv(x, first, 1))
    y = ir.reduce("max", ir.window(ir.pad(y, (0, 0, 1, 1), (0, 0, 1, 1), -np.inf), (2, 3), (3, 3), (2, 2), (1, 1)),
                  (4, 5))
    y = ir.map("tanh", ir.reduce("sum", ir.window(conv(y, second), (2, 3), (2, 2), (2, 2), (1, 1)), (4, 5)))
    chain = Program((x, first, second), (ir.reduce("sum", y, (2, 3)),))
    chain.memo["frozen"] = frozenset({1, 2})
    yield "packed chain with pools", (chain, arrays), 3e-5           # Winograd's rounding, and sums of both signs
    yield "packed nothing, short lines", program(lambda x, w: [ir.map("relu", conv(x, w, 1))], random(1, 64, 7, 7),
                                                 random(48, 64, 3, 3)), 1e-5
    yield "packed nothing, results kept beside an update", program(
        lambda a, b, w: [g := ir.dot(a, b, ((0,), (0,))), w - g * 0.5], random(64, 160), random(64, 272),
        random(160, 272)), 2e-5
    arrays = [random(64, 160), random(64, 272), random(160, 272)]
    a, b, w = (ir.input(i, x.shape, x.dtype) for i, x in enumerate(arrays))
    yield "packed nothing, an update in place", (Program((a, b, w), (), ((2, w - ir.dot(a, b, ((0,), (0,))) * 0.5),)),
                                                 arrays), 2e-5
    yield "packed nothing, large", program(lambda a, b: [ir.dot(a, b, ((1,), (0,)))], random(131, 1021),
                                           random(1021, 140)), 1e-5


def _pictures() -> Iterator[tuple[str, Case, float]]:
    """Small networks whose vectors hold images."""
    for name in test_batch_in_lanes.CASES:
        yield f"pictures {name}", test_batch_in_lanes.program(name), 1e-5


def _pairs() -> Iterator[tuple[str, Case, float]]:
    """Operands of bfloat16 products in words of two, whose vectors have sixteen: no sum is rounded."""
    def outputs(x: Node, h: Node) -> list[Node]:
        return [ir.cast(pairs(a, along, width, tile), "float32") for a in (x, h)
                for along, width, tile in ((True, 48, 0), (False, 64, 0), (False, 0, 6), (False, 0, 28))]
    for columns, depth in ((70, 34), (131, 52)):
        yield f"pairs {columns} {depth}", program(outputs, random(columns, depth), random(columns, depth).astype(
            dt.as_dtype("bfloat16"))), 1e-9


FIXED: dict[str, Callable[[], Iterator[tuple[str, Case, float]]]] = {"programs": _cases, "forms": _forms,
                                                                     "together": _together, "packed": _packed,
                                                                     "pictures": _pictures,
                                                                     "pairs": _pairs}


def sized(sizes: tuple[int, ...]) -> Iterator[tuple[str, Case, float]]:
    """Every kind at some sizes."""
    halves = {"flat": 2e-2, "reductions": 4e-3, "other products": 4e-3}
    for kind, make in SIZED.items():
        for n in sizes:
            yield f"{kind} {n}", make(n), halves.get(kind, 1e-5)


def widened(p: Program) -> Program | None:
    """The program with float64 in place of float32; None where it has other floating types or bits of numbers in it."""
    floats = {n.dtype for n in p.order() if dt.is_float(n.dtype)}
    if floats != {np.dtype(np.float32)} or any(n.prim in ("bitcast", "data", "scan", "item", "rows")
                                               for n in p.order()):
        return None
    new: dict[Node, Node] = {}
    for n in dict.fromkeys([*p.inputs, *p.order()]):
        attrs = {k: np.dtype(np.float64) if k == "dtype" and v == np.float32 else v for k, v in n.attrs.items()}
        if n.prim == "input":
            new[n] = ir.input(n.attrs["slot"], n.shape, np.float64 if n.dtype == np.float32 else n.dtype)
        elif n.prim == "const":
            new[n] = ir.const(n.attrs["value"], np.float64 if n.dtype == np.float32 else n.dtype)
        else:
            new[n] = ir.make(n.prim, tuple(new[a] for a in n.args), **attrs)
    return Program(tuple(new[i] for i in p.inputs), tuple(new[o] for o in p.outputs),
                   tuple((s, new[u]) for s, u in p.updates))
