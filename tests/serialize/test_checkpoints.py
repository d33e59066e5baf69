"""A process killed while it saves leaves the old file or the new one, never a broken one."""
from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import hybrid as mx
from hybrid import gluon, nd
from hybrid.gluon import nn

SAVER = """
import sys
import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.gluon import nn
folder = sys.argv[1]
net = nn.Dense(300, in_units=300)
net.initialize(mx.init.Constant(0))
net.hybridize()
trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0, "momentum": 0.5})
net(nd.ones((1, 300)))
print("ready", flush=True)
k = 0
while True:
    k += 1
    for p in net.collect_params().values():
        p.set_data(nd.full(p.shape, k))
    net.save_parameters(f"{folder}/net.params")
    nd.save(f"{folder}/arrays", {"a": nd.full((300, 300), k), "b": nd.full((5,), k)})
    net.export(f"{folder}/exported", epoch=0)
    with autograd.record():
        loss = net(nd.ones((1, 300))).sum()
    loss.backward()
    trainer.step(1)
    trainer.save_states(f"{folder}/states")
    print(k, flush=True)
"""


def one_value(arrays: dict) -> float:
    values = {float(v) for a in arrays.values() for v in np.unique(a.asnumpy())}
    assert len(values) == 1, values
    return values.pop()


def test_killed_savers_leave_whole_files(tmp_path: Path) -> None:
    script = tmp_path / "saver.py"
    script.write_text(SAVER)
    folder = tmp_path / "files"
    folder.mkdir()
    rng = random.Random(0)
    for _ in range(5):
        saver = subprocess.Popen([sys.executable, str(script), str(folder)], stdout=subprocess.PIPE, text=True,
                                 env={**os.environ, "HYBRID_NUM_THREADS": "1"})
        assert saver.stdout is not None and saver.stdout.readline() == "ready\n"
        saver.stdout.readline()                          # everything was saved once
        time.sleep(rng.random() * 0.3)
        os.kill(saver.pid, signal.SIGKILL)
        saver.wait()
        one_value(nd.load(str(folder / "arrays")))
        net = nn.Dense(300, in_units=300)
        net.load_parameters(str(folder / "net.params"))
        one_value({k: p.data() for k, p in net.collect_params().items()})
        again = gluon.SymbolBlock.imports(str(folder / "exported-symbol.json"), ["data"],
                                          str(folder / "exported-0000.params"))
        assert np.isfinite(again(nd.ones((1, 300))).asnumpy()).all()
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0, "momentum": 0.5})
        trainer.load_states(str(folder / "states"))
    assert mx.nd.load(str(folder / "arrays"))["b"].shape == (5,)
    left = [f.name for f in folder.iterdir()]
    assert {"arrays", "net.params", "exported-symbol.json", "exported-0000.params", "states"} <= set(left)
