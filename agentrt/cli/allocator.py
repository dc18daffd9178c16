"""How a server's C library manages its memory."""

from __future__ import annotations

import ctypes
from typing import Final

_M_ARENA_MAX: Final = -8
_ARENAS: Final = 2


def share_arenas() -> None:
    """Let all threads of this process allocate from two arenas. Does nothing without glibc.

    glibc gives each thread an arena of its own. What one thread frees others cannot use, so a server with
    many threads grows for hours. To be called before there are threads.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):  # another C library
        return
    mallopt(_M_ARENA_MAX, _ARENAS)
