"""Splitting Python code into its top-level statements while it is being written."""

from __future__ import annotations

import re

MAX_STATEMENT_CHARACTERS = 1 << 16
"""Longer statements are not read: they are data, or never end."""

_COMPOUND = frozenset({"async", "class", "def", "for", "if", "match", "try", "while", "with"})
_CONTINUES = frozenset({"elif", "else", "except", "finally"})
_WORD = re.compile(r"\w+")
_TOKEN = re.compile(
    r"""(?P<comment>\#.*)
      | (?P<quote>'{3}|"{3}|'|")
      | (?P<open>[(\[{])
      | (?P<close>[)\]}])
      | (?P<escape>\\.?)
      | [^\#'"()\[\]{}\\]+""",
    re.VERBOSE | re.DOTALL,
)
_IN_STRING = {
    quote: re.compile(rf"(?:\\.|[^\\{quote[0]}]|(?!{quote}){quote[0]})*", re.DOTALL)
    for quote in ("'", '"', "'''", '"""')
}


class Statements:
    """Splits code, fed in pieces, into complete top-level statements, in time linear in its length.

    A simple statement is complete with its line, a compound one when the next begins. No statement is
    returned after one that is longer than :data:`MAX_STATEMENT_CHARACTERS`.
    """

    def __init__(self) -> None:
        """Create a splitter of code that has not begun."""
        self.too_long = False
        self._line: list[str] = []
        self._statement: list[str] = []
        self._characters = 0
        self._is_compound = False
        self._decorated = False
        self._depth = 0
        self._quote = ""
        self._continued = False

    def feed(self, code: str) -> list[str]:
        """Take the next piece; return the statements that it completes."""
        complete = []
        *lines, rest = code.split("\n")
        for line in lines:
            self._line.append(line)
            complete += self._take_line("".join(self._line) + "\n")
            self._line = []
        if rest:
            self._line.append(rest)
        return [] if self.too_long else complete

    def finish(self) -> list[str]:
        """Return what is complete now that the code has ended."""
        complete = self.feed("\n") if self._line else []
        if self._statement and not self._open():
            complete += self._complete()
        return [] if self.too_long else complete

    def _take_line(self, line: str) -> list[str]:
        complete: list[str] = []
        if not self._open():
            word = line.strip()
            if not word or word.startswith("#"):
                return complete
            if not line[0].isspace():
                complete = self._begin(line)
        self._characters += len(line)
        self.too_long = self.too_long or self._characters > MAX_STATEMENT_CHARACTERS
        if self.too_long:
            self._statement = []
            return complete
        self._statement.append(line)
        self._scan(line)
        if not self._open() and not self._is_compound:
            complete += self._complete()
        return complete

    def _begin(self, line: str) -> list[str]:
        """Begin the statement of a line that is not indented, unless it goes on with the one before."""
        first = _WORD.match(line)
        word = first.group() if first else ""
        if self._statement and (word in _CONTINUES or self._decorated):
            self._decorated = line.startswith("@")
            return []
        complete = self._complete() if self._statement else []
        self._decorated = line.startswith("@")
        self._is_compound = self._decorated or (word in _COMPOUND and _is_compound(word, line))
        return complete

    def _complete(self) -> list[str]:
        statement = "".join(self._statement)
        self._statement, self._characters = [], 0
        self._is_compound = self._decorated = False
        return [statement]

    def _open(self) -> bool:
        """Whether the next line belongs to the same logical line."""
        return bool(self._depth > 0 or self._quote or self._continued)

    def _scan(self, line: str) -> None:
        """Follow brackets and strings through a line."""
        self._continued = False
        position = 0
        while position < len(line):
            if self._quote:
                position = self._skip_string(line, position)
                continue
            token = _TOKEN.match(line, position)
            assert token is not None
            position = token.end()
            if token["quote"]:
                self._quote = token["quote"]
                if line.startswith(self._quote, position) and len(self._quote) == 1:
                    position, self._quote = position + 1, ""
            elif token["open"]:
                self._depth += 1
            elif token["close"]:
                self._depth -= 1
            elif token["escape"] == "\\\n":
                self._continued = True

    def _skip_string(self, line: str, position: int) -> int:
        """Return where the open string ends, or the line does."""
        body = _IN_STRING[self._quote].match(line, position)
        assert body is not None
        position = body.end()
        if line.startswith(self._quote, position):
            position, self._quote = position + len(self._quote), ""
        elif len(self._quote) == 1 and not line.endswith("\\\n"):
            self._quote = ""  # not closed: a syntax error, which parsing finds
        return position


def _is_compound(word: str, line: str) -> bool:
    return word != "match" or line.rstrip().endswith(":")  # else it is a name
