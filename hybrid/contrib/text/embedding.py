"""Vectors of tokens, from text files: a token and its numbers a line."""
from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Sequence

import numpy as np

from ... import nd
from ...buffers.array import NDArray
from ...base import data_dir
from ...base.errors import AttributeValueError, FileFormatError, warn_user
from . import published, vocab
from .vocab import UNKNOWN_IDX

_classes: dict[str, type] = {}


class TokenEmbedding(vocab.Vocabulary):
    """Base of embeddings: a vocabulary with a vector for each token."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self._vec_len, self._idx_to_vec = 0, None

    _vec_len: int
    _idx_to_vec: Any

    @property
    def vec_len(self) -> int:
        """Length of the vectors."""
        return self._vec_len

    @property
    def idx_to_vec(self) -> Any:
        """Vectors by number: (tokens, vec_len)."""
        return self._idx_to_vec

    def _load_embedding(self, pretrained_file_path: Any, elem_delim: str, init_unknown_vec: Callable[..., Any],
                        encoding: str = "utf8") -> None:
        """Read tokens and vectors from a file: for the constructors of classes that users register."""
        rows, length, unknown = _read(Path(pretrained_file_path), elem_delim, encoding, self.unknown_token)
        for token in rows:
            if token not in self._token_to_idx:
                self._append(token)
        self._vec_len = length
        table = np.empty((len(self), length), np.float32)
        table[:] = unknown if unknown is not None else init_unknown_vec(shape=(length,)).asnumpy()
        for token, values in rows.items():
            table[self._token_to_idx[token]] = values
        self._idx_to_vec = nd.array(table)

    @classmethod
    def _check_pretrained_file_names(cls, pretrained_file_name: str) -> None:
        """KeyError for a name that is not among the class's ``pretrained_file_name_sha1``."""
        known = getattr(cls, "pretrained_file_name_sha1", {})
        if pretrained_file_name not in known:
            raise KeyError(f"{cls.__name__} knows no file {pretrained_file_name!r}; known: {', '.join(known)}")

    @classmethod
    def _get_pretrained_file(cls, embedding_root: Any, pretrained_file_name: str) -> str:
        """Path of a file that the user has put into ``embedding_root/<class name in lower case>/``; KeyError where
        there is none."""
        folder = Path(embedding_root if embedding_root is not None else Path(data_dir()) / "embeddings").expanduser()
        path = folder / cls.__name__.lower() / pretrained_file_name
        if not path.is_file():
            raise KeyError(f"{cls.__name__}: there is no file {path}; download it and put it there (nothing is "
                           f"downloaded here)")
        return str(path)

    def _build_embedding_for_vocabulary(self, vocabulary: vocab.Vocabulary | None,
                                        sources: "Sequence[TokenEmbedding] | None" = None) -> None:
        """Only the tokens of a vocabulary, with the vectors of some embeddings side by side. A vocabulary's first
        token stands for unknown ones, so that it gets the vector that each embedding has for those."""
        if vocabulary is None:
            return
        if not isinstance(vocabulary, vocab.Vocabulary):
            raise AttributeValueError(f"vocabulary must be a text.vocab.Vocabulary, got {type(vocabulary).__name__}")
        tokens = list(vocabulary.idx_to_token)
        tables = []
        for source in [self] if sources is None else sources:
            table = source.get_vecs_by_tokens(tokens)
            table[UNKNOWN_IDX] = source.idx_to_vec[UNKNOWN_IDX]
            tables.append(table)
        self._token_to_idx, self._idx_to_token = dict(vocabulary.token_to_idx), tokens
        self._unknown_token, self._reserved_tokens = vocabulary.unknown_token, vocabulary.reserved_tokens
        self._idx_to_vec = nd.concat(*tables, dim=1)
        self._vec_len = self._idx_to_vec.shape[1]

    def get_vecs_by_tokens(self, tokens: Any, lower_case_backup: bool = False) -> Any:
        """The vector of a token, or (n, vec_len) for a list; that of unknown tokens for those that are not there.

        lower_case_backup: a token that is not there is looked for in lower case.
        """
        many = isinstance(tokens, list)

        def number(token: Any) -> int:
            if token in self._token_to_idx or not lower_case_backup:
                return self._token_to_idx.get(token, UNKNOWN_IDX)
            return self._token_to_idx.get(token.lower(), UNKNOWN_IDX)
        found = nd.array(self._idx_to_vec.asnumpy()[[number(t) for t in (tokens if many else [tokens])]])
        return found if many else found[0]

    def update_token_vectors(self, tokens: Any, new_vectors: NDArray) -> None:
        """New vectors for tokens that are there."""
        names = tokens if isinstance(tokens, list) else [tokens]
        values = new_vectors.asnumpy().reshape(-1,
                                               self._vec_len) if new_vectors.size == len(
                names) * self._vec_len else None
        if values is None:
            raise AttributeValueError(f"update_token_vectors: {len(names)} tokens need vectors of shape "
                                      f"({len(names)}, {self._vec_len}), got {new_vectors.shape}")
        for token in names:
            if token not in self._token_to_idx:
                raise AttributeValueError(f"update_token_vectors: there is no token {token!r}; for that of unknown "
                                          f"tokens name {self.unknown_token!r}")
        for token, value in zip(names, values):
            self._idx_to_vec[self._token_to_idx[token]] = nd.array(value)


