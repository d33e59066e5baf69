"""Functions of the namespaces nd, sym, np and npx, made from the registry: nothing is listed twice."""
from __future__ import annotations

import importlib
import inspect
import weakref
from types import ModuleType
from typing import Any, Callable, Iterable, Mapping

from ..graph import symbol
from ..buffers.array import CONVERT, NP_CLASS, ZEROS, NDArray
from ..autograd.dispatch import invoke
from ..autograd.traced_rows import SPARSE
from ..base.errors import AttributeValueError, ShapeError, shortened, user_location
from ..base.names import PLAIN, named
from ..base.other_names import LIBRARY, MissingNameError
from ..ops import registry
from ..ops.attributes import REQUIRED
from ..ops.documentation import document
from ..ops.elementwise import one_shape
from ..ops.registry import OpDef
from ..base.scope import SCOPE


def array_like(x: Any) -> bool:
    """Whether a positional argument is an input and not an attribute."""
    return isinstance(x, (NDArray, symbol.Symbol)) or hasattr(x, "__array_interface__") and getattr(x, "ndim", 0) > 0


# the modules of the namespaces
MODULES = {"nd": "hybrid.nd", "sym": "hybrid.symbol", "np": "hybrid.numpy", "npx": "hybrid.numpy.extension"}
# automatic names of nodes that do not begin with the function's name
HINTS = {"random.multinomial": "_sample_multinomial", "random.shuffle": "_shuffle"}


IDLE = "dtype", "axis"              # which operators without attributes take all the same


def make_function(d: OpDef, public: str, space: str) -> Callable[..., Any]:
    """The function of an operator. Inputs come first, then attributes in order; inputs may be given by name."""
    hint = HINTS.get(public, public.rsplit(".", 1)[-1].lower().removeprefix("_sparse_"))
    attr_names = list(d.attrs)
    plain = -1 if d.variadic or space == "sym" else len(d.inputs)          # inputs of a call that needs no sorting
    several = d.variadic and space != "sym"
    known = frozenset(attr_names).difference(d.inputs, ("attr", "name", "out"))

    def function(*args: Any, name: str | None = None, out: Any = None, **kwargs: Any) -> Any:
        if (len(args) == plain or several and args) and out is None and (not kwargs or known.issuperset(kwargs)):
            for x in args:
                if not isinstance(x, NDArray):
                    break
            else:                                            # all inputs, and attributes by their names
                try:
                    return invoke(d, args, kwargs, None, name, NP_CLASS[0] if space != "nd" and NP_CLASS else None,
                                  hint)
                except Exception as err:
                    shortened(err)
                    raise
        if "attr" in kwargs and space != "sym" and not SCOPE.symbolic:
            del kwargs["attr"]                              # notes are for Symbols
        if not attr_names and space in ("nd", "sym"):
            # MXNet's operators without attributes ignore them: programs write
            for idle in IDLE:
                kwargs.pop(idle, None)                      # zeros_like(x, dtype=…) and log(x, axis=…)
        inputs, rest = _split_inputs(d, args, kwargs)
        for key, value in zip(attr_names if not d.variadic else [n for n in attr_names if n != d.arity_attr], rest):
            if key in kwargs:
                raise AttributeValueError(f"{public}: {key} was given twice")
            kwargs[key] = value
        if space != "sym":
            try:
                return invoke(d, inputs, kwargs, out, name, NP_CLASS[0] if space != "nd" and NP_CLASS else None, hint)
            except Exception as err:
                shortened(err)
                raise
        old, SCOPE.symbolic = SCOPE.symbolic, True          # also without inputs, which become variables
        try:
            return invoke(d, inputs, kwargs, out, name, None, hint)
        finally:
            SCOPE.symbolic = old
    if d.params is one_shape and not d.variadic and space in ("nd", "sym"):
        function = _of_one_shape(function, public)
    function.__signature__ = _signature(d)                       # type: ignore[attr-defined]
    function.options = ((IDLE if not attr_names and space in ("nd", "sym") else ())         # type: ignore[attr-defined]
                        + (PLAIN if space == "sym" else ()))
    return named(function, public, MODULES[space], document(d, public))


