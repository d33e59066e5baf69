"""What ``help`` says of an operator comes from the registry, and its examples run."""
from __future__ import annotations

import doctest

import pytest

from hybrid import nd
from hybrid.ops import registry
from hybrid.ops.documentation import document
from hybrid.ops.examples import EXAMPLES


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


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_of_an_operator_runs(name: str) -> None:
    text = document(registry.OPS[name], name)
    test = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    said: list[str] = []
    assert test.examples and not doctest.DocTestRunner().run(test, out=said.append).failed, "".join(said)
