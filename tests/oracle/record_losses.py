"""Losses as MXNet 1.9.1 computes them. Recorded by ``MXNET_MKLDNN_ENABLED=0 ORACLE_PYTHON
tests/oracle/record_losses.py``.

The cases and the values of inputs are made here for both libraries; only results are stored, in data/losses.npz: for
each case and dtype the loss and the gradients of all inputs, the repr, and the operators of its symbol in graph order.
"""
from __future__ import annotations

import json
import pathlib

import numpy as np

S = (4, 3)
N = "normal"
# loss, its inputs: (kind, shape)
CASES = {
    "l2": ("L2Loss()", [(N, S), (N, S)]),
    "l2_weights": ("L2Loss(weight=0.7)", [(N, S), (N, S), ("unit", (4, 1))]),
    "l2_reshaped": ("L2Loss()", [(N, (6,)), (N, (6, 1))]),
    "l2_batch_axis": ("L2Loss(batch_axis=1)", [(N, (4, 3, 2)), (N, (4, 3, 2))]),
    "l1": ("L1Loss()", [(N, S), (N, S)]),
    "l1_weights": ("L1Loss(weight=2, batch_axis=1)", [(N, S), (N, S), ("unit", S)]),
    "bce": ("SigmoidBinaryCrossEntropyLoss()", [(N, S), ("unit", S)]),
    "bce_far": ("SigmoidBCELoss(weight=3)", [("far", S), ("bit", S), ("unit", (4, 1))]),
    "bce_pos": ("SigmoidBCELoss()", [(N, S), ("bit", S), ("unit", (4, 1)), ("unit", (1, 3))]),
    "bce_from": ("SigmoidBCELoss(from_sigmoid=True)", [("unit", S), ("bit", S)]),
    "bce_from_pos": ("SigmoidBCELoss(from_sigmoid=True, weight=0.5)",
                     [("unit", S), ("bit", S), ("unit", (4, 1)), ("unit", (1, 3))]),
    "softmax": ("SoftmaxCrossEntropyLoss()", [(N, S), ("class", (4,))]),
    "softmax_column": ("SoftmaxCELoss()", [(N, S), ("class", (4, 1))]),
    "softmax_far": ("SoftmaxCELoss(weight=0.3)", [("far", S), ("class", (4,)), ("unit", (4, 1))]),
    "softmax_range": ("SoftmaxCELoss()", [(N, S), ("beyond", (4,))]),
    "softmax_axis": ("SoftmaxCELoss(axis=1)", [(N, (2, 3, 4)), ("class", (2, 4))]),
    "softmax_axis_weights": ("SoftmaxCELoss(axis=1, batch_axis=2)",
                             [(N, (2, 3, 4)), ("class", (2, 4)), ("unit", (2, 1, 4))]),
    "softmax_dense": ("SoftmaxCELoss(sparse_label=False)", [(N, S), ("unit", S)]),
    "softmax_dense_axis": ("SoftmaxCELoss(axis=1, sparse_label=False, weight=2)",
                           [(N, (2, 3, 4)), ("unit", (2, 3, 4))]),
    "softmax_logits": ("SoftmaxCELoss(from_logits=True)", [("log", S), ("class", (4,))]),
    "softmax_logits_dense": ("SoftmaxCELoss(from_logits=True, sparse_label=False)", [("log", S), ("unit", S)]),
    "kl": ("KLDivLoss()", [("log", S), ("unit", S)]),
    "kl_scores": ("KLDivLoss(from_logits=False, weight=0.5)", [(N, S), ("unit", S), ("unit", (4, 1))]),
    "kl_axis": ("KLDivLoss(from_logits=False, axis=1, batch_axis=1)", [(N, (2, 3, 4)), ("unit", (2, 3, 4))]),
    "huber": ("HuberLoss()", [("wide", S), ("wide", S)]),
    "huber_rho": ("HuberLoss(rho=0.3, weight=2)", [(N, S), (N, S), ("unit", (4, 1))]),
    "hinge": ("HingeLoss()", [("wide", S), ("sign", S)]),
    "hinge_margin": ("HingeLoss(margin=2, weight=0.5)", [("wide", S), ("sign", S), ("unit", (4, 1))]),
    "squared_hinge": ("SquaredHingeLoss(margin=0.5)", [("wide", S), ("sign", S)]),
    "logistic": ("LogisticLoss()", [("wide", S), ("sign", S)]),
    "logistic_binary": ("LogisticLoss(label_format='binary', weight=2)", [("far", S), ("bit", S), ("unit", (4, 1))]),
    "triplet": ("TripletLoss()", [(N, S), (N, S), (N, S)]),
    "triplet_margin": ("TripletLoss(margin=6, weight=0.1)", [(N, S), ("wide", S), (N, S)]),
    "poisson": ("PoissonNLLLoss()", [(N, S), ("count", S)]),
    "poisson_rates": ("PoissonNLLLoss(from_logits=False, weight=2)", [("unit", S), ("count", S), ("unit", (4, 1))]),
    "poisson_full": ("PoissonNLLLoss(compute_full=True)", [(N, S), ("counts", S)]),
    "cosine": ("CosineEmbeddingLoss()", [(N, S), (N, S), ("sign", (4,))]),
    "cosine_margin": ("CosineEmbeddingLoss(margin=0.2, weight=3)",
                      [(N, S), (N, S), ("sign", (4, 1)), ("unit", (4, 1))]),
    "sdml": ("SDMLLoss()", [(N, S), (N, S)]),
    "sdml_smooth": ("SDMLLoss(smoothing_parameter=0.1)", [(N, (2, 5)), (N, (2, 5))]),
    "ctc": ("CTCLoss()", [(N, (2, 6, 5)), ("label", (2, 3))]),
    "ctc_layouts": ("CTCLoss(layout='TNC', label_layout='TN', weight=2)", [(N, (6, 2, 5)), ("label_t", (2, 3))]),
    "ctc_lengths": ("CTCLoss()", [(N, (2, 7, 5)), ("label", (2, 3)), ("lengths", (7, 5)), ("lengths", (2, 1))]),
    "ctc_label_lengths": ("CTCLoss()", [(N, (2, 7, 5)), ("label", (2, 3)), None, ("lengths", (2, 3))]),
    "ctc_repeated": ("CTCLoss()", [("wide", (3, 8, 4)), ("repeated", (3, 4))]),
    "ctc_impossible": ("CTCLoss()", [(N, (2, 4, 4)), ("repeated", (2, 4))]),
    "ctc_empty": ("CTCLoss()", [(N, (2, 3, 4)), ("none", (2, 2))]),
}
# MXNet makes float32 constants inside of these, so it cannot compute them in float64
ONLY_FLOAT32 = ("cosine", "cosine_margin", "sdml", "sdml_smooth")
DTYPES = ("float32", "float64")
STORED = pathlib.Path(__file__).resolve().parent.parent / "data" / "losses.npz"


