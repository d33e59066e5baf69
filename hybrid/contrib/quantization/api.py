"""8-bit networks for inference, made of trained float32 ones."""
from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np

from ...base.device import Context, cpu
from ...base.errors import AttributeValueError
from ...buffers.array import NDArray, array
from ...gluon.hybrid_block import HybridBlock
from ...gluon.symbol_block import SymbolBlock
from ...graph.symbol import Symbol, var
from ..amp.convert import _in_order, _uncast
from ...serialize.symbol_json import without_casts
from .calibration import COLLECTORS, calibrate
from .graph import Quantized, Quantizer

MODES = ("none", *COLLECTORS, "customize")
DTYPES = ("int8", "uint8", "auto")
GRAINS = ("tensor-wise", "channel-wise")
Names = Sequence[str] | None


def _one_of(what: str, given: Any, known: Sequence[str]) -> None:
    if given not in known:
        raise AttributeValueError(f"{what} is one of {', '.join(map(repr, known))}, got {given!r}")


def check_calibration(mode: Any, data: Any) -> None:
    """Raises an error for an unknown ``calib_mode``, and for one that lacks the data it needs."""
    _one_of("calib_mode", mode, MODES)
    if mode != "none" and data is None:
        raise AttributeValueError(f"calib_data must be provided when calib_mode={mode!r}")


def make_collector(mode: str, dtype: str, given: Any, include_layer: Sequence[str] | None = None) -> Any:
    """The collector for a ``calib_mode``; for ``customize`` it is ``given``."""
    if mode != "customize":
        return COLLECTORS[mode](dtype, include_layer)
    if given is None:
        raise AttributeValueError("calib_mode='customize' takes a LayerOutputCollector")
    return given


def to_exclude(sym: Symbol, excluded: Names) -> set[str]:
    """Names of layers that stay float32; raises an error for names that the graph lacks."""
    excluded = names_given("layers", excluded)
    names = {n.name for n in sym.nodes()}
    strange = [n for n in excluded if n not in names]
    if strange:
        raise AttributeValueError(f"the graph has no layer {', '.join(map(repr, strange))} to exclude; it has "
                                  f"{', '.join(sorted(n.name for n in sym.nodes() if n.opdef is not None)[:20])}")
    return set(excluded)


def names_given(what: str, names: Names) -> Sequence[str]:
    """The names, an empty list for None. Raises an error for a string, whose letters would be taken for names."""
    if isinstance(names, str):
        raise AttributeValueError(f"names of {what} to exclude are a list, got the text {names!r}")
    return names or ()


def check_choices(dtype: Any, mode: Any = "full", grain: Any = "tensor-wise") -> None:
    """Raises an error for an unknown type of activations, mode or granularity."""
    _one_of("quantized_dtype", dtype, DTYPES)
    _one_of("quantize_mode", mode, ("full", "smart"))
    _one_of("quantize_granularity", grain, GRAINS)


def _quantize(sym: Symbol, params: Mapping[str, np.ndarray], inputs: Sequence[str], dtype: str, grain: str,
              excluded: set[str], excluded_ops: Names, mode: str, data: Any, most: int | None,
              collector: Any) -> Quantized:
    def made(ends: Mapping[str, tuple[float, float]]) -> Quantized:
        ops = set(names_given("operators", excluded_ops))
        return Quantizer(sym, params, dtype, excluded, ops, grain == "channel-wise", ends).run()
    plain = made({})
    if mode == "none" or not plain.values:
        return plain
    run = _block(Symbol(list(plain.values.values())), inputs, params)
    run.hybridize()
    return made(calibrate(run, list(plain.values), data, len(inputs), most, make_collector(mode, dtype, collector)))


