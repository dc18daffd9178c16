"""The texts of prompts: prose for a given model, random words for models without a meaning."""

from __future__ import annotations

import random
import re
from functools import cache
from typing import Final, Protocol

_WORDS: Final = (
    "mail note plan garden roof dentist friday invoice oslo weather lasagne recipe meeting train ticket "
    "hotel budget report draft birthday present school football practice doctor insurance car repair"
)
_REQUEST: Final = "\n\nSay in a few sentences what this text is about."
_PLAIN_WORD: Final = re.compile(r"[A-Za-z][a-z']*[,.;:]?")


class Prompts(Protocol):
    """A sequence of prompts; no two have a prefix in common that a cache could reuse."""

    def take(self, words: int) -> str:
        """Return the next prompt, of ``words`` words and perhaps a request behind them."""


class RandomWords:
    """Prompts of words drawn at random: for nano, which knows these, and for random weights."""

    def __init__(self, seed: int) -> None:
        """Equal seeds give equal sequences."""
        self._random = random.Random(seed)

    def take(self, words: int) -> str:
        """See :meth:`Prompts.take`."""
        return " ".join(self._random.choices(_WORDS.split(), k=words))


class Passages:
    """Passages of English prose, each with a request to say what it is about: for real models."""

    def __init__(self, seed: int) -> None:
        """Equal seeds give equal sequences."""
        self._random = random.Random(seed)

    def take(self, words: int) -> str:
        """See :meth:`Prompts.take`."""
        prose = _prose()
        begin = self._random.randrange(len(prose) - words)
        return " ".join(prose[begin : begin + words]) + _REQUEST


@cache
def _prose() -> tuple[str, ...]:
    """Return the words of Python's language reference, which every Python brings, without its examples."""
    from pydoc_data.topics import topics

    return tuple(word for text in topics.values() for word in text.split() if _PLAIN_WORD.fullmatch(word))
