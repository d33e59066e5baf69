"""Random training loops: what one gives where its iterations are joined to one program, call by call, and eagerly."""
from __future__ import annotations

import dataclasses
import random
import tempfile
import traceback
from collections.abc import Iterator
from typing import Any

import numpy as onp
import pytest

import hybrid as mx
from hybrid.base import pending
from hybrid.debug import reduction

from .program import namespace, quiet

PRELUDE = """
class Pair(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        self.body, self.one, self.two = nn.Dense(9, activation='tanh'), nn.Dense(4), nn.Dense(3)
    def hybrid_forward(self, F, x):
        h = self.body(x)
        return self.one(h), self.two(h)
class Parts(gluon.Block):
    def __init__(self):
        super().__init__()
        self.front, self.back = nn.Dense(7, activation='relu'), nn.Dense(4)
    def forward(self, x):
        return self.back(self.front(x) * 1.5)
class Residual(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Dense(6), nn.Dropout(0.3), nn.Dense(4)
    def hybrid_forward(self, F, x):
        h = F.relu(self.a(x))
        return self.c(h + self.b(h))
class Memory(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        self.cells, self.out = gluon.rnn.GRU(5, layout='NTC'), nn.Dense(4)
    def hybrid_forward(self, F, x):
        return self.out(self.cells(F.expand_dims(x, axis=2)))
def sequential(*layers):
    made = nn.HybridSequential()
    made.add(*layers)
    return made
"""
NETS = ("sequential(nn.Dense(8, activation='relu'), nn.Dense(4))", "Residual()", "Parts()", "Memory()",
        "sequential(nn.Dense(8, use_bias=False), nn.BatchNorm(), nn.Activation('tanh'), nn.Dense(4))",
        "sequential(nn.Dropout(0.2), nn.Dense(5), nn.LayerNorm(), nn.Dense(4))", "nn.Dense(4)",
        "sequential(nn.HybridLambda(lambda F, x: F.reshape(x, (0, 1, 3, 2))), nn.Conv2D(3, 2), nn.Flatten(), "
        "nn.Dense(4))")
FORWARD = ("out = net(x); loss = cross(out, y)", "out = net(x); loss = cross(out, y).mean()",
           "out = net(x); loss = ((out - t) ** 2).mean(axis=1)", "out = net(x); loss = square(out, t) + cross(out, y)",
           "out = net(x); loss = cross(out, y) + 0.01 * sum((p.data() ** 2).sum() for p in params)",
           "out = net(x); loss = cross(out, y) + 0.1 * square(net(x * 0.5), t)",
           "out = net(x); loss = cross(out, y) * w", "out = net(x); loss = square(out, out.detach() * 0.9)",
           "out = net(x); loss = cross(out, y); loss = loss.sum()",
           "out = net(x); loss = nd.log_softmax(out)[:, 0] * -1", "out = net(x); loss = cross(out[:, 0:3], y)")
# updates without a Trainer: how the gradients are computed, and what is done with them
GRADS = ("grads = autograd.grad(loss, [p.data() for p in trained])",) * 3 + (
    "loss.backward(); grads = [p.grad() for p in trained]",
    "grads = autograd.grad([loss], [p.data() for p in trained], [nd.ones_like(loss) * 0.5])",
    "grads = autograd.grad(loss, [p.data() for p in trained], retain_graph=True)",
    "first = autograd.grad(loss, [trained[0].data()], retain_graph=True); "
    "grads = autograd.grad(loss, [p.data() for p in trained]); seen(first[0])")
