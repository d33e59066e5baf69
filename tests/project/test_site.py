"""The documentation site in a browser, without a network: search finds pages, images load, nothing lies beyond the
window. ``make docs`` builds the site."""
from __future__ import annotations

from typing import Any, Iterator

import pytest

from .chromium import CHROMIUM, Chromium
from ..paths import ROOT

SITE = ROOT / "build" / "site"
pytestmark = [pytest.mark.thorough, pytest.mark.skipif(
    CHROMIUM is None or not (SITE / "index.html").exists(), reason="needs chromium and the site of `make docs`")]
FOUND = "[...document.querySelectorAll('#search-results li a, ul.search li a')].map(a => a.innerText)"
BROKEN = "[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
FROM_AFAR = """performance.getEntriesByType('resource').map(e => e.name)
    .filter(n => !n.startsWith('file:') && !n.startsWith('data:'))"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    found = Chromium(tmp_path_factory.mktemp("profile"))
    found.call("Emulation.setDeviceMetricsOverride", width=1250, height=900, deviceScaleFactor=1, mobile=False)
    yield found
    found.close()


@pytest.mark.parametrize("words, page", [("convolution", "nd.Convolution"), ("softmax", "nd.softmax"),
                                         ("vmap", "hybrid.vmap"), ("HYBRID_COMPILE", "Settings")])
def test_search_finds_pages_from_files(browser: Any, words: str, page: str) -> None:
    browser.visit(f"{SITE.as_uri()}/search.html?q={words}", f"{FOUND}.includes('{page}')")


def test_pages_fit_and_need_no_network(browser: Any) -> None:
    wrong = []
    for path in sorted(SITE.rglob("*.html")):
        browser.visit(path.as_uri(), "document.readyState == 'complete'")
        wide = browser.evaluate("document.documentElement.scrollWidth > window.innerWidth")
        notes = [*browser.evaluate(BROKEN), *browser.evaluate(FROM_AFAR), *(["wider than the window"] if wide else [])]
        wrong += [(str(path.relative_to(SITE)), n) for n in notes]
    assert not wrong
