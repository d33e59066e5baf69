"""Modules that stand beside Gluon in MXNet: kvstore, profiler, engine, runtime, log, libinfo, contrib.text,
contrib.autograd, base."""
from __future__ import annotations

import json
import logging
from collections import Counter
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import base, engine, features, kvstore, libinfo, log, nd, profiler
from hybrid.contrib import autograd as old_autograd
from hybrid.contrib import text


def filled(value: float, shape: tuple[int, ...] = (2, 3)) -> Any:
    return nd.full(shape, value)


# ---- kvstore
@pytest.mark.parametrize("kind", ["local", "device"])
def test_kvstore_sums_and_assigns(kind: str) -> None:
    kv, out = kvstore.create(kind), filled(0)
    assert (kv.type, kv.rank, kv.num_workers) == (kind, 0, 1)
    kv.init(3, filled(1))
    kv.push(3, filled(8))
    kv.pull(3, out=out)
    assert (out.asnumpy() == 8).all()
    kv.push(3, [filled(1)] * 4)
    kv.pull(3, out=[out])
    assert (out.asnumpy() == 4).all()
    kv.init([5, 7], [filled(1), filled(1)])
    many = [[filled(0), filled(0)], [filled(0)]]
    kv.push([5, 7], [[filled(1), filled(2)], [filled(5)]])
    kv.pull([5, 7], out=many)
    assert [[x.asnumpy()[0, 0] for x in row] for row in many] == [[3, 3], [5]]


def test_kvstore_keeps_its_own_copies() -> None:
    kv, x, out = kvstore.create(), filled(1), filled(0)
    kv.init("w", x)
    x[:] = 9
    kv.pull("w", out=out)
    assert (out.asnumpy() == 1).all()


def test_kvstore_with_updater_and_optimizer(tmp_path: Path) -> None:
    kv, out, seen = kvstore.create(), filled(0), []

    def update(key: Any, pushed: Any, stored: Any) -> None:
        seen.append(key)
        stored += pushed * 2
    kv.init("w", filled(4))
    kv._set_updater(update)
    kv.pushpull("w", filled(1), out=out)
    assert seen == ["w"] and (out.asnumpy() == 6).all()
    kv.set_optimizer(mx.optimizer.create("sgd", learning_rate=0.1, momentum=0.9))
    kv.push("w", filled(10))
    kv.pull("w", out=out)
    np.testing.assert_allclose(out.asnumpy(), 5, rtol=1e-6)
    kv.save_optimizer_states(tmp_path / "states")
    kv.load_optimizer_states(tmp_path / "states")
    kv.push("w", filled(0))
    kv.pull("w", out=out)
    np.testing.assert_allclose(out.asnumpy(), 4.1, rtol=1e-6)


def test_kvstore_rows() -> None:
    kv, out = kvstore.create(), filled(7, (4, 2)).tostype("row_sparse")
    kv.init("e", nd.arange(8).reshape((4, 2)).tostype("row_sparse"))
    kv.row_sparse_pull("e", out=out, row_ids=nd.array([1, 3, 1]))
    assert out.asnumpy().tolist() == [[0, 0], [2, 3], [0, 0], [6, 7]]


BAD_KEYS: list[tuple[str, Callable[[Any], Any], type[Exception], str]] = [
    ("twice", lambda kv: kv.init(3, filled(1)), mx.MXNetError, "there already"),
    ("unknown", lambda kv: kv.pull(9, out=filled(1)), mx.MXNetError, "no key 9"),
    ("mixed", lambda kv: kv.init("a", filled(1)), mx.MXNetError, "all numbers or all text"),
    ("no-out", lambda kv: kv.pull(3), AssertionError, "needs out"),
    ("shape", lambda kv: kv.pull(3, out=filled(1, (7,))), mx.MXNetError, "shape"),
    ("count", lambda kv: kv.push([3, 4], [filled(1)] * 3), ValueError, "2 keys, but 3 values"),
    ("states", lambda kv: kv.save_optimizer_states("x"), AssertionError, "set_optimizer"),
    ("compression", lambda kv: kv.set_gradient_compression({"type": "2bit"}), mx.MXNetError, "compression"),
    ("dist", lambda kv: kvstore.create("dist_async"), mx.MXNetError, "without waiting"),
    ("kind", lambda kv: kvstore.create(3), TypeError, "must be text"),       # type: ignore[arg-type]
]