BY_HAND = ("p.data()[:] = p.data() - 0.02 * g", "p.set_data(p.data() - 0.05 / (i + 1) * g)",
           "w = p.data(); w -= 0.02 * g", "nd.sgd_update(p.data(), g, lr=0.02, out=p.data())",
           "w, v = p.data(), states[p.name]; v[:] = 0.5 * v + g; w[:] = w - 0.02 * v",
           "w, v = p.data(), states[p.name]; nd.sgd_mom_update(w, g, v, lr=0.02, momentum=0.5, wd=0.01, out=w)",
           "w, v = p.data(), states[p.name]; v *= 0.9; v += 0.1 * g ** 2; w[:] = w - 0.01 * g / (v.sqrt() + 0.1)",
           "w = p.data(); w[:] = w - 0.1 * w.grad / x.shape[0]")
# what an iteration may do between such updates, or behind them
AMONG = ("seen(loss)", "seen(trained[0].data())", "trained[-1].data()[0] = 0.1", "seen(grads[0])", "kept.append(grads)",
         "seen(net(x))", "for p in trained: p.zero_grad()", "trained[0].set_data(trained[0].data() * 0.9)",
         "mean = 0.9 * trained[0].data() + 0.1; seen(mean)", "x[:] = 0", "kept.append(loss.mean())", "continue")
BACKWARD = ("loss.backward()",) * 6 + ("autograd.backward([loss])", "autograd.backward(loss)",
                                       "loss.backward(retain_graph=True)", "loss.backward(nd.ones_like(loss) * 0.5)")
STEPS = ("trainer.step(x.shape[0])",) * 5 + ("trainer.step(8)", "trainer.allreduce_grads(); trainer.update(8)")
DATA = ("x, y, t = batches[i % 4]", "x, y, t = made(i, 8)", "x, y, t = made(i, 5 if i % 6 == 5 else 8)",
        "x, y, t = made(i, (8, 3, 5)[i % 3])", "x, y, t = (v[i % 3:i % 3 + 6] for v in batches[0])",
        "x, y, t = made(i, 8); x = nd.from_numpy(x.asnumpy(), zero_copy=True)")
SCALES = ("", "", "", "w = nd.array(onp.random.rand(x.shape[0]))", "w = nd.ones((x.shape[0],)) * (i + 1)")
# what a second network, which looks at the first one's results, does behind the first step
SECOND = (("with autograd.record():\n    rest = square(critic(out.detach()), t[:, 0:2])", "rest.backward()",
           "second.step(x.shape[0])"),
          ("with autograd.record():\n    rest = square(critic(net(x)), t[:, 0:2])", "rest.backward()",
           "trainer.step(x.shape[0])"),
          ("fake = net(x)", "with autograd.record():\n    rest = square(critic(fake), t[:, 0:2]) - critic(t).mean()",
           "rest.backward()", "second.step(8)"),
          ("with autograd.record():\n    rest = square(critic(net(x)), t[:, 0:2])", "rest.backward()",
           "trainer.step(x.shape[0]); second.step(8)"))
# odd statements that an iteration may have: before the backward pass, before the step, and at its end. Weights are
# never all equal: a LayerNorm of equal numbers shows rounding errors hundreds of times larger
RECORDED = ("seen(out)", "seen(loss.mean().asscalar())", "x[:] = 0", "mx.random.seed(i)", "seen(x.sum())",
            "gone = nd.random.uniform(shape=(3,)); seen(gone)", "net(x)", "seen(autograd.is_training())")
BETWEEN = ("gluon.utils.clip_global_norm([p.grad() for p in params], 0.7)", "seen(params[0].grad())",
           "params[0].grad()[:] = params[0].grad() * 0.5", "params[-1].grad()[:] = 0", "x[:] = -1", "seen(out)",
           "trainer.set_learning_rate(0.02 / (i + 1))", "seen(loss)", "params[-1].data()[:] *= 0.9", "out *= 2",
           "acc.update(y, out)", "kept.append(loss)", "seen(nd.random.normal(shape=(2,)))", "continue",
           "params[0].set_data(params[0].data() * 0.5)", "seen(sum((p.grad() ** 2).sum() for p in params))",
           "loss = loss * 2; seen(loss)", "y[:] = 0", "del out")
