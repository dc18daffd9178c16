"""Texts of about a number of tokens, as requests to every side of the scheduler bench."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final, Protocol

from ..common.bench_model import BenchModel
from ..common.prompts import Prompts

_FEW_WORDS: Final = 1
_MANY_WORDS: Final = 120
_BYTES: Final = range(3, 259)
"""Tokens of the bench's random model: its bytes, which any tokenizer of whole texts would give as well."""


class Texts:
    """Texts of about a number of tokens, all different, so that no prefix cache helps."""

    def __init__(self, model: BenchModel, count: Callable[[str], int]) -> None:
        """``count`` returns the tokens of a text, without a chat template."""
        few, many = (count(model.prompts(1).take(words)) for words in (_FEW_WORDS, _MANY_WORDS))
        self._fewest = few
        self._tokens_a_word = max(0.5, (many - few) / (_MANY_WORDS - _FEW_WORDS))
        self._prompts: Prompts = model.prompts(3)

    def take(self, tokens: int) -> str:
        """Return the next text."""
        more = max(0, round((tokens - self._fewest) / self._tokens_a_word))
        return self._prompts.take(_FEW_WORDS + more)


def load_tokenizer(model: BenchModel) -> Any:
    """Return the ``openvino_genai.Tokenizer`` of ``model``."""
    import openvino_genai

    from agentrt.runtime.model.openvino_core import load_on_own_thread

    return load_on_own_thread(lambda: openvino_genai.Tokenizer(str(model.path)))


def count_tokens(tokenizer: Any, text: str) -> int:
    """Return the tokens of ``text`` by an ``openvino_genai.Tokenizer``, without any added at its ends."""
    return int(tokenizer.encode(text, add_special_tokens=False).input_ids.shape[1])


class PromptFields(Protocol):
    """Prompts as fields of requests to an OpenAI-compatible server."""

    path: str
    """Where they are posted to."""

    def take(self, tokens: int) -> dict[str, Any]:
        """Return the fields that hold the next prompt, of about ``tokens`` tokens."""


class ChatFields:
    """Texts in messages, which the server renders in the model's chat template."""

    path = "/v1/chat/completions"

    def __init__(self, model: BenchModel) -> None:
        """Load the tokenizer of ``model``."""
        tokenizer = load_tokenizer(model)
        self._texts = Texts(model, lambda text: count_tokens(tokenizer, text))

    def take(self, tokens: int) -> dict[str, Any]:
        """See :meth:`PromptFields.take`."""
        return {"messages": [{"role": "user", "content": self._texts.take(tokens)}]}


class RandomByteFields:
    """Token ids drawn at random, for the bench's random model: exactly as many as are asked for."""

    path = "/v1/completions"

    def __init__(self) -> None:
        """All have the same sequence."""
        self._random = random.Random(3)

    def take(self, tokens: int) -> dict[str, Any]:
        """See :meth:`PromptFields.take`."""
        return {"prompt": self._random.choices(_BYTES, k=tokens)}
