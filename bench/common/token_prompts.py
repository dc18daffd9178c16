"""Prompts of exact lengths: the tokens of a model's texts."""

from __future__ import annotations

from .bench_model import BenchModel
from .prompts import Prompts


class TokenPrompts:
    """Prompts of one model as token ids, without its chat template; no two begin alike."""

    def __init__(self, model: BenchModel, seed: int) -> None:
        """Load the tokenizer of ``model``. Equal seeds give equal sequences."""
        import openvino_genai

        from agentrt.runtime.model.openvino_core import load_on_own_thread

        self._tokenizer = load_on_own_thread(lambda: openvino_genai.Tokenizer(str(model.path)))
        self._prompts: Prompts = model.prompts(seed)

    def take(self, tokens: int) -> list[int]:
        """Return the next prompt, of ``tokens`` token ids."""
        import numpy as np

        text = self._prompts.take(tokens)  # a word has at least one token
        encoded = self._tokenizer.encode(text, add_special_tokens=False).input_ids
        return [int(token) for token in np.asarray(encoded.data)[0, :tokens]]
