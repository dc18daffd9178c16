"""Where the chunks of each app are stored, and which contexts use them: in memory, found without I/O."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable

from .chunks import ChunkLocation


class ChunkIndex:
    """Locations of chunks by app and block hash, and the hashes that each context uses. Thread-safe.

    Contexts are known by the names of their files.
    """

    def __init__(self) -> None:
        """Create an empty index."""
        self._lock = threading.Lock()
        self._locations: dict[tuple[str, bytes], ChunkLocation] = {}
        self._users: dict[tuple[str, bytes], set[str]] = defaultdict(set)
        self._used: dict[str, dict[tuple[str, bytes], None]] = {}  # by context, in the order of its files

    def __len__(self) -> int:
        """Return the number of chunks."""
        return len(self._locations)

    def locate(self, app: str, block_hash: bytes) -> ChunkLocation | None:
        """Return where the chunk is, or None."""
        return self._locations.get((app, block_hash))

    def add(self, location: ChunkLocation) -> None:
        """Add a chunk. One that is already stored elsewhere stays where it is."""
        key = (location.app, location.block_hash)
        with self._lock:
            known = self._locations.get(key)
            if known is None or known.name == location.name:
                self._locations[key] = location
            self._use(location.name, key)

    def move(self, location: ChunkLocation) -> None:
        """Note that the chunk is now at ``location``, wherever it was."""
        with self._lock:
            self._locations[location.app, location.block_hash] = location

    def refer(self, app: str, name: str, block_hashes: Iterable[bytes]) -> None:
        """Note that the context uses these chunks."""
        with self._lock:
            for block_hash in block_hashes:
                self._use(name, (app, block_hash))

    def uses(self, app: str, name: str, block_hash: bytes) -> bool:
        """Return whether the context uses the chunk."""
        return (app, block_hash) in self._used.get(name, ())

    def used_by(self, name: str) -> list[bytes]:
        """Return the hashes that the context uses, in the order in which it began to."""
        with self._lock:
            return [block_hash for _, block_hash in self._used.get(name, ())]

    def most_used_by_one(self) -> int:
        """Return the largest number of chunks that a context uses and that are stored."""
        with self._lock:
            counts = (sum(key in self._locations for key in used) for used in self._used.values())
            return max(counts, default=0)

    def owned_by(self, name: str) -> list[ChunkLocation]:
        """Return the chunks in the file of the context."""
        with self._lock:
            found = (self._locations.get(key) for key in self._used.get(name, ()))
            return [location for location in found if location is not None and location.name == name]

    def others_using(self, location: ChunkLocation) -> set[str]:
        """Return the contexts that use the chunk, but have it not in their file."""
        with self._lock:
            return self._users[location.app, location.block_hash] - {location.name}

    def remove(self, location: ChunkLocation) -> bool:
        """Remove the chunk if it is still there, and return whether it was. Its users stay."""
        key = (location.app, location.block_hash)
        with self._lock:
            if self._locations.get(key) != location:
                return False
            del self._locations[key]
            return True

    def remove_context(self, name: str) -> None:
        """Remove the chunks in the file of the context, and what it uses."""
        with self._lock:
            for key in self._used.pop(name, ()):
                users = self._users[key]
                users.discard(name)
                if not users:
                    del self._users[key]
                location = self._locations.get(key)
                if location is not None and location.name == name:
                    del self._locations[key]

    def _use(self, name: str, key: tuple[str, bytes]) -> None:
        self._used.setdefault(name, {})[key] = None
        self._users[key].add(name)
