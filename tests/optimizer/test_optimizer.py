"""Optimizers: MXNet's results, one program for all parameters, numbers that never compile anything, the reference
backend."""
from __future__ import annotations

import json
import warnings
from typing import Any, Iterator

import numpy as np
import pytest

from hybrid import ir, lr_scheduler, nd, optimizer, random, runtime, sym
from hybrid.base.device import cpu
from hybrid.base.errors import AttributeValueError, HybridError, ShapeError
from hybrid.runtime import reference

from ..paths import DATA, ROOT


RECORD = json.loads((DATA / "optimizers.json").read_text())
ARRAYS = np.load(DATA / "optimizers.npz")
NAMES = {int(k): v for k, v in RECORD["names"].items()}
COARSE = ("lars", "lamb")            # MXNet rounds the squares of float16 norms to float16


@pytest.fixture(autouse=True)
def no_warnings_of_precision() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def make(run: dict[str, Any]) -> optimizer.Optimizer:
    kwargs = dict(run["kwargs"])
    if "lr_scheduler" in kwargs:
        name, given = kwargs["lr_scheduler"]
        kwargs["lr_scheduler"] = getattr(lr_scheduler, name)(**given)
        kwargs["learning_rate"] = kwargs["lr_scheduler"].base_lr
    return optimizer.create(run["optimizer"], param_idx2name=NAMES, **kwargs)


def weights_of(run: dict[str, Any]) -> list[Any]:
    return [nd.array(ARRAYS[f"first{i}"], dtype=run["dtype"]) for i in range(run["parameters"])]


def grads_of(run: dict[str, Any], step: int) -> list[Any]:
    return [nd.array(ARRAYS[f"grads{i}"][step], dtype=run["dtype"]) for i in range(run["parameters"])]


def joined(arrays: Any) -> np.ndarray:
    return np.concatenate([a.asnumpy().ravel() for a in arrays])


@pytest.mark.parametrize("run", RECORD["runs"], ids=[r["key"] for r in RECORD["runs"]])
def test_updates_are_mxnets(run: dict[str, Any]) -> None:
    updater = optimizer.get_updater(make(run))
    weights, indices = weights_of(run), list(range(run["parameters"]))
    copy_at = 1 if updater.optimizer.master_last else 0
    half = run["dtype"] == "float16"
    for step in range(RECORD["steps"]):
        updater(indices, grads_of(run, step), weights)
        got = joined([updater.states[i][copy_at] for i in indices] if half else weights)
        tolerance = 1e-4 if half and run["optimizer"] in COARSE else 1e-6
        np.testing.assert_allclose(got, ARRAYS[run["key"]][step], rtol=tolerance, atol=tolerance)
        if half:
            np.testing.assert_array_equal(joined(weights), got.astype(np.float16))


PLAIN = [r for r in RECORD["runs"] if r["key"].endswith(("-1-float32", "-1-float16"))
         or r["key"].startswith("rmsprop-3")]


@pytest.mark.parametrize("run", PLAIN, ids=[r["key"] for r in PLAIN])
def test_reference_backend_agrees(run: dict[str, Any]) -> None:
    """The rule interpreted by NumPy gives what the compiled program gives."""
    chosen = make(run)
    weights, grads, indices = weights_of(run), grads_of(run, 0), list(range(run["parameters"]))
    states = [chosen.create_state_multi_precision(i, w) for i, w in enumerate(weights)]
    step = optimizer.Step(chosen, indices, weights, grads, states, True)
    step.advance()
    part, = step.parts
    _, expected = reference.run(step.program, [x.asnumpy() for x in part.inputs], np)
    step.apply()
    assert expected and len(part.written) == len(expected)
    for x, want in zip(part.written, expected):
        tolerance = 1e-3 if x.dtype == np.float16 else 1e-6
        np.testing.assert_allclose(x.asnumpy(), want, rtol=tolerance, atol=tolerance)


