"""Files cut at every byte and damaged at random, through the functions that users call: an error of this library, or a
value; never a crash or a hang."""
from __future__ import annotations

import io
import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import HybridError, gluon, nd
from hybrid.serialize.params import write_params

from ..paths import DATA

SYMBOL = (DATA / "lenet_digits-symbol.json").read_text()
SLOW = 20.0                                   # seconds: far more than a file of a few kilobytes may take
NUMBERS = (0, 1, 2**31, 2**40, 2**63 - 1, 2**64 - 1)
VALUES: list[Any] = [None, True, -1, 0, 10**30, 1.5, "", "x", "None", "-1", "(1,2)", "(99999999999,9)", "(-5,)",
                     "1e400", "nan", "[" * 500, "[0, 99]", [], {}, [[]],
                     [[0, 0, 0]], {"a": "b"}, "\0", [-1, 0, 0], "Custom", "_foreach", "Convolution", "1000000000",
                     "9" * 50, "((1,),)"]


def damaged(data: bytes, rng: random.Random) -> bytes:
    """One to four changes: bytes, cuts, insertions, copies, numbers of 64 bits."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        if not out:
            break
        at, kind = rng.randrange(len(out)), rng.random()
        if kind < 0.5:
            out[at] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif kind < 0.6:
            del out[at:at + rng.randint(1, 16)]
        elif kind < 0.7:
            out[at:at] = bytes(rng.randrange(256) for _ in range(rng.randint(1, 9)))
        elif kind < 0.8:
            other = rng.randrange(len(out))
            out[at:at + 8] = out[other:other + 8]
        elif kind < 0.9:
            del out[at:]
        else:
            out[at:at + 8] = rng.choice(NUMBERS).to_bytes(8, "little")
    return bytes(out)


def attempts(count: int, act: Callable[[], Any]) -> int:
    """How often an act gave a value; an exception that is not this library's goes on."""
    good = 0
    begin = time.process_time()
    for _ in range(count):
        try:
            act()
            good += 1
        except HybridError as err:
            assert len(str(err)) < 2000
        assert time.process_time() - begin < SLOW + count * 0.05
    return good


def params_file() -> bytes:
    out = io.BytesIO()
    write_params(out, [np.arange(6, dtype="float32").reshape(2, 3), np.ones((2, 2), "int8"), np.zeros((), "float32")],
                 ["arg:weight", "aux:é", "x"])
    return out.getvalue()


def test_params() -> None:
    whole, rng = params_file(), random.Random(11)
    assert attempts(10_000, lambda: nd.load_frombuffer(damaged(whole, rng))) > 100


def paths(found: Any, path: tuple = ()) -> list[tuple]:
    """Paths of everything inside a JSON document."""
    items = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    return ([path] if path else []) + [p for key, value in items for p in paths(value, (*path, key))]


def changed(text: str, places: list[tuple], rng: random.Random) -> str:
    """A document with values taken out, exchanged with others of it, or replaced."""
    document = json.loads(text)
    for _ in range(rng.randint(1, 3)):
        *above, last = rng.choice(places)
        try:
            holder = document
            for key in above:
                holder = holder[key]
            if rng.random() < 0.15:
                del holder[last]
            elif rng.random() < 0.3:
                *other, end = rng.choice(places)
                source = document
                for key in other:
                    source = source[key]
                holder[last] = source[end]
            else:
                holder[last] = rng.choice(VALUES)
        except (KeyError, IndexError, TypeError):             # an earlier change took the place away
            continue
    try:
        return json.dumps(document)
    except (ValueError, RecursionError):                      # a value was put inside itself
        return text


def read_symbol(text: str | bytes) -> None:
    s = mx.sym.load_json(text)                                # type: ignore[arg-type]
    s.infer_shape_partial(**{name: (2, 1, 28, 28) for name in s.list_inputs()[:1]})
    s.tojson()


@pytest.mark.parametrize("name", ["lenet", "loop", "old"])
def test_symbols(name: str) -> None:
    loops = json.loads((DATA / "control_flow.json").read_text())
    text = {"lenet": SYMBOL, "loop": next((v["json"] for v in loops.values() if isinstance(v, dict) and "json" in v),
                                          SYMBOL),
            "old": json.loads((DATA / "old_symbols.json").read_text())["mlp08"]["text"]}[name]
    rng, places = random.Random(12), paths(json.loads(text))
    assert attempts(2000, lambda: read_symbol(changed(text, places, rng))) > 10


def test_symbols_by_bytes() -> None:
    rng = random.Random(13)
    attempts(3000, lambda: read_symbol(damaged(SYMBOL.encode(), rng)))


def test_symbols_cut_at_every_byte() -> None:
    lengths = iter(range(len(SYMBOL.rstrip()) - 1))
    assert attempts(len(SYMBOL.rstrip()) - 1, lambda: read_symbol(SYMBOL[:next(lengths)])) == 0


def test_parameters_of_a_block(tmp_path: Path) -> None:
    net = gluon.nn.Dense(3, in_units=2)
    net.initialize()
    net.save_parameters(str(tmp_path / "whole.params"))
    whole, rng = (tmp_path / "whole.params").read_bytes(), random.Random(14)

    def act() -> None:
        (tmp_path / "bad.params").write_bytes(damaged(whole, rng))
        net.load_parameters(str(tmp_path / "bad.params"))
    assert attempts(1000, act) > 10


def test_states_of_an_optimizer() -> None:
    weights = [nd.ones((2, 3)), nd.ones((4,))]
    updater = mx.optimizer.get_updater(mx.optimizer.create("adam"))
    updater([0, 1], [w * 1 for w in weights], weights)
    rng, wholes = random.Random(15), [updater.get_states(dump_optimizer=d) for d in (False, True)]
    assert (attempts(2000,
                     lambda: mx.optimizer.get_updater(mx.optimizer.create("adam")).set_states(damaged(rng.choice(wholes), rng))) > 10)  # noqa: E501


def test_records(tmp_path: Path) -> None:
    with mx.recordio.MXIndexedRecordIO(str(tmp_path / "a.idx"), str(tmp_path / "a.rec"), "w") as out:
        for i in range(5):
            out.write_idx(i, mx.recordio.pack(mx.recordio.IRHeader(0, [1.0, 2.0], i, 0), b"abc" * i))
    records, index, rng = (tmp_path / "a.rec").read_bytes(), (tmp_path / "a.idx").read_bytes(), random.Random(16)

    def read() -> None:
        (tmp_path / "b.rec").write_bytes(damaged(records, rng))
        with mx.recordio.MXRecordIO(str(tmp_path / "b.rec"), "r") as found:
            for _ in range(len(records)):
                record = found.read()
                if record is None:
                    return
                mx.recordio.unpack(record)
        raise AssertionError("more records than bytes")

    def seek() -> None:
        (tmp_path / "b.idx").write_bytes(damaged(index, rng))
        with mx.recordio.MXIndexedRecordIO(str(tmp_path / "b.idx"), str(tmp_path / "a.rec"), "r") as found:
            for key in found.keys:
                found.read_idx(key)
    assert attempts(500, read) > 10 and attempts(500, seek) > 10


def test_safetensors(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    nd.save(str(tmp_path / "a.safetensors"), {"w": nd.ones((2, 3)), "b": nd.zeros((4,), dtype="float16")})
    whole, rng = (tmp_path / "a.safetensors").read_bytes(), random.Random(17)

    def act() -> None:
        (tmp_path / "b.safetensors").write_bytes(damaged(whole, rng))
        nd.load(str(tmp_path / "b.safetensors"))
    assert attempts(500, act) > 10
