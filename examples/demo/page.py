"""The live page of the demo: what the engine does, and what the agents speculate."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from agentrt.reports import (
    AheadKept,
    CallClaimed,
    CallMissed,
    DraftArrived,
    SpeculationEvent,
    SpeculationWasted,
)
from agentrt.runtime import LocalRuntime, PooledModel
from agentrt.runtime.serving.http.config import ListenConfig
from agentrt.runtime.serving.http.identity import Tokens
from agentrt.runtime.serving.http.listener import bind
from agentrt.runtime.serving.http.run import DrainingServer
from agentrt.runtime.serving.live.feed import LiveFeed
from agentrt.runtime.serving.live.frames import Frames
from agentrt.runtime.serving.live.routes import create_live_app

_COUNTED: Final = ("drafts", "claims", "misses", "wasted", "saved_s")
_MOST_RECENT: Final = 100
_LAST_FRAMES_S: Final = 5.0
"""How long the end of a runtime waits for its last frames; two of them usually take 0.4 s."""


class SpeculationLog:
    """Counts what speculation did, for frames of a live page. An observer, called on any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, float] = dict.fromkeys(_COUNTED, 0)
        self._recent: deque[dict[str, Any]] = deque(maxlen=_MOST_RECENT)

    def on_event(self, event: SpeculationEvent) -> None:
        match event:
            case DraftArrived(tool=tool):
                self._note("drafts", tool, "drafted")
            case CallClaimed(tool=tool):
                self._note("claims", tool, "claimed", event.saved_s)
            case CallMissed(tool=tool):
                self._note("misses", tool, "run when it was called")
            case SpeculationWasted(tool=tool):
                self._note("wasted", tool, "wasted")
            case AheadKept():
                self._note(None, "model request", "sent ahead and kept", event.saved_s)

    def take(self) -> dict[str, Any]:
        """Return the counts, and what has happened since the last call."""
        with self._lock:
            recent = list(self._recent)
            self._recent.clear()
            return {**self._counts, "saved_s": round(self._counts["saved_s"], 3), "recent": recent}

    def _note(self, count: str | None, tool: str, what: str, saved_s: float | None = None) -> None:
        with self._lock:
            if count is not None:
                self._counts[count] += 1
            self._counts["saved_s"] += saved_s or 0.0
            self._recent.append({"tool": tool, "what": what, "saved_s": saved_s})


class DemoPage:
    """A live page of the runtimes that a program opens one after the other."""

    def __init__(self) -> None:
        self.speculation = SpeculationLog()
        self._models: tuple[PooledModel, ...] = ()
        self._feed: LiveFeed | None = None
        self._begun = 0
        self._frame_begins = threading.Condition()

    @contextmanager
    def watching(self, runtime: LocalRuntime) -> Iterator[None]:
        """Show what ``runtime`` does until the block ends; then close it."""
        self._models = (PooledModel.of(runtime),)
        try:
            yield
            self._wait_for_last_frame()
        finally:
            self._models = ()

    @contextmanager
    def served(self) -> Iterator[tuple[str, str]]:
        """Serve the page on a free port of this machine until the block ends: its address, and its token."""
        tokens, token = Tokens.mint()
        config = ListenConfig(port=0, tokens=tokens, drain_s=0)
        self._feed = LiveFeed(lambda: Frames(self._shown, self.speculation.take))
        app = create_live_app(self._feed, config)
        with bind(config) as listener:
            server = DrainingServer(app, config)
            thread = threading.Thread(target=server.run, args=([listener],), name="agentrt-live", daemon=True)
            thread.start()
            try:
                yield f"http://{config.host}:{listener.getsockname()[1]}/", token
            finally:
                server.should_exit = True
                thread.join()

    def _shown(self) -> Sequence[PooledModel]:
        """Return what the frame that begins now shows; the one before has been made."""
        with self._frame_begins:
            self._begun += 1
            self._frame_begins.notify_all()
        return self._models

    def _wait_for_last_frame(self) -> None:
        """Wait until a frame that begins from now on has been made, if a page is open."""
        if self._feed is None or not self._feed.pages:
            return
        with self._frame_begins:
            made = self._begun + 2
            self._frame_begins.wait_for(lambda: self._begun >= made, _LAST_FRAMES_S)
