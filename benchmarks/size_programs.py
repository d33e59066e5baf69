"""How many programs common functions and networks make over eight sizes, and whether they compute what plain Python
does.

    python benchmarks/size_programs.py [words of names ...]
"""
from __future__ import annotations

import argparse
import os
import tempfile
import time
from typing import Any, Callable

if __name__ == "__main__":
    _cache = tempfile.TemporaryDirectory()                       # removed when the process ends
    os.environ.setdefault("HYBRID_CACHE", _cache.name)
    os.environ.setdefault("HYBRID_COMPILE", "now")
    os.environ.setdefault("HYBRID_SIGNATURES", "100")

import numpy

import hybrid as mx
from hybrid import autograd, gluon, hybridize, nd, np, npx
from hybrid.gluon import nn, rnn
from hybrid.jit.compile_policy import eagerly

LINES = (40, 56, 33, 64, 20, 75, 48, 97)
IMAGES = tuple(zip((40, 64, 33, 75, 24, 65, 48, 36), (56, 48, 50, 31, 29, 65, 80, 36)))
VOLUMES = tuple(zip((8, 10, 7, 12, 9, 6, 11, 8), (12, 8, 10, 11, 7, 9, 8, 8), (9, 12, 10, 8, 11, 7, 6, 8)))


def _chain(*layers: Any) -> Any:
    net = nn.HybridSequential()
    net.add(*layers)
    return net


