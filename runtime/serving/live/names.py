"""What a frame tells of names and ids that clients have chosen or may not learn."""

from __future__ import annotations

from typing import Final

_ID_CHARACTERS: Final = 12
_APP_CHARACTERS: Final = 64


def short_id(unguessable: str) -> str:
    """Return the beginning of an id, which tells it from others and opens nothing."""
    return unguessable[:_ID_CHARACTERS]


def app_name(text: str) -> str:
    """Return the beginning of a name that a client has chosen."""
    return text[:_APP_CHARACTERS]
