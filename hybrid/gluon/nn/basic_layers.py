"""Containers and basic layers."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...nd import functions
from ... import autograd
from ...base import dtype as dt
from ...base.errors import HybridError, warn_user
from ...base.scope import SCOPE
from ..block import Block
from ..hybrid_block import HybridBlock
from .activations import Activation
from .checks import number, whole

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..options import BlockOptions


class _Container:
    """What all containers share: children by number."""
    _children: Any
    prefix: str

    def __len__(self) -> int:
        return len(self._children)

    def __iter__(self) -> Any:
        return iter(self._children.values())

    def __getitem__(self, key: Any) -> Any:
        layers = list(self._children.values())[key]
        if not isinstance(layers, list):
            return layers
        out: Any = type(self)(prefix=self.prefix)                    # type: ignore[call-arg]
        with out.name_scope():
            out.add(*layers)
        return out

    def add(self, *blocks: Any) -> None:
        """Add blocks at the end."""
        for b in blocks:
            self.register_child(b)                                   # type: ignore[attr-defined]

    def _through(self, x: Any, *args: Any) -> Any:
        """One child after another; the first takes all arguments, the next ones what the one before gives."""
        for block in self._children.values():
            x = block(x, *args)
            args = ()
            if isinstance(x, (tuple, list)):
                args, x = tuple(x[1:]), x[0]
        return (x, *args) if args else x


class Sequential(_Container, Block):
    """Blocks one after another."""

    def forward(self, x: Any, *args: Any) -> Any:
        return self._through(x, *args)

    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        """Hybridize the children; a warning when all could be one program."""
        if self._children and all(isinstance(c, HybridBlock) for c in self._children.values()):
            warn_user(f"all children of this {type(self).__name__} layer {self.prefix!r} are HybridBlocks; "
                      f"HybridSequential compiles them as one program")
        super().hybridize(active, **kwargs)


class HybridSequential(_Container, HybridBlock):
    """HybridBlocks one after another, compiled as one program. A subclass may define its own ``hybrid_forward``."""

    def hybrid_forward(self, F: Any, x: Any, *args: Any) -> Any:     # type: ignore[override]
        return self._through(x, *args)


def _results(block: Any, x: Any) -> list[Any]:
    if not block._children:
        raise HybridError(f"{type(block).__name__} has no blocks to join the results of: add() some")
    return [child(x) for child in block._children.values()]


class Concurrent(Sequential):
    """Blocks side by side, their results concatenated along an axis."""

    def __init__(self, axis: int = -1, prefix: str | None = None, params: Any = None):
        super().__init__(prefix=prefix, params=params)
        self.axis = axis

    def forward(self, x: Any, *args: Any) -> Any:
        return functions.resolve("nd", "concat")(*_results(self, x), dim=self.axis)


class HybridConcurrent(HybridSequential):
    """HybridBlocks side by side, their results concatenated along an axis."""

    def __init__(self, axis: int = -1, prefix: str | None = None, params: Any = None):
        super().__init__(prefix=prefix, params=params)
        self.axis = axis

    def hybrid_forward(self, F: Any, x: Any, *args: Any) -> Any:     # type: ignore[override]
        return functions.resolve("nd", "concat")(*_results(self, x), dim=self.axis)


class Concatenate(Concurrent):
    """MXNet 2's name of Concurrent, with its axis."""


class HybridConcatenate(HybridConcurrent):
    """MXNet 2's name of HybridConcurrent, with its axis."""


