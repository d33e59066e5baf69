"""A Module's parameters: which there are, where they are, whether they have gradients, and their first values."""
from __future__ import annotations

from typing import Any, Collection, Mapping, Sequence

from .. import optimizer as opt
from ..base.device import Context
from ..base.errors import AttributeValueError, HybridError, warn_user
from ..base.names import nearest
from ..buffers.array import NDArray, zeros_like
from ..mxnet.initializer import InitDesc
from .batches import fill
from .replica import Replica

NOT_INPUTS = ("weight", "bias", "gamma", "beta")      # ends of names that no batch fills


def check_names(names: Sequence[str], arguments: Sequence[str], what: str) -> None:
    """ValueError for a name that is none of a symbol's arguments; it says which are near."""
    for name in names:
        if name not in arguments:
            inputs = ", ".join(n for n in arguments if not n.endswith(NOT_INPUTS))
            raise ValueError(f"Module: {what}={list(names)}, but the symbol has no argument {name!r}"
                             f"{nearest(name, arguments) or f'; its inputs are {inputs}'}")


def devices_by_group(given: Any, count: int) -> list[dict[str, Context]]:
    """Devices by group for each of a module's devices: from a list of dicts, or a dict of devices or lists of them."""
    if isinstance(given, Mapping):
        rows = {name: list(c) if isinstance(c, (list, tuple)) else [c] for name, c in given.items()}
        rows = {name: c * count if len(c) == 1 else c for name, c in rows.items()}
        given = [{name: c[i] for name, c in rows.items() if i < len(c)} for i in range(count)]
    found = list(given) if given else [{}] * count
    if len(found) != count or any(len(g) != len(found[0]) for g in found):
        raise AttributeValueError(f"group2ctxs must name a device of each group for each of the {count} devices, got "
                                  f"{given!r}")
    return found


def gradient_requests(grad_req: Any, arguments: Sequence[str], data: Collection[str], trained: Collection[str],
                      inputs_need_grad: bool) -> dict[str, str]:
    """What is wanted of each argument's gradient. grad_req: one word for all, words by name, or a list in order."""
    def wanted(i: int, name: str) -> str:
        if isinstance(grad_req, str):
            return grad_req
        return grad_req.get(name, "null") if isinstance(grad_req, Mapping) else grad_req[i]

    has_gradient = {name: inputs_need_grad if name in data else name in trained for name in arguments}
    return {name: wanted(i, name) if has_gradient[name] else "null" for i, name in enumerate(arguments)}


def set_values(arrays: Mapping[str, NDArray], names: Sequence[str], given: Mapping[str, Any] | None, initializer: Any,
               notes: Mapping[str, Any], allow_missing: bool, allow_extra: bool) -> None:
    """Values for parameters or for auxiliary states: the given ones, else drawn by the initializer (None: kept).
    Module.init_params says what allow_missing and allow_extra do."""
    extra = [k for k in given or () if k not in names]
    if extra and not allow_extra:
        text = (f"the symbol has no parameter {', '.join(map(repr, extra))}; pass allow_extra=True to ignore such "
                f"values")
        if initializer is None and allow_missing:
            raise AttributeValueError(text)
        warn_user(text)
    for name in names:
        if given is not None and name in given:
            fill(name, arrays[name], given[name])
        elif given is not None and not allow_missing:
            raise HybridError(f"{name!r} is not presented: no value was given for it. Pass allow_missing=True to "
                              f"initialize or keep the others")
        elif initializer is not None:
            _draw(initializer, InitDesc(name, notes.get(name)), arrays[name])


def _draw(initializer: Any, name: InitDesc, into: NDArray) -> None:
    """A value from an initializer, into an array of any storage type."""
    if into.stype == "default":
        initializer(name, into)
        return
    dense = zeros_like(into, "default")
    initializer(name, dense)
    into[:] = dense


def spread_first(replicas: Sequence[Replica]) -> None:
    """Copies the first device's parameters and auxiliary states to the others."""
    first = replicas[0]
    for other in replicas[1:]:
        for source, target in ((first.params, other.params), (first.aux, other.aux)):
            for name, x in source.items():
                x.copyto(target[name])


def check_wanted_rows(found: Any, params: Mapping[str, NDArray], names: Sequence[str]) -> None:
    """Refuses what a ``sparse_row_id_fn`` gave where it names no parameter; warns where that is not row_sparse."""
    assert isinstance(found, dict), (f"sparse_row_id_fn must give a dict from names of parameters to row numbers, got "
                                     f"{type(found).__name__}")
    for name in found:
        if name not in names:
            raise AttributeValueError(f"sparse_row_id_fn: the symbol has no parameter {name!r}; it has "
                                      f"{', '.join(names)}")
        if params[name].stype != "row_sparse":
            warn_user(f"{name}.stype is not 'row_sparse'. No need to perform row_sparse_pull.")


def optimizer_for(optimizer: Any, settings: Any, symbol: Any, names: dict[int, str], rescale: float) -> Any:
    """The optimizer of a name and its settings, or the given one; it knows the parameters' ``names`` by number.
    rescale: 1 / batch size, by which a named optimizer multiplies gradients unless its settings say otherwise."""
    if isinstance(optimizer, str):
        given = {"rescale_grad": rescale, **dict(settings)}
        optimizer = opt.create(optimizer, sym=symbol, param_idx2name=names, **given)
    elif optimizer.rescale_grad != rescale:
        warn_user(f"the optimizer's rescale_grad is {optimizer.rescale_grad}, not 1 / batch size = {rescale}. "
                  f"Is this intended?")
    if not optimizer.idx2name:
        optimizer.idx2name = names
    return optimizer
