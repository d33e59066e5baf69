"""Training with sparse arrays beside what MXNet 1.9.1 recorded, compiled beside eager, and the memory that it takes."""
from __future__ import annotations

import json
import sys
import tracemalloc
from pathlib import Path
from typing import Any, Callable, Iterator

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.base.errors import HybridError
from hybrid.gluon import traced_step
from ..paths import DATA, TESTS

sys.path.insert(0, str(TESTS / "oracle"))
import sparse_training_cases as cases  # noqa: E402

RECORDED = json.loads((DATA / "sparse_training.json").read_text())
ROWS, WIDTH = 200_000, 64


def test_every_case_is_recorded() -> None:
    assert list(RECORDED) == list(cases.CASES)


@pytest.mark.parametrize("name", list(cases.CASES))
def test_as_mxnet(name: str) -> None:
    _compare(cases.outcome(name, mx), RECORDED[name], name)


def _compare(found: Any, expected: Any, where: str) -> None:
    if isinstance(expected, dict):
        assert isinstance(found, dict) and set(found) == set(expected), (where, found)
        for key, value in expected.items():
            _compare(found[key], value, f"{where}: {key}")
    elif isinstance(expected, (list, tuple)) and not where.endswith("values"):
        assert isinstance(found, (list, tuple)) and len(found) == len(expected), (where, found)
        for k, (x, y) in enumerate(zip(found, expected)):
            _compare(x, y, f"{where} {k}")
    elif where.endswith("values"):
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=3e-6, err_msg=where)
    else:
        assert found == expected, (where, found, expected)


# ---- compiled
@pytest.fixture(params=["in the program", "after it"])
def where_tables_are_updated(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traced_step, "SMALL", [1 << 17 if request.param == "in the program" else 0])


def _net() -> tuple[Any, Any]:
    table, top = gluon.nn.Embedding(6, 3, sparse_grad=True), gluon.nn.Dense(2, in_units=3)
    for layer in (table, top):
        layer.initialize(mx.init.One())
    table.weight.set_data(nd.array(np.arange(18).reshape(6, 3) / 10))
    return table, top


Loss = Callable[[Any, Any, Any], Any]
LOSSES: dict[str, Loss] = {
    "once": lambda table, top, x: (top(table(x)) ** 2).sum(),
    "twice": lambda table, top, x: (top(table(x) + table(x + 1)) ** 2).sum(),
    "tied": lambda table, top, x: (top(table(x)) ** 2).sum() + nd.dot(table(x), table.weight.data(),
                                                                      transpose_b=True).sum(),
    "a row of zeros": lambda table, top, x: (top(table(x) * (x != 2).reshape((-1, 1))) ** 2).sum(),
}
OPTIMIZERS = [("sgd", {"learning_rate": 0.01, "momentum": 0.9, "wd": 0.1}),
              ("sgd", {"learning_rate": 0.01, "wd": 0.1, "lazy_update": False}), ("adam", {"wd": 0.1}),
              ("adagrad", {}), ("ftrl", {}), ("nag", {"learning_rate": 0.01, "momentum": 0.9}),
              ("lars", {"momentum": 0.9})]


def _steps(compiled: bool, loss: Loss, name: str, options: dict[str, Any], reads: bool = False) -> list[Any]:
    table, top = _net()
    trainer = gluon.Trainer({**table.collect_params(), **top.collect_params()}, name, dict(options))

    def step(x: Any) -> Any:
        with autograd.record():
            y = loss(table, top, x)
        y.backward()
        read = table.weight.grad() * 1 if reads else None
        trainer.step(2)
        return (y, read) if reads else y
    f = mx.hybridize(step) if compiled else step
    out = [f(nd.array([k % 4, 2, 2])) for k in range(4)]
    if reads:
        assert all(isinstance(r, nd.NDArray) for _, r in out)
        out = [x.tostype("default") for pair in out for x in pair]
    return [*(x.asnumpy() for x in out), table.weight.data().asnumpy(), top.weight.data().asnumpy()]


@pytest.mark.usefixtures("where_tables_are_updated")
@pytest.mark.parametrize("name, options", OPTIMIZERS, ids=[f"{n} {o}" for n, o in OPTIMIZERS])
@pytest.mark.parametrize("loss", list(LOSSES))
def test_a_compiled_step_updates_as_an_eager_one(loss: str, name: str, options: dict[str, Any]) -> None:
    for x, y in zip(_steps(True, LOSSES[loss], name, options), _steps(False, LOSSES[loss], name, options)):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("where_tables_are_updated")
