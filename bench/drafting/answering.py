"""Answers of one runtime whose drafters the bench chooses, and what each answer took."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ..engines import side as engines
from .prompt_sets import Prompt
from .sides import Vanilla

if TYPE_CHECKING:
    from agentrt.calls import ToolCall
    from agentrt.runtime import LocalRuntime
    from agentrt.runtime.drafting.drafter import DraftCompleter, Drafter
    from agentrt.runtime.drafting.drafter_selector import AppDrafterSelector, RequestDrafters
    from agentrt.runtime.engine.output.generation import Generation
    from agentrt.runtime.request.request import Request
    from agentrt.runtime.scheduler.draft import Draft

NPU_TOKENS: Final = 32
"""Tokens of the simulated NPU's graph for decoding."""
DRAFTS: Final[dict[str, Any]] = {"drafts": True}
"""The setting with which the runtime drafts."""


@dataclass(slots=True)
class Counts:
    """What the drafters of the requests so far did."""

    passes: list[int] = field(default_factory=list)
    """Draft tokens, right or wrong, of each forward pass that sampled, prefill's included."""
    sampled: list[int] = field(default_factory=list)
    """Tokens that each of them added to the answer, end tokens excepted."""
    seconds: float = 0.0
    """Time in the drafters."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer."""

    token_ids: tuple[int, ...]
    decode_s: float
    """From the first token to the last: without prefill."""
    total_s: float
    passes: int
    """Forward passes behind the first token."""
    verified: int
    """Draft tokens in them."""
    drafting_s: float
    """Time in the drafters, which is part of the decode time."""
    calls: tuple[ToolCall, ...] = ()
    steps: tuple[tuple[int, int], ...] = ()
    """Draft tokens of each of these passes, and tokens that it added; empty where nothing drafts."""

    @classmethod
    def of_peer(cls, answer: engines.Answer) -> Answer:
        """Return the answer of another engine, which does not tell its forward passes."""
        return cls(answer.token_ids, answer.decode_s, answer.total_s, passes=0, verified=0, drafting_s=0.0)

    @property
    def decoded(self) -> int:
        """Tokens behind the first one, which prefill computes."""
        return len(self.token_ids) - 1


class AnsweringRuntime:
    """A runtime whose requests are drafted for as a side says. Used by one thread."""

    def __init__(self, runtime: LocalRuntime) -> None:
        """Select the drafters of the requests of ``runtime`` from now on."""
        from agentrt.runtime.drafting.drafter_selector import AppDrafterSelector

        own = runtime.drafter_selector
        assert isinstance(own, AppDrafterSelector)
        self._runtime = runtime
        self._selector = _SideSelector(own)
        self._draft_lengths = runtime._scheduler._builder._draft_lengths
        self._shorten = self._draft_lengths.shorten
        self._free_tokens = runtime._scheduler._builder._free_tokens
        self._kernel_limit_s = runtime._scheduler._builder.kernel_limit_s
        runtime.drafter_selector = self._selector

    @property
    def runtime(self) -> LocalRuntime:
        return self._runtime

    def prompt_tokens(self, prompt: Prompt) -> list[int]:
        """Return the token ids of a rendered prompt."""
        request = self._runtime._input_processor.process(prompt.messages, **_tools(prompt))
        return request.prompt_token_ids

    def prefill(self, prompt: Prompt) -> float:
        """Compute a prompt into the prefix cache, where its answers find it; return the seconds it took."""
        return self.answer(Vanilla(), prompt, 1).total_s

    def use(self, side: Vanilla) -> None:
        """Draft for the requests that start from now on as ``side`` does."""
        self._selector.use(side)
        shorten: Any = self._shorten
        if side.verifies_all:
            shorten = partial(_keep, side.most_verified)
        self._draft_lengths.shorten = shorten  # type: ignore[method-assign]
        builder: Any = self._runtime._scheduler._builder
        builder.kernel_limit_s = (lambda *_: math.inf) if side.calibrates else self._kernel_limit_s
        builder._free_tokens = (lambda: NPU_TOKENS) if side.branches else self._free_tokens

    def answer(self, side: Vanilla, prompt: Prompt, max_tokens: int, **options: Any) -> Answer:
        """Answer one prompt, greedily unless ``options`` say otherwise."""
        self.use(side)
        asked = {"app": side.app, **_tools(prompt), **options}
        made = self._runtime.generate(prompt.messages, max_tokens=max_tokens, **asked)
        return self._answer_of(made)

    def answer_predicted(
        self, side: Vanilla, prompt: Prompt, max_tokens: int, predicted: Sequence[ToolCall]
    ) -> Answer:
        """Answer one prompt as :meth:`answer` does; the calls ``predicted`` are submitted when it begins."""
        import asyncio

        async def made() -> Generation:
            stream = await self._runtime.start(prompt.messages, max_tokens=max_tokens, **_tools(prompt))
            for call in predicted:
                stream.tool_outputs.predict(call.name, call.arguments)
            last: Any = [event async for event in stream.events()][-1]
            generation: Generation = last.generation
            return generation

        self.use(side)
        return self._answer_of(asyncio.run(made()))

    def answer_all(self, side: Vanilla, prompts: Sequence[Prompt], max_tokens: int) -> tuple[float, int]:
        """Answer all prompts at once; return the seconds until the last ended, and the number of tokens."""
        import asyncio

        async def all_at_once() -> list[Generation]:
            return await asyncio.gather(
                *(self._runtime.agenerate(each.messages, max_tokens=max_tokens) for each in prompts)
            )

        self.use(side)
        begun = time.perf_counter()
        made = asyncio.run(all_at_once())
        return time.perf_counter() - begun, sum(len(each.token_ids) for each in made)

    def _answer_of(self, made: Generation) -> Answer:
        counts, decoded = self._selector.counts, len(made.token_ids) - 1
        return Answer(
            made.token_ids,
            made.timing.total_s - made.timing.time_to_first_token_s,
            made.timing.total_s,
            len(counts.passes) - 1 if counts.passes else decoded,  # without drafters each token is a pass
            sum(counts.passes),
            counts.seconds,
            made.tool_calls,
            tuple(zip(counts.passes, counts.sampled, strict=True))[1:],
        )


