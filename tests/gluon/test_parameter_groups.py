"""Groups of parameters with rates of their own."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hybrid import autograd, gluon, lr_scheduler, nd
from hybrid.base.errors import AttributeValueError
from hybrid.gluon import nn

X = nd.array(np.arange(12).reshape(4, 3) / 12)


def network() -> Any:
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=3), nn.Dense(2, in_units=3))
    net.initialize("ones")
    return net


def groups(net: Any, **of_second: Any) -> list[dict[str, Any]]:
    return [{"params": net[0].collect_params()}, {"params": list(net[1].collect_params().values()), **of_second}]


def trained(net: Any, trainers: list[gluon.Trainer], hybridized: bool) -> list[np.ndarray]:
    if hybridized:
        net.hybridize()
    for _ in range(6):
        with autograd.record():
            loss = (net(X) ** 2).mean()
        loss.backward()
        for trainer in trainers:
            trainer.step(1)
    return [p.data().asnumpy() for p in net.collect_params().values()]


@pytest.mark.parametrize("hybridized", (False, True))
@pytest.mark.parametrize("optimizer", ("sgd", "adam"))
@pytest.mark.parametrize("names", ({"learning_rate": 0.02, "wd": 0.3}, {"lr": 0.02, "weight_decay": 0.3},
                                   {"lr_mult": 0.2, "wd_mult": 3}, {"learning_rate": 0, "wd": 0}))
def test_groups_are_as_a_trainer_for_each(names: dict[str, float], optimizer: str, hybridized: bool) -> None:
    net = network()
    got = trained(net, [gluon.Trainer(groups(net, **names), optimizer, {"learning_rate": 0.1, "wd": 0.1})], hybridized)
    rates = {"learning_rate": 0.02, "wd": 0.3} if "learning_rate" not in names else names
    other = network()
    expected = trained(other, [gluon.Trainer(other[0].collect_params(), optimizer, {"learning_rate": 0.1, "wd": 0.1}),
                               gluon.Trainer(other[1].collect_params(), optimizer, rates)], False)
    for a, b in zip(got, expected):
        np.testing.assert_allclose(a, b, 1e-5, 1e-7)


def test_rates_of_groups_follow_the_optimizer() -> None:
    net = network()
    schedule = lr_scheduler.FactorScheduler(step=1, factor=0.5, base_lr=0.1, warmup_steps=2, warmup_begin_lr=0)
    trainer = gluon.Trainer(groups(net, learning_rate=0.02), "sgd", {"lr_scheduler": schedule, "learning_rate": 0.1})
    assert [p.lr_mult for p in trainer._params] == pytest.approx([1, 1, 0.2, 0.2])
    plain = gluon.Trainer(groups(net, learning_rate=0.02), "sgd", {"learning_rate": 0.1})
    plain.set_learning_rate(1.0)
    assert plain.optimizer._get_lrs([0, 3]) == pytest.approx([1.0, 0.2])


@pytest.mark.parametrize("wrong, message", [
    ({"momentum": 0.9}, "got 'momentum': other settings belong to the optimizer"), ({"wd": 0.1}, "that is 0: give the"),
    ({"lr_mult": "0.1"}, "takes a number for lr_mult, got '0.1'"), ({"params": 3}, "got int"),
    ({"params": []}, None)])
def test_wrong_groups(wrong: dict[str, Any], message: str | None) -> None:
    net = network()
    if message is None:                                  # a group may be empty
        assert len(gluon.Trainer(groups(net, **wrong), "sgd")._params) == 2
        return
    with pytest.raises(AttributeValueError, match=message):
        gluon.Trainer(groups(net, **wrong), "sgd")


def test_a_parameter_in_two_groups() -> None:
    net = network()
    with pytest.raises(AttributeValueError, match="given twice"):
        gluon.Trainer([{"params": net.collect_params()}, {"params": net[0].collect_params()}], "sgd")
