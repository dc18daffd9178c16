"""The line that installs what a script needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from agentrt.errors import MissingExtraError


@contextmanager
def needs_extras(*extras: str) -> Iterator[None]:
    """Name ``extras`` if an import in the block fails.

    Raises:
        MissingExtraError: a module is missing; the message is the line that installs all ``extras``.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or "a module", ",".join(extras)) from error
