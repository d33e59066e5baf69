"""Networks in a browser: the page of examples/browser reads digits that are drawn with the mouse, and the network in it
reads those of the data."""
from __future__ import annotations

import functools
import importlib.util
import math
import shutil
import subprocess
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import pytest

import hybrid as mx
from hybrid.export import export_c

from ..gluon import golden_models
from .chromium import CHROMIUM, Chromium
from ..paths import ROOT

pytestmark = pytest.mark.skipif(CHROMIUM is None or not all(map(shutil.which, ("emcc", "make"))),
                                reason="needs chromium, emcc and make")
PAGE = ROOT / "examples" / "browser" / "serve.py"


def circle(x: float, y: float, a: float, b: float, begin: float = 0, end: float = 360) -> list[tuple[float, float]]:
    """Points of an arc; angles in degrees, clockwise from the top."""
    turns = [math.radians(begin + (end - begin) * i / 24) for i in range(25)]
    return [(x + a * math.sin(t), y - b * math.cos(t)) for t in turns]


DRAWN = {0: [circle(128, 128, 55, 85)], 1: [[(105, 75), (140, 40), (140, 216)]],
         3: [circle(120, 85, 50, 42, -60, 180), circle(120, 170, 58, 44, 0, 240)],
         4: [[(130, 40), (70, 140), (190, 140)], [(165, 90), (160, 216)]],
         7: [[(65, 45), (190, 45), (110, 215)]]}


@pytest.fixture(scope="module")
def example() -> Any:
    spec = importlib.util.spec_from_file_location("browser_example", PAGE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(example: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    package: Path = example.build(tmp_path_factory.mktemp("browser"))
    _, pixels, labels, _ = golden_models.lenet(mx.cpu())
    pixels.asnumpy().tofile(package / "pixels.bin")
    np.asarray(labels).astype(np.uint8).tofile(package / "labels.bin")
    return package


class Quiet(SimpleHTTPRequestHandler):
    """Without a line for each request; and perhaps without the headers for shared memory."""
    isolated = True

    def log_message(self, *_: Any) -> None:
        pass

    def send_header(self, keyword: str, value: str) -> None:
        if Quiet.isolated or not keyword.startswith("Cross-Origin"):
            super().send_header(keyword, value)

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        super().end_headers()


@pytest.fixture(scope="module")
def address(example: Any, folder: Path) -> Iterator[str]:
    handler = type("Handler", (example.Handler, Quiet), {})
    with ThreadingHTTPServer(("localhost", 0), functools.partial(handler, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    chromium = Chromium(tmp_path_factory.mktemp("profile"))
    yield chromium
    chromium.close()


READY = "document.getElementById('said')?.textContent === 'Ready.'"
COUNT = """(async () => {
  const { load } = await import("./index.mjs");
  const bytes = async (name) => (await fetch(name)).arrayBuffer();
  const pixels = new Float32Array(await bytes("pixels.bin")), labels = new Uint8Array(await bytes("labels.bin"));
  const model = await load({ threads: %d });
  let right = 0;
  for (let i = 0; i < labels.length; i++) {
    const y = model.run(pixels.subarray(784 * i, 784 * (i + 1)));
    right += y.indexOf(Math.max(...y)) === labels[i];
  }
  const threads = model.threads;
  model.free();
  return [right, threads];
})()"""


def test_the_page_reads_what_is_drawn(browser: Chromium, address: str, tmp_path: Path) -> None:
    browser.visit(address, READY)
    box = browser.evaluate("(({ x, y }) => [x, y])(document.getElementById('paper').getBoundingClientRect())")
    read = {}
    for digit, strokes in DRAWN.items():
        browser.evaluate("document.getElementById('clear').click()")
        for points in strokes:
            browser.stroke([(box[0] + x, box[1] + y) for x, y in points])
        read[digit] = browser.evaluate("document.getElementById('digit').textContent")
        assert "microseconds" in browser.evaluate("document.getElementById('said').textContent")
        browser.screenshot(tmp_path / f"{digit}.png")
    assert read == {digit: str(digit) for digit in DRAWN}
    assert (tmp_path / "7.png").stat().st_size > 5_000


def test_the_network_reads_the_digits_in_a_browser(browser: Chromium, address: str) -> None:
    browser.visit(address, READY)
    assert browser.evaluate(COUNT % 1) == [338, 1]
    assert browser.evaluate(COUNT % 2) == [338, 1]           # there is no module for threads


TOGETHER = """(async () => {
  const { load } = await import("/threads/index.mjs");
  const bytes = async (name) => (await fetch(name)).arrayBuffer();
  const pixels = new Float32Array(await bytes("pixels.bin")), labels = new Uint8Array(await bytes("labels.bin"));
  const model = await load({ threads: 2 });
  let right = 0;
  for (let n = 0; n < 3; n++) {
    const y = model.run(pixels);
    right = labels.reduce((sum, label, i) => {
      const row = y.subarray(10 * i, 10 * i + 10);
      return sum + (row.indexOf(Math.max(...row)) === label);
    }, 0);
  }
  const threads = model.threads;
  model.free();
  return [right, threads];
})()"""


@pytest.mark.thorough
def test_several_threads_where_the_server_sends_the_headers(browser: Chromium, address: str, folder: Path,
                                                            tmp_path: Path) -> None:
    if not Path("/usr/share/nodejs/acorn").is_dir():
        pytest.skip("needs node-acorn")
    net, _, _, _ = golden_models.lenet(mx.cpu())
    export_c(net, tmp_path, (360, 1, 28, 28), name="all", bindings=("javascript",))
    assert "hy_run(hy, k" in (tmp_path / "all.c").read_text()
    subprocess.run(["make", "-s", "threads"], cwd=tmp_path / "javascript", check=True, stderr=subprocess.DEVNULL)
    shutil.copytree(tmp_path / "javascript", folder / "threads")
    browser.visit(address, READY)
    assert browser.evaluate("crossOriginIsolated") is True
    assert browser.evaluate(TOGETHER) == [338, 2]
    Quiet.isolated = False
    try:
        browser.visit(address, READY)
        assert browser.evaluate("crossOriginIsolated") is False
        assert browser.evaluate(TOGETHER) == [338, 1]
    finally:
        Quiet.isolated = True


def test_an_error_is_said_in_the_page(browser: Chromium, address: str, folder: Path) -> None:
    weights = (folder / "digits.weights").read_bytes()
    (folder / "digits.weights").write_bytes(weights[:-1])
    try:
        browser.visit(address, "document.getElementById('said')?.textContent.includes('damaged')")
    finally:
        (folder / "digits.weights").write_bytes(weights)
