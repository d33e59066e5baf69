"""foreach, while_loop and cond: against MXNet 1.9.1's answers (data/control_flow.json), eager, compiled and in emulated
CUDA; and the loop primitive."""
from __future__ import annotations

import importlib.util
import json
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, ir, nd, runtime, sym
from hybrid.nd import control_flow
from hybrid.base.device import cpu
from hybrid.base.errors import AttributeValueError, FileFormatError, HybridError, ShapeError, TraceError
from hybrid.ir import Body, Program
from hybrid.ir.text import from_text, to_text
from hybrid.passes.differentiate import vjp_program
from hybrid.passes.fold import fold
from hybrid.passes.loops import tidy
from hybrid.passes.partition import partition
from hybrid.runtime import reference

from ..cuda.cuda_tools import run_program
from ..paths import TESTS

_spec = importlib.util.spec_from_file_location("record_control_flow",
                                               TESTS / "oracle" / "record_control_flow.py")
oracle = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(oracle)
STORED = json.loads(oracle.FILE.read_text())
rng = np.random.default_rng(5)


class Net(gluon.HybridBlock):
    """A function as a block."""

    def __init__(self, f: Any):
        super().__init__()
        self.f = f

    def hybrid_forward(self, F: Any, *args: Any) -> Any:
        return self.f(F, *args)


def hybridized(f: Any) -> Net:
    net = Net(f)
    net.hybridize()
    return net


