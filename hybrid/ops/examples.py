"""Examples in the docstrings of operators, by the operator's name: lines of a doctest in which ``nd`` is imported."""
from __future__ import annotations


def _row(call: str, answer: str) -> list[str]:
    return [f">>> {call}", *answer.splitlines()]


def _values(call: str, answer: str) -> list[str]:
    return _row(f"{call}.asnumpy().tolist()", answer)


_X = "nd.array([[1, 2], [3, 4]])"
EXAMPLES: dict[str, list[str]] = {
    "Convolution": _row("nd.Convolution(nd.ones((1, 3, 8, 8)), nd.ones((4, 3, 3, 3)), nd.zeros(4), kernel=(3, 3), "
                        "num_filter=4).shape", "(1, 4, 6, 6)"),
    "Deconvolution": _row("nd.Deconvolution(nd.ones((1, 4, 6, 6)), nd.ones((4, 3, 3, 3)), kernel=(3, 3), "
                          "num_filter=3).shape", "(1, 3, 8, 8)"),
    "FullyConnected": _values("nd.FullyConnected(nd.ones((1, 3)), nd.ones((2, 3)), nd.zeros(2), num_hidden=2)",
                              "[[3.0, 3.0]]"),
    "Pooling": _values("nd.Pooling(nd.arange(16).reshape((1, 1, 4, 4)), kernel=(2, 2), stride=(2, 2), "
                       "pool_type='max')", "[[[[5.0, 7.0], [13.0, 15.0]]]]"),
    "Activation": _values("nd.Activation(nd.array([-1, 2]), act_type='relu')", "[0.0, 2.0]"),
    "Embedding": _values("nd.Embedding(nd.array([1, 0]), nd.array([[1, 2], [3, 4]]), input_dim=2, output_dim=2)",
                         "[[3.0, 4.0], [1.0, 2.0]]"),
    "softmax": _values("nd.softmax(nd.zeros((1, 4)), axis=1)", "[[0.25, 0.25, 0.25, 0.25]]"),
    "relu": _values("nd.relu(nd.array([-1, 0, 2]))", "[0.0, 0.0, 2.0]"),
    "sum": _values(f"nd.sum({_X}, axis=1)", "[3.0, 7.0]"),
    "mean": _values(f"nd.mean({_X}, axis=0)", "[2.0, 3.0]"),
    "max": _values(f"nd.max({_X}, axis=1)", "[2.0, 4.0]"),
    "min": _values(f"nd.min({_X}, axis=1)", "[1.0, 3.0]"),
    "prod": _values(f"nd.prod({_X}, axis=1)", "[2.0, 12.0]"),
    "argmax": _values(f"nd.argmax({_X}, axis=1)", "[1.0, 1.0]"),
    "argsort": _values("nd.argsort(nd.array([3, 1, 2]))", "[1.0, 2.0, 0.0]"),
    "sort": _values("nd.sort(nd.array([3, 1, 2]), is_ascend=False)", "[3.0, 2.0, 1.0]"),
    "topk": _values("nd.topk(nd.array([3, 1, 2]), k=2)", "[0.0, 2.0]"),
    "dot": _values(f"nd.dot({_X}, {_X})", "[[7.0, 10.0], [15.0, 22.0]]"),
    "batch_dot": _row("nd.batch_dot(nd.ones((5, 2, 3)), nd.ones((5, 3, 4))).shape", "(5, 2, 4)"),
    "Concat": _values("nd.concat(nd.array([1, 2]), nd.array([3]), dim=0)", "[1.0, 2.0, 3.0]"),
    "stack": _values("nd.stack(nd.array([1, 2]), nd.array([3, 4]), axis=1)", "[[1.0, 3.0], [2.0, 4.0]]"),
    "SliceChannel": _row("[part.shape for part in nd.split(nd.ones((2, 4)), num_outputs=2)]", "[(2, 2), (2, 2)]"),
    "Reshape": _row("nd.reshape(nd.ones((2, 3, 4)), shape=(0, -1)).shape", "(2, 12)"),
    "transpose": _row("nd.transpose(nd.ones((2, 3, 4)), axes=(2, 0, 1)).shape", "(4, 2, 3)"),
    "expand_dims": _row("nd.expand_dims(nd.ones((2, 3)), axis=1).shape", "(2, 1, 3)"),
    "squeeze": _row("nd.squeeze(nd.ones((2, 1, 3))).shape", "(2, 3)"),
    "Flatten": _row("nd.flatten(nd.ones((2, 3, 4))).shape", "(2, 12)"),
    "tile": _values("nd.tile(nd.array([1, 2]), reps=(2,))", "[1.0, 2.0, 1.0, 2.0]"),
    "repeat": _values("nd.repeat(nd.array([1, 2]), repeats=2)", "[1.0, 1.0, 2.0, 2.0]"),
    "clip": _values("nd.clip(nd.array([-1, 0.5, 2]), a_min=0, a_max=1)", "[0.0, 0.5, 1.0]"),
    "where": _values("nd.where(nd.array([1, 0]), nd.array([1, 2]), nd.array([3, 4]))", "[1.0, 4.0]"),
    "take": _values(f"nd.take({_X}, nd.array([1, 0]))", "[[3.0, 4.0], [1.0, 2.0]]"),
    "pick": _values(f"nd.pick({_X}, nd.array([0, 1]))", "[1.0, 4.0]"),
    "one_hot": _values("nd.one_hot(nd.array([1, 0]), depth=2)", "[[0.0, 1.0], [1.0, 0.0]]"),
    "slice": _values(f"nd.slice({_X}, begin=(0, 1), end=(2, 2))", "[[2.0], [4.0]]"),
    "slice_axis": _values(f"nd.slice_axis({_X}, axis=0, begin=1, end=2)", "[[3.0, 4.0]]"),
    "broadcast_to": _values("nd.broadcast_to(nd.array([[1], [2]]), shape=(2, 2))", "[[1.0, 1.0], [2.0, 2.0]]"),
    "broadcast_add": _values("nd.broadcast_add(nd.array([[1], [2]]), nd.array([[10, 20]]))",
                             "[[11.0, 21.0], [12.0, 22.0]]"),
    "cumsum": _values("nd.cumsum(nd.array([1, 2, 3]))", "[1.0, 3.0, 6.0]"),
    "RMSNorm": _values("nd.RMSNorm(nd.array([[3, 4, 0, 5]]), nd.ones((4,)) * 10).round()", "[[8.0, 11.0, 0.0, 14.0]]"),
    "norm": _values("nd.norm(nd.array([3, 4]))", "[5.0]"),
    "SequenceMask": _values("nd.SequenceMask(nd.ones((3, 2)), nd.array([1, 2]), use_sequence_length=True)",
                            "[[1.0, 1.0], [0.0, 1.0], [0.0, 0.0]]"),
}

__all__ = ["EXAMPLES"]
