"""The names that the sender of a request has for the fields that its errors name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from agentrt.errors import InvalidRequestError, PromptTooLongError


def in_sender_names(error: Exception, name_of: Callable[[str], str], shorten: str | None = None) -> Exception:
    """Return an error of a generation with its sender's name of the field; others as they are.

    ``name_of`` takes a field as the runtime names it, such as ``messages[1].content``, and returns what the
    sender calls it. ``shorten`` says how the sender can shorten its prompt; None leaves that as it is.
    """
    if isinstance(error, InvalidRequestError):
        return InvalidRequestError(name_of(error.field), error.reason)
    if isinstance(error, PromptTooLongError):
        return PromptTooLongError(
            error.prompt_tokens,
            error.limit_tokens,
            error.limited_by,
            error.raise_limit,
            shorten=error.shorten if shorten is None else shorten,
            at_least=error.at_least,
            field=name_of(error.field),
        )
    return error


@contextmanager
def sender_names(name_of: Callable[[str], str], shorten: str | None = None) -> Iterator[None]:
    """Raise the errors of the block as :func:`in_sender_names` returns them."""
    try:
        yield
    except (InvalidRequestError, PromptTooLongError) as error:
        raise in_sender_names(error, name_of, shorten) from error


def renamed(field: str, names: Mapping[str, str]) -> str:
    """Return ``field`` with the longest beginning of it that ``names`` has in its new name.

    A beginning ends where the name of a field or an index does.
    """
    ends = [len(field), *(match.start() for match in re.finditer(r"[.\[]", field))]
    for end in sorted(ends, reverse=True):
        if field[:end] in names:
            return names[field[:end]] + field[end:]
    return field
