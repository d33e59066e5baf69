"""Programs of optimizers: new values written straight into the arrays they replace, and on CUDA."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hybrid import ir, nd, optimizer, random, runtime
from hybrid.base.device import cpu
from hybrid.optimizer import parts
from hybrid.runtime import reference

from ..cuda.cuda_tools import orders


def program_of(update: Any) -> tuple[ir.Program, Any]:
    x, y = ir.input(0, (3, 4), "float32"), ir.input(1, (3, 4), "float32")
    program = ir.Program((x, y), *update(x, y))
    return program, runtime.compile(program, cpu())


IN_PLACE = {
    "elementwise": (lambda x, y: ((), ((0, x * 2.0 + y),)), 1),
    "both": (lambda x, y: ((), ((0, x + y), (1, y * 0.5 + x))), None),
    "swap": (lambda x, y: ((), ((0, ir.map("neg", y)), (1, ir.map("neg", x)))), None),
    "transposed": (lambda x, y: ((), ((0, ir.reshape(ir.permute(x, (1, 0)), (3, 4)) + y),)), 1),     # of a copy
    "mirrored": (lambda x, y: ((), ((0, ir.slice(x, (0, 3), (3, 4), (1, -1)) + y),)), 0),
    "row-sums": (lambda x, y: ((), ((0, x - ir.reduce("sum", x, (1,), keepdims=True)),)), 0),
    "old-value-is-a-result": (lambda x, y: ((x,), ((0, x + y),)), 0),
    "new-value-is-a-result": (lambda x, y: ((x + y,), ((0, x + y),)), 0),
    "read-afterwards": (lambda x, y: ((ir.reduce("sum", x * y, (0,)),), ((0, x * 3.0),)), None),
    "not-read": (lambda x, y: ((), ((0, y * 3.0),)), 1),
    "state-that-forgets": (lambda x, y: ((), ((0, ir.map("exp", x - ir.map("tanh", y) * 0.5)),
                                              (1, ir.map("tanh", y) * 2.0))), None),
}


@pytest.mark.parametrize("kind", ["called", "bound"])
@pytest.mark.parametrize("case", sorted(IN_PLACE))
def test_in_place_updates(case: str, kind: str) -> None:
    update, count = IN_PLACE[case]
    program, exe = program_of(update)
    rng = np.random.RandomState(0)
    arrays = [rng.randn(3, 4).astype("float32") for _ in range(2)]
    outputs, updates = reference.run(program, [a.copy() for a in arrays], np)
    want = [a.copy() for a in arrays]
    for (slot, _), value in zip(program.updates, updates):
        want[slot] = np.array(value)
    if kind == "bound":
        bound = exe.bind((0, 1), arrays)
        assert bound is not None
        got = bound()
    else:
        got = exe(arrays)
    for a, b in zip([*got, *arrays], [*outputs, *want]):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
    if count is not None:
        assert len(exe._written) == count


def test_in_place_update_of_an_argument_that_is_strided_or_read_only() -> None:
    program, exe = program_of(lambda x, y: ((), ((0, x + y),)))
    base, y = np.zeros((3, 8), "float32"), np.ones((3, 4), "float32")
    exe([base[:, ::2], y])
    np.testing.assert_array_equal(base[0], [1, 0] * 4)
    frozen = np.zeros((3, 4), "float32")
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        exe([frozen, y])
    bound = exe.bind((1,), [y])
    assert exe.bind((0, 1), [frozen, y]) is None and bound is not None
    assert bound(frozen) is None and not frozen.any()


# ---- CUDA
ON_CUDA = {
    "sgd": {"momentum": 0.9, "wd": 0.1}, "adam": {"clip_gradient": 0.1}, "half": {"multi_precision": True}, "lamb": {},
    "lars": {"momentum": 0.9},
    "ftml": {}, "sgld": {}, "rmsprop": {"centered": True}, "ftrl": {},
    "lbsgd": {"batch_scale": 2, "warmup_strategy": "lars"},
}


@pytest.mark.parametrize("case", sorted(ON_CUDA))
def test_cuda_agrees_with_c(case: str, cuda_device: Any) -> None:
    """Two updates of two parameters, in every order of threads."""
    name, dtype = ("adam", "float16") if case == "half" else (case, "float32")

    def train(ctx: Any) -> list[np.ndarray]:
        rng = np.random.RandomState(0)
        random.seed(3)
        weights = [nd.array(rng.randn(*s).astype(dtype), ctx=ctx) for s in ((30, 40), (7,))]
        updater = optimizer.get_updater(optimizer.create(name, learning_rate=0.1, **ON_CUDA[case]))
        for _ in range(2):
            updater([0, 1], [nd.array(rng.randn(*w.shape).astype(dtype), ctx=ctx) for w in weights], weights)
        return [w.asnumpy() for w in weights]
    want = train(cpu())
    for _ in orders():
        for a, b in zip(train(cuda_device), want):
            np.testing.assert_allclose(a, b, rtol=1e-3 if case == "half" else 1e-5, atol=1e-5)


def test_numbers_that_are_alike_are_asked_once_for_neighbours_of_one_rate_and_count() -> None:
    """By hand as by one call for each parameter: other multipliers, other counts, and a subclass that goes by index."""
    class ByIndex(optimizer.Adam):
        def numbers(self, index, lr, wd, t):
            return self.corrected(lr, t) * (1 + index), wd

    for kind in (optimizer.Adam, optimizer.AdamW, optimizer.Adamax, optimizer.LAMB, optimizer.FTML,
                 ByIndex):
        o = kind(learning_rate=0.1, wd=0.01)
        o.set_lr_mult({1: 0.5, 2: 0.5})
        o.set_wd_mult({2: 0.0})
        indices = [0, 1, 2, 3, 4, 5]
        o._update_count([4])
        found = o.advance(indices)
        shared = len(o.common())
        one_by_one = [x for i in indices for x in o.numbers(i, o._get_lr(i), o._get_wd(i), o._index_update_count[i])]
        assert found[shared:] == one_by_one and len(set(one_by_one)) > 3


@pytest.mark.parametrize("mults, calls", [({}, 1), ({1: 2.0}, 3), ({0: 2.0}, 2)])
def test_numbers_that_parameters_share_are_computed_once(mults: dict[int, float], calls: int, monkeypatch: Any) -> None:
    o = optimizer.create("adam", learning_rate=0.1)
    o.set_lr_mult(mults)
    plain, times = o.corrected, []
    monkeypatch.setattr(o, "corrected", lambda lr, t: times.append(t) or plain(lr, t))
    for t in (1, 2):
        found = o.advance([0, 1, 2])[len(o.common()):]
        assert found == [x for i in range(3) for x in (plain(0.1 * mults.get(i, 1.0), t), 0.0)]
    assert times == [1] * calls + [2] * calls


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than 48 parameters are many."""
    monkeypatch.setattr(parts, "FEW", 48)


