"""The console of a command's results."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rich.console import Console

_WIDE: Final = 10_000  # columns


def output_console(**settings: Any) -> Console:
    """Return a console on standard output, with more ``settings`` of rich's.

    Without a terminal no line is wrapped or cut, whatever ``COLUMNS`` says: programs read them.
    """
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _WIDE, **settings)
