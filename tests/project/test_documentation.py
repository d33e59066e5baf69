"""What ``help`` says of an operator comes from the registry."""
from __future__ import annotations

import inspect
import re
import runpy
from xml.etree import ElementTree

from hybrid import nd, np
from hybrid.gluon import Block, nn
from hybrid.ops import registry
from hybrid.ops.documentation import document

from ..paths import ROOT



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


def test_layers_say_their_parameters() -> None:
    """Each is named in the text, or in that of another layer which the text names; initializers tell what they are."""
    layers = {name: c for name, c in vars(nn).items() if isinstance(c, type) and issubclass(c, Block)}
    texts = {name: (c.__doc__ or "").split(">>>")[0] for name, c in layers.items()}
    silent = {}
    for name, c in layers.items():
        text = texts[name] + "".join(texts[other] for other in layers if re.search(rf"\b{other}\b", texts[name]))
        given = [p for p in inspect.signature(c).parameters if not p.endswith("_initializer")
                 and p not in ("prefix", "params", "args", "kwargs")]
        silent[name] = [p for p in given if not re.search(rf"\b{p}\b", text)]
    assert not {name: missing for name, missing in silent.items() if missing}


def test_drawings_of_the_pages_are_made() -> None:
    """Those that show a real plan, too."""
    drawings = runpy.run_path(str(ROOT / "docs" / "drawings.py"))
    for name in ("pipeline", "arena", "schedule"):
        assert ElementTree.fromstring(drawings[name]().svg()).tag.endswith("svg")


def test_nothing_is_installed_by_a_name_that_no_index_has() -> None:
    """hybrid is installed from a checkout; what it needs beside itself is named by its own packages."""
    texts = [p for folder in ("hybrid", "docs", "examples", "benchmarks") for p in (ROOT / folder).rglob("*.*")
             if p.suffix in (".py", ".md", ".ipynb")]
    wrong = re.compile(r"pip install[^`\n]*\bhybrid(ize)?\b(?!/)")
    assert not [str(p) for p in (*texts, ROOT / "README.md") if wrong.search(p.read_text(encoding="utf-8"))]


def test_files_that_pages_name_are_there() -> None:
    """A path that a page names lies in the repository, or in the package."""
    named = re.compile(r"`((?:[a-z_]+/)+[A-Za-z0-9_.-]+\.(?:py|c|h|cuh|txt|md|json))`")
    pages = [p for p in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")) if "api" not in p.parts
             and p.name != "CHANGELOG.md"]
    missing = [(page.name, path) for page in pages for path in named.findall(page.read_text(encoding="utf-8"))
               if not any((ROOT / place / path).exists() for place in (".", "hybrid", "docs", "kernels"))]
    assert not missing
