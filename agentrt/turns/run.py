"""One run of an agent: its scope, its turns, and their end."""

from __future__ import annotations

from collections.abc import Hashable
from weakref import WeakSet

from ..concurrency.hosts import Host, RunningLoopHost, worker_loop
from .turn import Turn


class Run:
    """A run of an agent that ends what its turns have started.

    Give it to :meth:`~agentrt.adapting.Turns.start` where the framework says when a run begins and ends. Its
    calls are claimed with its ``scope``.
    """

    def __init__(self, scope: Hashable = None, *, blocking: bool = False) -> None:
        """``scope`` None is one of its own. ``blocking`` as for :meth:`~agentrt.adapting.Turns.start`."""
        self.scope = object() if scope is None else scope
        self._own_host = None if blocking else RunningLoopHost()
        self._turns: WeakSet[Turn] = WeakSet()

    @property
    def host(self) -> Host:
        """Where the predictors of its turns run."""
        return worker_loop if self._own_host is None else self._own_host

    def add(self, turn: Turn) -> None:
        """Take a turn that was started for the run."""
        self._turns.add(turn)

    def close(self) -> None:
        """Cancel all speculations of the run, also those that could still be claimed."""
        for turn in list(self._turns):
            turn.abandon()

    async def aclose(self) -> None:
        """:meth:`close`, and wait until their coroutines have ended. Threads go on."""
        self.close()
        if self._own_host is not None:
            await self._own_host.aclose()
