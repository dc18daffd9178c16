"""Tokens to text, one token at a time: linear work, and never half a character."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Container, Sequence
from typing import Protocol

DecodeTokens = Callable[[Sequence[int]], str]
"""Text of a token sequence as the model's own detokenizer gives it."""

_MAX_WINDOW = 32
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class Detokenizer(Protocol):
    """Turns the tokens of one answer into text. Not thread-safe; one per sequence."""

    def push(self, token: int) -> str:
        """Take the next token; return the text that is complete now, perhaps none."""

    def close(self) -> str:
        """End the answer; return what was held back. Of an incomplete last character nothing is shown."""


class ByteDetokenizer:
    """For byte-level vocabularies (GPT-2, Qwen, Llama 3, …): each token stands for fixed bytes."""

    def __init__(self, token_bytes: Sequence[bytes]) -> None:
        """``token_bytes[id]`` are the bytes of token ``id``; empty for hidden tokens."""
        self._token_bytes = token_bytes
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def push(self, token: int) -> str:
        """Take the next token; a character's bytes are held until the last one has come."""
        return self._decode(self._token_bytes[token])

    def close(self) -> str:
        """End the answer; what is held can only be an incomplete character."""
        return ""


class WindowDetokenizer:
    """For vocabularies where a token's text depends on its neighbours (SentencePiece).

    Decodes a short window twice, without and with the new tokens, and emits the difference. The window
    moves on whenever its text ends in a whole character, so the work does not grow with the answer.
    """

    def __init__(self, decode: DecodeTokens, hidden: Container[int]) -> None:
        """``decode`` is the model's own detokenizer; ``hidden`` tokens have no text."""
        self._decode = decode
        self._hidden = hidden
        self._context: list[int] = []
        self._context_text = ""
        self._pending: list[int] = []

    def push(self, token: int) -> str:
        """Take the next token; text that ends in an incomplete character is held back."""
        if token in self._hidden:
            return ""
        self._pending.append(token)
        text = self._decode(self._context + self._pending)
        # What ends in a replacement character may be half of one. Bytes that stay invalid for ever are let
        # go in the end, so that the window stays short.
        if text.endswith(_REPLACEMENT) and len(self._pending) < _MAX_WINDOW:
            return ""
        return self._advance(text)

    def close(self) -> str:
        """End the answer; whole characters before an incomplete one are still shown."""
        if not self._pending:
            return ""
        return self._advance(self._decode(self._context + self._pending).rstrip(_REPLACEMENT))

    def _advance(self, text: str) -> str:
        delta = text[len(self._context_text) :]
        # A token that shows nothing by itself (a space at the start of a text) shows beside the next one.
        if delta:
            self._context, self._pending = self._pending, []
            self._context_text = self._decode(self._context)
        return delta
