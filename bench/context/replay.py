"""A trace on one runtime: what each call waited until its context was ready."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

from agentrt.runtime import LocalRuntime, RuntimeConfig, kept_contexts
from agentrt.runtime.context.store.store import ContextStore

from .arena import run_on_engine
from .baseline_swapper import OnDemandSwapper, PolicySwapper
from .disk import SlowDisk, drop_page_cache
from .policies import SwapPolicy
from .switch import switch_seconds
from .texts import TaskTexts
from .traces import Call

if TYPE_CHECKING:
    from agentrt.runtime.output.generation import Generation

_ANSWER_TOKENS: Final = 4
_POLL_S: Final = 0.005
_SPARE_BLOCKS: Final = 2


@dataclass(frozen=True, slots=True)
class Setting:
    """What a trace is replayed with."""

    budget_bytes: int
    """Memory for contexts."""
    arena_bytes: int
    """Those of it that our side has as KV arena."""
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
class _Conversation:
    """A context; each is of an app of its own."""

    app: str
    messages: list[dict[str, str]] = field(default_factory=list)
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
        replayed = _Replay(runtime, setting, texts(_token_counter(runtime)), folder)
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
    settings = policy.settings(setting.budget_bytes, setting.arena_bytes)
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
        self._conversations: dict[int, _Conversation] = {}
        self._begun = 0
        self.switches: list[Switch] = []
        self._runtime.generate([{"role": "user", "content": "Hello!"}], max_tokens=2)  # so that it is warm

    def call(self, call: Call) -> None:
        """Make one call."""
        conversation = self._conversation_of(call)
        prompt = self._texts.take(call.task, max(1, call.tokens - _ANSWER_TOKENS))
        conversation.messages.append({"role": "user", "content": prompt})
        if self._setting.waits:
            wait_until_stored(self._runtime)
        drop_page_cache(self._folder)
        begun = time.perf_counter()
        self._make_room(conversation, call.tokens)
        freeing_s = time.perf_counter() - begun
        made, seconds = self._measured(conversation)
        if conversation.tokens:
            self.switches.append(
                Switch(
                    call.context,
                    conversation.tokens,
                    freeing_s + seconds,
                    freeing_s + made.timing.time_to_first_token_s,
                    made.usage.cached_tokens,
                )
            )
        conversation.messages.append({"role": "assistant", "content": made.text})
        conversation.tokens = made.usage.prompt_tokens

    def _conversation_of(self, call: Call) -> _Conversation:
        """Return the conversation of a call, a new one if there is none, or it would be too long."""
        found = self._conversations.get(call.context)
        if found is not None and found.tokens + call.tokens > self._setting.max_tokens:
            if isinstance(swapper := self._runtime._kept.swapper, OnDemandSwapper):
                swapper.forget(self._runtime, (found.app, ""))
            found = None
        if found is None:
            self._begun += 1
            found = self._conversations[call.context] = _Conversation(f"conversation {self._begun}")
        return found

    def _make_room(self, conversation: _Conversation, tokens: int) -> None:
        swapper = self._runtime._kept.swapper
        if isinstance(swapper, OnDemandSwapper):
            blocks = -(-(conversation.tokens + tokens) // self._runtime._arena.block_tokens) + _SPARE_BLOCKS
            swapper.make_room(self._runtime, (conversation.app, ""), blocks)

    def _measured(self, conversation: _Conversation) -> tuple[Generation, float]:
        """Make a call; return the answer and the seconds until its first new token could be computed."""
        engine = self._runtime._engine
        submit, submitted = engine.submit, list[float]()

        def noted(*arguments: Any, **options: Any) -> Any:
            submitted.append(engine._platform.now())
            return submit(*arguments, **options)

        with patch.object(engine, "submit", noted), self._runtime.record_trace() as trace:
            made = self._runtime.generate(
                conversation.messages,
                app=conversation.app,
                max_tokens=_ANSWER_TOKENS,
                temperature=0,
                ignore_eos=True,
            )
        size = self._runtime._arena.block_tokens
        lost = max(0, conversation.tokens // size * size - made.usage.cached_tokens)
        return made, switch_seconds(trace.kernels, submitted[-1], lost)


def wait_until_stored(runtime: LocalRuntime) -> None:
    """Block until all that ended requests have computed is stored."""
    run_on_engine(runtime, lambda: None)  # a request ends for its caller before its blocks are handed over
    swapper: Any = runtime._kept.swapper
    while swapper is not None and swapper._saver._on_the_way:
        time.sleep(_POLL_S)


def _token_counter(runtime: LocalRuntime) -> Callable[[str], int]:
    tokenizer = runtime._input_processor._tokenizer
    return lambda text: len(tokenizer.encode(text))
