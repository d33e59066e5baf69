"""What cases are made of: registration, the two ways to run one, and the verdict."""
from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
import random
import re
import signal
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as onp

import hybrid as mx
from hybrid import HybridError, gluon, nd
from hybrid.buffers.array import NDArray

Hybridizer = Callable[..., Any]
HERE = Path(__file__).parent
LIMIT = 120                                    # seconds that one case may take
CASES: dict[str, Case] = {}


class Case(NamedTuple):
    """One trap: who it is, and the generator that plays it."""

    name: str
    play: Callable[[Hybridizer], Iterator[Any]]


class Outcome(NamedTuple):
    """What a run gave: the values it yielded, and the error that ended it."""

    values: list[Any]
    error: BaseException | None


class Verdict(NamedTuple):
    """right, refused, WRONG, unclear (refused without the user's line) or crash; and why."""

    word: str
    reason: str = ""

    @property
    def good(self) -> bool:
        return self.word in ("right", "refused")


def trap(play: Callable[[Hybridizer], Iterator[Any]]) -> Callable[[Hybridizer], Iterator[Any]]:
    """Registers a generator under its category (its module, up to an underscore) and its own name."""
    add(f"{play.__module__.rsplit('.', 1)[-1].split('_')[0]}.{play.__name__}", play)
    return play


def add(name: str, play: Callable[[Hybridizer], Iterator[Any]]) -> None:
    if name in CASES:
        raise ValueError(f"two traps are called {name}")
    CASES[name] = Case(name, play)


def load() -> dict[str, Case]:
    """Every case of the package."""
    for module in pkgutil.iter_modules([str(HERE)]):
        if module.name not in ("tools", "written_objects", "__main__"):
            importlib.import_module(f"{__package__}.{module.name}")
    return CASES


def arr(*values: Any, dtype: str = "float32") -> NDArray:
    return nd.array(list(values), dtype=dtype)


def calls(f: Any, *args: Any, times: int = 3) -> list[Any]:
    """What a few calls with the same arguments give."""
    return [f(*args) for _ in range(times)]


def eager(target: Any = None, **_: Any) -> Any:
    """Leaves code as it is."""
    return target if target is not None else lambda again: again


def hybridized(target: Any = None, **options: Any) -> Any:
    """Hybridizes a function, a class or a block."""
    if isinstance(target, gluon.Block):
        target.hybridize(**options)
        return target
    return mx.hybridize(target, **options)


def run(case: Case, how: Hybridizer) -> Outcome:
    """Plays a case once, from fixed seeds; what it yields is copied at once, for later calls may write to it."""
    random.seed(1)
    onp.random.seed(1)
    mx.random.seed(1)
    values: list[Any] = []
    environment, folder = dict(os.environ), os.getcwd()
    with warnings.catch_warnings(), _limited():
        warnings.simplefilter("ignore")
        try:
            for value in case.play(how):
                values.append(plain(value))
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as err:  # noqa: BLE001  the verdict looks at it
            return Outcome(values, err)
        finally:
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(environment)
    return Outcome(values, None)


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """Raises TimeoutError in a case that takes too long, where the main thread can."""
    def late(*_: Any) -> None:
        raise TimeoutError(f"more than {LIMIT} seconds")
    try:
        old = signal.signal(signal.SIGALRM, late)
    except ValueError:                         # not the main thread
        yield
        return
    signal.alarm(LIMIT)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)


def plain(value: Any) -> Any:
    """A value as NumPy arrays and Python containers."""
    if isinstance(value, NDArray):
        return "NDArray", value.asnumpy().copy()
    if isinstance(value, onp.ndarray):
        return "ndarray", value.copy()
    if isinstance(value, dict):
        return type(value).__name__, [(k, plain(v)) for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(v) for v in value]
    if value is None or isinstance(value, (bool, int, float, str, bytes, onp.generic)):
        return value
    return f"a {type(value).__name__}"


def equal(a: Any, b: Any) -> bool:
    """Two plain values are the same, close for floats; zeros of both signs are equal (cases ask for signs
    themselves)."""
    if type(a) is not type(b):
        return False
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b))
    if isinstance(a, onp.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and _close(a, b)
    if isinstance(a, (float, onp.floating)):
        return _close(onp.asarray(a), onp.asarray(b))
    return bool(a == b)


def _close(a: onp.ndarray, b: onp.ndarray) -> bool:
    if a.dtype.kind not in "fV":
        return bool((a == b).all())
    tol = 3e-3 if a.dtype.itemsize == 2 and a.dtype.name == "float16" else 2e-2 if a.dtype.itemsize == 2 else 1e-4
    return bool(onp.allclose(a.astype("float64"), b.astype("float64"), tol, 1e-6, equal_nan=True))


def judge(case: Case) -> Verdict:
    """Right, refused, or not."""
    want = run(case, eager)
    got = run(case, hybridized)
    for i, (a, b) in enumerate(zip(want.values, got.values)):
        if not equal(a, b):
            return Verdict("WRONG", f"value {i}: eager {_short(a)}, hybridized {_short(b)}")
    return _ended(want, got)


def _ended(want: Outcome, got: Outcome) -> Verdict:
    """The verdict over runs whose common values agree."""
    there = f"after {len(got.values)} values"
    if got.error is None:
        if want.error is None and len(want.values) == len(got.values):
            return Verdict("right")
        return Verdict("WRONG",
                       f"eager raises {_short(want.error)} after {len(want.values)} values, hybridized does not")
    if want.error is not None and len(want.values) == len(got.values):
        if isinstance(got.error, type(want.error)) or isinstance(got.error, HybridError):
            return Verdict("right")
        return Verdict("crash", f"eager raises {_short(want.error)}, hybridized {_short(got.error)}")
    if not isinstance(got.error, HybridError):
        return Verdict("crash", f"{there}: {_short(got.error)}")
    if len(want.values) < len(got.values):
        return Verdict("WRONG", f"eager raises {_short(want.error)} earlier")
    if not re.search(r"traps[/\\]\w+\.py:\d+", str(got.error)):
        return Verdict("unclear", f"{there}, no line: {_short(got.error)}")
    return Verdict("refused", _short(got.error))


def _short(value: Any) -> str:
    text = f"{type(value).__name__}: {value}" if isinstance(value, BaseException) else repr(value)
    return re.sub(r"\s+", " ", text)[:300]
