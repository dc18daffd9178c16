"""The text of one answer: whole characters, cut off before the first stop text."""

from __future__ import annotations

from collections.abc import Sequence

from ..model.detokenizer import Detokenizer


class AnswerText:
    """Detokenizes one answer and finds stop texts. Not thread-safe; one per sequence."""

    def __init__(self, detokenizer: Detokenizer, stop: Sequence[str]) -> None:
        """``stop`` texts end the answer before the first of them."""
        self._detokenizer = detokenizer
        self._stop = tuple(stop)
        self._longest = max(map(len, self._stop), default=0)
        self._held = ""
        self._pieces: list[str] = []
        self.stopped = False
        """Whether a stop text has occurred; later tokens are ignored."""

    @property
    def text(self) -> str:
        """All text released so far."""
        return "".join(self._pieces)

    def push(self, token: int) -> str:
        """Take the next token; return the text that no later token can turn into a stop text."""
        return self._release(self._detokenizer.push(token), at_end=False)

    def close(self) -> str:
        """End the answer; return the text that was held back."""
        return self._release(self._detokenizer.close(), at_end=True)

    def _release(self, text: str, *, at_end: bool) -> str:
        if self.stopped:
            return ""
        if self._stop:
            text = self._held + text
            found = [position for stop in self._stop if (position := text.find(stop)) >= 0]
            if found:
                self.stopped = True
                text, self._held = text[: min(found)], ""
            else:
                held = 0 if at_end else self._possible_stop(text)
                text, self._held = text[: len(text) - held], text[len(text) - held :]
        if text:
            self._pieces.append(text)
        return text

    def _possible_stop(self, text: str) -> int:
        """Return the length of the longest end of ``text`` that is the beginning of a stop text."""
        for length in range(min(self._longest - 1, len(text)), 0, -1):
            if any(stop.startswith(text[-length:]) for stop in self._stop):
                return length
        return 0
