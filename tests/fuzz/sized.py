"""Random programs at five sizes of the first axis, for which one compiled program is made: among them are 0 and 1
(where the operators take these), one less and one more than a tile."""
from __future__ import annotations

import dataclasses
import random
from typing import Any

from hybrid.buffers.array import NDArray

from . import generate
from .program import Input, Program, namespace, quiet

TILES = (4, 6, 8, 14, 16, 16, 32, 48)         # heights and widths of tiles, and of vectors
LEAST = (0, 0, 0, 1, 1, 2, 3)                 # smallest sizes: not every operator takes none, or one
# states keep their dtype: a compiled loop refuses those that do not
FLOW = ("nd.contrib.foreach(lambda s, c: (s * {k} + c, nd.tanh(s + c).astype(s.dtype)), {a}, "
        "nd.zeros_like({a}.sum(axis=0)))[0]",
        "nd.contrib.foreach(lambda s, c: (c, c + s), {a}, {a}.sum(axis=0) * 0)[1]",
        "nd.contrib.while_loop(lambda i, s: i < 3, lambda i, s: ((), (i + 1, (nd.tanh(s) * {k}).astype(s.dtype))), "
        "(nd.zeros((1,)), {a}), max_iterations=5)[1][1]",
        "nd.contrib.cond(nd.ones((1,)) * {k} > 1, lambda: {a} * 2, lambda: {a} - 1)",
        "{a} * 2 if {a}.shape[0] > 5 else {a} - 1", "{a} / max({a}.shape[0], 1)", "{a}[:{a}.shape[0] // 2]",
        "sum([{a} * j for j in range(3)])")
LAYERS, STATEMENTS, TRIES = 3, 9, 4


def lengths(rng: random.Random, least: int) -> tuple[int, ...]:
    """Five sizes, none below the least."""
    tile = rng.choice(TILES)
    other = rng.choice([n for n in (2, 3, 5, 7, 13, 20, 33, 40) if n not in (tile - 1, tile + 1)])
    rest = {0: [0, 1], 1: [1, tile]}.get(least, [tile, 2 * tile + 2])
    rng.shuffle(rest)
    return (*rng.sample([tile - 1, tile + 1], 2), *rest, other)


def sized(rng: random.Random) -> Program:
    """A graph, or a network with its step."""
    return rng.choice((_graph, _graph, _graph, _network))(rng)


def _inputs(rng: random.Random, kind: str, dtype: str, own: int) -> tuple[Input, ...]:
    """Arrays whose first axis varies, and some of the sizes of the others, which do not."""
    b, c = rng.choice((1, 2, 3, 4, 7, 16, 17, 31)), rng.choice((1, 2, 3, 5))
    shapes = [(own, b)] + [rng.choice(((own, b), (own, b), (own, b), (own,), (own, 1), (own, c, b)))
                           for _ in range(rng.choice((0, 0, 1)))]
    weights = [rng.choice(((b,), (1, b), (b, b), (c, b), (b, c))) for _ in range(rng.choice((0, 1, 1, 2)))]
    return tuple(Input(f"x{i}", shape, dtype, rng.choice((kind, kind, "ties")), rng.randrange(1000), i >= len(shapes))
                 for i, shape in enumerate((*shapes, *weights)))


def _graph(rng: random.Random) -> Program:
    """Operators at random; each runs at every size."""
    gradient, odd, dtype = rng.random() < .35, rng.random() < .1, rng.choice(("float32",) * 5 + ("float16",))
    rows = lengths(rng, rng.choice(LEAST))
    inputs = _inputs(rng, "odd" if odd and not gradient else "normal", dtype, rows[0])
    every = []
    for n in rows:
        names: dict[str, Any] = namespace()
        names.update((i.name, i.make(None, n)) for i in inputs)
        every.append(names)
    made: list[str] = []
    lines: list[str] = []
    g = generate
    tables = [g.UNARY, g.BINARY, g.BINARY, g.REDUCE, g.SHAPE, g.SHAPE, FLOW if rng.random() < .3 else g.REDUCE,
              g.CAST if dtype == "float16" or rng.random() < .2 else g.UNARY]
    if not gradient:
        tables += [g.STEPPED] + [g.WRITE, g.VIEW] * (rng.random() < .3)
    most = rng.randint(2, STATEMENTS)
    for _ in range(TRIES * most):
        name, line = g.statement(rng, tables, [i.name for i in inputs], made)
        code = compile(line, "<fuzz>", "exec")
        if quiet(lambda code=code, name=name: all(_works(code, names, name) for names in every)):
            lines.append(line)
            made += [name] if name else []
        if len(lines) == most:
            break
    results = tuple(dict.fromkeys([*made[-1:], *rng.sample(made, min(len(made), 2))])) or (inputs[0].name,)
    return Program(inputs, tuple(lines), results, gradient, rows=rows)


def _works(code: Any, names: dict[str, Any], name: str) -> bool:
    """Whether a statement runs; what it makes is an array of moderate size."""
    try:
        exec(code, names)
    except Exception:  # noqa: BLE001  shapes that do not fit
        return False
    made = names.get(name)
    return made is None or isinstance(made, NDArray) and made.size < 5000 and made.ndim < 5


def _network(rng: random.Random) -> Program:
    """A small network and its whole training step; a batch of none adds nothing to a sum of losses."""
    made = generate.network(rng)
    kept = [line for line in made.setup if line.startswith("net.add")]
    left = kept[:LAYERS - 1] + kept[-1:]
    norms = any("Norm" in line for line in left)
    setup = tuple(line for line in made.setup if line not in kept or line in left)
    step = tuple(line.replace("(net(x) ** 2).mean()", "(net(x) ** 2).sum() * 0.02") for line in made.statements)
    return dataclasses.replace(made, setup=setup, statements=step, rows=lengths(rng, 2 if norms else rng.choice(LEAST)))
