"""hybrid.explain: one page with kernels, times, memory, source and reasons, of any call, without a network."""
from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.debug import drawing
from hybrid.debug.explaining import _row
from hybrid.debug.measured import Ceiling, quickest
from hybrid.gluon import nn
from hybrid.runtime.report import KernelReport


def drawings(page: str) -> list[Any]:
    """The drawings of a page, parsed."""
    return [ET.fromstring(text) for text in re.findall(r"<svg.*?</svg>", page, re.S)]


def test_a_page_of_a_network(tmp_path: Path) -> None:
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(32, activation="relu", in_units=8), nn.LayerNorm(in_channels=32), nn.Dense(4, in_units=32))
    net.initialize()
    net.hybridize()
    x = nd.array(np.random.RandomState(0).randn(16, 8))
    found = net.explain(x)
    path = found.save(tmp_path / "page.html")
    page = path.read_text()
    assert len(page) < 2_000_000 and "http" not in page.replace("http-equiv", "") and "<script" not in page
    report = net.report()
    graph, memory = drawings(page)
    boxes = [e for e in graph.iter() if e.tag == "rect"]
    assert len(boxes) == len(report.kernels) == len(found.programs[0].seconds) and all(found.programs[0].seconds)
    links = [e.get("href") for e in graph.iter() if e.tag == "a"]
    assert all(f'id="{link[1:]}"' in page for link in links if link) and len(links) == len(boxes)
    assert len([e for e in memory.iter() if e.tag == "rect"]) == len(report.spans) > 0
    assert min(found.programs[0].eager) >= report.output_bytes        # some result of eager code is always alive
    assert "test_explain.py:" in page and "FullyConnected" in page and "static void k0" in page and "first call" in page
    assert "hybridized" not in repr(found) and "k0" in repr(found) and found._repr_html_() in page
    share = re.findall(r"<td data-name=reaches>(\d+ % of (?:reading memory|multiplying)|faster than memory|over it: a)",
                       page)
    assert len(share) == len(boxes)
    assert "<td>&lt;map" not in page and 'name="viewport"' in page
    assert len(re.findall(r"test_explain.py:\d+</span>:", page)) == len(boxes)


def test_a_dense_layer_is_a_product_and_lines_stand_once() -> None:
    """Weights are packed as for a convolution: the page calls it what the user wrote."""
    net = nn.HybridSequential()
    net.add(nn.Dense(120, activation="tanh", in_units=400), nn.Dense(84, activation="tanh", in_units=120))
    net.initialize()
    net.hybridize()
    report = net.explain(nd.ones((16, 400))).programs[0].report
    assert {k.kind for k in report.kernels} <= {"contraction", "elementwise"}
    assert all("conv" not in n for k in report.kernels for n in k.nodes)
    wide = nn.Conv2D(32, 3, in_channels=32)
    wide.initialize()
    wide.hybridize()
    found = wide.explain(nd.ones((1, 32, 28, 28))).programs[0].report
    assert "convolution" in {k.kind for k in found.kernels}


def test_a_training_step_is_left_as_it_was() -> None:
    net = nn.Dense(3, in_units=5)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})

    @mx.hybridize
    def step(x: Any) -> Any:
        with autograd.record():
            loss = (net(nd.Dropout(x)) ** 2).sum()
        loss.backward()
        trainer.step(1)
        return loss
    before, state = net.weight.data().asnumpy(), mx.random.get_state()
    page = step.explain(nd.ones((4, 5))).html
    assert (net.weight.data().asnumpy() == before).all() and mx.random.get_state() == state
    assert "gradient of FullyConnected" in page and "a call from Python" not in page


def test_what_is_not_hybridized_and_what_cannot_be() -> None:
    assert "tanh" in mx.explain(lambda x: nd.tanh(x) * 3, nd.ones((2, 2))).html
    f = mx.hybridize(lambda x: x * 2 if type(x) is nd.NDArray else x)
    with pytest.warns(UserWarning, match="run as plain Python"), pytest.raises(mx.HybridError,
                                                                               match="called no compiled program"):
        mx.explain(f, nd.ones((2,)))


