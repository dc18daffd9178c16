"""Prepares requests: on a thread, apps in turns, within the limits of their contexts."""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from agentrt.concurrency.fair_threads import Cancellation, FairThreads
from agentrt.concurrency.native_calls import native_calls
from agentrt.errors import ContextQuotaError, ContextStoreError, PromptTooLongError
from agentrt.priority import Priority, current_priority

from ..contexts.table import ContextTable
from ..request.options import GenerationOptions, Prompt
from ..request.preparation import Preparation, unprepared
from ..request.processor import InputProcessor, as_deadline
from ..request.request import Request
from ..request.validation import check_text

T = TypeVar("T")

_log: Final = logging.getLogger(__name__)


class RequestPreparer:
    """Checks and tokenizes requests, and names the context of each. Thread-safe."""

    def __init__(self, processor: InputProcessor, contexts: ContextTable, max_context_tokens: int) -> None:
        """``max_context_tokens`` bounds requests that belong to a context, one of ``contexts``."""
        self._processor = processor
        self._contexts = contexts
        self._max_context_tokens = max_context_tokens
        self._threads = FairThreads("agentrt-prepare")

    def prepare(
        self,
        messages: Prompt,
        options: GenerationOptions,
        arrived: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> Request:
        """Return the checked request, which names its context. Blocks: see :class:`Preparation`.

        ``arrived`` is when the request was made; None is now.
        """
        native_calls.check()
        in_context = options.get("context_id") or options.get("session") is not None
        preparation = Preparation(
            cancellation, arrived=arrived, context_tokens=self._max_context_tokens if in_context else None
        )
        request = self._processor.process(messages, preparation, **options)
        if request.context_id or request.session is not None:
            request = self._limit_to_context(request)
        if request.session is not None:
            request = replace(request, context_id=self._session(request.app, request.session))
        return request

    async def aprepare(self, messages: Prompt, options: GenerationOptions) -> Request:
        """Return the request of :meth:`prepare` without blocking the event loop.

        Its deadline counts from now, also while it waits for a thread.
        """
        prepare = functools.partial(self.prepare, messages, options, time.perf_counter())
        try:
            async with asyncio.timeout(as_deadline(options.get("deadline_s"))) as limit:
                return await self.run(prepare, options.get("app", ""), options.get("priority"))
        except TimeoutError:
            if limit.expired():
                raise unprepared() from None
            raise

    async def run(self, work: Callable[[Cancellation], T], app: str, priority: Priority | None = None) -> T:
        """Return what ``work`` returns, on a thread that inherits the priority. Apps take turns.

        Cancelling the task ends the work at its next check. Without a ``priority`` it is the current one.
        """
        native_calls.check()
        urgent = (current_priority() if priority is None else priority) == Priority.REACTIVE
        return await self._threads.run(check_text(app, "app"), work, urgent=urgent)

    def _session(self, app: str, name: str) -> str:
        """Return the id of a session's context; none if it cannot be stored: requests have its text."""
        try:
            return self._contexts.session(app, name)
        except (ContextStoreError, ContextQuotaError) as error:
            _log.warning("A session is served without a context: %s", error)
            return ""

    def _limit_to_context(self, request: Request) -> Request:
        tokens, limit = len(request.prompt_token_ids), self._max_context_tokens
        if tokens >= limit:
            raise PromptTooLongError(tokens, limit, "a context", "raise max_context_tokens")
        return replace(
            request,
            max_total_tokens=min(request.max_total_tokens, limit),
            context_length=min(request.context_length, limit),
        )
