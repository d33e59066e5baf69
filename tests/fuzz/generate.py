"""Random programs: graphs with views, writes and casts; networks with compiled steps; chains of casts. Those of several
sizes are in sized.py, training loops in loops.py."""
from __future__ import annotations

import random
from typing import Any, Sequence

from hybrid.buffers.array import NDArray

from .program import Input, Program, namespace, quiet

UNARY = ("nd.relu({a})", "nd.tanh({a})", "nd.sigmoid({a})", "nd.exp(nd.clip({a}, -4, 4))", "nd.abs({a})",
         "nd.sqrt(nd.abs({a}))", "-{a}", "nd.square({a})",
         "nd.log(nd.abs({a}) + 1)", "nd.erf({a})", "nd.softmax({a}, axis=-1)", "nd.log_softmax({a}, axis=-1)",
         "{a} * {k}", "{a} + {k}", "{k} - {a}", "{a} / {k}",
         "nd.clip({a}, -1, 1)", "nd.LeakyReLU({a}, slope=.1)", "{a} ** 2", "nd.maximum({a}, {k})", "({a} > {k}) * {a}",
         "{a}.copy()")
STEPPED = ("nd.floor({a})", "nd.sign({a})", "nd.round({a})", "{a} % 3", "nd.sort({a}, axis=-1)",
           "nd.argsort({a}, axis=-1)", "nd.argmax({a}, axis=0)",
           "{a}.astype('int32')", "{a}.astype('int32').astype(F32)", "nd.one_hot(nd.argmax({a}, axis=0), 5)",
           "({a} == {b})")
BINARY = ("{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} / (nd.abs({b}) + .5)", "nd.maximum({a}, {b})",
          "nd.minimum({a}, {b})", "nd.where({a} > {b}, {a}, {b} * {k})")
REDUCE = ("{a}.sum(axis={x})", "{a}.mean(axis={x}, keepdims=True)", "{a}.max(axis={x})",
          "{a}.min(axis={x}, keepdims=True)", "nd.norm({a}, axis={x})", "{a}.sum()",
          "nd.cumsum({a}, axis={x})", "nd.sum({a}, axis={x}, exclude=True)")
SHAPE = ("{a}.reshape((-1,))", "{a}.reshape((0, -1))", "{a}.T", "{a}[1:]", "{a}[::-1]", "{a}[:, 0:2]", "{a}[0]",
         "{a}[-1]", "{a}[:, ::2]", "nd.flip({a}, axis={x})",
         "{a}.expand_dims({x})", "nd.tile({a}, (2, 1))", "nd.repeat({a}, 2, axis={x})", "nd.concat({a}, {b}, dim={x})",
         "nd.stack({a}, {b}, axis={x})",
         "nd.take({a}, nd.array([1, 0, 1]), axis={x})", "nd.slice_axis({a}, axis={x}, begin=0, end=2)",
         "nd.swapaxes({a}, 0, {a}.ndim - 1)", "nd.broadcast_add({a}, {b})",
         "nd.dot({a}, {b})", "nd.dot({a}, {b}, transpose_b=True)", "nd.dot({a}, {b}, transpose_a=True)",
         "nd.pad({a}.reshape((1, 1, 0, -1)), mode='constant', pad_width=(0, 0, 0, 0, 1, 1, 2, 0))",
         "nd.Convolution({a}.reshape((1, 1, 0, -1)), nd.ones((2, 1, 2, 2)) * .3, kernel=(2, 2), num_filter=2, "
         "no_bias=True)", "nd.split({a}, num_outputs=2, axis={x})[1]")
CAST = ("{a}.astype(F16)", "{a}.astype(F32)", "{a}.astype(F16).astype(F32)")
WRITE = ("{a}[:] = {a} * {k}", "{a}[0] = {k}", "{a}[1:] = {a}[:-1]", "{a}[:-1] += {a}[1:]", "{a} += {k}", "{a} *= {b}",
         "{a}[:, 0] = {b}[:, 1]", "{a}[-1] = {b}[0]", "{a}[::2] = {k}",
         "{a}[:] = {b}", "{a}[0:2] = {b}[1:3]", "{a}[1] -= {a}[0]")