@pytest.mark.parametrize("call, kind, message", [row[1:] for row in BAD_KEYS], ids=[row[0] for row in BAD_KEYS])
def test_kvstore_refuses(call: Callable[[Any], Any], kind: type[Exception], message: str) -> None:
    kv = kvstore.create()
    kv.init(3, filled(1))
    with pytest.raises(kind, match=message):
        call(kv)


# ---- profiler
def test_profiler_times_operators_and_what_users_mark(tmp_path: Path) -> None:
    profiler.set_config(profile_all=True, aggregate_stats=True, filename=str(tmp_path / "p.json"))
    profiler.dumps(reset=True)
    nd.ones((2,)) + 1
    profiler.set_state("run")
    (nd.ones((2,)) + 1).exp()
    domain = profiler.Domain("mine")
    with domain.new_task("work"):
        pass
    counter = domain.new_counter("count", 3)
    counter += 2
    domain.new_marker("here").mark("process")
    profiler.pause()
    nd.ones((2,)).log()
    profiler.resume()
    profiler.set_state("stop")
    found = json.loads(profiler.dumps(format="json"))["Time"]
    assert (found["operator"]["exp"]["Count"] == 1 and "log" not in found["operator"]
            and found["mine"]["work"]["Count"] == 1)
    assert "exp" in profiler.dumps() and "Total Count" in profiler.dumps(sort_by="avg", ascending=True)
    profiler.dump()
    events = json.loads((tmp_path / "p.json").read_text())["traceEvents"]
    assert [e["args"]["count"] for e in events if e["ph"] == "C"] == [3, 5] and any(e["name"] == "here" for e in events)
    profiler.dumps(reset=True)
    assert json.loads(profiler.dumps(format="json"))["Time"] == {}


def test_profiler_refuses() -> None:
    with pytest.raises(mx.MXNetError, match="unknown colour"):
        profiler.set_config(colour=1)
    with pytest.raises(KeyError):
        profiler.set_state("go")
    with pytest.raises(AssertionError, match="table or json"):
        profiler.dumps(format="text")


# ---- small ones
def test_engine_features_libinfo() -> None:
    old = engine.set_bulk_size(30)
    with engine.bulk(5):
        assert engine.set_bulk_size(5) == 5
    assert engine.set_bulk_size(old) == 30
    assert features.Features().is_enabled("openmp") and not features.Features().is_enabled("TENSORRT")
    with pytest.raises(RuntimeError, match="'NOPE' is unknown"):
        features.Features().is_enabled("nope")
    assert Path(libinfo.find_include_path()).is_dir() and libinfo.find_lib_path() == []


def test_log(tmp_path: Path) -> None:
    logger = log.get_logger("test_log", str(tmp_path / "l"), level=log.INFO)
    logger.info("here")
    assert log.get_logger("test_log", level=log.ERROR) is logger and logger.level == logging.ERROR
    assert (tmp_path / "l").read_text().startswith("I") and (tmp_path / "l").read_text().endswith("] here\n")


def test_base() -> None:
    assert base.py_str(b"a") == "a" and repr(base._Null) == "_Null" and base.mx_real_t is np.float32
    assert base.register_error(type("Strange", (RuntimeError,), {})).__name__ in base.error_types
    with pytest.raises(ValueError, match="must be an integer"):
        mx.random.seed("a")                                  # type: ignore[arg-type]
    assert isinstance(mx.name.NameManager.current,
                      mx.name.NameManager) and mx.Context.default_ctx == mx.current_context()
    with mx.AttrScope(group="4"):
        assert mx.AttrScope.current.get({"a": "1"}) == {"group": "4", "a": "1"}


def test_contrib_autograd() -> None:
    (gx, gy), z = old_autograd.grad_and_loss(lambda x, y: x * x * y)(nd.array([3.0]), nd.array([2.0]))
    assert (gx.asscalar(), gy.asscalar(), z.asscalar()) == (12, 9, 18)
    assert old_autograd.grad(lambda x, y: x * y, argnum=1)(nd.array([3.0]), nd.array([2.0]))[0].asscalar() == 3


