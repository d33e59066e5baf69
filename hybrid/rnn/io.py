"""Sentences for recurrent networks: words as numbers, and an iterator whose batches have sentences of about the same
length."""
from __future__ import annotations

import logging
import random
from bisect import bisect_left
from typing import Any, Sequence

import numpy as np

from ..mxnet.data_iter import DataBatch, DataDesc, DataIter
from ..base.errors import AttributeValueError
from ..nd import array


def encode_sentences(sentences: Sequence[Sequence[Any]], vocab: dict[Any, int] | None = None, invalid_label: int = -1,
                     invalid_key: Any = "\n",
                     start_label: int = 0, unknown_token: Any = None) -> tuple[list[list[int]], dict[Any, int]]:
    """Words as numbers.

    vocab: numbers of known words; without one, or with unknown_token, words get numbers as they come, from start_label
    on. invalid_label: a number that no word gets, under the name invalid_key. unknown_token: what stands for words that
    are not in a given vocab.

    >>> encode_sentences([["a", "b"], ["b", "c"]])
    ([[0, 1], [1, 2]], {'\\n': -1, 'a': 0, 'b': 1, 'c': 2})
    """
    grows = vocab is None
    vocab = {invalid_key: invalid_label} if vocab is None else vocab
    number = start_label
    out = []
    for sentence in sentences:
        coded = []
        for word in sentence:
            if word not in vocab:
                if not grows and unknown_token is None:
                    raise AssertionError(f"word {word!r} is not in the vocabulary; give unknown_token, or no vocab")
                word = word if unknown_token is None else unknown_token
            if word not in vocab:
                number += number == invalid_label
                vocab[word] = number
                number += 1
            coded.append(vocab[word])
        out.append(coded)
    return out, vocab


class BucketSentenceIter(DataIter):
    """Batches of sentences for a language model, by length: the label at each step is the next word.

    sentences: lists of numbers. buckets: lengths of batches; a sentence goes into the shortest that holds it, longer
    ones are left out. By default every length of which there are enough sentences for a batch. invalid_label: what
    fills up. layout: ``NT`` or ``TN``.
    """

    def __init__(self, sentences: Sequence[Sequence[int]], batch_size: int, buckets: Sequence[int] | None = None,
                 invalid_label: int = -1,
                 data_name: str = "data", label_name: str = "softmax_label", dtype: Any = "float32",
                 layout: str = "NT"):
        super().__init__(batch_size)
        if layout not in ("NT", "TN"):
            raise ValueError(f"BucketSentenceIter: layout must be NT (batch first) or TN (time first), got {layout!r}")
        if not buckets:
            buckets = [n for n, count in enumerate(np.bincount([len(s) for s in sentences])) if count >= batch_size]
        if not buckets:
            raise AttributeValueError(f"BucketSentenceIter: no length has {batch_size} sentences; give buckets, or a "
                                      f"smaller batch_size")
        self.buckets = sorted(buckets)
        self.invalid_label, self.data_name, self.label_name, self.dtype, self.layout = (invalid_label, data_name,
                label_name, dtype, layout)
        self.major_axis = layout.find("N")
        self.default_bucket_key = self.buckets[-1]
        self.data = self._filled(sentences)
        self.nddata: list[Any] = []
        self.ndlabel: list[Any] = []
        self.provide_data = [self._desc(data_name, self.default_bucket_key)]            # type: ignore[misc]
        self.provide_label = [self._desc(label_name, self.default_bucket_key)]          # type: ignore[misc]
        self.idx = [(i, j) for i, rows in enumerate(self.data)
                    for j in range(0, len(rows) - batch_size + 1, batch_size)]
        self.curr_idx = 0
        self.reset()

    def _filled(self, sentences: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """The sentences of each bucket, filled up to its length."""
        rows: list[list[np.ndarray]] = [[] for _ in self.buckets]
        left_out = 0
        for sentence in sentences:
            k = bisect_left(self.buckets, len(sentence))
            if k == len(self.buckets):
                left_out += 1
                continue
            row = np.full((self.buckets[k],), self.invalid_label, dtype=self.dtype)
            row[:len(sentence)] = sentence
            rows[k].append(row)
        if left_out:
            logging.warning("BucketSentenceIter: %d sentences are longer than the largest bucket (%d) and left out",
                            left_out, self.buckets[-1])
        return [np.asarray(r, dtype=self.dtype).reshape(len(r), n) for r, n in zip(rows, self.buckets)]

    def _desc(self, name: str, length: int) -> DataDesc:
        shape = (self.batch_size, length) if self.major_axis == 0 else (length, self.batch_size)
        return DataDesc(name, shape, layout=self.layout)

    def reset(self) -> None:
        """Begin again, in a new order."""
        self.curr_idx = 0
        random.shuffle(self.idx)
        self.nddata, self.ndlabel = [], []
        for rows in self.data:
            np.random.shuffle(rows)
            label = np.full_like(rows, self.invalid_label)
            label[:, :-1] = rows[:, 1:]
            self.nddata.append(array(rows, dtype=self.dtype))
            self.ndlabel.append(array(label, dtype=self.dtype))

    def next(self) -> DataBatch:
        """The next batch, whose ``bucket_key`` is its length."""
        if self.curr_idx == len(self.idx):
            raise StopIteration
        i, j = self.idx[self.curr_idx]
        self.curr_idx += 1
        data, label = (kept[i][j:j + self.batch_size] for kept in (self.nddata, self.ndlabel))
        if self.major_axis == 1:
            data, label = data.T, label.T
        length = self.buckets[i]
        return DataBatch([data], [label], pad=0, bucket_key=length, provide_data=[self._desc(self.data_name, length)],
                         provide_label=[self._desc(self.label_name, length)])


__all__ = ["BucketSentenceIter", "encode_sentences"]