def _of_one_shape(function: Callable[..., Any], public: str) -> Callable[..., Any]:
    """The function of an elementwise operator, which does not broadcast as Python's operators do."""
    def checked(*args: Any, **kwargs: Any) -> Any:
        given = [args[i] if i < len(args) else kwargs.get(n) for i, n in enumerate(("lhs", "rhs"))]
        shapes = [s for x in given if (s := getattr(x, "shape", None)) is not None]
        if len(shapes) == 2 and shapes[0] != shapes[1]:
            raise ShapeError(f"{user_location()}: {public} takes arrays of one shape, got {shapes[0]} and {shapes[1]}: "
                             f"broadcast_add and its kin broadcast, as x + y of arrays does")
        return function(*args, **kwargs)
    return checked


def _split_inputs(d: OpDef, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    if d.variadic:
        if args and isinstance(args[0], (list, tuple)):
            return list(args[0]), list(args[1:])
        if not args and d.inputs[0] in kwargs:
            given = kwargs.pop(d.inputs[0])
            return list(given) if isinstance(given, (list, tuple)) else [given], []
        n = next((i for i, x in enumerate(args) if not array_like(x)), len(args))
        return list(args[:n]), list(args[n:])
    inputs: list[Any] = []
    at = 0
    for i, name in enumerate(d.inputs):
        if name in kwargs:
            inputs.append(kwargs.pop(name))
        elif at < len(args) and (i < len(d.inputs) - len(d.optional) or args[at] is None or array_like(args[at])):
            inputs.append(args[at])
            at += 1
        else:
            inputs.append(None)
    while inputs and inputs[-1] is None:
        inputs.pop()
    return inputs, list(args[at:])


def _signature(d: OpDef) -> inspect.Signature:
    kinds = inspect.Parameter
    parts = []
    if d.variadic:
        parts.append(kinds(d.inputs[0], kinds.VAR_POSITIONAL))
    else:
        parts += [kinds(n, kinds.POSITIONAL_OR_KEYWORD, default=None if n in d.optional else kinds.empty)
                  for n in d.inputs]
    after = kinds.KEYWORD_ONLY
    parts += [kinds(n, after, default=kinds.empty if a.default is REQUIRED else a.default)
              for n, a in d.attrs.items() if n not in d.inputs]
    parts += [kinds("name", after, default=None), kinds("out", after, default=None)]
    return inspect.Signature(parts)


# functions that are no operators: where they are
LAZY = {**{f"contrib.{name}": "hybrid.nd.control_flow" for name in ("foreach", "while_loop", "cond")},
        "cast_storage": "hybrid.sparse", "contrib.getnnz": "hybrid.sparse.contrib",
        "contrib.SparseEmbedding": "hybrid.sparse.contrib",
        **{f"contrib.{name}": "hybrid.sparse.graphs" for name in (
            "edge_id", "dgl_adjacency", "dgl_subgraph", "dgl_graph_compact", "dgl_csr_neighbor_uniform_sample",
            "dgl_csr_neighbor_non_uniform_sample")},
        "CachedOp": "hybrid.gluon.cached_op", "contrib.boolean_mask": "hybrid.nd.dynamic",
        "contrib.rand_zipfian": "hybrid.nd.updates", "nag_mom_update": "hybrid.nd.updates",
        **{f"contrib.multi_{name}_update": "hybrid.nd.updates" for name in ("adamw", "mp_adamw", "lamb", "mp_lamb")}}
# operators that have no answer for every matrix
SOLVERS = {"_linalg_potrf": "the matrix is not positive definite", "_linalg_potri": "the triangular matrix is singular",
           "_linalg_inverse": "the matrix is singular"}
_cache: dict[tuple[str, str], Any] = {}
_seen = [-1]


class Space(ModuleType):
    """A sub-namespace such as nd.contrib."""

    def __init__(self, space: str, prefix: str):
        super().__init__(f"hybrid.{space}.{prefix}")
        self._space, self._prefix = space, prefix

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return resolve(self._space, f"{self._prefix}.{name}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(n.split(".", 1)[1] for n in registry.namespace(_table(self._space))
                                      if n.startswith(self._prefix + "."))]


class Internal(ModuleType):
    """nd._internal and nd.op: every operator under every name, those of files too."""

    def __init__(self, space: str, name: str):
        super().__init__(f"hybrid.{space}.{name}")
        self._space = space

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        own = f"_sparse_{name}"
        return resolve(self._space, own if self.__name__.endswith(".sparse") and own in registry.OPS else name)


