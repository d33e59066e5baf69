"""Our ``dataclass`` makes classes that behave as those of Python's own."""
from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import field
from typing import Any

import pytest

from hybrid.base.records import dataclass


@dataclass
class Open:
    """Fields of each kind."""
    a: int
    b: str = "x"
    c: list[int] = field(default_factory=list)
    hidden: int = field(default=1, repr=False, compare=False)
    later: int = field(init=False, compare=False, repr=False)
    listed: list[int] = field(init=False, default_factory=list, repr=False)


@dataclass(frozen=True)
class Base:
    """Frozen."""
    name: str


@dataclass(frozen=True)
class Derived(Base):
    """With a field more, and a value that is computed."""
    size: int = 2

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError("negative")


@dataclass(frozen=True)
class Written:
    """Has methods of its own."""
    a: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Written)

    def __repr__(self) -> str:
        return "written"


def _both(**options: Any) -> tuple[type, type]:
    def body(space: dict[str, Any]) -> None:
        space.update(__annotations__={"a": "int", "b": "float", "c": "list"}, b=2.0, c=field(default_factory=list),
                     __module__=__name__)
    import types  # noqa: PLC0415
    ours, theirs = (types.new_class("Both", exec_body=body) for _ in range(2))
    return dataclass(**options)(ours), dataclasses.dataclass(**options)(theirs)


@pytest.mark.parametrize("options", [{}, {"frozen": True}, {"eq": False}, {"frozen": True, "eq": False}], ids=str)
def test_as_pythons_own(options: dict[str, bool]) -> None:
    ours, theirs = _both(**options)
    for cls in (ours, theirs):
        cls.__qualname__ = "Both"
    a, b = ours(1, c=[3]), theirs(1, c=[3])
    assert repr(a) == repr(b) and dataclasses.astuple(a) == dataclasses.astuple(b)
    assert [f.name for f in dataclasses.fields(a)] == ["a", "b", "c"] and ours.__match_args__ == theirs.__match_args__
    assert (a == ours(1, c=[3])) == (b == theirs(1, c=[3])) and a != b and a != ours(2, c=[3])
    assert (ours.__hash__ is None) == (theirs.__hash__ is None)
    assert ours(1).c == [] and ours(1).c is not ours(1).c
    assert dataclasses.replace(a, a=5).a == 5
    for cls, one in ((ours, a), (theirs, b)):
        if options.get("frozen"):
            with pytest.raises(dataclasses.FrozenInstanceError):
                one.a = 3
            with pytest.raises(dataclasses.FrozenInstanceError):
                del one.a
        else:
            one.a = 3
        with pytest.raises(TypeError):
            cls()
        with pytest.raises(TypeError):
            cls(1, 2, 3, 4)


def test_fields() -> None:
    assert Open(1) == Open(1, hidden=5) and repr(Open(1)) == "Open(a=1, b='x', c=[])"
    assert Open(1).listed == [] and not hasattr(Open(1), "later")
    one = Derived("n", 3)
    assert one == Derived("n", 3) and hash(one) == hash(Derived("n", 3)) and one != Derived("n") and one != Base("n")
    assert {Base("n"): 1}[Base("n")] == 1
    assert pickle.loads(pickle.dumps(one)) == copy.deepcopy(one) == one
    with pytest.raises(ValueError, match="negative"):
        Derived("n", -1)


def test_own_methods_stay() -> None:
    assert Written(1) == Written(2) and repr(Written(1)) == "written"
    assert isinstance(hash(Written(1)), int)                 # as Python's: a frozen class that compares has one


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("prefix", ["", "_", "__"])
def test_fields_whose_names_the_made_init_might_use(frozen: bool, prefix: str) -> None:
    names = [prefix + n for n in ("self", "put", "set", "MISSING", "missing", "default_last", "make_last", "last")]
    space = {"__annotations__": dict.fromkeys(names, "list"), names[-1]: field(default_factory=list)}
    one = dataclass(frozen=frozen)(type("Named", (), space))(*range(7))
    assert [getattr(one, n) for n in names] == [*range(7), []]
