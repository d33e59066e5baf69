"""Files of every kind that this version writes, kept for later versions to read:
``python -m tests.serialize.kept_files`` writes ``data/kept/VERSION.zip`` (once for a release), and
test_kept_files.py reads those of all versions.
"""
from __future__ import annotations

import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.gluon import nn

from ..paths import DATA

FOLDER = DATA / "kept"
X = np.random.RandomState(0).randn(4, 1, 6, 6).astype("float32")


def network() -> Any:
    """The network of the files."""
    net = nn.HybridSequential(prefix="kept_")
    with net.name_scope():
        net.add(nn.Conv2D(3, 3, in_channels=1, use_bias=False), nn.BatchNorm(in_channels=3), nn.Activation("relu"),
                nn.Flatten(), nn.Dense(5, in_units=48))
    return net


def trainer_of(net: Any) -> gluon.Trainer:
    """Its trainer."""
    return gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})


def step(net: Any, trainer: gluon.Trainer) -> None:
    """One step of training, the same at every time."""
    with autograd.record():
        loss = (net(nd.array(X)) ** 2).mean()
    loss.backward()
    trainer.step(1)


def predict(net: Any) -> np.ndarray:
    """What it computes."""
    return net(nd.array(X)).asnumpy()                                                      # type: ignore[no-any-return]


def write(folder: Path) -> None:
    """Every kind of file, and what reading it must give."""
    mx.random.seed(5)
    net = network()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = trainer_of(net)
    for _ in range(3):
        step(net, trainer)
    out = {"prediction": predict(net)}
    net.save_parameters(str(folder / "net.params"))
    net.export(str(folder / "net"), epoch=3)
    trainer.save_states(str(folder / "trainer.states"))
    nd.save(str(folder / "arrays.nd"), {"dense": nd.array(X[0, 0]), "whole": nd.array([1, 2, 3], dtype="int32"),
                                        "half": nd.array([0.5, 2], dtype="float16"),
                                        "rows": nd.array(np.eye(3)).tostype("row_sparse"),
                                        "csr": nd.array(np.eye(3)).tostype("csr")})
    step(net, trainer)
    np.savez(folder / "expected.npz", **out, after=predict(net))


def main() -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        with zipfile.ZipFile(FOLDER / f"{mx.__version__}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(Path(folder).iterdir()):
                archive.writestr(zipfile.ZipInfo(path.name), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return 0


if __name__ == "__main__":
    sys.exit(main())
