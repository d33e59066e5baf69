"""What ``help`` says of an operator comes from the registry."""
from __future__ import annotations

from hybrid import nd
from hybrid.ops import registry
from hybrid.ops.documentation import document


def test_help_of_a_convolution_tells_what_it_takes() -> None:
    text = nd.Convolution.__doc__
    for part in ("data: an array", "bias: an array; may be left out", "num_filter: an integer; it must be given",
                 "no_bias: True or False; False unless given", ">>> nd.Convolution("):
        assert part in text


def test_every_operator_says_its_arrays_and_attributes() -> None:
    for name, d in registry.namespace("nd").items():
        text = document(d, name)
        assert all(f"{n}: " in text for n in (*d.inputs, *d.attrs)), name
        assert "\nResult\n" in text
