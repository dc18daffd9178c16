"""What contexts take on disk, what they may take, and the order in which they were used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Quota = Literal["context_app_bytes", "context_disk_bytes"]
QUOTAS: Final[tuple[Quota, ...]] = ("context_app_bytes", "context_disk_bytes")


@dataclass(frozen=True, slots=True)
class StoreQuotas:
    """What contexts may take on disk, by the names of the settings; None is without limit."""

    context_app_bytes: int | None = None
    context_disk_bytes: int | None = None


@dataclass(eq=False)
class StoredEntry:
    """What a store knows of a context without reading it. Changes hold the lock of the store."""

    row: int
    """The id of its row in the database."""
    number: bytes
    """Drawn at its creation, for its seal."""
    app: str
    """The app that it belongs to."""
    id: str
    """Its name within the app."""
    header: Mapping[str, Any]
    """What it was created with."""
    records: int
    """How many its text has."""
    used_ns: int
    """When it was used last."""
    text_bytes: int
    stamped_ns: int = 0
    """``used_ns`` as the database has it."""
    hashes: dict[bytes, None] = field(default_factory=dict)
    """The chunks that it uses, in the order in which it began to; some may be gone."""
    deleted: bool = False
    """Whether it was deleted, or removed because its text is damaged."""


class Usage:
    """Entries of all contexts, and bytes by app. Changes hold the lock of the store."""

    def __init__(self, quotas: StoreQuotas, clock: Callable[[], int]) -> None:
        """``clock`` returns nanoseconds since the epoch; it may go backwards."""
        self._quotas = quotas
        self._clock = clock
        self._newest_ns = 0
        self.entries: set[StoredEntry] = set()
        self.text_bytes: Counter[str] = Counter()
        self.chunk_bytes: Counter[str] = Counter()

    def add(self, entry: StoredEntry) -> None:
        """Add a context with its text."""
        self.entries.add(entry)
        self._newest_ns = max(self._newest_ns, entry.used_ns)
        self.text_bytes[entry.app] += entry.text_bytes

    def next_ns(self) -> int:
        """Return the time of a use now. Times only grow, whatever the clock does."""
        self._newest_ns = max(self._clock(), self._newest_ns + 1)
        return self._newest_ns

    def limit(self, quota: Quota) -> int | None:
        """Return the value of a quota."""
        limit: int | None = getattr(self._quotas, quota)
        return limit

    def exceeded(self, app: str, added: int, quotas: Iterable[Quota] = QUOTAS) -> Quota | None:
        """Return a quota that ``added`` more bytes of the app would exceed, or None."""
        for quota in quotas:
            limit, totals = self.limit(quota), (self.text_bytes, self.chunk_bytes)
            is_app = quota == "context_app_bytes"
            used = sum(total[app] if is_app else total.total() for total in totals)
            if limit is not None and used + added > limit:
                return quota
        return None

    def oldest_with_chunks(self, quota: Quota, app: str, keep: StoredEntry | None) -> StoredEntry | None:
        """Return the context whose chunks count for a quota of the app and that was used longest ago."""
        found = (
            each
            for each in self.entries
            if each.hashes and each is not keep and (quota == "context_disk_bytes" or each.app == app)
        )
        return min(found, key=lambda each: each.used_ns, default=None)
