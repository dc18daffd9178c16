"""Entries of a model directory that are no files, such as FIFOs, which would block whoever reads them."""

from __future__ import annotations

import os
from pathlib import Path

from agentrt.errors import ModelFormatError


def refuse_special_files(folder: Path) -> None:
    """Check that ``folder`` holds files and folders only; links are followed.

    OpenVINO's libraries read some of the files themselves, and would wait for ever for a writer of a FIFO.

    Raises:
        ModelFormatError: something else is in the folder.
        OSError: the folder cannot be read.
    """
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.is_file() and not entry.is_dir() and os.path.exists(entry.path):
                raise ModelFormatError(
                    f"{entry.path} is no file, but a device, FIFO or socket. Replace it by the file of the "
                    "original model, or delete it."
                )
