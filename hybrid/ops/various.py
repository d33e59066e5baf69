"""Operators that belong to no family: Fourier transforms, sketches, histograms, comparisons, straight-through
gradients, Hawkes processes."""
from __future__ import annotations

import math

import numpy as np

from ..base import dtype as dt
from .. import ir
from ..base.errors import AttributeValueError, ShapeError
from ..ir import Node
from .attributes import Attrs, written
from .elementwise import one_shape
from .registry import Bool, Float, Floats, Int, Lowered, Number, op


@op("_contrib_allclose", "a b", mx=("contrib.allclose",), rtol=Float(1e-5), atol=Float(1e-8), equal_nan=Bool(True))
def allclose(x: Node, y: Node, a: Attrs) -> Node:
    """1 where all |a - b| <= atol + rtol * |b|, else 0; uint8, without axes."""
    near = ir.map("le", ir.map("abs", x - y), ir.map("abs", y) * a.rtol + a.atol)
    near = ir.map("logical_or", near, ir.map("eq", x, y))
    if a.equal_nan and dt.is_float(x.dtype) and dt.is_float(y.dtype):
        near = ir.map("logical_or", near, ir.map("logical_and", ir.map("isnan", x), ir.map("isnan", y)))
    return ir.cast(ir.reduce("min", ir.cast(near, dt.float32), tuple(range(near.ndim))), dt.uint8)


@op("_contrib_round_ste", "data", mx=("contrib.round_ste",))
def round_ste(data: Node, a: Attrs) -> Node:
    """round(data) with the gradient of the identity: Bengio et al., "Estimating or propagating gradients through
    stochastic neurons" (2013)."""
    return _straight_through(data, ir.map("round", data))


@op("_contrib_sign_ste", "data", mx=("contrib.sign_ste",))
def sign_ste(data: Node, a: Attrs) -> Node:
    """sign(data) with the gradient of the identity."""
    return _straight_through(data, ir.map("direction", data))


def _straight_through(data: Node, value: Node) -> Node:
    return ir.with_grad(value, (data,), "straight_through")


@ir.register_grad("straight_through")
def _straight_through_grad(g: Node, attrs: object, value: Node, data: Node) -> tuple[Node]:
    return (ir.cast(g, data.dtype),)


@op("_identity_with_attr_like_rhs", "lhs rhs", params=one_shape)
def identity_with_attr_like_rhs(lhs: Node, rhs: Node, a: Attrs) -> Node:
    """lhs; its shape and dtype are those of rhs."""
    return lhs


@op("_scatter_plus_scalar", "data", scalar=Number(1.0), is_int=Bool(True))
def scatter_plus_scalar(data: Node, a: Attrs) -> Node:
    """data + scalar."""
    return data + a.scalar


@op("_scatter_minus_scalar", "data", scalar=Number(1.0), is_int=Bool(True))
def scatter_minus_scalar(data: Node, a: Attrs) -> Node:
    """data - scalar."""
    return data - a.scalar


@op("_scatter_elemwise_div", "lhs rhs", params=one_shape)
def scatter_elemwise_div(lhs: Node, rhs: Node, a: Attrs) -> Node:
    """lhs / rhs."""
    return lhs / rhs


# ---- Fourier transforms of the last axis
def _waves(n: int, dtype: np.dtype, inverse: bool) -> Node:
    """The transform as a matrix: real and imaginary parts side by side (n, 2n), or the real part of the inverse (2n,
    n), not divided by n."""
    written(2 * n * n, "weights")
    turn = 2 * math.pi * ((np.arange(n)[:, None] * np.arange(n)[None]) % n) / n
    pair = np.stack([np.cos(turn), -np.sin(turn)], -1).reshape(n, 2 * n)
    return ir.data((pair.T if inverse else pair).astype(dtype))


@op("_contrib_fft", "data", mx=("contrib.fft",), compute_size=Int(128))
def fft(data: Node, a: Attrs) -> Node:
    """The discrete Fourier transform of the last axis: (…, d) to (…, 2d), real and imaginary parts in turn. By a matrix
    product."""
    if data.ndim not in (2, 4):
        raise ShapeError(f"data must have 2 or 4 axes, got {data.shape}")
    return ir.dot(data, _waves(data.shape[-1], data.dtype, False), ((data.ndim - 1,), (0,)))


