"""Record files: byte for byte as MXNet writes them; damaged ones give one clear error."""
from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import shutil
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from hybrid import recordio
from hybrid.base.errors import FileFormatError, HybridError

from ..oracle.record_data import HEADERS, MAGIC, RECORDS
from ..paths import DATA



@pytest.fixture
def written(tmp_path: Path) -> Path:
    with recordio.MXIndexedRecordIO(tmp_path / "x.idx", tmp_path / "x.rec", "w") as out:
        for i, r in enumerate(RECORDS):
            out.write_idx(i, r)
    return tmp_path / "x.rec"


def test_bytes_are_those_of_mxnet(written: Path) -> None:
    assert written.read_bytes() == (DATA / "recordio.rec").read_bytes()
    assert written.with_suffix(".idx").read_bytes() == (DATA / "recordio.idx").read_bytes()


def test_reads_what_mxnet_wrote() -> None:
    with recordio.MXRecordIO(DATA / "recordio.rec", "r") as file:
        assert [file.read() for _ in RECORDS] == RECORDS
        assert file.read() is None
        file.reset()
        assert file.read() == RECORDS[0]
    with recordio.MXIndexedRecordIO(DATA / "recordio.idx", DATA / "recordio.rec", "r") as file:
        assert file.keys == list(range(len(RECORDS)))
        assert [file.read_idx(i) for i in reversed(file.keys)] == RECORDS[::-1]
        file.seek(3)
        assert file.read() == RECORDS[3] and file.read() == RECORDS[4]


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(parts=st.lists(st.lists(st.sampled_from([MAGIC, MAGIC[:1], MAGIC[1:], b"\0", b"abc", b"0123"]),
                               max_size=8).map(b"".join), max_size=5))
def test_any_record_comes_back(tmp_path: Path, parts: list[bytes]) -> None:
    path = tmp_path / "any.rec"
    with recordio.MXRecordIO(path, "w") as out:
        for r in parts:
            out.write(r)
    with recordio.MXRecordIO(path, "r") as file:
        assert [file.read() for _ in parts] == parts and file.read() is None
    assert path.stat().st_size % 4 == 0


@pytest.mark.parametrize("name", list(HEADERS), ids=list(HEADERS))
def test_pack(name: str) -> None:
    expected = bytes.fromhex(json.loads((DATA / "recordio.json").read_text())["packed"][name])
    header = recordio.IRHeader(*HEADERS[name])
    assert recordio.pack(header, b"picture") == expected
    back, rest = recordio.unpack(expected)
    assert rest == b"picture" and (back.id, back.id2) == (header.id, header.id2)
    np.testing.assert_array_equal(back.label, np.float32(header.label))
    assert recordio.pack(back, rest) == expected


@pytest.mark.parametrize(("img_fmt", "quality", "most"), [(".png", 3, 0), (".jpg", 100, 8)], ids=["png", "jpg"])
@pytest.mark.parametrize("shape", [(12, 9), (12, 9, 3)], ids=["gray", "colour"])
def test_pack_img(img_fmt: str, quality: int, most: int, shape: tuple[int, ...]) -> None:
    ramp = np.linspace(0, 255, 12 * 9).reshape(12, 9)
    picture = (ramp if len(shape) == 2 else np.stack([ramp, ramp[::-1], ramp * 0.5], -1)).astype(np.uint8)
    record = recordio.pack_img(recordio.IRHeader(0, 4, 5, 0), picture, quality, img_fmt)
    header, back = recordio.unpack_img(record)
    assert header.label == 4 and back.shape == picture.shape and back.dtype == np.uint8
    assert np.abs(back.astype(int) - picture).max() <= most + 12 * (img_fmt == ".jpg" and len(shape) == 3)
    assert recordio.unpack_img(record, 0)[1].shape == (12, 9) and recordio.unpack_img(record, 1)[1].shape == (12, 9, 3)


def test_pack_img_is_blue_first() -> None:
    blue = np.zeros((4, 4, 3), np.uint8)
    blue[..., 0] = 200
    from hybrid.base import codec
    assert codec.decode(recordio.unpack(recordio.pack_img((0, 0, 0, 0), blue, 3,
                                                          ".png"))[1])[0, 0].tolist() == [0, 0, 200]


@pytest.mark.parametrize("quality", [1, 50, 95], ids=["1", "50", "95"])
def test_quality_changes_the_size(quality: int) -> None:
    noise = np.random.RandomState(0).randint(0, 256, (32, 32, 3)).astype(np.uint8)
    sizes = [len(recordio.pack_img((0, 0, 0, 0), noise, q)) for q in (quality, 100)]
    assert sizes[0] < sizes[1]


# ---- damaged files
@pytest.mark.parametrize("missing", [1, 3, 5, 40], ids=str)
def test_truncated_file(written: Path, missing: int) -> None:
    written.write_bytes(written.read_bytes()[:-missing])
    with recordio.MXRecordIO(written, "r") as file, pytest.raises(FileFormatError,
                                                                  match=r"x\.rec, byte \d+: .*cut off"):
        for _ in range(len(RECORDS) + 1):
            file.read()


def test_every_truncation_is_found_or_at_a_record_boundary(written: Path) -> None:
    whole = written.read_bytes()
    ends = {0}
    for r in RECORDS:
        ends.add(max(ends) + len(recordio.encode(r)))
    for n in range(len(whole)):
        written.write_bytes(whole[:n])
        with recordio.MXRecordIO(written, "r") as file:
            if n in ends:
                while file.read() is not None:
                    pass
            else:
                with pytest.raises(FileFormatError):
                    while file.read() is not None:
                        pass


