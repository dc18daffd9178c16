"""What the short example scripts share: the option ``--model``, models, servers and the extras they need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from agentrt.errors import MissingExtraError

TOKENS_PER_SECOND = 50
"""Nano writes more than a thousand tokens per second, too fast to hide a tool behind. The examples hold it to
the pace of the models that people work with; models that you name run as fast as they are."""


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
