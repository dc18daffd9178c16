"""The file operations of a context store, so that a test can make each of them fail."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Final

from ...files.regular_file import NotAFileError, open_regular

UNFINISHED: Final = ".unfinished"
"""End of the names of files that are being created. Those of a killed process are left behind."""

_NO_LINKS: Final = getattr(os, "O_NOFOLLOW", 0)


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of a folder."""

    name: str
    modified_ns: int


class Disk:
    """Files that only the user can read and write. Without state, and so thread-safe.

    The methods from :meth:`write` to :meth:`sync_folder` are the steps between which a process may be killed.
    Every method may raise :class:`OSError`.
    """

    def entries(self, folder: Path) -> list[Entry]:
        """Return the regular files of ``folder``."""
        with os.scandir(folder) as found:
            return [
                Entry(entry.name, entry.stat(follow_symlinks=False).st_mtime_ns)
                for entry in found
                if entry.is_file(follow_symlinks=False)
            ]

    def open(self, file: Path, flags: int = os.O_RDONLY) -> FileIO:
        """Open ``file`` without a buffer.

        Raises:
            NotAFileError: it is a FIFO or another thing that is no file; a link, where the system can tell.
        """
        mode = "rb" if flags == os.O_RDONLY else "r+b"
        return FileIO(file, mode, opener=lambda path, _: open_regular(path, flags | _NO_LINKS))

    def expect(self, stream: FileIO, offset: int, length: int) -> None:
        """Have the system begin to read so many bytes of ``stream``, where it can. Does not wait for them."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(stream.fileno(), offset, length, os.POSIX_FADV_WILLNEED)

    def write(self, stream: FileIO, content: bytes) -> None:
        """Write all of ``content`` at the position of ``stream``."""
        rest = memoryview(content)
        while rest:
            rest = rest[stream.write(rest) or 0 :]

    def sync(self, stream: FileIO) -> None:
        """Wait until what was written to ``stream`` is on the device."""
        os.fsync(stream.fileno())

    def cut(self, stream: FileIO, length: int) -> None:
        """Make the file ``length`` bytes long."""
        stream.truncate(length)

    def rename(self, file: Path, target: Path) -> None:
        """Rename ``file``, in place of ``target`` if there is one."""
        os.replace(file, target)

    def remove(self, file: Path) -> None:
        """Delete ``file``, if there is one."""
        file.unlink(missing_ok=True)

    def sync_folder(self, folder: Path) -> None:
        """Wait until the names of the files in ``folder`` are on the device, where the system can do that."""
        if os.name == "posix":
            handle = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def stamp(self, file: Path, modified_ns: int) -> None:
        """Set the time of the last change, in nanoseconds since the epoch."""
        with suppress(OSError):  # only the order in which chunks are dropped depends on it
            os.utime(file, ns=(modified_ns, modified_ns))

    def put(self, file: Path, content: bytes) -> None:
        """Write ``file`` atomically, in place of the one of that name if there is one.

        The name may be lost after a power failure until :meth:`sync_folder` was called.
        """
        unfinished = file.with_name(file.name + UNFINISHED)
        try:
            with self.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_TRUNC) as stream:
                self.write(stream, content)
                self.sync(stream)
            self.rename(unfinished, file)
        except NotAFileError:
            raise  # it is not what an earlier put has left
        except BaseException:
            with suppress(OSError):
                self.remove(unfinished)
            raise