class Residual(gluon.HybridBlock):
    """Two convolutions with a shortcut."""

    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        self.body = _chain(nn.Conv2D(channels, 3, stride, 1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"),
                           nn.Conv2D(channels, 3, 1, 1, use_bias=False), nn.BatchNorm())
        self.past = nn.Conv2D(channels, 1, stride, use_bias=False)

    def forward(self, x: Any) -> Any:
        """The sum of the convolutions and the shortcut."""
        return nd.relu(self.body(x) + self.past(x))


class Attention(gluon.HybridBlock):
    """A layer of a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.after = nn.LayerNorm(), nn.LayerNorm()
        self.query, self.key, self.value, self.out = (nn.Dense(32, flatten=False) for _ in range(4))
        self.up, self.down = nn.Dense(64, flatten=False, activation="relu"), nn.Dense(32, flatten=False)

    def forward(self, x: Any) -> Any:
        """Attention, then a network for each place."""
        y = self.norm(x)
        q, k, v = (f(y).reshape((0, 0, 4, -1)).transpose((0, 2, 1, 3)).reshape((-3, 0, 0))
                   for f in (self.query, self.key, self.value))
        a = nd.batch_dot(nd.softmax(nd.batch_dot(q, k, transpose_b=True) / 3), v)
        x = x + self.out(a.reshape((-4, -1, 4, 0, 0)).transpose((0, 2, 1, 3)).reshape((0, 0, -3)))
        return x + self.down(self.up(self.after(x)))


def _stem() -> list[Any]:
    return [nn.Conv2D(32, 7, 2, 3, use_bias=False), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(3, 2, 1)]


# name: what makes the network, shapes of its data by size
NETWORKS: dict[str, tuple[Callable[[], Any], list[tuple[int, ...]]]] = {
    "perceptron, batches": (lambda: _chain(nn.Dense(32, activation="relu"), nn.Dense(4)), [(n, 16) for n in LINES]),
    "transformer layer, lengths": (Attention, [(2, n, 32) for n in LINES]),
    "LSTM, lengths": (lambda: rnn.LSTM(16, layout="NTC"), [(2, n, 8) for n in LINES]),
    "GRU, lengths": (lambda: rnn.GRU(16, layout="NTC"), [(2, n, 8) for n in LINES]),
    "convolution of lines": (lambda: _chain(nn.Conv1D(32, 5, padding=2, activation="relu"), nn.Conv1D(32, 3)),
                             [(2, 16, n) for n in LINES]),
    "lines, pooled": (lambda: _chain(nn.Conv1D(32, 5, padding=2), nn.BatchNorm(), nn.Activation("relu"),
                                     nn.MaxPool1D(2), nn.Conv1D(32, 3), nn.GlobalAvgPool1D(), nn.Dense(4)),
                      [(2, 16, n) for n in LINES]),
    "dilated lines": (lambda: _chain(nn.Conv1D(32, 3, padding=4, dilation=4, activation="tanh"), nn.Conv1D(16, 1)),
                      [(2, 16, n) for n in LINES]),
    "LeNet, batches": (lambda: _chain(nn.Conv2D(6, 5, activation="relu"), nn.MaxPool2D(2), nn.Conv2D(16, 5),
                                      nn.MaxPool2D(2), nn.Flatten(), nn.Dense(10)), [(n, 1, 28, 28) for n in LINES]),
    "convolution": (lambda: _chain(nn.Conv2D(32, 3, padding=1)), [(2, 16, *s) for s in IMAGES]),
    "convolution, few channels": (lambda: _chain(nn.Conv2D(8, 3, padding=1)), [(2, 3, *s) for s in IMAGES]),
    "convolution, stride": (lambda: _chain(nn.Conv2D(32, 3, 2, 1)), [(2, 16, *s) for s in IMAGES]),
    "convolution 1x1": (lambda: _chain(nn.Conv2D(32, 1)), [(2, 16, *s) for s in IMAGES]),
    "depthwise": (lambda: _chain(nn.Conv2D(32, 3, padding=1, groups=32), nn.Conv2D(48, 1)),
                  [(2, 32, *s) for s in IMAGES]),
    "groups": (lambda: _chain(nn.Conv2D(64, 3, padding=1, groups=2)), [(2, 32, *s) for s in IMAGES]),
    "dilated": (lambda: _chain(nn.Conv2D(32, 3, padding=2, dilation=2)), [(2, 16, *s) for s in IMAGES]),
    "transposed convolution": (lambda: _chain(nn.Conv2DTranspose(16, 4, 2, 1)), [(2, 16, *s) for s in IMAGES]),
    "largest of windows": (lambda: _chain(nn.MaxPool2D(2, 2)), [(2, 16, *s) for s in IMAGES]),
    "largest of windows that overlap": (lambda: _chain(nn.MaxPool2D(3, 2, 1)), [(2, 16, *s) for s in IMAGES]),
    "means of windows": (lambda: _chain(nn.AvgPool2D(2, 2)), [(2, 16, *s) for s in IMAGES]),
    "mean of all pixels": (lambda: _chain(nn.GlobalAvgPool2D(), nn.Dense(4)), [(2, 16, *s) for s in IMAGES]),
    "batch norm": (lambda: _chain(nn.BatchNorm(), nn.Activation("relu")), [(2, 16, *s) for s in IMAGES]),
    "classes of images": (lambda: _chain(*_stem(), Residual(32, 1), Residual(48, 2), nn.GlobalAvgPool2D(),
                                         nn.Dense(10)), [(2, 3, *s) for s in IMAGES]),
    "small classes of images": (lambda: _chain(nn.Conv2D(8, 3, activation="relu"), nn.MaxPool2D(2), nn.Conv2D(16, 3),
                                               nn.Activation("relu"), nn.GlobalAvgPool2D(), nn.Dense(4)),
                                [(2, 3, *s) for s in IMAGES]),
    "volumes": (lambda: _chain(nn.Conv3D(32, 3, padding=1, activation="relu"), nn.Conv3D(16, 1)),
                [(1, 16, *s) for s in VOLUMES]),
    "volumes, pooled": (lambda: _chain(nn.Conv3D(16, 3), nn.MaxPool3D(2), nn.GlobalAvgPool3D()),
                        [(1, 16, *s) for s in VOLUMES]),
}

# name: function, shapes by size, whether its gradient is asked for
FUNCTIONS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], bool]] = {
    "fft": (lambda x: np.fft.fft(x).real, [(4, n) for n in LINES], True),
    "rfft": (lambda x: np.abs(np.fft.rfft(x)), [(4, n) for n in LINES], False),
    "irfft of rfft": (lambda x: np.fft.irfft(np.fft.rfft(x) * 2), [(4, 2 * n) for n in LINES], False),
    "fft2": (lambda x: np.fft.fft2(x).real, [(1, *s) for s in IMAGES], False),
    "svd": (lambda x: np.linalg.svd(x)[1], [(n, 5) for n in LINES], False),
    "qr": (lambda x: np.linalg.qr(x)[1], [(n, 5) for n in LINES], False),
    "solve": (lambda x: np.linalg.solve(x @ x.T + np.eye(x.shape[0]) * 9, x), [(n, n) for n in LINES], False),
    "inverse": (lambda x: np.linalg.inv(x @ x.T + np.eye(x.shape[0]) * 9), [(n, n) for n in LINES], False),
    "eigenvalues": (lambda x: np.linalg.eigvalsh(x + x.T), [(n, n) for n in LINES], False),
    "determinant": (lambda x: np.linalg.slogdet(x @ x.T + np.eye(x.shape[0]))[1], [(n, n) for n in LINES], False),
    "delete": (lambda x: np.delete(x, 3, axis=0), [(n, 5) for n in LINES], False),
    "delete a slice": (lambda x: np.delete(x, slice(2, 5), axis=0), [(n, 5) for n in LINES], False),
    "insert": (lambda x: np.insert(x, 3, 1.0, axis=0), [(n, 5) for n in LINES], False),
    "append": (lambda x: np.append(x, x, axis=0), [(n, 5) for n in LINES], False),
    "argsort": (lambda x: np.argsort(x, axis=-1), [(8, n) for n in LINES], False),
    "sort": (lambda x: np.sort(x, axis=-1), [(8, n) for n in LINES], True),
    "topk": (lambda x: nd.topk(x.as_nd_ndarray(), k=3).as_np_ndarray(), [(8, n) for n in LINES], False),
    "pad": (lambda x: np.pad(x, ((1, 2), (3, 1))), [(8, n) for n in LINES], True),
    "pad, reflected": (lambda x: np.pad(x, ((1, 2), (3, 1)), mode="reflect"), [(8, n) for n in LINES], False),
    "repeat": (lambda x: np.repeat(x, 3, axis=1), [(8, n) for n in LINES], True),
    "tile": (lambda x: np.tile(x, (2, 2)), [(8, n) for n in LINES], False),
    "roll": (lambda x: np.roll(x, 3, axis=1), [(8, n) for n in LINES], False),
    "difference": (lambda x: np.diff(x, axis=1), [(8, n) for n in LINES], False),
    "median": (lambda x: np.median(x, axis=1), [(8, n) for n in LINES], False),
    "histogram": (lambda x: np.histogram(x, bins=5, range=(-2, 2))[0], [(8, n) for n in LINES], False),
    "einsum": (lambda x: np.einsum("ij,kj->ik", x, x), [(8, n) for n in LINES], True),
    "cumsum": (lambda x: np.cumsum(x, axis=1), [(8, n) for n in LINES], True),
    "triangle": (lambda x: np.tril(x @ x.T), [(n, 5) for n in LINES], False),
    "trace and diagonal": (lambda x: np.trace(x) + np.diag(x), [(n, n) for n in LINES], False),
    "outer": (lambda x: np.outer(x, x), [(n,) for n in LINES], False),
    "mesh": (lambda x: np.meshgrid(x, x)[0] * 1, [(n,) for n in LINES], False),
    "interpolate": (lambda x: np.interp(np.linspace(0, 1, 7), np.linspace(0, 1, x.shape[0]), x),
                    [(n,) for n in LINES], False),
    "where and any": (lambda x: np.where(np.any(x > 1, axis=1, keepdims=True), x, 0), [(8, n) for n in LINES], False),
    "split": (lambda x: np.split(x, 2, axis=1)[0] * 2, [(8, 2 * n) for n in LINES], False),
    "resize": (lambda x: nd.contrib.BilinearResize2D(x.as_nd_ndarray(), height=20, width=30).as_np_ndarray(),
               [(1, 3, *s) for s in IMAGES], False),
    "twice as large": (lambda x: nd.UpSampling(x.as_nd_ndarray(), scale=2, sample_type="nearest").as_np_ndarray(),
                       [(1, 3, *s) for s in IMAGES], True),
    "boxes": (lambda x: nd.contrib.box_iou(x.as_nd_ndarray(), x.as_nd_ndarray()).as_np_ndarray(),
              [(n, 4) for n in LINES], False),
    "suppression": (lambda x: nd.contrib.box_nms(x.as_nd_ndarray(), id_index=0, score_index=1, coord_start=2
                                                 ).as_np_ndarray(), [(1, n, 6) for n in LINES], False),
    "anchors": (lambda x: nd.contrib.MultiBoxPrior(x.as_nd_ndarray(), sizes=(.2, .4), ratios=(1, 2)).as_np_ndarray(),
                [(1, 3, *s) for s in IMAGES], False),
    "regions": (lambda x: nd.contrib.ROIAlign(x.as_nd_ndarray(), nd.array([[0, 1, 1, 9, 9]]), (3, 3), 1.0
                                              ).as_np_ndarray(), [(1, 3, *s) for s in IMAGES], False),
    "softmax of pixels": (lambda x: npx.softmax(x.reshape((x.shape[0], -1))), [(2, 3, *s) for s in IMAGES], True),
}


def _of_network(name: str, recorded: bool) -> "tuple[int, list[str], bool, float]":
    make, shapes = NETWORKS[name]
    mx.random.seed(1)
    net, draw, agree = make(), numpy.random.RandomState(0), True
    net.initialize(mx.init.Xavier(magnitude=2))
    data = [nd.array(draw.randn(*s)) for s in shapes]

    def run(x: Any) -> list[numpy.ndarray]:
        if not recorded:
            return [net(x).asnumpy()]
        with autograd.record():
            loss = (net(x) ** 2).mean()
        loss.backward()
        weights = [p for p in net.collect_params().values() if p.grad_req != "null"]
        return [loss.asnumpy(), *(p.grad().asnumpy() for p in weights)]
    with eagerly():
        run(data[0])
        wanted = [run(x) for x in data]
    net.hybridize()
    begin = time.perf_counter()
    for x, good in zip(data, wanted):
        agree &= all(numpy.allclose(a, b, 1e-3, 1e-4 * max(1, abs(b).max())) for a, b in zip(run(x), good))
    return len(net.programs), net._engine._any_size.why, agree, time.perf_counter() - begin


def _of_function(name: str, recorded: bool) -> "tuple[int, list[str], bool, float]":
    function, shapes, _ = FUNCTIONS[name]
    compiled, draw, agree = hybridize(function), numpy.random.RandomState(0), True
    begin = time.perf_counter()

    def run(f: Callable[..., Any], x: Any) -> list[numpy.ndarray]:
        if not recorded:
            return [f(x).asnumpy()]
        x.attach_grad()
        with autograd.record():
            y = f(x)
        y.backward()
        return [y.asnumpy(), x.grad.asnumpy()]
    for s in shapes:
        x = np.array(draw.randn(*s), dtype="float32")
        found = run(compiled, x)
        with eagerly():
            agree &= all(numpy.allclose(a, b, 1e-3, 1e-3) for a, b in zip(found, run(function, x)))
    return len(compiled.programs), compiled._engine._any_size.why, agree, time.perf_counter() - begin


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="only the rows whose name has one of these in it")
    words = parser.parse_args().words
    cases = [(_of_network, name, way) for name in NETWORKS for way in (False, True)]
    cases += [(_of_function, name, way) for name, (*_, grad) in FUNCTIONS.items() for way in (False, True)[:1 + grad]]
    print("| case | programs | numbers | time | why each size has a program |\n|---|---|---|---|---|", flush=True)
    for measure, name, recorded in cases:
        if words and not any(w in name for w in words):
            continue
        title = f"{name}{', recorded' if recorded else ''}"
        try:
            count, why, agree, seconds = measure(name, recorded)
            last = why[-1][-150:].replace("\n", " ") if why and count > 2 else ""
            print(f"| {title} | {count} | {'' if agree else 'OTHER NUMBERS'} | {seconds:.1f} s | {last} |", flush=True)
        except Exception as err:                                 # noqa: BLE001  the table goes on
            print(f"| {title} | - | {type(err).__name__}: {str(err)[:200]!r} | |", flush=True)


if __name__ == "__main__":
    main()
