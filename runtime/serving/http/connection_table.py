"""The open connections of a server: how many there may be, and which one is closed for a new one."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Protocol

from .admission import Shares


class _Connection(Protocol):
    @property
    def idle(self) -> bool: ...

    def abort(self) -> None: ...


class ConnectionTable:
    """The connections of a server, by the app that uses them. For one event loop.

    A connection is *unproven* until the guard has accepted one of its requests. Unproven ones have half of
    the places; when these are taken, a new connection takes that of the oldest. So clients without a token,
    however many, close each other's connections only. The other half is for apps, in :class:`Shares`.
    """

    def __init__(self, limit: int, apps: Collection[str]) -> None:
        """``limit`` is how many connections there may be; ``apps`` are those with places of their own."""
        self._max_unproven = max(1, limit // 2)
        self._unproven: dict[_Connection, None] = {}
        self._shares = Shares(max(1, limit - self._max_unproven), apps)
        self._apps: dict[_Connection, str] = {}
        """The app of each proven connection; the one whose last request is the oldest comes first."""

    def __len__(self) -> int:
        """How many connections there are."""
        return len(self._unproven) + len(self._apps)

    def add(self, connection: _Connection) -> None:
        """Add a connection that was just accepted."""
        if len(self._unproven) >= self._max_unproven:
            self._close(next(iter(self._unproven)))
        self._unproven[connection] = None

    def prove(self, connection: _Connection, app: str) -> bool:
        """Make an added connection one of ``app``; without effect, and False, if it may have no more.

        An idle connection of the app is closed first.
        """
        if self._apps.get(connection) != app and not self._make_room(app):
            return False
        self.remove(connection)
        self._shares.take(app)
        self._apps[connection] = app
        return True

    def remove(self, connection: _Connection) -> None:
        """Remove a connection, which may be in the table."""
        self._unproven.pop(connection, None)
        if (app := self._apps.pop(connection, None)) is not None:
            self._shares.give_back(app)

    def free_one(self) -> bool:
        """Close the connection that is missed least: the oldest unproven one, else one that is idle.

        Return whether there was one.
        """
        idle = (connection for connection in self._apps if connection.idle)
        if (connection := next(iter(self._unproven), None) or next(idle, None)) is None:
            return False
        self._close(connection)
        return True

    def _make_room(self, app: str) -> bool:
        """Return whether there is a place for a connection of ``app``, after closing an idle one for it."""
        if self._shares.room(app):
            return True
        own_idle = (each for each, owner in self._apps.items() if owner == app and each.idle)
        if (connection := next(own_idle, None)) is None:
            return False
        self._close(connection)
        return True

    def _close(self, connection: _Connection) -> None:
        self.remove(connection)
        connection.abort()


def connection_limit(wanted: int) -> int:
    """Return how many connections a server may have: ``wanted``, or half of the files that it may yet open.

    The other half is for models, contexts and the engine behind a gateway.
    """
    try:
        import resource
    except ImportError:  # Windows, which has no such limit
        return wanted
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return wanted
    return max(2, min(wanted, (limit - len(os.listdir("/dev/fd"))) // 2))
