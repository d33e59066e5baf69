"""``Block.save`` and ``Block.load``: the tree of blocks as JSON, in MXNet's form, beside a file of parameters.

A block stands under its class's name in lower case and a number that counts the blocks; ``children`` maps the
children's names to the attributes they are held in.
"""
from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any, Iterator

from ..base.errors import FileFormatError
from ..base.atomic import write_bytes


def _key(block: Any, numbers: Iterator[int]) -> str:
    return f"{type(block).__name__.lower()}{next(numbers)}"


def save(block: Any, prefix: str) -> None:
    """Write ``prefix-model.json`` and ``prefix-model.params``."""
    numbers = count()
    tree = {_key(block, numbers): _describe(block, numbers)}
    write_bytes(f"{prefix}-model.json", json.dumps(tree).encode())
    block.save_parameters(f"{prefix}-model.params")


def _describe(block: Any, numbers: Iterator[int]) -> dict[str, Any]:
    out: dict[str, Any] = {"orig_name": block.name, "hybridized": bool(getattr(block, "_active", False)),
                           "children": {child.name: name for name, child in block._children.items()}}
    for child in block._children.values():
        key = _key(child, numbers)
        out[key] = _describe(child, numbers)
    return out


def load(block: Any, prefix: str) -> None:
    """Compare the tree with the block's, take over names and what was hybridized, then the parameters."""
    path = f"{prefix}-model.json"
    try:
        tree = json.loads(Path(path).read_text())
    except ValueError as err:
        raise FileFormatError(f"{path} is no JSON file: {err}") from None
    numbers = count()
    wanted = _key(block, numbers)
    active: list[Any] = []
    _compare(block, _entry(tree, wanted, path), numbers, path, active)
    block.load_parameters(f"{prefix}-model.params")
    for b in active:
        if not b._active:
            b.hybridize()


def _entry(tree: Any, key: str, path: str) -> Any:
    if not isinstance(tree, dict) or key not in tree:
        raise KeyError(f"{path} holds {', '.join(tree) if isinstance(tree, dict) else type(tree).__name__} where this "
                       f"network has {key}: "
                       "load() is for a network made by the same code")
    return tree[key]


def _compare(block: Any, tree: Any, numbers: Iterator[int], path: str, active: list[Any]) -> None:
    if not isinstance(tree, dict):
        raise FileFormatError(f"{path}: a block is described by {type(tree).__name__}")
    if tree.get("hybridized") and hasattr(block, "_active"):
        active.append(block)
    for child in block._children.values():
        key = _key(child, numbers)
        _compare(child, _entry(tree, key, path), numbers, path, active)
    _take_names(block, tree)


def _take_names(block: Any, tree: dict[str, Any]) -> None:
    """Give a block, its parameters and its children the names of the file; children have theirs already."""
    name = tree.get("orig_name", block.name)
    parameters, prefix = block.params._params, block.params.prefix
    if name != block.name:
        for full in list(parameters):
            own = full[len(prefix):] if full.startswith(prefix) else full
            parameters[f"{name}_{own}"] = parameters.pop(full)
        block._name = name
    held_in = tree.get("children", {})
    for attribute, child in list(block._children.items()):
        block._children.pop(attribute)
        block._children[held_in.get(child.name, attribute)] = child
