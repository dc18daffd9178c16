"""The known name that a mistyped one was probably meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question with the most similar of ``known``, after a space; empty if none is similar."""
    similar = difflib.get_close_matches(name, list(known), n=1)
    return f" Did you mean {similar[0]}?" if similar else ""
