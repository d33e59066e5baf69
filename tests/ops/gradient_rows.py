"""The rows whose gradients test_ops_gradients.py checks: those of op_cases_tensor.py and those recorded from MXNet.

A row is an operator as a program in float64 with its inputs. Rows without a gradient are left out for a reason that is
stated here: the operator is listed in NO_GRADIENT, no input is a float, or no output is.
"""
from __future__ import annotations

import importlib
import json
import pkgutil
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Iterator

import numpy as np

from hybrid import ir, ops
from hybrid.base import dtype as dt
from hybrid.ir.access import MOVEMENT
from hybrid.ops import registry
from hybrid.passes.differentiate import vjp_program

from .op_cases_gradient import MORE
from .op_cases_index import CASES
from ..packed_arrays import load
from ..paths import TESTS

for _module in pkgutil.iter_modules(ops.__path__):      # each registers its operators
    importlib.import_module(f"hybrid.ops.{_module.name}")

ORACLE = TESTS / "oracle"
# recorded rows that take minutes to differentiate twice; op_cases_gradient.py has short ones
LONG = {"RNN"}
FRONTENDS = {"split_v2"}                # functions of nd that rename attributes before they call the operator


@dataclass(frozen=True)
class Row:
    """An operator's call in float64. ``special``: its gradient is MXNet's own and not the derivative of the value."""
    name: str
    program: ir.Program
    inputs: tuple[np.ndarray, ...]
    special: bool
    fixed: frozenset[int]
    tol: float                          # of compiled programs; random draws are float32
    op: registry.OpDef                  # with ``attrs``, what a user calls
    attrs: dict[str, Any]
    train: bool

    @cached_property
    def wrt(self) -> tuple[int, ...]:
        """Inputs that gradients are taken of: floats that the outputs depend on, not as indices and not as running
        statistics."""
        order = ir.toposort(self.program.outputs)
        used = ir.node.users(order)
        return tuple(k for k, leaf in enumerate(self.program.inputs)
                     if dt.is_float(leaf.dtype) and leaf in used and k not in self.fixed
                     and not _index_only(leaf, used))

    @cached_property
    def heads(self) -> list[np.ndarray]:
        """What comes from above, for each output."""
        rng = np.random.default_rng(3)
        return [rng.uniform(0.5, 1.5, n.shape).astype(n.dtype) for n in self.program.outputs]

    @cached_property
    def backward(self) -> ir.Program:
        """Gradients of ``wrt`` from the inputs and the heads."""
        return vjp_program(self.program, self.wrt)

    @cached_property
    def seeds(self) -> list[np.ndarray]:
        """What comes from above for each gradient, when the backward program is differentiated."""
        rng = np.random.default_rng(4)
        return [rng.uniform(0.5, 1.5, n.shape).astype(n.dtype) for n in self.backward.outputs]

    @cached_property
    def wrt_again(self) -> tuple[int, ...]:
        """Inputs of the backward program that second derivatives are taken of: those of ``wrt`` and float heads."""
        n = len(self.program.inputs)
        return self.wrt + tuple(n + k for k, o in enumerate(self.program.outputs) if dt.is_float(o.dtype))

    @cached_property
    def twice(self) -> ir.Program:
        """Gradients of the gradients."""
        return vjp_program(self.backward, self.wrt_again)


def _index_only(x: ir.Node, used: dict[ir.Node, list[ir.Node]]) -> bool:
    """Whether a float is only ever rounded to an index."""
    return bool(used[x]) and all(u.prim == "cast" and not dt.is_float(u.dtype) or u.prim in MOVEMENT
                                 and _index_only(u, used) or
               u.prim == "with_grad" and u.args[0] is not x and u.attrs["name"] in INDEX_LABELS for u in used[x])


DETACHED = {"_contrib_ROIAlign": ("rois",), "_contrib_RROIAlign": ("rois",), "ROIPooling": ("rois",),
            "_contrib_PSROIPooling": ("rois",),
            "_contrib_DeformablePSROIPooling": ("rois",),
            "_random_pdf_poisson": ("sample",), "_random_pdf_negative_binomial": ("sample",),
            "_random_pdf_generalized_negative_binomial": ("sample",)}        # MXNet gives these no gradient
INDEX_LABELS = {"SoftmaxOutput", "SVMOutput"}       # their labels are class numbers in floats


