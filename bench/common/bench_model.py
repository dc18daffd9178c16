"""The models that benches measure, those that the user names and those of the bench itself, and prompts for
them: prose for a given model, random words for models without a meaning."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol

_WORDS: Final = (
    "mail note plan garden roof dentist friday invoice oslo weather lasagne recipe meeting train ticket "
    "hotel budget report draft birthday present school football practice doctor insurance car repair"
)
_REQUEST: Final = "\n\nSay in a few sentences what this text is about."
_PLAIN_WORD: Final = re.compile(r"[A-Za-z][a-z']*[,.;:]?")
_FEW_WORDS, _MANY_WORDS = 1, 120


@dataclass(frozen=True, slots=True)
class BenchModel:
    """An OpenVINO model directory; all sides of a comparison open the same one."""

    title: str
    """The model's name in tables."""
    path: Path
    context_length: int
    """The most tokens of prompt and answer together."""
    prompts: Callable[[int], Prompts]
    """Returns the prompts of a seed."""
    gguf: Path | None = None
    """The GGUF file that the directory was converted from, if it was."""

    @property
    def opened(self) -> str:
        """What agentrt opens, as its users do: the GGUF file, if there is one. Others read :attr:`path`."""
        return str(self.gguf or self.path)

    @classmethod
    def of(cls, title: str, name: str | Path, prompts: Callable[[int], Prompts]) -> BenchModel:
        """Return the model of this name, which is converted first if it is a GGUF file.

        Raises:
            ModelNotFoundError, ModelFormatError: the model cannot be opened.
        """
        from agentrt.runtime.model.directory import find_model, open_model_directory

        found = find_model(str(name))
        directory = open_model_directory(name)
        gguf = found if found.is_file() else None
        return cls(title, directory.path, directory.context_length, prompts, gguf)


def title_of(name: str) -> str:
    """Return the name in tables of a model that the user names so: a path without its folders."""
    return Path(name).name


def open_given_models(names: Iterable[str], progress: Callable[[str], None]) -> dict[str, BenchModel]:
    """Return the models that the user names, by name.

    A name is a GGUF file, an OpenVINO directory, an embedded model, or one that was pulled.

    Raises:
        ModelNotFoundError, ModelFormatError: a model cannot be opened.
    """
    from agentrt.runtime.model.directory import find_model

    given: dict[str, BenchModel] = {}
    # A file may be converted first, which takes seconds: all names are looked up before that.
    for name in sorted(set(names), key=lambda name: find_model(name).is_file()):
        progress(f"opening {name}")
        embedded = name in ("nano", "nano-draft")  # they know few words
        given[name] = BenchModel.of(title_of(name), name, RandomWords if embedded else Passages)
    return given


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
        return " ".join(self._random.choices(_WORDS.split(), k=words))


class Passages:
    """Passages of English prose, each with a request to say what it is about: for real models."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def take(self, words: int) -> str:
        prose = _prose()
        begin = self._random.randrange(len(prose) - words)
        return " ".join(prose[begin : begin + words]) + _REQUEST


@cache
def _prose() -> tuple[str, ...]:
    """Return the words of Python's language reference, which every Python brings, without its examples."""
    from pydoc_data.topics import topics

    return tuple(word for text in topics.values() for word in text.split() if _PLAIN_WORD.fullmatch(word))


class Texts:
    """Prompts of one model of about a number of tokens, all different."""

    def __init__(self, model: BenchModel, seed: int) -> None:
        """Load the tokenizer of ``model``. Equal seeds give equal sequences."""
        count = TokenPrompts(model, seed).count
        few, many = (count(model.prompts(1).take(words)) for words in (_FEW_WORDS, _MANY_WORDS))
        self._fewest = few
        self._tokens_a_word = max(0.5, (many - few) / (_MANY_WORDS - _FEW_WORDS))
        self._prompts = model.prompts(seed)

    def take(self, tokens: int) -> str:
        """Return the next text, of about ``tokens`` tokens without a chat template."""
        more = max(0, round((tokens - self._fewest) / self._tokens_a_word))
        return self._prompts.take(_FEW_WORDS + more)


class TokenPrompts:
    """Prompts of one model as token ids, without its chat template; no two begin alike."""

    def __init__(self, model: BenchModel, seed: int) -> None:
        """Load the tokenizer of ``model``. Equal seeds give equal sequences."""
        import openvino_genai

        from agentrt.runtime.model.openvino_core import load_on_own_thread

        self.tokenizer = load_on_own_thread(lambda: openvino_genai.Tokenizer(str(model.path)))
        """The ``openvino_genai.Tokenizer``."""
        self._prompts = model.prompts(seed)

    def take(self, tokens: int) -> list[int]:
        """Return the next prompt, of ``tokens`` token ids."""
        import numpy as np

        text = self._prompts.take(tokens)  # a word has at least one token
        return [int(token) for token in np.asarray(self._encoded(text).data)[0, :tokens]]

    def count(self, text: str) -> int:
        return int(self._encoded(text).shape[1])

    def _encoded(self, text: str) -> Any:
        return self.tokenizer.encode(text, add_special_tokens=False).input_ids
