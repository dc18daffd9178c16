"""The question of a chat: an argument, or what is piped in."""

from __future__ import annotations

from typing import IO, TextIO

import typer

from ...errors import ConfigurationError

_MOST_PIPED_BYTES = 8 * 2**20


def read_question(question: str | None, stdin: TextIO | None) -> str:
    """Return ``question`` with what is piped in behind it, or what is piped in alone.

    A terminal is read only if there is no question. Bytes that are no UTF-8 become replacement characters.

    Raises:
        BadParameter: there is neither a question nor piped text.
        ConfigurationError: what is piped in is too long, or is not text.
    """
    piped = ""
    if stdin is not None and not (question and stdin.isatty()):
        piped = _read_text(stdin.buffer)
    parts = [part.strip() for part in (question or "", piped) if part.strip()]
    if not parts:
        raise typer.BadParameter(
            "there is none. Give one, such as agentrt chat 'How warm is it in Oslo?', or pipe it in.",
            param_hint="QUESTION",
        )
    return "\n\n".join(parts)


def _read_text(file: IO[bytes]) -> str:
    data = file.read(_MOST_PIPED_BYTES + 1)
    if len(data) > _MOST_PIPED_BYTES:
        raise ConfigurationError(
            f"standard input has more than {_MOST_PIPED_BYTES // 2**20} MiB. Pipe in a part of it, such as "
            "with head."
        )
    if b"\0" in data:
        raise ConfigurationError("standard input is not text. Pipe in a text file.")
    return data.decode("utf-8-sig", "replace")
