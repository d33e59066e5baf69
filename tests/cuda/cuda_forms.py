"""Programs that make the CUDA printer take each of its forms, with inputs and what must stand in the text."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Sequence

import numpy as np

from hybrid.base import dtype as dt
from hybrid import ir

from ..programs import conv, dense, layer_norm, softmax

rng = np.random.default_rng(17)


def normal(*shape: int, dtype: str = "float32") -> np.ndarray:
    return rng.standard_normal(shape).astype(dt.as_dtype(dtype))


@dataclass(frozen=True)
class Form:
    """A function of Nodes, its inputs, pieces of text that its form has (``!``: has not), inputs whose new values are
    its last results, relative tolerance.
    """
    fn: Callable[..., Any]
    arrays: list[np.ndarray]
    text: tuple[str, ...] = ()
    updates: tuple[int, ...] = ()
    tol: float = 1e-5

    def nodes(self, first: int = 0) -> tuple[list[ir.Node], tuple[ir.Node, ...], list[tuple[int, ir.Node]]]:
        """Inputs from slot ``first`` on, results and updates."""
        leaves = [ir.input(first + i, a.shape, a.dtype) for i, a in enumerate(self.arrays)]
        out = self.fn(*leaves)
        out = out if isinstance(out, tuple) else (out,)
        n = len(out) - len(self.updates)
        return leaves, out[:n], [(first + slot, new) for slot, new in zip(self.updates, out[n:])]


def program(forms: Sequence[Form]) -> tuple[ir.Program, list[np.ndarray], list[float], list[float]]:
    """Several forms as one program: it, its inputs, the tolerance of each result and of each update."""
    leaves: list[ir.Node] = []
    outputs: list[ir.Node] = []
    updates: list[tuple[int, ir.Node]] = []
    of_outputs: list[float] = []
    of_updates: list[float] = []
    for f in forms:
        own, out, new = f.nodes(len(leaves))
        leaves += own
        outputs += out
        updates += new
        of_outputs += [f.tol] * len(out)
        of_updates += [f.tol] * len(new)
    return ir.Program(tuple(leaves), tuple(outputs),
                      tuple(updates)), [a for f in forms for a in f.arrays], of_outputs, of_updates


FORMS: dict[str, Form] = {}


def form(name: str, fn: Callable[..., Any], arrays: list[np.ndarray], *text: str, updates: tuple[int, ...] = (),
         tol: float = 1e-5) -> None:
    """Add a form."""
    FORMS[name] = Form(fn, arrays, text, updates, tol)


def relu(x: ir.Node) -> ir.Node:
    return ir.map("relu", x)


# ---- a thread for a few elements (the tests set the size from which it takes several to 1)
for _d, _w in (("float32", 4), ("float64", 2), ("float16", 8), ("bfloat16", 8), ("int8", 8)):
    _c = "signed char" if _d == "int8" else {"float32": "float", "float64": "double", "float16": "unsigned short",
                                             "bfloat16": "unsigned short"}[_d]
    _x = rng.integers(-9, 9, (6, 64)).astype(_d) if _d == "int8" else normal(6, 64, dtype=_d)
    _t = {"float16": "hy_half", "bfloat16": "hy_bf16"}.get(_d, _c)
    form(f"lanes {_d}", lambda a, b: relu(a * b + 1), [_x, _x[::-1].copy()], f"hy_pack<{_t}, {_w}>",
         tol=2e-2 if _d == "bfloat16" else 4e-3)
form("lanes of two widths", lambda a, b: ir.cast(a, "float32") * b, [normal(5, 16, dtype="float16"), normal(5, 16)],
     "hy_pack<hy_half, 4>", "hy_pack<float, 4>")
form("lanes with a row", lambda a, b: a + b, [normal(6, 24), normal(24)], "hy_pack<float, 4>")
form("lanes with a column", lambda a, b: a + b, [normal(6, 24), normal(6, 1)], "hy_pack<float, 4>")
form("lanes, odd size", lambda a: a * 2, [normal(3, 7)], "!hy_pack")
form("lanes, two of six", lambda a: a * 2, [normal(3, 6)], "hy_pack<float, 2>")
form("lanes, moved start", lambda a: ir.slice(a, (0, 1), (4, 8), (1, 1)) * 2, [normal(4, 12)], "!hy_pack")
form("lanes, moved by whole lanes", lambda a: ir.slice(a, (0, 4), (4, 8), (1, 1)) * 2, [normal(4, 12)],
     "hy_pack<float, 4>")
form("lanes, transposed", lambda a: ir.permute(a, (1, 0)) + 1, [normal(8, 12)], "!hy_pack")
form("lanes, padded", lambda a: ir.pad(a, (0, 4), (0, 4), 3.0) + 1, [normal(4, 8)])
form("lanes, gathered rows", lambda x, i: ir.gather(x, i, 0) * 2, [normal(9, 16), rng.integers(0, 9, (5, 3))],
     "hy_pack<float, 4>")
form("lanes, gathered columns", lambda x, i: ir.gather(x, i, 1) * 2, [normal(4, 9), rng.integers(0, 9, (8,))],
     "!hy_pack<float, 4> v")
form("lanes, random", lambda x, k: ir.map("where",
                                          ir.map("lt", ir.random_bits(k, x.shape, 1), ir.const(2**31, "uint32")), x, 0),
     [normal(8, 12), np.array([3, 9], "uint32")], "hy_philox", "hy_pack<float, 4>")
form("random, half", lambda x, k: ir.map("where", ir.map("lt", ir.random_bits(k, x.shape, 1),
                                                         ir.const(2**31, "uint32")), x, 0),
     [normal(8, 12, dtype="float16"), np.array([3, 9], "uint32")], "hy_philox")
form("lanes, two results", lambda a: (relu(a), ir.map("exp", relu(a))), [normal(8, 12)], "hy_pack<float, 4> o")
form("lanes, moved result", lambda a: (ir.permute(a, (1, 0)), ir.map("exp", ir.permute(a, (1, 0)))), [normal(8, 12)])
form("lanes, bool", lambda a, b: ir.map("gt", a, b), [normal(8, 12), normal(8, 12)], "hy_pack<unsigned char, 4>")
form("concat", lambda a, b, c: ir.concat([a * 2, ir.map("exp", b), c], 1),
     [normal(3, 4, 4), normal(3, 3, 4), normal(3, 5, 4)], "hy_pack<float, 4>")
form("concat, odd", lambda a, b: ir.concat([a * 2, b], 1), [normal(3, 5), normal(3, 8)])
form("updates", lambda a, b, c: (a + 1, a * 0.5 + b * b, b - 1, ir.permute(c, (1, 0))),
     [normal(4, 12), normal(4, 12), normal(5, 5)], updates=(0, 1, 2))
form("updates of results", lambda a, b: (a + 1, b * 2, a + 1, b * 2), [normal(3, 7), normal(700)], "hy_copy",
     updates=(0, 1))

# ---- rows
for _n in (10, 33, 128, 200, 1000, 4096):
    form(f"softmax {_n}", softmax, [normal(5, _n)], "hy_warp_reduce" if _n <= 128 else "hy_block_reduce",
         "hy_pack" if _n % 4 == 0 else "!hy_pack")
form("softmax half", softmax, [normal(3, 1024, dtype="float16")], "hy_pack<hy_half, 8>", tol=4e-3)
form("softmax of a wide range", softmax, [normal(5, 300) * 40], "kept", "hy_exp2", "__restrict__")
form("softmax of columns beside", lambda x, b: softmax(ir.map("relu", x) + b) * b, [normal(5, 96), normal(96)], "kept")
form("softmax in the place of its input", lambda x, y: (y + 1, softmax(x)), [normal(5, 256), normal(4)], "hy_exp2",
     updates=(0,))
form("softmax of many short rows", softmax, [normal(4300, 132)], "hy_warp_reduce")
form("softmax over channels", lambda x: softmax(ir.permute(x, (0, 2, 3, 1))), [normal(2, 6, 40, 40)],
     "!hy_warp_reduce", "!hy_block_reduce")
form("layer norm", lambda x: layer_norm(x, 260), [normal(4, 260)], "hy_pack<float, 4>", "hy_block_reduce")
form("norm over channels first", lambda x: x - ir.reduce("sum", x, (1,), True) / 7, [normal(3, 7, 1000)],
     "!hy_warp_reduce")
form("row with its index", lambda x: (ir.argreduce("argmax", x, 1), ir.reduce("max", x, (1,))), [normal(6, 300)],
     "hy_argmax_op")


def _statistics(x: ir.Node, r: ir.Node) -> tuple[ir.Node, ...]:
    mean = ir.reduce("sum", x, (0, 2)) / 60
    centred = x - ir.reshape(mean, (1, 6, 1))
    return relu(centred * ir.map("rsqrt", ir.reshape(ir.reduce("sum", centred * centred, (0, 2)) / 60,
                                                     (1, 6, 1)) + 1e-5)), mean, r * 0.9 + mean * 0.1


form("batch statistics", _statistics, [normal(5, 6, 12), normal(6)], "hy_warp_reduce", updates=(1,))

# ---- long reductions
for _op in ("sum", "max", "min", "prod"):
    form(f"{_op} along", lambda x, op=_op: ir.reduce(op, x, (1,)) * 2,
         [normal(5, 700) if _op != "prod" else 1 + normal(5, 700) * 0.01], "hy_block_reduce")
    form(f"{_op} across", lambda x, op=_op: ir.reduce(op, x, (0,)) * 2,
         [normal(300, 70) if _op != "prod" else 1 + normal(300, 70) * 0.01], "shared[warp][lane]")
form("sum of all in parts", lambda x: ir.map("sqrt", ir.reduce("sum", x * x, (0, 1))), [normal(41, 512)], "k0_parts")
form("sums along in parts", lambda x, b: ir.reduce("sum", x, (1, 2)) + b, [normal(3, 130, 77), normal(3)], "k0_parts",
     "hy_block_reduce")
form("sums across in parts", lambda x: relu(ir.reduce("sum", x, (0,))), [normal(3000, 40)], "k0_parts",
     "shared[warp][lane]")
form("sums between", lambda x: ir.reduce("sum", x, (0, 2)), [normal(40, 5, 30)])
form("sums in parts of half", lambda x: ir.reduce("sum", x, (0,)), [normal(2000, 33, dtype="float16")], "k0_parts",
     tol=4e-3)
form("greatest with NaN in parts", lambda x: ir.reduce("max", x, (0,)),
     [np.where(rng.random((2000, 33)) < 1e-4, np.nan, rng.standard_normal((2000, 33))).astype("float32")],
     "k0_parts")
form("sum and its root", lambda x: (ir.reduce("sum", x, (0,)), ir.map("exp", ir.reduce("sum", x, (0,)) * 0.01)),
     [normal(3000, 40)], "k0_parts")
form("two sums", lambda x, y: ir.reduce("sum", x, (1,)) * ir.reduce("max", y, (1,)), [normal(5, 300), normal(5, 200)],
     "hy_block_reduce")
form("place across", lambda x: ir.argreduce("argmin", x, 0), [normal(300, 70)])
form("integers across", lambda x: ir.reduce("sum", x, (0,)), [rng.integers(-9, 9, (3000, 5)).astype("int32")],
     "k0_parts")

# ---- scatter
form("scatter", lambda i, u: ir.scatter_add(i, u, 0, 50), [rng.integers(0, 50, (9, 11)), normal(9, 11, 40)],
     "__ballot_sync")
form("scatter into the middle", lambda i, u: ir.scatter_add(i, u, 1, 7), [rng.integers(0, 7, (90,)), normal(3, 90, 5)])
form("scatter half", lambda i, u: ir.scatter_add(i, u, 0, 5),
     [rng.integers(0, 5, (40,)), normal(40, 6, dtype="float16")], tol=4e-3)
form("scatter of nothing", lambda i, u: ir.scatter_add(i, u, 0, 5), [np.zeros((0,), "int64"), normal(0, 6)])
form("scatter of many", lambda i, u: ir.scatter_add(i, u * 2, 0, 70),
     [rng.integers(0, 70, (13, 71)), normal(13, 71, 9)], "places[8]")
form("scatter of numbers", lambda i, u: ir.scatter_add(i, u * 2, 0, 3), [rng.integers(0, 3, (70,)), normal(70)])

# ---- products
for _rows in (1, 2, 4):
    form(f"{_rows} rows", dense, [normal(_rows, 512), normal(37, 512), normal(37)], "hy_warp_reduce",
         "hy_pack<float, 4>")
form("a row, odd depth", dense, [normal(1, 77), normal(37, 77), normal(37)], "hy_warp_reduce", "!hy_pack")
form("a row, half", dense, [normal(1, 512, dtype="float16"), normal(37, 512, dtype="float16"),
                            normal(37, dtype="float16")], "hy_pack<hy_half, 8>", tol=4e-3)
form("a column", lambda x, w: ir.dot(x, w, ((1,), (0,))), [normal(41, 300), normal(300)])
form("a row times a matrix", lambda x, w: relu(ir.dot(x, w, ((1,), (0,)))), [normal(1, 100), normal(100, 70)],
     "shared[rr]", "!_parts")
form("a row times a deep matrix", lambda x, w: relu(ir.dot(x, w, ((1,), (0,)))), [normal(2, 2000), normal(2000, 70)],
     "k0_parts")
form("numbers", lambda x, y: ir.dot(x, y, ((0,), (0,))) * 2, [normal(3000), normal(3000)])
form("short depth", lambda x, w: ir.dot(x, w, ((1,), (0,))), [normal(3, 9), normal(9, 700)], "!__shared__")
form("outer product", lambda x, y: ir.dot(ir.reshape(x, (50, 1)), ir.reshape(y, (1, 60)), ((1,), (0,))),
     [normal(50), normal(60)])


def _dot(ta: bool, tb: bool) -> Callable[..., ir.Node]:
    return lambda x, w: relu(ir.dot(x, w, ((0 if ta else 1,), (1 if tb else 0,))))


for _d, _tol in (("float32", 1e-5), ("float16", 4e-3), ("bfloat16", 2e-2)):
    for _ta in (False, True):
        for _tb in (False, True):
            _a, _b = normal(*((40, 72) if not _ta else (72, 40)),
                            dtype=_d), normal(*((72, 48) if not _tb else (48, 72)), dtype=_d)
            form(f"product {_d} {'T' if _ta else 'N'}{'T' if _tb else 'N'}", _dot(_ta, _tb), [_a, _b],
                 {"float32": "hy_mma_tf32", "float16": "hy_mma_half", "bfloat16": "hy_mma_bf16"}[_d], tol=_tol)
    form(f"product {_d}, odd", _dot(False, True), [normal(33, 29, dtype=_d), normal(47, 29, dtype=_d)], tol=_tol)
    form(f"product {_d} in parts", _dot(True, False), [normal(1030, 20, dtype=_d), normal(1030, 40, dtype=_d)],
         "k0_parts", tol=_tol)
    form(f"product {_d}, prologue and epilogue", lambda x, w, b: ir.map("tanh",
                                                                        ir.dot(relu(x), w * 2, ((1,), (1,))) + b),
         [normal(20, 40, dtype=_d), normal(30, 40, dtype=_d), normal(30, dtype=_d)], tol=_tol)
    form(f"batch of products {_d}", lambda a, b: ir.dot(a, b, ((2,), (1,)), ((0,), (0,))),
         [normal(3, 18, 40, dtype=_d), normal(3, 40, 24, dtype=_d)], tol=_tol)
    form(f"convolution {_d}", lambda x, w, b: relu(conv(x, w, b, 1, 2)),
         [normal(2, 5, 9, 11, dtype=_d), normal(8, 5, 3, 3, dtype=_d), normal(8, dtype=_d)], tol=_tol)
    form(f"product {_d}, transposed result", lambda x, w: ir.permute(ir.dot(x, w, ((1,), (1,))), (1, 0)),
         [normal(20, 40, dtype=_d), normal(30, 40, dtype=_d)], tol=_tol)
form("product float64", _dot(False, True), [normal(70, 50, dtype="float64"), normal(66, 50, dtype="float64")],
     tol=1e-12)
form("product int32", _dot(False, False), [rng.integers(-9, 9, (20, 30)).astype("int32"),
                                           rng.integers(-9, 9, (30, 40)).astype("int32")])
form("product int8", _dot(False, False), [rng.integers(-2, 3, (20, 30)).astype("int8"),
                                          rng.integers(-2, 3, (30, 40)).astype("int8")])
form("product and its parts", lambda x, w, b: (relu(dense(x, w, b)), dense(x, w, b), ir.dot(x, w, ((1,), (1,)))),
     [normal(6, 20), normal(10, 20), normal(10)])
form("product as an update", lambda x, w, g: (ir.reduce("sum", x, (0,)), w - ir.dot(g, x, ((0,), (0,))) * 0.1),
     [normal(30, 40), normal(20, 40), normal(30, 20)], updates=(1,))
form("depthwise", lambda x, w: ir.dot(ir.window(x, (2,), (3,), (1,), (1,)), w, ((3,), (1,)), ((1,), (0,))),
     [normal(2, 6, 50), normal(6, 3)], "!__shared__")