def _row(name: str, d: registry.OpDef, attrs: dict[str, Any], inputs: Any, train: bool) -> Row:
    xs = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in inputs]
    given = {**attrs, **({d.arity_attr: len(xs)} if d.arity_attr and d.arity_attr not in attrs else {})}
    given = {k: "float64" if k in ("dtype", "out_dtype") and str(v).startswith("float") else v
             for k, v in given.items()}
    missing = [] if d.variadic else [None] * (len(d.inputs) - len(xs))
    if d.name.startswith("_sample_"):
        given.setdefault("dtype", "float64")                 # else the draws are float32
    a = d.parse(given)
    program = d.program([x.shape for x in xs] + missing, [x.dtype for x in xs] + missing, a, train)
    keys = [np.array([5, 7], np.uint32)] * (len(program.inputs) - len(xs))
    return Row(name, program, tuple(xs + keys), d.name in SPECIAL,
               frozenset(k for k, n in enumerate(d.inputs) if n in d.aux or n in DETACHED.get(d.name, ())),
               1e-6 if keys else 1e-8, d, given, train)


def cut_row(row: Row, inputs: Any) -> Row:
    """The same call with other inputs."""
    return _row(row.name, row.op, row.attrs, inputs, row.train)


def rows() -> Iterator[tuple[registry.OpDef, Row]]:
    """All rows that have a gradient, each (operator, attributes, shapes) once."""
    table = json.loads((ORACLE / "ops.json").read_text())
    arrays = load(ORACLE / "ops.npz")
    known = registry.namespace("nd")
    found: list[tuple[registry.OpDef, dict[str, Any], Any, bool]] = []
    for c in [*CASES, *MORE]:
        if c.grad:
            found.append((registry.find(c.name), c.attrs, c.inputs, c.train))
    for k, line in enumerate(table):
        if line and line["grads"] and line["op"] in known and line["op"] not in FRONTENDS | LONG:
            if not all(np.isfinite(arrays[f"{k}.grad{i}"]).all() for i in line["grads"]):
                continue                                # infinitely steep there
            attrs = {key: tuple(v) if isinstance(v, list) else v for key, v in line["attrs"].items()}
            found.append((known[line["op"]], attrs, [arrays[f"{k}.in{i}"] for i in range(line["inputs"])],
                          line.get("train", False)))
    seen = set()
    for d, attrs, inputs, train in found:
        key = (d.name, repr(attrs), tuple(x.shape for x in inputs), tuple(x.dtype.kind for x in inputs), train)
        if key in seen or d.name in NO_GRADIENT or not any(x.dtype.kind == "f" and x.size for x in inputs):
            continue
        seen.add(key)
        row = _row(d.name, d, attrs, inputs, train)
        if row.wrt and any(dt.is_float(o.dtype) for o in row.program.outputs):
            yield d, row


# MXNet defines the gradient of these, and it is not the derivative: the recorded rows of tests/oracle check it
SPECIAL = {
    "SoftmaxOutput", "LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput", "MakeLoss",
    "make_loss", "SVMOutput", "BlockGrad",
}

def _names(text: str, reason: str) -> dict[str, str]:
    return dict.fromkeys(text.split(), reason)


_COMPARED = "equal not_equal greater greater_equal less less_equal logical_and logical_or logical_xor".split()
_DISTRIBUTIONS = "gamma poisson negative_binomial generalized_negative_binomial".split()
_BITS = "bitwise_and bitwise_or bitwise_xor left_shift right_shift".split()

