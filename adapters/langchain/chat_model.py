"""`ChatAgentRT`: the local runtime as a LangChain chat model."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing, suppress
from typing import TYPE_CHECKING, Any

from anyio.from_thread import start_blocking_portal
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.language_models.model_profile import ModelProfile
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import ConfigDict, Field

from agentrt.calls import ToolCall
from agentrt.concurrency.threads import loop_caller
from agentrt.errors import ConfigurationError, RequestError
from agentrt.priority import Priority
from agentrt.toolcache import ResultSource, TakeResult, current_result_source

from .generations import ChunkConverter, chat_result, generation_of, is_call_answered
from .messages import openai_messages

if TYPE_CHECKING:
    from agentrt.runtime import GenerationEvent


class ChatAgentRT(BaseChatModel):
    """A chat model on :class:`agentrt.runtime.LocalRuntime`, in this process.

    ::

        with LocalRuntime.open("nano") as runtime:
            agent = create_agent(ChatAgentRT(runtime=runtime), tools)

    Give a ``runtime`` to share it and to decide when it closes; or only a ``model``, which is then opened
    at once and closes when this chat model and its copies are gone. The other fields are those of
    :meth:`LocalRuntime.generate`, and may also be given per call or by ``bind``. ``priority`` None takes
    the one in force, :func:`agentrt.current_priority`.

    A streamed tool call comes whole, in one chunk: what is streamed cannot be taken back, and half a call
    that turns out malformed would look like a call. Cancelling the task or closing the stream ends the
    generation in the engine at once. Errors are those of ``LocalRuntime``.
    """

    model_config = ConfigDict(extra="forbid")

    runtime: Any = Field(default=None, exclude=True, repr=False)
    """The :class:`~agentrt.runtime.LocalRuntime` to generate on."""
    model: str = "nano"
    priority: Priority | None = None
    max_tokens: int | None = None
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    tool_cache: bool = False
    """Whether calls may be answered inside the model's own answer, where :func:`speculate` has their results
    by the time the model makes them. Such calls do not pass through the agent's graph: no node, interrupt or
    middleware sees them. They are ``server_tool_call`` and ``server_tool_result`` blocks of the
    message, and the answer goes on behind them."""

    def __init__(self, **fields: Any) -> None:
        """See the class for the fields; opening a model raises what ``LocalRuntime.open`` raises."""
        given = fields.get("runtime")
        if given is None:
            from agentrt.runtime import LocalRuntime

            fields["runtime"] = LocalRuntime.open(fields.get("model", "nano"))
        opened = fields["runtime"].model_id
        if fields.get("model", opened) != opened and given is not None:
            raise ConfigurationError(
                f"the runtime has {opened!r} open, not {fields['model']!r}. Give only one of the two."
            )
        fields["model"] = opened
        super().__init__(**fields)

    @property
    def _llm_type(self) -> str:
        return "agentrt"

    @property
    def _identifying_params(self) -> Mapping[str, Any]:
        return {"model": self.model, **self._defaults()}

    def _resolve_model_profile(self) -> ModelProfile | None:
        return ModelProfile(
            max_input_tokens=self.runtime.context_length,
            tool_calling=self.runtime.call_format is not None,
        )

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | bool | dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Offer tools to the model.

        ``tool_choice`` is ``"auto"``, ``"none"``, ``"any"``, ``"required"`` or True for some call, a tool's
        name for a call of that tool, or OpenAI's object for the same.
        """
        return self.bind(
            tools=[convert_to_openai_tool(tool) for tool in tools], tool_choice=tool_choice, **kwargs
        )

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        options, turns = self._options(stop, kwargs), self._turns()
        if turns is not None:
            return chat_result(generation_of(list(_blocking(self._events(messages, options, turns)))))
        return chat_result(self.runtime.generate(openai_messages(messages), **options))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        options, turns = self._options(stop, kwargs), self._turns()
        if turns is not None:
            return chat_result(
                generation_of([event async for event in self._events(messages, options, turns)])
            )
        return chat_result(await self.runtime.agenerate(openai_messages(messages), **options))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        options, turns = self._options(stop, kwargs), self._turns()
        converter = ChunkConverter(hold_calls=self.tool_cache)
        if turns is not None:
            events = _blocking(self._events(messages, options, turns))
        else:
            events = self.runtime.iter_stream(openai_messages(messages), **options)
        with closing(events):
            for event in events:
                yield from converter.chunks(event)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        converter = ChunkConverter(hold_calls=self.tool_cache)
        async with aclosing(self._events(messages, self._options(stop, kwargs), self._turns())) as events:
            async for event in events:
                for chunk in converter.chunks(event):
                    yield chunk

    def _turns(self) -> ResultSource | None:
        """Where results of early runs come from, if they may be used here."""
        return current_result_source() if self.tool_cache else None

    async def _events(
        self, messages: list[BaseMessage], options: Mapping[str, Any], turns: ResultSource | None
    ) -> AsyncGenerator[GenerationEvent, None]:
        """The events of an answer, to which the results of ``turns`` go."""
        running = await self.runtime.start(openai_messages(messages), **options)
        if turns is not None:
            turns.take_results(_submitter(running.tool_outputs.put))
        answered: list[tuple[ToolCall, str]] = []
        async with aclosing(running.events()) as events:
            async for event in events:
                if is_call_answered(event):
                    answered.append((event.call, event.output))
                elif answered:
                    assert turns is not None
                    turns.answered(answered)
                    answered = []
                yield event

    def _defaults(self) -> dict[str, Any]:
        return {
            "priority": self.priority,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "top_k": self.top_k,
            "min_p": self.min_p,
            "repetition_penalty": self.repetition_penalty,
            "seed": self.seed,
        }

    def _options(self, stop: list[str] | None, given: Mapping[str, Any]) -> dict[str, Any]:
        options = {**self._defaults(), **given, "stop": tuple(stop or ())}
        options["tool_choice"] = _tool_choice(options.get("tool_choice"))
        return options


def _tool_choice(choice: Any) -> Any:
    """LangChain's ways to say it in OpenAI's."""
    if choice is True or choice == "any":
        return "required"
    if not choice:
        return "auto"
    if choice in ("auto", "none", "required") or not isinstance(choice, str):
        return choice
    return {"type": "function", "function": {"name": choice}}


def _blocking(events: AsyncGenerator[GenerationEvent, None]) -> Generator[GenerationEvent, None, None]:
    """``events`` for a caller that waits, on an event loop of their own: the caller's thread may run one."""
    with start_blocking_portal() as portal:
        try:
            while (event := portal.call(anext, events, None)) is not None:
                yield event
        finally:
            portal.call(events.aclose)


def _submitter(put: Callable[[str, Mapping[str, Any], str], bool]) -> TakeResult:
    """Hand results to ``put`` on a thread of its own: it spells them in the model's tokens."""
    loop, call_soon = asyncio.get_running_loop(), loop_caller()

    def take(call: ToolCall, text: str) -> None:
        def keep() -> None:
            with suppress(RequestError):  # then the agent makes the call
                put(call.name, call.arguments, text)

        call_soon(functools.partial(loop.run_in_executor, None, keep))

    return take
