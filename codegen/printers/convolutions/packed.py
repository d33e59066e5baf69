"""Which printer a packed convolution has, and what the layout pass may ask for."""
from __future__ import annotations

from typing import TYPE_CHECKING, Callable

from hybrid.ir import Node
from hybrid.ir.kernel import Kernel
from hybrid.ir.size import Specialised, fixed
from hybrid.passes.layout import Blocking

from .blocked import PIXELS, Direct
from .packed_form import Packed
from hybrid.codegen.program import size_parameters
from hybrid.codegen.schedule.tiling import Target
from hybrid.codegen.loops import Printed
from hybrid.codegen.lanes import F32, Refused
from hybrid.codegen.lazy_import import Later
from hybrid.codegen.vector_forms import in_vectors
from hybrid.codegen.printers.products.sparsity import often_zero

if TYPE_CHECKING:
    from . import (
        packed_batch_in_lanes, packed_depthwise, packed_small_images, packed_sparsity, packed_tiles, packed_winograd,
        packed_winograd_words, packed_words,
    )
else:
    (packed_depthwise, packed_small_images, packed_batch_in_lanes, packed_winograd, packed_sparsity, packed_words,
     packed_tiles, packed_winograd_words) = (Later(f"printers.convolutions.packed_{n}") for n in (
         "depthwise", "small_images", "batch_in_lanes", "winograd", "sparsity", "words", "tiles", "winograd_words"))

FORMS: dict[str, Callable[[], type[Packed]]] = {
    "direct": lambda: Direct, "winograd": lambda: packed_winograd.Winograd,
    "winograd4": lambda: packed_winograd.Winograd,
    "winograd_words": lambda: packed_winograd_words.WinogradWords,
    "words": lambda: packed_words.Words, "interleaved": lambda: packed_words.Interleaved,
    "tiles": lambda: packed_tiles.Tiles,
    "depthwise": lambda: packed_depthwise.Depthwise,
    "batch_in_lanes": lambda: packed_batch_in_lanes.BatchInLanes,
    "batch_in_lanes_winograd": lambda: packed_batch_in_lanes.BatchInLanes}
# forms that can be printed for a symbolic batch size, and those of them that are as fast as with a fixed one
ANY_BATCH = ("direct", "words", "winograd_words", "depthwise", "winograd", "winograd4")
FAST_ANY_BATCH = ("direct", "words", "winograd_words")
FEW = 16                        # lines and columns of results, above which few taps are beyond an image
SUMS = (10, 24)                 # of images, in registers: few registers, many


def print_packed(k: Kernel, name: str, target: Target) -> Printed:
    """C of a packed convolution."""
    assert k.dot is not None
    try:
        return _printer(k.dot, target)(k, name, target).print()      # type: ignore[attr-defined]
    except Refused as err:
        err.members = frozenset(k.members) - {k.dot}
        raise


def _printer(dot: Node, target: Target) -> type[Packed]:
    if not all(map(fixed, dot.shape)):
        form, small = dot.attrs["form"], max(dot.attrs["kernel"]) > 1 and max(dot.shape[1:3]) <= FEW
        if form not in ANY_BATCH or not size_parameters.alone() and (
                form not in FAST_ANY_BATCH or dot.attrs.get("together", 1) > 1 or form == "direct" and small):
            raise Specialised(f"a convolution of form {form}")
        return FORMS[form]()
    several = dot.attrs["form"] == "direct" and dot.shape[0] > 1 and max(dot.shape[1:3]) <= FEW
    if several and packed_small_images.pays(dot, target.lanes(F32), PIXELS[28 if target.accumulators >= 28 else 12]):
        return packed_small_images.Images
    if dot.attrs["form"] == "direct" and often_zero(dot.args[0]):
        return packed_sparsity.Skipped
    return FORMS["interleaved" if dot.attrs.get("interleaved") else dot.attrs["form"]]()


def blocking(vector_bytes: int, words: frozenset[str] = frozenset()) -> Blocking | None:
    """For the layout pass; None where vectors are too short for it. words: types of data that are multiplied by words
    of 32 bits."""
    lanes, most = Target(vector_bytes).lanes(F32), PIXELS[28 if vector_bytes == 64 else 12]

    def panel(form: str, filters: int, pixels: int) -> int:
        vectors = -(-filters // lanes)
        few = next((n for n in (4, 3) if pixels <= most[n]), 0)
        # few sums a vector: more vectors, so that no sum waits for itself
        if form in ("direct", "words", "tiles") and few:
            return lanes * min(few, vectors)
        return lanes * (2 if vectors % 2 == 0 else 3 if vectors % 3 == 0 else 1)

    def group(filters: int, vectors: int) -> int:
        most = max(SUMS[lanes >= 16] // vectors, 1)
        return -(-filters // -(-filters // most))
    return Blocking(lanes, panel, group, in_vectors, words=words,
                    tile=lambda width: most[width // lanes]) if lanes >= 4 else None
