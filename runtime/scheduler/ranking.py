"""Items sorted by keys that change."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable
from itertools import islice
from operator import itemgetter
from typing import Any, Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)

_by_key = itemgetter(0)


class Ranking(Generic[Item]):
    """Items, each with a key of its own, the lowest key first. Keys are comparable and distinct.

    Finding the place of an item is O(log n), and reading the first ones is O(1) in the number of all.
    """

    def __init__(self) -> None:
        """Create an empty ranking."""
        self._sorted: list[tuple[Any, Item]] = []
        self._keys: dict[Item, Any] = {}

    def __len__(self) -> int:
        """How many items there are."""
        return len(self._sorted)

    def __contains__(self, item: Item) -> bool:
        """Whether ``item`` is one of them."""
        return item in self._keys

    def __getitem__(self, place: int) -> Item:
        """The item at ``place``; -1 is the last."""
        return self._sorted[place][1]

    def put(self, item: Item, key: Any) -> None:
        """Insert ``item`` by ``key``, or move it there."""
        self.discard(item)
        self._keys[item] = key
        insort(self._sorted, (key, item), key=_by_key)

    def discard(self, item: Item) -> None:
        """Remove ``item``, if it is there."""
        if item in self._keys:
            del self._sorted[bisect_left(self._sorted, self._keys.pop(item), key=_by_key)]

    def first(self, count: int) -> list[Item]:
        """The first ``count`` items, or all if there are fewer."""
        return [item for _, item in islice(self._sorted, count)]

    def key(self, item: Item) -> Any:
        """The key of ``item``, which is there."""
        return self._keys[item]

    def check_integrity(self) -> None:
        """Check that every item is there once, in order.

        Raises:
            AssertionError: always a bug.
        """
        keys = [key for key, _ in self._sorted]
        if keys != sorted(self._keys.values()) or len(set(keys)) != len(keys):
            raise AssertionError("a ranking is not sorted, or an item is in it twice")