def values(case: str, dtype: str) -> list:
    """The inputs of a case."""
    rng = np.random.RandomState(sum(map(ord, case)))
    return [None if given is None else make(rng, *given).astype(dtype) for given in CASES[case][1]]


def make(rng: np.random.RandomState, kind: str, shape: tuple) -> np.ndarray:
    """Values of a kind."""
    made = {"normal": lambda: rng.normal(size=shape), "wide": lambda: 2 * rng.normal(size=shape),
            "far": lambda: 40 * rng.normal(size=shape),
            "unit": lambda: rng.uniform(0.1, 0.9, shape), "bit": lambda: rng.randint(0, 2, shape),
            "sign": lambda: 2 * rng.randint(0, 2, shape) - 1,
            "class": lambda: rng.randint(0, 3, shape), "beyond": lambda: np.array([-1, 0, 2, 7]),
            "count": lambda: rng.randint(0, 5, shape),
            "counts": lambda: rng.randint(1, 5, shape),
            "log": lambda: np.log(rng.dirichlet(np.ones(shape[-1]), shape[:-1])),
            "label": lambda: np.array([[1, 0, -1], [2, 3, 1]]), "label_t": lambda: np.array([[1, 0, -1], [2, 3, 1]]).T,
            "lengths": lambda: np.array(shape),
            "repeated": lambda: np.array([[1, 1, 2, -1], [0, 0, 0, -1], [2, 1, -1, -1]])[:shape[0]],
            "none": lambda: np.array([[-1, -1], [1, -1]])}
    return made[kind]()


