"""Inference requests and answers as bytes: JSON, and the extension of the protocol that puts tensors behind the JSON as
they lie in memory (little-endian, rows first).

With the header ``Inference-Header-Content-Length: n`` the first n bytes of a body are its JSON; tensors whose
``parameters`` have ``binary_data_size`` follow in the order in which the JSON names them.
"""
from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, Mapping, Sequence

import numpy as np

from ..base import dtype as dt
from .errors import RequestError

DTYPES: dict[str, np.dtype] = {
    "BOOL": np.dtype(bool), **{f"{k}{bits}": np.dtype(f"{k.lower()}{bits}") for k in ("INT", "UINT")
                               for bits in (8, 16, 32, 64)},
    **{f"FP{bits}": np.dtype(f"float{bits}") for bits in (16, 32, 64)},
    **({"BF16": dt.bfloat16} if dt.bfloat16 is not None else {})}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
# parameters of requests, inputs and outputs that ask for what is not done here; others are passed over
UNKNOWN = ("sequence_id", "sequence_start", "sequence_end", "priority", "timeout", "classification",
           "shared_memory_region")


@dataclass(frozen=True)
class Tensor:
    """An input or output of a model; -1 in its shape stands for any length."""
    name: str
    datatype: str
    shape: tuple[int, ...]

    def described(self) -> dict[str, Any]:
        """What the protocol says of it."""
        return {"name": self.name, "datatype": self.datatype, "shape": list(self.shape)}


@dataclass(frozen=True)
class Request:
    """An inference request: arrays in the order of the model's inputs; the outputs that are wanted, by number, and
    whether each is wanted as it lies in memory."""
    id: str | None
    arrays: list[np.ndarray]
    outputs: list[tuple[int, bool]]


def _wrong(words: str) -> RequestError:
    return RequestError(400, words)


def _fields(given: Any, what: str, needed: Mapping[str, type], more: Mapping[str, type]) -> Mapping[str, Any]:
    """A JSON object whose fields have the right types."""
    if not isinstance(given, dict):
        raise _wrong(f"{what} must be a JSON object, got {type(given).__name__}")
    for name, kind in {**needed, **more}.items():
        if name not in given:
            if name in needed:
                raise _wrong(f"{what} has no field {name!r}")
        elif not isinstance(given[name], kind):
            raise _wrong(f"{what}: {name!r} must be a JSON {_KINDS[kind]}, got {type(given[name]).__name__}")
    asked = [k for k in UNKNOWN if given.get("parameters", {}).get(k)]
    if asked:
        raise _wrong(f"{what}: this server does not know the parameter {asked[0]!r}; leave it out")
    return given


_KINDS: dict[type, str] = {str: "string", list: "array", dict: "object"}