_TokenEmbedding = TokenEmbedding             # the name by which MXNet's documentation derives classes to register


def _read(path: Path, delimiter: str, encoding: str, unknown_token: Any) -> tuple[dict[str, list[float]], int, Any]:
    """Vectors by token, their length, and that of unknown tokens if the file has one."""
    rows: dict[str, list[float]] = {}
    unknown, length = None, 0
    with path.open(encoding=encoding) as f:
        for number, line in enumerate(f, 1):
            token, *parts = line.rstrip().split(delimiter)
            if number == 1 and len(parts) == 1:                  # a first line with the numbers of tokens and of values
                continue
            try:
                values = [float(v) for v in parts]
            except ValueError:
                raise FileFormatError(f"{path}:{number}: a token and numbers were expected, got {line[:60]!r}") from None  # noqa: E501
            length = length or len(values)
            if len(values) != length or not values:
                raise FileFormatError(f"{path}:{number}: {len(values)} numbers, the lines before have {length} "
                                      f"(delimiter {delimiter!r})")
            if token == unknown_token and unknown is None:
                unknown = values
            elif token in rows:
                warn_user(f"{path}:{number}: the token {token!r} stands there twice; its first vector is kept")
            else:
                rows[token] = values
    if not length:
        raise FileFormatError(f"{path} holds no vectors")
    return rows, length, unknown


class CustomEmbedding(TokenEmbedding):
    """Vectors from a file of one's own; those of a vocabulary's tokens alone if one is given."""

    def __init__(self, pretrained_file_path: Any, elem_delim: str = " ", encoding: str = "utf8",
                 init_unknown_vec: Callable[..., Any] = nd.zeros,
                 vocabulary: vocab.Vocabulary | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self._load_embedding(pretrained_file_path, elem_delim, init_unknown_vec, encoding)
        self._build_embedding_for_vocabulary(vocabulary)


class CompositeEmbedding(TokenEmbedding):
    """For each token of a vocabulary its vectors in several embeddings, joined."""

    def __init__(self, vocabulary: vocab.Vocabulary, token_embeddings: Any):
        super().__init__()
        sources = token_embeddings if isinstance(token_embeddings, list) else [token_embeddings]
        if not all(isinstance(e, TokenEmbedding) for e in sources):
            raise AttributeValueError("CompositeEmbedding: token_embeddings must be an embedding or a list of them")
        self._build_embedding_for_vocabulary(vocabulary, sources)


def register(embedding_cls: type) -> type:
    """Decorator: ``create`` finds the class by its name in lower case."""
    _classes[embedding_cls.__name__.lower()] = embedding_cls
    return embedding_cls


def create(embedding_name: str, **kwargs: Any) -> Any:
    """An embedding by the name of its class."""
    if embedding_name.lower() not in _classes:
        raise AttributeValueError(f"no embedding {embedding_name!r} is registered; known: {', '.join(_classes)}")
    return _classes[embedding_name.lower()](**kwargs)


def get_pretrained_file_names(embedding_name: str | None = None) -> Any:
    """Names of the files that a registered embedding knows, or a dict of them by the names of the embeddings.

    KeyError where none is registered by that name.

    >>> text.embedding.get_pretrained_file_names('glove')[0]
    'glove.42B.300d.txt'
    """
    if embedding_name is None:
        return {name: list(getattr(cls, "pretrained_file_name_sha1", ())) for name, cls in _classes.items()
                if hasattr(cls, "pretrained_file_name_sha1")}
    if embedding_name not in _classes:
        raise KeyError(f"no embedding {embedding_name!r} is registered; known: {', '.join(_classes)}")
    return list(getattr(_classes[embedding_name], "pretrained_file_name_sha1", ()))


class _Published(TokenEmbedding):
    """Files that others publish: they are read from ``embedding_root/<name>/``."""

    def __init__(self, pretrained_file_name: str = "", embedding_root: Any = None,
                 init_unknown_vec: Callable[..., Any] = nd.zeros,
                 vocabulary: vocab.Vocabulary | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self._load_embedding(self._get_pretrained_file(embedding_root, pretrained_file_name), " ", init_unknown_vec)
        self._build_embedding_for_vocabulary(vocabulary)


@register
class GloVe(_Published):
    """GloVe's files (Pennington, Socher, Manning 2014; nlp.stanford.edu/projects/glove), as ``glove.6B.50d.txt``."""
    pretrained_file_name_sha1 = dict.fromkeys(published.GLOVE)


@register
class FastText(_Published):
    """fastText's files (Bojanowski et al. 2017; fasttext.cc), as ``wiki.simple.vec``."""
    pretrained_file_name_sha1 = dict.fromkeys(published.FASTTEXT)


__all__ = ["CompositeEmbedding", "CustomEmbedding", "FastText", "GloVe", "TokenEmbedding", "create",
           "get_pretrained_file_names", "register"]
