"""Which printer a packed convolution has, and what the layout pass may ask for."""
from __future__ import annotations

from typing import Any, Callable

from hybrid.ir import Node
from hybrid.ir.kernel import Kernel
from hybrid.ir.size import Specialised, fixed
from hybrid.passes.layout import Blocking

from .blocked import PIXELS
from hybrid.codegen.program import size_parameters
from hybrid.codegen.schedule.tiling import Target
from hybrid.codegen.loops import Printed
from hybrid.codegen.lanes import F32, Refused
from hybrid.codegen.lazy_import import later
from hybrid.codegen.vector_forms import in_vectors
from hybrid.codegen.printers.products.sparsity import often_zero

# by form: a class of printers.convolutions that prints it
FORMS: dict[str, Callable[..., Any]] = {form: later(f"printers.convolutions.{path}") for form, path in {
    "direct": "blocked.Direct", "winograd": "packed_winograd.Winograd", "winograd4": "packed_winograd.Winograd",
    "winograd_words": "packed_winograd_words.WinogradWords", "words": "packed_words.Words",
    "interleaved": "packed_words.Interleaved", "tiles": "packed_tiles.Tiles", "depthwise": "packed_depthwise.Depthwise",
    "batch_in_lanes": "packed_batch_in_lanes.BatchInLanes",
    "batch_in_lanes_winograd": "packed_batch_in_lanes.BatchInLanes", "small_images": "packed_small_images.Images",
    "sparsity": "packed_sparsity.Skipped"}.items()}
_pays_of_small_images = later("printers.convolutions.packed_small_images.pays")
# forms that can be printed for a symbolic batch size, and those of them that are as fast as with a fixed one
ANY_BATCH = ("direct", "words", "winograd_words", "depthwise", "winograd", "winograd4")
FAST_ANY_BATCH = ("direct", "words", "winograd_words")
# forms that can be printed for images of symbolic height and width
ANY_IMAGE = ("direct", "words", "depthwise", "winograd", "winograd4", "winograd_words")
FEW = 16                        # lines and columns of results, above which few taps are beyond an image
SUMS = (10, 24)                 # of images, in registers: few registers, many


def print_packed(k: Kernel, name: str, target: Target) -> Printed:
    """C of a packed convolution."""
    assert k.dot is not None
    try:
        return FORMS[_form(k.dot, target)](k, name, target).print()     # type: ignore[no-any-return]
    except Refused as err:
        err.members = frozenset(k.members) - {k.dot}
        raise


def _form(dot: Node, target: Target) -> str:
    """The form that prints a packed convolution: its own, or one for its sizes or data."""
    form: str = dot.attrs["form"]
    if not all(map(fixed, dot.shape[1:-1])):
        if form not in ANY_IMAGE or len(dot.attrs["kernel"]) > 2:
            raise Specialised(f"a convolution of form {form} over images of any size")
        return form
    if not all(map(fixed, dot.shape)):
        small = max(dot.attrs["kernel"]) > 1 and max(dot.shape[1:3]) <= FEW
        if form not in ANY_BATCH or not size_parameters.alone() and (
                form not in FAST_ANY_BATCH or dot.attrs.get("together", 1) > 1 or form == "direct" and small):
            raise Specialised(f"a convolution of form {form}")
        return form
    several = form == "direct" and dot.shape[0] > 1 and max(dot.shape[1:3]) <= FEW
    if several and _pays_of_small_images(dot, target.lanes(F32), PIXELS[28 if target.accumulators >= 28 else 12]):
        return "small_images"
    if form == "direct" and often_zero(dot.args[0]):
        return "sparsity"
    return "interleaved" if dot.attrs.get("interleaved") else form


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
