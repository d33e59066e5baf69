"""Records optimizer states as MXNet 1.9.1 writes them (pickles), and how it goes on from them:
tests/data/mxnet_states.npz.

Run with MXNet's Python: ``MXNET_MKLDNN_ENABLED=0 python tests/oracle/record_states.py``. For each run: the file after
three updates, weights and gradients as they are then (``before``), and weights after three more (``after``).
"""
from __future__ import annotations

import json
import warnings
from pathlib import Path

import mxnet as mx
import numpy as np

DATA = Path(__file__).resolve().parent.parent / "data"
NAMES = ["sgd", "nag", "adam", "adagrad", "adadelta", "rmsprop", "adamax", "nadam", "ftrl", "ftml", "signum", "lamb",
         "lars"]
ARGUMENTS = {"sgd": {"momentum": 0.9}, "nag": {"momentum": 0.9}, "rmsprop": {"centered": True},
             "lars": {"momentum": 0.9}, "signum": {"momentum": 0.8}}
SCHEDULE = {"step": 2, "factor": 0.5, "base_lr": 0.1}


def run(name, dtype, schedule):
    """File, weights before and after."""
    rng = np.random.RandomState(3)
    arguments = {**ARGUMENTS.get(name, {}), **({"multi_precision": True} if dtype == "float16" else {})}
    made = {"lr_scheduler": mx.lr_scheduler.FactorScheduler(**SCHEDULE),
            "learning_rate": SCHEDULE["base_lr"]} if schedule else {"learning_rate": 0.1}
    updater = mx.optimizer.get_updater(mx.optimizer.create(name, param_idx2name={0: "a_weight", 1: "b_bias"},
                                                           **arguments, **made))
    weights = [mx.nd.array(rng.uniform(-1, 1, s), dtype=dtype) for s in ((3, 2), (4,))]
    grads = rng.uniform(-1, 1, (6, 10)).astype("float16")
    for step, row in enumerate(grads):
        if step == 3:
            data, before = updater.get_states(dump_optimizer=True), flat(weights)
        for i, g in enumerate((row[:6].reshape(3, 2), row[6:])):
            updater(i, mx.nd.array(g, dtype=dtype), weights[i])
    return data, before, grads, flat(weights), arguments


def flat(weights):
    return np.concatenate([w.asnumpy().ravel() for w in weights])


def main():
    warnings.simplefilter("ignore")
    arrays, runs = {}, []
    for name in NAMES:
        for dtype, schedule in (("float32", False), ("float16", False), ("float32", True)):
            key = f"{name}-{dtype}{'-scheduled' if schedule else ''}"
            data, before, grads, after, arguments = run(name, dtype, schedule)
            arrays.update({f"{key}.file": np.frombuffer(data, np.uint8), f"{key}.before": before,
                           f"{key}.after": after})
            runs.append({"key": key, "optimizer": name, "dtype": dtype, "arguments": arguments,
                         "schedule": SCHEDULE if schedule else None})
    arrays["grads"] = grads
    arrays["runs"] = np.frombuffer(json.dumps(runs).encode(), np.uint8)
    np.savez_compressed(DATA / "mxnet_states.npz", **arrays)
    print(len(runs), "runs,", (DATA / "mxnet_states.npz").stat().st_size, "bytes")


if __name__ == "__main__":
    main()
