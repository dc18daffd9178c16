"""A place in an answer that is held to a grammar."""

from __future__ import annotations

import copy
from typing import Final, Self

from ..structured_output.grammar_matcher import GrammarMatcher
from .token_texts import TokenTexts

MOST_BYTES: Final = 64
"""Bytes of a value, and of the text before it, that are known: the last ones."""


class GrammarPosition:
    """The state of the grammar, and the *value*: the text since the last place that the grammar forced."""

    def __init__(self, matcher: GrammarMatcher, texts: TokenTexts) -> None:
        """``matcher`` may be advanced by others: then call :meth:`note` for each token."""
        self.matcher = matcher
        self.forced = matcher.forced_bytes()
        """The text that must follow."""
        self.value = b""
        """The last bytes of the value."""
        self.value_tokens = 0
        """Number of tokens of the value, counting one that begins before it."""
        self.context = b""
        """The last bytes before the value; empty where the answer is not restricted."""
        self._text = b""
        self._texts = texts

    def fork(self) -> Self:
        """Return the same position, which advances on its own."""
        forked = copy.copy(self)
        forked.matcher = self.matcher.copy()
        return forked

    def behind(self, text: bytes) -> Self | None:
        """Return the position behind ``text``; None if the grammar does not allow it."""
        position = self.fork()
        for byte in text:
            token = self._texts.byte_token(byte)
            if token is None or not position.matcher.allows(token):
                return None
            position.advance(token)
        return position

    @property
    def forced_context(self) -> bytes:
        """What :attr:`context` will be behind the text that must follow."""
        return (self._text + self.forced)[-MOST_BYTES:] if self.forced else self.context

    def advance(self, token: int) -> None:
        """Go on by a token that the grammar allows."""
        self.matcher.accept_token(token)
        self.note(token)

    def note(self, token: int) -> None:
        """Go on by a token that the matcher has accepted already."""
        if not self.matcher.active:
            self.forced = self.value = self.context = self._text = b""
            self.value_tokens = 0
            return
        text = self._texts.token_bytes[token]
        if self.forced:
            # A token may begin with forced text and end in free text.
            self.context = (self._text + text[: len(self.forced)])[-MOST_BYTES:]
            self.value, self.value_tokens = text[len(self.forced) :], len(text) > len(self.forced)
        else:
            self.value = (self.value + text)[-MOST_BYTES:]
            self.value_tokens += 1
        self._text = (self._text + text)[-MOST_BYTES:]
        self.forced = self.matcher.forced_bytes()
