"""Text of models and tools, made safe for a terminal."""

from __future__ import annotations

__all__ = ["printable"]

_DELETE = 0x7F
_PICTURES = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n"}
_C1_CONTROLS = {code: f"\\x{code:02x}" for code in range(0x80, 0xA0)}
# They change the order in which the text around them is shown.
_BIDIRECTIONAL = {code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}
_VISIBLE = {**_PICTURES, _DELETE: "\u2421", **_C1_CONTROLS, **_BIDIRECTIONAL}


def printable(text: str) -> str:
    """Return ``text`` with a visible character or escape in place of each control character.

    Terminals obey control characters: escape sequences move the cursor, change colours and titles, and write
    the clipboard. Tabs and line ends stay.
    """
    return text.translate(_VISIBLE)
