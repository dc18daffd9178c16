"""`BackgroundModel`: requests of a chat model as background responses, here or at `agentrt serve`."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage
from langchain_core.messages.ai import InputTokenDetails, UsageMetadata
from langchain_core.runnables import Runnable, RunnableBinding

from agentrt.errors import ConfigurationError, JobFailedError

from .chat_agentrt import ChatAgentRT

if TYPE_CHECKING:
    from agentrt.runtime import BackgroundJob, BackgroundService

_LOOK_S: Final = 1.0
"""Seconds between two looks at a response of a server."""
_UNENDED: Final = ("queued", "in_progress")


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
        options: dict[str, Any] = {}
        chat: Any = model
        while isinstance(chat, RunnableBinding):
            chat, options = chat.bound, {**chat.kwargs, **options}
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
        self._model, self._options, self._service = chat, options, service

    async def submit(self, input: LanguageModelInput, **options: Any) -> BackgroundRun:
        """Queue an answer. ``options`` are those of a request of the model.

        Raises:
            AgentRTError: as :meth:`BackgroundService.submit` raises it.
            openai.OpenAIError: the server refuses it, or does not answer.
        """
        given = {**self._options, **options}
        if self._service is None:
            payload = self._responses_model()._get_request_payload(input, **given)
            client = self._model.root_async_client
            return _ServerRun(client, (await client.responses.create(**payload, background=True)).id)
        messages = self._model._convert_input(input).to_messages()
        request = self._model.request_of(messages, given)
        request.check_single("Submit it several times, or use n=1.")
        return _LocalRun(await self._service.submit(request.messages, **request.options))

    async def get(self, id: str) -> BackgroundRun | None:
        """Return the run with this id; None if the model's app has none, or no longer."""
        if self._service is not None:
            job = self._service.get(id, self._model.app or None)
            return None if job is None else _LocalRun(job)
        from openai import NotFoundError

        run = _ServerRun(self._model.root_async_client, id)
        try:
            await run.response()
        except NotFoundError:
            return None
        return run

    def _responses_model(self) -> Any:
        return self._model.model_copy(update={"use_responses_api": True})


class BackgroundRun(ABC):
    """One request of a :class:`BackgroundModel`."""

    id: str
    """The id of the background response."""

    @abstractmethod
    async def response(self) -> dict[str, Any]:
        """Return the response as it is now: its ``status``, and until it has ended, its ``queue``."""

    @abstractmethod
    async def cancel(self) -> None:
        """End it, unless it has ended."""

    @abstractmethod
    async def delete(self) -> None:
        """End and delete it."""

    async def result(self) -> AIMessage:
        """Wait until it has ended, and return the answer. Cancelling this leaves the run as it is.

        Of a run that was cancelled it is what there is, and its ``finish_reason`` is ``"cancelled"``.

        Raises:
            JobFailedError: it has failed.
        """
        response = await self._ended()
        if response["status"] == "failed":
            raise JobFailedError(self.id, str((response.get("error") or {}).get("message")))
        return _message_of(response)

    async def _ended(self) -> dict[str, Any]:
        while True:
            response = await self.response()
            if response["status"] not in _UNENDED:
                return response
            await asyncio.sleep(_LOOK_S)


class _LocalRun(BackgroundRun):
    def __init__(self, job: BackgroundJob) -> None:
        self.id = job.id
        self._job = job

    async def response(self) -> dict[str, Any]:
        return self._job.response

    async def cancel(self) -> None:
        await self._job.cancel()

    async def delete(self) -> None:
        await self._job.delete()

    async def _ended(self) -> dict[str, Any]:
        return await self._job.result()


class _ServerRun(BackgroundRun):
    def __init__(self, client: Any, id: str) -> None:
        self.id = id
        self._responses = client.responses

    async def response(self) -> dict[str, Any]:
        shown: dict[str, Any] = (await self._responses.retrieve(self.id)).model_dump()
        return shown

    async def cancel(self) -> None:
        await self._responses.cancel(self.id)

    async def delete(self) -> None:
        await self._responses.delete(self.id)


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
