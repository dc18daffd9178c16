"""Speculation for a tool loop without a framework."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NoReturn, Self, TypeAlias

from ..argument_checks import check_field, check_messages
from ..calls import ToolCall, parse_arguments
from ..config import SpeculationConfig
from ..drafts import DraftRequest, Speculator
from ..errors import ConfigurationError, InvalidRequestError
from ..lookahead.model_request import request_key
from ..reports.events import SpeculationObserver
from ..reports.report import SpeculationReport
from ..toolcache import result_text
from ..tools.restrictions import offered_tools
from ..tools.scopes import within_scope
from ..tools.toolbox import Toolbox
from .turn import Turn
from .turns import Run, Turns


class SpeculationSession:
    """Speculates during the model requests of a tool loop that you write yourself.

    ::

        async with SpeculationSession([search_notes, read_note], [predictor]) as session:
            with session.turn(messages, schemas) as turn:       # starts the predictors
                answer = await my_model(messages, schemas)
                turn.bind(answer.calls)                         # keeps right drafts, cancels the others
            results = [await session.acall(call) for call in answer.calls]

    ``tools`` are those declared ``@speculable``; make calls of other tools yourself. The event loop is
    asyncio's; in code without one use ``with`` and :meth:`call`. Everything that a session has started ends
    with it.

    A session is one run: give each user and each conversation a session of its own.
    """

    def __init__(
        self,
        tools: Sequence[object],
        predictors: Speculator | Sequence[Speculator],
        *,
        samples: int = 1,
        config: SpeculationConfig | None = None,
        observers: Sequence[SpeculationObserver] = (),
    ) -> None:
        """``samples`` is the number of drafts that each predictor samples (SpecTools' λ).

        Raises:
            ConfigurationError: a tool is not speculable, or another argument is of the wrong kind.
        """
        self._toolbox = Toolbox(tools)
        self._turns = Turns(predictors, samples=samples, config=config, observers=observers)
        self._scope = object()  # a session is a run of its own
        self._run: Run | None = None
        self._exit = AsyncExitStack()
        self._exit_sync = ExitStack()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Raise :class:`ConfigurationError`: a session can be neither copied nor pickled."""
        raise ConfigurationError(
            "a session is one run and cannot be copied. Create one for each conversation, of the same tools."
        )

    async def __aenter__(self) -> Self:
        """Open the session on this event loop."""
        self._exit.enter_context(within_scope(self._scope))
        run = self._run = Run(self._scope)
        self._exit.push_async_callback(run.aclose)
        return self

    async def __aexit__(self, *error: object) -> None:
        """Cancel everything that is still running and wait until it has stopped."""
        self._close()
        await self._exit.aclose()

    def __enter__(self) -> Self:
        """Open the session for code without an event loop: predictors run on agentrt's worker loop."""
        self._exit_sync.enter_context(within_scope(self._scope))
        self._run = Run(self._scope, blocking=True)
        return self

    def __exit__(self, *error: object) -> None:
        """Cancel everything that is still running."""
        self._close()
        self._exit_sync.close()

    def _close(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            self._turns.end_run(run)
            run.close()

    def turn(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Turn:
        """Start speculating on the answer to ``messages``; use the turn as a context manager.

        Both arguments have the shape of OpenAI's chat completions and go to the predictors. Only tools named
        in ``tools`` run speculatively; without any, because your code describes them elsewhere, all may.

        Raises:
            ConfigurationError: the session is not open.
            InvalidRequestError: ``messages`` or ``tools`` is no list of mappings.
        """
        _check_request(messages, tools)
        # Lists of its own: the caller's may grow before a predictor reads them.
        return self._start(list(messages), list(tools))

    def _start(
        self, messages: Sequence[Message], tools: Sequence[Message], main: SessionRequest | None = None
    ) -> Turn:
        if self._run is None:
            raise ConfigurationError("the session is not open. Use it in a with or async with block.")
        return self._turns.start(
            lambda: DraftRequest(messages, tools),
            tools=self._toolbox.tools,
            offered=offered_tools(tools) or None,
            answered=answered_ids(messages),
            run=self._run,
            ahead=lambda: main,
        )

    async def ask(self, model: Model, messages: Sequence[Message], tools: Sequence[Message]) -> Message:
        """Call ``model`` with ``messages`` and speculate meanwhile; return its answer.

        This is :meth:`turn` for a model that is an async function of messages and tools and returns an
        assistant's message, all in the shape of chat completions. It lets the session send requests ahead,
        if ``turn_ahead`` of the configuration allows it. An ahead answer can be kept only if tool results
        are put into the messages unchanged where they are text, and as JSON otherwise.

        The answer is a mapping. Its ``tool_calls``, which may be missing or None, are a list of
        ``{"id": ..., "type": "function", "function": {"name": ..., "arguments": ...}}`` with the arguments as
        JSON text. Calls whose arguments are not JSON are left out of speculation.

        Raises:
            ConfigurationError: the session is not open.
            InvalidRequestError: ``model`` is no async function, or its answer, ``messages`` or ``tools`` do
                not have this shape.
        """
        _check_request(messages, tools)
        # A copy: the caller's history grows before the next request is known.
        main = SessionRequest(model, list(messages), tools, self._turns.predictors)
        with self._start(main.messages, tools, main) as turn:
            ahead = [message async for message in turn.lookahead_answer()]
            answer = ahead[0] if ahead else await answer_of(model, messages, tools)
            turn.bind(calls_of(answer))
        return answer

    def call(self, call: ToolCall) -> Any:
        """Make a call of the model: return its speculation's result, or else run the tool.

        Errors of the tool are raised as they are.

        Raises:
            InvalidRequestError: the session has no such tool, the tool refuses the arguments, or it is a
                coroutine function (then use :meth:`acall`).
        """
        return self._toolbox.call(call, self._scope)

    async def acall(self, call: ToolCall) -> Any:
        """:meth:`call` for async code. A sync tool runs in a thread, so that it cannot block the loop."""
        return await self._toolbox.acall(call, self._scope)

    def report(self) -> SpeculationReport:
        """Return the report on this session's speculation so far."""
        return self._turns.report()


def _check_request(messages: Sequence[Message], tools: Sequence[Message]) -> None:
    check_messages("messages", messages, "messages in the shape of chat completions")
    check_messages("tools", tools, "the schemas of tools in the shape of chat completions")


Message: TypeAlias = Mapping[str, Any]
Model: TypeAlias = Callable[[Sequence[Message], Sequence[Message]], Awaitable[Message]]


@dataclass(frozen=True)
class SessionRequest:
    """One request to an async function; a :class:`agentrt.lookahead.model_request.ModelRequest`."""

    model: Model
    messages: Sequence[Message]
    tools: Sequence[Message]
    predictors: Sequence[Speculator]

    @cached_property
    def key(self) -> str:
        """The key of the messages and the tools."""
        return request_key(self.messages, self.tools)

    def request(self) -> DraftRequest:
        """Return the messages and the tools, unchanged."""
        return DraftRequest(self.messages, self.tools)

    def after(self, call: ToolCall, result: Any) -> SessionRequest | None:
        """Return the request with the call and its result appended, as text or else as JSON."""
        text = result_text(result)
        if text is None:
            return None
        arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
        call_id = f"ahead_{len(self.messages)}"
        made = {"id": call_id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
        answer = {"role": "assistant", "content": None, "tool_calls": [made]}
        output = {"role": "tool", "tool_call_id": call_id, "content": text}
        return replace(self, messages=[*self.messages, answer, output])

    async def stream(self) -> AsyncGenerator[Message, None]:
        """Yield the answering message, whole."""
        yield await answer_of(self.model, self.messages, self.tools)


async def answer_of(model: Model, messages: Sequence[Message], tools: Sequence[Message]) -> Message:
    """Call ``model`` and return its answer.

    Raises:
        InvalidRequestError: ``model`` is no async function, or its answer no message.
    """
    wanted = "an async function of messages and tools"
    check_field("model", model, Callable, wanted)  # type: ignore[arg-type]
    pending = model(messages, tools)
    check_field("model", pending, Awaitable, f"{wanted}: this one did not return an awaitable")
    answer = await pending
    check_field("answer", answer, Mapping, "the model's message as a dict, such as message.model_dump()")
    return answer


def answered_ids(messages: Sequence[Message]) -> list[str]:
    """Return the ids of the calls with a result after the last answer, in the shape of chat completions."""
    ids = []
    for message in reversed(messages):
        if not isinstance(message, Mapping) or message.get("role") == "assistant":
            break
        if message.get("role") == "tool":
            ids.append(message.get("tool_call_id") or "")
    return ids


def calls_of(message: Message) -> list[ToolCall]:
    """Return the calls of an assistant's message, without those whose arguments are not JSON.

    Raises:
        InvalidRequestError: its ``tool_calls`` do not have the shape of chat completions.
    """
    calls = []
    try:
        for call in message.get("tool_calls") or ():
            name, text = call["function"]["name"], call["function"]["arguments"]
            with suppress(ValueError):
                calls.append(ToolCall(name, parse_arguments(text), call["id"]))
    except (KeyError, TypeError) as error:
        raise InvalidRequestError(
            "tool_calls",
            'these cannot be read. Give a list of {"id": ..., "type": "function", "function": {"name": ..., '
            '"arguments": ...}}, with the arguments as JSON text.',
        ) from error
    return calls
