"""Operators in programs for any size against plain Python, at sizes around tiles and vectors."""
import numpy
import pytest

from hybrid import hybridize, nd, np
from hybrid.jit.compile_policy import eagerly

SIZES = (20, 33, 2, 3, 13, 14, 15, 16, 17, 31, 32, 63, 64, 65, 100, 129)
# name: function, shapes ("n" a size, "m" one more), arguments that are numbers of places
CASES = {
    "flip": (lambda x: nd.flip(x, axis=0), [("n", 3)]),
    "mean": (lambda x: [nd.mean(x, axis=a) for a in (0, 1)] + [nd.mean(x)], [("n", "m")]),
    "loss": (lambda x, y: nd.mean(nd.square(x - y)), [("n", 4), ("n", 4)]),
    "extremes": (lambda x: [nd.max(x), nd.min(x, axis=0), nd.argmax(x, axis=0), nd.argmin(x, axis=1)], [("n", "m")]),
    "stack": (lambda x: [nd.stack(x, x * 2, axis=a) for a in (0, 1)], [("n", 3)]),
    "repeat": (lambda x: [nd.tile(x, (2, 2)), nd.repeat(x, 3, axis=0), nd.repeat(x, 3, axis=1)], [("n", 3)]),
    "concat": (lambda x, y: nd.concat(x, y, x, dim=0), [("n", 3), ("m", 3)]),
    "concat along lines": (lambda x, y: nd.concat(x, y, dim=1) * 2, [(3, "n"), (3, "m")]),
    "concat between": (lambda x, y: nd.concat(x, y, dim=1), [(3, "n", 5), (3, 4, 5)]),
    "choices": (lambda x: [nd.where(x > 0, x, -x), nd.clip(x, -0.5, 0.5), *nd.split(x, 2, axis=1)], [("n", 4)]),
    "cross entropy": (lambda x, y: nd.mean(-nd.pick(nd.log_softmax(x), y)), [("n", 10), ("n",)], (1,)),
    "norms": (lambda x: [nd.norm(x, axis=1), nd.norm(x), nd.L2Normalization(x)], [("n", 4)]),
    "products": (lambda x, y: [nd.dot(x, y), nd.dot(x, x, transpose_b=True)], [("n", 40), (40, 30)]),
    "products over any depth": (lambda x, y: nd.dot(x, y, transpose_a=True), [("n", 4), ("n", 30)]),
    "batches of products": (lambda x, y: nd.batch_dot(x, y), [("n", 3, 5), ("n", 5, 4)]),
    "attention": (lambda q, k, v: nd.batch_dot(nd.softmax(nd.batch_dot(q, k, transpose_b=True) / 3, axis=-1), v),
                  [(2, "n", 8), (2, "m", 8), (2, "m", 24)]),
    "attention of any batch": (lambda q, k: nd.batch_dot(nd.softmax(nd.batch_dot(q, k, transpose_b=True)), k),
                               [("n", 5, 8), ("n", 6, 8)]),
    "like another": (lambda x, y: [nd.slice_like(y, x, axes=(0,)), nd.broadcast_like(x.sum(axis=0, keepdims=True), x)],
                     [("n", 4), (300, 4)]),
    "transposed": (lambda x: [nd.transpose(x, (2, 0, 1)) + 1, nd.swapaxes(x, 0, 1) * 2], [("n", 5, "m")]),
    "reshaped": (lambda x: [x.reshape((-1, 3)) * 2, x.reshape((0, 4, -1)) * 2, x.reshape((4, -1)) * 2], [("n", 12)]),
    "heads": (lambda x: x.reshape((0, 4, 3)).transpose((1, 0, 2)).reshape((4, -1)) * 2, [("n", 12)]),
    "softmax": (lambda x: [nd.softmax(x, axis=0), nd.log_softmax(x), nd.softmax(x, temperature=2.0) * x], [("n", "m")]),
    "variance": (lambda x: nd.mean(nd.square(x - nd.mean(x, axis=1, keepdims=True)), axis=1), [(4, "n")]),
    "pairs": (lambda x: nd.broadcast_add(x.expand_dims(0), x.expand_dims(1)).sum(axis=0), [("n", 3)]),
    "functions": (lambda x: nd.exp(x) + nd.erf(x) * nd.sigmoid(x), [("n", "m")]),
    "types": (lambda x: [nd.cast(x, "int32"), nd.cast(x, "float64").sum(axis=1), nd.cast(x, "float16").sum(axis=1)],
              [(3, "n")]),
    "borders": (lambda x: nd.pad(x, mode="constant", pad_width=(0, 0, 0, 0, 1, 1, 2, 2), constant_value=3),
                [(1, 1, "n", "m")]),
    "tables": (lambda x, w: [nd.one_hot(x, 6), nd.Embedding(x, w, input_dim=4, output_dim=6)], [("n", "m"), (4, 6)],
               (0,)),
    "sequences": (lambda x, y: [nd.SequenceMask(x, y, use_sequence_length=True), nd.SequenceReverse(x)],
                  [("n", 3, 4), (3,)], (1,)),
    "layer norm": (lambda x, g, b: nd.LayerNorm(x, g, b), [("n", 7), (7,), (7,)]),
    "running sums": (lambda x: [nd.cumsum(x, axis=a) for a in (0, 1, 2)], [("n", "m", 3)]),
    "running sums of lines": (lambda x: [nd.cumsum(x, axis=1), nd.cumsum(nd.cast(x, "int32"), axis=1),
                                         nd.cumsum(nd.cast(x, "float16"), axis=0)], [("n", 300)]),
    "running sums along lines": (lambda x: [nd.cumsum(x, axis=1), nd.cumsum(nd.cast(x, "float64"), axis=1)],
                                 [(3, "n")]),
    "moments": (lambda x: [f(x.as_np_ndarray(), axis=a, ddof=d).as_nd_ndarray() for f in (np.var, np.std)
                           for a in (0, (0, 1)) for d in (0, 1)], [("n", 7)]),
    "numbers between": (lambda x: [(np.linspace(1, 3, x.shape[0], endpoint=e) * 1).as_nd_ndarray()
                                   for e in (True, False)], [("n", 2)]),
    "windows": (lambda x, w: [nd.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max"),
                              nd.Convolution(x, w, kernel=(3, 3), num_filter=4, no_bias=True)],
                [("n", 3, 8, 8), (4, 3, 3, 3)]),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", CASES)
def test_an_operator_at_any_size(name):
    """One program for all sizes from the second on gives what plain Python does."""
    function, shapes, *places = CASES[name]
    compiled, draw = hybridize(function), numpy.random.RandomState(len(name))
    for n in SIZES:
        real = [tuple({"n": n, "m": n + 1}.get(d, d) for d in s) for s in shapes]
        given = [nd.array(draw.randint(0, 2, s) if places and i in places[0] else draw.randn(*s), dtype="float32")
                 for i, s in enumerate(real)]
        found = compiled(*given)
        with eagerly():
            wanted = function(*given)
        for a, b in zip(*(x if isinstance(x, (list, tuple)) else [x] for x in (found, wanted))):
            assert a.shape == b.shape and a.dtype == b.dtype, n
            numpy.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=3e-5, atol=3e-5, err_msg=str(n))
    most = 8 if name == "products" else 2                    # large ones have tiles that are made for their sizes
    assert len(compiled.programs) <= most, compiled._engine._any_size.why


