"""How a server's C library manages its memory."""

from __future__ import annotations

import asyncio
import ctypes
from typing import Any, Final

_M_ARENA_MAX: Final = -8
_ARENAS: Final = 2

TRIM_S: Final = 30
"""Seconds between two times that freed memory is given back."""


def share_arenas() -> None:
    """Let all threads of this process allocate from two arenas. Does nothing without glibc.

    glibc gives each thread an arena of its own. What one thread frees others cannot use, so a server with
    many threads grows for hours. To be called before there are threads.
    """
    mallopt = _function("mallopt")
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, _ARENAS)


async def give_back_freed() -> None:
    """Give the pages that nothing is in any more back to the system. Does nothing without glibc.

    glibc gives back the end of an arena only. Between what lives long, pages that requests have freed stay
    with the process, and more of them the longer it serves.
    """
    malloc_trim = _function("malloc_trim")
    if malloc_trim is not None:
        await asyncio.to_thread(malloc_trim, 0)


def _function(name: str) -> Any:
    """Return a function of the C library, or None if it is another one than glibc."""
    try:
        return getattr(ctypes.CDLL(None), name)
    except (OSError, TypeError, AttributeError):
        return None