def read(body: bytes, header_length: int | None, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Request:
    """The request that a body holds; RequestError for one that does not fit the model."""
    size = len(body) if header_length is None else header_length
    if not 0 < size <= len(body):
        raise _wrong(f"Inference-Header-Content-Length says {size}, and the body has {len(body)} bytes" if size else
                     "the body is empty: a JSON object with the field 'inputs' is wanted")
    try:
        request = json.loads(body[:size])
    except (ValueError, RecursionError) as err:
        raise _wrong(f"the body is no JSON: {str(err)[:200]}") from err
    fields = _fields(request, "the request", {"inputs": list}, {"id": str, "parameters": dict, "outputs": list})
    binary = Binary(body, size)
    found: dict[str, np.ndarray] = {}
    known = {t.name: t for t in inputs}
    for given in fields["inputs"]:
        given = _fields(given, "an input", {"name": str, "datatype": str, "shape": list},
                        {"parameters": dict, "data": list})
        name = given["name"]
        if name not in known or name in found:
            raise _wrong(f"the input {name[:100]!r} is given twice" if name in found else
                         f"the model has no input {name[:100]!r}; it has {', '.join(known)}")
        found[name] = _array(given, known[name], binary)
    absent = [k for k in known if k not in found]
    if absent:
        raise _wrong(f"the request lacks the input {', '.join(map(repr, absent))}")
    if binary.at != len(body):
        raise _wrong(f"{len(body) - binary.at} bytes are left behind the last tensor: binary_data_size of the inputs "
                     f"says less than the body has")
    return Request(fields.get("id"), [found[t.name] for t in inputs], _wanted(fields, outputs))


class Binary:
    """The part of a body behind its JSON, read from its begin to its end."""

    def __init__(self, body: bytes, at: int):
        self.body, self.at = body, at

    def take(self, size: int, name: str) -> memoryview:
        """The next bytes."""
        if not 0 <= size <= len(self.body) - self.at:
            raise _wrong(f"input {name!r}: binary_data_size says {size}, and {len(self.body) - self.at} bytes are left "
                         f"in the body")
        self.at += size
        return memoryview(self.body)[self.at - size:self.at]


def _array(given: Mapping[str, Any], tensor: Tensor, binary: Binary) -> np.ndarray:
    name, dtype = tensor.name, DTYPES[tensor.datatype]
    if given["datatype"] != tensor.datatype:
        raise _wrong(f"input {name!r} is {tensor.datatype}, the request gives {given['datatype'][:20]!r}")
    shape = tuple(given["shape"])
    if (any(type(d) is not int or d < 0 for d in shape) or len(shape) != len(tensor.shape)
            or any(d not in (-1, s) for d, s in zip(tensor.shape, shape))):
        raise _wrong(f"input {name!r} has shape {list(tensor.shape)} (-1 stands for any length), the request gives "
                     f"{str(list(shape))[:200]}")
    count, size = math.prod(shape), given.get("parameters", {}).get("binary_data_size")
    if size is None:
        if "data" not in given:
            raise _wrong(f"input {name!r} has neither 'data' nor the parameter 'binary_data_size'")
        return _numbers(given["data"], name, dtype, tensor.datatype, count).reshape(shape)
    if "data" in given or type(size) is not int or size != count * dtype.itemsize:
        raise _wrong(f"input {name!r}: 'data' and 'binary_data_size' exclude each other" if "data" in given else
                     f"input {name!r}: {count} numbers of {tensor.datatype} are {count * dtype.itemsize} bytes, "
                     f"binary_data_size says {str(size)[:50]}")
    data = binary.take(size, name)
    if dtype.kind == "b" and np.frombuffer(data, np.uint8).max(initial=0) > 1:
        raise _wrong(f"input {name!r}: bytes of BOOL are 0 or 1")
    return np.frombuffer(data, dtype).reshape(shape)


def _numbers(data: list[Any], name: str, dtype: np.dtype, datatype: str, count: int) -> np.ndarray:
    """A JSON array of numbers, flat or nested, as a flat array of a dtype that holds each of them."""
    try:
        found = np.array(data)
    except (ValueError, OverflowError, RecursionError) as err:
        raise _wrong(f"input {name!r}: 'data' is no array of numbers: {str(err)[:100]}") from err
    kinds = "b" if dtype.kind == "b" else "iu" if dtype.kind in "iu" else "iuf"
    if found.size != count:
        raise _wrong(f"input {name!r}: its shape has {count} numbers, 'data' has {found.size}")
    if count and found.dtype.kind not in kinds:
        raise _wrong(f"input {name!r}: 'data' holds what is no {datatype}")
    with np.errstate(over="ignore", invalid="ignore"):
        cast = found.astype(dtype).ravel()
    fits = (cast == found.ravel()).all() if dtype.kind in "iu" else bool(
        (np.isfinite(cast) == np.isfinite(found.ravel())).all())
    if not fits:
        raise _wrong(f"input {name!r}: 'data' holds a number that is beyond those of {datatype}")
    return cast


def _wanted(fields: Mapping[str, Any], outputs: Sequence[Tensor]) -> list[tuple[int, bool]]:
    binary = bool(fields.get("parameters", {}).get("binary_data_output", False))
    if not fields.get("outputs"):
        return [(i, binary) for i in range(len(outputs))]
    names, wanted = [t.name for t in outputs], []
    for given in fields["outputs"]:
        given = _fields(given, "an output", {"name": str}, {"parameters": dict})
        if given["name"] not in names:
            raise _wrong(f"the model has no output {given['name'][:100]!r}; it has {', '.join(names)}")
        wanted.append((names.index(given["name"]), bool(given.get("parameters", {}).get("binary_data", binary))))
    return wanted


def write(model: str, version: str, request: Request, outputs: Sequence[Tensor],
          arrays: Sequence[np.ndarray]) -> tuple[bytes, int | None]:
    """The body of an answer, and how many of its bytes are JSON where tensors follow."""
    described, tensors = [], []
    for i, binary in request.outputs:
        array = np.ascontiguousarray(arrays[i])
        said: dict[str, Any] = {**outputs[i].described(), "datatype": NAMES[array.dtype], "shape": list(array.shape)}
        if binary:
            said["parameters"] = {"binary_data_size": array.nbytes}
            tensors.append(array.tobytes())
        else:
            said["data"] = array.ravel().tolist()
        described.append(said)
    answer = {"model_name": model, "model_version": version,
              **({} if request.id is None else {"id": request.id}), "outputs": described}
    text = json.dumps(answer, separators=(",", ":")).encode()
    return b"".join([text, *tensors]), len(text) if tensors else None
