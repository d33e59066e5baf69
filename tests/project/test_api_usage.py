"""Names that real Gluon code uses (tests/data/api_usage.json: those that at least three files use) exist here.

What does not exist is listed in MISSING with the reason; a name there that has come to exist must be taken out.
"""
from __future__ import annotations

import json


import hybrid as mx
from hybrid import gluon, nd, np, npx, sym

from ..paths import DATA

NAMES: dict[str, list[str]] = {k: v.split()
                               for k, v in json.loads((DATA / "api_usage.json").read_text()).items()}
ROOTS = {"nd and sym operators": [nd, sym], "np": [np], "npx": [npx], "gluon": [gluon], "gluon.nn": [gluon.nn],
         "gluon.loss": [gluon.loss],
         "gluon.rnn": [gluon.rnn], "gluon.data": [gluon], "gluon.contrib": [gluon.contrib],
         "gluon.utils": [gluon.utils], "optimizer": [mx.optimizer],
         "metric": [mx.metric], "init": [mx.init], "lr_scheduler": [mx.lr_scheduler], "autograd": [mx.autograd],
         "mx": [mx],
         "model_zoo": [gluon.model_zoo.vision, gluon.model_zoo.model_store, dict],
         "methods on F-values in hybrid_forward": [nd.NDArray, sym.Symbol]}
# where the methods of "methods anywhere" may live
OWNERS = [nd.NDArray, sym.Symbol, gluon.Block, gluon.HybridBlock, gluon.Parameter, gluon.ParameterDict, gluon.Trainer,
          gluon.nn.HybridSequential, gluon.SymbolBlock,
          gluon.rnn.LSTMCell, gluon.rnn.LSTM, gluon.data.ArrayDataset, gluon.nn.BatchNorm, mx.metric.Accuracy,
          mx.operator.CustomOp, mx.init.Initializer, mx.init.Load,
          dict, list, str, set, np, nd, np.random, nd.random, mx.io.NDArrayIter, mx.optimizer.SGD,
          mx.executor.Executor, gluon.rnn.DropoutCell, mx.optimizer,
          gluon.nn.Activation, mx.mod.Module]

_STORE = "one process and one device: a Trainer needs no store"
MISSING: dict[str, str] = {
    **dict.fromkeys(["sym.NDArray", "sym.waitall", "nd.var", "nd.Symbol", "nd.Variable", "nd.Group",
                     "sym.sparse.csr_matrix"], "MXNet has it in the other of nd and sym alone"),
    "sym.save": "MXNet has it in nd; a Symbol has a method",
    **dict.fromkeys(["method.push", "method.pull", "method.rank", "method.init"], _STORE),
    "method.act": "the user's own classes define it",
    "library.load": "loads compiled extensions of MXNet's own engine",
}


def has(root: object, dotted: str) -> bool:
    for part in dotted.split("."):
        try:
            root = getattr(root, part)
        except (AttributeError, ModuleNotFoundError):
            return False
    return True


def missing() -> set[str]:
    found = set()
    for family, roots in ROOTS.items():
        for name in NAMES[family]:
            if family == "model_zoo":
                if not any(has(r, name) for r in roots):
                    found.add(f"model_zoo.{name}")
                continue
            for root in roots:
                if not has(root, name):
                    found.add(f"{root.__name__.removeprefix('hybrid.').replace('ndarray', 'nd').replace('symbol', 'sym')}.{name}".removeprefix("hybrid."))  # noqa: E501
    found |= {f"method.{n}" for n in NAMES["methods anywhere"] if not any(has(owner, n) for owner in OWNERS)}
    return found


def test_names_that_real_code_uses_exist():
    absent = missing()
    assert sorted(absent - set(MISSING)) == []
    assert sorted(set(MISSING) - absent) == [], "these exist by now: take them out of MISSING"