AFTER = ("seen(loss.mean().asscalar())", "kept.append(loss.mean())", "total = total + loss.mean(); kept.append(total)",
         "seen(params[0].data())", "seen(net(x))", "seen(params[0].grad())", "acc.update(y, out)", "acc.reset()",
         "net.save_parameters(folder + '/net.params')", "net.load_parameters(folder + '/first.params')",
         "trainer.save_states(folder + '/states')", "params[0].grad_req = 'null'", "params[0].grad_req = 'write'",
         "params[-1].lr_mult = 0.1", "params[-1].wd_mult = 0.0", "net.hybridize(on)", "mx.random.seed(5)",
         "net.collect_params().zero_grad()", "nd.waitall()", "seen(copy.deepcopy(params[0].data()))",
         "threading_of(lambda: seen(params[0].data()))", "net.hybridize(on, static_alloc=True)", "del loss",
         "trainer.optimizer.wd = 0.01", "seen(onp.asarray(params[0].data()).sum())",
         "with autograd.predict_mode():\n    seen(net(x))", "with autograd.record():\n    seen(net(x))",
         "with autograd.record():\n    other = (net(x) ** 2).mean()\nother.backward()\nseen(params[0].grad())",
         "try:\n    with autograd.record():\n        net(x)\n        nd.dot(x, x)\nexcept mx.MXNetError:\n    seen(i)",
         "net.initialize(mx.init.Normal(0.3), force_reinit=True)", "params[0].data()[0] = 0.3",
         "trainer = gluon.Trainer(net.collect_params(), 'sgd', {'learning_rate': 0.02})")
OPTIMIZERS = ("'sgd', {'learning_rate': 0.05}", "'sgd', {'learning_rate': 0.05, 'momentum': 0.9, 'wd': 0.01}",
              "'adam', {'learning_rate': 0.01, 'epsilon': 1e-3}", "'nag', {'learning_rate': 0.02, 'momentum': 0.5}",
              "'rmsprop', {'learning_rate': 0.01, 'epsilon': 1e-2}", "'adagrad', {'learning_rate': 0.05}",
              "'sgd', {'learning_rate': 0.05, 'lr_scheduler': mx.lr_scheduler.FactorScheduler(3, 0.7)}")


@dataclasses.dataclass(frozen=True)
class Loop:
    """A training loop as text: what comes before it, the statements of an iteration, how many there are."""

    setup: tuple[str, ...]
    body: tuple[str, ...]
    count: int = 16

    def alone(self) -> str:
        """The loop as a user would run it."""
        body = "\n".join("    " + line for part in self.body for line in part.split("\n"))
        return "\n".join([*self.setup, f"for i in range({self.count}):", body,
                          "for v in kept: seen(v)", "for p in params: seen(p.data())", "seen(acc.get()[1])"])


def loop(rng: random.Random) -> Loop:
    """A loop as people write it, with one to four events that most loops do not have."""
    if rng.random() < .4:
        return by_hand(rng)
    forward, data = rng.choice(FORWARD), rng.choice(DATA)
    setup = (f"net = {rng.choice(NETS)}", "net.initialize(mx.init.Xavier())", "net(batches[0][0])",
             "net.hybridize(on)", "params = list(net.collect_params().values())",
             *(("cross.hybridize(on)",) if rng.random() < .5 else ()),
             f"trainer = gluon.Trainer(net.collect_params(), {rng.choice(OPTIMIZERS)})",
             "net.save_parameters(folder + '/first.params')")
    weights = rng.choice(SCALES) if " * w" not in forward else SCALES[3]
    parts = [data, *([weights] if weights else []), "with autograd.record():\n    " + forward,
             rng.choice(BACKWARD), rng.choice(STEPS)]
    record = len(parts) - 3
    for _ in range(rng.randint(1, 4)):
        where = rng.choice((0, 1, 1, 2, 2, 2))
        if where == 0:
            parts[record] += "\n    " + _when(rng, rng.choice(RECORDED)).replace("\n", "\n    ")
        elif where == 1:
            parts.insert(len(parts) - 1 if parts[-1] in STEPS else parts.index(
                next(p for p in parts if p in STEPS)), _when(rng, rng.choice(BETWEEN)))
        else:
            parts.append(_when(rng, rng.choice(AFTER)))
    if rng.random() < .3:
        parts.append("seen(loss.mean().asscalar())")
    if rng.random() < .25:
        setup += ("critic = sequential(nn.Dense(5, activation='relu'), nn.Dense(2))",
                  "critic.initialize(mx.init.Xavier())", "critic(nd.ones((2, 4)))", "critic.hybridize(on)",
                  "params += list(critic.collect_params().values())",
                  f"second = gluon.Trainer(critic.collect_params(), {rng.choice(OPTIMIZERS)})")
        parts += [*rng.choice(SECOND), *(("seen(rest)",) if rng.random() < .5 else ())]
    return Loop(setup, tuple(parts), rng.choice((9, 14, 20)))