VIEW = ("{a}[1:]", "{a}[0]", "{a}[:]", "{a}.reshape((-1,))", "{a}.reshape((0, -1))", "{a}[0:2]", "{a}[-1:]")


def _inputs(rng: random.Random, odd: bool, dtype: str) -> tuple[Input, ...]:
    a, b, c = rng.choice((1, 2, 3, 4, 5, 8, 17, 33)), rng.choice((1, 2, 3, 4, 7, 16, 31)), rng.choice((1, 2, 3, 5))
    shapes = [rng.choice(((a, b), (a, b), (b, a), (b,), (1, b), (a, 1), (c, a, b), (a, a)))
              for _ in range(rng.randint(1, 3))]
    kind = "odd" if odd else "normal"
    return tuple(Input(f"x{i}", shape, dtype, rng.choice((kind, kind, "ties")), rng.randrange(1000))
                 for i, shape in enumerate(shapes))


def statement(rng: random.Random, tables: Sequence[Sequence[str]], given: list[str],
              made: list[str]) -> tuple[str, str]:
    """A statement of one of some tables over given and made values: the name of the value that it makes ('' where it
    writes one in place), and its text."""
    table = rng.choice(tables)
    pool = given + made
    a, b = rng.choice(pool[-4:]), rng.choice(pool)
    text = rng.choice(table).format(a=a, b=b, x=rng.choice((0, 0, 1, -1)), k=rng.choice(("2", "0.5", "-1", "3", "0.1")))
    name = "" if table is WRITE else f"v{len(made)}"
    return name, f"{name} = {text}" if name else text


def graph(rng: random.Random) -> Program:
    """Operators at random, over values of any shape; views and writes, unless gradients are asked for."""
    gradient, odd, dtype = rng.random() < .35, rng.random() < .2, rng.choice(("float32",) * 4 + ("float16",))
    inputs = _inputs(rng, odd and not gradient, dtype)
    names: dict[str, Any] = namespace()
    names.update((i.name, i.make()) for i in inputs)
    made: list[str] = []
    lines: list[str] = []
    tables = [UNARY, BINARY, BINARY, REDUCE, SHAPE, SHAPE, CAST if dtype == "float16" or rng.random() < .3 else UNARY]
    tables += [] if gradient else [STEPPED, WRITE, VIEW]
    for _ in range(rng.randint(3, 22)):
        name, line = statement(rng, tables, [i.name for i in inputs], made)
        if quiet(lambda line=line: _works(line, names)):
            lines.append(line)
            made += [name] if name else []
    results = tuple(dict.fromkeys([*made[-1:], *rng.sample(made, min(len(made), 2))])) or (inputs[0].name,)
    rows = (None,) if len(inputs) > 1 or rng.random() < .6 else (None, inputs[0].shape[0] + 3)
    return Program(inputs, tuple(lines), results, gradient, rows=rows)


def _works(line: str, names: dict[str, Any]) -> bool:
    """Whether a statement runs and gives an array of moderate size; the names keep what it made."""
    kept = dict(names)
    try:
        exec(line, names)
    except Exception:  # noqa: BLE001  shapes that do not fit
        names.clear()
        names.update(kept)
        return False
    new = [v for k, v in names.items() if kept.get(k) is not v and k != "__builtins__"]
    if all(isinstance(v, NDArray) and 0 < v.size < 5000 and v.ndim < 5 for v in new):
        return True
    names.clear()
    names.update(kept)
    return False


LAYERS = ("nn.Dense({n})", "nn.Dense({n}, activation='relu')", "nn.Dense({n}, activation='tanh', use_bias=False)",
          "nn.BatchNorm()", "nn.LayerNorm()", "nn.Activation('sigmoid')",
          "nn.Dropout(0)", "nn.Flatten()", "nn.LeakyReLU(.2)", "nn.ELU()", "nn.Swish()")
IMAGES = ("nn.Conv2D({n}, 3, padding=1)", "nn.Conv2D({n}, 3, strides=2, activation='relu')",
          "nn.Conv2D({n}, 1, use_bias=False)", "nn.MaxPool2D(2, 1)", "nn.AvgPool2D(2, 2)", "nn.BatchNorm()",
          "nn.Conv2D({n}, 2, dilation=2)", "nn.Conv2DTranspose({n}, 3, strides=2)", "nn.Activation('relu')",
          "nn.InstanceNorm()")
