"""Damaged and hostile model files: a clear error that names the file and the place, never a crash or a blown-up
memory."""
from __future__ import annotations

import io
import json
import random
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import hybrid as mx
from hybrid.base.errors import DTypeError, FileFormatError, HybridError
from hybrid.serialize.json_graph import parse
from hybrid.serialize.params import V1, V2, V3, read_params, write_params

from ..paths import DATA

HUGE = 2**63 - 1


def header(count: int = 1) -> bytes:
    return struct.pack("<QQQ", 0x112, 0, count)


def record(shape: tuple[int, ...], rank: int | None = None, dtype: int = 0, magic: int = V2, device: int = 1) -> bytes:
    rank = len(shape) if rank is None else rank
    storage = struct.pack("<i", 0) if magic != V1 else b""
    return struct.pack("<I", magic) + storage + struct.pack(f"<i{len(shape)}q", rank,
                                                            *shape) + struct.pack("<iii", device, 0, dtype)


def small_file() -> bytes:
    out = io.BytesIO()
    write_params(out, [np.arange(3, dtype="float32"), np.ones((2, 2), "int8")], ["arg:weight", "aux:é"])
    return out.getvalue()


def test_truncated_at_every_byte(tmp_path: Path) -> None:
    whole = small_file()
    path = tmp_path / "cut.params"
    for length in range(len(whole)):
        with pytest.raises(FileFormatError, match="<buffer>: offset "):
            read_params(whole[:length])
        path.write_bytes(whole[:length])
        with pytest.raises(FileFormatError, match=r"cut\.params: offset "):
            read_params(path)


@pytest.mark.parametrize(("data", "message"), [
    (b"", "truncated"),
    (b"PK\x03\x04" + b"\0" * 40, "not an MXNet .params file"),
    (header(2**63) + b"\0" * 100, "arrays do not fit"),
    (header(2**64 - 1), "arrays do not fit"),
    (header() + record((HUGE,)), "needs .* bytes"),
    (header() + record((2**62, 2**62)), "needs .* bytes"),
    (header() + record((-1,)), "negative size"),
    (header() + record((-(2**63), 2)), "negative size"),
    (header() + record((), rank=2**31 - 1), "dimensions"),
    (header() + record((), rank=-2), "dimensions"),
    (header() + record((1,) * 33), "dimensions"),
    (header() + record((1,), dtype=99) + b"\0" * 8, "dtype number 99; known: 0"),
    (header() + record((1,), device=77) + b"\0" * 8, "device type 77"),
    (header() + struct.pack("<Ii", V2, 5) + b"\0" * 64, "storage type 5"),
    (header() + struct.pack("<I", 0x12345678) + b"\0" * 64, "no version of the format"),
    (header() + struct.pack("<IIiii", 1, 2**32 - 1, 1, 0, 0) + b"\0" * 64, "needs .* bytes"),
    (header() + record((0, HUGE, HUGE), magic=V3) + b"\0" * 8, "cannot have the shape"),
    (header(0) + struct.pack("<Q", 2**63), "names for 0 arrays"),
    (header() + record((1,)) + b"\0" * 4 + struct.pack("<QQ", 1, 2**63), "needs .* bytes"),
    (header() + record((1,)) + b"\0" * 4 + struct.pack("<QQ", 1, 2) + b"\xff\xfe", "not UTF-8"),
    (small_file() + b"x", "1 bytes follow the end"),
], ids=lambda x: x if isinstance(x, str) else "")
def test_hostile_params(data: bytes, message: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError, match=message):
            read_params(data)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_random_damage_is_an_error_or_a_value() -> None:
    whole = small_file()
    rng = random.Random(7)
    for _ in range(3000):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        try:
            read_params(bytes(data))
        except (FileFormatError, DTypeError):
            pass


def test_a_bool_other_than_0_and_1_becomes_1() -> None:
    data = header() + record((2,), dtype=7) + b"\x05\x00" + struct.pack("<Q", 0)
    (array,), _ = read_params(data)
    assert array.view(np.uint8).tolist() == [1, 0]


