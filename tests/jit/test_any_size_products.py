"""Products with symbolic sizes: every side of the sum, in each layout of its operands, with what is computed before and
after it, in sizes around tiles of rows and panels of columns, against NumPy."""
import numpy
import pytest

from hybrid import gluon, hybridize, nd
from hybrid.runtime import toolchain

SIZES = (7, 8, 13, 14, 15, 16, 17, 29, 31, 32, 33, 2, 3, 5, 64, 100, 300)


def check(f, wanted, shapes, sizes=SIZES, dtype="float32", most=2, close=2e-5):
    """f against wanted(*arrays) at each size, of one program. shapes: None is the size."""
    g = hybridize(f)
    draw = numpy.random.RandomState(0)
    for n in sizes:
        arrays = [draw.randn(*(n if d is None else d for d in shape)).astype(dtype) for shape in shapes]
        expected = wanted(*(a.astype("float64") for a in arrays))
        got = g(*(nd.array(a, dtype=dtype) for a in arrays)).asnumpy()
        assert got.shape == expected.shape, n
        scale = numpy.abs(expected).max() if expected.size else 0
        numpy.testing.assert_allclose(got, expected, rtol=close, atol=close * max(scale, 1), err_msg=str(n))
    symbolic = [p for p in g.programs if any("n0" in s for s in p.sizes)]
    assert len(symbolic) == 1 and len(g.programs) <= most, g.programs
    assert not any("n0" in guard for guard in symbolic[0].guards), symbolic[0].guards
    assert not g._engine._any_size.why


def dot(ta, tb):
    return lambda x, y: nd.dot(x, y, transpose_a=ta, transpose_b=tb)


def reference(ta, tb):
    return lambda x, y: (x.T if ta else x) @ (y.T if tb else y)


@pytest.mark.parametrize("ta", (False, True))
@pytest.mark.parametrize("tb", (False, True))
@pytest.mark.parametrize("place", ("rows", "columns", "depth", "all", "all of float64"))
def test_each_side_in_each_layout(ta, tb, place):
    m, k, n = (None if place == name or "all" in place else size
               for name, size in (("rows", 45), ("depth", 40), ("columns", 50)))
    dtype = "float64" if "float64" in place else "float32"
    shapes = (k, m) if ta else (m, k), (n, k) if tb else (k, n)
    check(dot(ta, tb), reference(ta, tb), shapes, dtype=dtype)


@pytest.mark.parametrize("columns,depth", ((1, 700), (10, 1), (17, 700), (130, 515)))
@pytest.mark.parametrize("turned", (False, True))
def test_constant_sides(columns, depth, turned):
    """Few columns, which are no whole vectors, and depths of one step or several blocks."""
    shapes = ((depth, None), (columns, depth)) if turned else ((None, depth), (depth, columns))
    check(dot(turned, turned), reference(turned, turned), shapes)


def test_rows_that_would_put_one_another_out_of_the_cache():
    check(dot(False, True), reference(False, True), ((None, 1024), (200, 1024)), (100, 101, 7, 8, 15, 16, 24, 31, 32))


def test_depths_of_several_blocks():
    """As of gradients of weights: results are larger than a thread's memory for sums."""
    check(dot(True, False), reference(True, False), ((None, 700), (None, 60)), (7, 255, 256, 257, 2, 511, 1000))


@pytest.mark.parametrize("ta", (False, True))
@pytest.mark.parametrize("tb", (False, True))
def test_batches(ta, tb):
    """Batched products over any length, and over any batch."""
    def product(x, y):
        return nd.batch_dot(x, y, transpose_a=ta, transpose_b=tb)

    def wanted(x, y):
        return (x.transpose(0, 2, 1) if ta else x) @ (y.transpose(0, 2, 1) if tb else y)
    for shapes in (((3, None, 20), (3, None, 20)), ((2, None, None), (2, None, 9)), ((None, 20, 20), (None, 20, 20))):
        x, y = shapes
        if (x[1] if ta else x[2]) == (y[2] if tb else y[1]):
            check(product, wanted, shapes)