@pytest.mark.parametrize("dtype", ("float32", "float16"))
def test_transposes_at_any_size(dtype):
    """By square tiles, and by plain loops where a side turns out to be shorter than a tile."""
    def function(x, y):
        return [nd.transpose(x, (0, 2, 1)) + 1, nd.transpose(y, (0, 2, 1)) * 2, nd.transpose(x[0], (1, 0)) * 3]

    compiled, draw = hybridize(function), numpy.random.RandomState(1)
    for n in (400, 330, 24, 17, 5, 31, 32, 16, 15, 33, 2, 64, 100):
        x, y = (nd.array(draw.randn(*s), dtype=dtype) for s in ((4, n, 96), (4, 96, n)))
        for a, b in zip(compiled(x, y), function(x, y)):
            numpy.testing.assert_array_equal(a.asnumpy(), b.asnumpy(), str(n))
    assert len(compiled.programs) == 1, compiled._engine._any_size.why


def test_windows_over_images_of_any_size_have_a_program_for_each():
    """One for all would take three to thirty times as long; batches of any size share one."""
    for function in (lambda x, w: nd.Convolution(x, w, kernel=(3, 3), num_filter=4, no_bias=True),
                     lambda x, w: nd.Pooling(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="max")):
        images, batches, w = hybridize(function), hybridize(function), nd.ones((4, 3, 3, 3))
        for n in (8, 9, 12):
            images(nd.ones((1, 3, n, n)), w)
            batches(nd.ones((n, 3, 8, 8)), w)
        assert len(images.programs) == 3 and "windows over images whose spatial sizes vary" in str(images.report())
        assert len(batches.programs) == 2


def test_small_arrays_are_computed_in_vectors():
    """OpenMP's ``if`` of a combined construct holds for all its parts: without its modifier no vectors are used where
    threads do not pay, which takes ten times as long."""
    compiled = hybridize(lambda x: nd.where(x > 0, x, x * 2))
    for n in (200, 300, 400):
        compiled(nd.ones((n, 640)))
    loops = [line for line in compiled.report().source.splitlines() if "parallel for simd" in line]
    assert loops and all(" if (parallel: " in line for line in loops)


@pytest.mark.parametrize("dtype", ("float32", "float64"))
def test_places_of_extremes_at_any_size(dtype):
    """In vectors; rows may be shorter than these, or hold NaN and infinities alone."""
    compiled = hybridize(lambda x: [nd.argmax(x, axis=1), nd.argmin(x, axis=1)])
    for n in (400, 333, 50, 17, 16, 15, 5, 2, 31, 64, 65, 127):
        x = numpy.random.RandomState(n).randint(-3, 3, (6, n)).astype(dtype)
        x[1], x[2], x[3, n // 2], x[4, 1:] = -numpy.inf, numpy.inf, numpy.nan, -numpy.inf
        for found, wanted in zip(compiled(nd.array(x, dtype=dtype)), (x.argmax(axis=1), x.argmin(axis=1))):
            numpy.testing.assert_array_equal(found.asnumpy(), wanted, str(n))
    assert len(compiled.programs) == 1 and {k.form for k in compiled.report().kernels} == {"vectors"}
