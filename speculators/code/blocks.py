"""Finding code in a streamed answer: between fences in its text, or in an argument of a call."""

from __future__ import annotations

import json
import re

_STRING_END = re.compile(r'(?:[^"\\]|\\.)*', re.DOTALL)
# Behind escaped backslashes, after which a "u" begins no escape. A high surrogate may be half of a pair.
_INCOMPLETE_ESCAPE = re.compile(
    r"(?<!\\)(?:\\\\)*(\\u(?:[0-9a-fA-F]{0,3}|[dD][89abAB][0-9a-fA-F]{2}(?:\\u[0-9a-fA-F]{0,3})?))$"
)


class FencedCode:
    """Reads the code between fences out of text that comes in pieces; all blocks are one program."""

    def __init__(self, fences: tuple[tuple[str, str], ...]) -> None:
        """``fences`` are pairs of opening and closing text; an opening ends with its line."""
        self._closing_of = dict(fences)
        self._opening = re.compile("|".join(re.escape(opening) for opening, _ in fences))
        self._longest = max(len(fence) for pair in fences for fence in pair)
        self._text = ""
        self._closing: str | None = None

    def feed(self, text: str) -> str:
        """Take the next piece of text; return the code that it adds."""
        self._text += text
        code: list[str] = []
        while self._step(code):
            pass
        return "".join(code)

    def _step(self, code: list[str]) -> bool:
        """Read up to the next fence; return whether there was one."""
        if self._closing is None:
            opening = self._opening.search(self._text)
            if opening is None:
                self._text = self._text[max(0, len(self._text) - self._longest + 1) :]
                return False
            self._closing = self._closing_of[opening.group()]
            self._text = self._text[opening.end() :]
            return True
        end = self._text.find(self._closing)
        if end < 0:
            sure = max(0, len(self._text) - len(self._closing) + 1)  # the rest may be the fence's beginning
            code.append(self._text[:sure])
            self._text = self._text[sure:]
            return False
        code.append(self._text[:end] + "\n")
        self._text = self._text[end + len(self._closing) :]
        self._closing = None
        return True


class ArgumentCode:
    """Reads the code out of one text argument in the JSON of a call that comes in pieces."""

    def __init__(self, argument: str) -> None:
        """``argument`` is the name of the argument that holds the code."""
        self._key = re.compile(rf'"{re.escape(argument)}"\s*:\s*"')
        self._longest_key = len(argument) + 32  # with its quotes and white space
        self._text = ""
        self._begun = False
        self._over = False

    def feed(self, text: str) -> str:
        """Take the next piece of JSON; return the code that it adds."""
        if self._over:
            return ""
        read = max(0, len(self._text) - self._longest_key)
        self._text += text
        if not self._begun:
            key = self._key.search(self._text, read)
            if key is None:
                return ""
            self._begun = True
            self._text = self._text[key.end() :]
        body = _STRING_END.match(self._text)
        assert body is not None
        piece, self._text = body.group(), self._text[body.end() :]
        self._over = self._text.startswith('"')
        incomplete = _INCOMPLETE_ESCAPE.search(piece)
        if incomplete is not None and not self._over:
            piece, self._text = piece[: incomplete.start(1)], piece[incomplete.start(1) :] + self._text
        try:
            code: str = json.loads(f'"{piece}"', strict=False)
        except ValueError:  # no JSON: what follows is not read
            self._over = True
            return ""
        return f"{code}\n" if self._over else code