# ---- contrib.text
def test_vocabulary_order_is_mxnets() -> None:
    counter = Counter(["a", "b", "b", "c", "c", "c", "some_word$"])
    assert text.vocab.Vocabulary(counter).idx_to_token == ["<unk>", "c", "b", "a", "some_word$"]
    assert text.vocab.Vocabulary(counter,
                                 min_freq=2).idx_to_token == text.vocab.Vocabulary(counter,
            most_freq_count=2).idx_to_token == ["<unk>", "c", "b"]
    v = text.vocab.Vocabulary(counter, unknown_token="<u>", reserved_tokens=["<pad>"])
    assert (v.to_indices(["c", "zz"]), v.to_tokens([1, 0]), len(v)) == ([2, 0], ["<pad>", "<u>"], 6)
    with pytest.raises(ValueError, match="from 0 to 5"):
        v.to_tokens(6)


def test_embeddings(tmp_path: Path) -> None:
    (tmp_path / "e.vec").write_text("a 0.5 0.25\nb 1 2\n<unk> 9 9\n")
    e = text.embedding.CustomEmbedding(tmp_path / "e.vec")
    assert e.idx_to_token == ["<unk>", "a",
                              "b"] and e.get_vecs_by_tokens(["a", "zz"]).asnumpy().tolist() == [[0.5, 0.25], [9, 9]]
    assert e.get_vecs_by_tokens("B", lower_case_backup=True).asnumpy().tolist() == [1, 2]
    e.update_token_vectors("a", nd.array([7, 7]))
    both = text.embedding.CompositeEmbedding(text.vocab.Vocabulary({"a": 1}), [e, e])
    assert both.idx_to_vec.asnumpy().tolist() == [[9, 9, 9, 9], [7, 7, 7, 7]] and both.vec_len == 4
    with pytest.raises(ValueError, match="no token 'q'"):
        e.update_token_vectors("q", nd.array([7, 7]))
    (tmp_path / "bad.vec").write_text("a 1 2\nb 1\n")
    with pytest.raises(ValueError, match="bad.vec:2: 1 numbers"):
        text.embedding.CustomEmbedding(tmp_path / "bad.vec")
    with pytest.raises(KeyError, match="there is no file"):
        text.embedding.create("glove", pretrained_file_name="g.txt", embedding_root=tmp_path)


def test_a_composite_takes_the_vector_of_unknown_tokens_for_the_vocabularys_first(tmp_path: Path) -> None:
    """Even where an embedding knows a token of that name, as in MXNet."""
    (tmp_path / "e.vec").write_text("a 1 2\nb 3 4\n<unk> 9 9\n")
    e = text.embedding.CustomEmbedding(tmp_path / "e.vec")
    words = text.vocab.Vocabulary({"b": 2}, unknown_token="a")
    assert text.embedding.CompositeEmbedding(words, e).idx_to_vec.asnumpy().tolist() == [[9, 9], [3, 4]]


def test_a_registered_embedding_reads_a_file_of_its_folder(tmp_path: Path) -> None:
    @text.embedding.register
    class Own(text.embedding._TokenEmbedding):
        pretrained_file_name_sha1 = {"own.vec": "29b9a6511cf4b5aae293c44a9ec1365b74f2a2f8"}

        def __init__(self, name: str, embedding_root: Path) -> None:
            self._check_pretrained_file_names(name)
            super().__init__()
            self._load_embedding(self._get_pretrained_file(embedding_root, name), " ", nd.zeros)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "own.vec").write_text("hello 1 2\nworld 3 4\n")
    own = text.embedding.create("own", name="own.vec", embedding_root=tmp_path)
    assert own.idx_to_vec.asnumpy().tolist() == [[0, 0], [1, 2], [3, 4]] and own.token_to_idx["world"] == 2
    with pytest.raises(KeyError, match="known: own.vec"):
        text.embedding.create("own", name="other.vec", embedding_root=tmp_path)


def test_delimiters_see_the_text_before_it_becomes_lower_case() -> None:
    counted = text.utils.count_tokens_from_str("ISlifeISgoodLIFE", "IS", "LIFE", to_lower=True)
    assert counted == {"life": 1, "good": 1}
