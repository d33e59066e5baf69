"""``python -m hybrid.export model-symbol.json model-0000.params --shape data=1,3,224,224 -o folder``: a model file as
C."""
from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Callable, Sequence

import numpy as np

from ..base.atomic import existing
from ..base.errors import AttributeValueError, FileFormatError, HybridError
from .sizes import is_open

Shapes = dict[str, tuple[Any, ...]]


def arguments(given: Sequence[str]) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser("python -m hybrid.export", description="Writes a model as C files that need no "
                                     "Python: the program, a header, the weights, an example and a build file.")
    add = parser.add_argument
    add("network", type=Path, help="NAME-symbol.json of MXNet or hybrid, or NAME.onnx")
    add("params", type=Path, nargs="?", help="of a symbol file: its parameters, .params or .safetensors")
    add("--shape", action="append", default=[], metavar="INPUT=1,3,224,224", help="the shape of an input; once for "
        "each. Not wanted where the file says it. A length that each call gives is ? or a name: data=batch,3,224,224")
    add("--dtype", action="append", default=[], metavar="INPUT=int32", help="the type of an input's elements "
        "(default: what the file says, else float32)")
    add("-o", "--output", type=Path, required=True, metavar="FOLDER", help="where the files go")
    add("--name", help="of the files and of the C functions' beginnings (default: the folder's name)")
    add("--plain", action="store_true", help="C11 alone, without GNU's vectors: slower, for other compilers")
    add("--bindings", default="", metavar="LANGUAGES", help="code in other languages that calls the model, as in "
        "cpp,java,r")
    add("--device", action="store_true", help="for devices without an operating system: no heap, files or threads")
    add("--cuda", default="", metavar="ARCHITECTURES", help="for NVIDIA GPUs, as in sm_80,sm_90")
    add("--int8", type=Path, metavar="EXAMPLES.npy", help="products in integers of eight bits, with scales from "
        "examples of the input, one after the other along the first axis")
    return parser.parse_args(given)


def _pairs(given: Sequence[str], option: str) -> dict[str, str]:
    out = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not name or not value:
            raise AttributeValueError(f"{option} takes INPUT=VALUE, got {text!r}")
        out[name] = value
    return out


def shapes_of(given: Sequence[str]) -> Shapes:
    """Shapes by input."""
    out = {}
    for name, text in _pairs(given, "--shape").items():
        sizes = [s.strip() for s in text.strip("()").split(",") if s.strip()]
        if not all(s == "?" or s.isidentifier() or s.isdecimal() and int(s) > 0 for s in sizes):
            raise AttributeValueError(f"--shape {name}={text}: lengths are whole numbers from 1 on, as in "
                                      f"{name}=1,3,224,224, or ? or a name for one that each call gives")
        out[name] = tuple(int(s) if s.isdecimal() else None if s == "?" else s for s in sizes)
    return out


def _known(names: Sequence[str], given: dict[str, Any], option: str, path: Path) -> None:
    unknown = [n for n in given if n not in names]
    if unknown:
        raise AttributeValueError(f"{option}: {path} has no input {unknown[0]!r}; its inputs are {', '.join(names)}")


def _input(name: str, said: Any, shapes: Shapes, dtypes: dict[str, str], path: Path) -> tuple[tuple[int, ...], str]:
    """Shape and dtype of an input. said: those that the file notes."""
    shape, dtype = said
    shape = shapes.get(name, tuple(shape) if shape is not None and all(d and d > 0 for d in shape) else None)
    if shape is None:
        raise FileFormatError(f"{path} does not say the shape of its input {name!r}: give --shape {name}=1,3,224,224 "
                              f"with the right lengths")
    return shape, dtypes.get(name, str(dtype or "float32"))


def of_symbol(network: Path, params: Path | None, shapes: Shapes,
              dtypes: dict[str, str]) -> tuple[Callable[..., Any], list[Any], list[str], list[str]]:
    """The network of a symbol file, its inputs' shapes and dtypes, and the names of inputs and outputs. Labels, which
    output layers alone read and which change no output, are zeros."""
    from .. import nd  # noqa: PLC0415  a command that only fails or helps does not wait for it
    from ..gluon.symbol_block import SymbolBlock  # noqa: PLC0415
    from ..serialize import symbol_json  # noqa: PLC0415
    if params is None and existing(network):
        raise FileFormatError(f"{network} has no parameters in it: name the file that has them, "
                              f"{str(network).replace('-symbol.json', '')}-0000.params")
    symbol = symbol_json.load(network)
    stored = nd.load(str(params))
    if not isinstance(stored, dict):
        raise FileFormatError(f"{params} names no parameters")
    held = {k.partition(":")[2] or k for k in stored}
    free = {n.name: n for n in symbol.nodes() if n.opdef is None and n.name not in held}
    labels = [name for name in free if name not in shapes and _is_label(symbol, name)]
    names = [name for name in free if name not in labels]
    _known(names, shapes, "--shape", network)
    _known(names, dtypes, "--dtype", network)
    inputs = [_input(name, free[name].info[0], shapes, dtypes, network) for name in names]
    block = SymbolBlock.imports(str(network), names + labels, str(params))
    if not labels:
        return block, inputs, names, symbol.list_outputs()
    shaped = dict(zip(names, [shape for shape, _ in inputs]))
    return _unlabelled(block, symbol, labels, shaped), inputs, names, symbol.list_outputs()