def test_parts_are_alike_and_together_all(few: None) -> None:
    """Layers that repeat are one part, as often as they do; what is few, or differs, is one program."""
    kinds = ["table", *(["w", "b"] * 30), "head"]
    found = parts.alike(kinds)
    assert sorted(i for part in found for i in part) == list(range(62))
    assert {tuple(kinds[i] for i in part) for part in found[:-1]} == {("w",) * 5 + ("b",) * 5}
    assert [kinds[i] for i in found[-1]] == ["table", "head"]
    assert parts.alike(kinds[:40]) == [list(range(40))] and parts.alike(list(range(99))) == [list(range(99))]
    assert [len(part) for part in parts.alike(["w"] * 80)] == [8] * 10


def _many(count: int, shared: bool = False) -> tuple[Any, list[Any], list[Any]]:
    rng = np.random.RandomState(0)
    shapes = [(3, 4) if i % 2 else (5,) for i in range(count)] + [(2, 2)]
    weights, grads = ([nd.array(rng.randn(*s).astype("float32")) for s in shapes] for _ in range(2))
    if shared:
        weights[2] = weights[0]
    chosen = optimizer.create("adam", learning_rate=0.1, wd=0.01)
    chosen.set_lr_mult({3: 0.5, 7: 2.0})
    chosen.set_wd_mult({4: 0.0})
    return optimizer.get_updater(chosen), weights, grads


@pytest.mark.parametrize("mode", ["now", "never"])
def test_many_alike_parameters_have_the_bits_of_one_program(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part has its own numbers, which change from step to step, and arrays that were replaced are found again."""
    monkeypatch.setenv("HYBRID_COMPILE", mode)

    def train(few: int) -> tuple[list[np.ndarray], Any]:
        monkeypatch.setattr(parts, "FEW", few)
        updater, weights, grads = _many(60)
        for lr in (0.1, 0.2, 0.3):
            updater.optimizer.set_learning_rate(lr)
            updater(list(range(61)), grads, weights)
            weights[5]._data = weights[5]._data.copy()
        step, = updater._steps.values()
        return [w.asnumpy() for w in weights], step
    (together, one), (apart, step) = train(61), train(48)
    assert len(one.parts) == 1 and len(step.parts) > 2 and len({id(p.program) for p in step.parts}) == 2
    assert sum(len(p.written) for p in step.parts) == 3 * 61
    for a, b in zip(together, apart):
        np.testing.assert_array_equal(a, b)


def test_parameters_that_share_an_array_are_updated_together(few: None) -> None:
    updater, weights, grads = _many(60, shared=True)
    updater(list(range(61)), grads, weights)
    step, = updater._steps.values()
    assert len(step.parts) == 1


def test_optimizers_that_draw_update_all_at_once(few: None) -> None:
    """The draws of a parameter are numbered within the program."""
    _, weights, grads = _many(60)
    updater = optimizer.get_updater(optimizer.create("sgld", learning_rate=0.1))
    updater(list(range(61)), grads, weights)
    step, = updater._steps.values()
    assert len(step.parts) == 1