def _block(sym: Symbol, inputs: Sequence[str], params: Mapping[str, np.ndarray], ctx: Any = None) -> SymbolBlock:
    made = SymbolBlock(sym, [var(n) for n in inputs])
    for name, p in made.collect_params().items():
        value = array(params[name], dtype=params[name].dtype)
        p.cast(value.dtype)
        p.shape = value.shape
        p.grad_req = "null"
        p.initialize(ctx=ctx, force_reinit=True)
        p.set_data(value)
    return made


def quantize_net_v2(network: HybridBlock, quantized_dtype: str = "auto", quantize_mode: str = "full",
                    quantize_granularity: str = "tensor-wise", exclude_layers: Names = None,
                    exclude_layers_match: Names = None, exclude_operators: Names = None, calib_data: Any = None,
                    data_shapes: Any = None, calib_mode: str = "none", num_calib_examples: int | None = None,
                    ctx: Context | None = None, LayerOutputCollector: Any = None,  # noqa: N803  MXNet's name
                    logger: Any = None) -> SymbolBlock:
    """Quantizes a trained float32 block, which was called once, for inference: a SymbolBlock whose convolutions and
    dense layers multiply 8-bit integers. Hybridize it: on processors with AVX512-VNNI its products take about a quarter
    of float32's time.

    quantized_dtype: type of activations: int8, uint8, or auto (uint8 where the calibrated minimum is 0 or more).
    quantize_granularity: ``tensor-wise`` has one scale for all of a layer's weights, ``channel-wise`` one for each
    filter, which is more accurate and as fast. exclude_layers: names of layers that stay float32; exclude_layers_match:
    parts of names; exclude_operators: names of operators. calib_mode: ``none`` computes ranges at each call, which is
    slow; ``naive`` uses the least and greatest values seen on ``calib_data`` (a DataLoader, a DataIter or an iterable
    of arrays), ``entropy`` the clipping threshold with the least divergence, ``customize`` what
    ``LayerOutputCollector`` (with ``collect(name, numbers)`` and ``min_max_dict``, ranges by name) says.
    num_calib_examples: how many examples to look at. data_shapes, quantize_mode: accepted; shapes are known from the
    call, and what is not a product stays float32.

    >>> fast = quantize_net(net, calib_data=loader, calib_mode='naive'); fast.hybridize() # doctest: +SKIP
    """
    if not isinstance(network, HybridBlock):
        raise AttributeValueError(f"quantize_net takes a HybridBlock, got {type(network).__name__}")
    calib_mode = calib_mode or "none"
    check_choices(quantized_dtype, quantize_mode, quantize_granularity)
    check_calibration(calib_mode, calib_data)
    if data_shapes is not None and network.__dict__.get("_form") is None:
        network(*[array(np.zeros(getattr(d, "shape", d), np.float32)) for d in data_shapes])
    with _uncast():
        sym = without_casts(network._symbol())
    held = {p.name: p for p in network.collect_params().values() if p.name in set(sym.list_inputs())}
    params = {name: p.data().asnumpy() for name, p in held.items()}
    inputs = list(_in_order(network, [n for n in sym.list_inputs() if n not in params]))
    matched = [n.name for n in sym.nodes() if n.opdef is not None
               and any(part in n.name for part in names_given("layers", exclude_layers_match))]
    excluded = to_exclude(sym, exclude_layers) | set(matched)
    made = _quantize(sym, params, inputs, quantized_dtype, quantize_granularity, excluded, exclude_operators,
                     calib_mode, calib_data, num_calib_examples, LayerOutputCollector)
    if logger is not None:
        logger.info("quantized the data of %d values: %s", len(made.values), ", ".join(made.values))
    return _block(made.sym, inputs, made.params, ctx)


