"""``hybridize(precision="bf16")`` where the processor has no instruction for it (hybrid/jit/compiled_call.py)."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.gluon import nn, rnn
from hybrid.runtime import cpu, plans, toolchain


class Attention(nn.HybridBlock):
    """A layer of an encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.out = nn.Dense(96, flatten=False, in_units=32), nn.Dense(32, flatten=False, in_units=32)

    def forward(self, x: Any) -> Any:
        q, k, v = nd.split(self.into(x), 3, axis=2)
        return x + self.out(nd.batch_dot(nd.softmax(nd.batch_dot(q, k, transpose_b=True)), v))


def sequential(*layers: Any) -> Any:
    net = nn.HybridSequential()
    net.add(*layers)
    return net


WHOLE = {
    "perceptron": (lambda: sequential(nn.Dense(64, activation="relu"), nn.Dense(32)), (64, 96)),
    "row": (lambda: sequential(nn.Dense(64, activation="relu"), nn.Dense(32)), (1, 300)),
    "pictures": (lambda: sequential(nn.Conv2D(16, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(),
                                    nn.Conv2D(32, 3), nn.Dense(32)), (2, 16, 14, 14)),
    "attention": (lambda: sequential(Attention(), nn.LayerNorm(), Attention()), (2, 24, 32)),
    "recurrent": (lambda: sequential(rnn.LSTM(48, input_size=32), nn.Dense(32, flatten=False)), (6, 5, 32)),
}


@pytest.mark.parametrize("name", WHOLE)
def test_without_the_instruction_all_programs_are_those_of_float32(name: str, monkeypatch: Any) -> None:
    """So ``precision="bf16"`` takes as long: inference and training run what was compiled for float32."""
    asked: list[str] = []

    def noted(program: Any) -> Any:
        asked.append(f"{plans.program_text(program)} {sorted(program.memo.get('frozen', ()))}")
        return compiled(program)
    compiled = cpu.compiled
    monkeypatch.setattr(toolchain, "words", frozenset)
    monkeypatch.setattr(cpu, "compiled", noted)
    make, shape = WHOLE[name]
    x = nd.array(np.random.default_rng(0).standard_normal(shape))

    def results(**options: Any) -> tuple[list[np.ndarray], set[str]]:
        asked.clear()
        mx.random.seed(2)
        net = make()
        net.initialize(mx.init.Xavier())
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01})
        net.hybridize(**options)
        found = [net(x).asnumpy() for _ in range(2)]

        @mx.hybridize(**options)
        def step(x: Any) -> Any:
            with autograd.record():
                loss = nd.square(net(x)).mean()
            loss.backward()
            trainer.step(1)
            return loss
        found += [step(x).asnumpy() for _ in range(2)]
        return found, set(asked)
    plain, programs = results()
    low, same = results(precision="bf16")
    for a, b in zip(plain, low):
        np.testing.assert_array_equal(a, b)
    assert len(programs) >= 2 and same == programs
