"""Layers of transformers (Vaswani et al. 2017): attention with masks, shared keys, rotary positions and a cache of
keys; encoder and decoder layers.

Arrays are (batch, length, units). The compiler finds softmax(Q Kᵀ) V in a hybridized block and computes it tile by
tile, without the matrix of weights in memory.
"""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Sequence

from ... import nd
from ...base.errors import AttributeValueError
from ..hybrid_block import HybridBlock
from .activations import GELU, Activation, SiLU
from .basic_layers import Dense, Dropout, HybridSequential, LayerNorm
from .checks import whole

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..options import BlockOptions

FAR = 1e30                      # what is taken from the logit of a key that a query may not see


class RMSNorm(HybridBlock):
    """x / sqrt(mean(x²) + epsilon) * gamma along an axis (Zhang and Sennrich 2019). in_channels: the length of that
    axis, 0: found out at the first call.

    >>> from hybrid import nd
    >>> from hybrid.gluon import nn
    >>> norm = nn.RMSNorm(in_channels=2)
    >>> norm.initialize()
    >>> norm(nd.array([[3, 4]])).round().asnumpy().tolist()
    [[1.0, 1.0]]
    """

    def __init__(self, axis: int = -1, epsilon: float = 1e-6, gamma_initializer: Any = "ones", in_channels: int = 0,
                 prefix: str | None = None, params: Any = None):
        super().__init__(prefix=prefix, params=params)
        self._axis, self._epsilon = axis, epsilon
        self.gamma = self.params.get("gamma", shape=(in_channels,), init=gamma_initializer, allow_deferred_init=True)

    def hybrid_forward(self, F: Any, x: Any, gamma: Any) -> Any:     # type: ignore[override]
        return F.RMSNorm(x, gamma, axis=self._axis, eps=self._epsilon)

    def __repr__(self) -> str:
        return f"RMSNorm(axis={self._axis}, epsilon={self._epsilon}, in_channels={self.gamma.shape[0]})"


class SwiGLU(HybridBlock):
    """W2 (silu(W1 x) * W3 x), the gated layer of Shazeer (2020): (…, units) -> (…, units) by way of
    hidden_size. use_bias: whether the three Dense layers have biases; in_units: their input's length, 0: found out at
    the first call."""

    def __init__(self, units: int, hidden_size: int, use_bias: bool = False, in_units: int = 0,
                 **kwargs: Unpack[BlockOptions]):
        super().__init__(**kwargs)
        with self.name_scope():
            self.gate = Dense(hidden_size, use_bias=use_bias, flatten=False, in_units=in_units, prefix="gate_")
            self.up = Dense(hidden_size, use_bias=use_bias, flatten=False, in_units=in_units, prefix="up_")
            self.down = Dense(units, use_bias=use_bias, flatten=False, in_units=hidden_size, prefix="down_")
            self.silu = SiLU()

    def hybrid_forward(self, F: Any, x: Any) -> Any:                 # type: ignore[override]
        return self.down(self.silu(self.gate(x)) * self.up(x))


class SinusoidalPositions(HybridBlock):
    """x (batch, length, units) with sines and cosines of its positions added (Vaswani et al. 2017, section 3.5): for
    the first half of the units sin(t / base^(2 i / units)), for the second half the cosines. dropout: the rate of a
    Dropout of the sum."""

    def __init__(self, units: int, base: float = 10000.0, dropout: float = 0.0, **kwargs: Unpack[BlockOptions]):
        super().__init__(**kwargs)
        self._units, self._base = _even("SinusoidalPositions", "units", units), base
        self.dropout = Dropout(dropout) if dropout else None

    def hybrid_forward(self, F: Any, x: Any) -> Any:                 # type: ignore[override]
        angles = _angles(F, x, F.contrib.arange_like(x, axis=1), self._units, self._base)
        table = F.concat(F.sin(angles), F.cos(angles), dim=1)
        x = F.broadcast_add(x, F.expand_dims(table, axis=0))
        return x if self.dropout is None else self.dropout(x)