def test_one_by_one_is_the_same_as_together() -> None:
    """update() a parameter at a time, against lists."""
    one, many = (optimizer.create("adam", learning_rate=0.1, wd=0.1) for _ in range(2))
    shapes = [(3, 4), (4,), (2, 2, 2)]
    rng = np.random.RandomState(0)
    start = [rng.randn(*s).astype("float32") for s in shapes]
    a, b = ([nd.array(w) for w in start] for _ in range(2))
    sa, sb = ([o.create_state(i, w) for i, w in enumerate(a)] for o in (one, many))
    for _ in range(3):
        grads = [nd.array(rng.randn(*s).astype("float32")) for s in shapes]
        for i in range(3):
            one.update(i, a[i], grads[i], sa[i])
        many.update([0, 1, 2], b, grads, sb)
    for x, y in zip(a, b):
        np.testing.assert_allclose(x.asnumpy(), y.asnumpy(), rtol=1e-6)


def test_all_parameters_are_one_program() -> None:
    updater = optimizer.get_updater(optimizer.create("adam"))
    weights = [nd.ones((3,)), nd.ones((2, 2)), nd.ones((4, 1))]
    updater([0, 1, 2], [w * 0.5 for w in weights], weights)
    step, = updater._steps.values()
    assert len(step.program.updates) == 9 and not step.program.outputs