def quantize_net(network: HybridBlock, quantized_dtype: str = "auto", quantize_mode: str = "full",
                 exclude_layers: Names = None, exclude_layers_match: Names = None, exclude_operators: Names = None,
                 calib_data: Any = None, data_shapes: Any = None, calib_mode: str = "none",
                 num_calib_examples: int | None = None, ctx: Context | None = None, logger: Any = None) -> SymbolBlock:
    """``quantize_net_v2`` with one step for all of a layer's weights."""
    return quantize_net_v2(network, quantized_dtype, quantize_mode, "tensor-wise", exclude_layers,
                           exclude_layers_match, exclude_operators, calib_data, data_shapes, calib_mode,
                           num_calib_examples, ctx, None, logger)


def quantize_model(sym: Symbol, arg_params: Mapping[str, NDArray], aux_params: Mapping[str, NDArray],
                   data_names: Sequence[str] = ("data",), label_names: Sequence[str] | None = ("softmax_label",),
                   ctx: Context | None = None, excluded_sym_names: Names = None, excluded_op_names: Names = None,
                   calib_mode: str = "entropy", calib_data: Any = None, num_calib_examples: int | None = None,
                   quantized_dtype: str = "int8", quantize_mode: str = "smart",
                   quantize_granularity: str = "tensor-wise",
                   logger: Any = None) -> tuple[Symbol, dict[str, NDArray], dict[str, NDArray]]:
    """A Symbol of 8-bit products with its arguments and auxiliary states, of a float32 one; ``quantize_net_v2`` says
    what the arguments mean."""
    if not isinstance(sym, Symbol):
        raise AttributeValueError(f"quantize_model takes a Symbol, got {type(sym).__name__}")
    calib_mode = calib_mode or "none"
    check_choices(quantized_dtype, quantize_mode, quantize_granularity)
    check_calibration(calib_mode, calib_data)
    params = {k: v.asnumpy() for k, v in {**arg_params, **aux_params}.items()}
    labels = set(label_names or ())
    found = [n for n in sym.list_inputs() if n not in params and n not in labels]
    strange = [n for n in found if n not in data_names]
    if strange:
        raise AttributeValueError(f"data_names has not {', '.join(map(repr, strange))}, which have no "
                                  "parameters either")
    made = _quantize(sym, params, [n for n in data_names if n in found], quantized_dtype, quantize_granularity,
                     to_exclude(sym, excluded_sym_names), excluded_op_names, calib_mode, calib_data,
                     num_calib_examples, None)
    return made.sym, *parameters_of(made, ctx)


def parameters_of(made: Quantized, ctx: Context | None = None) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
    """The arguments and auxiliary states of a graph as arrays."""
    states = set(made.sym.list_auxiliary_states())
    arrays = {k: array(v, ctx or cpu(), dtype=v.dtype) for k, v in made.params.items()}
    return {k: v for k, v in arrays.items() if k not in states}, {k: v for k, v in arrays.items() if k in states}


def quantize_model_mkldnn(sym: Symbol, arg_params: Mapping[str, NDArray], aux_params: Mapping[str, NDArray],
                          data_names: Sequence[str] = ("data",),
                          label_names: Sequence[str] | None = ("softmax_label",), ctx: Context | None = None,
                          excluded_sym_names: Names = None, excluded_op_names: Names = None,
                          calib_mode: str = "entropy", calib_data: Any = None, num_calib_examples: int | None = None,
                          quantized_dtype: str = "int8", quantize_mode: str = "smart",
                          quantize_granularity: str = "tensor-wise",
                          logger: Any = None) -> tuple[Symbol, dict[str, NDArray], dict[str, NDArray]]:
    """``quantize_model`` for a CPU. The two differ in MXNet, where only this one fuses operators; here both do."""
    if ctx is not None and getattr(ctx, "device_type", None) != "cpu":
        raise AttributeValueError(f"quantize_model_mkldnn is for one CPU, got {ctx!r}; quantize_model takes others")
    return quantize_model(sym, arg_params, aux_params, data_names, label_names, ctx, excluded_sym_names,
                          excluded_op_names, calib_mode, calib_data, num_calib_examples, quantized_dtype,
                          quantize_mode, quantize_granularity, logger)