class RotaryPositions(HybridBlock):
    """Queries or keys (batch, heads, length, depth) turned by their position (Su et al. 2021): element i of the first
    half and of the second half by the angle t / base^(2 i / depth). offset (1,): the position of the first one."""

    def __init__(self, depth: int, base: float = 10000.0, **kwargs: Unpack[BlockOptions]):
        super().__init__(**kwargs)
        self._depth, self._base = _even("RotaryPositions", "depth", depth), base

    def hybrid_forward(self, F: Any, x: Any, offset: Any = None) -> Any:     # type: ignore[override]
        positions = F.contrib.arange_like(x, axis=2)
        if offset is not None:
            positions = F.broadcast_add(positions, offset)
        angles = _angles(F, x, positions, self._depth, self._base)
        sin, cos = (F.expand_dims(F.expand_dims(a, axis=0), axis=0) for a in (F.sin(angles), F.cos(angles)))
        first, second = F.split(x, num_outputs=2, axis=-1)
        return F.concat(F.broadcast_mul(first, cos) - F.broadcast_mul(second, sin),
                        F.broadcast_mul(second, cos) + F.broadcast_mul(first, sin), dim=-1)


def _even(layer: str, name: str, n: int) -> int:
    if whole(layer, name, n) % 2:
        raise AttributeValueError(f"{layer}: {name}={n} must be even: half of it are sines, half are cosines")
    return n


