"""Vocabulary: tokens and their numbers."""
from __future__ import annotations

from typing import Any, Mapping

from ...base.errors import AttributeValueError

UNKNOWN_IDX = 0


class Vocabulary:
    """Numbers for tokens: 0 for unknown ones, then the reserved tokens, then those of a counter, most frequent first.

    most_freq_count: no more tokens of the counter than this; min_freq: none that are rarer.

    >>> v = Vocabulary({"a": 1, "b": 2}); v.to_indices(["b", "a", "c"])
    [1, 2, 0]
    """

    def __init__(self, counter: Mapping[str, int] | None = None, most_freq_count: int | None = None, min_freq: int = 1,
                 unknown_token: Any = "<unk>",
                 reserved_tokens: Any = None):
        if min_freq < 1:
            raise AttributeValueError(f"Vocabulary: min_freq must be at least 1, got {min_freq}")
        if reserved_tokens is not None and (unknown_token in reserved_tokens
                                            or len(set(reserved_tokens)) != len(reserved_tokens)):
            raise AttributeValueError(f"Vocabulary: reserved_tokens must be different from each other and from "
                                      f"unknown_token {unknown_token!r}, got {reserved_tokens!r}")
        self._unknown_token = unknown_token
        self._reserved_tokens = list(reserved_tokens) if reserved_tokens is not None else None
        self._idx_to_token: list[Any] = [unknown_token, *(self._reserved_tokens or [])]
        self._token_to_idx = {t: i for i, t in enumerate(self._idx_to_token)}
        if counter is not None:
            self._add(counter, most_freq_count, min_freq)

    def _add(self, counter: Mapping[str, int], most: int | None, least: int) -> None:
        rows = sorted(sorted(counter.items(), key=lambda row: row[0]), key=lambda row: row[1], reverse=True)
        limit = len(self._idx_to_token) + (len(rows) if most is None else most)
        for token, count in rows:
            if count < least or len(self._idx_to_token) == limit:
                break
            if token not in self._token_to_idx:
                self._append(token)

    def _append(self, token: Any) -> None:
        self._token_to_idx[token] = len(self._idx_to_token)
        self._idx_to_token.append(token)

    def __len__(self) -> int:
        return len(self._idx_to_token)

    @property
    def token_to_idx(self) -> dict[Any, int]:
        """Numbers by token."""
        return self._token_to_idx

    @property
    def idx_to_token(self) -> list[Any]:
        """Tokens by number."""
        return self._idx_to_token

    @property
    def unknown_token(self) -> Any:
        """The token that stands for all unknown ones."""
        return self._unknown_token

    @property
    def reserved_tokens(self) -> list[Any] | None:
        """Tokens that are always there."""
        return self._reserved_tokens

    def to_indices(self, tokens: Any) -> Any:
        """The number of a token, or the list of those of several; 0 for unknown ones."""
        if isinstance(tokens, list):
            return [self._token_to_idx.get(t, UNKNOWN_IDX) for t in tokens]
        return self._token_to_idx.get(tokens, UNKNOWN_IDX)

    def to_tokens(self, indices: Any) -> Any:
        """The token of a number, or the list of those of several. AttributeValueError (a ValueError) for other
        numbers."""
        many = isinstance(indices, list)
        for i in indices if many else [indices]:
            if not isinstance(i, int) or not 0 <= i < len(self):
                raise AttributeValueError(f"Vocabulary: {i!r} is no number of a token; they go from 0 to "
                                          f"{len(self) - 1}")
        return [self._idx_to_token[i] for i in indices] if many else self._idx_to_token[indices]


__all__ = ["UNKNOWN_IDX", "Vocabulary"]