def _unlabelled(block: Callable[..., Any], symbol: Any, labels: Sequence[str],
                shapes: Shapes) -> Callable[..., Any]:
    """A network without its labels."""
    from .. import nd  # noqa: PLC0415  as below
    def lengths(of_open: int) -> list[tuple[int, ...]]:
        given = {n: tuple(d if isinstance(d, int) else of_open for d in s) for n, s in shapes.items()}
        found = dict(zip(symbol.list_arguments(), symbol.infer_shape(**given)[0]))
        return [found[name] for name in labels]
    if not any(is_open(s) for s in shapes.values()):
        zeros = [nd.zeros(shape) for shape in lengths(1)]
        return lambda *arrays: block(*arrays, *zeros)
    first = next(iter(shapes.values()))
    if not is_open(first[:1]) or any(pair != ((5,), (7,)) for pair in zip(lengths(5), lengths(7))):
        raise AttributeValueError(f"--shape: the label {labels[0]!r} of this network has another length than the first "
                                  f"input's first, so all lengths must be numbers")

    def call(*arrays: Any) -> Any:
        each = arrays[0].reshape((0, -1)).slice_axis(axis=1, begin=0, end=1).reshape((-1,)).zeros_like()
        return block(*arrays, *([each] * len(labels)))
    return call


def _is_label(symbol: Any, name: str) -> bool:
    uses = [n.opdef.name.endswith("Output") and place == 1 for n in symbol.nodes() if n.opdef is not None
            for place, (source, _) in enumerate(n.inputs) if source.opdef is None and source.name == name]
    return bool(uses) and all(uses)


def of_onnx(network: Path, shapes: Shapes,
            dtypes: dict[str, str]) -> tuple[Callable[..., Any], list[Any], list[str], list[str]]:
    """The network of an ONNX file, as ``of_symbol``."""
    from ..contrib import onnx as onnx_files  # noqa: PLC0415  needs the package onnx
    from ..contrib.onnx.library import onnx  # noqa: PLC0415
    said = onnx_files.get_model_metadata(network)
    names = [name for name, *_ in said["input_tensor_data"]]
    _known(names, shapes, "--shape", network)
    _known(names, dtypes, "--dtype", network)
    inputs = [_input(name, (shape, onnx().helper.tensor_dtype_to_np_dtype(code) if code else None), shapes, dtypes,
                     network) for name, shape, code in said["input_tensor_data"]]
    block = onnx_files.import_to_gluon(network, input_shapes={n: s for n, (s, _) in zip(names, inputs)
                                                              if not is_open(s)})
    return block, inputs, names, [name for name, *_ in said["output_tensor_data"]]


def examples_of(path: Path | None, inputs: Sequence[Any]) -> Sequence[Any]:
    """Examples of the one input, from a file of NumPy."""
    if path is None:
        return ()
    if len(inputs) != 1:
        raise AttributeValueError(f"--int8 is for networks of one input, and this one has {len(inputs)}: use "
                                  f"hybrid.export.export_c(..., int8=examples) in Python")
    found, shape = np.load(path), inputs[0][0]
    if found.shape[1:] == shape[1:] and found.ndim == len(shape) and len(found) % shape[0] == 0:
        return list(found.reshape(-1, *shape))
    return list(found)


def main(given: Sequence[str]) -> int:
    """Export the files that are named; the exit status."""
    options = arguments(given)
    try:
        from . import export_c  # noqa: PLC0415
        shapes, dtypes = shapes_of(options.shape), _pairs(options.dtype, "--dtype")
        if options.network.suffix == ".onnx":
            net, inputs, names, results = of_onnx(options.network, shapes, dtypes)
        else:
            net, inputs, names, results = of_symbol(options.network, options.params, shapes, dtypes)
        for path in export_c(net, options.output, *inputs, name=options.name, input_names=names, output_names=results,
                             plain=options.plain, device=options.device,
                             cuda=[a for a in options.cuda.split(",") if a],
                             int8=examples_of(options.int8, inputs),
                             bindings=[b for b in options.bindings.split(",") if b]):
            print(path)
    except (HybridError, OSError, ImportError, ValueError) as err:
        print(f"python -m hybrid.export: {err}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
