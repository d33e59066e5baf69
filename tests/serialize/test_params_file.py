"""``.params`` files: the bytes that MXNet 1.9.1 writes, its older versions, and what MXNet cannot hold."""
from __future__ import annotations

import io
import os
import stat
import struct
from pathlib import Path

import numpy as np
import pytest

from hybrid.buffers.array import array
from hybrid.base.errors import DTypeError, FileFormatError
from hybrid.base import atomic
from hybrid.serialize import ndarrays
from hybrid.serialize.params import V1, V2, V3, read_file, read_params, write_params

from ..paths import DATA

GOLDEN = sorted(DATA.rglob("*.params"))

# What mx.nd.save of MXNet 1.9.1 wrote
BYTES_OF_MXNET = {
    "two": ("120100000000000000000000000000000200000000000000c9fa93f900000000010000000200000000000000010000000000000000"
            "0000000000803f0000803fc9fa93f9000000000100000001000000000000000100000000000000050000000100000000"
            "00000000",
            [np.ones(2, "float32"), np.ones(1, "int8")], []),
    "empty": ("1201000000000000000000000000000000000000000000000000000000000000", [], []),
    "name": ("120100000000000000000000000000000100000000000000c9fa93f9000000000100000001000000000000000100000000000000000000"  # noqa: E501
             "000000803f01000000000000000400000000000000c3a9220a", [np.ones(1, "float32")], ['é"\n']),
    "bool": ("120100000000000000000000000000000100000000000000c9fa93f900000000010000000200000000000000010000000000000007"  # noqa: E501
             "00000001000100000000000000010000000000000061", [np.array([True, False])], ["a"]),
    "float64": ("120100000000000000000000000000000100000000000000c9fa93f9000000000100000001000000000000000100000000000000"  # noqa: E501
                "01000000000000000000f03f0100000000000000010000000000000061", [np.ones(1)], ["a"]),
    "0-d": ("120100000000000000000000000000000100000000000000cafa93f900000000000000000100000000000000000000000000803f"
            "0100000000000000010000000000000061", [np.ones((), "float32")], ["a"]),
    "zero size": ("120100000000000000000000000000000100000000000000cafa93f9000000000200000000000000000000000300000000000000"  # noqa: E501
                  "0100000000000000000000000100000000000000010000000000000061", [np.ones((0, 3), "float32")], ["a"]),
}


def header(count: int = 1) -> bytes:
    return struct.pack("<QQQ", 0x112, 0, count)


def no_names() -> bytes:
    return struct.pack("<Q", 0)


def written(arrays: list, names: list, **options) -> bytes:
    out = io.BytesIO()
    write_params(out, arrays, names, **options)
    return out.getvalue()


def test_there_are_golden_files() -> None:
    assert len(GOLDEN) >= 5


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: f"{p.parent.name}-{p.name}")
def test_golden_file_is_read_and_written_byte_for_byte(path: Path) -> None:
    found = read_file(path)
    assert found.names and all(a.dtype == np.float32 and a.flags.writeable for a in found.arrays)
    assert written(found.arrays, found.names, contexts=found.contexts) == path.read_bytes()


@pytest.mark.parametrize("key", BYTES_OF_MXNET)
def test_bytes_are_those_of_mxnet(key: str) -> None:
    text, arrays, names = BYTES_OF_MXNET[key]
    assert written(arrays, names).hex() == text
    back, labels = read_params(bytes.fromhex(text))
    assert labels == names
    for got, expected in zip(back, arrays, strict=True):
        assert got.dtype == expected.dtype and got.shape == expected.shape
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "uint8", "int8", "int32", "int64", "bool",
                                   "bfloat16"])
def test_every_dtype_comes_back(dtype: str, tmp_path: Path) -> None:
    from hybrid.base.dtype import as_dtype
    array = (np.arange(6).reshape(2, 3) % 2).astype(as_dtype(dtype))
    write_params(tmp_path / "a.params", [array], ["a"])
    (back,), names = read_params(tmp_path / "a.params")
    assert names == ["a"] and back.dtype == array.dtype
    np.testing.assert_array_equal(back.astype("float32"), array.astype("float32"))