@pytest.mark.parametrize("how", ["eager", "hybridized", "function"])
@pytest.mark.parametrize("case", oracle.CASES)
def test_against_mxnet(case: str, how: str) -> None:
    """Results and gradients; a branch that is not taken gives none."""
    f = oracle.CASES[case][0]
    call = {"eager": None, "hybridized": hybridized(f), "function": mx.hybridize(lambda *a: f(nd, *a))}[how]
    got = oracle.measured(mx, case, call)
    assert len(got) == len(STORED["results"][case])
    for value, (shape, numbers) in zip(got, STORED["results"][case]):
        np.testing.assert_allclose(value, np.reshape(numbers, shape), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", STORED["symbols"])
def test_json(name: str) -> None:
    """Written as MXNet writes it; read, and written again."""
    control_flow._counters.clear()                       # names of subgraphs are counted
    text = oracle.symbols(mx)[name]
    assert text == STORED["symbols"][name]
    assert sym.load_json(text).tojson() == text


def test_loaded_symbols_run() -> None:
    x, s, w = nd.array(rng.uniform(0, 1, (4, 3))), nd.array(rng.uniform(0, 1, (3,))), nd.array([2.0, 1, 3])
    out, state = sym.load_json(STORED["symbols"]["foreach"]).eval(x=x, s=s, w=w)
    want, last = nd.contrib.foreach(lambda d, st: (d * w * 2 + st, st + d), x, s)
    np.testing.assert_allclose(out.asnumpy(), want.asnumpy(), rtol=1e-6)
    np.testing.assert_allclose(state.asnumpy(), last.asnumpy(), rtol=1e-6)
    net = gluon.SymbolBlock(sym.load_json(STORED["symbols"]["foreach"]), [sym.var("x"), sym.var("s"), sym.var("w")])
    for _ in range(2):
        np.testing.assert_allclose(net(x, s, w)[0].asnumpy(), want.asnumpy(), rtol=1e-6)
        net.hybridize()


@pytest.mark.parametrize("change, words", [
    (("in_data_locs", "[7]"), "lists of places"), (("num_outputs", "5"), "num_outputs=5"),
    (("remain_locs", "[]"), "lists of places"),
    (("in_state_locs", "x"), "in_state_locs"), (("subgraphs", []), "subgraphs"), (("subgraphs", [[]]), "subgraph"),
], ids=["place", "outputs", "missing", "text", "none", "list"])
def test_damaged_files(change: tuple[str, Any], words: str) -> None:
    document = json.loads(STORED["symbols"]["foreach"])
    loop = next(n for n in document["nodes"] if n["op"] == "_foreach")
    (loop if change[0] == "subgraphs" else loop["attrs"])[change[0]] = change[1]
    with pytest.raises((FileFormatError, AttributeValueError)) as caught:
        sym.load_json(json.dumps(document))
    assert words in str(caught.value)


class Recurrent(gluon.HybridBlock):
    """A cell in a loop, with what draws and what keeps statistics."""

    def __init__(self, drop: float, norm: bool):
        super().__init__()
        with self.name_scope():
            self.cell = gluon.rnn.LSTMCell(4)
            self.norm = gluon.nn.BatchNorm() if norm else None
        self.drop = drop

    def hybrid_forward(self, F: Any, x: Any, h: Any, c: Any) -> Any:
        def body(d: Any, states: Any) -> Any:
            d = F.Dropout(d, p=self.drop) if self.drop else d
            return self.cell(self.norm(d) if self.norm is not None else d, states)
        out, states = F.contrib.foreach(body, x, [h, c])
        return (out, *states)


@pytest.mark.parametrize("drop, norm", [(0.0, False), (0.5, False), (0.0, True)], ids=["plain", "dropout", "norm"])
def test_layers_in_loops(drop: float, norm: bool) -> None:
    """Deferred parameters, the same random draws as eagerly, running statistics updated in each step."""
    found = []
    values = [np.random.RandomState(i).uniform(-1, 1, s) for i, s in enumerate([(5, 2, 3), (2, 4), (2, 4)])]
    for compiled in (False, True):
        net = Recurrent(drop, norm)
        net.initialize(mx.init.Constant(0.3))
        if compiled:
            net.hybridize()
        mx.random.seed(3)
        with autograd.record():
            outs = net(*map(nd.array, values))
            loss = sum((o * o).sum() for o in outs)
        loss.backward()
        after = nd.Dropout(nd.ones((8,)), mode="always")
        params = net.collect_params().values()
        found.append([o.asnumpy() for o in (*outs, after)] + [(p.grad() if p.grad_req != "null"
                                                               else p.data()).asnumpy() for p in params])
    for eager, fast in zip(*found):
        np.testing.assert_allclose(fast, eager, rtol=2e-4, atol=2e-5)


def test_dynamic_unroll() -> None:
    """A cell by foreach gives what it gives unrolled, with lengths too."""
    cell = gluon.rnn.GRUCell(4)
    cell.initialize(mx.init.Uniform(0.5))
    x, lengths = nd.array(rng.uniform(-1, 1, (2, 5, 3))), nd.array([2, 5])
    begin = cell.begin_state(batch_size=2)
    for valid in (None, lengths):
        want, states = cell.unroll(5, x, begin_state=begin, merge_outputs=True, valid_length=valid)
        more = [] if valid is None else [valid]

        def run(F: Any, v: Any, *rest: Any) -> Any:
            out, last = gluon.contrib.rnn.dynamic_unroll(cell, v, begin, layout="NTC",
                                                         valid_length=rest[0].reshape((-1, 1)) if rest else None)
            return out, last[0]
        # where() of MXNet takes lengths as a column, masks as a row: the plain form is compared
        if valid is None:
            for call in (lambda *a: run(nd, *a), hybridized(run)):
                out, last = call(x, *more)
                np.testing.assert_allclose(out.asnumpy(), want.asnumpy(), rtol=1e-5, atol=1e-6)
                np.testing.assert_allclose(last.asnumpy(), states[0].asnumpy(), rtol=1e-5, atol=1e-6)


def test_only_one_branch_runs() -> None:
    """The gradient of the other one, which would be nan, does not come in."""
    x = nd.array([0.0, 4.0])
    x.attach_grad()
    net = hybridized(lambda F, v: F.contrib.cond(v.sum() < 0, lambda: F.sqrt(v - 9), lambda: v * 3))
    with autograd.record():
        y = net(x).sum()
    y.backward()
    assert y.asscalar() == 12 and x.grad.asnumpy().tolist() == [3, 3]


def test_loops_are_compiled_not_unrolled() -> None:
    """The text of a loop of 1000 steps is that of one of 10."""
    sizes = []
    for steps in (10, 1000):
        net = hybridized(lambda F, x, s: F.contrib.foreach(lambda d, st: (F.tanh(d + st), F.tanh(d + st)), x, s)[0])
        net(nd.ones((steps, 3)), nd.zeros((3,)))
        sizes.append(len(net.report().source))
    assert sizes[1] < 1.02 * sizes[0]


@pytest.mark.parametrize("f, error, words", [
    (lambda F, x: F.contrib.foreach(lambda d, s: (d, F.concat(s, s, dim=0)), x, x[0]), ShapeError,
     "shape and dtype must stay"),
    (lambda F, x: F.contrib.foreach(lambda d, s: (d, [s]), x, x[0]), HybridError, "structure of init_states"),
    (lambda F, x: F.contrib.foreach(lambda d, s: (d, s), [], x), AttributeValueError, "data is empty"),
    (lambda F, x: F.contrib.foreach(lambda d, s: (3, s), x, x), AttributeValueError, "foreach: an output"),
    (lambda F, x: F.contrib.while_loop(lambda v: v.sum() < 3, lambda v: (v, v), x), ValueError, "max_iterations"),
    (lambda F, x: F.contrib.while_loop(lambda v: v, lambda v: (v, v), x, 3), (ShapeError, ValueError), "number"),
    (lambda F, x: F.contrib.while_loop(lambda v: v.sum() < 300, lambda v: (v, [v, v]), x, 3), ValueError,
     "as many loop_vars"),
    (lambda F, x: F.contrib.cond(x, lambda: x, lambda: x), (ShapeError, ValueError), "one number"),
], ids=["state_shape", "structure", "no_data", "no_array", "no_limit", "condition", "variables", "pred"])
def test_errors(f: Any, error: Any, words: str) -> None:
    """The same mistake is named eagerly and while tracing; a state's shape may change eagerly."""
    x = nd.ones((2, 3))
    if words not in ("shape and dtype must stay", "structure of init_states"):
        with pytest.raises(error) as caught:
            f(nd, x)
        assert words in str(caught.value)
    with pytest.raises(error) as caught:
        hybridized(lambda F, v: f(F, v)[0])(x)
    assert words in str(caught.value)


def test_branches_must_be_alike() -> None:
    with pytest.raises(ShapeError, match="both must be alike"):
        hybridized(lambda F, x: F.contrib.cond(x.sum() > 0, lambda: x, lambda: x.sum()))(nd.ones((2, 3)))


def test_changes_of_outer_arrays_are_refused() -> None:
    total = nd.zeros((3,))

    def f(F: Any, x: Any) -> Any:
        def body(d: Any, s: Any) -> Any:
            total[:] = total + d
            return d, s
        return F.contrib.foreach(body, x, x[0])[0]
    with pytest.raises(TraceError, match="pass it as a state"):
        hybridized(f)(nd.ones((2, 3)))


# ---- the primitive
N, WIDTH, SIZE = 3, 2, 5


def loop_program(steps: int, count: bool, reverse: bool, stops: bool, dtype: str = "float64",
                 size: int = SIZE) -> tuple[Program, list[np.ndarray]]:
    """A recurrence with stacked outputs: the new state doubled, and the old one."""
    own = np.random.RandomState(2)
    arrays = [own.uniform(-1, 1, s).astype(dtype) for s in ((N, size), (steps, N, WIDTH), (size, WIDTH), (size, size),
                                                            (size,))]
    outer = [ir.input(i, a.shape, a.dtype) for i, a in enumerate(arrays)]
    h, x, w, u, b = (ir.input(i, a.shape[1:] if i == 1 else a.shape, a.dtype) for i, a in enumerate(arrays))
    new = ir.map("tanh", ir.dot(x, w, ((1,), (1,))) + ir.dot(h, u, ((1,), (1,))) + b)
    go = [ir.map("lt", ir.reduce("sum", new * new, (0, 1)), 0.3 * N * size)] if stops else []
    limit = [ir.input(len(outer), (), "int64")] if count else []
    loop = ir.scan(Body((h, x, w, u, b), (new, *go, new * 2.0, h)), outer[:1], outer[1:2], outer[2:], steps,
                   count=limit[0] if limit else None,
                   reverse=reverse, stops=stops)
    return Program((*outer, *limit), tuple(ir.item(loop, i) for i in range(3))), arrays


def by_hand(arrays: list[np.ndarray], order: list[int], stops: bool) -> list[np.ndarray]:
    h, x, w, u, b = arrays
    doubled, old = np.zeros((len(x), *h.shape)), np.zeros((len(x), *h.shape))
    for t in order:
        old[t] = h
        h = np.tanh(x[t] @ w.T + h @ u.T + b)
        doubled[t] = 2 * h
        if stops and (h * h).sum() >= 0.3 * h.size:
            break
    return [h, doubled, old]


KINDS = {"plain": (None, False, False), "backwards": (None, True, False), "count": (2, False, False),
         "none": (0, False, False),
         "count_backwards": (3, True, False), "stops": (None, False, True), "count_stops": (3, False, True)}


@pytest.mark.parametrize("kind", KINDS)
def test_loop_values(kind: str) -> None:
    """The reference and compiled C against NumPy; what nobody reads is dropped without a change."""
    count, reverse, stops = KINDS[kind]
    program, arrays = loop_program(4, count is not None, reverse, stops)
    steps = list(range(4 if count is None else count))
    want = by_hand(arrays, steps[::-1] if reverse else steps, stops)
    given = [*arrays, *([np.asarray(count)] if count is not None else [])]
    for got in (reference.run(program, given, np)[0], reference.run(fold(tidy(program)), given, np)[0],
                runtime.compile(program, cpu())(given)):
        for a, b in zip(got, want):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_loop_gradients(kind: str) -> None:
    """First and second order against differences, and compiled."""
    count, reverse, stops = KINDS[kind]
    program, arrays = loop_program(4, count is not None, reverse, stops)
    limit = [np.asarray(count)] if count is not None else []
    wrt = tuple(range(5))
    seeds = [np.random.RandomState(9).uniform(-1, 1, n.shape) for n in program.outputs]
    once = vjp_program(program, wrt)
    heads = [np.random.RandomState(4).uniform(-1, 1, a.shape) for a in arrays]
    twice = vjp_program(once, wrt)
    eps = 1e-6
    directions = [np.random.RandomState(6).uniform(-1, 1, a.shape) for a in arrays]

    def moved(by: float) -> list[np.ndarray]:
        return [a + by * d for a, d in zip(arrays, directions)] + limit

    def value(by: float) -> float:
        return sum(float((o * s).sum()) for o, s in zip(reference.run(program, moved(by), np)[0], seeds))

    def slope(by: float) -> float:
        return sum(float((g * v).sum()) for g, v in zip(reference.run(once, [*moved(by), *seeds], np)[0], heads))
    first = reference.run(once, [*arrays, *limit, *seeds], np)[0]
    second = reference.run(twice, [*arrays, *limit, *seeds, *heads], np)[0]
    for grads, f in ((first, value), (second, slope)):
        want = (f(eps) - f(-eps)) / (2 * eps)
        assert abs(sum(float((g * d).sum()) for g, d in zip(grads, directions)) - want) < 1e-6 * max(1, abs(want))
    for p, more, want in ((once, [], first), (twice, heads, second)):
        for a, b in zip(runtime.compile(p, cpu())([*arrays, *limit, *seeds, *more]), want):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.usefixtures("cuda_device")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [5, 8], ids=["loose", "aligned"])
