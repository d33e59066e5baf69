"""What ``help`` says of an operator comes from the registry."""
from __future__ import annotations

import re
from pathlib import Path

from hybrid import nd, np
from hybrid.ops import registry
from hybrid.ops.documentation import document

ROOT = Path(__file__).resolve().parent.parent


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


def test_every_operator_says_what_it_computes() -> None:
    silent = {f"{space}.{name}" for space in ("nd", "np", "npx") for name, d in registry.namespace(space).items()
              if not d.__doc__}
    assert not silent


def test_functions_of_np_say_their_own_parameters() -> None:
    assert "\nx: an array" in np.arctan.__doc__ and "\narrays: a list of arrays" in np.concatenate.__doc__


def test_files_that_pages_name_are_there() -> None:
    """A path that a page names lies in the repository, or in the package."""
    named = re.compile(r"`((?:[a-z_]+/)+[A-Za-z0-9_.-]+\.(?:py|c|h|cuh|txt|md|json))`")
    pages = [p for p in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")) if "api" not in p.parts
             and p.name != "CHANGELOG.md"]
    missing = [(page.name, path) for page in pages for path in named.findall(page.read_text(encoding="utf-8"))
               if not any((ROOT / place / path).exists() for place in (".", "hybrid", "docs", "kernels"))]
    assert not missing
