"""Which nodes of a program are products over windows (window_products.py).

Each axis has a label: "group", "image", "channel", "filter", or the number of an axis of the images with "kernel" or
"position".
"""
from __future__ import annotations

import math
from collections import Counter
from typing import Any, Callable, Iterable, Sequence

import numpy as np

from .node import Node
from .window_products import into_images, into_values, into_weights

_LEAST = 1 << 14                         # windows' elements from which on they are multiplied block by block
_Labels = tuple[Any, ...]


def _kernel(axes: int) -> _Labels:
    return tuple(("kernel", i) for i in range(axes))


def _positions(axes: int) -> _Labels:
    return tuple(("position", i) for i in range(axes))


def _orders(axes: int) -> tuple[_Labels, _Labels, _Labels]:
    """The labels of windows, weights and values in the order of window_products.py."""
    return (("group", "image", "channel", *_kernel(axes), *_positions(axes)),
            ("group", "filter", "channel", *_kernel(axes)), ("group", "filter", "image", *_positions(axes)))


def _ordered(x: np.ndarray, labels: _Labels, wanted: _Labels) -> np.ndarray:
    """A view with the axes in another order; without groups there is one."""
    if "group" not in labels:
        x, labels = x[None], ("group", *labels)
    return x.transpose([labels.index(a) for a in wanted])


def _fits(labels: _Labels, wanted: _Labels) -> bool:
    """Whether axes have the wanted labels, in whatever order; groups may be missing."""
    return sorted(map(str, {"group", *labels})) == sorted(map(str, wanted)) and len(set(labels)) == len(labels)


def _split(labels: _Labels, whole: tuple[int, ...], parts: tuple[int, ...]) -> _Labels | None:
    """The labels of ``parts``, a shape in which the channels of ``whole`` are groups of channels; None for others."""
    c = labels.index("channel")
    if "group" in labels or parts[:c] + (math.prod(parts[c:c + 2]),) + parts[c + 2:] != whole:
        return None
    return (*labels[:c], "group", *labels[c:])


def _of_windows(n: Node) -> tuple[Node, _Labels] | None:
    """The window node that a node shows, and the labels of its axes as it shows them."""
    if n.prim == "window":
        axes = n.attrs["axes"]
        if axes != tuple(range(2, n.args[0].ndim)) or not axes:
            return None
        return n, ("image", "channel", *_positions(len(axes)), *_kernel(len(axes)))
    if n.prim not in ("permute", "reshape") or (inner := _of_windows(n.args[0])) is None:
        return None
    window, labels = inner
    if n.prim == "permute":
        return window, tuple(labels[a] for a in n.attrs["axes"])
    found = _split(labels, n.args[0].shape, n.shape)
    return None if found is None else (window, found)


def product_over_windows(n: Node) -> Callable[[Any, Any], np.ndarray] | None:
    """What computes a ``dot`` of windows and weights, or of windows and values; None for other nodes."""
    if n.prim != "dot" or n.dtype not in (np.float32, np.float64) or max(a.size for a in n.args) < _LEAST:
        return None
    for i in (0, 1):
        found = _of_windows(n.args[i])
        if found is not None and math.prod(found[0].shape[found[0].args[0].ndim:]) > 1:
            return _product(n, i, found[1], len(found[0].attrs["axes"]))
    return None


def _product(n: Node, i: int, labels: _Labels, axes: int) -> Callable[[Any, Any], np.ndarray] | None:
    """The function of a ``dot`` whose argument ``i`` has windows with such labels."""
    windows, weights, values = _orders(axes)
    contract, batch = n.attrs["contract"], n.attrs["batch"]
    other: list[Any] = ["filter"] * n.args[1 - i].ndim
    for mine, its in (*zip(contract[i], contract[1 - i]), *zip(batch[i], batch[1 - i])):
        other[its] = labels[mine]
    summed = {labels[a] for a in contract[i]}
    if [labels[a] for a in batch[i]] != ["group"] * labels.count("group"):
        return None
    order = [labels, tuple(other)] if i == 0 else [tuple(other), labels]
    result = tuple(order[0][a] for a in batch[0]) + tuple(
        a for one, used in zip(order, (contract[0] + batch[0], contract[1] + batch[1]))
        for k, a in enumerate(one) if k not in used)
    given, made, write = (weights, values, into_values) if "channel" in summed else (values, weights, into_weights)
    if not _fits(order[1 - i], given) or not _fits(result, made):
        return None
    shape, dtype = n.shape, n.dtype

    def product(*arrays: Any) -> np.ndarray:
        out = np.empty(shape, dtype)
        write(_ordered(arrays[1 - i], order[1 - i], given), _ordered(arrays[i], order[i], windows),
              _ordered(out, result, made))
        return out
    return product


def sums_over_windows(order: Sequence[Node], roots: Iterable[Node]) -> dict[
        Node, tuple[Callable[[Any, Any], np.ndarray], tuple[Node, ...]]]:
    """For each ``unwindow`` of a product of weights and values that nobody else reads: a function that does both at
    once, and its arguments."""
    readers = Counter(a for n in order for a in n.args)
    readers.update(roots)
    found = {}
    for n in order:
        if n.prim == "unwindow" and n.dtype in (np.float32, np.float64) and n.args[0].size >= _LEAST:
            product = n.args[0]
            while product.prim in ("permute", "reshape") and readers[product] == 1:
                product = product.args[0]
            if product.prim == "dot" and readers[product] == 1 and (call := _sum(n, product)) is not None:
                found[n] = call, product.args
    return found


def _labels_of_product(n: Node) -> _Labels | None:
    """The labels of the product that an ``unwindow`` adds up."""
    axes = n.attrs["axes"]
    if axes != tuple(range(2, n.ndim)) or not axes:
        return None
    labels: _Labels | None = ("image", "channel", *_positions(len(axes)), *_kernel(len(axes)))
    n = n.args[0]
    while n.prim != "dot" and labels is not None:
        if n.prim == "permute":
            labels = tuple(label for _, label in sorted(zip(n.attrs["axes"], labels)))
        else:
            labels = _split(labels, n.shape, n.args[0].shape)
        n = n.args[0]
    return labels


def _sum(n: Node, product: Node) -> Callable[[Any, Any], np.ndarray] | None:
    """The function of an ``unwindow`` of a ``dot``."""
    labels, contract, batch = _labels_of_product(n), product.attrs["contract"], product.attrs["batch"]
    if labels is None or labels[:len(batch[0])] != ("group",) * labels.count("group"):
        return None
    _, weights, values = _orders(len(n.attrs["axes"]))
    free, order = list(labels[len(batch[0]):]), []
    for k, a in enumerate(product.args):
        order.append(tuple("group" if i in batch[k] else "filter" if i in contract[k] else free.pop(0)
                           for i in range(a.ndim)))
    w = next((k for k in (0, 1) if _fits(order[k], weights)), None)
    if w is None or not _fits(order[1 - w], values):
        return None
    shape, dtype, groups = n.shape, n.dtype, product.shape[0] if batch[0] else 1
    stride, dilation = n.attrs["stride"], n.attrs["dilation"]

    def add_up(*arrays: Any) -> np.ndarray:
        out = np.zeros(shape, dtype)
        images = out.reshape(shape[0], groups, -1, *shape[2:])
        into_images(_ordered(arrays[w], order[w], weights), _ordered(arrays[1 - w], order[1 - w], values),
                    stride, dilation, np.moveaxis(images, 0, 2))
        return out
    return add_up