class _SideSelector:
    """Selects the drafters of a side, and counts what they do."""

    def __init__(self, own: AppDrafterSelector) -> None:
        self._own = own
        self.use(Vanilla())

    def use(self, side: Vanilla) -> None:
        """Draft for the requests that start from now on as ``side`` does, and count anew."""
        self._side = side
        token_texts = self._own.token_texts if side.follows_grammar else None
        self._selector = replace(
            self._own, histories=side.histories, token_texts=token_texts, from_logits=side.branches
        )
        self.counts = Counts()

    def select(self, request: Request, tool_cache: Drafter | None) -> RequestDrafters:
        own = self._selector.select(request, tool_cache)
        completer: Any = None if own.completer is None else _Timed(own.completer, self.counts)
        return replace(own, drafters=self._drafters(request, own), completer=completer)

    def _drafters(self, request: Request, own: RequestDrafters) -> list[Drafter]:
        drafters = self._side.drafters(request, own.drafters)
        if not drafters:
            return []
        timed: list[Any] = [_Timed(each, self.counts) for each in drafters]
        return [_PassCounter(self.counts), *timed]


def _keep(most: int, chunks: list[Any], *_: object) -> None:
    """Cut drafts to ``most`` tokens, in place of :meth:`DraftLengths.shorten`."""
    chunks[:] = [chunk._replace(draft=chunk.draft[:most]) for chunk in chunks]


def _tools(prompt: Prompt) -> dict[str, Any]:
    return {"tools": prompt.tools, "tool_choice": "required"} if prompt.tools else {}


class _PassCounter:
    """Counts forward passes; drafts nothing."""

    reads_prompt = False
    alternatives = ()

    def __init__(self, counts: Counts) -> None:
        from agentrt.runtime.scheduler.draft import NO_DRAFT

        self._counts = counts
        self._no_draft = NO_DRAFT

    def observe(self, verified: Sequence[int], logits: Any) -> None:
        self._counts.passes.append(len(verified))
        self._counts.sampled.append(0)

    def append(self, token: int) -> None:
        self._counts.sampled[-1] += 1

    def draft(self) -> Draft:
        return self._no_draft


class _Timed:
    """A drafter, or what completes drafts, with the time that its methods take."""

    def __init__(self, timed: Drafter | DraftCompleter, counts: Counts) -> None:
        self._timed = timed
        for name in ("observe_prompt", "observe", "append", "draft", "complete"):
            if (method := getattr(timed, name, None)) is not None:
                setattr(self, name, _timed(method, counts))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._timed, name)


def _timed(method: Callable[..., Any], counts: Counts) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        begun = time.perf_counter()
        returned = method(*arguments)
        counts.seconds += time.perf_counter() - begun
        return returned

    return call
