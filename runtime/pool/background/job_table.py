"""The jobs of all apps: in memory, and where a model's contexts have a folder, in that folder, too."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from agentrt.errors import ConfigurationError, ContextDamagedError, ContextNotFoundError, ContextStoreError

from ...kv.store.store import ContextStore, StoredContext
from .job import KIND, Job, JobStatus

_log: Final = logging.getLogger(__name__)
_owned: Final[set[ContextStore]] = set()
"""The stores whose jobs a table has. Other processes are kept from them by the lock of their folder."""


@dataclass
class _Saved:
    """What is stored of a job."""

    context: StoredContext
    store: ContextStore
    events: int
    text: int
    status: JobStatus
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while it changes."""


class JobTable:
    """Jobs by app and id, the oldest first. For one event loop.

    A job is stored beside the contexts of its model, in the same database: encrypted where they are, counted
    to the same quotas, and deleted with everything else of its app.
    """

    def __init__(self, stores: Mapping[str, ContextStore]) -> None:
        """``stores`` has the store of each model, by name, whose contexts have a folder."""
        self._stores = stores
        self._jobs: dict[str, dict[str, Job]] = {}
        self._saved: dict[Job, _Saved] = {}
        self._changes: set[asyncio.Task[None]] = set()

    @contextmanager
    def owned(self) -> Iterator[None]:
        """Keep the jobs of the stores from other tables of this process, which would run them, too.

        Raises:
            ConfigurationError: one has them.
        """
        stores = set(self._stores.values())
        if stores & _owned:
            raise ConfigurationError(
                "another BackgroundService or server runs the background jobs of this runtime. Use that one."
            )
        _owned.update(stores)
        try:
            yield
        finally:
            _owned.difference_update(stores)

    async def load(self, apps: Iterable[str]) -> None:
        """Read the stored jobs of ``apps``. Those whose record is damaged are reported in the log.

        Raises:
            ContextStoreError: a store cannot be read.
        """
        found = await asyncio.to_thread(self._read, list(apps))
        for job, saved in sorted(found, key=lambda each: each[0].created):
            self._add(job, saved)

    def _read(self, apps: list[str]) -> list[tuple[Job, _Saved]]:
        found = []
        for (model, store), app in itertools.product(self._stores.items(), apps):
            for context in store.contexts(app):
                if context.header.get("kind") != KIND:
                    continue
                try:
                    job = Job.restored(context.id, app, context.header, context.read_text())
                except ContextDamagedError as damaged:
                    _log.warning("a background job: %s", damaged)
                    continue
                job.model = model  # it may have had another name
                found.append((job, _Saved(context, store, len(job.events), len(job.text), job.status)))
        return found

    def get(self, app: str, id: str) -> Job | None:
        """Return a job; None if ``app`` has no such job."""
        return self._jobs.get(app, {}).get(id)

    def of(self, app: str) -> list[Job]:
        """Return the jobs of ``app``."""
        return list(self._jobs.get(app, {}).values())

    def all(self) -> list[Job]:
        """Return the jobs of all apps."""
        return [job for jobs in self._jobs.values() for job in jobs.values()]

    def stores(self, job: Job) -> bool:
        """Return whether ``job`` is stored."""
        return job in self._saved

    async def add(self, job: Job) -> None:
        """Add a new job; once this returns, it is stored.

        Raises:
            ContextQuotaError, ContextStoreError: it cannot be stored, and was not added.
        """
        await self._complete(self._store(job))

    async def _store(self, job: Job) -> None:
        store, header, record = self._stores.get(job.model), job.header, job.record()
        if store is None:
            self._add(job, None)
            return

        def write() -> StoredContext:
            context = store.create(job.app, job.id, header)
            try:
                context.append_text(record)
            except BaseException:
                store.delete(job.app, job.id)
                raise
            return context

        reached = len(job.events), len(job.text), job.status
        self._add(job, _Saved(await asyncio.to_thread(write), store, *reached))
        job.show(reached[0])

    async def save(self, job: Job) -> None:
        """Store what has changed of ``job``, if jobs of its model are stored.

        A store that fails is reported in the log: the job goes on, and is stored with its next change.
        """
        if (saved := self._saved.get(job)) is not None:
            await self._complete(self._save(job, saved))

    async def _save(self, job: Job, saved: _Saved) -> None:
        async with saved.lock:
            reached, whole = (len(job.events), len(job.text), job.status), job.rewritten
            if reached == (saved.events, saved.text, saved.status) and not whole:
                return
            record = job.record() if whole else job.record(saved.events, saved.text)
            job.rewritten = False
            try:
                if whole:
                    await asyncio.to_thread(saved.context.replace_text, [record])
                else:
                    await asyncio.to_thread(saved.context.append_text, record)
            except ContextNotFoundError:  # everything of the app was deleted meanwhile
                self.forget(job)
                job.show(len(job.events))
            except ContextStoreError as error:
                _log.warning("the background job %s is not stored: %s", job.id, error)
                job.rewritten = job.rewritten or whole
                job.show(len(job.events))
            else:
                saved.events, saved.text, saved.status = reached
                if not job.rewritten:
                    job.show(reached[0])

    async def remove(self, job: Job) -> None:
        """Delete ``job``.

        Raises:
            ContextStoreError: it cannot be deleted, and is still there.
        """
        if (saved := self._saved.get(job)) is not None:
            await self._complete(self._delete(job, saved))
        self.forget(job)

    async def _delete(self, job: Job, saved: _Saved) -> None:
        async with saved.lock:
            with suppress(ContextNotFoundError):  # everything of the app was deleted meanwhile
                await asyncio.to_thread(saved.store.delete, job.app, job.id)

    async def settle(self) -> None:
        """Wait until all changes are stored."""
        while self._changes:
            await asyncio.wait(self._changes)

    async def _complete(self, change: Coroutine[Any, Any, None]) -> None:
        """Await ``change``, which is completed even if this is cancelled: a thread cannot be stopped."""
        task = asyncio.create_task(change)
        self._changes.add(task)
        task.add_done_callback(self._changes.discard)
        await asyncio.shield(task)

    def forget(self, job: Job) -> None:
        """Remove a job that is no longer stored."""
        self._jobs.get(job.app, {}).pop(job.id, None)
        self._saved.pop(job, None)

    def _add(self, job: Job, saved: _Saved | None) -> None:
        self._jobs.setdefault(job.app, {})[job.id] = job
        if saved is not None:
            self._saved[job] = saved