@op("_contrib_ifft", "data", mx=("contrib.ifft",), compute_size=Int(128))
def ifft(data: Node, a: Attrs) -> Node:
    """The real part of the inverse transform of fft's result, not divided by d: (…, 2d) to (…, d)."""
    if data.ndim not in (2, 4) or data.shape[-1] % 2:
        raise ShapeError(f"data must have 2 or 4 axes, the last of even length, got {data.shape}")
    return ir.dot(data, _waves(data.shape[-1] // 2, data.dtype, True), ((data.ndim - 1,), (0,)))


@op("_contrib_count_sketch", "data h s", mx=("contrib.count_sketch",), out_dim=Int(), processing_batch_size=Int(32))
def count_sketch(data: Node, h: Node, s: Node, a: Attrs) -> Node:
    """out[:, h[i]] += s[i] * data[:, i]: Pham and Pagh, "Fast and scalable polynomial kernels via explicit feature
    maps" (2013)."""
    d = data.shape[-1] if data.ndim else 0
    if data.ndim != 2 or h.size != d or s.size != d or a.out_dim < 1:
        raise ShapeError(f"data (N, d), h and s of d entries and out_dim of at least 1 are needed, got {data.shape}, "
                         f"{h.shape}, {s.shape} and {a.out_dim}")
    signed = data * ir.reshape(s, (1, d))
    return ir.scatter_add(ir.cast(ir.reshape(h, (d,)), dt.int64), signed, 1, a.out_dim)


# ---- histograms
@op("_histogram", "data bins?", outputs=lambda a: 2, bin_cnt=Int(None), range=Floats(None))
def histogram(data: Node, bins: Node | None, a: Attrs) -> tuple[Node, Node]:
    """How many elements fall between edges (int64), and the edges: those given in ``bins``, or bin_cnt equal parts of
    ``range``. The last part has both its edges in it; what lies outside counts nowhere."""
    x = ir.reshape(data, (data.size, 1))
    if bins is None:
        if a.bin_cnt is None or a.bin_cnt < 1 or a.range is None or len(a.range) != 2 or a.range[0] >= a.range[1]:
            raise AttributeValueError(f"histogram needs bins, or bin_cnt of at least 1 and a range (low, high), got "
                                      f"bin_cnt={a.bin_cnt}, range={a.range}")
        edges = ir.data(np.linspace(a.range[0], a.range[1], a.bin_cnt + 1).astype(data.dtype))
    else:
        edges = bins
        if edges.ndim != 1 or edges.size < 2:
            raise ShapeError(f"bins must be a vector of two or more edges, got {edges.shape}")
    k = edges.size - 1
    low, high = ir.reshape(ir.slice(edges, (0,), (k,)), (1, k)), ir.reshape(ir.slice(edges, (1,), (k,)), (1, k))
    last = ir.reshape(ir.map("eq", ir.iota(k), k - 1), (1, k))
    inside = ir.map("logical_and", ir.map("ge", x, low),
                    ir.map("logical_or", ir.map("lt", x, high), ir.map("logical_and", last, ir.map("eq", x, high))))
    return ir.reduce("sum", ir.cast(inside, dt.int64), (0,)), edges


@op("fill_element_0index", "lhs mhs rhs")
def fill_element_0index(lhs: Node, mhs: Node, rhs: Node, a: Attrs) -> Node:
    """lhs (rows, columns) with mhs[i] at column rhs[i] of row i."""
    if lhs.ndim != 2 or mhs.shape != lhs.shape[:1] or rhs.shape != lhs.shape[:1]:
        raise ShapeError(f"lhs (rows, columns), mhs (rows,) and rhs (rows,) are needed, got {lhs.shape}, {mhs.shape}, "
                         f"{rhs.shape}")
    rows, columns = lhs.shape
    hit = ir.map("eq", ir.reshape(ir.iota(columns), (1, columns)), ir.reshape(ir.cast(rhs, dt.int64), (rows, 1)))
    return ir.map("where", hit, ir.cast(ir.reshape(mhs, (rows, 1)), lhs.dtype), lhs)


@op("_onehot_encode", "lhs rhs")
def onehot_encode(lhs: Node, rhs: Node, a: Attrs) -> Node:
    """Rows of zeros with a 1 where lhs (rows,) says, in the shape of rhs."""
    if rhs.ndim != 2 or lhs.shape != rhs.shape[:1]:
        raise ShapeError(f"indices (rows,) and an array (rows, columns) are needed, got {lhs.shape} and {rhs.shape}")
    n = rhs.shape[1]
    return ir.cast(ir.map("eq", ir.reshape(ir.iota(n), (1, n)), ir.reshape(ir.cast(lhs, dt.int64), (-1, 1))), rhs.dtype)


@op("IdentityAttachKLSparseReg", "data moving_avg", aux="moving_avg", needs=("train",),
    params=lambda shapes, a: [shapes[0], shapes[0][1:2] if shapes[0] else shapes[1]],
    sparseness_target=Float(0.1), penalty=Float(0.001), momentum=Float(0.9))
def identity_attach_kl_sparse_reg(data: Node, moving_avg: Node, a: Attrs) -> Lowered:
    """data, whose gradient also gets that of the divergence of its mean activations (columns of (N, units), from a
    sigmoid) from sparseness_target."""
    if data.ndim != 2 or moving_avg.shape != data.shape[1:]:
        raise ShapeError(f"data (N, units) and moving_avg (units,) are needed, got {data.shape} and {moving_avg.shape}")
    mean = ir.reduce("sum", data, (0,)) * (1.0 / max(1, data.shape[0]))
    average = ir.detach(moving_avg * a.momentum + mean * (1 - a.momentum))
    pull = (-a.sparseness_target / average + (1 - a.sparseness_target) / (1 - average)) * a.penalty
    out = ir.with_grad(data + 0, (data, ir.reshape(pull, (1, -1))), "kl_sparse")
    return Lowered((out,), {"moving_avg": average} if a.train else {})


@ir.register_grad("kl_sparse")
def _kl_sparse_grad(g: Node, attrs: object, value: Node, data: Node, pull: Node) -> tuple[Node, None]:
    return g + pull, None


# ---- Hawkes processes
@op("_contrib_hawkesll", "lda alpha beta state lags marks valid_length max_time", mx=("contrib.hawkesll",),
    outputs=lambda a: 2)
def hawkesll(lda: Node, alpha: Node, beta: Node, state: Node, lags: Node, marks: Node, valid_length: Node,
             max_time: Node, a: Attrs) -> tuple[Node, Node]:
    """Log likelihood of Hawkes processes with exponential decay: Bacry et al., "Hawkes processes in finance" (2015).

    lda, state (N, K); alpha, beta (K,); lags, marks (N, T): times since the event before, and numbers of processes, of
    which the first valid_length (N,) count; max_time (N,). Gives the likelihoods (N,) and the states (N, K) at
    max_time.
    """
    if (lda.ndim != 2 or lags.ndim != 2 or state.shape != lda.shape or marks.shape != lags.shape
        or alpha.shape != lda.shape[1:] or beta.shape != alpha.shape \
            or valid_length.shape != lda.shape[:1] or max_time.shape != lda.shape[:1] or lags.shape[0] != lda.shape[0]):
        raise ShapeError("lda and state (N, K), alpha and beta (K,), lags and marks (N, T), valid_length and max_time "
                         "(N,) are needed")
    (n, k), steps = lda.shape, lags.shape[1]
    rates, decay = ir.reshape(alpha, (1, k)), ir.reshape(beta, (1, k))
    kinds = ir.reshape(ir.iota(k), (1, k))
    valid = ir.cast(ir.reshape(valid_length, (n, 1)), dt.int64)

    def step(carries: tuple[Node, ...], slices: tuple[Node, ...],
             constants: tuple[Node, ...]) -> tuple[list[Node], list[Node]]:
        ll, now, last, held, count = carries
        lag, mark = slices
        lda_, rates_, decay_, valid_ = constants
        use = ir.map("lt", count, valid_)                                            # (N, 1)
        now_next = ir.map("where", use, now + ir.reshape(lag, (n, 1)), now)
        mine = ir.map("logical_and", use, ir.map("eq", kinds, ir.reshape(ir.cast(mark, dt.int64), (n, 1))))
        gap = now_next - last
        faded = held * ir.map("exp", -decay_ * gap)
        intensity = lda_ + rates_ * decay_ * faded
        # the intensity, summed over the time
        passed = lda_ * gap + rates_ * (held - faded)
        gain = ir.map("log", ir.map("where", mine, intensity, 1.0)) - ir.map("where", mine, passed, 0)
        ll_next = ll + ir.reduce("sum", gain, (1,), True)
        return [ll_next, now_next, ir.map("where", mine, now_next, last), ir.map("where", mine, faded + 1.0, held),
                count + 1], []

    zero = ir.full(0, (n, 1), lda.dtype)
    start = [zero, zero, ir.full(0, (n, k), lda.dtype), state, ir.full(0, (n, 1), dt.int64)]
    if steps:
        (ll, _, last, held, _), _ = ir.loop(step, start, [ir.permute(lags, (1, 0)), ir.permute(marks, (1, 0))],
                                            [lda, rates, decay, valid])
    else:
        ll, _, last, held, _ = start
    gap = ir.reshape(max_time, (n, 1)) - last
    faded = held * ir.map("exp", -decay * gap)
    rest = lda * gap + rates * (held - faded)
    return ir.reshape(ll, (n,)) - ir.reduce("sum", rest, (1,)), faded