@pytest.mark.parametrize("dtype", ["int16", "uint32", "uint64", "complex64"])
def test_dtype_that_mxnet_cannot_hold(dtype: str, tmp_path: Path) -> None:
    with pytest.raises(DTypeError, match=f"'w' has dtype {dtype}.*cast it"):
        write_params(tmp_path / "a.params", [np.zeros(2, dtype)], ["w"])
    assert not list(tmp_path.iterdir())


def test_views_are_written_in_their_own_order() -> None:
    array = np.arange(12, dtype="float32").reshape(3, 4).T[::-1]
    np.testing.assert_array_equal(read_params(written([array], []))[0][0], array)


def test_older_versions() -> None:
    values = struct.pack("<2f", 1, 2)
    v1 = struct.pack("<IiqiiI", V1, 1, 2, 1, 0, 0) + values
    legacy = struct.pack("<IIiiI", 1, 2, 1, 0, 0) + values
    mixed = header(2) + v1 + legacy + no_names()
    found = read_file(mixed)
    assert found.versions == [1, 0]
    for array in found.arrays:
        np.testing.assert_array_equal(array, [1, 2])


def test_arrays_without_a_value() -> None:
    for record in (struct.pack("<Iii", V2, 0, 0), struct.pack("<Iii", V3, 0, -1), struct.pack("<Ii", V1, 0),
                   struct.pack("<I", 0)):
        assert read_params(header() + record + no_names())[0] == [None]
    assert read_params(written([None], ["a"])) == ([None], ["a"])


def test_the_device_is_kept() -> None:
    found = read_file(written([np.ones(1, "float32")], ["w"], contexts=[(2, 3)]))
    assert found.contexts == [(2, 3)]


def sized(*shape: int) -> bytes:
    return struct.pack(f"<i{len(shape)}q", len(shape), *shape)


def sparse(kind: int, stored: bytes, shape: bytes, lists: list[tuple[int, ...]], values: list[float]) -> bytes:
    """A file with one sparse array, in the layout that MXNet 1.9.1 reads."""
    described = b"".join(struct.pack("<i", 6) + sized(len(v)) for v in lists)
    data = np.array(values, "<f4").tobytes() + b"".join(np.array(v, "<i8").tobytes() for v in lists)
    return header() + struct.pack("<Ii", V2,
                                  kind) + stored + shape + struct.pack("<iii", 1, 0,
                                                                       0) + described + data + struct.pack("<QQ", 1,
            1) + b"w"


def test_sparse_arrays_are_read_as_dense_ones() -> None:
    """The bytes that MXNet loads as these arrays."""
    (rows,), _ = read_params(sparse(1, sized(2, 3), sized(4, 3), [(1, 3)], [0, 1, 2, 3, 4, 5]))
    assert rows.tolist() == [[0, 0, 0], [0, 1, 2], [0, 0, 0], [3, 4, 5]]
    (csr,), _ = read_params(sparse(2, sized(2), sized(2, 3), [(0, 1, 2), (2, 0)], [1, 2]))
    assert csr.tolist() == [[0, 0, 1], [2, 0, 0]]


@pytest.mark.parametrize("data", [
    sparse(1, sized(2, 3), sized(4, 3), [(1, 4)], [0] * 6), sparse(1, sized(2, 3), sized(4, 3), [(-1, 0)], [0] * 6),
    sparse(1, sized(2, 2), sized(4, 3), [(0, 1)], [0] * 4),
    sparse(1, sized(1, 3), sized(2**40, 3), [(0,)], [0] * 3),
    sparse(2, sized(2), sized(2, 3), [(0, 2, 1), (2, 0)], [1, 2]),
    sparse(2, sized(2), sized(2, 3), [(0, 1, 2), (2, 3)], [1, 2]),
    sparse(2, sized(2), sized(2, 3), [(0, 2), (2, 0)], [1, 2]),
    sparse(2, sized(2), sized(2, 3, 1), [(0, 1, 2), (2, 0)], [1, 2]),
], ids=["row-beyond", "row-before", "values", "too-large", "counts-fall", "column-beyond", "few-counts", "three-axes"])
def test_sparse_arrays_that_do_not_fit(data: bytes) -> None:
    with pytest.raises(FileFormatError, match="array 0 is (row_sparse|csr)"):
        read_params(data)


