"""Slices of halves that come through tensor maps (TMA, sm_90a): one thread copies a box of an array, and the copy puts
its pieces where products of warpgroups read them, with zeros outside of the array."""
from __future__ import annotations

from hybrid.base.records import dataclass
from hybrid.ir import Node
from hybrid.ir.index import Ix, Var

from .pieces import TensorMap
from .product import Product
from .stages import Swizzled, even_step
from .target import current

FORM = "slices through tensor maps"
LINE = 64                       # elements of a line of a box: 128 bytes, the span of the swizzle


@dataclass(frozen=True)
class Boxes:
    """An operand's slices as boxes: the array, its tensor map, and the parameter that it is."""
    x: Swizzled
    array: Node
    map: TensorMap

    @property
    def name(self) -> str:
        """The kernel's parameter."""
        return f"{self.x.side}_map"

    def copy(self, to: str, k: str, barrier: str) -> list[str]:
        """Statements that copy the slice at depth k to the address ``to``."""
        x, across = self.x, f"(int){self.x.start}"
        matrix = ", (int)u" if len(self.map.sizes) > 2 else ""
        if x.by_depth:
            return [f"hy_copy_box({to} + {x.offset}, {self.name}, {barrier}, {k}, {across}{matrix});"]
        return [f"hy_copy_box({to} + {x.offset + i * x.deep * 2}, {self.name}, {barrier}, {across} + {i}, {k}{matrix});"
                for i in range(0, x.size, LINE)]


def boxes_of(p: Product, *slices: Swizzled) -> list[Boxes] | str:
    """Both operands' slices as boxes; or why they come another way."""
    if current().no_maps:
        return current().no_maps
    out = []
    for x in slices:
        found = _map_of(p, x)
        if isinstance(found, str):
            return found
        memory = p.operand(x.side).memory
        assert memory is not None
        out.append(Boxes(x, memory, found))
    return out


def _map_of(p: Product, x: Swizzled) -> TensorMap | str:
    place, name = p.operand(x.side).place, "rows" if x.side == "a" else "columns"
    if x.guards:
        return f"the {name} are padded with zeros, which a tensor map of the array does not have"
    side, deep, matrix = (None if place is None else _step(place, axes)
                          for axes in (p.group(x.side), p.m.depth, p.m.batch))
    if place is None or side is None or deep is None or matrix is None:
        return f"the {name} are no matrix with even distances"
    item, (extent, apart) = x.item, (x.extent, side) if x.by_depth else (p.depth, deep)
    sizes = [p.depth if x.by_depth else x.extent, extent, *([p.batch] if matrix else [])]
    strides = [n * item for n in (apart, *([matrix] if matrix else []))]
    refused = _refused(deep if x.by_depth else side, sizes, strides)
    if refused:
        return f"the {name} {refused}"
    box = (LINE, x.size if x.by_depth else x.deep, *([1] if matrix else []))
    return TensorMap(p.dot.dtype.name, tuple(sizes), tuple(strides), box, 128, place.const * item)


def _refused(neighbours: int, sizes: list[int], strides: list[int]) -> str:
    """Why a tensor map does not take an array of such sizes, empty where it does. neighbours: elements between
    neighbours along its first axis; strides: bytes between those along the others."""
    if 0 in (neighbours, *strides):
        return "have an axis of one element"
    if neighbours != 1:
        return "have neighbours that are not beside each other in memory"
    if max(sizes) >= 2**31:
        return "have 2^31 elements or more along an axis"
    if not all(0 < n < 2**40 and n % 16 == 0 for n in strides):
        return "do not lie at multiples of 16 bytes, less than 2^40 apart"
    return ""


def _step(place: Ix, axes: list[Var]) -> int | None:
    """Elements between neighbours along axes that lie as one, 0 where there is one element; None of others."""
    return even_step(place, axes) if any(v.extent > 1 for v in axes) else 0
