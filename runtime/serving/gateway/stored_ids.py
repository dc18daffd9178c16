"""The ids of what each app has stored at an engine that sees all apps as one client."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

MAX_IDS: Final = 10_000
"""Of each kind, for each app."""
_MAX_CHARACTERS: Final = 256


class StoredIds:
    """The ids of each app, for as long as the process runs: of an app's those that it used last."""

    def __init__(self, limit: int = MAX_IDS) -> None:
        """An app has at most ``limit`` ids."""
        self._limit = limit
        self._of_apps: dict[str, OrderedDict[str, None]] = {}

    def add(self, app: str, id: str) -> bool:
        """Make ``id`` one of ``app``; return False if it is too long, or that of an app already."""
        if len(id) > _MAX_CHARACTERS or any(id in ids for ids in self._of_apps.values()):
            return False
        ids = self._of_apps.setdefault(app, OrderedDict())
        ids[id] = None
        if len(ids) > self._limit:
            ids.popitem(last=False)
        return True

    def use(self, app: str, id: str) -> bool:
        """Return whether ``id`` is one of ``app``, which it then has used last."""
        ids = self._of_apps.get(app)
        if ids is None or id not in ids:
            return False
        ids.move_to_end(id)
        return True