class Identity(HybridBlock):
    """The input itself, of any shape and dtype."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:                 # type: ignore[override]
        return x


class Dense(HybridBlock):
    """activation(x weightᵀ + bias). weight (units, in_units); in_units 0: found out at the first call.

    With flatten the input (N, …) is joined to (N, in_units); without it the last axis is used. activation: the name of
    one, or None. use_bias: whether ``bias`` (units,) is added. dtype: of the parameters.
    """

    def __init__(self, units: int, activation: Any = None, use_bias: bool = True, flatten: bool = True,
                 dtype: Any = "float32", weight_initializer: Any = None,
                 bias_initializer: Any = "zeros", in_units: int = 0, **kwargs: Unpack[BlockOptions]):
        super().__init__(**kwargs)
        self._flatten = flatten
        with self.name_scope():
            self._units, self._in_units = whole("Dense", "units", units, 0), whole("Dense", "in_units", in_units, 0)
            self.weight = self.params.get("weight", shape=(units, in_units), init=weight_initializer, dtype=dtype,
                                          allow_deferred_init=True)
            self.bias = self.params.get("bias", shape=(units,), init=bias_initializer, dtype=dtype,
                                        allow_deferred_init=True) if use_bias else None
            self.act = Activation(activation, prefix=activation + "_") if isinstance(activation, str) else activation

    def hybrid_forward(self, F: Any, x: Any, weight: Any, bias: Any = None) -> Any:      # type: ignore[override]
        out = F.FullyConnected(x, weight, bias, no_bias=bias is None, num_hidden=self._units, flatten=self._flatten,
                               name="fwd")
        return out if self.act is None else self.act(out)

    def __repr__(self) -> str:
        n = self.weight.shape
        act = f"{self.act!r}" if self.act is not None else "linear"
        return f"Dense({n[1] if n[1] else None} -> {n[0]}, {act})"


class Dropout(HybridBlock):
    """x of any shape, while training: each element is 0 with probability rate, others are divided by (1 - rate).
    Outside of ``autograd.record()`` it is x itself.

    rate: from 0 to 1, AttributeValueError for others. axes: along these, all elements share one draw.
    """

    def __init__(self, rate: float, axes: Any = (), **kwargs: Unpack[BlockOptions]):
        super().__init__(**kwargs)
        self._rate, self._axes = number("Dropout", "rate", rate, most=1), axes

    def hybrid_forward(self, F: Any, x: Any) -> Any:                 # type: ignore[override]
        if self._rate > 0:
            return F.Dropout(x, p=self._rate, axes=self._axes, name="fwd", cudnn_off=False)
        return F.identity(x)

    def __repr__(self) -> str:
        return f"Dropout(p = {self._rate}, axes={self._axes})"


class BatchNorm(HybridBlock):
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta, with mean and variance of each channel; the shape stays.

    While training these are the batch's, and running ones are updated: momentum running + (1 - momentum) batch.
    Otherwise, and with use_global_stats, the running ones are used. axis: the one of channels. center, scale: whether
    beta and gamma are learned. in_channels 0: found out at the first call. Parameters: ``gamma``, ``beta``,
    ``running_mean``, ``running_var``, each (in_channels,), float32 for half types too.
    """

    def __init__(self, axis: int = 1, momentum: float = 0.9, epsilon: float = 1e-5, center: bool = True,
                 scale: bool = True, use_global_stats: bool = False,
                 beta_initializer: Any = "zeros", gamma_initializer: Any = "ones",
                 running_mean_initializer: Any = "zeros",
                 running_variance_initializer: Any = "ones", in_channels: int = 0, **kwargs: Unpack[BlockOptions]):
        super().__init__(**kwargs)
        self._kwargs = {"axis": axis, "eps": epsilon, "momentum": momentum, "fix_gamma": not scale,
                        "use_global_stats": use_global_stats}
        self._axis = axis
        if in_channels:
            self.in_channels = in_channels
        n = (in_channels,)

        def get(name: str, req: bool, init: Any, differentiable: bool) -> Any:
            return self.params.get(name, grad_req="write" if req else "null", shape=n, init=init,
                                   allow_deferred_init=True, differentiable=differentiable)
        self.gamma = get("gamma", scale, gamma_initializer, scale)
        self.beta = get("beta", center, beta_initializer, center)
        self.running_mean = get("running_mean", False, running_mean_initializer, False)
        self.running_var = get("running_var", False, running_variance_initializer, False)

    def cast(self, dtype: Any) -> None:
        """Another dtype; the statistics of half types stay float32."""
        super().cast("float32" if str(getattr(dtype, "__name__", dtype)) in ("float16", "bfloat16") else dtype)

    def hybrid_forward(self, F: Any, x: Any, gamma: Any, beta: Any, running_mean: Any,
                       running_var: Any) -> Any:      # type: ignore[override]
        return F.BatchNorm(x, gamma, beta, running_mean, running_var, name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        n = self.gamma.shape[0]
        content = ", ".join(f"{k}={v!r}" for k, v in self._kwargs.items())
        return f"{type(self).__name__}({content}, in_channels={n or None})"


class BatchNormReLU(BatchNorm):
    """BatchNorm, then max(x, 0); parameters and shapes are BatchNorm's."""

    def hybrid_forward(self, F: Any, x: Any, gamma: Any, beta: Any, running_mean: Any, running_var: Any) -> Any:
        return F.relu(super().hybrid_forward(F, x, gamma, beta, running_mean, running_var))


class SyncBatchNorm(BatchNorm):
    """Batch normalisation with the statistics of the batches of all processes, once the job of several is joined
    (``hybrid.distributed.init`` or a ``dist_sync`` kvstore); else the same as BatchNorm. num_devices is not
    used: the job's processes are the devices."""

    def __init__(self, in_channels: int = 0, num_devices: Any = None, momentum: float = 0.9, epsilon: float = 1e-5,
                 center: bool = True, scale: bool = True,
                 use_global_stats: bool = False, **kwargs: Unpack[BlockOptions]):
        super().__init__(1, momentum, epsilon, center, scale, use_global_stats, in_channels=in_channels, **kwargs)
        self._shown = {"eps": epsilon, "momentum": momentum, "fix_gamma": not scale,
                       "use_global_stats": use_global_stats,
                       "ndev": 1 if num_devices is None else num_devices, "key": self.prefix}

    def hybrid_forward(self, F: Any, x: Any, gamma: Any, beta: Any, running_mean: Any,
                       running_var: Any) -> Any:      # type: ignore[override]
        from ...collective import current  # noqa: PLC0415  loads only where batches are normalised so
        world = current()
        if (world is None or world.size == 1 or not autograd.is_training() or self._kwargs["use_global_stats"]
                or SCOPE.symbolic or SCOPE.exporting or SCOPE.shadows):
            return super().hybrid_forward(F, x, gamma, beta, running_mean, running_var)
        return self._over_ranks(F, world, x, gamma, beta, running_mean, running_var)

    def _over_ranks(self, F: Any, world: Any, x: Any, gamma: Any, beta: Any, running_mean: Any,
                    running_var: Any) -> Any:
        """Mean and variance over the batches of all ranks, which may differ in length."""
        from ...collective.differentiable import SumOverRanks  # noqa: PLC0415
        eps, momentum = self._kwargs["eps"], self._kwargs["momentum"]
        axes = [i for i in range(x.ndim) if i != 1]
        wide = x.astype("float32") if dt.is_half(dt.as_dtype(x.dtype)) else x
        count = F.sum(F.ones_like(wide), axis=axes)

        def mean_of(values: Any, what: str) -> Any:
            both = F.concat(F.sum(values, axis=axes), count, dim=0)
            summed = SumOverRanks(world, f"SyncBatchNorm {self.name}, {what}")(both)
            channels = self.gamma.shape[0]
            return (F.slice_axis(summed, axis=0, begin=0, end=channels)
                    / F.slice_axis(summed, axis=0, begin=channels, end=2 * channels))

        def along(v: Any) -> Any:
            return F.reshape(v, shape=(1, -1) + (1,) * (x.ndim - 2))
        mean = mean_of(wide, "mean")
        centred = F.broadcast_sub(wide, along(mean))
        var = mean_of(F.square(centred), "variance")
        with autograd.pause(autograd.is_training()):
            for running, new in ((running_mean, mean), (running_var, var)):
                running[:] = running * momentum + F.stop_gradient(new) * (1 - momentum)
        gamma = F.ones_like(gamma) if self._kwargs["fix_gamma"] else gamma
        out = F.broadcast_add(F.broadcast_mul(centred, along(gamma / F.sqrt(var + eps))), along(beta))
        return out.astype(x.dtype)

    def __repr__(self) -> str:
        n = self.gamma.shape[0]
        return f"SyncBatchNorm({', '.join(f'{k}={v!r}' for k, v in self._shown.items())}, in_channels={n or None})"


class Embedding(HybridBlock):
    """Rows of a table at integer positions: (…) -> (…, output_dim). Parameter: ``weight`` (input_dim, output_dim),
    of dtype.

    sparse_grad: the gradient is row_sparse, of the rows that were looked up; SGD, Adam and others update these alone
    (``lazy_update``), as in MXNet.
    """

    def __init__(self, input_dim: int, output_dim: int, dtype: Any = "float32", weight_initializer: Any = None,
                 sparse_grad: bool = False, **kwargs: Unpack[BlockOptions]):
        super().__init__(**kwargs)
        self._input_dim, self._output_dim = whole("Embedding", "input_dim",
                                                  input_dim), whole("Embedding", "output_dim", output_dim)
        self._kwargs = {"input_dim": input_dim, "output_dim": output_dim, "dtype": dtype, "sparse_grad": sparse_grad}
        self.weight = self.params.get("weight", shape=(input_dim, output_dim), init=weight_initializer, dtype=dtype,
                                      allow_deferred_init=True,
                                      grad_stype="row_sparse" if sparse_grad else "default")

    def hybrid_forward(self, F: Any, x: Any, weight: Any) -> Any:    # type: ignore[override]
        return F.Embedding(x, weight, name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        return f"Embedding({self._input_dim} -> {self._output_dim}, {self._kwargs['dtype']})"


class Flatten(HybridBlock):
    """All axes but the first joined: (batch, a, b, …) -> (batch, a b …)."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:                 # type: ignore[override]
        return F.flatten(x)

    def __repr__(self) -> str:
        return "Flatten"


class _Norm(HybridBlock):
    def _affine(self, shape: tuple[int, ...], center: bool, scale: bool, beta: Any, gamma: Any) -> None:
        self.gamma = self.params.get("gamma", grad_req="write" if scale else "null", shape=shape, init=gamma,
                                     allow_deferred_init=True)
        self.beta = self.params.get("beta", grad_req="write" if center else "null", shape=shape, init=beta,
                                    allow_deferred_init=True)

    def __repr__(self) -> str:
        content = ", ".join(f"{k}={v!r}" for k, v in self._kwargs.items())
        return f"{type(self).__name__}({content}, in_channels={self.gamma.shape[0]})"
    _kwargs: dict[str, Any]


class LayerNorm(_Norm):
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta, with the mean and variance along ``axis``; the shape stays.

    center, scale: whether beta and gamma are learned. in_channels: the length of axis, 0: found out at the first call.
    Parameters: ``gamma``, ``beta``, each (in_channels,).
    """

    def __init__(self, axis: int = -1, epsilon: float = 1e-5, center: bool = True, scale: bool = True,
                 beta_initializer: Any = "zeros",
                 gamma_initializer: Any = "ones", in_channels: int = 0, prefix: str | None = None, params: Any = None):
        super().__init__(prefix=prefix, params=params)
        self._kwargs = {"eps": epsilon, "axis": axis, "center": center, "scale": scale}
        self._axis, self._epsilon = axis, epsilon
        self._affine((in_channels,), center, scale, beta_initializer, gamma_initializer)

    def hybrid_forward(self, F: Any, data: Any, gamma: Any, beta: Any) -> Any:      # type: ignore[override]
        return F.LayerNorm(data, gamma=gamma, beta=beta, axis=self._axis, eps=self._epsilon)


class InstanceNorm(_Norm):
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta, with mean and variance of each channel of each instance;
    the shape stays.

    axis: the one of channels. center, scale: whether beta and gamma are learned. in_channels 0: found out at the first
    call. Parameters: ``gamma``, ``beta``, each (in_channels,).
    """

    def __init__(self, axis: int = 1, epsilon: float = 1e-5, center: bool = True, scale: bool = False,
                 beta_initializer: Any = "zeros",
                 gamma_initializer: Any = "ones", in_channels: int = 0, **kwargs: Unpack[BlockOptions]):
        super().__init__(**kwargs)
        self._kwargs = {"eps": epsilon, "axis": axis, "center": center, "scale": scale}
        self._axis, self._epsilon = axis, epsilon
        self._affine((in_channels,), center, scale, beta_initializer, gamma_initializer)

    def hybrid_forward(self, F: Any, x: Any, gamma: Any, beta: Any) -> Any:         # type: ignore[override]
        if self._axis == 1:
            return F.InstanceNorm(x, gamma, beta, name="fwd", eps=self._epsilon)
        x = x.swapaxes(1, self._axis)
        return F.InstanceNorm(x, gamma, beta, name="fwd", eps=self._epsilon).swapaxes(1, self._axis)


class GroupNorm(_Norm):
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta, with mean and variance of each of num_groups groups of
    channels of each instance; the shape stays. center, scale: whether beta and gamma are learned. Parameters:
    ``gamma``, ``beta``, each (num_groups,): one value a group, as in MXNet 1.9.1."""

    def __init__(self, num_groups: int = 1, epsilon: float = 1e-5, center: bool = True, scale: bool = True,
                 beta_initializer: Any = "zeros",
                 gamma_initializer: Any = "ones", prefix: str | None = None, params: Any = None):
        super().__init__(prefix=prefix, params=params)
        self._kwargs = {"eps": epsilon, "num_groups": num_groups, "center": center, "scale": scale}
        self._num_groups, self._epsilon = whole("GroupNorm", "num_groups", num_groups), epsilon
        self._affine((num_groups,), center, scale, beta_initializer, gamma_initializer)

    def hybrid_forward(self, F: Any, data: Any, gamma: Any, beta: Any) -> Any:      # type: ignore[override]
        return F.GroupNorm(data, gamma=gamma, beta=beta, num_groups=self._num_groups, eps=self._epsilon)

    def __repr__(self) -> str:
        return f"GroupNorm({', '.join(f'{k}={v!r}' for k, v in self._kwargs.items())})"


def _known(name: str, space: Any) -> Any:
    """The function of that name, an AssertionError where there is none."""
    assert hasattr(space, name), f"Function name {name} is not found in {space.__name__}."
    return getattr(space, name)
