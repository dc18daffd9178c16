"""The frames of the live page: what models, engines and requests did since the frame before, as plain data.

A frame has no text of prompts, answers, calls or outputs, and only the beginnings of unguessable ids.
docs/live-page.md says what its fields are.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final, TypeAlias, TypeVar

from ...engine.engine_status import EngineStatus, RequestStatus
from ...engine.trace import TracedKernel, TracedRequest
from ...heg.kernel import Role
from ...local.service import LocalRuntime
from ...pool.background.job_queue import JobQueue
from ...pool.pooled_model import PooledModel
from ...scheduler.block_manager import AwaitedContext
from ...scheduler.sequence import SequenceState
from .expectation import Expectation

_ID_CHARACTERS: Final = 12
_APP_CHARACTERS: Final = 64
MAX_ROWS: Final = 40
"""Rows of each model that a frame lists, but for the last, which has the rest."""

Key = TypeVar("Key")
_Row: TypeAlias = tuple[str, str | None, str | None, int]
"""What blocks are held for, app, context, and how many they are. Several apps or contexts are None."""
Frame: TypeAlias = dict[str, Any]

MAX_REQUESTS: Final = 100
"""Requests of each model that a frame lists."""
MAX_KERNELS: Final = 500
"""Bars of kernels of each model in a frame: beyond that, neighbours are drawn as one."""
MAX_ENDED: Final = 100
_STARVED: Final = "reactive requests go first"
_LATE: Final = "later than expected"
_UNCOMPARED: Final = "too little seen yet"
_TRACE_LIMIT: Final = 20_000
_ANSWER_S: Final = 0.1
"""How long a frame waits for an engine, which answers between two kernels."""
_ROLES: Final = list(Role)
_STAGES: Final = ("prefill", "decode", "mixed")
_COUNTED: Final = (
    "sampled_tokens",
    "drafted_tokens",
    "accepted_tokens",
    "answered_calls",
    "given_tokens",
    "finished",
    "cancelled",
    "failed",
    "preemptions",
    "evictions",
)
"""Counters of :class:`EngineStatistics`, of all times that the model was loaded together."""


def short_id(unguessable: str) -> str:
    """Return the beginning of an id, which tells it from others and opens nothing."""
    return unguessable[:_ID_CHARACTERS]


def app_name(text: str) -> str:
    """Return the beginning of a name that a client has chosen."""
    return text[:_APP_CHARACTERS]


def held_rows(status: EngineStatus, blocks: int, block_bytes: int) -> list[dict[str, Any]]:
    """Return a row for each app, context and purpose that any of the arena's ``blocks`` are held for.

    Each block is counted once: for requests before the next turn, and where several contexts share it, in a
    row of their app or of none. The largest row is the first. The last one, if there is one for ``"other"``,
    is what remains: blocks of requests that end or are not in ``status``, those that hung kernels have left
    unusable, and rows beyond :data:`MAX_ROWS`.
    """
    known: set[int] = set()
    rows = [
        *_rows_of("requests", status.requests, known),
        *_rows_of("next turn", status.awaited_contexts, known),
        ("disk", None, None, len(status.swapped_blocks - known)),
    ]
    largest = sorted((row for row in rows if row[-1]), key=lambda row: -row[-1])[:MAX_ROWS]
    rest = blocks - status.free_blocks - sum(row[-1] for row in largest)
    if rest:
        largest.append(("other", None, None, rest))
    return [
        {
            "held_for": purpose,
            "app": None if app is None else app_name(app),
            "context": None if context is None else short_id(context),
            "bytes": count * block_bytes,
        }
        for purpose, app, context, count in largest
    ]


def _rows_of(purpose: str, holders: Iterable[RequestStatus | AwaitedContext], known: set[int]) -> list[_Row]:
    """Return rows of the blocks of ``holders`` that are not ``known``, and add them to these."""
    contexts: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    apps: defaultdict[str, set[int]] = defaultdict(set)
    for each in holders:
        own = set(each.blocks) - known
        contexts[each.app, each.context_id] |= own
        apps[each.app] |= own
    by_contexts, by_apps = _shared(contexts), _shared(apps)
    known.update(*apps.values())
    return [
        *((purpose, app, context, len(own - by_contexts)) for (app, context), own in contexts.items()),
        *((purpose, app, None, len((own & by_contexts) - by_apps)) for app, own in apps.items()),
        (purpose, None, None, len(by_apps)),
    ]


def _shared(holders: Mapping[Key, set[int]]) -> set[int]:
    """Return the blocks that more than one of ``holders`` has."""
    seen: set[int] = set()
    shared: set[int] = set()
    for own in holders.values():
        shared |= own & seen
        seen |= own
    return shared


class Frames:
    """Makes frames of the models of a server while someone watches. For one event loop."""

    def __init__(
        self,
        models: Callable[[], Sequence[PooledModel]],
        speculation: Callable[[], Mapping[str, Any]] | None = None,
        queue: JobQueue | None = None,
    ) -> None:
        """``models`` returns what is served; ``speculation`` what the agents of this process speculated.

        ``queue`` has the background jobs.
        """
        self._models = models
        self._speculation = speculation
        self._queue = queue
        self._watched: dict[LocalRuntime, _Watched] = {}

    async def next(self) -> Frame:
        """Return the next frame; the first one begins to record what the engines do."""
        models = self._models()
        loaded = [model.runtime for model in models if model.runtime is not None]
        for runtime in [each for each in self._watched if each not in loaded]:
            self._watched.pop(runtime).stack.close()
        for runtime in loaded:
            if runtime not in self._watched:
                self._watched[runtime] = _Watched(runtime)
        watched = [None if each.runtime is None else self._watched[each.runtime] for each in models]
        parts = await asyncio.gather(*map(_part_of, models, watched))
        frame: Frame = {"t": round(time.perf_counter(), 4), "models": parts}
        if self._speculation is not None:
            frame["speculation"] = self._speculation()
        if self._queue is not None:
            frame["background"] = background_part(self._queue)
        return frame

    def stop(self) -> None:
        """Record nothing any more, until the next frame is made."""
        for watched in self._watched.values():
            watched.stack.close()
        self._watched.clear()


class _Watched:
    """A runtime that is recorded, and its requests when its engine was asked last."""

    def __init__(self, runtime: LocalRuntime) -> None:
        self._runtime = runtime
        self.stack = ExitStack()
        self.trace = self.stack.enter_context(runtime.record_trace(_TRACE_LIMIT))
        self.expectation = Expectation()
        self._asked: asyncio.Future[EngineStatus] | None = None
        self._answer: EngineStatus | None = None

    async def status(self) -> EngineStatus:
        """Return the requests and the KV blocks as they were a moment ago at the latest.

        An idle engine is not asked again, so that it can reclaim memory. One whose kernel takes longer than a
        frame is asked once. One that has stopped would never answer.
        """
        if self._runtime.closed:
            return self._without_requests()
        if self._asked is None:
            statistics = self._runtime.statistics()
            free, cached = statistics.free_blocks, statistics.cached_blocks
            if not statistics.engine.running and not statistics.engine.waiting:
                if free == statistics.blocks:
                    self._answer = self._without_requests()
                # Before the first question there is no answer: memory may be held for a next turn.
                last = self._answer
                if last and not last.requests and (last.free_blocks, last.cached_blocks) == (free, cached):
                    return last
            self._asked = asyncio.wrap_future(self._runtime.engine_status(MAX_REQUESTS))
        await asyncio.wait([self._asked], timeout=_ANSWER_S)
        if self._asked.done():
            self._answer, self._asked = self._asked.result(), None
        return self._answer or self._without_requests()

    def _without_requests(self) -> EngineStatus:
        statistics = self._runtime.statistics()
        return EngineStatus(free_blocks=statistics.free_blocks, cached_blocks=statistics.cached_blocks)


def background_part(queue: JobQueue) -> Frame:
    """Return the part of a frame that is about background jobs: those that run, then those that come next.

    It has no times that pass, so that a queue which waits for the machine sends no frames.
    """
    places, obstacle = queue.places(), queue.obstacle
    rows = [
        {
            "id": short_id(job.id),
            "app": app_name(job.app),
            "status": job.status.value,
            "position": place.position,
            "position_at_most": place.position_at_most,
            "done_s": None if place.done_in_s is None else [round(each, 1) for each in place.done_in_s],
        }
        for job, place in itertools.islice(places.items(), MAX_ROWS)
    ]
    waits_for = obstacle.reason.value if places and obstacle else None
    return {"waits_for": waits_for, "unended": len(places), "jobs": rows}


async def _part_of(model: PooledModel, watched: _Watched | None) -> Frame:
    """Return the part of a frame that is about one model."""
    part: Frame = {
        "name": model.name,
        "status": model.status.value,
        "memory_bytes": model.memory_bytes,
        "counts": {name: int(model.count(name)) for name in _COUNTED},
    }
    runtime = model.runtime
    if watched is None or runtime is None:
        return part
    status, now = await watched.status(), time.perf_counter()
    statistics = runtime.statistics()
    block_bytes = statistics.arena_bytes // max(1, statistics.blocks)
    ended = watched.trace.take_requests()
    expected = watched.expectation.seconds(status.requests, now, ended)
    return part | {
        "running": statistics.engine.running,
        "waiting": statistics.engine.waiting,
        "stalled_s": round(statistics.engine.seconds_since_progress, 1),
        "kv": {
            "bytes": statistics.blocks * block_bytes,
            "free_bytes": (status.free_blocks - status.cached_blocks) * block_bytes,
            "cached_bytes": status.cached_blocks * block_bytes,
            "held": held_rows(status, statistics.blocks, block_bytes),
        },
        "requests": _request_rows(status.requests, expected, now, watched.expectation.uncompared),
        "xpus": [role.value for role in _ROLES],
        "kernels": kernel_rows(watched.trace.take_kernels(), MAX_KERNELS),
        "ended": [_ended_row(each) for each in newest_of_each_app(ended, MAX_ENDED)],
        "answered": [
            {"id": short_id(each.request_id), "tools": [app_name(tool) for tool in each.tools]}
            for each in watched.trace.take_answers()[-MAX_ENDED:]
        ],
    }


def _request_rows(
    requests: Sequence[RequestStatus],
    expected: Mapping[str, float | None],
    now: float,
    uncompared: Container[str],
) -> list[Frame]:
    """Return a row for each request, in serving order.

    ``expected`` are seconds until the first token, None where they are not known, and ``uncompared`` as in
    :class:`Expectation`. ``end_s`` in a row is when the answer ends at the latest, at the speed that it has
    had so far.
    """
    any_reactive = any(each.reactive for each in requests)
    rows, position = [], 0
    for each in requests:
        waits = each.state is SequenceState.WAITING
        position += waits
        row: Frame = {
            "id": short_id(each.request_id),
            "app": app_name(each.app),
            "context": short_id(each.context_id),
            "class": _class(each.reactive),
            "state": each.state.value,
            "promoted": each.promoted,
            "position": position if waits else None,
            "age_s": round(now - each.arrived, 2),
            "prefilled": round(min(1.0, each.computed_tokens / each.prompt_tokens), 2),
            "tokens": each.sampled_tokens,
        }
        if each.first_token is None:
            left_s = expected[each.request_id]
            row["first_token_s"] = None if left_s is None else round(left_s, 3)
            if left_s is None:
                late = _UNCOMPARED if each.request_id in uncompared else _LATE
                row["not_known"] = _STARVED if any_reactive and not each.reactive else late
        elif each.sampled_tokens > 1:
            row["end_s"] = round((now - each.first_token) / each.sampled_tokens * each.tokens_left, 2)
        rows.append(row)
    return rows


def newest_of_each_app(ended: Sequence[TracedRequest], most: int) -> list[TracedRequest]:
    """Return at most ``most``, in order: the newest of each app, so that no app leaves less to others."""
    places: Counter[str] = Counter()
    newest = []
    for each in reversed(ended):
        newest.append((places[each.app], each))
        places[each.app] += 1
    kept = sorted(newest, key=lambda ranked: ranked[0])[:most]
    return sorted((each for _, each in kept), key=lambda each: each.ended)


def kernel_rows(kernels: Sequence[TracedKernel], most: int) -> list[list[Any]]:
    """Return at most ``most`` bars of each XPU.

    A bar is XPU, start, seconds, stage, reactive (1) or not, kernels, a request and how many
    others. If there are more kernels, neighbours of one priority become one bar, with the gaps between them.
    """
    bars: dict[Role, list[list[Any]]] = defaultdict(list)
    step = -(-len(kernels) // most) if kernels else 1
    for each in kernels:
        own = bars[each.role]
        reactive = int(each.reactive)
        last = own[-1] if own else None
        if last is not None and last[5] < step and last[4] == reactive:
            last[2] = round(each.ended - last[1], 5)
            last[5] += 1
            continue
        request = short_id(each.request_ids[0]) if each.request_ids else ""
        own.append(
            [
                _ROLES.index(each.role),
                round(each.started, 5),
                round(each.ended - each.started, 5),
                _STAGES.index(each.stage),
                reactive,
                1,
                request,
                max(0, len(each.request_ids) - 1),
            ]
        )
    return [bar for own in bars.values() for bar in own[-most:]]


def _ended_row(request: TracedRequest) -> Frame:
    waits = {
        name: None if at is None else round(at - request.arrived, 3)
        for name, at in (("queued_s", request.started), ("first_token_s", request.first_token))
    }
    return {
        "id": short_id(request.request_id),
        "app": app_name(request.app),
        "class": _class(request.reactive),
        "outcome": request.outcome,
        "t": round(request.ended, 4),
        "total_s": round(request.ended - request.arrived, 3),
        **waits,
    }


def _class(reactive: bool) -> str:
    return "reactive" if reactive else "proactive"
