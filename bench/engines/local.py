"""agentrt's runtime in the process of the bench, without a server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from ..common.machine import peak_memory_bytes
from .side import Answer, Messages, Request, Run

if TYPE_CHECKING:
    from agentrt.runtime import LocalRuntime
    from agentrt.runtime.engine.output.generation import Generation
    from agentrt.runtime.engine.trace import TracedKernel

OURS: Final = "agentrt"
"""Its name in tables."""
_POLL_S: Final = 0.005


class AgentRT:
    """A :class:`LocalRuntime`; a :class:`Side`."""

    def __init__(self, model: str, settings: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Open ``model`` with these settings of :class:`RuntimeConfig`."""
        from agentrt.runtime import LocalRuntime, RuntimeConfig

        self.steps: list[tuple[str, float]] = []
        """The steps of opening, and when each began."""
        self.runtime = LocalRuntime.open(
            model,
            RuntimeConfig(**settings),
            on_step=lambda step: self.steps.append((step.name, time.perf_counter())),
        )
        self.context_length = self.runtime.context_length
        format = self.runtime.call_format
        self.call_format = None if format is None else format.name
        """How the model is expected to write calls; None where its chat template takes no tools."""

    def generate(self, request: Request) -> Answer:
        begun = time.perf_counter()
        made = self.runtime.generate(request.messages, **_options(request))
        first_s = made.timing.time_to_first_token_s
        return _answer(request, made, first_s, time.perf_counter() - begun)

    def stream(self, requests: Sequence[Request]) -> Run:
        return asyncio.run(self._stream(requests))

    async def _stream(self, requests: Sequence[Request]) -> Run:
        begun = time.perf_counter()
        answers = await asyncio.gather(*(self._one(request, begun) for request in requests))
        return Run(tuple(answers), time.perf_counter() - begun)

    async def _one(self, request: Request, begun: float) -> Answer:
        await asyncio.sleep(begun + request.at_s - time.perf_counter())
        late = time.perf_counter() - begun - request.at_s
        made = await self.runtime.agenerate(request.messages, **_options(request))
        timing = made.timing
        return _answer(request, made, late + timing.time_to_first_token_s, late + timing.total_s)

    def kernels(self, request: Request) -> list[TracedKernel]:
        with self.runtime.record_trace() as trace:
            self.generate(request)
        return list(trace.kernels)

    def prompt_tokens(self, messages: Messages) -> list[int]:
        return list(self.runtime._input_processor.process(messages).prompt_token_ids)

    def wait_until_stored(self) -> None:
        wait_until_stored(self.runtime)

    def peak_memory(self) -> int | None:
        return peak_memory_bytes()

    def close(self) -> None:
        """See :meth:`Side.close`. All contexts are stored then."""
        self.runtime.close()


def run_on_engine(runtime: LocalRuntime, function: Any) -> Any:
    """Return the result of ``function()``, which is called on the engine thread."""
    from concurrent.futures import Future

    done: Future[Any] = Future()

    def call(_: object) -> None:
        try:
            done.set_result(function())
        except BaseException as error:  # noqa: BLE001 - it is raised where it was waited for
            done.set_exception(error)

    runtime._engine._commands.put((call, None))
    return done.result()


def wait_until_stored(runtime: LocalRuntime) -> None:
    """Block until the contexts of all ended requests of ``runtime`` are stored."""
    run_on_engine(runtime, lambda: None)  # a request ends for its caller before its blocks are handed over
    while (contexts := runtime.statistics().contexts) is not None and contexts.waiting_chunks:
        time.sleep(_POLL_S)


def _options(request: Request) -> dict[str, Any]:
    from agentrt.priority import Priority

    priority = Priority.REACTIVE if request.reactive else Priority.PROACTIVE
    return {
        "tools": request.tools, "max_tokens": request.max_tokens, "ignore_eos": request.ignore_eos,
        "temperature": 0, "priority": priority, "app": request.app,
    }  # fmt: skip


def _answer(request: Request, made: Generation, first_s: float, total_s: float) -> Answer:
    return Answer(
        request,
        made.usage.prompt_tokens,
        made.usage.completion_tokens,
        first_s,
        total_s,
        made.timing.total_s - made.timing.time_to_first_token_s,
        tuple(made.token_ids),
        made.text,
        tuple(made.tool_calls),
        made.usage.cached_tokens,
    )
