"""Block: a layer or network with children and parameters."""
from __future__ import annotations

import re
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Any, Callable

from .. import serialize
from ..autograd.gradient_hooks import GradientHook
from ..base import pending
from ..base.pytree import flatten, unflatten
from ..buffers.array import NDArray
from ..graph.symbol import Symbol
from ..jit.fingerprint import Watched, can_change_inside, fingerprint, named_in_methods
from ..jit.debug import LAST_CHANGE
from ..base.errors import AttributeValueError, FileFormatError, shortened, warn_user
from ..jit.api import check_options
from ..jit.watches import unread
from ..base.scope import SCOPE
from . import structure
from .assigned import States, another, hold, states_of
from .nested import _flatten, _regroup  # noqa: F401  their place in MXNet
from .naming import BlockScope
from .naming import BlockScope as _BlockScope  # noqa: F401  MXNet's name
from .noted import Children, Settings
from .parameter import VERSION, Parameter, ParameterDict, fill
from .returning import Result, Returning

if TYPE_CHECKING:
    from typing_extensions import Self
from .summary import print_summary
from .hooks import HookHandle, call_hook


class Block(Returning[Result]):
    """Base of all layers and networks. Children and parameters that are assigned as attributes are registered.

    >>> class Net(Block):
    ...     def __init__(self, **kwargs):
    ...         super().__init__(**kwargs)
    ...         with self.name_scope():
    ...             self.fc = nn.Dense(10)
    ...     def forward(self, x):
    ...         return self.fc(x)
    """

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None):
        d = self.__dict__
        d["_empty_prefix"] = prefix == ""
        d["_prefix"], d["_params"] = BlockScope.create(prefix, params, self._alias())
        d["_name"] = self._prefix[:-1] if self._prefix.endswith("_") else self._prefix
        d["_scope"] = BlockScope(self)
        d["_children"], d["_reg_params"] = Children(), {}
        d["_forward_hooks"], d["_forward_pre_hooks"], d["_backward_hooks"] = OrderedDict(), OrderedDict(), OrderedDict()
        d["_version"], d["_states"] = 0, States()
        d["_loose"] = {k for k, v in d.items() if k not in _OWN and can_change_inside(v)}

    _prefix: str
    _name: str
    _params: ParameterDict
    _children: Children
    _reg_params: dict[str, Parameter]
    _loose: set[str]

    def _alias(self) -> str:
        return type(self).__name__.lower()

    def _signature_version(self) -> Any:
        """A value that is another one whenever something differs that a trace of this block depends on."""
        changes = self._children.changes + getattr(self.__dict__.get("_kwargs"), "changes", 0)
        return self._version, changes, *(c._signature_version() for c in self._children.values())

    def __setattr__(self, name: str, value: Any) -> None:
        if pending.PUT_OFF[0]:
            pending.settle_for(f"attribute {name!r} of {type(self).__name__} was assigned", block=self)
        existing = self.__dict__.get(name)
        kinds = (type(existing), Block) if isinstance(existing, Block) else type(existing)
        if isinstance(existing, (Parameter, Block)) and not isinstance(value, kinds):
            raise TypeError(f"attribute {name!r} of {type(self).__name__} is a {type(existing).__name__} and cannot "
                            f"become {type(value).__name__}")
        # before super().__init__(): plain values may be set already
        if "_reg_params" not in self.__dict__:
            if isinstance(value, (Block, Parameter)):
                raise AttributeError(f"{type(self).__name__}.{name}: call super().__init__(**kwargs) before layers "
                                     f"and parameters are assigned")
            self.__dict__[name] = value
            return
        if isinstance(value, Block):
            self.register_child(value, name)
        elif isinstance(value, Parameter):
            if name in self._reg_params and self._reg_params[name] is not value:
                raise AttributeValueError(f"parameter {name!r} of {type(self).__name__} is registered already; use a "
                                          f"different attribute")
            self._reg_params[name] = value
        elif SCOPE.watching is not None and unread(name):
            self.__dict__[name] = value
            return
        elif can_change_inside(value):
            self._loose.add(name)
            value = Settings(value) if name == "_kwargs" and type(value) is dict else value
            value = Children(value) if name == "_children" and not isinstance(value, Children) else value
        state = hold(self, name, value)
        if state is not None:
            LAST_CHANGE[0] = f"attribute {name!r} of {type(self).__name__}"
            self._touched(state)

    def _watched(self) -> list[Any]:
        """Attributes whose contents may have changed since the last call, its own and the children's (see
        attributes.py)."""
        names = named_in_methods(type(self)) if self._loose else frozenset()
        own: list[Any] = [Watched(self.__dict__.get(k), names) for k in sorted(self._loose) if names is None
                          or k in names]
        return own + [v for c in self._children.values() for v in c._watched()]

    def __delattr__(self, name: str) -> None:
        pending.settle_for(f"attribute {name!r} of {type(self).__name__} was deleted", block=self)
        object.__delattr__(self, name)
        self._children.pop(name, None)
        self._reg_params.pop(name, None)
        self._touched()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Makes a copy, or a block from a file: in a new state (assigned.py), as a process numbers its own states."""
        self.__dict__.update(state, _version=another(), _states=States())

    def _may_read(self, names: frozenset[str] | None) -> None:
        """Note that traced code may have read attributes of these names; None: of any name."""
        states_of(self).read.add(names)

    def _touched(self, state: int | None = None) -> None:
        """Note that the block is in another state. state: its number; None: a new one; old ones do not come back."""
        if state is None:
            states_of(self).forget()
        self.__dict__["_version"] = another() if state is None else state
        BLOCK_VERSION[0] += 1

    def __repr__(self) -> str:
        lines = [f"  ({k}): {_indent(repr(v))}" for k, v in self._children.items()]
        return "\n".join([f"{type(self).__name__}(", *lines, ")"]) if lines else f"{type(self).__name__}(\n\n)"

    # ---- names and parameters
    @property
    def prefix(self) -> str:
        """What the names of its parameters begin with."""
        return self._prefix

    @property
    def name(self) -> str:
        """The prefix without its underscore."""
        return self._name

    @property
    def params(self) -> ParameterDict:
        """Its own parameters (not the children's)."""
        return self._params

    def name_scope(self) -> BlockScope:
        """``with self.name_scope():`` makes new layers take this block's prefix."""
        return self._scope

    def collect_params(self, select: str | None = None) -> ParameterDict:
        """All parameters, its own and the children's; those whose name matches a regular expression."""
        self._warn_of_lists()
        out = ParameterDict(self._params.prefix)
        pattern = re.compile(select) if select is not None else None
        own = dict(self._params.items())
        named = set(map(id, own.values()))
        own.update({p.name: p for p in self._reg_params.values() if id(p) not in named})
        for name, p in own.items():
            if pattern is None or pattern.match(name):
                out._params.setdefault(name, p)
        for child in self._children.values():
            out.update(child.collect_params(select))
        return out

    def _warn_of_lists(self) -> None:
        """Layers in a plain list are no children: their parameters are not initialized, saved or trained."""
        children = set(map(id, self._children.values()))

        def stray(value: Any) -> bool:
            if isinstance(value, dict):
                value = list(value.values())
            return any(map(stray, value)) if isinstance(value,
                                                        (list, tuple)) else isinstance(value,
                    Block) and id(value) not in children
        for name in self._loose | {k for k, v in self.__dict__.items() if isinstance(v, tuple)}:
            if stray(self.__dict__.get(name, ())):
                warn_user(f"{type(self).__name__}.{name} holds layers, but layers in a list, tuple or dict are "
                          f"not registered: their parameters are not "
                          "initialized, saved or trained with the network. Use nn.Sequential or "
                          "nn.HybridSequential, or register_child() on each.")

    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, Parameter]:
        if prefix:
            prefix += "."
        out = {prefix + k: v for k, v in self._reg_params.items()}
        for name, child in self._children.items():
            out.update(child._collect_params_with_prefix(prefix + name))
        return out

    def register_child(self, block: "Block", name: str | None = None) -> None:
        """Add a child; its name is a number when none is given."""
        self._children[name if name is not None else str(len(self._children))] = block
        self._touched()

    def apply(self, fn: Callable[["Block"], Any]) -> "Self":
        """Call fn on every descendant, then on this block."""
        for child in self._children.values():
            child.apply(fn)
        fn(self)
        return self

    def initialize(self, init: Any = None, ctx: Any = None, verbose: bool = False, force_reinit: bool = False) -> None:
        """Initialize all parameters (Uniform(0.07) by default)."""
        self.collect_params().initialize(init, ctx, verbose, force_reinit)

    def cast(self, dtype: Any) -> None:
        """Another dtype for all parameters."""
        for child in self._children.values():
            child.cast(dtype)
        for p in self._params.values():
            p.cast(dtype)

    def zero_grad(self) -> None:
        """Set all gradients to zero."""
        self.collect_params().zero_grad()

    def reset_ctx(self, ctx: Any) -> None:
        """Move all parameters to a device."""
        self.collect_params().reset_ctx(ctx)

    # ---- hooks
    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """hook(block, inputs) before every call."""
        return HookHandle(self._forward_pre_hooks, hook, self)      # type: ignore[attr-defined]

    def register_forward_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """hook(block, inputs, output) after every call."""
        return HookHandle(self._forward_hooks, hook, self)          # type: ignore[attr-defined]

    def register_backward_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """hook(block, gradient) when the gradient of the block's result is computed; of a block with several results
        once for each. What it returns, if not None, takes the place of the gradient.
        """
        handle = HookHandle(self._backward_hooks, hook, self)       # type: ignore[attr-defined]
        self._backward_hooks[handle.id] = GradientHook(partial(hook, self),      # type: ignore[attr-defined]
                                                       f"the backward hook of {self.name}")
        return handle

    def _with_backward_hooks(self, out: Any) -> Any:
        """The results of a recorded call, whose gradients the backward hooks will see."""
        hooks = self.__dict__.get("_backward_hooks")
        if not hooks or not SCOPE.recording:
            return out
        leaves: list[Any] = []
        form = flatten(out, lambda v: isinstance(v, (NDArray, Symbol)), leaves, by_identity=True)
        for hook in hooks.values():
            leaves = [hook.through(x) for x in leaves]
        return unflatten(form, iter(leaves))

    def register_op_hook(self, callback: Callable[..., Any], monitor_all: bool = False) -> None:
        """callback(name of the value, name of the operator, array) for every operator of the hybridized blocks
        below."""
        for child in self._children.values():
            child.register_op_hook(callback, monitor_all)

    # ---- calls
    def _tree_ids(self, into: set[int]) -> None:
        """Add the ids of this block and of all below it."""
        into.add(id(self))
        for c in self._children.values():
            c._tree_ids(into)

    def _trace_version(self) -> Any:
        """What a trace that called this block depends on."""
        parameters = tuple((p._shape, p._dtype) for p in self._collect_params_with_prefix().values())
        return id(self), self._signature_version(), parameters, fingerprint(self._watched())

    def _counters(self) -> tuple[list[int], ...] | None:
        """Numbers that grow with each change of ``_trace_version``; None when a change inside a list would go
        unseen."""
        return None if self._watched() else (BLOCK_VERSION, VERSION)

    def __call__(self, *args: Any, **kwargs: Any) -> Result:
        try:
            return self._slow_call(*args, **kwargs)
        except Exception as err:
            shortened(err)
            raise

    def _slow_call(self, *args: Any, **kwargs: Any) -> Any:
        if SCOPE.traces:
            SCOPE.traces[-1].blocks.append(self)
        for hook in list(self.__dict__["_forward_pre_hooks"].values()):
            call_hook(hook, self, args)
        out = self._with_backward_hooks(self.forward(*args, **kwargs))
        for hook in list(self.__dict__["_forward_hooks"].values()):
            call_hook(hook, self, args, out)
        return out

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The computation; override it."""
        raise NotImplementedError(f"{type(self).__name__} must define forward(self, x)")

    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        """Hybridize the children that can be."""
        kwargs = check_options(kwargs)
        for child in self._children.values():
            child.hybridize(active, **kwargs)

    # ---- files
    def save_parameters(self, filename: Any, deduplicate: bool = False) -> None:
        """Save all parameters by structural name (``0.weight``) in MXNet's format. The file appears whole or not at
        all."""
        params = self._collect_params_with_prefix()
        if deduplicate:
            last = {id(p): k for k, p in params.items()}          # the name that MXNet keeps
            params = {k: p for k, p in params.items() if last[id(p)] == k}
        serialize.save(filename, {k: p._reduce() for k, p in params.items()})

    def load_parameters(self, filename: Any, ctx: Any = None, allow_missing: bool = False, ignore_extra: bool = False,
                        cast_dtype: bool = False, dtype_source: str = "current") -> None:
        """Load parameters: files of ``save_parameters``, of ``collect_params().save`` and of ``export``."""
        loaded = serialize.load(filename)
        params = self._collect_params_with_prefix()
        if not loaded and not params:
            return
        loaded = loaded or {}
        if not isinstance(loaded, dict):
            raise FileFormatError(f"{filename} holds arrays without names, so it cannot be loaded into a network")
        if not any("." in k for k in loaded) and (not set(loaded) & set(params)
                                                  or any(k[:4] in ("arg:", "aux:") for k in loaded)):
            plain = {k[4:] if k[:4] in ("arg:", "aux:") else k: v for k, v in loaded.items()}
            full = self.collect_params()
            if set(plain) & set(full.keys()) or not set(plain) & set(params):
                prefix = "" if set(plain) & set(full.keys()) else self.prefix
                values = {prefix + k: v for k, v in plain.items()}
                fill(full._params, values, str(filename), ctx, allow_missing, ignore_extra, cast_dtype, dtype_source,
                     True)
                return
            loaded = plain
        # a file with shared parameters once: every name gets its value
        for k, p in params.items():
            if k not in loaded:
                twin = next((n for n, q in params.items() if q is p and n in loaded), None)
                if twin:
                    loaded[k] = loaded[twin]
        fill(params, loaded, str(filename), ctx, allow_missing, ignore_extra, cast_dtype, dtype_source, True)

    def save_params(self, filename: Any) -> None:
        """MXNet's older ``save_parameters``: by full name without the prefix."""
        self.collect_params().save(filename, strip_prefix=self.prefix)

    load_params = load_parameters

    def share_parameters(self, shared: dict[str, Parameter]) -> "Self":
        """Use another block's parameters (by structural name) in place of its own."""
        own = self._collect_params_with_prefix()
        for name, p in shared.items():
            if name in own:
                block: Any = self
                *path, last = name.split(".")
                for part in path:
                    block = block._children[part]
                block._reg_params[last] = p
                block.__dict__[last] = p
                self._touched()
        return self

    # ---- summary
    def summary(self, *inputs: Any) -> None:
        """Print a table of layers, output shapes and numbers of parameters for some inputs."""
        print_summary(self, inputs)

    # ---- structure and parameters in files
    def save(self, prefix: str) -> None:
        """Write ``prefix-model.json`` (the tree of blocks) and ``prefix-model.params``; ``load`` reads them into a
        network made by the same code."""
        structure.save(self, prefix)

    def load(self, prefix: str) -> None:
        """Take over what ``save`` wrote: parameters, and which blocks were hybridized. KeyError when the tree of blocks
        is another."""
        structure.load(self, prefix)


_OWN = {"_empty_prefix", "_prefix", "_params", "_name", "_scope", "_children", "_reg_params", "_backward_hooks",
        "_forward_hooks", "_forward_pre_hooks", "_version", "_states"}
# grows with every change of any block's attributes: the cheap check of the fast path
BLOCK_VERSION = [0]


def _indent(text: str) -> str:
    first, *rest = text.split("\n")
    return "\n".join([first, *("  " + line for line in rest)])


__all__ = ["BLOCK_VERSION", "Block", "HookHandle"]
