"""`ChatAgentRT`: the local runtime as a LangChain chat model."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
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
from pydantic import ConfigDict, Field, ValidationError

from agentrt.argument_checks import check_setting
from agentrt.calls import ToolCall
from agentrt.concurrency.threads import loop_caller
from agentrt.errors import ConfigurationError, InvalidRequestError
from agentrt.priority import Priority
from agentrt.settings import invalid_settings
from agentrt.toolcache import FinishedCall, ResultSource, TakeResult, current_result_source

from .generations import ChunkConverter, chat_result, chat_result_in_blocks, is_call_answered
from .messages import openai_messages
from .scopes import langgraph_thread

if TYPE_CHECKING:
    from agentrt.runtime import GenerationEvent

_MAX_SESSION_CHARACTERS = 256


class ChatAgentRT(BaseChatModel):
    """A chat model on :class:`agentrt.runtime.LocalRuntime`, in this process.

    ::

        with LocalRuntime.open("nano") as runtime:
            agent = create_agent(ChatAgentRT(runtime=runtime), tools)

    Give a ``runtime`` to share it and to decide when it closes; or only a ``model``, which is then opened
    at once and closes when this chat model and its copies are garbage-collected. The other fields are
    those of :meth:`LocalRuntime.generate`, and may also be given per request or by ``bind``. With
    ``priority`` None, :func:`agentrt.current_priority` is used. In a LangGraph graph with a
    ``thread_id``, the requests of the thread are a session: a context that the runtime lists (``session``). A
    ``thread_id`` that cannot name one raises :class:`InvalidRequestError`.

    A streamed tool call comes whole, in one chunk: a streamed chunk cannot be taken back, and the first half
    of a malformed call would look like a call. Cancelling the task or closing the stream ends the
    generation in the engine at once. Errors are those of ``LocalRuntime``.
    """

    model_config = ConfigDict(extra="forbid")

    runtime: Any = Field(default=None, exclude=True, repr=False)
    """The :class:`~agentrt.runtime.LocalRuntime` to generate on."""
    model: str = "nano"
    app: str = ""
    """Name of the app: with one, what its threads have computed is kept beyond the KV arena, too."""
    priority: Priority | None = None
    max_tokens: int | None = None
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    tool_cache: bool = False
    """Whether the engine may answer calls whose results :func:`speculate` has when the model makes them.

    Such calls do not pass through the agent's graph: no node, interrupt or middleware sees them. They are
    ``server_tool_call`` and ``server_tool_result`` blocks of the message; the answer continues after them.
    With it the content of every message is a list of blocks, streamed or not.
    """

    def __init__(self, **fields: Any) -> None:
        """Open ``model`` unless a ``runtime`` is given; see the class for the other fields.

        Raises:
            ConfigurationError: a field is unknown or has a wrong value, or the given ``runtime`` is none or
                has another ``model`` open.
            AgentRTError: as :meth:`LocalRuntime.open` raises it.
        """
        given = fields.get("runtime")
        if given is None:
            from agentrt.runtime import LocalRuntime

            fields["runtime"] = LocalRuntime.open(fields.get("model", "nano"))
        wanted = "what LocalRuntime.open() returns"
        check_setting("runtime", given, object if hasattr(fields["runtime"], "model_id") else (), wanted)
        opened = fields["runtime"].model_id
        if fields.get("model", opened) != opened and given is not None:
            raise ConfigurationError(
                f"the runtime has {opened!r} open, not {fields['model']!r}. Give only one of the two."
            )
        fields["model"] = opened
        try:
            super().__init__(**fields)
        except ValidationError as error:
            if given is None:
                fields["runtime"].close()
            raise invalid_settings("ChatAgentRT", error) from None

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
        """Bind tools to the model.

        ``tool_choice`` is ``"auto"`` or ``"none"``; ``"any"``, ``"required"`` or True for at least one call;
        or a tool's name, or OpenAI's object, for a call of that tool.
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
        options = self._options(stop, kwargs)
        if self.tool_cache:
            return chat_result_in_blocks(_blocking(self._events(messages, options, self._turns())))
        return chat_result(self.runtime.generate(openai_messages(messages), **options))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        options = self._options(stop, kwargs)
        if self.tool_cache:
            events = self._events(messages, options, self._turns())
            return chat_result_in_blocks([event async for event in events])
        return chat_result(await self.runtime.agenerate(openai_messages(messages), **options))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        options, turns = self._options(stop, kwargs), self._turns()
        converter = ChunkConverter(in_blocks=self.tool_cache)
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
        converter = ChunkConverter(in_blocks=self.tool_cache)
        async with aclosing(self._events(messages, self._options(stop, kwargs), self._turns())) as events:
            async for event in events:
                for chunk in converter.chunks(event):
                    yield chunk

    def _turns(self) -> ResultSource | None:
        """Return the source of speculated results; None if ``tool_cache`` is off or nothing speculates."""
        return current_result_source() if self.tool_cache else None

    async def _events(
        self, messages: list[BaseMessage], options: Mapping[str, Any], turns: ResultSource | None
    ) -> AsyncGenerator[GenerationEvent, None]:
        """Yield the events of an answer; the results of ``turns`` are put into the engine's tool cache."""
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
            "app": self.app,
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
        if "session" not in given:
            options["session"] = _session()
        options["tool_choice"] = _tool_choice(options.get("tool_choice"))
        return options


def _session() -> str | None:
    """Return the thread of the running graph, which names a session; None if there is none.

    Raises:
        InvalidRequestError: it cannot name a session.
    """
    thread = langgraph_thread()
    if thread is None:
        return None
    if (
        not isinstance(thread, str)
        or not thread.isprintable()
        or not 0 < len(thread) <= _MAX_SESSION_CHARACTERS
    ):
        raise InvalidRequestError(
            "thread_id",
            f"{thread!r:.80} cannot name a conversation. Give a string of 1 to {_MAX_SESSION_CHARACTERS} "
            "printable characters, such as str(thread_id). Or name the session yourself: "
            "model.bind(session=…), with None for no session.",
        )
    return thread


def _tool_choice(choice: Any) -> Any:
    """Convert LangChain's ``tool_choice`` to OpenAI's."""
    if choice is True or choice == "any":
        return "required"
    if not choice:
        return "auto"
    if choice in ("auto", "none", "required") or not isinstance(choice, str):
        return choice
    return {"type": "function", "function": {"name": choice}}


def _blocking(events: AsyncGenerator[GenerationEvent, None]) -> Generator[GenerationEvent, None, None]:
    """Iterate over ``events`` in blocking code, on a separate event loop: this thread may already run one."""
    with start_blocking_portal() as portal:
        try:
            while (event := portal.call(anext, events, None)) is not None:
                yield event
        finally:
            portal.call(events.aclose)


def _submitter(put: Callable[..., bool]) -> TakeResult:
    """Return a function that puts results into the cache in a thread: tokenizing them takes time."""
    loop, call_soon = asyncio.get_running_loop(), loop_caller()

    def take(result: FinishedCall) -> None:
        def keep() -> None:
            call = result.call
            try:
                put(call.name, call.arguments, result.text, result.keep_alive_s, reusable=False)
            except Exception as error:  # noqa: BLE001 - reported; the agent then makes the call itself
                result.refused(error)

        call_soon(functools.partial(loop.run_in_executor, None, keep))

    return take