def test_what_is_computed_before_and_after():
    """Functions of the operands, of the sums, transposed and reshaped results."""
    relu = lambda v: numpy.maximum(v, 0)                     # noqa: E731
    check(lambda x, w, b: nd.relu(nd.dot(nd.tanh(x), w) + b), lambda x, w, b: relu(numpy.tanh(x) @ w + b),
          ((None, 30), (30, 37), (37,)))
    check(lambda x, w: nd.transpose(nd.dot(x, nd.sigmoid(w), transpose_b=True)) * 2,
          lambda x, w: 2 * (x @ (1 / (1 + numpy.exp(-w))).T).T, ((None, 30), (37, 30)))
    check(lambda x, y: nd.dot(nd.relu(x), y, transpose_a=True) + 1, lambda x, y: relu(x).T @ y + 1,
          ((None, 30), (None, 37)))
    check(lambda x, w: nd.reshape(nd.dot(x, w), (0, 3, 8)).transpose((1, 0, 2)) - 1,
          lambda x, w: (x @ w).reshape(-1, 3, 8).transpose(1, 0, 2) - 1, ((None, 12), (12, 24)))
    check(lambda x, w: nd.dot(nd.transpose(x, (1, 0, 2)), w), lambda x, w: x.transpose(1, 0, 2) @ w,
          ((3, None, 20), (20, 40)))


def test_halves():
    """Operands of 16 bits, summed as float32."""
    check(dot(False, True), reference(False, True), ((None, 40), (50, 40)), dtype="float16", close=2e-3)
    check(dot(True, False), reference(True, False), ((None, 40), (None, 50)), (7, 8, 33, 2), "float16", close=4e-3)


def test_no_rows_and_one():
    """0 and 1 have programs of their own."""
    check(dot(True, False), reference(True, False), ((None, 40), (None, 50)), (7, 8, 33, 1, 0, 2), most=4)


def test_prefetches_split_no_sizes():
    """Whether results are fetched beforehand goes by the size at trace, of tiles that leave zeros out, too."""
    check(lambda x, w, v: nd.dot(nd.relu(nd.dot(x, w)), v), lambda x, w, v: numpy.maximum(x @ w, 0) @ v,
          ((None, 64), (64, 128), (128, 800)), (24, 48, 8, 40, 41, 64, 100))


@pytest.mark.parametrize("kernel,size", ((5, 12), (3, 9), (1, 8)))
def test_tiles_of_pixels_for_any_number_of_images(kernel, size):
    """Only how many panels there are is known at the call: tiles are of channels and pixels, as for a constant
    number."""
    def convolution(x, w, b):
        return nd.relu(nd.Convolution(x, w, b, kernel=(kernel, kernel), num_filter=50))

    def wanted(x, w, b):
        windows = numpy.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), (2, 3))
        return numpy.maximum(numpy.einsum("nchwij,ocij->nohw", windows, w) + b[:, None, None], 0)
    check(convolution, wanted, ((None, 20, size, size), (50, 20, kernel, kernel), (50,)), (24, 48, 2, 3, 7, 33))
    if kernel == 5 and toolchain.vector_bytes() == 64:
        f = hybridize(convolution, dynamic={"x": {0: "n"}})
        f(nd.ones((4, 20, 12, 12)), nd.ones((50, 20, 5, 5)), nd.ones(50))
        assert "const long y0 = " in f.report().source           # several lines of the image in one panel


def test_zeros_are_left_out_whatever_the_first_size_was():
    """Of batches that began small, too: the kernels look at sizes and factors when they are called."""
    def two(x, w, v):
        return nd.dot(nd.relu(nd.dot(x, w)), v)
    check(two, lambda x, w, v: numpy.maximum(x @ w, 0) @ v, ((None, 64), (64, 128), (128, 96)),
          (7, 8, 31, 32, 33, 64, 200))
    check(lambda x, w: nd.dot(nd.relu(x), w, transpose_a=True), lambda x, w: numpy.maximum(x, 0).T @ w,
          ((None, 64), (None, 128)), (7, 8, 15, 16, 17, 64, 255, 256, 257, 300))
    f = hybridize(two)
    for n in (7, 8):
        f(nd.ones((n, 64)), nd.ones((64, 128)), nd.ones((128, 96)))
    assert "hy_sparse" in f.report().source or toolchain.vector_bytes() < 32


def test_what_depends_on_sizes_and_parameters_alone_is_computed_in_each_call():
    """Packed weights are computed once for all sizes; a product of theirs with a batch of constants is not."""
    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.weight = self.params.get("weight", shape=(5, 20))

        def hybrid_forward(self, F, x, weight):
            return x + F.dot(F.ones((x.shape[0], 5)), weight)

    net, draw = Net(), numpy.random.RandomState(1)
    net.initialize()
    net.hybridize()
    for n in (3, 7, 2, 12, 3, 33):
        x = draw.randn(n, 20).astype("float32")
        w = net.weight.data().asnumpy()
        numpy.testing.assert_allclose(net(nd.array(x)).asnumpy(), x + w.sum(axis=0), 1e-5, 1e-5)
    assert len(net.programs) <= 2
