"""Where a converted model directory comes from, and its errors in terms of the file that the user named."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agentrt.errors import ModelFormatError


@dataclass(frozen=True, slots=True)
class Conversion:
    """The origin of a directory in the cache of converted models."""

    file: Path
    """The GGUF file that was opened."""
    cached_name: str
    """The name by which ``agentrt models`` lists the directory."""


@contextmanager
def conversion_errors(conversion: Conversion | None) -> Iterator[None]:
    """Let errors of a converted directory name the GGUF file, and how to have it converted again.

    Raises:
        ModelFormatError: the block raised one. Without ``conversion`` it is that of the block.
    """
    try:
        yield
    except ModelFormatError as error:
        if conversion is None:
            raise
        # The further sentences advise how to copy or export a directory, which this is not.
        reason = str(error).split(". ")[0].rstrip(".")
        raise ModelFormatError(
            f"the conversion of {conversion.file} cannot be opened: {reason}. Delete it, and open the "
            f"file again: agentrt models --remove {shlex.quote(conversion.cached_name)}"
        ) from error
