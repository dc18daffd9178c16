"""`EndpointSpeculator`: drafts by a smaller model at any OpenAI-compatible endpoint (SpecTools §4.1)."""

from __future__ import annotations

import email.utils
import functools
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from types import NoneType
from typing import Any

from agentrt.argument_checks import check_setting
from agentrt.calls import ToolCall, ToolCallFormat, find_tool_call_format, parse_arguments, parse_tool_calls
from agentrt.concurrency.handover import produced_elsewhere
from agentrt.concurrency.hosts import worker_loop
from agentrt.concurrency.merge import merge
from agentrt.concurrency.threads import wait_for
from agentrt.dialects.dialect import Dialect
from agentrt.dialects.endpoint import EndpointDialect, PrioritizedAsyncClient
from agentrt.drafts import DraftCharge, DraftCost, DraftRequest, estimated_tokens
from agentrt.errors import ConfigurationError, MissingExtraError, PredictorError

from .ensemble import CallVotes

_LONGEST_PAUSE_S = 3600.0


_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")


class EndpointSpeculator:
    """Lets ``model`` at an OpenAI-compatible endpoint predict the main model's next call.

    Each sample is a request of its own; all are sent at once. The first is greedy, so that more samples never
    predict worse; the temperatures of the others rise in equal steps to ``temperature``. Each different call
    is yielded once, and when ``agreement`` samples have made the same call the rest are cancelled, because
    they would hardly add another.

    A request is charged when it is sent, with one input token for each four bytes of its messages and tools,
    and corrected by the usage in its answer. One that is cut off stays charged; one that the endpoint refused
    or that did not reach it does not. None is sent that the budget does not allow.

    Nothing is retried: an endpoint that is down, slow or writes garbage costs its drafts, which the report
    says, and nothing else. After a refusal with ``Retry-After``, no request is sent until that time.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        samples: int | None = None,
        temperature: float = 0.7,
        agreement: int = 3,
        format: ToolCallFormat | str | None = None,
        max_tokens: int = 256,
        timeout: float = 30.0,
        input_price: float = 0.0,
        output_price: float = 0.0,
        dialect: Dialect | str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the client; the first request is sent by :meth:`drafts`.

        ``base_url`` and ``api_key`` default as in the OpenAI client. ``samples`` overrides the session's
        number. ``format``, or its name, is how the model writes calls into its text, for servers that do not
        parse them; parsed calls are used where there are any. ``timeout`` is in seconds. The prices are for
        a million tokens, in your currency; with them the cost of drafts is weighed and reported. A request
        has the priority of the model request that it predicts; ``dialect`` is how the endpoint takes it, as
        in the adapters' ``speculate``.

        Raises:
            MissingExtraError: the openai package is not installed.
            ConfigurationError: ``samples`` or ``agreement`` is below 1, there is no API key, or no format or
                dialect of this name.
        """
        try:
            import openai
        except ModuleNotFoundError as error:
            raise MissingExtraError("openai", "openai") from error
        for name, number in (("samples", samples), ("agreement", agreement)):
            check_setting(name, number, (int, NoneType), "a whole number of at least 1")
            if number is not None and number < 1:
                raise ConfigurationError(f"{name} is {number}. Use at least 1.")
        check_setting("model", model, str, "the model's name at the endpoint")
        self.name = f"endpoint {model}"
        self._model = model
        self._samples = samples
        self._temperature = temperature
        self._agreement = agreement
        self._format = None if format is None else find_tool_call_format(format)
        self._max_tokens = max_tokens
        self._prices = input_price, output_price
        self._clock = clock
        self._paused_until = -math.inf
        try:
            client = _client_class(openai.AsyncOpenAI)(
                base_url=base_url, api_key=api_key, timeout=timeout, max_retries=0
            )
        except openai.OpenAIError as error:
            raise ConfigurationError(
                f"{error} Or pass api_key= (any text for servers without keys)."
            ) from error
        client._agentrt_endpoint = EndpointDialect(dialect)
        self._client: openai.AsyncOpenAI = client
        self.shares_cores = client.base_url.host in _THIS_MACHINE

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        """Yield each different call as soon as a sample makes it."""
        pause_s = self._paused_until - self._clock()
        if pause_s > 0:
            raise PredictorError(
                f"{self.name} is over its rate limit. Wait {pause_s:.0f} s; other predictors go on."
            )
        # Connections belong to the loop they were made on. All requests run on the worker loop, so that
        # one set of open connections serves callers on any loop and callers without one.
        produced: AsyncGenerator[ToolCall, None] = produced_elsewhere(
            lambda put: worker_loop.run(self._sample_all(request, put))
        )
        async with aclosing(produced):
            async for call in produced:
                yield call

    async def aclose(self) -> None:
        """Close the connections."""
        closed = worker_loop.run(self._client.close())
        await wait_for(closed)
        closed.result()

    async def _sample_all(self, request: DraftRequest, put: Callable[[ToolCall], None]) -> None:
        samples = self._samples or request.samples
        steps = max(samples - 1, 1)
        input_tokens = estimated_tokens(request)
        temperatures = [self._temperature * step / steps for step in range(samples)]
        votes = CallVotes(self._agreement)
        drafts = merge([self._sample(request, each, input_tokens) for each in temperatures], errors_last=True)
        async with aclosing(drafts):
            async for sample, call in drafts:
                if votes.add(call, sample):
                    put(call)
                if votes.agreed:
                    return

    async def _sample(
        self, request: DraftRequest, temperature: float, input_tokens: int
    ) -> AsyncIterator[ToolCall]:
        charge = DraftCharge(request, self._price)
        if not charge.send(input_tokens):
            return
        try:
            completion = await self._client.chat.completions.create(
                model=self._model,
                messages=request.messages,  # type: ignore[arg-type]
                tools=request.tools,  # type: ignore[arg-type]
                temperature=temperature,
                max_completion_tokens=self._max_tokens,
            )
        except Exception as error:
            if _is_refusal(error):
                charge.cancel()
            self._pause_if_limited(error)
            raise
        charge.correct(
            _tokens(completion.usage, "prompt", input_tokens), _tokens(completion.usage, "completion", 0)
        )
        for call in self._calls(completion):
            yield call

    def _pause_if_limited(self, error: Exception) -> None:
        """Pause until the time in a refusal's ``Retry-After`` header, if it has one."""
        response = getattr(error, "response", None)
        if getattr(error, "status_code", None) in (429, 503) and response is not None:
            pause_s = _retry_after(response.headers)
            if pause_s is not None:
                self._paused_until = self._clock() + min(pause_s, _LONGEST_PAUSE_S)

    def _price(self, input_tokens: int, output_tokens: int) -> DraftCost:
        input_price, output_price = self._prices
        money = (input_tokens * input_price + output_tokens * output_price) / 1e6
        return DraftCost(input_tokens, output_tokens, money)

    def _calls(self, completion: Any) -> list[ToolCall]:
        """Return the calls in an answer; raise on one that cannot be parsed."""
        calls = []
        for choice in completion.choices:
            native = choice.message.tool_calls or ()
            calls += [
                ToolCall(call.function.name, parse_arguments(call.function.arguments)) for call in native
            ]
            if not native and self._format is not None:
                calls += parse_tool_calls(choice.message.content or "", self._format)[1]
        return calls


@functools.cache
def _client_class(base: Any) -> Any:
    return type(base.__name__, (PrioritizedAsyncClient, base), {"__doc__": base.__doc__})


def _tokens(usage: Any, kind: str, estimated: int) -> int:
    """Return a count of an answer's usage, or the estimate where the answer has none that can be right."""
    count = getattr(usage, f"{kind}_tokens", None)
    return count if isinstance(count, int) and count > 0 else estimated


def _is_refusal(error: Exception) -> bool:
    """Whether an error of the client says that no model has read the request."""
    not_connected = type(error.__cause__).__name__ in ("ConnectError", "ConnectTimeout", "PoolTimeout")
    return not_connected or isinstance(getattr(error, "status_code", None), int)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds in a ``Retry-After`` header, a number or a date; None if there is no such header."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        return seconds if 0 <= seconds < math.inf else None
    try:
        when = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
    except (ValueError, TypeError):
        return None
    return max(0.0, when.timestamp() - time.time())
