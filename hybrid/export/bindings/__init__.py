"""Exported models for other languages: thin code over the model's C functions, with an example each.

``export_c(net, "folder", x, bindings=("java", "r"))`` writes them beside the C files; docs/howto/other-languages.md
says how they are used.
"""
from __future__ import annotations

from pathlib import Path
from typing import Sequence

from ...base.atomic import write_bytes
from ...base.errors import AttributeValueError, HybridError
from ..source import filled
from ..specialized import Specialized
from .interface import Slot, slots
from .languages import LANGUAGES, TAKEN

__all__ = ["LANGUAGES", "checked", "write"]


def checked(wanted: Sequence[str], name: str, training: bool = False) -> tuple[str, ...]:
    """The languages that are asked for and those that they are written upon, each once."""
    if isinstance(wanted, str):
        raise AttributeValueError(f"bindings is a tuple of languages, such as bindings=({wanted.split(',')[0]!r},); "
                                  f"got {wanted!r}")
    for language in wanted:
        if language not in LANGUAGES:
            raise AttributeValueError(f"there are bindings for {', '.join(LANGUAGES)}, not for {language!r}")
    if wanted and training:
        raise HybridError("bindings are of networks that predict, and this function makes training steps: export it "
                          "without bindings (C and the C++ header NAME.hpp have its steps), or export the network")
    if wanted and name in TAKEN:
        raise AttributeValueError(f"{name!r} is a word of one of the languages and cannot be the name of a model with "
                                  f"bindings: give name=\"{name}_net\"")
    every = dict.fromkeys(n for language in wanted for n in (*LANGUAGES[language].needs, language))
    return tuple(every)


def _repeated(given: list[Slot], results: list[Slot], each: dict[str, tuple[str, str, str]]) -> dict[str, str]:
    of = {"inputs": given, "outputs": results, "every": [*given, *results]}
    return {word: between.join(text.format(**s.words()) for s in of[which])
            for word, (which, text, between) in each.items()}


def _words(name: str, what: Specialized, language: str) -> dict[str, str]:
    """What the templates of a language say of a model."""
    binding = LANGUAGES[language]
    given, results = slots(what, binding.types)
    words = dict(binding.one if len(results) == 1 else binding.several)
    words.update(_repeated(given, results, binding.each))
    return {"Name": name.capitalize(), "COUNT_IN": str(len(given)), "COUNT_OUT": str(len(results)),
            **binding.more(name),
            **words}


def write(folder: Path, name: str, what: Specialized, flags: str, languages: Sequence[str]) -> list[Path]:
    """Write the files of bindings, each language in a folder of its own; their paths."""
    if not languages:
        return []
    contents = {"library.mk": filled("bindings/library.mk", name, FLAGS=flags)}
    for language in languages:
        words = _words(name, what, language)
        for file, template in LANGUAGES[language].files.items():
            at = file.replace("NAME", name).replace("Name", name.capitalize())
            # twice: a word's text may have words in it
            text = filled(f"bindings/{template}", name, **words)
            contents[f"{language}/{at}"] = _again(text, words).replace("@name@", name).replace("@NAME@", name.upper())
    for file, content in contents.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        write_bytes(folder / file, content.encode())
    return [folder / file for file in contents]


def _again(text: str, words: dict[str, str]) -> str:
    for key, value in words.items():
        text = text.replace(f"@{key}@", value)
    return text
