"""Finding ``mxnet`` and its parts: a finder at the front of ``sys.meta_path``. No file of an installed MXNet is
touched."""
from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import multiprocessing.pool                               # noqa: E501, F401  importing MXNet brings it: programs name it and import multiprocessing alone
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Sequence

from ..base.errors import HybridError
from . import old_numpy
from .table import ABSENT, BESIDE, MODULES, VERSION

_SHIM = str(Path(__file__).parent / "path")              # holds an mxnet.py for processes that take over only sys.path


class MissingPart(ModuleNotFoundError):
    """A part of MXNet that is not in this library."""


def missing(name: str) -> str:
    """The sentence about a missing part."""
    known = next((reason for part, reason in ABSENT.items() if name == part or name.startswith(part + ".")), "")
    return f"{name} is not in hybrid, which stands for mxnet here" + (f": {known}" if known else "")


def lookup(name: str) -> Any:
    """The object that stands for a module of MXNet; MissingPart where there is none."""
    if name == "mxnet":
        return _top()
    targets = MODULES.get(name) or BESIDE.get(name)
    if targets is None:
        raise MissingPart(missing(name))
    first, *others = [_load(t, name) for t in targets]
    if others and name not in _widened:
        _widened.add(name)
        _widen(first, others, name)
    return first


def _load(target: str, name: str) -> Any:
    """A module, or an attribute of one, by its dotted path."""
    found: Any = sys.modules["hybrid"]
    done = "hybrid"
    for part in target.split(".")[1:]:
        done += f".{part}"
        if _exists(done):
            found = importlib.import_module(done)
        elif hasattr(found, part):
            found = getattr(found, part)
        else:
            raise MissingPart(missing(name))
    return found


def _exists(path: str) -> bool:
    """Whether a module of this library is there, without importing it (an error inside it must not look like its
    absence)."""
    try:
        return path in sys.modules or importlib.util.find_spec(path) is not None
    except (ModuleNotFoundError, ValueError):              # its parent is no folder, or no module of the import system
        return False


_widened: set[str] = set()


def _widen(module: ModuleType, others: Sequence[Any], name: str) -> None:
    """Names that a module lacks are looked up in others from here on: MXNet keeps in one file what is in several
    here."""
    own = module.__dict__.get("__getattr__")

    def find(key: str) -> Any:
        if own is not None:
            try:
                return own(key)
            except AttributeError:
                pass
        for other in others if not key.startswith("__") else ():
            if key in vars(other):
                return vars(other)[key]
        raise AttributeError(missing(f"{name}.{key}"))
    module.__dict__["__getattr__"] = find
    if "__all__" in vars(module):
        own_names = vars(module)["__all__"]
        vars(module)["__all__"] = [*own_names, *(n for other in others for n in getattr(other, "__all__", ())
                                                 if n not in own_names)]


class Top(ModuleType):
    """The module ``mxnet``: hybrid, with MXNet's version and module names."""

    def __init__(self) -> None:
        super().__init__("mxnet", sys.modules["hybrid"].__doc__)
        self.__path__: list[str] = []
        self.__file__ = sys.modules["hybrid"].__file__
        self.__version__ = VERSION

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return [n for n in dir(self) if not n.startswith("_") and f"mxnet.{n}" not in ABSENT]
        if f"mxnet.{name}" in MODULES:
            try:
                return importlib.import_module(f"mxnet.{name}") if installed() else lookup(f"mxnet.{name}")
            except MissingPart as err:
                raise AttributeError(str(err)) from None
        if not name.startswith("__") and f"mxnet.{name}" not in ABSENT:
            try:
                return getattr(sys.modules["hybrid"], name)
            except AttributeError:
                pass
        raise AttributeError(missing(f"mxnet.{name}"))

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(sys.modules["hybrid"]), *(m.split(".")[1] for m in MODULES)})


_made: list[Top] = []


def _top() -> Top:
    if not _made:
        _made.append(Top())
    return _made[0]


class Finder:
    """Answers imports of ``mxnet`` and what is below it, and of ``horovod.mxnet``; leaves all others alone."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """A spec for MXNet's names and Horovod's for it, None for others."""
        if name == "horovod" and importlib.machinery.PathFinder.find_spec(name) is not None:
            return None                                    # its other parts (horovod.torch) are its own
        if name.partition(".")[0] != "mxnet" and name not in BESIDE:
            return None
        return importlib.machinery.ModuleSpec(name, _Loader(lookup(name)),  # type: ignore[arg-type]
                                              is_package=True)


class _Loader:
    """Puts a module that exists already under another name; the module itself stays as it is."""

    def __init__(self, module: Any):
        self._module = module

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, blank: ModuleType) -> None:
        if isinstance(self._module, ModuleType) and "__path__" not in vars(self._module):
            # ``mxnet.ndarray`` is a folder in MXNet: mxnet.ndarray.ndarray can be imported
            self._module.__path__ = []
        sys.modules[blank.__name__] = self._module


_FINDER = Finder()


def installed() -> bool:
    """Whether ``import mxnet`` means this library now."""
    return _FINDER in sys.meta_path


def install() -> ModuleType:
    """Let ``import mxnet`` mean this library from here on, also in processes that this one starts. Returns ``mxnet``.

    HybridError when another mxnet has been imported already.
    """
    other = sys.modules.get("mxnet")
    if other is not None and not isinstance(other, Top) and getattr(other, "__file__",
                                                                    "") != str(Path(_SHIM) / "mxnet.py"):
        raise HybridError(f"mxnet is imported already, from {getattr(other, '__file__', '?')}: call hybrid.as_mxnet() "
                          f"before anything imports it")
    if not installed():
        sys.meta_path.insert(0, _FINDER)                  # type: ignore[arg-type]
        sys.path.insert(0, _SHIM)
        old_numpy.add()
    # sys.modules gets it when a program imports it: some look whether one did
    return _top()


def remove() -> None:
    """Let ``import mxnet`` mean what it meant before."""
    if installed():
        sys.meta_path.remove(_FINDER)                     # type: ignore[arg-type]
        sys.path.remove(_SHIM)
        old_numpy.take_away()
    for name in [n for n in sys.modules if n.partition(".")[0] in ("mxnet", "horovod")]:
        if installed_here(sys.modules[name]):
            del sys.modules[name]


def installed_here(module: Any) -> bool:
    """Whether a module under MXNet's name is this library's."""
    return isinstance(module, Top) or str(getattr(module, "__name__", type(module).__module__)).startswith("hybrid")
