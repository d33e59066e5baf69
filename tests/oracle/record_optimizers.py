"""Records 20 updates of every optimizer, and the values of the learning rate schedulers, from MXNet 1.9.1.

Run with MXNet's Python: ``MXNET_MKLDNN_ENABLED=0 python tests/oracle/record_optimizers.py``. Writes
tests/data/optimizers.json (what was run) and tests/data/optimizers.npz (gradients, first weights, weights after each
update; of float16 weights their float32 copies).
"""
from __future__ import annotations

import json
import math
import warnings
from pathlib import Path

import mxnet as mx
import numpy as np

DATA = Path(__file__).resolve().parent.parent / "data"
STEPS = 20
SHAPES = [(2, 3), (3,)]
NAMES = {0: "dense0_weight", 1: "dense0_bias"}
PLAIN: dict = {}
FULL = {"wd": 0.01, "clip_gradient": 0.4, "rescale_grad": 0.5}
HALF = {"multi_precision": True}
STEP_SCHEDULE = ["FactorScheduler", {"step": 4, "factor": 0.5, "base_lr": 0.1, "warmup_steps": 3,
                                     "warmup_begin_lr": 0.02}]

# optimizer -> arguments of each recorded run
RUNS: dict[str, list[dict]] = {
    "sgd": [PLAIN, {"learning_rate": 0.1, "momentum": 0.9}, {"learning_rate": 0.1, **FULL},
            {"learning_rate": 0.1, "momentum": 0.9, **FULL},
            {"momentum": 0.9, "lr_scheduler": STEP_SCHEDULE}],
    "ccsgd": [{"learning_rate": 0.1, "momentum": 0.5}],
    "nag": [{"learning_rate": 0.1}, {"learning_rate": 0.1, "momentum": 0.9}, {"learning_rate": 0.1, **FULL},
            {"learning_rate": 0.1, "momentum": 0.9, **FULL}],
    "signum": [PLAIN, {"momentum": 0.0}, {"momentum": 0.0, **FULL}, {"wd_lh": 0.05, **FULL}],
    "ftml": [PLAIN, {"learning_rate": 0.05, "beta1": 0.5, "beta2": 0.99, "epsilon": 1e-6, **FULL}],
    "adam": [PLAIN, {"learning_rate": 0.05, "beta1": 0.8, "beta2": 0.99, "epsilon": 1e-6, **FULL},
             {"lr_scheduler": STEP_SCHEDULE}],
    "adamw": [PLAIN, {"learning_rate": 0.05, "beta1": 0.8, "beta2": 0.99, "epsilon": 1e-4, **FULL},
              {"correct_bias": False, **FULL}],
    "adagrad": [PLAIN, {"learning_rate": 0.1, "eps": 1e-3, **FULL}],
    "adadelta": [PLAIN, {"rho": 0.8, "epsilon": 1e-3, **FULL}],
    "rmsprop": [PLAIN, {"learning_rate": 0.02, "gamma1": 0.8, "epsilon": 1e-4, "clip_weights": 1.2, **FULL},
                {"centered": True},
                {"centered": True, "learning_rate": 0.02, "gamma1": 0.8, "gamma2": 0.7, "epsilon": 1e-4,
                 "clip_weights": 1.2, **FULL}],
    "adamax": [PLAIN, {"learning_rate": 0.05, "beta1": 0.8, "beta2": 0.99, **FULL}],
    "nadam": [PLAIN, {"learning_rate": 0.05, "beta1": 0.8, "beta2": 0.99, "epsilon": 1e-5, "schedule_decay": 0.01,
                      **FULL}],
    "ftrl": [PLAIN, {"learning_rate": 0.2, "lamda1": 0.05, "beta": 0.5, **FULL}],
    "lamb": [PLAIN, {"learning_rate": 0.05, "beta1": 0.8, "beta2": 0.99, "lower_bound": 0.5, "upper_bound": 1.5,
                     **FULL},
             {"learning_rate": 0.05, "bias_correction": False, **FULL}],
    "lars": [{"learning_rate": 0.5}, {"learning_rate": 0.5, "momentum": 0.9, "eta": 0.05, "eps": 1e-3, **FULL},
             {"momentum": 0.9, "eta": 0.05, "lr_scheduler": STEP_SCHEDULE}],
    "lbsgd": [{"learning_rate": 0.1}, {"learning_rate": 0.1, "momentum": 0.9, "batch_scale": 3, "updates_per_epoch": 4,
                                       **FULL},
              {"learning_rate": 0.1, "batch_scale": 2, "warmup_strategy": "sqrt", "warmup_epochs": 2,
               "updates_per_epoch": 4},
              {"learning_rate": 0.1, "batch_scale": 2, "warmup_strategy": "power2", "lr_scheduler": STEP_SCHEDULE},
              {"learning_rate": 0.01, "momentum": 0.5, "batch_scale": 2, "warmup_strategy": "lars", **FULL}],
    "dcasgd": [{"learning_rate": 0.1}, {"learning_rate": 0.1, "lamda": 0.5, **FULL}],
    "groupadagrad": [PLAIN, {"learning_rate": 0.1, "eps": 1e-3, "clip_gradient": 0.4, "rescale_grad": 0.5}],
    "test": [PLAIN, {"rescale_grad": 0.5}],
}
MASTER_LAST = [False]
ONE_PARAMETER = {"groupadagrad"}                    # takes matrices alone

