"""Profiles on disk: one file per model and set of devices, measured once and reused."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import platformdirs
from pydantic import BaseModel, ConfigDict, ValidationError

from agentrt.errors import ProfileFormatError

from ..files.file_lock import file_lock
from .profile import Positive, Profile

_FORMAT: Final = 5
"""Part of every fingerprint. Raised when a field changes its meaning, so that old files are not found."""

_Stored = TypeVar("_Stored", bound=BaseModel)


class MachineFigures(BaseModel):
    """Figures of a machine that do not depend on the model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    read_bandwidth: Positive
    """Bytes per second that all cores together read from memory."""


def fingerprint(**facts: Any) -> str:
    """Return a name for ``facts``, everything a profile depends on: equal facts, equal name."""
    text = json.dumps({"format": _FORMAT, **facts}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class ProfileStore:
    """A folder of profiles, which several processes may share.

    Files are replaced atomically. While a process measures a profile, others that want it wait for it.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """``folder`` is created at the first write; by default it is in the user's cache folder."""
        self.folder: Final = folder or platformdirs.user_cache_path("agentrt") / "profiles"

    def profile(self, fingerprint: str, measure: Callable[[], Profile]) -> Profile:
        """Return the stored profile, or store what ``measure`` returns; see :meth:`stored`."""
        return self.stored(self.file_of(fingerprint).name, Profile, measure)

    def stored(self, name: str, kind: type[_Stored], measure: Callable[[], _Stored]) -> _Stored:
        """Return the content of the file ``name``, or store what ``measure`` returns.

        A damaged file is replaced; what cannot be stored is returned all the same. Both warn.
        """
        try:
            found = self.load(name, kind)
        except ProfileFormatError as error:
            warnings.warn(f"{error} Measuring now.", RuntimeWarning, stacklevel=3)
            found = None
        if found is not None:
            return found
        with ExitStack() as stack:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                stack.enter_context(file_lock(self.folder / f".lock-{Path(name).stem}"))
            except OSError as error:
                self._warn_not_stored(error)
                return measure()
            with suppress(ProfileFormatError):
                if (found := self.load(name, kind)) is not None:  # another process has stored it meanwhile
                    return found
            measured = measure()
            try:
                replace_file(self.folder / name, measured.model_dump_json(indent=1).encode())
            except OSError as error:
                self._warn_not_stored(error)
            return measured

    def forget(self, fingerprint: str) -> None:
        """Delete the stored profile, if there is one, so that it is measured again."""
        self.file_of(fingerprint).unlink(missing_ok=True)

    def file_of(self, fingerprint: str) -> Path:
        """Return the file that the profile is kept in."""
        return self.folder / f"{fingerprint}.json"

    def replace(self, old: Profile, new: Profile) -> None:
        """Store ``new`` in place of ``old``, unless the store has another one by now, or none.

        Raises:
            OSError: the file cannot be written.
        """
        file = self.file_of(old.fingerprint)
        if file.exists():
            with suppress(ProfileFormatError), file_lock(file.with_name(f".lock-{file.stem}")):
                if self.load(file.name, Profile) == old:
                    replace_file(file, new.model_dump_json(indent=1).encode())

    def load(self, name: str, kind: type[_Stored]) -> _Stored | None:
        """Read one file; None if it does not exist.

        Raises:
            ProfileFormatError: it is damaged, or cannot be read.
        """
        file = self.folder / name
        try:
            return kind.model_validate_json(file.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValidationError) as error:
            problem = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error.strerror
            raise ProfileFormatError(
                f"the profile {file} cannot be used ({problem}). Delete it; it is measured again."
            ) from error

    def _warn_not_stored(self, error: OSError) -> None:
        warnings.warn(
            f"the profile could not be stored in {self.folder} ({error.strerror}), so it will be "
            "measured again next time. Make the folder writable, or set RuntimeConfig.profile_folder.",
            RuntimeWarning,
            stacklevel=4,
        )


def replace_file(file: Path, *parts: bytes) -> None:
    """Write ``file``, of ``parts``, atomically: a reader sees the old or the new content, never a part.

    Raises:
        OSError: it cannot be written.
    """
    handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.writelines(parts)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, file)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
