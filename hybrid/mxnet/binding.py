"""Arguments of executors, by name and by device."""
from __future__ import annotations

from typing import Any, Mapping, Sequence

from ..buffers.array import NDArray
from ..base.device import Context, array_module
from ..base.errors import AttributeValueError, HybridError
from ..nd.functions import resolve
from ..graph.symbol import Symbol


def _may_be_sparse(symbol: Symbol, args: Mapping[str, NDArray]) -> bool:
    return any(x.stype != "default" for x in args.values()) or any(n.opdef is not None
                                                                   and n.opdef.name == "cast_storage"
                                                                   for n in symbol.nodes())


def _by_name(what: str, names: Sequence[str], given: Any, needed: bool) -> dict[str, Any]:
    if isinstance(given, Mapping):
        found = {n: given[n] for n in names if given.get(n) is not None}
    else:
        values = [] if given is None else list(given)
        if values and len(values) != len(names):
            raise AttributeValueError(f"bind: {len(values)} {what} for {len(names)} ({', '.join(names)})")
        found = {n: v for n, v in zip(names, values) if v is not None}
    missing = [n for n in names if n not in found]
    if needed and missing:
        raise AttributeValueError(f"bind: no {what} given for {', '.join(map(repr, missing))}")
    return found


def _requests(names: Sequence[str], grad_req: Any) -> dict[str, str]:
    if isinstance(grad_req, Mapping):
        return {n: grad_req.get(n, "null") for n in names}
    given = [grad_req] * len(names) if isinstance(grad_req, str) else list(grad_req)
    if len(given) != len(names):
        raise AttributeValueError(f"grad_req: {len(given)} for {len(names)} arguments ({', '.join(names)})")
    return dict(zip(names, given))


def devices_of(symbol: Symbol, ctx: Context, group2ctx: Mapping[str, Context] | None) -> dict[str, Context]:
    """The device of each variable: that of its ctx_group, or of the first operator that reads it and has one. A program
    runs on one kind of device; cpu(0) and cpu(1) are the same memory.
    """
    if not isinstance(ctx, Context):
        raise TypeError(f"bind: ctx must be a Context such as mx.cpu(), got {ctx!r}")
    groups = dict(group2ctx or {})
    other = next((c for c in groups.values() if array_module(c) is not array_module(ctx)), None)
    if other is not None:
        raise HybridError(f"group2ctx: one program cannot run on {ctx} and {other}: give groups devices of one kind")
    found: dict[str, Context] = {}
    for n in symbol.nodes() if groups else ():
        own = groups.get(n.extra.get("__ctx_group__", ""), ctx)
        if n.opdef is None:
            if "__ctx_group__" in n.extra:
                found[n.name] = own
            continue
        for m, _ in n.inputs:
            if m.opdef is None:
                found.setdefault(m.name, own)
    return found


def storage(symbol: Symbol, given: Mapping[str, str] | None = None) -> tuple[dict[str, str], dict[str, str]]:
    """Storage types of a graph's variables and of their gradients, by name; nothing where all are dense."""
    if not given and not any("__storage_type__" in n.extra or n.opdef is not None
                             and n.opdef.name in ("Embedding", "cast_storage") for n in symbol.nodes()):
        return {}, {}
    stypes = resolve("nd", "sparse.storage_of")(symbol, given)
    return stypes, resolve("nd", "sparse.gradient_storage")(symbol, stypes)
