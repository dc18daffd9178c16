"""The texts of a model's tokens, for drafts that are made from text."""

from __future__ import annotations

from collections.abc import Callable, Sequence


class TokenTexts:
    """Text to tokens and back, of a vocabulary in which the texts of tokens concatenate. Thread-safe."""

    def __init__(self, token_bytes: Sequence[bytes], encode: Callable[[str], Sequence[int]]) -> None:
        """``token_bytes`` has the text of each token, empty for special ones; ``encode`` tokenizes a text."""
        self.token_bytes = token_bytes
        self._encode = encode
        self._bytes = {text[0]: token for token, text in enumerate(token_bytes) if len(text) == 1}

    def of(self, tokens: Sequence[int]) -> bytes:
        """Return the text of some tokens."""
        return b"".join([self.token_bytes[token] for token in tokens])

    def byte_token(self, byte: int) -> int | None:
        """Return the token whose whole text is one byte; None if there is none."""
        return self._bytes.get(byte)

    def tokenize(self, text: bytes) -> tuple[int, ...]:
        """Return the tokens of ``text`` as the model writes it, without a partial character at its end.

        Empty if the tokenizer changes the text, as some do with the first space.
        """
        whole = text.decode("utf-8", "ignore")
        tokens = tuple(self._encode(whole)) if whole else ()
        return tokens if self.of(tokens) == whole.encode() else ()
