"""The values that a tool has received, so that a draft which repeats them discloses nothing new."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any

_MAX_VALUES = 4096


class ReceivedValues:
    """Digests of the values in the arguments of calls, the latest 4096. Thread-safe."""

    def __init__(self) -> None:
        """Create the set of a tool that was never called."""
        self._lock = threading.Lock()
        self._digests: OrderedDict[bytes, None] = OrderedDict()

    def add(self, arguments: Mapping[str, Any]) -> None:
        """Note that a call has passed these arguments."""
        with self._lock:
            for value in _values_in(arguments):
                self._digests[_digest(value)] = None
                self._digests.move_to_end(_digest(value))
            while len(self._digests) > _MAX_VALUES:
                self._digests.popitem(last=False)

    def contain(self, arguments: Mapping[str, Any]) -> bool:
        """Whether each value in these arguments was received before; True if there is none."""
        with self._lock:
            return all(_digest(value) in self._digests for value in _values_in(arguments))


def _values_in(arguments: Mapping[str, Any]) -> Iterator[Any]:
    """Yield what the arguments hold besides the names of parameters, which are the tool's own."""
    pending = list(arguments.values())
    while pending:
        value = pending.pop()
        if isinstance(value, Mapping):
            yield from value
            pending += value.values()
        elif isinstance(value, (list, tuple)):
            pending += value
        else:
            yield value


def _digest(value: Any) -> bytes:
    return blake2b(repr(value).encode(), digest_size=16).digest()