def test_changed_numbers_compile_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Learning rate, decay, batch size, betas and bounds are inputs of the program."""
    chosen = optimizer.create("adam", learning_rate=0.1, clip_gradient=0.5)
    updater, w = optimizer.get_updater(chosen), nd.ones((3,))
    updater(0, nd.ones((3,)), w)

    def refuse(*_: Any) -> Any:
        raise AssertionError("compiled again")
    monkeypatch.setattr(runtime, "_compile", refuse)
    before = w.asnumpy()
    chosen.set_learning_rate(0.25)
    chosen.wd, chosen.rescale_grad, chosen.beta1, chosen.clip_gradient = 0.1, 0.5, 0.5, 0.2
    mean, var = (x.asnumpy() for x in updater.states[0])
    updater(0, nd.ones((3,)), w)
    g = np.clip(0.5 + 0.1 * before, -0.2, 0.2)
    mean, var = 0.5 * mean + 0.5 * g, 0.999 * var + 0.001 * g * g
    lr = 0.25 * np.sqrt(1 - 0.999 ** 2) / (1 - 0.5 ** 2)
    np.testing.assert_allclose(w.asnumpy(), before - lr * mean / (np.sqrt(var) + 1e-8), rtol=1e-5)


def test_arrays_keep_their_identity_and_memory() -> None:
    updater, w = optimizer.get_updater(optimizer.create("sgd", momentum=0.9)), nd.ones((3,))
    updater(0, nd.ones((3,)), w)
    raw, momentum = w.handle, updater.states[0]
    updater(0, nd.ones((3,)), w)
    assert w.handle is raw and updater.states[0] is momentum


def test_strided_weights_are_updated_where_they_are() -> None:
    base = nd.ones((3, 4))
    view = nd.NDArray.__new__(nd.NDArray)
    view._data, view._ctx, view._ag, view._version = base._data[:, ::2], base._ctx, None, 0
    optimizer.create("test").update(0, view, nd.ones((3, 2)), nd.zeros((3, 2)))
    np.testing.assert_array_equal(base.asnumpy()[0], [2, 1, 2, 1])


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_other_dtypes(dtype: str) -> None:
    w, g = nd.array([1.0, -2.0], dtype=dtype), nd.array([0.5, 0.25], dtype=dtype)
    for name in ("sgd", "adam", "adagrad", "rmsprop", "ftrl", "lamb"):
        updater, x = optimizer.get_updater(optimizer.create(name, learning_rate=0.125)), w.copy()
        updater(0, g, x)
        assert x.dtype == w.dtype and not np.array_equal(x.asnumpy(),
                                                         w.asnumpy()) and np.isfinite(
                x.asnumpy().astype("float32")).all()


def test_float64_is_computed_in_float64() -> None:
    w = nd.array([1.0], dtype="float64")
    optimizer.create("sgd", learning_rate=1e-12).update(0, w, nd.array([1.0], dtype="float64"), None)
    assert w.asnumpy()[0] == 1.0 - 1e-12


def test_empty_and_zero_dimensional_weights() -> None:
    updater, empty, scalar = optimizer.get_updater(optimizer.create("adam",
                                                                    learning_rate=0.1)), nd.zeros((0, 3)), nd.array(2.0)
    updater([0, 1], [nd.zeros((0, 3)), nd.array(1.0)], [empty, scalar])
    assert empty.shape == (0, 3)
    np.testing.assert_allclose(scalar.asnumpy(), 1.9, rtol=1e-5)


# ---- multipliers and counts
def test_multipliers_by_name_index_and_symbol() -> None:
    data = sym.var("data")
    net = sym.FullyConnected(data, sym.var("fc_weight", lr_mult=0.5, wd_mult=2.0), sym.var("fc_bias"), num_hidden=2,
                             name="fc")
    chosen = optimizer.SGD(learning_rate=0.1, wd=0.2, sym=net, param_idx2name={0: "fc_weight", 1: "fc_bias"})
    assert chosen._get_lrs([0, 1, 7]) == [0.05, 0.1, 0.1]
    assert chosen._get_wds([0, 1, 7]) == [0.4, 0.0, 0.2]
    chosen.set_lr_mult({"fc_bias": 3.0, 7: 4.0})
    assert chosen._get_lrs([0, 1, 7]) == pytest.approx([0.05, 0.3, 0.4])
    chosen.set_wd_mult({"fc_bias": 1.0})
    assert chosen._get_wds([0, 1]) == [0.4, 0.2]


def test_factors_of_a_symbol_are_numbers() -> None:
    with pytest.raises(AttributeValueError, match="'w' has __lr_mult__ = much, expected a number"):
        optimizer.SGD(sym=sym.var("x") * sym.var("w", lr_mult="much"), param_idx2name={0: "w"})


def test_states_of_an_optimizer_with_fewer_are_refused() -> None:
    weight, updaters = nd.ones((2, 3)), [optimizer.get_updater(optimizer.create(name)) for name in ("adam", "ftml")]
    updaters[0](0, weight, weight)
    updaters[1].set_states(updaters[0].get_states())
    with pytest.raises(ShapeError, match="FTML: the states .* do not fit"):
        updaters[1](0, weight, weight)


def test_counts_begin_where_they_are_told_to() -> None:
    chosen = optimizer.create("sgd", begin_num_update=10)
    chosen.update(3, nd.ones((1,)), nd.ones((1,)), None)
    chosen.update(3, nd.ones((1,)), nd.ones((1,)), None)
    assert chosen.num_update == 12 and chosen._index_update_count == {3: 12}


def test_momentum_correction_of_lars() -> None:
    """The momentum is scaled by new / old learning rate at the update where it changes, for every parameter."""
    chosen = optimizer.LARS(momentum=0.9, learning_rate=0.1)
    chosen.advance([0])
    chosen.lr = 0.05
    assert chosen.advance([0])[2] == pytest.approx(0.45)
    assert chosen.advance([0])[2] == pytest.approx(0.9)


# ---- noise
def test_sgld_noise_is_the_generators() -> None:
    """Half a gradient step and normal noise of variance lr: the draws of nd.random.normal after the same seed."""
    weights = [nd.ones((4, 5)), nd.zeros((3,))]
    random.seed(5)
    optimizer.get_updater(optimizer.create("sgld", learning_rate=0.04,
                                           wd=0.5))([0, 1], [nd.ones((4, 5)), nd.ones((3,))], weights)
    random.seed(5)
    noise = [nd.random.normal(shape=s).asnumpy() for s in ((4, 5), (3,))]
    np.testing.assert_allclose(weights[0].asnumpy(), 1 - 0.02 * 1.5 + 0.2 * noise[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(weights[1].asnumpy(), -0.02 + 0.2 * noise[1], rtol=1e-5, atol=1e-6)


# ---- optimizers of one's own
def test_a_rule_of_ones_own() -> None:
    class Decay(optimizer.Optimizer):
        shared = (*optimizer.Optimizer.shared, "keep")

        def __init__(self, keep: float = 0.5, **kwargs: Any):
            super().__init__(**kwargs)
            self.keep = keep

        def rule(self, w: Any, g: Any, states: Any, s: Any) -> Any:
            return w * s.keep - ir.map("tanh", s.gradient(g)) * s.lr, states
    w = nd.array([2.0])
    Decay(keep=0.25, learning_rate=1.0).update(0, w, nd.array([100.0]), None)
    np.testing.assert_allclose(w.asnumpy(), [-0.5], rtol=1e-6)


def test_the_example_of_the_documentation() -> None:
    text = (ROOT / "docs" / "optimizers.md").read_text()
    names: dict[str, Any] = {}
    exec(text.split("```python\n")[1].split("```")[0], names)
    try:
        chosen = optimizer.create("lion", learning_rate=0.5, wd=0.1)
        updater, w = optimizer.get_updater(chosen), nd.array([1.0, -2.0])
        updater(0, nd.array([3.0, 4.0]), w)
        np.testing.assert_allclose(w.asnumpy(), [0.45, -2.4], rtol=1e-6)
        np.testing.assert_allclose(updater.states[0].asnumpy(), [0.03, 0.04], rtol=1e-5)
    finally:
        del optimizer.Optimizer.opt_registry["lion"]


def test_an_optimizer_in_mxnets_way() -> None:
    """create_state and update on arrays, also with a float32 copy."""
    class Plain(optimizer.Optimizer):
        def create_state(self, index: Any, weight: Any) -> Any:
            return nd.zeros(weight.shape, dtype=weight.dtype)

        def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
            self._update_count(index)
            state[:] += grad
            weight[:] -= self._get_lr(index) * state
    w, h = nd.ones((2,)), nd.ones((2,), dtype="float16")
    updater = optimizer.get_updater(Plain(learning_rate=0.5, multi_precision=True))
    for _ in range(2):
        updater([0, 1], [nd.ones((2,)), nd.ones((2,), dtype="float16")], [w, h])
    np.testing.assert_array_equal(w.asnumpy(), [-0.5, -0.5])
    np.testing.assert_array_equal(h.asnumpy(), [-0.5, -0.5])
    assert h.dtype == np.float16 and updater.states[1][0].dtype == np.float32


def test_register_and_create() -> None:
    @optimizer.register
    class JustForThisTest(optimizer.SGD):
        pass
    try:
        assert type(optimizer.create("justforthistest", learning_rate=0.3)) is JustForThisTest
        with pytest.warns(UserWarning, match="replaces"):
            optimizer.Optimizer.register(JustForThisTest)
    finally:
        del optimizer.Optimizer.opt_registry["justforthistest"]
    assert type(optimizer.Optimizer.create_optimizer("AdaGrad")) is optimizer.AdaGrad


def test_names_are_mxnets() -> None:
    known = ("AdaDelta AdaGrad Adam Adamax DCASGD FTML Ftrl LARS LBSGD NAG Nadam Optimizer RMSProp SGD SGLD Signum "
             "LAMB Test Updater ccSGD create "
             "get_updater register contrib").split()
    assert all(hasattr(optimizer, n) for n in known)
    assert optimizer.optimizer.SGD is optimizer.SGD and optimizer.opt.create is optimizer.create
    assert optimizer.contrib.GroupAdaGrad is optimizer.GroupAdaGrad and optimizer.contrib.adamw is optimizer.AdamW
    assert isinstance(optimizer.create("signsgd"), optimizer.Signum)


# ---- errors
def update_with(weight: Any, grad: Any, state: Any = None, name: str = "sgd", **kwargs: Any) -> None:
    optimizer.create(name, **kwargs).update(0, weight, grad, state)


ERRORS = {
    "unknown-name": (lambda: optimizer.create("sgdd"), r"unknown optimizer 'sgdd' \(nearest: sgd\); known: .*adam"),
    "unknown-argument": (lambda: optimizer.create("sgd", momentun=0.9),
                         r"SGD has no argument 'momentun' \(nearest: momentum\); it takes .*momentum.*learning_rate"),
    "initials": (lambda: optimizer.create("sgd", lr=0.1), r"SGD has no argument 'lr' \(nearest: learning_rate\)"),
    "text-for-a-number": (lambda: optimizer.create("sgd", learning_rate="fast"),
                          "learning_rate must be a number, got 'fast'"),
    "text-set-later": (lambda: optimizer.create("adam").set_learning_rate("x"), "learning_rate must be a number"),
    "idx2name": (lambda: optimizer.create("sgd", param_idx2name=["a"]), "param_idx2name must be a dict"),
    "shapes": (lambda: update_with(nd.ones((2,)), nd.ones((3,))), r"weight has shape \(2,\), its gradient \(3,\)"),
    "integers": (lambda: update_with(nd.ones((2,), dtype="int32"), nd.ones((2,), dtype="int32")),
                 "only floating-point weights"),
    "no-array": (lambda: update_with([1.0], nd.ones((1,))), "optimizers update arrays, got list"),
    "no-momentum": (lambda: update_with(nd.ones((2,)), nd.ones((2,)), None, momentum=0.9),
                    "momentum was 0 when the states were made"),
    "bad-attribute": (lambda: optimizer.create("adam",
                                               beta1="a").update(0, nd.ones((1,)), nd.ones((1,)),
                                                                 (nd.ones((1,)),) * 2),
                                                                 "beta1 must be a number|unsupported"),
    "state-kind": (lambda: update_with(nd.ones((2,)), nd.ones((2,)), 3.0), "state is None, an array, or a tuple"),
    "rows": (lambda: optimizer.create("groupadagrad").create_state(0, nd.ones((2,))), "updates matrices"),
    "rows-decay": (lambda: update_with(nd.ones((2, 2)), nd.ones((2, 2)), nd.zeros((2, 1)), "groupadagrad", wd=0.1),
                   "takes no weight decay"),
    "beta-one": (lambda: update_with(nd.ones((1,)), nd.ones((1,)), (nd.zeros((1,)),) * 2, "adam", beta1=1.0),
                 "cannot be computed with .*beta1=1.0"),
    "beta-text": (lambda: update_with(nd.ones((1,)), nd.ones((1,)), nd.zeros((1,)), "signum", momentum=0.5, wd_lh="a"),
                  "wd_lh must be a number, got 'a'"),
    "warmup": (lambda: optimizer.create("lbsgd", warmup_strategy="cubic"), "warmup_strategy must be"),
}


def test_a_gradient_of_another_part_of_the_cpu() -> None:
    """As in MXNet: cpu(0) and cpu(1) are one memory."""
    w = nd.ones((2,))
    optimizer.create("sgd", learning_rate=0.5).update(0, w, nd.ones((2,), ctx=cpu(1)), None)
    assert w.asnumpy().tolist() == [0.5, 0.5] and w.ctx == cpu(0)


class _OneRate(optimizer.SGD):
    def _get_lr(self, index: Any) -> float:
        return 0.1 * (index + 1)


class _OneAtATime(optimizer.SGD):
    def _get_lrs(self, indices: Any) -> list[float]:
        # as Keras' optimizers have it: MXNet asks for one index a call where aggregate_num is 1
        return [0.1 * (indices[0] + 1)]


@pytest.mark.parametrize("kind", [_OneRate, _OneAtATime], ids=["get_lr", "get_lrs"])
def test_learning_rates_of_a_subclass(kind: Any) -> None:
    ws = [nd.ones((2,)), nd.ones((2,))]
    optimizer.get_updater(kind(learning_rate=5.0))([0, 1], [nd.ones((2,)), nd.ones((2,))], ws)
    assert [float(w[0].asscalar()) for w in ws] == pytest.approx([0.9, 0.8])


@pytest.mark.parametrize("case", sorted(ERRORS))
def test_errors(case: str) -> None:
    call, message = ERRORS[case]
    with pytest.raises((HybridError, TypeError), match=message):
        call()


def test_nothing_to_do_without_a_rule() -> None:
    with pytest.raises(NotImplementedError, match="must define rule"):
        optimizer.Optimizer().update(0, nd.ones((1,)), nd.ones((1,)), None)


def test_half_precision_warns() -> None:
    with pytest.warns(UserWarning, match="consider multi_precision=True"):
        optimizer.create("sgd").create_state_multi_precision(0, nd.ones((2,), dtype="float16"))


@pytest.mark.parametrize("name", ["adam", "sgd", "rmsprop", "ftml", "lamb"])
def test_states_begin_at_a_cache_line(name: str) -> None:
    """As weights do: a vector that lies across two cache lines takes twice as long."""
    made = optimizer.create(name, **({"momentum": 0.9} if name == "sgd" else {}))
    for k in range(4):
        state = made.create_state(k, nd.zeros((70 + k, 30)))
        for s in state if isinstance(state, (tuple, list)) else [state]:
            assert s._data.ctypes.data % 64 == 0
