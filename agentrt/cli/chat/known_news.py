"""What the user was told of the data, kept from one ``agentrt chat`` to the next."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from ...own_files import OwnFileError, read_own_file, replace_own_file

_MOST_DATA: Final = 4
"""Sets of data of which it is kept, those that were used last: they fit into a file that can be read."""
_KNOWN: Final = TypeAdapter(dict[str, list[str]])
_log = logging.getLogger(__name__)


class KnownNews:
    """A file of the user with hashes of mails and events, which only the user can read."""

    def __init__(self, data: Sequence[Path], path: Path | None = None) -> None:
        """``data`` are the paths that belong together.

        ``path`` is ``chat_known_news.json`` in the user's state folder by default.
        """
        import platformdirs

        self._path = path or platformdirs.user_state_path("agentrt") / "chat_known_news.json"
        paths = "\0".join(sorted(os.path.realpath(each) for each in data))
        self._data = hashlib.sha256(os.fsencode(paths)).hexdigest()[:16]

    def load(self) -> list[str] | None:
        """Return what was told of the data; None if it was never looked at, or the file cannot be used."""
        return self._read().get(self._data)

    def save(self, known: Sequence[str]) -> None:
        """Replace what was told of the data, at once or not at all; a failure is logged."""
        others = self._read()
        others.pop(self._data, None)
        kept = [*others.items(), (self._data, list(known))][-_MOST_DATA:]
        try:
            replace_own_file(self._path, json.dumps(dict(kept)))
        except OSError as error:
            _log.warning("what is new will be told again: %s", error)

    def _read(self) -> dict[str, list[str]]:
        if not self._path.exists():
            return {}
        try:
            return _KNOWN.validate_json(read_own_file(self._path))
        except (OwnFileError, ValueError):
            _log.warning("what was told before is not known: %s is damaged, and written anew", self._path)
            return {}