def build(mx, case: str, dtype: str) -> tuple:
    """The loss and its inputs."""
    loss = eval(f"mx.gluon.loss.{CASES[case][0]}", {"mx": mx})
    return loss, [None if v is None else mx.nd.array(v, dtype=dtype) for v in values(case, dtype)]


def run(mx, case: str, dtype: str, hybridized: bool = False) -> dict:
    """Loss and gradients of all inputs."""
    loss, xs = build(mx, case, dtype)
    if hybridized:
        loss.hybridize()
    for x in xs:
        if x is not None:
            x.attach_grad()
    with mx.autograd.record():
        y = loss(*xs)
    y.backward()
    return {"value": y.asnumpy(), **{f"grad{i}": x.grad.asnumpy() for i, x in enumerate(xs) if x is not None}}


def graph(mx, case: str) -> list:
    """Operators of the loss's symbol in graph order."""
    loss = eval(f"mx.gluon.loss.{CASES[case][0]}", {"mx": mx})
    xs = [None if v is None else mx.sym.var(f"x{i}") for i, v in enumerate(CASES[case][1])]
    nodes = json.loads(loss(*xs).tojson())["nodes"]
    return [n["op"] for n in nodes]


def unwritten(case: str, what: str) -> bool:
    """MXNet's CTCLoss leaves the gradients of labels and lengths, and that of a label that does not fit, as the memory
    was."""
    return case.startswith("ctc") and what not in ("value", "grad0") or case == "ctc_impossible" and what == "grad0"


def record() -> None:
    """Ask MXNet."""
    import mxnet as mx
    got, reprs, graphs = {}, {}, {}
    for case in CASES:
        for dtype in DTYPES:
            if dtype == "float64" and case in ONLY_FLOAT32:
                continue
            try:
                found = run(mx, case, dtype)
            except Exception as err:
                print("not recorded:", case, dtype, str(err).strip().split("\n")[-1][:150])
                # MXNet changes a recorded array there; without gradients it works
                if case == "poisson_full":
                    loss, xs = build(mx, case, dtype)
                    got[f"{case}|{dtype}|value"] = loss(*xs).asnumpy()
                continue
            got.update({f"{case}|{dtype}|{k}": v for k, v in found.items() if not unwritten(case, k)})
        reprs[case] = repr(build(mx, case, "float32")[0])
        try:
            graphs[case] = graph(mx, case)
        except Exception as err:
            print("no symbol:", case, str(err).strip().split("\n")[-1][:150])
    write(got, {"reprs": reprs, "graphs": graphs})


def write(arrays: dict, more: dict) -> None:
    """All arrays end to end in one, with an index: an entry of its own for each would cost more than its numbers."""
    index, at = {}, 0
    for k, v in arrays.items():
        index[k] = [at, v.shape, str(v.dtype)]
        at += v.size
    flat = np.concatenate([v.reshape(-1).astype("float64") for v in arrays.values()])
    np.savez_compressed(STORED, values=flat, index=json.dumps({"arrays": index, **more}))


def read() -> tuple:
    """What ``write`` wrote: arrays by name, and the rest."""
    with np.load(STORED) as f:
        flat, more = f["values"], json.loads(str(f["index"]))
    arrays = {k: flat[at:at + int(np.prod(shape))].reshape(shape).astype(dtype)
              for k, (at, shape, dtype) in more.pop("arrays").items()}
    return arrays, more


if __name__ == "__main__":
    record()
