"""What the KV memory of a model is held for: rows that add up to all that is held."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from ...engine.engine_status import EngineStatus, RequestStatus
from ...scheduler.block_manager import HeldContext
from .names import app_name, short_id

MAX_ROWS: Final = 40
"""Rows of each model that a frame lists, but for the last, which has the rest."""

Key = TypeVar("Key")
_Row: TypeAlias = tuple[str, str | None, str | None, int]
"""What blocks are held for, app, context, and how many they are. Several apps or contexts are None."""


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
        *_rows_of("next turn", status.held_contexts, known),
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


def _rows_of(purpose: str, holders: Iterable[RequestStatus | HeldContext], known: set[int]) -> list[_Row]:
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
