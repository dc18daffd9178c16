"""An app deletes everything that is kept of it, on the real runtime: on disk, in memory, in the KV arena."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agentrt.runtime import LocalRuntime
from agentrt.runtime.kv.store.store import ContextStore
from tests.patience import until
from tests.runtime.conftest import Gate

PROMPT = [{"role": "user", "content": "Find my notes about lasagne. " * 20}]
PLACES = pytest.mark.parametrize("place", ["arena", "memory", "folder"])


@pytest.fixture
def opened(tmp_path: Path, open_runtime: Callable[..., LocalRuntime]) -> Callable[[str], LocalRuntime]:
    """Opens runtimes that keep contexts in a place."""
    settings: dict[str, Any] = {
        "arena": {},
        "memory": {"context_memory_bytes": 2**24},
        "folder": {"context_folder": tmp_path / "contexts", "context_memory_bytes": 2**24},
    }
    return lambda place: open_runtime(**settings[place])


def cached(runtime: LocalRuntime, app: str, **options: Any) -> int:
    return runtime.generate(PROMPT, app=app, max_tokens=2, **options).usage.cached_tokens


def wait_for_store(runtime: LocalRuntime) -> None:
    """Wait until all that has ended is stored: the scheduler hands it over behind the answer."""
    runtime.generate([{"role": "user", "content": "x"}], max_tokens=1)
    if (swapper := runtime._kept.swapper) is not None:
        until(lambda: not swapper.statistics().waiting_chunks)


def stored(runtime: LocalRuntime, app: str) -> list[str]:
    store = runtime._kept.store
    assert isinstance(store, ContextStore)
    return sorted(context.id.partition("_")[0] for context in store.contexts(app))


def in_memory(runtime: LocalRuntime, app: str) -> int:
    assert runtime._kept.swapper is not None
    return len(runtime._kept.swapper._tier.hashes(app))


@PLACES
def test_nothing_is_found_again(opened: Callable[[str], LocalRuntime], place: str) -> None:
    runtime = opened(place)
    assert [cached(runtime, app) for app in ("mine", "other")] == [0, 0]
    wait_for_store(runtime)
    runtime.bind("mine").delete_all()
    assert cached(runtime, "mine") == 0
    assert cached(runtime, "mine") > 0
    assert cached(runtime, "other") > 0


@pytest.mark.check
def test_nothing_is_left_in_memory_or_on_disk(opened: Callable[[str], LocalRuntime]) -> None:
    runtime = opened("folder")
    mine = runtime.bind("mine")
    for app in ("mine", "other"):
        cached(runtime, app)
        cached(runtime, app, session="chat 7")
        runtime.bind(app).call(runtime.bind(app).new_context(), PROMPT, max_tokens=2)
    wait_for_store(runtime)
    assert stored(runtime, "mine") == ["ctx", "ctx", "kv"]
    assert in_memory(runtime, "mine") == in_memory(runtime, "other") > 0
    asyncio.run(mine.adelete_all())
    assert stored(runtime, "mine") == mine.contexts() == []
    assert in_memory(runtime, "mine") == 0
    assert stored(runtime, "other") == ["ctx", "ctx", "kv"]
    assert in_memory(runtime, "other") > 0
    runtime.close()
    runtime = opened("folder")
    assert stored(runtime, "mine") == []
    assert cached(runtime, "mine") == 0
    assert cached(runtime, "other") > 0
    runtime.close()
    runtime = opened("folder")
    assert stored(runtime, "mine") == ["kv"], "what was computed later"
    assert cached(runtime, "mine") > 0


@pytest.mark.check
@pytest.mark.matrix
@pytest.mark.parametrize("place", ["memory", "folder"])
@pytest.mark.parametrize("session", [None, "chat 7"])
def test_requests_in_progress_go_on_and_leave_nothing(
    opened: Callable[[str], LocalRuntime],
    hold: Callable[[LocalRuntime], Gate],
    place: str,
    session: str | None,
) -> None:
    runtime = opened(place)
    gate = hold(runtime)
    with ThreadPoolExecutor(1) as pool:
        request = pool.submit(cached, runtime, "mine", session=session)
        gate.arrived()
        runtime.bind("mine").delete_all()
        gate.open()
        assert request.result(60) == 0
    wait_for_store(runtime)
    assert runtime.bind("mine").contexts() == []
    assert in_memory(runtime, "mine") == 0
    if place == "folder":
        assert stored(runtime, "mine") == []
    assert cached(runtime, "mine") == 0
