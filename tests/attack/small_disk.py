"""A folder in which little can be written: on a small disk, or by a limit on the size of files."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Self

_BALLAST = "ballast"


class SmallDisk:
    """A disk of 2 MiB in memory; where this user may not mount one, a limit on the size of files.

    A context manager: entering it makes :attr:`folder`, which exists and is empty, small.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._mounted = False

    @property
    def prefix(self) -> tuple[str, ...]:
        """Command that runs the one behind it with the limit; empty on a small disk."""
        return () if self._mounted else ("prlimit", "--fsize=2000")

    def fill(self) -> None:
        """Leave nothing of the disk; a limit on the size of files holds from the start."""
        if self._mounted:
            free = os.statvfs(self.folder)
            # A server may write meanwhile: then there is less space than that, and all of it is taken.
            with suppress(OSError), (self.folder / _BALLAST).open("ab", buffering=0) as ballast:
                ballast.write(bytes(free.f_bavail * free.f_frsize))

    def free(self) -> bool:
        """Free what :meth:`fill` has taken; return whether processes that run can write now."""
        (self.folder / _BALLAST).unlink(missing_ok=True)
        return self._mounted

    def __enter__(self) -> Self:
        """Mount the disk if that is allowed."""
        command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(self.folder)]
        if shutil.which("mount") is not None:
            self._mounted = subprocess.run(command, check=False, capture_output=True).returncode == 0
        return self

    def __exit__(self, *_: object) -> None:
        if self._mounted:
            subprocess.run(["umount", "--lazy", str(self.folder)], check=False, capture_output=True)
