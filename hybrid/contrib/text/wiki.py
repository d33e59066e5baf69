"""``gluon.contrib.data.text``: the WikiText corpora as samples for language models, read from the files their makers
publish."""
from __future__ import annotations

import os
import zipfile
from collections import Counter

import numpy as np

from ...buffers.array import NDArray
from ...base.errors import AttributeValueError, FileFormatError
from ...gluon.data.dataset import Dataset
from ...gluon.data.vision.datasets import default_root
from ...nd import array
from .vocab import Vocabulary

END = "<eos>"
_SEGMENTS = {"train": "train", "validation": "valid", "test": "test"}


class WikiText2(Dataset):
    """WikiText-2: samples (words, next words), int32 numbers (seq_len,), one behind the other, whatever is left at the
    end dropped.

    root: the folder of ``wiki.train.tokens`` and its like, or of ``wikitext-2-v1.zip``; nothing is downloaded. segment:
    train, validation or test. vocab: a Vocabulary with "<eos>", which ends every line; by default that of the segment's
    words. Merity and others, "Pointer sentinel mixture models", ICLR 2017.

    >>> WikiText2("corpora", "validation", seq_len=35)[0][0].shape                      # doctest: +SKIP
    (35,)
    """

    archive, name = "wikitext-2-v1.zip", "wikitext-2"

    def __init__(self, root: str | None = None, segment: str = "train", vocab: Vocabulary | None = None,
                 seq_len: int = 35):
        if segment not in _SEGMENTS:
            raise AttributeValueError(f"{type(self).__name__}: segment must be one of {', '.join(_SEGMENTS)}, got "
                                      f"{segment!r}")
        if seq_len < 1:
            raise AttributeValueError(f"{type(self).__name__}: seq_len must be positive, got {seq_len}")
        self._root = os.path.expanduser(os.fspath(root) if root is not None else default_root(self.name))
        lines = [words for line in self._text(f"wiki.{_SEGMENTS[segment]}.tokens").splitlines()
                 if (words := line.split())]
        self._counter = Counter(word for words in lines for word in words)
        self._vocab = vocab if vocab is not None else Vocabulary(self._counter, reserved_tokens=[END])
        numbers = self._vocab.to_indices([word for words in lines for word in (*words, END)])
        count = (len(numbers) - 1) // seq_len
        if count < 1:
            raise FileFormatError(f"{self._root}: the segment {segment} has {len(numbers)} words, a sample of "
                                  f"{seq_len} and the next word is the least")
        self._numbers = np.array(numbers[:count * seq_len + 1], np.int32)
        self._seq_len = seq_len

    def _text(self, name: str) -> str:
        plain, packed = os.path.join(self._root, name), os.path.join(self._root, self.archive)
        try:
            if os.path.exists(plain):
                with open(plain, encoding="utf-8") as file:
                    return file.read()
            if os.path.exists(packed):
                with zipfile.ZipFile(packed) as archive:
                    return archive.read(f"{self.name}/{name}").decode("utf-8")
        except (KeyError, UnicodeDecodeError, zipfile.BadZipFile) as err:
            raise FileFormatError(f"{self._root}: {name} cannot be read: {err}") from None
        raise FileNotFoundError(f"{type(self).__name__}: {name} or {self.archive} is not in {self._root}. Nothing is "
                                f"downloaded; fetch the corpus and put it "
                                f"there, or give the folder where it is: {type(self).__name__}(root=...)")

    @property
    def vocabulary(self) -> Vocabulary:
        """The numbers of the words."""
        return self._vocab

    @property
    def frequencies(self) -> Counter[str]:
        """How often each word of the segment comes."""
        return self._counter

    def __getitem__(self, idx: int) -> tuple[NDArray, NDArray]:
        if not -len(self) <= idx < len(self):
            raise IndexError(f"there are {len(self)} samples, got number {idx}")
        at = idx % len(self) * self._seq_len
        words, following = (self._numbers[k:k + self._seq_len] for k in (at, at + 1))
        return array(words, dtype="int32"), array(following, dtype="int32")

    def __len__(self) -> int:
        return len(self._numbers) // self._seq_len


class WikiText103(WikiText2):
    """WikiText-103, as ``WikiText2``: the same words, fifty times as many."""

    archive, name = "wikitext-103-v1.zip", "wikitext-103"


__all__ = ["WikiText103", "WikiText2"]