SCHEDULES = [
    ["FactorScheduler", {"step": 3, "factor": 0.7, "stop_factor_lr": 0.004, "base_lr": 0.02}],
    ["FactorScheduler", {"step": 2, "factor": 0.5, "base_lr": 0.3, "warmup_steps": 5, "warmup_begin_lr": 0.1,
                         "warmup_mode": "constant"}],
    ["MultiFactorScheduler", {"step": [2, 5, 11], "factor": 0.3, "base_lr": 0.5}],
    ["MultiFactorScheduler", {"step": [4, 9], "factor": 0.1, "base_lr": 0.5, "warmup_steps": 3,
                              "warmup_begin_lr": 0.1}],
    ["PolyScheduler", {"max_update": 15, "base_lr": 0.4}],
    ["PolyScheduler", {"max_update": 15, "base_lr": 0.4, "pwr": 3, "final_lr": 0.01, "warmup_steps": 4}],
    ["CosineScheduler", {"max_update": 15, "base_lr": 0.4}],
    ["CosineScheduler", {"max_update": 12, "base_lr": 0.4, "final_lr": 0.05, "warmup_steps": 4,
                         "warmup_begin_lr": 0.2}],
]


class AdamW(mx.optimizer.Optimizer):
    """MXNet 1.9.1 has the operator adamw_update and no class for it; this one drives it as MXNet 2.0's class does."""

    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-6, correct_bias=True, **kwargs):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1, self.beta2, self.epsilon, self.correct_bias = beta1, beta2, epsilon, correct_bias

    def create_state(self, index, weight):
        return mx.nd.zeros(weight.shape, dtype=weight.dtype), mx.nd.zeros(weight.shape, dtype=weight.dtype)

    def update(self, index, weight, grad, state):
        self._update_count(index)
        lr, wd, t = self._get_lr(index), self._get_wd(index), self._index_update_count[index]
        if self.correct_bias:
            lr *= math.sqrt(1 - self.beta2 ** t) / (1 - self.beta1 ** t)
        kwargs = {"clip_gradient": self.clip_gradient} if self.clip_gradient else {}
        mx.nd.contrib.adamw_update(weight, grad, *state, mx.nd.array([self.rescale_grad]), out=weight, lr=1, eta=lr,
                                   wd=wd, beta1=self.beta1,
                                   beta2=self.beta2, epsilon=self.epsilon, **kwargs)


mx.optimizer.Optimizer.opt_registry["adamw"] = AdamW


def make(spec):
    return getattr(mx.lr_scheduler, spec[0])(**spec[1])


def run(name, kwargs, dtype, first, grads):
    kwargs = dict(kwargs)
    if "lr_scheduler" in kwargs:
        kwargs["lr_scheduler"] = make(kwargs["lr_scheduler"])
        kwargs["learning_rate"] = kwargs["lr_scheduler"].base_lr
    count = 1 if name in ONE_PARAMETER else len(SHAPES)
    MASTER_LAST[0] = name in ("sgd", "nag", "lars")
    updater = mx.optimizer.get_updater(mx.optimizer.create(name, param_idx2name=NAMES, **kwargs))
    weights = [mx.nd.array(w, dtype=dtype) for w in first[:count]]
    out = []
    for step in range(STEPS):
        updater(list(range(count)), [mx.nd.array(g[step], dtype=dtype) for g in grads[:count]], weights)
        shown = [master(updater.states[i]) for i in range(count)] if dtype == "float16" else weights
        out.append(np.concatenate([w.asnumpy().ravel() for w in shown]))
    return np.array(out)


def master(state):
    """The float32 copy in a state of MXNet's: (state, copy) or (copy, state)."""
    last = state[-1]
    return last if isinstance(last, mx.nd.NDArray) and MASTER_LAST[0] else state[0]


def main():
    warnings.simplefilter("ignore")
    rng = np.random.RandomState(7)
    first = [rng.uniform(-1, 1, s).astype("float32") for s in SHAPES]
    grads = [rng.uniform(-1, 1, (STEPS, *s)).astype("float16").astype("float32") for s in SHAPES]
    arrays = {"first0": first[0], "first1": first[1], "grads0": grads[0].astype("float16"),
              "grads1": grads[1].astype("float16")}
    runs = []
    for name, rows in RUNS.items():
        for number, kwargs in enumerate(rows):
            variants = [("float32", kwargs)]
            if name not in ("ccsgd", "groupadagrad", "test"):
                variants.append(("float16", {**kwargs, **HALF}))
            for dtype, given in variants:
                key = f"{name}-{number}-{dtype}"
                arrays[key] = run(name, given, dtype, first, grads)
                assert np.isfinite(arrays[key]).all(), key
                runs.append({"key": key, "optimizer": name, "dtype": dtype, "kwargs": given,
                             "parameters": 1 if name in ONE_PARAMETER else len(SHAPES)})
    schedules = []
    for spec in SCHEDULES:
        schedule = make(spec)
        schedules.append({"spec": spec, "values": [schedule(i) for i in range(1, 25)]})
    record = {"steps": STEPS, "shapes": SHAPES, "names": NAMES, "runs": runs, "schedules": schedules}
    (DATA / "optimizers.json").write_text(json.dumps(record, indent=1) + "\n")
    np.savez_compressed(DATA / "optimizers.npz", **arrays)
    print(len(runs), "runs,", (DATA / "optimizers.npz").stat().st_size, "bytes")


if __name__ == "__main__":
    main()