def test_sparse_arrays_cut_at_every_byte() -> None:
    whole = sparse(2, sized(2), sized(2, 3), [(0, 1, 2), (2, 0)], [1, 2])
    for length in range(len(whole)):
        with pytest.raises(FileFormatError):
            read_params(whole[:length])


def test_numbers_of_names_must_fit() -> None:
    with pytest.raises(ValueError, match="1 names for 2 arrays"):
        write_params(io.BytesIO(), [np.zeros(1, "float32")] * 2, ["a"])


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "net.params"
    write_params(path, [np.ones(2, "float32")], ["w"])
    before = path.read_bytes()
    with pytest.raises(RuntimeError, match="half way"):
        with atomic.replacing(path) as out:
            out.write(b"half")
            raise RuntimeError("half way")
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["net.params"]


def test_a_link_keeps_pointing_at_its_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    atomic.write_bytes(tmp_path / "link", b"x")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_bytes() == b"x"


def test_the_mode_follows_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        atomic.write_bytes(tmp_path / "a", b"x")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_writing_to_a_folder_or_into_none(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match="is a folder"):
        atomic.write_bytes(tmp_path, b"x")
    with pytest.raises(FileNotFoundError):
        atomic.write_bytes(tmp_path / "no" / "a", b"x")


# ---- as arrays of the library
def test_save_and_load_keep_the_structure(tmp_path: Path) -> None:
    path = tmp_path / "a.params"
    a, b = array(np.ones((2, 3), "float32")), array(np.arange(3), dtype="int32")
    for data, kind in (({"a": a, 'é"\n': b}, dict), ([a, b], list), (a, list), ((a,), list), ({}, list), ([], list)):
        ndarrays.save(path, data)
        back = ndarrays.load(path)
        assert type(back) is kind and str(ndarrays.load_frombuffer(path.read_bytes())) == str(back)
        if isinstance(data, dict) and data:
            assert list(back) == list(data)
            assert back["a"].dtype == np.float32 and back["a"].asnumpy().tolist() == a.asnumpy().tolist()


@pytest.mark.parametrize(("data", "message"), [
    (3, "takes an NDArray, a list of them"), ({"a": 3}, "'a' is a str for a int"), ([3], "item 0 is a int"),
    ({1: array(np.ones(1))}, "1 is a int"), (np.ones(2), "not a ndarray"),
])
def test_save_says_what_it_takes(data: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=message):
        ndarrays.save(tmp_path / "a", data)
    assert not list(tmp_path.iterdir())


def test_load_refuses_a_name_that_stands_twice_and_an_array_without_value() -> None:
    with pytest.raises(FileFormatError, match="'w' stands there twice"):
        ndarrays.load_frombuffer(written([np.ones(1, "float32")] * 2, ["w", "w"]))
    with pytest.raises(FileFormatError, match="array 0 has no value"):
        ndarrays.load_frombuffer(written([None], ["w"]))
    with pytest.raises(TypeError, match="takes bytes"):
        ndarrays.load_frombuffer("a.params")  # type: ignore[arg-type]


def test_an_array_of_an_absent_gpu_comes_to_the_cpu() -> None:
    back = ndarrays.load_frombuffer(written([np.ones(2, "float32")], ["w"], contexts=[(2, 63)]))
    assert str(back["w"].ctx) == "cpu(0)"


def test_slices_and_transposes_are_saved_as_they_look(tmp_path: Path) -> None:
    view = array(np.arange(6, dtype="float32").reshape(2, 3).T)
    ndarrays.save(tmp_path / "a", [view])
    np.testing.assert_array_equal(ndarrays.load(tmp_path / "a")[0].asnumpy(), view.asnumpy())