def test_missing_file_is_named() -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.params"):
        read_params("nowhere.params")


# ---- symbol files, the part that knows no operators
def graph(*nodes: dict, heads: object = None, **more: object) -> str:
    return json.dumps({"nodes": list(nodes), "heads": [[len(nodes) - 1, 0, 0]] if heads is None else heads, **more})


X = {"op": "null", "name": "x", "inputs": []}


def relu(*inputs: object, **more: object) -> dict:
    return {"op": "relu", "name": "y", "inputs": list(inputs), **more}


@pytest.mark.parametrize(("text", "message"), [
    ("", "not JSON"),
    ("not json", "not JSON"),
    ("[" * 200_000, "nested too deeply|not JSON"),
    ('{"nodes":' * 200_000, "nested too deeply|not JSON"),
    ("[]", "holds an object"),
    ("{}", "no symbol file"),
    ('{"nodes": 3}', "no symbol file"),
    ('{"nodes": [3], "heads": [[0,0,0]]}', "node 0 is 3"),
    ('{"nodes": [], "heads": []}', "no outputs"),
    (graph(X, heads=[]), "no outputs"),
    (graph(X, heads=5), "'heads' is 5"),
    (graph(X, heads=[[7, 0, 0]]), "refers to node 7"),
    (graph(X, heads=[[-1, 0, 0]]), "expected .node, output, version."),
    (graph(X, relu([0, 0, 0, 0])), "expected .node, output, version."),
    (graph(X, relu(["0", 0, 0])), "expected .node, output, version."),
    (graph(X, relu([True, 0, 0])), "expected .node, output, version."),
    (graph(X, relu([0.0, 0, 0])), "expected .node, output, version."),
    (graph(X, relu([1, 0, 0])), "a cycle"),
    (graph(X, relu([2, 0, 0]), relu([1, 0, 0])), "a cycle"),
    (graph(X, relu([2**63, 0, 0])), "refers to node 9223372036854775808"),
    (graph(X, relu([10**400, 0, 0])), "refers to node 1000"),
    (graph({**X, "name": 3}), "'name' is 3"),
    (graph({**X, "op": None}), "'op' is None"),
    (graph({**X, "attrs": ["a"]}), "expected an object of strings"),
    (graph({**X, "attrs": {"a": 1}}), "expected a string"),
    (graph({**X, "inputs": {}}), "expected a list"),
    (graph(X, {**X, "name": "z", "inputs": [[0, 0, 0]]}), "a variable .op 'null'. has inputs"),
    (graph(X, X), "both a variable named 'x'"),
    (graph({**X, "name": "\ud800"}), "surrogate"),
    (graph({**X, "subgraphs": [{}]}), "subgraph 0: this is no symbol file"),
    (graph(X, arg_nodes=[4]), "'arg_nodes' lists 4"),
    ('{"nodes": NaN}', "not JSON"),
    ('{"nodes": 1' + "0" * 10_000 + "}", "not JSON|no symbol file"),
], ids=lambda x: x[:30])
def test_hostile_symbol_text(text: str, message: str) -> None:
    with pytest.raises(FileFormatError, match=message) as caught:
        parse(text, "bad-symbol.json")
    assert "bad-symbol.json" in str(caught.value) and len(str(caught.value)) < 600


def test_symbol_file_that_is_not_utf8() -> None:
    with pytest.raises(FileFormatError, match="not UTF-8"):
        parse(b'{"nodes": "\xff"}', "a")


def test_errors_are_hybrid_errors() -> None:
    assert issubclass(FileFormatError, HybridError) and issubclass(FileFormatError, ValueError)


def _leaves(found: object, path: tuple = ()) -> list[tuple]:
    """Paths of everything inside a JSON document."""
    items = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    out = [path] if path else []
    for key, value in items:
        out += _leaves(value, (*path, key))
    return out


