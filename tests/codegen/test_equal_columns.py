"""Equal columns of a product give equal bits, wherever in a tile they are: a softmax over equal classes is even."""
from __future__ import annotations

import numpy as np
import pytest

from hybrid import nd
from hybrid.gluon import nn

rng = np.random.default_rng(5)


@pytest.mark.parametrize("depth", [64, 300, 2048])
@pytest.mark.parametrize("columns", [10, 40, 100, 1001])
@pytest.mark.parametrize("rows", [1, 2, 5, 16])
def test_equal_weights_of_a_dense_layer(depth: int, columns: int, rows: int) -> None:
    net = nn.Dense(columns, in_units=depth)
    net.initialize()
    net.weight.set_data(nd.array(np.tile(rng.normal(size=(1, depth)), (columns, 1)), dtype="float32"))
    net.hybridize()
    y = net(nd.array(rng.normal(size=(rows, depth)), dtype="float32")).asnumpy()
    np.testing.assert_array_equal(y, np.broadcast_to(y[:, :1], y.shape))


@pytest.mark.parametrize("channels", [3, 16, 64])
@pytest.mark.parametrize("filters", [10, 40, 100])
@pytest.mark.parametrize("kernel", [1, 3, 5])
@pytest.mark.parametrize("images", [1, 9])
def test_equal_filters_of_a_convolution(channels: int, filters: int, kernel: int, images: int) -> None:
    net = nn.Conv2D(filters, kernel, in_channels=channels)
    net.initialize()
    one = rng.normal(size=(1, channels, kernel, kernel))
    net.weight.set_data(nd.array(np.tile(one, (filters, 1, 1, 1)), dtype="float32"))
    net.hybridize()
    y = net(nd.array(rng.normal(size=(images, channels, 13, 11)), dtype="float32")).asnumpy()
    np.testing.assert_array_equal(y, np.broadcast_to(y[:, :1], y.shape))
