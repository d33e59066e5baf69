"""Names of operators' outputs where they are not ``output``, or ``output0``, ``output1``, … for several: MXNet's, which
files and ``get_internals()["name_output"]`` use."""
from __future__ import annotations

# they register the operators
from . import boxes, ctc, decompose, multibox, norm, order, output, proposal, rnn, shape, various  # noqa: F401
from .attributes import Attrs
from .registry import OPS

NAMES: dict[str, tuple[str, ...]] = {
    "BatchNorm": ("output", "mean", "var"), "_contrib_BatchNormWithReLU": ("output", "mean", "var"),
    "LayerNorm": ("output", "mean", "std"), "GroupNorm": ("output", "mean", "std"), "make_loss": ("loss",),
    "_contrib_Proposal": ("output", "score"), "_contrib_MultiProposal": ("output", "score"),
    "_contrib_hawkesll": ("output", "out_state"),
    "_contrib_MultiBoxTarget": ("loc_target", "loc_mask", "cls_target"),
    "RNN": ("output", "state_output", "statecell_output"),
}
# one output here, several in MXNet, of which the user sees the first
HIDDEN = ("sort", "SliceChannel", "_contrib_box_nms", "_linalg_det", "_npi_det", "_npi_norm", "CTCLoss")


def _numbered_topk(a: Attrs) -> bool:
    return a.ret_typ in ("value", "both")


for _name, _words in NAMES.items():
    OPS[_name].output_names = _words
for _name in HIDDEN:
    OPS[_name].numbered = lambda a: True
OPS["topk"].numbered = _numbered_topk