def _angles(F: Any, x: Any, positions: Any, depth: int, base: float) -> Any:
    """Positions times the frequencies base^(-2 i / depth), for x (…, depth): (length, depth / 2)."""
    places = F.contrib.arange_like(F.slice_axis(x, axis=-1, begin=0, end=depth // 2), axis=-1)     # on x's device
    steps = F.exp(F.cast(places, dtype="float32") * (-2 * math.log(base) / depth))
    return F.broadcast_mul(F.reshape(positions, (-1, 1)), F.reshape(steps, (1, -1)))


class MultiHeadAttention(HybridBlock):
    """Attention of several heads: softmax(Q Kᵀ / sqrt(depth)) V of projections of queries, keys and values.

    Parameters: units (of the result, divided among the heads), num_heads, num_kv_heads (fewer heads for keys and
    values, each shared by several heads of queries; default num_heads), dropout (of the weights), use_bias, causal (a
    query sees keys up to its own position), rotary (True, or the base of the angles: positions by RotaryPositions),
    in_units.

    Call: attention(query (batch, m, …), key (batch, n, …) = query, value = key, mask = None, cache = None). mask (m, n)
    or (batch, m, n) is 1 where a query may see a key, and 0 elsewhere. The result is (batch, m, units). With a cache,
    of ``empty_cache``, the new keys and values are kept in it, and the result is (output, cache): a text is continued
    token by token with arrays of one size, by one compiled program. The arrays that were given stay as they were; a
    compiled function that assigns the new ones to them (``old[:] = new``) writes the new positions alone.

    >>> from hybrid import nd
    >>> from hybrid.gluon import nn
    >>> attention = nn.MultiHeadAttention(8, 2, causal=True)
    >>> attention.initialize()
    >>> attention(nd.ones((1, 5, 8))).shape
    (1, 5, 8)
    >>> cache = attention.empty_cache(1, 16)
    >>> out, cache = attention(nd.ones((1, 1, 8)), cache=cache)
    >>> out.shape, cache[2].asscalar()
    ((1, 1, 8), 1.0)
    """

    def __init__(self, units: int, num_heads: int, num_kv_heads: int | None = None, dropout: float = 0.0,
                 use_bias: bool = True, causal: bool = False, rotary: bool | float = False, in_units: int = 0,
                 weight_initializer: Any = None, **kwargs: Unpack[BlockOptions]):
        super().__init__(**kwargs)
        shared = num_heads if num_kv_heads is None else num_kv_heads
        if whole("MultiHeadAttention", "units", units) % whole("MultiHeadAttention", "num_heads", num_heads):
            raise AttributeValueError(f"MultiHeadAttention: units={units} must be a multiple of num_heads={num_heads}")
        if num_heads % whole("MultiHeadAttention", "num_kv_heads", shared):
            raise AttributeValueError(f"MultiHeadAttention: num_heads={num_heads} must be a multiple of "
                                      f"num_kv_heads={shared}")
        self._heads, self._shared, self._depth, self._causal = num_heads, shared, units // num_heads, causal
        given: dict[str, Any] = {"use_bias": use_bias, "flatten": False, "weight_initializer": weight_initializer}
        with self.name_scope():
            self.query_proj = Dense(units, in_units=in_units, prefix="query_", **given)
            self.key_proj = Dense(shared * self._depth, in_units=in_units, prefix="key_", **given)
            self.value_proj = Dense(shared * self._depth, in_units=in_units, prefix="value_", **given)
            self.out_proj = Dense(units, in_units=units, prefix="out_", **given)
            self.dropout = Dropout(dropout) if dropout else None
            self.rotary = None if rotary is False else RotaryPositions(
                self._depth, 10000.0 if rotary is True else float(rotary))

    def empty_cache(self, batch: int, length: int, ctx: Any = None, dtype: Any = "float32") -> tuple[Any, Any, Any]:
        """Room for the keys and values of ``length`` positions, and how many are taken: (batch, heads, length, depth)
        twice, and (1,)."""
        shape = (batch, self._shared, length, self._depth)
        return nd.zeros(shape, ctx, dtype), nd.zeros(shape, ctx, dtype), nd.zeros((1,), ctx)

    def hybrid_forward(self, F: Any, query: Any, key: Any = None, value: Any = None,     # type: ignore[override]
                       mask: Any = None, cache: Sequence[Any] | None = None) -> Any:
        key = query if key is None else key
        value = key if value is None else value
        q, k, v = (self._split(F, proj(x), heads) for proj, x, heads in (
            (self.query_proj, query, self._heads), (self.key_proj, key, self._shared),
            (self.value_proj, value, self._shared)))
        used = None if cache is None else cache[2]
        if self.rotary is not None:
            q, k = (self.rotary(x) if used is None else self.rotary(x, used) for x in (q, k))
        if cache is not None:
            taken = F.broadcast_add(used, F.reshape(F.sum(F.ones_like(F.contrib.arange_like(k, axis=2))), (1,)))
            k, v = (_kept(F, old, new, used, taken) for old, new in ((cache[0], k), (cache[1], v)))
            cache = (k, v, taken)
        out = self.out_proj(self._attend(F, q, k, v, mask, used))
        return out if cache is None else (out, cache)

    def _split(self, F: Any, x: Any, heads: int) -> Any:
        """(batch, length, heads * depth) -> (batch, heads, length, depth)."""
        return F.transpose(F.reshape(x, (0, 0, -4, heads, -1)), (0, 2, 1, 3))

    def _attend(self, F: Any, q: Any, k: Any, v: Any, mask: Any, used: Any) -> Any:
        if self._shared != self._heads:
            k, v = (F.repeat(x, self._heads // self._shared, axis=1) for x in (k, v))
        rows, places = F.contrib.arange_like(q, axis=2), F.contrib.arange_like(k, axis=2)
        q, k, v = (F.reshape(x, (-3, 0, 0)) for x in (q, k, v))
        logits = F.batch_dot(q, k, transpose_b=True) * (1 / math.sqrt(self._depth))
        if mask is not None:
            logits = F.broadcast_add(logits, self._of_heads(F, (mask - 1) * FAR))
        if self._causal or used is not None:
            rows = rows if used is None else F.broadcast_add(rows, used)
            seen = F.broadcast_lesser_equal(F.reshape(places, (1, -1)), F.reshape(rows, (-1, 1)))
            logits = F.broadcast_add(logits, F.expand_dims((seen - 1) * FAR, axis=0))
        weights = F.softmax(logits, axis=-1)
        if self.dropout is not None:
            weights = self.dropout(weights)
        out = F.reshape(F.batch_dot(weights, v), (-4, -1, self._heads, 0, 0))
        return F.reshape(F.transpose(out, (0, 2, 1, 3)), (0, 0, -3))

    def _of_heads(self, F: Any, mask: Any) -> Any:
        """A mask (m, n) or (batch, m, n) for all heads of a batch: (1 or batch * heads, m, n)."""
        if len(mask.shape) == 2:
            return F.expand_dims(mask, axis=0)
        return F.repeat(mask, self._heads, axis=0)

    def __repr__(self) -> str:
        more = f", num_kv_heads={self._shared}" if self._shared != self._heads else ""
        return (f"MultiHeadAttention({self._heads * self._depth}, {self._heads}{more}"
                f"{', causal=True' if self._causal else ''}{', rotary' if self.rotary is not None else ''})")


def _kept(F: Any, old: Any, new: Any, used: Any, taken: Any) -> Any:
    """Keys or values with new ones at positions from ``used`` to before ``taken``."""
    places = F.contrib.arange_like(old, axis=2)
    at = F.broadcast_minimum(F.relu(F.broadcast_sub(places, used)), F.broadcast_sub(taken, used) - 1)
    fresh = F.broadcast_greater_equal(places, used) * F.broadcast_lesser(places, taken)
    fresh = F.broadcast_like(F.reshape(fresh, (1, 1, -1, 1)), old)
    return F.where(fresh, F.take(new, at, axis=2), old)


class _Feed(HybridBlock):
    """Two dense layers with an activation between them."""

    def __init__(self, units: int, hidden_size: int, activation: str, dropout: float, **kwargs: Unpack[BlockOptions]):
        super().__init__(**kwargs)
        with self.name_scope():
            self.body = HybridSequential(prefix="")
            self.body.add(Dense(hidden_size, flatten=False, in_units=units), _activation(activation))
            if dropout:
                self.body.add(Dropout(dropout))
            self.body.add(Dense(units, flatten=False, in_units=hidden_size))

    def hybrid_forward(self, F: Any, x: Any) -> Any:                 # type: ignore[override]
        return self.body(x)


def _activation(name: str) -> HybridBlock:
    return GELU() if name == "gelu" else SiLU() if name == "silu" else Activation(name)


class TransformerEncoderLayer(HybridBlock):
    """Self-attention and a layer for each position, each added to its input: (batch, length, units) -> the same.

    Parameters: units, hidden_size, num_heads; dropout (of what is added), attention_dropout; activation ("relu",
    "gelu", "silu", …, or "swiglu": SwiGLU); pre_norm (the input of each part is normalised, as in newer networks, else
    their result, as in the paper); norm ("layer" or "rms"); and those of MultiHeadAttention: num_kv_heads, causal,
    rotary, use_bias. epsilon: of the normalisations. Call: layer(x, mask=None, cache=None), as MultiHeadAttention.
    """

    def __init__(self, units: int, hidden_size: int, num_heads: int, dropout: float = 0.0,
                 attention_dropout: float = 0.0,
                 activation: str = "relu", pre_norm: bool = False, norm: str = "layer", epsilon: float = 1e-5,
                 num_kv_heads: int | None = None, causal: bool = False, rotary: bool | float = False,
                 use_bias: bool = True, **kwargs: Unpack[BlockOptions]):
        super().__init__(**kwargs)
        self._pre = pre_norm
        with self.name_scope():
            self.attention = MultiHeadAttention(units, num_heads, num_kv_heads, attention_dropout, use_bias, causal,
                                                rotary, in_units=units, prefix="attention_")
            self.attention_norm = _norm(norm, units, epsilon)
            self.feed: HybridBlock = SwiGLU(units, hidden_size, in_units=units, prefix="feed_") \
                if activation == "swiglu" else _Feed(units, hidden_size, activation, dropout, prefix="feed_")
            self.feed_norm = _norm(norm, units, epsilon)
            self.dropout = Dropout(dropout) if dropout else None

    def hybrid_forward(self, F: Any, x: Any, mask: Any = None, cache: Any = None) -> Any:     # type: ignore[override]
        found = self.attention(self.attention_norm(x) if self._pre else x, None, None, mask, cache)
        out, cache = (found, None) if cache is None else found
        x = self._added(x, out, self.attention_norm)
        x = self._added(x, self.feed(self.feed_norm(x) if self._pre else x), self.feed_norm)
        return x if cache is None else (x, cache)

    def _added(self, x: Any, out: Any, norm: Any) -> Any:
        x = x + (out if self.dropout is None else self.dropout(out))
        return x if self._pre else norm(x)


def _norm(kind: str, units: int, epsilon: float) -> HybridBlock:
    if kind not in ("layer", "rms"):
        raise AttributeValueError(f"norm={kind!r} is not known: use 'layer' or 'rms'")
    return LayerNorm(epsilon=epsilon, in_channels=units) if kind == "layer" else RMSNorm(epsilon=epsilon,
                                                                                       in_channels=units)


class TransformerDecoderLayer(TransformerEncoderLayer):
    """Causal self-attention, attention to an encoder's result, and a layer for each position: (batch, length, units) ->
    the same. Parameters as TransformerEncoderLayer; call: layer(x, memory, mask=None, memory_mask=None, cache=None)."""

    def __init__(self, units: int, hidden_size: int, num_heads: int, dropout: float = 0.0,
                 attention_dropout: float = 0.0,
                 activation: str = "relu", pre_norm: bool = False, norm: str = "layer", epsilon: float = 1e-5,
                 causal: bool = True, **kwargs: Unpack[BlockOptions]):
        super().__init__(units, hidden_size, num_heads, dropout, attention_dropout, activation, pre_norm, norm, epsilon,
                         causal=causal, **kwargs)
        with self.name_scope():
            self.memory_attention = MultiHeadAttention(units, num_heads, dropout=attention_dropout, prefix="memory_")
            self.memory_norm = _norm(norm, units, epsilon)

    def hybrid_forward(self, F: Any, x: Any, memory: Any, mask: Any = None,
                       memory_mask: Any = None,  # type: ignore[override]
                       cache: Any = None) -> Any:
        found = self.attention(self.attention_norm(x) if self._pre else x, None, None, mask, cache)
        out, cache = (found, None) if cache is None else found
        x = self._added(x, out, self.attention_norm)
        out = self.memory_attention(self.memory_norm(x) if self._pre else x, memory, memory, memory_mask)
        x = self._added(x, out, self.memory_norm)
        x = self._added(x, self.feed(self.feed_norm(x) if self._pre else x), self.feed_norm)
        return x if cache is None else (x, cache)


class _Stack(HybridBlock):
    """``num_layers`` layers of one class, one after the other, with pre_norm one more normalisation at the end."""
    layer: type[TransformerEncoderLayer]

    def __init__(self, num_layers: int, units: int, hidden_size: int, num_heads: int, pre_norm: bool = False,
                 norm: str = "layer", epsilon: float = 1e-5, prefix: str | None = None, params: Any = None,
                 **kwargs: Any):
        super().__init__(prefix=prefix, params=params)
        with self.name_scope():
            self.layers = HybridSequential(prefix="")
            for _ in range(whole(type(self).__name__, "num_layers", num_layers)):
                self.layers.add(self.layer(units, hidden_size, num_heads, pre_norm=pre_norm, norm=norm, epsilon=epsilon,
                                           **kwargs))
            self.last_norm = _norm(norm, units, epsilon) if pre_norm else None

    def empty_cache(self, batch: int, length: int, ctx: Any = None, dtype: Any = "float32") -> list[tuple[Any, ...]]:
        """A cache of each layer's attention, for ``length`` positions."""
        return [layer.attention.empty_cache(batch, length, ctx, dtype) for layer in self.layers]

    def _through(self, x: Any, given: tuple[Any, ...], cache: Any) -> Any:
        caches = []
        for i, layer in enumerate(self.layers):
            if cache is None:
                x = layer(x, *given)
            else:
                x, kept = layer(x, *given, cache[i])
                caches.append(kept)
        if self.last_norm is not None:
            x = self.last_norm(x)
        return x if cache is None else (x, caches)


class TransformerEncoder(_Stack):
    """``num_layers`` of TransformerEncoderLayer, with pre_norm one more normalisation at the end; its parameters are
    for each of them. Call: encoder(x, mask=None, cache=None), x and the result (batch, length, units), cache a list
    with one for each layer, of ``empty_cache``; then the result is (x, caches)."""
    layer = TransformerEncoderLayer

    def hybrid_forward(self, F: Any, x: Any, mask: Any = None, cache: Any = None) -> Any:     # type: ignore[override]
        return self._through(x, (mask,), cache)


class TransformerDecoder(_Stack):
    """``num_layers`` of TransformerDecoderLayer, with pre_norm one more normalisation at the end; its parameters are
    for each of them, as TransformerEncoderLayer tells them. Call: decoder(x, memory, mask=None, memory_mask=None,
    cache=None), x and the result (batch, length, units), memory (batch, other length, units) of an encoder, cache as
    for TransformerEncoder."""
    layer = TransformerDecoderLayer

    def hybrid_forward(self, F: Any, x: Any, memory: Any, mask: Any = None,                   # type: ignore[override]
                       memory_mask: Any = None, cache: Any = None) -> Any:
        return self._through(x, (memory, mask, memory_mask), cache)


__all__ = ["MultiHeadAttention", "RMSNorm", "RotaryPositions", "SinusoidalPositions", "SwiGLU",
           "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer"]
