"""Quantization in steps: a graph of 8-bit products, ranges that a collector finds while the user runs the float32
network, and the graph with these ranges."""
from __future__ import annotations

import json
import logging
from typing import Any, Mapping

from ...base.device import Context
from ...base.errors import AttributeValueError, warn_user
from ...buffers.array import NDArray
from ...graph.symbol import Symbol
from ...serialize.symbol_json import dumps, loads
from .api import Names, check_calibration, check_choices, make_collector, names_given, parameters_of, to_exclude
from .calibration import Ends, ends_of, ends_of_histograms
from .graph import Quantized, Quantizer

FLOAT_GRAPH = "__float_graph__"         # attribute of a node: the float32 graph and the settings, as JSON


def quantize_graph(sym: Symbol, arg_params: Mapping[str, NDArray], aux_params: Mapping[str, NDArray],
                   ctx: Context | None = None, excluded_sym_names: Names = None, excluded_op_names: Names = None,
                   calib_mode: str | None = "entropy", quantized_dtype: str = "int8", quantize_mode: str = "full",
                   quantize_granularity: str = "tensor-wise", LayerOutputCollector: Any = None,  # noqa: N803
                   logger: Any = None) -> tuple[Symbol, dict[str, NDArray], dict[str, NDArray], Any]:
    """A Symbol of 8-bit products, which find the ranges of their data at each call, its arguments, the auxiliary
    states, and a collector. Give ``collector.collect`` to the monitor of the float32 network, run it on examples, and
    then call ``calib_graph``. ``quantize_net_v2`` says what the arguments mean.

    >>> qsym, args, aux, collector = quantize_graph(sym, arg_params, aux_params, calib_mode="naive") # doctest: +SKIP
    >>> module._exec_group.execs[0].set_monitor_callback(collector.collect, monitor_all=True)       # doctest: +SKIP
    >>> for batch in examples:                                                                      # doctest: +SKIP
    ...     module.forward(batch, is_train=False)
    >>> qsym, args, aux = calib_graph(qsym, arg_params, aux_params, collector, calib_mode="naive")  # doctest: +SKIP
    """
    if not isinstance(sym, Symbol):
        raise AttributeValueError(f"quantize_graph takes a Symbol, got {type(sym).__name__}")
    calib_mode = calib_mode or "none"
    check_choices(quantized_dtype, quantize_mode, quantize_granularity)
    check_calibration(calib_mode, ())
    settings = {"graph": dumps(sym), "dtype": quantized_dtype, "channels": quantize_granularity == "channel-wise",
                "excluded": sorted(to_exclude(sym, excluded_sym_names)),
                "excluded_ops": sorted(names_given("operators", excluded_op_names)),
                "parameters": sorted({*arg_params, *aux_params})}
    made = _made(sym, settings, arg_params, aux_params, {})
    args, states = parameters_of(made, ctx)
    if calib_mode == "none":
        return made.sym, args, states, None
    for n in made.sym.nodes():
        if n.opdef is not None and n.opdef.name == "_contrib_quantize_v2":
            n.extra[FLOAT_GRAPH] = json.dumps(settings)
            break
    collector = make_collector(calib_mode, quantized_dtype, LayerOutputCollector, list(made.values))
    if logger:
        logger.info("quantized the data of %d values; set_monitor_callback(collector.collect, monitor_all=True) lets "
                    "the collector see those of the float32 network", len(made.values))
    return made.sym, args, dict(aux_params), collector


def _made(sym: Symbol, settings: Mapping[str, Any], arg_params: Mapping[str, NDArray],
          aux_params: Mapping[str, NDArray], ends: Ends) -> Quantized:
    params = {k: v.asnumpy() for k, v in {**arg_params, **aux_params}.items()}
    return Quantizer(sym, params, settings["dtype"], set(settings["excluded"]), set(settings["excluded_ops"]),
                     settings["channels"], ends).run()


def calib_graph(qsym: Symbol, arg_params: Mapping[str, NDArray], aux_params: Mapping[str, NDArray], collector: Any,
                calib_mode: str | None = "entropy", quantized_dtype: str = "int8",
                logger: Any = logging) -> tuple[Symbol, dict[str, NDArray], dict[str, NDArray]]:
    """The Symbol of ``quantize_graph`` with the ranges that its collector found, its arguments and auxiliary states.

    arg_params, aux_params: those of the float32 network. collector: has a ``hist_dict`` for ``entropy``, a
    ``min_max_dict`` otherwise. quantized_dtype: decides whether thresholds of ``entropy`` begin at zero.
    """
    check_calibration(calib_mode, ())
    if calib_mode == "none":
        raise AttributeValueError("calib_graph takes calib_mode 'naive', 'entropy' or 'customize'; a graph without "
                                  "calibration is what quantize_graph gave")
    check_choices(quantized_dtype)
    settings = next((json.loads(n.extra[FLOAT_GRAPH]) for n in qsym.nodes() if FLOAT_GRAPH in n.extra), None)
    if settings is None:
        raise AttributeValueError("calib_graph takes the Symbol that quantize_graph gave for a calib_mode, and the "
                                  "graph must have products of 8-bit numbers")
    missing = [n for n in settings["parameters"] if n not in arg_params and n not in aux_params]
    if missing:
        raise AttributeValueError(f"calib_graph takes the parameters of the float32 network, as quantize_graph did; "
                                  f"these are not among them: {', '.join(missing[:20])}")
    ends = ends_of_histograms(collector.hist_dict, quantized_dtype) if calib_mode == "entropy" else ends_of(collector)
    made = _made(loads(settings["graph"]), settings, arg_params, aux_params, ends)
    unseen = [name for name in made.values if name not in ends]
    if unseen:
        warn_user(f"the collector has not seen {', '.join(unseen[:20])}: their ranges are found at each call, which is "
                  "slow. Let it see the float32 network's values: set_monitor_callback(collector.collect, "
                  "monitor_all=True)")
    if logger:
        logger.info("ranges of %d values are known", len(made.values) - len(unseen))
    return made.sym, *parameters_of(made)
