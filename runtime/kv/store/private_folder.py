"""The folders of contexts, which are for their user only."""

from __future__ import annotations

import errno
import logging
import os
import stat
from pathlib import Path

logger = logging.getLogger(__name__)


def make_private_folder(folder: Path) -> None:
    """Create ``folder`` if it is missing; log a warning if other users may use one that is there.

    Raises:
        OSError: it cannot be created, or something else lies there.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, f"{folder} is no folder") from None
    if os.name == "posix" and folder.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        logger.warning("Other users may look into %s, which has contexts. Run: chmod 700 %s", folder, folder)
