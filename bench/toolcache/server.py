"""The service of the tool cache bench, in its own process: a runtime that reasons before it calls, and whose
O2 and O3 have switches."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from agentrt.calls import TextDelta

from ..common.served_runtime import RuntimeService, ServedRuntime, exact
from .sides import Optimizations

if TYPE_CHECKING:
    from agentrt.runtime import LocalRuntime
    from agentrt.runtime.drafting.drafter_selector import RequestDrafters
    from agentrt.runtime.request.preparation import Preparation
    from agentrt.runtime.request.request import Request


NANO: Final = "nano"
_REASONING: Final = """\
The user wants one thing, and I have a tool that does it. The request names the values which the tool needs, \
so I can call it at once and need not ask for more. When the tool has returned its result I say in a short \
sentence what was done, in the words of the user, and add nothing that I do not know."""
"""It repeats nothing: a model would go on with that behind the tool's output."""


class ToolCacheSwitches:
    """Switches of the tool cache of one runtime. A :class:`DrafterSelector`."""

    def __init__(self, runtime: LocalRuntime) -> None:
        from agentrt.runtime.drafting.drafter_selector import RequestDrafters

        self.optimizations = Optimizations()
        """What the tool cache does for the requests that start from now on."""
        self._request_drafters = RequestDrafters
        runtime.drafter_selector = self

    def select(self, request: Request, tool_cache: Any) -> RequestDrafters:
        """Return the tool cache alone, with what is switched on: the paper's optimizations are measured."""
        if tool_cache is None:
            return self._request_drafters()
        if not self.optimizations.answers_calls:
            tool_cache.answer_turn = _answer_none
        return self._request_drafters([tool_cache] if self.optimizations.verifies_calls else [])


def _answer_none(end_token: int, text: str, total_tokens: int) -> None:
    pass


def reason_before_calls(runtime: LocalRuntime, count: int) -> None:
    """Make answers that may call tools begin with about ``count`` tokens of text, followed by a call."""
    processor, tokenizer = runtime._input_processor, runtime._tokenizer
    process = processor.process
    # White space before a call is not part of the content that clients send back. The call begins as nano
    # begins calls: behind a text, which it never learned, it may spell it otherwise. All is tokenized in one,
    # as in the next request, which would read again what is cut into other tokens.
    words, text = itertools.cycle(_REASONING.split()), ""
    while len(tokenizer.encode(text)) < count:
        text += f" {next(words)}" if text else next(words)
    thoughts = tokenizer.encode(f"{text.rstrip('.,')}.\n<tool_call>\n" + '{"name": "')

    def process_reasoning(messages: Any, preparation: Preparation | None = None, /, **options: Any) -> Any:
        request = process(messages, preparation, **options)
        if request.grammar_matcher is None or messages[-1]["role"] == "tool":
            return request
        reasoning: Any = _Reasoning(request.grammar_matcher, thoughts)
        return dataclasses.replace(request, grammar_matcher=reasoning)

    processor.process = process_reasoning  # type: ignore[method-assign]


class _Reasoning:
    """Constraint on an answer: fixed tokens first, then another constraint.

    Stands for the reasoning of a larger model: only the decode steps matter, so
    the text is always the same.
    """

    def __init__(self, inner: Any, tokens: Sequence[int]) -> None:
        self._inner = inner
        self._left = list(reversed(tokens))

    @property
    def error(self) -> str | None:
        return self._inner.error  # type: ignore[no-any-return]

    @property
    def active(self) -> bool:
        return bool(self._left) or self._inner.active

    def allows(self, token: int) -> bool:
        return token == self._left[-1] if self._left else self._inner.allows(token)

    def mask_logits(self, logits: Any) -> Any:
        if not self._left:
            return self._inner.mask_logits(logits)
        allowed = logits.copy()
        allowed[:] = -float("inf")
        allowed[self._left[-1]] = 0.0
        return allowed

    def accept_token(self, token: int) -> None:
        if self._left:
            self._left.pop()
        self._inner.accept_token(token)

    def reset(self) -> None:
        self._inner.reset()


APPS = 8192
"""Apps share no prefixes: a request of an app that has sent none finds no prefix cache."""


def token_of(app: int) -> str:
    """Return the token of an app."""
    return f"bench-app-token-{app:06}"


class BenchServer(ServedRuntime):
    """Serves a model on a free port inside a ``with`` block."""

    def __init__(self, model: str, reasoning_tokens: int) -> None:
        """``reasoning_tokens`` tokens precede a call in requests that offer tools and hold no result yet."""
        super().__init__(_Service, model, reasoning_tokens)
        self.model_id = str(self.call("model_id"))

    def use(self, optimizations: Optimizations) -> None:
        self.call("use", optimizations)

    def generate_s(self, options: dict[str, Any]) -> float:
        """Return the seconds of a whole answer inside the process, on the engine that serves."""
        return float(self.call("generate_s", options))

    def first_text_s(self, options: dict[str, Any]) -> float:
        """Return the seconds until the first text of a streamed answer inside the process."""
        return float(self.call("first_text_s", options))


class _Service(RuntimeService):
    """The object in the server's process."""

    def __init__(self, model: str, reasoning_tokens: int) -> None:
        from agentrt.runtime import RuntimeConfig
        from agentrt.runtime.serving.http.identity import Tokens
        from agentrt.runtime.serving.server import ServerConfig

        tokens = Tokens((f"app {app}", token_of(app)) for app in range(APPS))
        config = exact() if model == NANO else RuntimeConfig()
        super().__init__(model, config, ServerConfig(port=0, tokens=tokens))
        self._listener.listen(1024)
        self._switches = ToolCacheSwitches(self._runtime)
        reason_before_calls(self._runtime, reasoning_tokens)
        self._loop = asyncio.new_event_loop()

    def model_id(self) -> str:
        return self._runtime.model_id

    def use(self, optimizations: Optimizations) -> None:
        self._switches.optimizations = optimizations
        self._runtime.drafts = optimizations.takes_predicted_calls

    def generate_s(self, options: dict[str, Any]) -> float:
        return self._loop.run_until_complete(self._generate(options))

    async def _generate(self, options: dict[str, Any]) -> float:
        began = time.perf_counter()
        await self._runtime.agenerate(**options)
        return time.perf_counter() - began

    def first_text_s(self, options: dict[str, Any]) -> float:
        return self._loop.run_until_complete(self._first_text(options))

    async def _first_text(self, options: dict[str, Any]) -> float:
        began, seconds = time.perf_counter(), 0.0
        async for event in self._runtime.stream(**options):
            if not seconds and isinstance(event, TextDelta):
                seconds = time.perf_counter() - began
        return seconds