@pytest.mark.parametrize(("content", "message"), [
    (b"garbage!" * 4, "magic number"), (struct.pack("<II", 0xCED7230A, 3 << 29), "flag 3 at the start"),
    (struct.pack("<II", 0xCED7230A, 2 << 29),
        "flag 2 at the start"),
    (struct.pack("<IIII", 0xCED7230A, 1 << 29, 0xCED7230A, 0), "flag 0 inside"),
    (struct.pack("<II", 0xCED7230A, 7 << 29), "flag 7"),
    (struct.pack("<II", 0xCED7230A, (1 << 29) - 1), "536870911 bytes of which 0"),
    (struct.pack("<II", 0xCED7230A, 1 << 29), "cut off")],
    ids=["garbage", "last-first", "middle-first", "whole-inside", "unknown-flag", "huge", "never-ends"])
def test_garbage(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "g.rec").write_bytes(content)
    with recordio.MXRecordIO(tmp_path / "g.rec", "r") as file, pytest.raises(FileFormatError, match=message):
        file.read()


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(where=st.integers(0, 339), value=st.integers(0, 255))
def test_a_changed_byte_never_hangs_or_crashes(tmp_path: Path, where: int, value: int) -> None:
    raw = bytearray((DATA / "recordio.rec").read_bytes())
    raw[where % len(raw)] = value
    (tmp_path / "c.rec").write_bytes(raw)
    with recordio.MXRecordIO(tmp_path / "c.rec", "r") as file:
        try:
            while (record := file.read()) is not None:
                assert isinstance(record, bytes)
        except FileFormatError:
            pass


@pytest.mark.parametrize(("record", "message"), [(b"short", "24 bytes"), (struct.pack("<IfQQ", 1000, 0, 0, 0) + b"x",
    "promises 1000 labels")], ids=["short", "labels"])
def test_unpack_of_something_else(record: bytes, message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        recordio.unpack(record)


def test_bad_index(tmp_path: Path) -> None:
    shutil.copy(DATA / "recordio.rec", tmp_path / "x.rec")
    (tmp_path / "x.idx").write_text("0\t0\nnonsense\n")
    with pytest.raises(FileFormatError, match=r"x\.idx, line 2: .*nonsense"):
        recordio.MXIndexedRecordIO(tmp_path / "x.idx", tmp_path / "x.rec", "r")
    (tmp_path / "x.idx").write_text("0\t4\n1\t999999\n")
    with recordio.MXIndexedRecordIO(tmp_path / "x.idx", tmp_path / "x.rec", "r") as file:
        with pytest.raises(FileFormatError, match="index"):
            file.read_idx(0)
        with pytest.raises(FileFormatError, match="end of the file"):
            file.read_idx(1)
        with pytest.raises(KeyError, match="no record 7"):
            file.read_idx(7)


def test_misuse(tmp_path: Path) -> None:
    path = tmp_path / "m.rec"
    with pytest.raises(ValueError, match="'r' or 'w'"):
        recordio.MXRecordIO(path, "a")
    with pytest.raises(FileNotFoundError):
        recordio.MXRecordIO(path, "r")
    out = recordio.MXRecordIO(path, "w")
    with pytest.raises(TypeError, match="encode the text"):
        out.write("text")                                         # type: ignore[arg-type]
    with pytest.raises(HybridError, match="does not read"):
        out.read()
    with pytest.raises(TypeError, match="being written"):
        pickle.dumps(out)
    out.close()
    out.close()
    with pytest.raises(HybridError, match="closed"):
        out.write(b"x")
    with pytest.raises(HybridError, match="label"):
        recordio.pack((0, "text", 0, 0), b"")
    with pytest.raises(HybridError, match="uint8"):
        recordio.pack_img((0, 0, 0, 0), np.zeros((3, 3)))
    with pytest.raises(HybridError, match=r"\.gif"):
        recordio.pack_img((0, 0, 0, 0), np.zeros((3, 3), np.uint8), img_fmt=".gif")


# ---- other processes and threads
def test_pickled_reader_starts_again() -> None:
    file = recordio.MXIndexedRecordIO(DATA / "recordio.idx", DATA / "recordio.rec", "r")
    file.read()
    copy = pickle.loads(pickle.dumps(file))
    assert copy.read() == RECORDS[0] and copy.read_idx(7) == RECORDS[7] and file.read() == RECORDS[1]


def _read_in_child(file: recordio.MXIndexedRecordIO, out: multiprocessing.Queue) -> None:   # type: ignore[type-arg]
    try:
        file.read()
        out.put("read")
    except RuntimeError as err:
        out.put(str(err))
    out.put([file.read_idx(i) for i in (5, 2, 7)])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forked_process() -> None:
    context = multiprocessing.get_context("fork")
    file, out = recordio.MXIndexedRecordIO(DATA / "recordio.idx", DATA / "recordio.rec", "r"), context.Queue()
    file.read()
    child = context.Process(target=_read_in_child, args=(file, out))
    child.start()
    assert "another process" in out.get(timeout=20)
    assert out.get(timeout=20) == [RECORDS[i] for i in (5, 2, 7)]
    child.join(20)
    assert file.read() == RECORDS[1]                              # the parent's position is its own


def test_threads_read_one_file() -> None:
    file = recordio.MXIndexedRecordIO(DATA / "recordio.idx", DATA / "recordio.rec", "r")
    order = np.random.RandomState(0).randint(0, len(RECORDS), 2000).tolist()
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(file.read_idx, order)) == [RECORDS[i] for i in order]
