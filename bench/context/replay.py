"""A trace on one runtime: what each call waited until its context was ready."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

from agentrt.runtime import LocalRuntime
from agentrt.runtime.kv.store.store import ContextStore

from ..engines.local import wait_until_stored
from .disk import SlowDisk, drop_page_cache
from .swappers import OnDemandSwapper, PolicySwapper, SwapPolicy, grouped, open_with_swapper
from .traces import Call, TaskTexts

if TYPE_CHECKING:
    from agentrt.runtime.engine.output.generation import Generation
    from agentrt.runtime.engine.trace import TracedKernel

_ANSWER_TOKENS: Final = 4
_APP: Final = "trace"
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
    disk: float | None = None
    """Bytes a second of the disk; None for that of the machine."""


@dataclass(frozen=True, slots=True)
class Switch:
    """One call of a context that had been called before."""

    call: int
    """Its place in the trace, the same on all sides."""
    tokens: int
    """Of the context before the call."""
    seconds: float
    """Until its first new token could be computed."""
    ttft_s: float
    cached_tokens: int
    read_bytes: int = 0
    """Bytes of chunks that were brought back for it."""


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

    ``texts`` returns the prompts for a counter of tokens. The first call of a context is no switch. Minutes
    lie between two calls: all is stored by then, and nothing of ``folder`` is in memory.
    """
    with _open(model, policy, setting, folder) as runtime:
        replayed = _Replay(runtime, setting, texts(runtime.count_tokens), folder)
        for place, call in enumerate(trace):
            replayed.call(place, call)
        return replayed.switches


@contextmanager
def _open(model: str, policy: SwapPolicy, setting: Setting, folder: Path) -> Iterator[LocalRuntime]:
    """Open the model with a swapper of the policy, and a disk of the setting."""
    swapper: Any = PolicySwapper if policy.ahead_of_time else OnDemandSwapper
    settings, store = policy.settings(setting.budget_bytes, setting.context_bytes), None
    with ExitStack() as stack:
        stack.enter_context(grouped(policy.group))
        if setting.disk is None:
            settings["context_folder"] = folder
        else:
            store = stack.enter_context(ContextStore(folder, disk=SlowDisk(setting.disk)))
        opened = open_with_swapper(model, partial(swapper, policy), store, **settings)
        yield stack.enter_context(opened)


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

    def call(self, place: int, call: Call) -> None:
        called = self._called_by(call)
        prompt = self._texts.take(call.task, max(1, call.tokens - _ANSWER_TOKENS))
        wait_until_stored(self._runtime)
        drop_page_cache(self._folder)
        read = self._read_bytes()
        begun = time.perf_counter()
        self._make_room(called, call.tokens)
        freeing_s = time.perf_counter() - begun
        made, seconds = self._measured(called, prompt)
        if called.tokens:
            first_s = freeing_s + made.timing.time_to_first_token_s
            switch = Switch(
                *(place, called.tokens, freeing_s + seconds, first_s, made.usage.cached_tokens),
                read_bytes=self._read_bytes() - read,
            )
            self.switches.append(switch)
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

    def _read_bytes(self) -> int:
        swapper = self._runtime._kept.swapper
        return 0 if swapper is None else swapper.statistics().bytes_in

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


def switch_seconds(kernels: Iterable[TracedKernel], submitted: float, lost: int) -> float:
    """Return the seconds from ``submitted`` until the first new token of a prompt could be computed.

    ``kernels`` are those of one request, which was served alone. The first ``lost`` tokens that they compute
    were known before: of a batch that computes both, they take their share of the time.
    """
    batches: dict[int, list[TracedKernel]] = {}
    for kernel in kernels:
        batches.setdefault(kernel.batch_id, []).append(kernel)
    end = submitted
    for batch in batches.values():
        begun, tokens = batch[0].started, batch[0].tokens
        if not lost:
            return begun - submitted
        known = min(lost, tokens)
        end = begun + (batch[-1].ended - begun) * known / tokens
        lost -= known
        if known < tokens:
            return end - submitted
    return end - submitted
