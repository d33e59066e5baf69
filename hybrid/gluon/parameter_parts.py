"""The private parts of MXNet's Parameter that subclasses of it read and copy (GluonNLP's WeightDropParameter)."""
from __future__ import annotations

from typing import Any

from ..base.errors import AttributeValueError
from ..base.scope import tracing


class Parts:
    """What MXNet's Parameter keeps beside ``_data``, all of it read from there. Assigning takes what is there already,
    as a subclass copies it; anything else is an AttributeValueError."""
    name: str
    trainer: Any
    _data: Any
    _check: Any
    _deferred: Any
    _changed: Any

    def _same(self, part: str, given: Any, found: Any) -> None:
        known = [] if found is None else list(found)
        asked = [] if given is None else list(given)
        if len(asked) != len(known) or any(a is not b and not (isinstance(a, (list, int)) and a == b)
                                           for a, b in zip(asked, known)):
            raise AttributeValueError(f"Parameter {self.name!r}: {part} follows from _data and cannot be set to "
                                      f"something else; use initialize, reset_ctx or set_data")

    @property
    def _grad(self) -> list[Any] | None:
        """The gradient on each device, None where there is none."""
        found = [] if self._data is None else [x.grad for x in self._data.values()]
        return found if found and found[0] is not None else None

    @_grad.setter
    def _grad(self, given: Any) -> None:
        self._same("_grad", given, self._grad)

    @property
    def _ctx_list(self) -> list[Any] | None:
        """The devices that hold the parameter, None before it is initialized."""
        return None if self._data is None else list(self._data)

    @_ctx_list.setter
    def _ctx_list(self, given: Any) -> None:
        self._same("_ctx_list", given, self._ctx_list)

    @property
    def _ctx_map(self) -> list[list[Any]]:
        """For each kind of device the places of its arrays in ``_data``."""
        return self._data.places() if self._data is not None else [[], []]

    @_ctx_map.setter
    def _ctx_map(self, given: Any) -> None:
        self._same("_ctx_map", given, self._ctx_map)

    @property
    def _trainer(self) -> Any:
        """The Trainer that keeps a row_sparse parameter's value."""
        return self.trainer

    @_trainer.setter
    def _trainer(self, given: Any) -> None:
        self.trainer = given

    def _check_and_get(self, arrays: Any, ctx: Any) -> Any:
        """The array of a device, or the first (``ctx=list``: all), of ``_data`` or ``_grad``."""
        if arrays is not None and arrays is not self._data:
            return list(arrays) if ctx is list else self._check(ctx).grad
        if ctx is list:
            self._check(None)
            return list(self._data.values())
        trace = tracing()
        return self._check(ctx) if trace is None else trace.parameter(self)

    @property
    def _deferred_init(self) -> tuple[Any, ...]:
        """MXNet's name of what is noted until the shape is known: (init, devices, default init, data), or ()."""
        return self._deferred or ()

    @_deferred_init.setter
    def _deferred_init(self, noted: Any) -> None:
        self._deferred = tuple(noted) or None
        self._changed()


__all__ = ["Parts"]
