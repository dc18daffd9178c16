"""How much of a prompt follows from its system messages and tools alone."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..model.tokenizer import Tokenizer

_PROBES: Final = ("0", "x")
"""Texts without a common beginning, in the place of what the user says."""
_REMEMBERED: Final = 64


class SharedPrefix:
    """Counts the tokens that apps with the same system messages and tools have in common. Thread-safe."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """``tokenizer`` renders the prompts."""
        self._tokenizer = tokenizer
        self._probes = functools.lru_cache(_REMEMBERED)(self._render_probes)

    def count(
        self,
        prompt: Sequence[int],
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
    ) -> int:
        """Return the number of tokens at the beginning of ``prompt`` that no other message has an effect on.

        ``prompt`` is rendered from the checked ``messages`` and ``tools``.
        """
        public = []
        for message in messages:
            if message["role"] != "system":
                break
            public.append(message)
        if not public and not tools:
            return 0
        return min(_common(prompt, probe) for probe in self._probes(json.dumps([public, tools])))

    def _render_probes(self, public: str) -> list[list[int]]:
        messages, tools = json.loads(public)
        prompts = [[*messages, {"role": "user", "content": text}] for text in _PROBES]
        return [self._tokenizer.encode(self._tokenizer.render(prompt, tools)) for prompt in prompts]


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(one), len(other)))