OPTIMIZERS = (("sgd", .05, ""), ("sgd", .05, ", 'momentum': .9"), ("adam", .01, ""), ("rmsprop", .01, ""),
              ("nag", .02, ", 'momentum': .5"), ("adagrad", .05, ""), ("sgd", .05, ", 'wd': .1"))


def network(rng: random.Random) -> Program:
    """A small network and its whole training step, three times."""
    images = rng.random() < .4
    kinds = [rng.choice(IMAGES if images else LAYERS) for _ in range(rng.randint(1, 5))]
    norms = any("Norm" in kind for kind in kinds)             # of one number nothing is left but its rounding
    n, m = rng.choice((2, 4, 7) if norms else (1, 2, 4, 7)), rng.choice((3, 5, 9))
    x = Input("x", (n, rng.choice((1, 2, 3)), m + 5, m + 4) if images else (n, m), "float32", "normal",
              rng.randrange(1000))
    layers = [kind.format(n=rng.choice((3, 4, 8, 17) if norms else (1, 3, 4, 8, 17))) for kind in kinds]
    layers += ["nn.Dense(2)"]
    name, rate, more = rng.choice(OPTIMIZERS)
    setup = ("net = nn.HybridSequential()", *(f"net.add({layer})" for layer in layers),
             "net.initialize(mx.init.Xavier())",
             f"trainer = gluon.Trainer(net.collect_params(), '{name}', {{'learning_rate': {rate}{more}}})")
    step = ("with autograd.record():", "    loss = (net(x) ** 2).mean()", "loss.backward()", "trainer.step(1)")
    return Program((x,), step, ("loss",), setup=setup, rows=(None,) if rng.random() < .6 else (None, n + 1))


KINDS = (*("'float16'", "'float32'", "'bfloat16'", "'float64'") * 3, "'int32'", "'int32'", "'int8'", "'uint8'",
         "'int64'", "'bool'")
EXACT = (*("{a}.astype({d})",) * 6, "{a}.astype({d}).astype({e})", "-{a}", "nd.abs({a})", "{a} * 2", "{a} * 300",
         "{a}.reshape((-1,))", "{a}[::-1]")


def casts(rng: random.Random) -> Program:
    """A chain of casts: numbers of the first are within the range of all integers, so that every cast is defined."""
    size = rng.choice((3, 8, 40))
    x = Input("x0", (size,), rng.choice(("float32", "float16", "int32", "float64")),
              "normal" if rng.random() < .6 else "ties", rng.randrange(1000))
    names: dict[str, Any] = namespace()
    names["x0"] = x.make()
    lines: list[str] = []
    for _ in range(rng.randint(1, 5)):
        a = f"v{len(lines) - 1}" if lines else "x0"
        line = f"v{len(lines)} = " + rng.choice(EXACT).format(a=a, d=rng.choice(KINDS), e=rng.choice(KINDS))
        unsigned = quiet(lambda line=line: _unsafe(line, names))
        if not unsigned:
            lines.append(line)
    if lines and rng.random() < .6:                          # what is stored wider shows what was rounded
        lines.append(f"v{len(lines)} = v{len(lines) - 1}.astype({rng.choice(KINDS[:4])})")
    return Program((x,), tuple(lines), (f"v{len(lines) - 1}",) if lines else ("x0",))


def _unsafe(line: str, names: dict[str, Any]) -> bool:
    """Whether a statement casts a negative or large float to an integer that does not hold it, or does not run at
    all."""
    source = names[line.split("= ")[1].strip("-").removeprefix("nd.abs(").split(".")[0].split(" ")[0].split("[")[0].rstrip(")")]  # noqa: E501
    kind = line.split("astype('")[1][:-2] if "astype('" in line else ""
    held = {"uint8": (0, 255), "int8": (-128, 127)}.get(kind)
    numbers = source.asnumpy().astype("float64")
    if held and (numbers.min() <= held[0] - 1 or numbers.max() >= held[1] + 1):
        return True
    return not _works(line, names)
