"""Prompts that are not conversations: a text or token ids, without a chat template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RawPrompt:
    """A prompt that the model continues as it is, in the place of messages.

    The text of a special token in it, such as ``<|fim_prefix|>``, is that token: put no text of others into
    it that could forge one. Tools need messages.
    """

    content: str | Sequence[int]
    """Text, or token ids of the model's vocabulary."""
    add_special_tokens: bool = True
    """Whether a text begins with the tokens that the model's tokenizer puts before every text, such as a
    begin token."""
