"""Files that are not what they should be: renamed, with a warning, and neither used nor deleted."""

from __future__ import annotations

import itertools
import logging
import os
from pathlib import Path

from .disk import Disk
from .record_format import RefusedError

logger = logging.getLogger(__name__)


class Refusals:
    """Sets files aside as ``NAME.refused-1`` and so on, and counts them."""

    def __init__(self, disk: Disk) -> None:
        """Files are renamed by ``disk``."""
        self._disk = disk
        self.files = 0
        """Files that were refused."""

    def set_aside(self, file: Path, reason: RefusedError, consequence: str) -> None:
        """Rename ``file``. The warning has ``reason``, and ``consequence``, a sentence."""
        names = (file.with_name(f"{file.name}.refused-{number}") for number in itertools.count(1))
        aside = next(name for name in names if not os.path.lexists(name))
        self.files += 1
        try:
            self._disk.rename(file, aside)
        except FileNotFoundError:
            logger.warning("%s is not used, as it is gone. %s", file, consequence)
        except OSError as error:
            logger.warning(
                "%s is not used, as it %s. It cannot be renamed (%s); move it away. %s",
                *(file, reason, error.strerror, consequence),
            )
        else:
            logger.warning(
                "%s is not used, as it %s. It is kept as %s; delete that file if you do not need it. %s",
                *(file, reason, aside.name, consequence),
            )
