"""Networks as C: a few files that need no Python, no runtime and no library but C's own.

``net.export_c("folder", x)`` or ``export_c(net, "folder", x)`` writes them, ``python -m hybrid.export`` from model
files. docs/export_c.md says what is in them.
"""
from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Sequence

from ..base.errors import AttributeValueError, HybridError
from ..runtime import toolchain
from ..ir import Program
from ..ir.size import Specialised
from ..runtime.build import Listing, listed
from .bindings import checked, write as write_bindings
from .device import write_device
from .files import write_all
from .gpu import write_cuda
from .int8 import quantized
from .layout import lay_out
from .source import address
from .load import load_weights
from .specialized import RESERVED, Array, Specialized, needs_number, specialize

__all__ = ["export_c", "load_weights"]

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_SKIPPED = ("-shared", "-fPIC", "-Xclang", "-fopenmp", "-Wl,--as-needed", "-Werror=implicit-function-declaration",
            "-fno-plt", "-fno-stack-protector")


def export_c(target: Any, folder: str | os.PathLike[str], *inputs: Any, name: str | None = None,
             input_names: Sequence[str] = (), output_names: Sequence[str] = (), plain: bool = False,
             bindings: Sequence[str] = (), device: bool = False, int8: Sequence[Any] = (),
             cuda: Sequence[str] = ()) -> list[Path]:
    """Write a network, for inputs of some shapes, as C files into a folder; their paths.

    target: a Block, a SymbolBlock, or a function of arrays. inputs: arrays, or shapes as tuples, or ``((1, 128),
    "int32")``; without any, those of a block's last call. A length that is a name or None is a size that each call
    gives (sizes.py). name: of the files and of the C functions' beginnings; the folder's without one. input_names,
    output_names: in the tables of the header, where ``data`` and ``output`` are not what they are called. plain: C11
    alone, without GNU's vectors and attributes: slower, for other compilers. bindings: other languages that call it
    (``hybrid.export.bindings.LANGUAGES``), each in a folder of its own with an example. device: the form for devices
    without an operating system, plain C without heap, files and threads. int8: examples of inputs, from which scales
    are taken for products in integers of eight bits (``hybrid.export.int8``). cuda: architectures of GPUs, as
    ``("sm_80", "sm_90")``: the form that runs on them.

    >>> export_c(net, "digits", (1, 1, 28, 28))                    # doctest: +SKIP
    """
    if not hasattr(os, "fspath") or not callable(target):
        raise AttributeValueError(f"export_c takes a Block or a function, got {type(target).__name__}")
    path = Path(folder)
    name = _checked(name or re.sub(r"\W", "_", path.name).lower())
    languages = checked(bindings, name)
    if (device or cuda) and (plain or languages or device and cuda):
        raise AttributeValueError("the forms for devices and for GPUs have no other form and no bindings: give "
                                  f"{'device=True' if device else 'cuda=...'} alone")
    what = _specialized(target, name, inputs)
    if len(int8):
        what = quantized(what, int8)
    checked(bindings, name, what.training is not None)
    if what.sizes and (device or cuda or languages or len(int8) or what.training is not None):
        raise AttributeValueError(f"{', '.join(what.sizes.names)}: sizes that calls give are for networks in C and C++ "
                                  f"on processors; give numbers for training steps, devices, GPUs, int8 and bindings")
    input_names = input_names or target.__dict__.get("_inputs") or () if hasattr(target, "__dict__") else input_names
    _call(what.inputs[:what.arguments], input_names, what.inputs[what.arguments:])
    _call(what.outputs, output_names)
    if cuda:
        return write_cuda(path, name, what, cuda)
    listing = _listing(what, name, plain or device)
    if device:
        return write_device(path, name, what, listing)
    flags = _plain_flags() if plain else _flags()
    written = write_all(path, name, what, listing, lay_out(what, listing), flags)
    return [*written, *write_bindings(path, name, what, flags, languages)]


def _listing(what: Specialized, name: str, scalar: bool) -> Listing:
    """The printed program; where sizes are open and the fast forms need them, with the forms for any size."""
    if not what.sizes:
        return listed(what.program, what.frozen, address, scalar)
    with what.sizes.asked.answering(False):
        facts = dict(what.sizes.asked.facts)
        try:
            return listed(what.program, what.frozen, address, scalar)
        except Specialised:
            what.sizes.asked.facts = facts
        try:
            program = Program(what.program.inputs, what.program.outputs)
            program.memo["plain"] = True
            return listed(program, what.frozen, address, scalar)
        except Specialised as err:
            raise needs_number(name, what.sizes, str(err)) from None


def _call(arrays: Sequence[Array], names: Sequence[str], others: Sequence[Array] = ()) -> None:
    """Give arrays other names."""
    if names and len(names) != len(arrays):
        raise AttributeValueError(f"{len(arrays)} names are wanted, got {len(names)}: {', '.join(names)}")
    for a, n in zip(arrays, names):
        if not re.fullmatch(r"[A-Za-z0-9_.:/+ -]{1,256}", n) or any(o.name == n for o in others):
            raise AttributeValueError(f"an input or output cannot be called {n!r}: letters, digits and _.:/+- alone, "
                                      f"and no weight's name")
        a.name = n


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name) or name in RESERVED or name.startswith("hy_") or name in ("example", "hy"):
        raise AttributeValueError(f"the name of an exported model begins its C functions: lower case letters, digits "
                                  f"and underscores, a letter first, no word of C and not 'example'; got {name!r}. "
                                  f"Give name=\"model\".")
    return name


def _specialized(target: Any, name: str, inputs: Any) -> Specialized:
    """The program of a block, in the mode of prediction."""
    prefixed = getattr(target, "_collect_params_with_prefix", None)
    if not inputs:
        form = getattr(target, "_form", None)
        if form is None:
            raise HybridError("export_c needs the shapes of the inputs: net.export_c(folder, (1, 3, 224, 224)), or "
                              "call the network once before")
        inputs = tuple((shape, d) for shape, d in form[1])
    names = {id(p): key for key, p in prefixed().items()} if prefixed is not None else {}
    names = {i: key for i, key in names.items() if len(key) <= 256}
    call = getattr(target, "_fn", target)                # of a function that is hybridized already
    return specialize(call, str(getattr(target, "name", None) or getattr(call, "__name__", name)), inputs, names)


def _flags() -> str:
    """What this machine's programs are compiled with, which gives the same bits."""
    cc = toolchain.compiler()
    every = (*toolchain.flags(cc), *toolchain.quick(cc)) if cc is not None else ("-O2",)
    return " ".join([*(f for f in every if f not in _SKIPPED), "-ffp-contract=fast", "-fopenmp-simd"])


def _plain_flags() -> str:
    return "-O2"
