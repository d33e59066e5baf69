"""The API reference (docs/reference.py) has every public operator, layer, loss and optimizer, with shapes and dtypes;
the tutorials are notebooks whose cells parse. ``make docs`` builds the site, ``make check-all`` runs the tutorials."""
from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from hybrid import optimizer
from hybrid.gluon import loss, nn
from hybrid.ops import registry

from ..paths import ROOT

DOCS = ROOT / "docs"
TUTORIALS = [p for p in sorted((DOCS / "tutorials").glob("*.md")) if p.name != "index.md"]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The pages of the reference, by name."""
    folder = tmp_path_factory.mktemp("api")
    sys.path.insert(0, str(DOCS))
    try:
        module: ModuleType = __import__("reference")
    finally:
        sys.path.remove(str(DOCS))
    module.write(folder)
    return {p.stem: p.read_text(encoding="utf-8") for p in folder.glob("*.rst")}


def test_every_public_name_is_documented_once(pages: dict[str, str]) -> None:
    text = "\n".join(pages.values())
    said = re.findall(r"^\.\. py:(?:function|class):: ([\w.]+)", text, re.M)
    operators = {d.name for space in ("nd", "np", "npx") for d in registry.namespace(space).values()
                 if d.fn.__module__.startswith("hybrid.ops.")}
    named = {registry.namespace(space)[name].name for space, _, name in (n.partition(".") for n in said)
             if space in ("nd", "np", "npx") and name in registry.namespace(space)}
    assert operators <= named, operators - named
    for room, module in (("nn", nn), ("loss", loss), ("optimizer", optimizer)):
        assert {f"{room}.{n}" for n in module.__all__ if isinstance(getattr(module, n), type)} <= set(said)
    assert len(said) == len(set(said)), sorted({n for n in said if said.count(n) > 1})


def test_operators_tell_parameters_shapes_dtypes_and_source(pages: dict[str, str]) -> None:
    entry = re.search(r"^\.\. py:function:: nd\.Convolution\(.*?(?=^\.\. py:function)",
                      pages["op-convolutions-and-pooling"], re.S | re.M)
    assert entry is not None
    for part in (":param bias: may be left out", ":param kernel: a tuple of integers",
                 ":param no\\_bias: True or False; default ``False``", ":Dtypes: float16, float32, float64",
                 "(1, 3, 8, 8) float32", "→ (1, 4, 6, 6) float32", ">>> nd.Convolution(", "``hybrid/ops/conv.py:"):
        assert part in entry[0], part
    text = "\n".join(pages.values())
    assert text.count(":Dtypes: ") > 350 and text.count(":Shapes: ") > 380


def test_pages_are_listed(pages: dict[str, str]) -> None:
    listed = set(re.findall(r"^   ([\w-]+)$", pages["index"], re.M))
    assert listed == set(pages) - {"index"}


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda p: p.stem)
def test_tutorials_are_notebooks_whose_cells_parse(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    cells = re.findall(r"^```\{code-cell\} ipython3\n(.*?)^```", text, re.S | re.M)
    assert text.startswith("---\nfile_format: mystnb\n") and len(cells) >= 4
    for cell in cells:
        ast.parse(cell)
    book = json.loads((DOCS.parent / "examples" / "notebooks" / f"{page.stem}.ipynb").read_text(encoding="utf-8"))
    of_book = ["".join(c["source"]) for c in book["cells"] if c["cell_type"] == "code"]
    assert of_book == [cell.rstrip("\n") for cell in cells], "make notebooks"
    assert page.stem in (DOCS / "tutorials" / "index.md").read_text(encoding="utf-8").split("```{toctree}")[1]
