"""Prefixes of blocks: MXNet's counters and name scopes."""
from __future__ import annotations

import threading
from typing import Any

from ..base import names
from ..base.errors import AttributeValueError
from .parameter import ParameterDict


class _State(threading.local):
    def __init__(self) -> None:
        self.value: BlockScope | None = None


_state = _State()


class BlockScope:
    """The scope of a block: layers made inside it are numbered within its prefix."""
    _current = _state                                      # ``.value``: this thread's scope, under MXNet's name

    def __init__(self, block: Any):
        self._block, self._counter = block, {}
        self._old: list[Any] = []

    @staticmethod
    def create(prefix: str | None, params: ParameterDict | None, hint: str) -> tuple[str, ParameterDict]:
        """Prefix and parameter dictionary of a new block."""
        if prefix is not None and not isinstance(prefix, str):
            raise AttributeValueError(f"the prefix of a block ({hint}) must be a string or None, got "
                                      f"{type(prefix).__name__}; layers are given to a network's add(...)")
        current = _state.value
        if current is None:
            if prefix is None:
                prefix = names.current().get(None, hint) + "_"
            return prefix, ParameterDict(prefix) if params is None else ParameterDict(params.prefix, params)
        if prefix is None:
            n = current._counter.get(hint, 0)
            current._counter[hint] = n + 1
            prefix = f"{hint}{n}_"
        if params is None:
            parent = current._block.params
            own = ParameterDict(parent.prefix + prefix, parent._shared)
        else:
            own = ParameterDict(params.prefix, params)
        return current._block.prefix + prefix, own

    def __enter__(self) -> "BlockScope":
        if self._block._empty_prefix:
            return self
        manager = names.Prefix(self._block.prefix)
        self._old.append((_state.value, manager))
        _state.value = self
        manager.__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        if self._block._empty_prefix:
            return
        scope, manager = self._old.pop()
        manager.__exit__(*exc)
        _state.value = scope
