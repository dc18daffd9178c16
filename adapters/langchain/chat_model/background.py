"""`BackgroundModel`: requests of a chat model as background responses, here or at `agentrt serve`."""

from __future__ import annotations

import asyncio
import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage
from langchain_core.messages.ai import InputTokenDetails, UsageMetadata
from langchain_core.runnables import Runnable, RunnableBinding
from langchain_core.utils.function_calling import convert_to_openai_tool

from agentrt import Priority
from agentrt.errors import ConfigurationError, InvalidRequestError, JobFailedError

from .chat_agentrt import ChatAgentRT
from .structured_output import response_format_of

if TYPE_CHECKING:
    from agentrt.runtime import BackgroundJob, BackgroundService

_LOOK_S: Final = 1.0
"""Seconds between two looks at a response of a server."""
_PATIENCE_S: Final = 120.0
"""Seconds for which a server that does not answer is asked again."""
_LONGEST_PAUSE_S: Final = 8.0
"""Seconds between two of these questions at most."""
_UNENDED: Final = ("queued", "in_progress")
_LIMIT: Final = "max_completion_tokens"
_LIMITS: Final = ("max_tokens", "max_output_tokens", _LIMIT)
"""The names of the limit of tokens. ChatOpenAI's own field has the last one in its requests."""
_OF_SERVER: Final = (
    *("stop", "stop_token_ids", "ignore_eos", "seed", "top_k", "min_p", "repetition_penalty"),
    *("frequency_penalty", "presence_penalty", "shared_prefix", "tool_seconds"),
)
"""Options of responses that agentrt serve has, and OpenAI's client has not."""
_ONE_ANSWER: Final = "Submit it several times, or use n=1."