def test_loop_in_cuda(kind: str, size: int) -> None:
    """Values and gradients in emulated CUDA, in every thread order; rows of any size."""
    count, reverse, stops = KINDS[kind]
    program, arrays = loop_program(3, count is not None, reverse, stops, "float32", size)
    limit = [np.asarray(count)] if count is not None else []
    seeds = [np.random.RandomState(9).uniform(-1, 1, n.shape).astype("float32") for n in program.outputs]
    for p, given in ((program, [*arrays, *limit]), (vjp_program(program, tuple(range(5))), [*arrays, *limit, *seeds])):
        want = reference.run(p, given, np)[0]
        for order, outputs, _ in run_program(p, given):
            for a, b in zip(outputs, want):
                np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5, err_msg=order)


def test_one_loop_forward() -> None:
    """What the gradient wants is stacked by the loop itself: no step is done twice; sums over steps are one product."""
    program, _ = loop_program(4, False, False, False)
    parts = partition(program, (0, 1, 2, 3, 4))
    for p in (parts.forward, parts.backward):
        loops = [n for n in tidy(p).order() if n.prim == "scan"]
        assert len(loops) == 1
    loop, = (n for n in tidy(parts.backward).order() if n.prim == "scan")
    assert loop.attrs["carries"] == 1                    # the state's cotangent; weights are summed outside


def test_loop_as_text() -> None:
    program, _ = loop_program(4, True, True, False)
    again = from_text(to_text(program))
    assert to_text(again) == to_text(program)
    assert again.outputs == program.outputs              # equal bodies are equal values
