"""A trace on one runtime: what each call waited until its context was ready."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

from agentrt.runtime import LocalRuntime, RuntimeConfig
from agentrt.runtime.contexts import kept_contexts
from agentrt.runtime.kv.store.store import ContextStore

from .arena import run_on_engine
from .baseline_swapper import OnDemandSwapper, PolicySwapper
from .disk import SlowDisk, drop_page_cache
from .policies import SwapPolicy
from .switch import switch_seconds
from .texts import TaskTexts
from .traces import Call

if TYPE_CHECKING:
    from agentrt.runtime.engine.output.generation import Generation

_ANSWER_TOKENS: Final = 4
_APP: Final = "trace"
_POLL_S: Final = 0.005
_SPARE_BLOCKS: Final = 2


@dataclass(frozen=True, slots=True)
class Setting:
    """What a trace is replayed with."""

    budget_bytes: int
    """Memory for contexts."""
    context_bytes: float
    """Of a context of full length at 8 bits."""
    max_tokens: int
    """Of one context: one that would become longer is deleted and begun again."""
    waits: bool = True
    """Whether a call waits until all contexts are stored, as it does in a trace with minutes between calls.
    Otherwise it waits for its time in the trace."""
    disk: float | None = None
    """Bytes a second of the disk; None for that of the machine."""


@dataclass(frozen=True, slots=True)
class Switch:
    """One call of a context that had been called before."""

    context: int
    tokens: int
    """Of the context before the call."""
    seconds: float
    """Until its first new token could be computed."""
    ttft_s: float
    cached_tokens: int


@dataclass(slots=True)
class _Called:
    """A context that is called."""

    id: str
    tokens: int = 0
    """Of the prompt of its last call."""


def replay(
    model: str,
    policy: SwapPolicy,
    trace: Sequence[Call],
    setting: Setting,
    texts: Callable[[Callable[[str], int]], TaskTexts],
    folder: Path,
) -> list[Switch]:
    """Make the calls of a trace one after the other, with contexts in ``folder``; return the switches.

    ``texts`` returns the prompts for a counter of tokens. The first call of a context is no switch. Nothing
    of ``folder`` is in memory before a call, as minutes lie between two of them.
    """
    with _open(model, policy, setting, folder) as runtime:
        replayed = _Replay(runtime, setting, texts(runtime.count_tokens), folder)
        begun = time.monotonic()
        for call in trace:
            if not setting.waits:
                time.sleep(max(0.0, begun + call.at_s - time.monotonic()))
            replayed.call(call)
        return replayed.switches


@contextmanager
def _open(model: str, policy: SwapPolicy, setting: Setting, folder: Path) -> Iterator[LocalRuntime]:
    """Open the model with a swapper of the policy, and a disk of the setting."""
    swapper: Any = PolicySwapper if policy.ahead_of_time else OnDemandSwapper
    settings = policy.settings(setting.budget_bytes, setting.context_bytes)
    known = {name: value for name, value in settings.items() if name in RuntimeConfig.model_fields}
    with ExitStack() as stack:
        if setting.disk is None:
            known["context_folder"] = folder
            store = None
        else:
            store = stack.enter_context(ContextStore(folder, disk=SlowDisk(setting.disk)))
        with patch.object(kept_contexts, "Swapper", partial(swapper, policy)):
            runtime = LocalRuntime.open(model, RuntimeConfig(**known), context_store=store)
        yield stack.enter_context(runtime)


class _Replay:
    def __init__(self, runtime: LocalRuntime, setting: Setting, texts: TaskTexts, folder: Path) -> None:
        self._runtime = runtime
        self._setting = setting
        self._texts = texts
        self._folder = folder
        self._service = runtime.bind(_APP)
        self._called: dict[int, _Called] = {}
        self.switches: list[Switch] = []
        self._runtime.generate([{"role": "user", "content": "Hello!"}], max_tokens=2)  # so that it is warm

    def call(self, call: Call) -> None:
        """Make one call."""
        called = self._called_by(call)
        prompt = self._texts.take(call.task, max(1, call.tokens - _ANSWER_TOKENS))
        if self._setting.waits:
            wait_until_stored(self._runtime)
        drop_page_cache(self._folder)
        begun = time.perf_counter()
        self._make_room(called, call.tokens)
        freeing_s = time.perf_counter() - begun
        made, seconds = self._measured(called, prompt)
        if called.tokens:
            self.switches.append(
                Switch(
                    call.context,
                    called.tokens,
                    freeing_s + seconds,
                    freeing_s + made.timing.time_to_first_token_s,
                    made.usage.cached_tokens,
                )
            )
        called.tokens = made.usage.prompt_tokens

    def _called_by(self, call: Call) -> _Called:
        """Return the context of a call, a new one if there is none, or it would be too long."""
        found = self._called.get(call.context)
        if found is not None and found.tokens + call.tokens > self._setting.max_tokens:
            wait_until_stored(self._runtime)
            self._service.delete(found.id)
            if isinstance(swapper := self._runtime._kept.swapper, OnDemandSwapper):
                swapper.forget(self._runtime, (_APP, found.id))
            found = None
        if found is None:
            found = self._called[call.context] = _Called(self._service.new_context().id)
        return found

    def _make_room(self, called: _Called, tokens: int) -> None:
        swapper = self._runtime._kept.swapper
        if isinstance(swapper, OnDemandSwapper):
            blocks = -(-(called.tokens + tokens) // self._runtime._arena.block_tokens) + _SPARE_BLOCKS
            swapper.make_room(self._runtime, (_APP, called.id), blocks)

    def _measured(self, called: _Called, prompt: str) -> tuple[Generation, float]:
        """Make a call; return the answer and the seconds until its first new token could be computed."""
        engine = self._runtime._engine
        submit, submitted = engine.submit, list[float]()

        def noted(*arguments: Any, **options: Any) -> Any:
            submitted.append(engine._platform.now())
            return submit(*arguments, **options)

        with patch.object(engine, "submit", noted), self._runtime.record_trace() as trace:
            made = self._service.call(
                called.id, prompt, max_tokens=_ANSWER_TOKENS, temperature=0, ignore_eos=True
            )
        size = self._runtime._arena.block_tokens
        lost = max(0, called.tokens // size * size - made.usage.cached_tokens)
        return made, switch_seconds(trace.kernels, submitted[-1], lost)


def wait_until_stored(runtime: LocalRuntime) -> None:
    """Block until all that ended requests have computed is stored."""
    run_on_engine(runtime, lambda: None)  # a request ends for its caller before its blocks are handed over
    while (contexts := runtime.statistics().contexts) is not None and contexts.waiting_chunks:
        time.sleep(_POLL_S)
