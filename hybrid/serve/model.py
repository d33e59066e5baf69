"""A model that is loaded: its inputs and outputs, and arrays in, arrays out."""
from __future__ import annotations

from typing import Any, Callable, Sequence

import numpy as np

from .. import nd
from ..base.errors import FileFormatError, HybridError
from ..graph.symbol import Symbol
from ..gluon.symbol_block import SymbolBlock
from ..serialize import symbol_json
from ..serialize.ndarrays import load as load_arrays
from .errors import RequestError
from .folder import Files, Settings, settings
from .rows import Rows, random_rows
from .wire import NAMES, Tensor

KEPT = 64                        # shapes of inputs whose labels are kept
LENGTHS = (24, 40)               # tried for open lengths, to see which lengths of results depend on them


class Model:
    """A network of a folder. ``rows``: how rows are computed together; None where each request is computed by itself.
    ``alone``: why.

    >>> Model(models_of(Path("models"))[0]).compute([images])                               # doctest: +SKIP
    """

    def __init__(self, files: Files):
        self.name, self.version = files.name, files.version
        self.settings: Settings = settings(files.settings)
        self._network, self.inputs, names = (_of_onnx if files.params is None else _of_mxnet)(files, self.settings)
        for t in self.inputs:
            if t.datatype not in NAMES.values():
                raise FileFormatError(f"{files.network}: the input {t.name!r} is of {t.datatype}, which no request can "
                                      f"give")
        self.rows: Rows | None = None
        self.alone = self._arrange()
        self.outputs = self._described(names)

    def _arrange(self) -> str:
        """Find the programs that compute several rows; why there are none, or nothing."""
        if not self.inputs or any(t.shape[:1] != (-1,) for t in self.inputs):
            return "the first length of an input is fixed"
        if any(-1 in t.shape[1:] for t in self.inputs):
            return "lengths beside the first are open"
        kinds = [(_dtype(t), t.shape[1:]) for t in self.inputs]
        rows = Rows(self.call, self.settings.program_rows)
        why = rows.why_not(kinds)
        if not why:
            rows.grow(self.settings.max_batch, kinds)
            self.rows = rows
        elif self.settings.program_rows > 1:
            raise FileFormatError(f"the model {self.name!r}: {why}; leave program_rows out")
        return why

    def _described(self, names: Sequence[str]) -> tuple[Tensor, ...]:
        """The outputs, by computing some: lengths that differ for other open lengths are -1."""
        found: list[list[np.ndarray]] = []
        why: HybridError | None = None
        open_lengths = any(-1 in t.shape for t in self.inputs)
        for length in (1, 2) if self.rows else LENGTHS if open_lengths else (1,):
            shapes = [tuple(length if d == -1 else d for d in t.shape) for t in self.inputs]
            try:
                found.append(self.compute([random_rows([(_dtype(t), s)], 1, 0)[0][0]
                                           for t, s in zip(self.inputs, shapes)]))
            except HybridError as err:
                why = err
        if not found:
            raise FileFormatError(f"the model {self.name!r} does not run on inputs of the shapes that are given: "
                                  f"{why}") from why
        if len(names) != len(found[0]):
            raise FileFormatError(f"the model {self.name!r} has {len(names)} outputs and gives {len(found[0])}")
        for name, array in zip(names, found[0]):
            if array.dtype not in NAMES:
                raise FileFormatError(f"the model {self.name!r}: the output {name!r} is of {array.dtype}, which no "
                                      f"answer can give")
        return tuple(Tensor(name, NAMES[arrays[0].dtype], tuple(
            lengths[0] if len(set(lengths)) == 1 and (len(found) > 1 or not open_lengths) else -1
            for lengths in zip(*(a.shape for a in arrays)))) for name, *arrays in zip(names, *found))

    def metadata(self) -> dict[str, Any]:
        """What the protocol says of a model."""
        return {"name": self.name, "versions": [self.version], "platform": "hybrid",
                "inputs": [t.described() for t in self.inputs], "outputs": [t.described() for t in self.outputs]}

    def call(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs for inputs, by the program of exactly these shapes."""
        found = self._network(*(nd.array(a, dtype=a.dtype) for a in arrays))
        return [f.asnumpy() if hasattr(f, "asnumpy") else np.asarray(f)
                for f in (found if isinstance(found, (list, tuple)) else [found])]

    def compute(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs for the inputs of one request."""
        return self.rows.compute(arrays) if self.rows is not None else self.call(arrays)

    def check(self, arrays: Sequence[np.ndarray]) -> int:
        """How many rows inputs have that are computed together; RequestError where they differ."""
        if self.rows is None:
            return 1
        lengths = {len(a) for a in arrays}
        if len(lengths) != 1 or not min(lengths):
            raise RequestError(400, f"all inputs must have the same first length, at least 1, got {sorted(lengths)}")
        return lengths.pop()


def _dtype(t: Tensor) -> np.dtype:
    return next(d for d, name in NAMES.items() if name == t.datatype)


Loaded = tuple[Callable[..., Any], "tuple[Tensor, ...]", "list[str]"]


def _of_mxnet(files: Files, given: Settings) -> Loaded:
    """A network of a symbol file. Variables without parameters are its inputs, but for labels of output layers, which
    change no output and are zeros."""
    assert files.params is not None
    symbol = symbol_json.load(files.network)
    stored = load_arrays(files.params)
    if stored and not isinstance(stored, dict):            # a file of no arrays is an empty list
        raise FileFormatError(f"{files.params} names no parameters")
    parameters = {k.partition(":")[2] or k for k in stored}
    free = [n for n in symbol.nodes() if n.opdef is None and n.name not in parameters]
    labels = _labels(symbol) - set(given.inputs)
    inputs = []
    for n in free:
        shape, dtype = n.info[0]
        noted = Tensor(n.name, NAMES[np.dtype(dtype)] if dtype is not None else "FP32", tuple(
            d if d > 0 else -1 for d in shape)) if shape is not None else None
        tensor = given.inputs.get(n.name, noted)
        if n.name in labels:
            continue
        if tensor is None:
            raise FileFormatError(_advice(files, n.name))
        inputs.append(tensor)
    _known(files, given, [t.name for t in inputs])
    labels &= {n.name for n in free}
    block = SymbolBlock.imports(files.network, [t.name for t in inputs] + sorted(labels), files.params)
    block.hybridize()
    return _with_labels(block, symbol, [t.name for t in inputs], sorted(labels)), tuple(inputs), symbol.list_outputs()


def _advice(files: Files, name: str) -> str:
    return (f"{files.network} does not say the shape of its input {name!r} ({files.params} has no such parameter): "
            f"write it into {files.settings}, for example "
            f'{{"inputs": {{"{name}": {{"shape": [-1, 3, 224, 224], "datatype": "FP32"}}}}}}')


def _known(files: Files, given: Settings, names: Sequence[str]) -> None:
    unknown = [k for k in given.inputs if k not in names]
    if unknown:
        raise FileFormatError(f"{files.settings}: {files.network} has no input {', '.join(map(repr, unknown))}; its "
                              f"inputs are {', '.join(names)}")


def _labels(symbol: Symbol) -> set[str]:
    """Variables that output layers alone read, as labels."""
    read_as: dict[str, set[bool]] = {}
    for n in symbol.nodes():
        if n.opdef is not None:
            output_layer = n.opdef.name.endswith("Output")
            for place, (source, _) in enumerate(n.inputs):
                if source.opdef is None:
                    read_as.setdefault(source.name, set()).add(output_layer and place == 1)
    return {name for name, uses in read_as.items() if uses == {True}}


def _with_labels(block: SymbolBlock, symbol: Symbol, inputs: Sequence[str],
                 labels: Sequence[str]) -> Callable[..., Any]:
    """The block as a function of its inputs alone."""
    if not labels:
        return block
    zeros: dict[tuple[Any, ...], list[Any]] = {}

    def network(*arrays: Any) -> Any:
        shapes = tuple(a.shape for a in arrays)
        if shapes not in zeros:
            if len(zeros) >= KEPT:
                zeros.clear()
            found = dict(zip(symbol.list_arguments(), symbol.infer_shape(**dict(zip(inputs, shapes)))[0] or ()))
            zeros[shapes] = [nd.zeros(found[name]) for name in labels]
        return block(*arrays, *zeros[shapes])
    return network


def _of_onnx(files: Files, given: Settings) -> Loaded:
    """A network of an ONNX file."""
    from ..contrib import onnx as onnx_files  # noqa: PLC0415  needs the package onnx
    from ..contrib.onnx.library import onnx  # noqa: PLC0415
    said = onnx_files.get_model_metadata(files.network)
    _known(files, given, [name for name, *_ in said["input_tensor_data"]])
    inputs = []
    for name, shape, code in said["input_tensor_data"]:
        dtype = onnx().helper.tensor_dtype_to_np_dtype(code) if code else np.dtype(object)
        inputs.append(given.inputs.get(name) or Tensor(name, NAMES.get(np.dtype(dtype), str(dtype)), tuple(
            d if d > 0 else -1 for d in shape)))
    fixed = {t.name: t.shape for t in inputs if -1 not in t.shape}
    block = onnx_files.import_to_gluon(files.network, input_shapes=fixed or None)
    if hasattr(block, "hybridize"):
        block.hybridize()
    return block, tuple(inputs), [name for name, *_ in said["output_tensor_data"]]