class BackgroundModel:
    """Submits the requests of a chat model, and returns at once; the answers are computed when there is time.

    ::

        background = BackgroundModel(ChatAgentRT(runtime=runtime), service)
        run = await background.submit("Summarise this mail: …")
        message = await run.result()

    The model is a :class:`ChatAgentRT`, whose requests the ``service`` of its runtime queues, or a
    ``ChatOpenAI`` whose ``base_url`` is that of ``agentrt serve``; tools may be bound to it. A run goes on
    without whoever has submitted it, and is found again by its id.
    """

    def __init__(
        self, model: Runnable[LanguageModelInput, AIMessage], service: BackgroundService | None = None
    ) -> None:
        """``service`` is for a :class:`ChatAgentRT` only.

        Raises:
            ConfigurationError: it is none of these models, or the service is missing or not needed.
        """
        layers: list[Mapping[str, Any]] = []
        chat: Any = model
        while isinstance(chat, RunnableBinding):
            layers.insert(0, chat.kwargs)
            chat = chat.bound
        local = isinstance(chat, ChatAgentRT)
        if not local and not hasattr(chat, "root_async_client"):
            raise ConfigurationError(
                f"{type(chat).__name__} has no background. Give a ChatAgentRT, or a ChatOpenAI for "
                "agentrt serve."
            )
        if local != (service is not None):
            raise ConfigurationError(
                "a ChatAgentRT needs the BackgroundService of its runtime: BackgroundModel(model, service)."
                if local
                else "the server of a ChatOpenAI has its own queue. Leave service out."
            )
        self._model, self._service = chat, service
        self._options: dict[str, Any] = {}
        for layer in layers:
            self._options |= self._named(layer)

    async def submit(self, input: LanguageModelInput, **options: Any) -> BackgroundRun:
        """Queue an answer. ``options`` are those of a request of the model.

        Raises:
            AgentRTError: as :meth:`BackgroundService.submit` raises it.
            openai.OpenAIError: the server refuses it, or does not answer.
        """
        given = {**self._options, **self._named(options)}
        if tools := given.get("tools"):
            given["tools"] = [
                tool if isinstance(tool, Mapping) else convert_to_openai_tool(tool) for tool in tools
            ]
        if self._service is None:
            client = self._model.root_async_client
            payload = _payload(self._model, input, given)
            return _ServerRun(client, (await client.responses.create(**payload)).id)
        messages = self._model._convert_input(input).to_messages()
        request = self._model.request_of(messages, given)
        request.check_single(_ONE_ANSWER)
        return _LocalRun(await self._service.submit(request.messages, **request.options))

    async def get(self, id: str) -> BackgroundRun | None:
        """Return the run with this id; None if the model's app has none, or no longer."""
        if self._service is not None:
            job = self._service.get(id, self._model.app or None)
            return None if job is None else _LocalRun(job)
        run = _ServerRun(self._model.root_async_client, id)
        try:
            await run.response()
        except JobFailedError:
            return None
        return run

    def _named(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return options whose limit of tokens has the one name by which it overrides that of the model."""
        if self._service is not None:
            return dict(options)
        return {_LIMIT if name in _LIMITS else name: value for name, value in options.items()}


class BackgroundRun(ABC):
    """One request of a :class:`BackgroundModel`."""

    id: str
    """The id of the background response."""

    @abstractmethod
    async def response(self) -> dict[str, Any]:
        """Return the response as it is now: its ``status``, and until it has ended, its ``queue``.

        Raises:
            JobFailedError: it was deleted.
        """

    @abstractmethod
    async def cancel(self) -> None:
        """End it, unless it has ended or was deleted."""

    @abstractmethod
    async def delete(self) -> None:
        """End and delete it, unless it was deleted."""

    async def result(self) -> AIMessage:
        """Wait until it has ended, and return the answer. Cancelling this leaves the run as it is.

        Of a run that was cancelled it is what there is, and its ``finish_reason`` is ``"cancelled"``.
        A server that does not answer, such as one that is started again, is asked again for two minutes.

        Raises:
            JobFailedError: it has failed, or was deleted.
            RuntimeClosedError, EngineFailedError: as :meth:`BackgroundJob.result` raises them.
            openai.OpenAIError: the server did not answer in that time. Get the run again by its id.
        """
        response = await self._ended()
        if response["status"] == "failed":
            raise JobFailedError(self.id, str((response.get("error") or {}).get("message")))
        return _message_of(response)

    @abstractmethod
    async def _ended(self) -> dict[str, Any]:
        """Return the response once it has ended."""


class _LocalRun(BackgroundRun):
    def __init__(self, job: BackgroundJob) -> None:
        self.id = job.id
        self._job = job

    async def response(self) -> dict[str, Any]:
        if self._job.deleted:
            raise _deleted(self.id)
        return self._job.response

    async def cancel(self) -> None:
        await self._job.cancel()

    async def delete(self) -> None:
        await self._job.delete()

    async def _ended(self) -> dict[str, Any]:
        await self._job.result()
        return await self.response()


class _ServerRun(BackgroundRun):
    def __init__(self, client: Any, id: str) -> None:
        self.id = id
        self._responses = client.responses

    async def response(self) -> dict[str, Any]:
        from openai import NotFoundError

        try:
            shown: dict[str, Any] = (await self._responses.retrieve(self.id)).model_dump()
        except NotFoundError:
            raise _deleted(self.id) from None
        return shown

    async def cancel(self) -> None:
        from openai import NotFoundError

        with suppress(NotFoundError):
            await self._responses.cancel(self.id)

    async def delete(self) -> None:
        from openai import NotFoundError

        with suppress(NotFoundError):
            await self._responses.delete(self.id)

    async def _ended(self) -> dict[str, Any]:
        from openai import APIConnectionError, InternalServerError

        pause_s, waited_s = _LOOK_S, 0.0
        while True:
            try:
                response = await self.response()
            except (APIConnectionError, InternalServerError):  # it may be started again
                if waited_s >= _PATIENCE_S:
                    raise
                waited_s += pause_s
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                continue
            if response["status"] not in _UNENDED:
                return response
            pause_s, waited_s = _LOOK_S, 0.0
            await asyncio.sleep(_LOOK_S)


def _deleted(id: str) -> JobFailedError:
    return JobFailedError(
        id,
        "there is none now. It was deleted: submit it again; or its model is not served: serve it again.",
    )


def _payload(chat: Any, input: LanguageModelInput, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request of a ``ChatOpenAI`` as the arguments of its client's ``responses.create``.

    Raises:
        InvalidRequestError: a background response cannot have an option.
    """
    if isinstance(schema := given.get("response_format"), type):
        given = {**given, "response_format": response_format_of(schema)}
    payload: dict[str, Any] = chat.model_copy(update={"use_responses_api": True})._get_request_payload(
        input, **given
    )
    if stop := given.get("stop") or chat.stop:  # which LangChain leaves out of responses
        payload["stop"] = stop
    for name in ("stream", "stream_usage"):
        payload.pop(name, None)
    if (n := payload.pop("n", None)) not in (None, 1):
        raise InvalidRequestError("n", f"{n} answers cannot be told apart here. {_ONE_ANSWER}")
    if payload.pop("priority", None) not in (None, Priority.PROACTIVE):
        raise InvalidRequestError("priority", "a background job is proactive. Leave its priority out.")
    own = {name: payload.pop(name) for name in _OF_SERVER if name in payload}
    known = inspect.signature(chat.root_async_client.responses.create).parameters
    for name in payload:
        if name not in known:
            raise InvalidRequestError(name, "a background response has no such option. Leave it out.")
    return payload | {"background": True, "extra_body": own | (payload.get("extra_body") or {})}


def _message_of(response: Mapping[str, Any]) -> AIMessage:
    """Return the output of a response, in the form of an answer in the foreground."""
    messages = [item for item in response["output"] if item["type"] == "message"]
    calls = [item for item in response["output"] if item["type"] == "function_call"]
    reasons = {"incomplete": "length", "cancelled": "cancelled"}
    usage = response.get("usage")
    return AIMessage(
        content="".join(part["text"] for item in messages for part in item["content"]),
        tool_calls=[
            {
                "name": call["name"],
                "args": json.loads(call["arguments"]),
                "id": call["call_id"],
                "type": "tool_call",
            }
            for call in calls
            if call["status"] == "completed"
        ],
        usage_metadata=usage
        and UsageMetadata(
            input_tokens=usage["input_tokens"],
            output_tokens=usage["output_tokens"],
            total_tokens=usage["total_tokens"],
            input_token_details=InputTokenDetails(cache_read=usage["input_tokens_details"]["cached_tokens"]),
        ),
        response_metadata={
            "id": response["id"],
            "model_provider": "agentrt",
            "model_name": response["model"],
            "finish_reason": reasons.get(response["status"], "tool_calls" if calls else "stop"),
        },
    )
