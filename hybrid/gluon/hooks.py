"""Hooks: functions that are called before or after a block's forward."""
from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Callable

from ..base import pending
from ..base.errors import line_of
from ..base.scope import SCOPE

if TYPE_CHECKING:
    from .block import Block


def call_hook(hook: Callable[..., Any], block: "Block", *values: Any) -> None:
    """Call a hook with a block's inputs and results; in traced code at each call of the program, with their arrays."""
    if not SCOPE.traces:
        hook(block, *values)
        return
    name = getattr(hook, "__qualname__", type(hook).__name__)
    SCOPE.traces[-1].watch(values, lambda arrays: hook(block, *arrays), f"the hook {name} of {block.name}",
                           line_of(hook))


class HookHandle:
    """Takes a hook away again with ``detach`` (or at the end of a ``with`` block)."""

    def __init__(self, hooks: "OrderedDict[int, Any]", hook: Any, block: "Block | None" = None):
        if not callable(hook):
            raise TypeError(f"a hook must be a function, got {hook!r:.60}")
        pending.settle_for("a hook was registered", block=block)
        self._hooks, self.id, self._block = hooks, id(hook), block
        hooks[self.id] = hook
        if block is not None:
            block._touched()

    def detach(self) -> None:
        """Remove the hook."""
        pending.settle_for("a hook was removed", block=self._block)
        if self._hooks.pop(self.id, None) is not None and self._block is not None:
            self._block._touched()

    def __enter__(self) -> "HookHandle":
        return self

    def __exit__(self, *_: Any) -> None:
        self.detach()