@pytest.mark.parametrize("name", ["sgd", "adam", "ftrl"])
def test_a_compiled_step_updates_the_copy_of_a_table_of_halves(name: str) -> None:
    found = []
    for compiled in (True, False):
        table, _ = _net()
        table.cast("float16")
        trainer = gluon.Trainer(table.collect_params(), name, {"multi_precision": True, "wd": 0.1})

        def step(x: Any, table: Any = table, trainer: Any = trainer) -> None:
            with autograd.record():
                loss = (table(x).astype("float32") ** 2).sum()
            loss.backward()
            trainer.step(2)
        f = mx.hybridize(step) if compiled else step
        for k in range(4):
            f(nd.array([k % 2, 2, 2]))
        copy = trainer._updaters[0].optimizer.parted_state(trainer._updaters[0].states[0])[1]
        found.append((table.weight.data().asnumpy(), copy.asnumpy()))
        assert (found[-1][0] == found[-1][1].astype("float16")).all()
    for x, y in zip(*found):
        np.testing.assert_allclose(x, y, rtol=1e-3 if x.dtype == np.float16 else 1e-5, atol=1e-6)


@pytest.mark.usefixtures("where_tables_are_updated")
def test_a_compiled_step_that_reads_the_gradient() -> None:
    for x, y in zip(_steps(True, LOSSES["twice"], "sgd", {"wd": 0.1}, True),
                    _steps(False, LOSSES["twice"], "sgd", {"wd": 0.1}, True)):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


def _gradient(how: str) -> Any:
    table, top = _net()

    def forward(x: Any) -> Any:
        return LOSSES["a row of zeros"](table, top, x)

    def whole(x: Any) -> Any:
        with autograd.record():
            y = forward(x)
        y.backward()
        return y
    if how == "step":
        mx.hybridize(whole)(nd.array([1, 2, 1]))
        return table.weight.grad()
    if how == "block":
        table.hybridize()
    call = mx.hybridize(forward) if how == "function" else forward
    with autograd.record():
        y = call(nd.array([1, 2, 1]))
    y.backward()
    return table.weight.grad()


@pytest.mark.parametrize("how", ["block", "function", "step"])
def test_compiled_gradients_store_the_looked_up_rows(how: str) -> None:
    """Also those whose gradient happens to be zero."""
    g, expected = _gradient(how), _gradient("eager")
    assert g.stype == "row_sparse" and g.indices.asnumpy().tolist() == expected.indices.asnumpy().tolist() == [1, 2]
    np.testing.assert_allclose(g.asnumpy(), expected.asnumpy(), rtol=1e-5)


def test_gradients_that_are_added_up() -> None:
    table, _ = _net()
    table.weight.grad_req = "add"

    def step(x: Any) -> Any:
        with autograd.record():
            y = table(x).sum()
        y.backward()
        return y
    for f in (step, mx.hybridize(step)):
        table.weight.zero_grad()
        f(nd.array([1, 1]))
        f(nd.array([1, 4]))
        assert table.weight.grad().indices.asnumpy().tolist() == [1,
                                                                  4] and table.weight.grad().asnumpy()[:,
                0].tolist() == [0, 3, 0, 0, 1, 0]


def test_a_large_table_that_is_read_after_its_step_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traced_step, "SMALL", [0])
    table, top = _net()
    trainer = gluon.Trainer(table.collect_params(), "sgd")

    @mx.hybridize
    def step(x: Any) -> Any:
        with autograd.record():
            y = LOSSES["once"](table, top, x)
        y.backward()
        trainer.step(1)
        return table(x)
    with pytest.raises(HybridError, match=r"test_sparse_training.py:\d+.*is read after the Trainer's step"):
        step(nd.array([1, 2]))


@pytest.mark.usefixtures("no_casts_left", "where_tables_are_updated")
def test_a_loss_scale_leaves_rows_alone_where_a_gradient_overflows() -> None:
    table, top = _net()
    trainer = gluon.Trainer({**table.collect_params(), **top.collect_params()}, "sgd", {"learning_rate": 0.1})
    mx.contrib.amp.init()
    mx.contrib.amp.init_trainer(trainer)

    @mx.hybridize
    def step(x: Any, factor: Any) -> Any:
        with autograd.record():
            y = (table(x) * factor).sum()
            with mx.contrib.amp.scale_loss(y, trainer) as scaled:
                pass
        scaled.backward()
        trainer.step(1, ignore_stale_grad=True)
        return y
    before = table.weight.data().asnumpy()
    step(nd.array([1, 2]), nd.array([np.inf]))
    assert (table.weight.data().asnumpy() == before).all()
    step(nd.array([1, 2]), nd.array([1.0]))
    np.testing.assert_allclose(before - table.weight.data().asnumpy(),
                               np.array([0, 0.1, 0.1, 0, 0, 0])[:, None] * np.ones(3), rtol=1e-5, atol=1e-7)


