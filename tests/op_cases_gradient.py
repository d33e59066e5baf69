"""Rows for the gradient checks alone: operators and modes that the tables of values do not differentiate."""
from __future__ import annotations

from typing import Any

import numpy as np

from .op_cases_tensor import Case, f, i

MORE: list[Case] = []


def case(name: str, inputs: Any, *, train: bool = False, **attrs: Any) -> None:
    """Add a row; it has no expected value."""
    MORE.append(Case(name, tuple(np.asarray(x) for x in inputs), lambda *xs: [], attrs, True, 0.0, train))


for _name in ("log_sigmoid", "mish", "softrelu"):
    case(_name, [f(2, 3)])
    case(_name, [np.array([-30.0, -1, 0, 1, 30])])
for _kind in ("log_sigmoid", "mish", "softsign"):
    case("Activation", [f(2, 3)], act_type=_kind)
case("LeakyReLU", [f(2, 3)], act_type="selu")
case("LeakyReLU", [np.array([-800.0, -1, 1, 800])], act_type="selu")
case("LeakyReLU", [f(2, 3)], act_type="rrelu", lower_bound=0.1, upper_bound=0.3)
case("LeakyReLU", [f(2, 3)], act_type="rrelu", lower_bound=0.1, upper_bound=0.3, train=True)
case("LeakyReLU", [f(2, 3, 2), f(3)], act_type="prelu")
case("Dropout", [f(3, 4)], p=0.4, train=True)
case("Dropout", [f(3, 4)], p=0.4, axes=(0,), train=True)
case("_sample_uniform", [f(3), f(3, low=2.5, high=4.0)], shape=(2,))
case("_sample_normal", [f(3), f(3, low=0.5)], shape=(2,))
case("_shuffle", [f(5, 2)])
case("amp_cast", [f(4)], dtype="float64")
case("amp_multicast", [f(2), f(3)], num_outputs=2)
case("_np_diag", [f(3)])
case("_np_diag", [f(3, 4)], k=1)
case("prod", [np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0], [1.5, 2.0, -1.0]])], axis=1)
case("_np_prod", [f(7, 3)], axis=0)
case("topk", [f(3, 5)], k=2, ret_typ="both", axis=0)
case("topk", [f(3, 5)], k=3, ret_typ="value", is_ascend=True, axis=None)
case("sort", [f(3, 5)], axis=0, is_ascend=False)
case("softmax", [f(3, 4), np.array([2, 4, 1], np.int32)], use_length=True)
case("log_softmax", [f(3, 4)], temperature=0.5)
case("UpSampling", [f(1, 2, 3, 3), f(1, 1, 6, 6)], scale=2, sample_type="nearest", num_args=2)
for _mode in ("size", "like", "to_even_up"):
    case("_contrib_BilinearResize2D", [f(1, 2, 3, 5)] + ([f(1, 1, 4, 7)] if _mode == "like" else []), mode=_mode, height=5, width=4, align_corners=False)
case("BatchNorm", [f(3, 2, 4), f(2, low=0.5), f(2), f(2), f(2, low=0.5)], fix_gamma=False, output_mean_var=True, train=True)
case("CTCLoss", [f(5, 2, 4), i(2, 2, low=1, high=4, dtype="float32")])
case("gamma", [np.array([-0.5, -1.7, 0.3, 4.2])])
case("gammaln", [np.array([-0.5, -1.7, 0.3, 4.2])])
