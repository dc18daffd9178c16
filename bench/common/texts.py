"""Prompts of about a number of tokens, or of exactly as many, for one model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .bench_model import BenchModel

_FEW_WORDS, _MANY_WORDS = 1, 120


class Texts:
    """Prompts of one model of about a number of tokens, all different."""

    def __init__(self, model: BenchModel, seed: int, count: Callable[[str], int] | None = None) -> None:
        """``count`` returns the tokens of a text; without it the tokenizer of ``model`` is loaded."""
        count = count or TokenPrompts(model, seed).count
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
        """Return the number of tokens of ``text``."""
        return int(self._encoded(text).shape[1])

    def _encoded(self, text: str) -> Any:
        return self.tokenizer.encode(text, add_special_tokens=False).input_ids
