"""Writes the tutorials as Jupyter notebooks into `examples/notebooks`: `make notebooks`. Links to other pages become
links into `docs`, and no results are stored: the site shows them, and running a notebook makes them.
"""
from __future__ import annotations

import re
from pathlib import Path

import nbformat
from myst_nb.core.read import read_myst_markdown_notebook
from myst_parser.config.main import MdParserConfig

DOCS = Path(__file__).resolve().parent
TARGET = DOCS.parent / "examples" / "notebooks"
LINK = re.compile(r"\]\((?!https?:|#)([^)\s]+)\)")


def linked(text: str, page: Path) -> str:
    """The text of a page with its relative links changed to start from the notebooks' folder."""
    def changed(match: re.Match[str]) -> str:
        path, mark, anchor = match[1].partition("#")
        target = (page.parent / path).resolve().relative_to(DOCS.parent)
        return f"](../../{target.as_posix()}{mark}{anchor})"
    return LINK.sub(changed, text)


def notebook(page: Path) -> nbformat.NotebookNode:
    """The notebook of a tutorial. Cells are identified by their numbers: the same page gives the same file."""
    book = read_myst_markdown_notebook(page.read_text(encoding="utf-8"), MdParserConfig(), path=page)
    for number, cell in enumerate(book.cells):
        cell["id"] = f"cell-{number}"
        if cell.cell_type == "markdown":
            cell.source = linked(cell.source, page)
    book.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
                     "language_info": {"name": "python"}}
    book.nbformat, book.nbformat_minor = 4, 5
    nbformat.validate(book)
    return book


def main() -> None:
    """Write a notebook for every tutorial."""
    TARGET.mkdir(exist_ok=True)
    for page in sorted((DOCS / "tutorials").glob("*.md")):
        if page.stem != "index":
            nbformat.write(notebook(page), TARGET / f"{page.stem}.ipynb")


if __name__ == "__main__":
    main()