@pytest.fixture
def no_casts_left() -> Iterator[None]:
    yield
    mx.contrib.amp.off()


# ---- blocks that are given sparse arrays run as they are written
def test_a_hybridized_block_with_a_sparse_argument() -> None:
    class Scorer(gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any, y: Any) -> Any:  # noqa: N803
            return F.elemwise_add(x, y) * 2
    net = Scorer()
    net.hybridize()
    x = nd.array([[0, 1], [2, 0]])
    for _ in range(2):
        assert net(x.tostype("csr"), x.tostype("csr")).stype == "csr" and net(x, x).stype == "default"
        assert (net(x.tostype("csr"), x.tostype("csr")).asnumpy() == net(x, x).asnumpy()).all()


# ---- memory
def _large() -> tuple[Any, Any]:
    table = gluon.nn.Embedding(ROWS, WIDTH, sparse_grad=True)
    table.initialize(mx.init.Zero())
    return table, gluon.Trainer(table.collect_params(), "adam")


@pytest.mark.parametrize("how", ["eager", "block", "step"])
def test_a_step_takes_memory_for_the_looked_up_rows(how: str) -> None:
    table, trainer = _large()
    if how == "block":
        table.hybridize()

    def step(x: Any) -> Any:
        with autograd.record():
            y = (table(x) ** 2 + table(x)).sum()
        y.backward()
        trainer.step(1)
        return y
    call = mx.hybridize(step) if how == "step" else step
    call(nd.arange(100))
    tracemalloc.start()
    try:
        call(nd.array(np.arange(100) * 1999))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2e6 < ROWS * WIDTH * 4 / 20
    assert table.weight.grad()._values.shape == (100, WIDTH)
    assert np.flatnonzero(table.weight.data().asnumpy().any(1)).size == 199


def test_zeros_and_copies_of_large_row_sparse_arrays_are_small() -> None:
    x = nd.sparse.zeros("row_sparse", (10 ** 6, WIDTH))
    tracemalloc.start()
    try:
        x.attach_grad()
        x[:] = 0
        x.zero_grad()
        y = nd.ones((3, 2))
        y.attach_grad(stype="row_sparse")
        kept = nd.sparse.retain(x, nd.array([5, 7])) + x.copy()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1e6 and kept.indices.asnumpy().tolist() == [5, 7]


# ---- parameters and files
def test_row_sparse_parameters_are_saved_whole(tmp_path: Path) -> None:
    net = cases.table(mx)
    gluon.Trainer(net.collect_params(), "sgd")
    net(nd.array([1]))
    net.save_parameters(str(tmp_path / "w.params"))
    saved = nd.load(str(tmp_path / "w.params"))["weight"]
    other = gluon.contrib.nn.SparseEmbedding(4, 2)
    other.load_parameters(str(tmp_path / "w.params"))
    gluon.Trainer(other.collect_params(), "sgd")
    assert saved.stype == "row_sparse" and (saved.asnumpy() == cases.weight(mx).asnumpy()).all()
    assert (other.weight.row_sparse_data(nd.arange(4)).asnumpy() == saved.asnumpy()).all()


def test_a_set_value_of_a_row_sparse_parameter_is_the_trainers() -> None:
    net = cases.table(mx)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0})
    net(nd.array([1]))
    net.weight.set_data(nd.ones((4, 2)) * 5)
    cases.backward(mx, net, [2])
    trainer.step(1)
    assert net.weight.row_sparse_data(nd.arange(4)).asnumpy().tolist() == [[5, 5], [5, 5], [4, 3], [5, 5]]
    with pytest.raises(HybridError, match="another Trainer"):
        gluon.Trainer(net.collect_params(), "sgd")
    with pytest.raises(ValueError, match="update_on_kvstore=False"):
        gluon.Trainer(cases.table(mx).collect_params(), "sgd", update_on_kvstore=False)


def test_states_of_lazy_updates_are_saved_and_go_on(tmp_path: Path) -> None:
    found = []
    for restart in (False, True):
        net = cases.embedding(mx)
        trainer = gluon.Trainer(net.collect_params(), "adam")
        for ids in ([1, 3], [3, 0], [1]):
            cases.backward(mx, net, ids)
            trainer.step(1)
            if restart:
                trainer.save_states(str(tmp_path / "s"))
                trainer = gluon.Trainer(net.collect_params(), "adam")
                trainer.load_states(str(tmp_path / "s"))
        found.append(net.weight.data().asnumpy())
    assert (found[0] == found[1]).all()
