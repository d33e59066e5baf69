"""WikiText's corpora: what MXNet 1.9.1 gave for these few lines, and clear errors."""
from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

import hybrid as mx
from hybrid.base.errors import AttributeValueError, FileFormatError

TEXT = {"train": " \n = Robert = \n \n the cat sat on the mat , the cat <unk> . \n a dog ran \n the cat sat again and "
                 "again \n",
        "valid": " a cat \n \n the bird sat on it . \n", "test": " a \n"}
NUMBERS = {"<unk>": 0, "<eos>": 1, "the": 2, "cat": 3, "=": 4, "again": 5, "sat": 6, ",": 7, ".": 8, "Robert": 9,
           "a": 10, "and": 11, "dog": 12, "mat": 13,
           "on": 14, "ran": 15}
TRAIN = [([4, 9, 4, 1, 2], [9, 4, 1, 2, 3]), ([3, 6, 14, 2, 13], [6, 14, 2, 13, 7]), ([7, 2, 3, 0, 8], [2, 3, 0, 8, 1]),
         ([1, 10, 12, 15, 1], [10, 12, 15, 1, 2]), ([2, 3, 6, 5, 11], [3, 6, 5, 11, 5])]
VALIDATION = [([10, 3, 1, 2], [3, 1, 2, 0]), ([0, 6, 14, 0], [6, 14, 0, 8])]


def samples(dataset: object) -> list[tuple[list[int], list[int]]]:
    return [(words.asnumpy().tolist(), following.asnumpy().tolist())
            for words, following in dataset]        # type: ignore[attr-defined]


@pytest.fixture(params=["files", "archive"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    for segment, text in TEXT.items():
        if request.param == "files":
            (tmp_path / f"wiki.{segment}.tokens").write_text(text)
        else:
            with zipfile.ZipFile(tmp_path / "wikitext-2-v1.zip", "a") as archive:
                archive.writestr(f"wikitext-2/wiki.{segment}.tokens", text)
    return str(tmp_path)


def test_as_mxnet(root: str) -> None:
    text = mx.gluon.contrib.data.text
    train = text.WikiText2(root, "train", seq_len=5)
    assert (samples(train) == TRAIN and train[0][0].dtype.__name__ == "int32"
            and train.vocabulary.token_to_idx == NUMBERS)
    assert train.frequencies["the"] == 4 and "<eos>" not in train.frequencies
    assert samples(text.WikiText2(root, "validation", vocab=train.vocabulary, seq_len=4)) == VALIDATION
    batches = list(mx.gluon.data.DataLoader(train, 2, last_batch="discard"))
    assert [b[0].shape for b in batches] == [(2, 5), (2, 5)]


def test_clear_errors(tmp_path: Path) -> None:
    wiki = mx.gluon.contrib.data.text.WikiText2
    with pytest.raises(AttributeValueError, match="train, validation, test, got 'valid'"):
        wiki(str(tmp_path), "valid")
    with pytest.raises(FileNotFoundError, match="Nothing is downloaded"):
        wiki(str(tmp_path))
    (tmp_path / "wiki.test.tokens").write_text(TEXT["test"])
    with pytest.raises(FileFormatError, match="has 2 words"):
        wiki(str(tmp_path), "test", seq_len=5)
    (tmp_path / "wikitext-2-v1.zip").write_bytes(b"no archive")
    with pytest.raises(FileFormatError, match=r"wiki\.train\.tokens cannot be read"):
        wiki(str(tmp_path))
    (tmp_path / "wiki.test.tokens").write_text("a b c d e\n")
    with pytest.raises(IndexError, match="there are 2 samples, got number 2"):
        wiki(str(tmp_path), "test", seq_len=2)[2]
