"""What a value without numbers refuses: to be a condition, a Python number, a NumPy array. Each error names the user's
line and a way out."""
from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import spelling
from ..buffers import array as _arrays
from ..base.errors import UnevaluatedError, of_user, user_location
from ..base.scope import SCOPE, NumbersNeeded

if TYPE_CHECKING:
    from .methods import SymbolMethods            # what nd/methods.py attaches: a stub file alone
else:
    SymbolMethods = object


def _numpy() -> bool:
    """Whether traced values follow NumPy's rules."""
    return SCOPE.np_array or bool(SCOPE.traces and SCOPE.traces[-1].np_semantics)


class Unevaluated(SymbolMethods):
    """Base of Symbol: what only the running program knows cannot be asked for."""
    __slots__ = ()

    def _refuse(self, what: str, way: str) -> Any:
        error = UnevaluatedError(f"{user_location()}: {what} needs the value of {self._described()}, which is "
                                 f"known only when the compiled program runs. {way}")
        if SCOPE.traces and of_user(sys._getframe(2)):
            SCOPE.traces[-1].refused.append(error)               # also where the code goes on without the value
        raise error

    def _described(self) -> str:
        """A traced value as its reader knows it: an array of a dtype and shape; a Symbol as such."""
        if not SCOPE.traces or len(self.entries) != 1:                                       # type: ignore[attr-defined]
            return repr(self)
        node, k = self.entries[0]                                                            # type: ignore[attr-defined]
        shape, dtype = node.info[k]
        known = f"{'' if dtype is None else dtype.name + ' '}of shape {'unknown' if shape is None else tuple(shape)}"
        return f"an array ({node.name}, {known})"

    def __bool__(self) -> bool:
        kind, space = spelling.statement(), spelling.functions(_numpy())
        loops = f"{spelling.functions()}.contrib"
        ways = {"while": f"Use {loops}.while_loop(cond, func, loop_vars, max_iterations=n) for a loop that ends by "
                         f"value",
                "assert": "Assert shapes, or look at values with hybrid.debug.print; what data must hold can be tested "
                          "before the call"}
        way = ways.get(kind,
                       f"Use {space}.where(condition, a, b), which takes elements of a or of b, or "
                       f"{loops}.cond(condition, f, g), which calls f or g")
        if not kind:
            way += f"; instead of Python's max(), min() and sorted(), {space}.maximum, {space}.minimum and {space}.sort"
        return self._refuse(f"this `{kind}`" if kind else "a test, as and, or, not, max() and sorted() make it,",
                            f"{way}; or run this code without hybridize. A test of sizes (x.shape) needs none of this.")

    def __float__(self) -> float:
        return self._refuse("float()", "Keep it as an array, or compute it outside the hybridized code.")

    def __int__(self) -> int:
        return self._refuse("int()", "Keep it as an array, or compute it outside the hybridized code.")

    def __index__(self) -> int:
        loops = f"{spelling.functions()}.contrib"
        if spelling.statement() == "for":
            return self._refuse("range()", f"Use {loops}.while_loop(cond, func, loop_vars, max_iterations=n) for a "
                                f"loop whose length is computed, or {loops}.foreach(body, data, states) over an array; "
                                "sizes (x.shape) are known.")
        return self._refuse("use as an index", f"Use {spelling.functions(_numpy())}.take(array, index).")

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        return self._refuse(f"the format {spec!r}",              # type: ignore[no-any-return]
                            "hybrid.debug.print shows it at each call; format results outside the hybridized code.")

    if not TYPE_CHECKING:                                # for which an unknown name is an error
        def __getattr__(self, name: str) -> Any:
            if SCOPE.traces and not name.startswith("_") and of_user(sys._getframe(1)):
                if hasattr(_arrays.NP_CLASS[0] if _numpy() else _arrays.NDArray, name) or hasattr(np.ndarray, name):
                    SCOPE.traces[-1].plain_only(f"reads .{name} of an array, which is not there while it is compiled")
                raise AttributeError(f"{user_location()}: an array has no attribute {name!r} (it is {self!r} while the "
                                     f"code is compiled)", name=name, obj=self)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def asnumpy(self) -> Any:
        """Refused: a traced value has no numbers yet."""
        return self._refuse(".asnumpy()",
                            "hybrid.debug.print shows it at each call; convert results outside the hybridized code, or "
                            "run this code without hybridize.")

    def asscalar(self) -> Any:
        """Refused: a traced value has no numbers yet."""
        return self._refuse(".asscalar()", "Keep it as an array, or compute it outside the hybridized code.")

    item = asscalar
    tolist = asnumpy

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        if SCOPE.numbers_refused:
            raise NumbersNeeded
        return self._refuse("conversion to a NumPy array",
                            "Give the traced value itself to NumPy's and hybrid's functions, without numpy.array() or "
                            "numpy.asarray() around it.")
