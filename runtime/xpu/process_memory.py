"""Gives memory of this process back to the system. Linux only; elsewhere the functions do nothing."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import Final

_MADV_DONTNEED: Final = 4


def release_file_pages(file: Path) -> None:
    """Drop this process's pages of ``file`` where it is mapped for reading; reading one loads it again."""
    if sys.platform != "linux":
        return
    mapped = os.fsencode(file.resolve())
    libc = ctypes.CDLL(None)
    with open("/proc/self/maps", "rb") as maps:
        for line in maps:
            addresses, permissions, *_, path = line.rstrip(b"\n").split(maxsplit=5)
            if path == mapped and permissions.startswith(b"r--"):
                begin, end = (int(address, 16) for address in addresses.split(b"-"))
                libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), _MADV_DONTNEED)


def release_free_memory() -> None:
    """Return freed memory that the C library keeps for later allocations. Takes milliseconds."""
    if sys.platform != "linux":
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # only glibc has it
    if trim is not None:
        trim(ctypes.c_size_t(0))
