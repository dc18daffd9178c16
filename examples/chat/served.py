"""A model that a running `agentrt serve` has open, as the chat model of the assistant.

It has what the assistant asks of a model: streamed text, calls, answers held to a JSON schema. ``ChatOpenAI``
has that, too, but is not among the packages of a chat.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import anyio.to_thread
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.chat_models import agenerate_from_stream
from langchain_core.messages import AIMessageChunk, BaseMessage, convert_to_openai_messages
from langchain_core.messages.ai import InputTokenDetails, UsageMetadata
from langchain_core.messages.tool import ToolCallChunk, tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field

from agentrt import current_priority
from agentrt.errors import AgentRTError, RequestError, RuntimeClosedError

if TYPE_CHECKING:
    import httpx

_CONNECT_S: Final = 2.0
_OTHER_SERVER: Final = (401, 404, 503)
"""Its token or its models are others now, or it is stopping."""


@dataclass(frozen=True)
class ServedModel:
    """A model of a running server, and where that is."""

    name: str
    """The name by which requests choose it."""
    is_nano: bool
    address: str
    """An origin such as ``http://127.0.0.1:8000``, or the path of a Unix socket."""
    token: str | None = field(repr=False)

    def client(self) -> httpx.AsyncClient:
        """Return a client of the server. An answer may take any time."""
        import httpx

        at_port = self.address.startswith("http")
        # Within a machine there is no TLS, whose certificates take long to read, and no proxy.
        return httpx.AsyncClient(
            base_url=self.address if at_port else "http://localhost",
            transport=httpx.AsyncHTTPTransport(verify=False, uds=None if at_port else self.address),
            headers={} if self.token is None else {"authorization": f"Bearer {self.token}"},
            timeout=httpx.Timeout(None, connect=_CONNECT_S),
            trust_env=False,
        )


class ServedChat(BaseChatModel):
    """The chat model of a running server, with what a chat needs of a runtime besides."""

    model: str
    """What the user has named."""
    model_id: str
    address: str
    context_length: int
    max_tokens: int | None = None
    find: Callable[[str], ServedModel | None] = Field(exclude=True, repr=False)
    """Returns ``model`` as a server has it now, for each request; None if none has it."""

    @property
    def _llm_type(self) -> str:
        return "agentrt-served"

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Any:
        """Bind tools to the model."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **options)

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        raise NotImplementedError("it answers asynchronously only: use ainvoke or astream.")

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        return await agenerate_from_stream(self._astream(messages, **options))

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **options: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        request = {
            "max_tokens": self.max_tokens,
            **options,
            "messages": convert_to_openai_messages(messages),
            "priority": int(current_priority()),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        last: dict[str, Any] = {}
        async with aclosing(self._events(request)) as events:
            async for event in events:
                for choice in event["choices"]:
                    if reason := choice["finish_reason"]:
                        last["response_metadata"] = {"finish_reason": reason, "model_name": event["model"]}
                    text, calls = choice["delta"].get("content"), choice["delta"].get("tool_calls", ())
                    part = AIMessageChunk(content=text or "", tool_call_chunks=[*map(_call_chunk, calls)])
                    yield ChatGenerationChunk(message=part)
                if usage := event.get("usage"):
                    last["usage_metadata"] = _usage_metadata(usage)
        if "response_metadata" not in last:
            raise self._ended("it has broken the answer off")
        yield ChatGenerationChunk(message=AIMessageChunk(content="", **last))

    async def _events(self, request: Mapping[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        """Send a request, and yield the events of its answer.

        Raises:
            RequestError: the server refuses it.
            RuntimeClosedError: the server is not there, or not the same.
        """
        import httpx

        if (served := await anyio.to_thread.run_sync(self.find, self.model)) is None:  # it reads files
            raise self._ended("it has ended, or has another model")
        body = {**request, "model": served.name}
        try:
            async with (
                served.client() as client,
                client.stream("POST", "/v1/chat/completions", json=body) as response,
            ):
                if response.is_error:
                    await response.aread()
                    raise self._refused(response.status_code, response.json())
                rest = b""
                async for piece in response.aiter_bytes():
                    *lines, rest = (rest + piece).split(b"\n")  # JSON may hold what other splitters split at
                    for event in [json.loads(line[6:]) for line in lines if line.startswith(b"data: {")]:
                        if "error" in event:
                            raise self._refused(response.status_code, event)
                        yield event
        except httpx.TransportError as error:
            raise self._ended(str(error) or type(error).__name__) from error

    def _refused(self, status: int, body: Mapping[str, Any]) -> AgentRTError:
        message = str(body["error"]["message"])
        return self._ended(message) if status in _OTHER_SERVER else RequestError(message)

    def _ended(self, reason: str) -> RuntimeClosedError:
        return RuntimeClosedError(
            f"agentrt serve does not answer any more: {reason}. Start it again and repeat the question; or "
            f"go on without it: /model {self.model} opens the model here and keeps the conversation."
        )


def _call_chunk(call: Mapping[str, Any]) -> ToolCallChunk:
    name, arguments = call["function"].get("name"), call["function"].get("arguments")
    return tool_call_chunk(name=name, args=arguments, id=call.get("id"), index=call["index"])


def _usage_metadata(usage: Mapping[str, Any]) -> UsageMetadata:
    return UsageMetadata(
        input_tokens=usage["prompt_tokens"],
        output_tokens=usage["completion_tokens"],
        total_tokens=usage["total_tokens"],
        input_token_details=InputTokenDetails(cache_read=usage["prompt_tokens_details"]["cached_tokens"]),
    )
