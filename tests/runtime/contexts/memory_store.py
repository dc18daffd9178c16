"""A store of texts in memory, which a new table reads as after a restart."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentrt.errors import ContextNotFoundError


class MemoryText:
    """One stored text. It keeps JSON, so that nothing but its bytes is shared with the table."""

    def __init__(self, store: MemoryStore, app: str, id: str, header: Mapping[str, Any]) -> None:
        self.id = id
        self.header: Mapping[str, Any] = json.loads(json.dumps(header))
        self.records: list[bytes] = []
        self.deleted = False
        self.failure: OSError | None = None
        self.used = 0.0
        self._others = store.apps.setdefault(app, {})
        self._others[id] = self

    def read_text(self) -> list[bytes]:
        return list(self.records)

    def append_text(self, record: bytes) -> None:
        self._check()
        self.records.append(record)

    def replace_text(self, records: Sequence[bytes]) -> None:
        self._check()
        self.records = list(records)

    def touch(self) -> None:
        self._others[self.id] = self._others.pop(self.id)

    def _check(self) -> None:
        if self.failure is not None:
            raise self.failure
        if self.deleted:
            raise ContextNotFoundError(self.id)


class MemoryStore:
    """The texts of all apps, the least recently used first."""

    def __init__(self) -> None:
        self.apps: dict[str, dict[str, MemoryText]] = {}
        self.failure: OSError | None = None

    def create(self, app: str, context_id: str, header: Mapping[str, Any]) -> MemoryText:
        if self.failure is not None:
            raise self.failure
        return MemoryText(self, app, context_id, header)

    def contexts(self, app: str) -> list[MemoryText]:
        return list(self.apps.get(app, {}).values())

    def delete(self, app: str, context_id: str) -> None:
        if self.failure is not None:
            raise self.failure
        self.apps[app].pop(context_id).deleted = True

    def delete_all(self, app: str) -> None:
        if self.failure is not None:
            raise self.failure
        for text in self.apps.pop(app, {}).values():
            text.deleted = True

    def of(self, context_id: str) -> MemoryText:
        """Return the text of a context, whatever its app."""
        (text,) = (texts[context_id] for texts in self.apps.values() if context_id in texts)
        return text