def test_without_a_compiler_there_are_no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRID_COMPILE", "never")
    found = mx.explain(mx.hybridize(lambda x: nd.sin(x) * 5), nd.ones((3,)))
    assert found.programs[0].report.kernels == [] and drawings(found.html)


def test_boxes_lie_below_what_they_read_and_apart() -> None:
    kernels = [KernelReport(f"k{i}", "elementwise", ["add[2]"], [], [], "", sources=s)
               for i, s in enumerate([[], [], [0, 1], [0], [2, 3]])]
    svg = ET.fromstring(drawing.graph(kernels, [1e-3, 0, 0, 0, 1e-6], "p"))
    place = [(float(e.get("x", 0)), float(e.get("y", 0))) for e in svg.iter() if e.tag == "rect"]
    assert all(place[i][1] > place[s][1] for i, k in enumerate(kernels) for s in k.sources)
    assert len(set(place)) == 5 and all(abs(a[0] - b[0]) >= drawing.WIDE for a in place for b in place
                                        if a[1] == b[1] and a != b)
    assert drawing.size(2048) == "2 KB" and drawing.duration(2e-6) == "2 µs"


def test_a_plain_function_keeps_its_name() -> None:
    def halves(x: Any) -> Any:
        return x / 2
    found = mx.explain(halves, nd.ones(3))
    assert found.title == "halves" and found.programs[0].name == "halves"
    with pytest.raises(TypeError, match=r"test_explain\.py:\d+: explain calls a function or a block itself"):
        mx.explain(halves(nd.ones(3)))                      # type: ignore[arg-type]


@pytest.mark.parametrize("moved, products, share, bound", [
    (1e6, 0, 0.5, "memory"), (1e7, 0, 5, "memory"), (1e7, 1e8, 0.5, "products"), (1e6, 1e7, 0.5, "memory"),
    (1e5, 1e8, 0.5, "products")])
def test_products_bound_what_reads_caches(moved: float, products: float, share: float, bound: str) -> None:
    kernel: Any = SimpleNamespace(moved_bytes=moved, products=products)
    assert Ceiling(bytes=1e9, products=1e11).share(kernel, 2e-3) == (pytest.approx(share), bound)


def test_a_kernel_that_other_work_interrupts_in_one_run_has_the_time_of_another() -> None:
    assert quickest([[1.0, 9.0, 2.0], [8.0, 3.0, 2.5], [1.5, 3.5, 7.0]]) == [1.0, 3.0, 2.0]
    assert quickest([]) == []


def test_no_share_is_above_all() -> None:
    """The limit is measured, too, and a kernel may be a little quicker than that."""
    k = KernelReport("k0", "contraction", ["dot"], [], ["dot"], "result", products=1030)
    assert "100 % of multiplying" in _row(k, 1.0, 1.0, Ceiling(bytes=1e12, products=1000.0), "a")


def test_a_call_with_effects_is_made_once(capsys: pytest.CaptureFixture[str]) -> None:
    class Counting(nn.HybridBlock):
        calls = 0

        def forward(self, x: Any) -> Any:
            self.calls += 1
            return mx.debug.print(x * 2, "twice") + 1

    net = Counting()
    net.hybridize()
    seen: list[float] = []
    net.register_forward_hook(lambda block, inputs, output: seen.append(float(output.asnumpy()[0])))
    assert net(nd.ones((3,))) is not None and net.calls == 1
    capsys.readouterr()
    page = mx.explain(net, nd.ones((3,)))
    assert net.calls == 2 and len(seen) == 2 and capsys.readouterr().out.count("twice") == 1
    assert page.seconds == 0 and "A call from Python takes" not in page.html