def by_hand(rng: random.Random) -> Loop:
    """A loop without a Trainer, with up to three things between its updates that most loops do not have."""
    forward, update = rng.choice(FORWARD), rng.choice(BY_HAND)
    grads = rng.choice([g for g in GRADS if "w.grad" not in update or "backward" in g])
    setup = (f"net = {rng.choice(NETS)}", "net.initialize(mx.init.Xavier())", "net(batches[0][0])",
             "net.hybridize(on)", "params = list(net.collect_params().values())",
             "trained = [p for p in params if p.grad_req != 'null']",
             "states = {p.name: nd.zeros(p.shape) for p in trained}",
             *(("cross.hybridize(on)",) if rng.random() < .5 else ()))
    parts = [rng.choice(DATA), *((SCALES[3],) if " * w" in forward else ()),
             "with autograd.record():\n    " + forward, grads]
    updates = [f"for p, g in zip(trained, grads):\n    {update}"]
    if rng.random() < .3:                                # two loops, and something between them
        updates = [f"for p, g in zip(trained[{a}], grads[{a}]):\n    {update}" for a in (":2", "2:")]
    parts += updates
    for _ in range(rng.randint(0, 3)):
        parts.insert(rng.randint(parts.index(grads) + 1, len(parts)), _when(rng, rng.choice(AMONG)))
    if rng.random() < .3:
        parts.append("seen(loss.mean().asscalar())")
    return Loop(setup, tuple(parts), rng.choice((9, 14, 20)))


def _when(rng: random.Random, text: str) -> str:
    """A statement in every iteration, in some, or in one."""
    when = rng.choice(("", f"if i % {rng.randint(2, 5)} == 1:", f"if i == {rng.randint(1, 12)}:",
                       f"if i > {rng.randint(2, 8)}:"))
    return f"{when}\n    " + text.replace("\n", "\n    ") if when else text


def _made(seed: int, rows: int) -> tuple[Any, ...]:
    rng = onp.random.RandomState(seed)
    return (mx.nd.array(rng.randn(rows, 6)), mx.nd.array(rng.randint(0, 3, rows)), mx.nd.array(rng.randn(rows, 4)))


def _threading_of(act: Any) -> None:
    import threading  # noqa: PLC0415  loops name it
    one = threading.Thread(target=act)
    one.start()
    one.join()


