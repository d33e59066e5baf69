"""``hybrid.deterministic``: one switch for results that are the same, bit for bit, on every run."""
from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Iterator

import numpy as np
import pytest

import hybrid as mx
from hybrid import nd
from hybrid.base import config
from hybrid.collective.world import World
from hybrid.runtime import toolchain


@pytest.fixture(autouse=True)
def switched_back(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HYBRID_DETERMINISTIC", "0")
    monkeypatch.delenv("HYBRID_TUNE", raising=False)
    yield
    mx.deterministic(False)


def test_one_switch_sets_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRID_COMPILE", "background")
    before = config.tune_seconds(), config.skip_zeros(), config.compile_mode()
    assert before == (0.5, True, "background")
    world = World.__new__(World)
    world.deterministic = False
    assert not world.deterministic
    mx.deterministic(True)
    assert (config.tune_seconds(), config.skip_zeros(), config.compile_mode()) == (0.0, False, "now")
    assert world.deterministic
    monkeypatch.setenv("HYBRID_COMPILE", "never")
    assert config.compile_mode() == "never"                      # one tier, always the same
    mx.deterministic(False)
    assert (config.tune_seconds(), config.skip_zeros()) == before[:2] and not world.deterministic


def test_other_than_true_and_false_is_refused() -> None:
    with pytest.raises(TypeError, match="True or False, got 'yes'"):
        mx.deterministic("yes")                                  # type: ignore[arg-type]


def test_what_was_compiled_before_is_compiled_again() -> None:
    f, x = mx.hybridize(lambda x: nd.tanh(x) * 11), nd.ones((3, 3))
    for _ in range(4):
        before = f(x).asnumpy()
    assert len(f._engine.entries) == 1
    mx.deterministic(True)
    np.testing.assert_allclose(f(x).asnumpy(), before, rtol=1e-6)
    assert len(f._engine.entries) == 2 and "deterministic" in f.cache_misses[-1]
    mx.deterministic(True)                                       # nothing changes
    f(x)
    assert len(f._engine.entries) == 2


SCRIPT = """
    import hashlib
    import hybrid as mx
    from hybrid import autograd, gluon, nd
    mx.random.seed(5)
    net = gluon.nn.Dense(40)
    net.initialize(mx.init.Xavier())
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    loss = gluon.loss.L2Loss()
    x, y = nd.random.normal(shape=(256, 300)), nd.zeros((256, 40))

    @mx.hybridize
    def step(x, y):
        with autograd.record():
            value = loss(nd.Dropout(net(x), 0.3), y)
        value.backward()
        trainer.step(256)
        return value
    sums = hashlib.sha256()
    for _ in range(4):
        sums.update(step(x, y).asnumpy().tobytes())
    for p in net.collect_params().values():
        sums.update(p.data().asnumpy().tobytes())
    print(sums.hexdigest())
"""


@pytest.mark.skipif(toolchain.compiler() is None, reason="needs a C compiler")
def test_two_runs_give_the_same_bits(tmp_path: Path) -> None:
    """Training with random draws: by rule alone, by the switch whose run asks for a tier and measurements, and once
    more from the cache of that."""
    folders = tmp_path / "a", tmp_path / "b"
    for folder in folders:
        folder.mkdir(mode=0o700)
    runs = [(folders[0], {"HYBRID_TUNE": "0", "HYBRID_COMPILE": "now", "HYBRID_SKIP_ZEROS": "0"}),
            *2 * [(folders[1], {"HYBRID_DETERMINISTIC": "1", "HYBRID_COMPILE": "background", "HYBRID_TUNE": "9"})]]
    said = []
    for folder, settings in runs:
        around = {k: v for k, v in os.environ.items() if not k.startswith("HYBRID_")}
        ran = subprocess.run([sys.executable, "-c", textwrap.dedent(SCRIPT)], capture_output=True, text=True,
                             timeout=150, env={**around, "HYBRID_CACHE": str(folder), **settings})
        assert ran.returncode == 0, ran.stderr
        said.append(ran.stdout.strip())
    assert len(set(said)) == 1, said