# No gradient flows through these, and why
NO_GRADIENT: dict[str, str] = {
    **_names("sign floor ceil rint round fix trunc _npi_around _npi_rint _npi_sign", "piecewise constant"),
    **_names("shape_array size_array", "depends on the shape alone"),
    **_names(" ".join(f"_contrib_{n}" for n in (
        "dequantize quantize quantize_v2 requantize quantized_act quantized_concat quantized_conv "
        "quantized_elemwise_add quantized_flatten quantized_fully_connected quantized_pooling").split()),
             "numbers of 8 bits"),
    **_names("zeros_like ones_like _full_like _contrib_arange_like", "a constant of the input's shape"),
    **_names("_npi_svd _npi_eig _npi_eigvals _npi_pinv _npi_pinv_scalar_rcond",
             "a call of the array library, checked in test_np_gradients.py"),
    **_names("_linalg_potrf",
             "one triangle is read and both halves share the gradient, as MXNet's recorded rows check"),
    **_names("_npi_diag_indices_from _npi_share_memory _npi_full_like", "a constant of the input's shape"),
    **_names("_npi_where_scalar2", "its input is a condition"),
    **_names("_npi_hanning _npi_hamming _npi_blackman", "no input"),
    **_names("_npi_uniform _npi_normal", "drawn in float32, checked in test_np_gradients.py"),
    **_names("_npi_lcm _npi_lcm_scalar", "integers"),
    **_names("_zeros _ones _full _arange _linspace _eye _npi_identity _npi_indices _npi_logspace", "no input"),
    **_names("_random_uniform _random_normal _random_exponential _random_randint _random_bernoulli",
             "no input but the key"),
    **{f"_random_{n}": "no input but the key" for n in _DISTRIBUTIONS},
    **{f"_random_{n}_like": "the input gives its shape alone" for n in _DISTRIBUTIONS},
    **{f"_sample_{n}": "accepted or refused: no path from the parameters" for n in _DISTRIBUTIONS},
    **_names("_random_uniform_like _random_normal_like _random_exponential_like", "the input gives its shape alone"),
    **_names("_contrib_bipartite_matching argmax argmin argmax_channel _npi_argmax _npi_argmin argsort _npi_argsort "
             "one_hot _ravel_multi_index _unravel_index", "indices"),
    **_names("_np_all _np_any _npi_isnan _npi_isinf _npi_isfinite _npi_isposinf _npi_isneginf _npi_logical_not",
             "a truth value"),
    **_names("_contrib_isnan _contrib_isinf _contrib_isfinite", "a truth value"),
    **{f"_npi_{n}{kind}": "a truth value" for n in _COMPARED for kind in ("", "_scalar")},
    **{f"_npi_{n}{kind}": "integers alone" for n in _BITS for kind in ("", "_scalar")},
    **_names("_npi_floor_divide _npi_floor_divide_scalar _npi_rfloor_divide_scalar", "piecewise constant"),
    **_names("_image_to_tensor", "its result is float32, too coarse for differences; a quotient by 255"),
    **_names("Custom", "Python code of the user's own; test_custom.py checks how gradients pass through it"),
    **_names("_contrib_MultiBoxPrior _contrib_index_array", "depends on the shape alone"),
    **_names("_contrib_MultiBoxTarget _contrib_MultiBoxDetection _contrib_box_iou _contrib_box_encode "
             "_contrib_box_decode", "as in MXNet no gradient flows through them"),
    **_names("_npi_bitwise_not _npi_rleft_shift_scalar _npi_rright_shift_scalar", "integers alone"),
    **_names("_adamw_update _contrib_group_adagrad_update _mp_adamw_update _multi_adamw_update _multi_lamb_update",
             "an optimizer's update"),
    **_names("_multi_mp_adamw_update _multi_mp_lamb_update adam_update ftml_update ftrl_update lamb_update_phase1 "
             "lamb_update_phase2", "an optimizer's update"),
    **_names("mp_lamb_update_phase1 mp_lamb_update_phase2 mp_nag_mom_update mp_sgd_mom_update mp_sgd_update "
             "multi_all_finite", "an optimizer's update"),
    **_names("multi_lars multi_mp_sgd_mom_update multi_mp_sgd_update multi_sgd_mom_update multi_sgd_update "
             "multi_sum_sq nag_mom_update", "an optimizer's update"),
    **_names("preloaded_multi_mp_sgd_mom_update preloaded_multi_mp_sgd_update preloaded_multi_sgd_mom_update",
             "an optimizer's update"),
    **_names("preloaded_multi_sgd_update reset_arrays rmsprop_update rmspropalex_update sgd_mom_update sgd_update "
             "signsgd_update", "an optimizer's update"),
    **_names("signum_update", "an optimizer's update"),
    **_names("_contrib_allclose _histogram all_finite", "a truth value or counts"),
    **_names("_contrib_Proposal _contrib_MultiProposal _onehot_encode", "as in MXNet no gradient flows through them"),
    **_names("IdentityAttachKLSparseReg _contrib_gradientmultiplier _contrib_round_ste _contrib_sign_ste",
             "a gradient of its own, which is not the derivative: test_operator_lines.py has MXNet's"),
}