def test_random_damage_to_a_symbol_file_is_an_error_or_a_graph() -> None:
    text = (DATA / "lenet_digits-symbol.json").read_text()
    paths = _leaves(json.loads(text))
    rng = random.Random(3)
    values = [None, True, -1, 0, 10**30, 1.5, "", "x", [], {}, [[]], [[0, 0, 0]], {"a": "b"}, "\u0000", [-1, 0, 0]]
    for _ in range(1500):
        document = json.loads(text)
        *parents, last = rng.choice(paths)
        holder = document
        for key in parents:
            holder = holder[key]
        if rng.random() < 0.2:
            del holder[last]
        else:
            holder[last] = rng.choice(values)
        try:
            parse(json.dumps(document), "damaged")
        except FileFormatError as err:
            assert str(err).startswith("damaged")


def test_random_bytes_in_a_symbol_file() -> None:
    text = (DATA / "lenet_digits-symbol.json").read_bytes()
    rng = random.Random(5)
    for _ in range(500):
        data = bytearray(text)
        for _ in range(3):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            parse(bytes(data), "damaged")
        except FileFormatError as err:
            assert str(err).startswith("damaged")


SIZES = [
    ("elements", {"op": "_zeros", "name": "a", "attrs": {"shape": "(99999999999, 99999999)"}, "inputs": []},
     "9999999899900000001 elements"),
    ("negative", {"op": "_zeros", "name": "a", "attrs": {"shape": "(-5,)"}, "inputs": []}, "negative size"),
    ("2-63", {"op": "_zeros", "name": "a", "attrs": {"shape": "(9223372036854775808,)"}, "inputs": []}, "64 bits"),
    ("outputs", {"op": "SliceChannel", "name": "a", "attrs": {"num_outputs": "1000000000"}, "inputs": [[0, 0, 0]]},
     "1000000000 outputs; 1 to 65536"),
    ("no-outputs", {"op": "SliceChannel", "name": "a", "attrs": {"num_outputs": "-3"}, "inputs": [[0, 0, 0]]},
     "-3 outputs"),
]


@pytest.mark.parametrize(("node", "message"), [row[1:] for row in SIZES], ids=[row[0] for row in SIZES])
def test_sizes_that_no_array_has(node: dict, message: str) -> None:
    """Refused when the file is read, before anything is allocated or a compiler sees it."""
    variable = {"op": "null", "name": "x", "inputs": []}
    text = json.dumps({"nodes": [variable, node], "arg_nodes": [0], "heads": [[1, 0, 0]]})
    with pytest.raises(mx.errors.HybridError, match=message):
        mx.sym.load_json(text)


def test_a_graph_that_doubles_at_every_node() -> None:
    nodes = [{"op": "null", "name": "x", "inputs": []}]
    nodes += [{"op": "Concat", "name": f"c{i}", "attrs": {"num_args": "2", "dim": "0"},
               "inputs": [[i, 0, 0], [i, 0, 0]]} for i in range(80)]
    symbol = mx.sym.load_json(json.dumps({"nodes": nodes, "arg_nodes": [0], "heads": [[80, 0, 0]]}))
    with pytest.raises(mx.errors.ShapeError, match="elements"):
        symbol.infer_shape(x=(4,))


OTHERS = {"npz": (b"PK\x03\x04" + bytes(60), "np.load"), "npy": (b"\x93NUMPY" + bytes(60), "np.load"),
          "pickle": (b"\x80\x04\x95" + bytes(60), "pickle"),
          "json": (b'{"nodes": [], "heads": []}', "-symbol.json")}


@pytest.mark.parametrize(("data", "message"), OTHERS.values(), ids=OTHERS.keys())
def test_files_of_another_kind(data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.params").write_bytes(data)
    with pytest.raises(FileFormatError, match=f"x.params.*looks like.*{message}"):
        mx.nd.load(str(tmp_path / "x.params"))


def test_parameters_where_a_symbol_is_expected(tmp_path: Path) -> None:
    mx.nd.save(str(tmp_path / "x.params"), {"a": mx.nd.ones((100,))})
    with pytest.raises(FileFormatError, match="looks like a .params file of MXNet"):
        mx.sym.load(str(tmp_path / "x.params"))