def _table(space: str) -> str:
    return "nd" if space == "sym" else space


def resolve(space: str, name: str) -> Any:
    """A function of a namespace by (dotted) name; AttributeError that names near ones otherwise."""
    if _seen[0] != registry.VERSION[0]:
        _cache.clear()
        _seen[0] = registry.VERSION[0]
    key = (space, name)
    if key not in _cache:
        found = _cache[key] = _find(space, name)
        if inspect.isfunction(found):
            MADE.add(found)
    return _cache[key]


MADE: weakref.WeakSet[Any] = weakref.WeakSet()           # functions that were looked up


class Kept:
    """The functions of operators that a module's ``__getattr__`` makes: once made they are put into the module, where
    Python finds them without asking again, until operators are registered or taken out."""

    def __init__(self, module: dict[str, Any], *names: Mapping[str, Any]) -> None:
        self.module = module
        self.names = names                               # tables by the names that functions have
        self.made: dict[str, Any] = {}                   # what was put there
        registry.CHANGED.append(self._forget)

    def __call__(self, name: str, found: Any) -> Any:
        """Keep what was found, if it is a function of the tables'; what was found."""
        if any(name in table for table in self.names):
            self.module[name] = self.made[name] = found
        return found

    def among(self, names: Iterable[str]) -> list[str]:
        """Those of some names that are in the tables; their functions are made now."""
        found = [name for name in names if any(name in table for table in self.names)]
        for name in found:
            if name not in self.module:
                self.module["__getattr__"](name)
        return found

    def _forget(self) -> None:
        for name, found in self.made.items():
            if self.module.get(name) is found:           # nobody put something else there
                del self.module[name]
        self.made.clear()


def _find(space: str, name: str) -> Any:
    table = registry.namespace(_table(space))
    if name in LAZY and not (name == "cast_storage" and space == "sym"):
        return getattr(importlib.import_module(LAZY[name]), name.rsplit(".", 1)[-1])
    if name in table:
        made = make_function(table[name], name, space)
        if table[name].name in SOLVERS and space in ("nd", "sym"):
            return importlib.import_module("hybrid.nd.solved").checked(table[name].name, made)
        return made
    if space == "npx" and name.startswith("image.") and hasattr(importlib.import_module("hybrid.image"), name[6:]):
        # npx.image has what mx.image has
        return getattr(importlib.import_module("hybrid.image"), name[6:])
    if any(n.startswith(name + ".") for n in table):
        return Space(space, name)
    if name in ("_internal", "op") and space in ("nd", "sym"):
        return Internal(space, name)
    if name in registry.OPS and space in ("nd", "sym"):
        return make_function(registry.OPS[name], name, space)

    # of Symbols: the operators, which are dense in a graph
    if name == "sparse" and space in ("nd", "sym"):
        return importlib.import_module("hybrid.sparse") if space == "nd" else Internal(space, name)
    if name.startswith("sparse.") and space in ("nd", "sym"):
        return getattr(_find(space, "sparse"), name[len("sparse."):])
    raise MissingNameError(f"hybrid.{space} has no {name!r}", name, _in_another_space(space, name) or LIBRARY.get(name),
                      lambda: table)


def _in_another_space(space: str, name: str) -> str | None:
    """The full name of a function of that name in a namespace below this one; None where there is none."""
    if "." not in name and space != "np" and hasattr(Space(space, "contrib"), name):
        return f"{space}.contrib.{name}"
    return next((f"{space}.{n}" for n in registry.namespace(_table(space)) if n.endswith("." + name)), None)


def has(space: str, name: str) -> bool:
    """Whether a namespace has a function or a sub-namespace of that name."""
    table = registry.namespace(_table(space))
    return name in table or any(n.startswith(name + ".") for n in table)


def listing(space: str) -> list[str]:
    """Names of a namespace, for dir()."""
    return sorted({n.split(".")[0] for n in registry.namespace(_table(space))})


symbol.RESOLVE += [resolve, listing]
ZEROS.append(lambda *args: resolve("nd", "sparse.zeros")(*args))
CONVERT.append(lambda x, stype: resolve("nd", "sparse.convert")(x, stype))
for _name in ("gathered", "gradients_of"):
    SPARSE[_name] = lambda *given, _name=_name: resolve("nd", f"sparse.{_name}")(*given)