def run(given: Loop, on: bool, joined: bool, folder: str) -> tuple[list[onp.ndarray], str, int]:
    """What a loop showed and how it ended, and how many of its iterations were one program. on: whether networks are
    hybridized."""
    import copy  # noqa: PLC0415  loops name it
    seen: list[onp.ndarray] = []
    names = {**namespace(), "copy": copy, "batches": [_made(k, 8) for k in range(4)], "made": _made, "kept": [],
             "total": 0, "cross": mx.gluon.loss.SoftmaxCrossEntropyLoss(), "square": mx.gluon.loss.L2Loss(),
             "acc": mx.metric.Accuracy(), "folder": folder, "on": on, "threading_of": _threading_of,
             "seen": lambda v: seen.append(onp.array(v.asnumpy() if hasattr(v, "asnumpy") else v, "float64"))}
    onp.random.seed(3)
    mx.random.seed(3)
    ended, rounds = "", 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HYBRID_DEFER", str(int(joined)))
        try:
            exec(compile(PRELUDE + given.alone(), "loop", "exec"), names)
        except Exception as err:  # noqa: BLE001  a loop may end so
            line = next((f.lineno for f in reversed(traceback.extract_tb(err.__traceback__)) if f.filename == "loop"),
                        0)
            ended = f"{type(err).__name__} at line {line}" + (REFUSED if REFUSED in str(err) else "")
        rounds = sum(r.joined for r in (_rounds(v) for v in _blocks(names.get("net"))) if r is not None)
    if pending.PUT_OFF[0]:
        names.clear()
        mx.nd.waitall()
    return seen, ended, rounds


def _blocks(block: Any) -> Iterator[Any]:
    if block is not None:
        yield block
        for child in block._children.values():
            yield from _blocks(child)


def _rounds(block: Any) -> Any:
    return getattr(getattr(block, "_engine", None), "rounds", None)


REFUSED = "was changed in place after it was used"              # which hybridized calls use more of, as documented
JOINED = [0, 0]                               # loops that were tried, and of these how many had joined iterations


def fault(given: Loop) -> str:
    """What is wrong where a loop's iterations are joined, or nothing."""
    return quiet(lambda: _fault(given))


def _fault(given: Loop) -> str:
    with tempfile.TemporaryDirectory() as folder:
        want, ended, _ = run(given, False, False, folder)
        if ended.startswith(("SyntaxError", "NameError", "TypeError", "AttributeError")):
            return ""                                            # no loop at all
        single, single_ended, _ = run(given, True, False, folder)
        got, got_ended, rounds = run(given, True, True, folder)
    JOINED[0], JOINED[1] = JOINED[0] + 1, JOINED[1] + bool(rounds)
    return (_differ("eagerly", want, ended, "hybridized", single, single_ended)
            or _differ("call by call", single, single_ended, "joined", got, got_ended))


def _differ(first: str, want: list[onp.ndarray], ended: str, second: str, got: list[onp.ndarray],
            got_ended: str) -> str:
    if got_ended.endswith(REFUSED) and not ended:
        return ""
    if ended != got_ended:
        return f"ended: {first} {ended or 'well'}, {second} {got_ended or 'well'}"
    if len(want) != len(got):
        return f"count: {first} {len(want)} values were seen, {second} {len(got)}"
    for at, (a, b) in enumerate(zip(want, got)):
        if a.shape != b.shape or not onp.allclose(a, b, 5e-3, 5e-4, equal_nan=True):
            return f"value: number {at} is {first} {a.ravel()[:3]}, {second} {b.ravel()[:3]}"
    return ""


def smaller(given: Loop, tries: int = 60) -> Loop:
    """Takes out statements and iterations, as long as the loop differs."""
    kind = fault(given).split(":")[0]
    return reduction.smaller(given, _candidates, lambda c: fault(c).split(":")[0] == kind, tries)


def _candidates(given: Loop) -> Iterator[Loop]:
    """Smaller loops."""
    change = dataclasses.replace
    for at in reversed(range(len(given.body))):
        yield change(given, body=(*given.body[:at], *given.body[at + 1:]))
    for at, part in enumerate(given.body):
        lines = part.split("\n")
        for k in range(1, len(lines)):
            yield change(given, body=(*given.body[:at], "\n".join([*lines[:k], *lines[k + 1:]]), *given.body[at + 1:]))
    for count in (given.count // 2, given.count - 1):
        if count:
            yield change(given, count=count)
