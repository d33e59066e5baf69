"""Counting words."""
from __future__ import annotations

import re
from collections import Counter


def count_tokens_from_str(source_str: str, token_delim: str = " ", seq_delim: str = "\n", to_lower: bool = False,
                          counter_to_update: "Counter[str] | None" = None) -> "Counter[str]":
    """How often each token is in a text. The delimiters are regular expressions, which see the text
    before to_lower changes it.

    >>> count_tokens_from_str("Life is great\\nlife is", to_lower=True)["life"]
    2
    """
    counter: Counter[str] = Counter() if counter_to_update is None else counter_to_update
    tokens = filter(None, re.split(f"{token_delim}|{seq_delim}", source_str))
    counter.update(t.lower() if to_lower else t for t in tokens)
    return counter


__all__ = ["count_tokens_from_str"]
