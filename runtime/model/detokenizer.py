"""Incremental detokenizers: tokens to text, one at a time, in linear time and without partial characters."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Container, Sequence
from typing import TypeAlias

_MAX_WINDOW = 32
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class ByteDetokenizer:
    """For byte-level vocabularies (GPT-2, Qwen, Llama 3, …), in which each token stands for fixed bytes."""

    def __init__(self, token_bytes: Sequence[bytes]) -> None:
        """``token_bytes[id]`` are the bytes of token ``id``, empty for hidden tokens."""
        self._token_bytes = token_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._incomplete = False

    def push(self, token: int) -> str:
        """Add the next token; return the text that is now complete, possibly empty."""
        token_bytes = self._token_bytes[token]
        if token_bytes.isascii() and not self._incomplete:
            return token_bytes.decode("ascii")
        text = self._decoder.decode(token_bytes)
        self._incomplete = bool(self._decoder.getstate()[0])
        return text

    def close(self) -> str:
        """End the answer. Only an incomplete character can have been held back."""
        return ""


class WindowDetokenizer:
    """For vocabularies in which the text of a token depends on its neighbours (SentencePiece).

    Decodes a short window twice, without and with the new tokens, and returns the difference. The window
    moves forward whenever its text ends in a complete character, so that its length stays bounded.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str], hidden: Container[int]) -> None:
        """``decode`` is the model's own detokenizer; ``hidden`` tokens have no text."""
        self._decode = decode
        self._hidden = hidden
        self._context: list[int] = []
        self._context_text = ""
        self._pending: list[int] = []

    def push(self, token: int) -> str:
        """Add the next token; return the text that is now complete, possibly empty."""
        if token in self._hidden:
            return ""
        self._pending.append(token)
        text = self._decode(self._context + self._pending)
        # A replacement character at the end may be an incomplete character. Bytes that stay invalid are
        # returned once the window is full.
        if text.endswith(_REPLACEMENT) and len(self._pending) < _MAX_WINDOW:
            return ""
        return self._advance(text)

    def close(self) -> str:
        """End the answer; return the complete characters in front of an incomplete one."""
        if not self._pending:
            return ""
        return self._advance(self._decode(self._context + self._pending).rstrip(_REPLACEMENT))

    def _advance(self, text: str) -> str:
        delta = text[len(self._context_text) :]
        # A token without text of its own (a space at the start of a text) gets it together with the next one.
        if delta:
            self._context, self._pending = self._pending, []
            self._context_text = self._decode(self._context)
        return delta


Detokenizer: TypeAlias = ByteDetokenizer | WindowDetokenizer
"""Turns the tokens of one answer into text. Not thread-safe; one per sequence."""
