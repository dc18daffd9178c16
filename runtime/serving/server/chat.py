"""``POST /v1/chat/completions``: body, answers whole and in chunks; what older completions share with it."""

from __future__ import annotations

import json
import re
import time
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response

from agentrt.calls import CallArgumentsDelta, CallFinished, CallStarted, TextDelta, ToolCall
from agentrt.concurrency.fair_threads import give_way
from agentrt.errors import InvalidRequestError
from agentrt.finite import shown

from ...engine.logprobs import TokenLogprobs
from ...engine.output.generation import CallAnswered, Finished, Generation, GenerationEvent, LogprobsDelta
from ...engine.output.pending import LOGPROBS_AT_ONCE
from ...pool.pooled_model import PooledModel
from ...pool.responses.common_request import MAX_ITEMS, ChoicesRequest, CommonRequest, at_most
from ...request.field_names import renamed
from ...request.options import GenerationOptions
from ...request.validation import unasked_output
from ..http.errors import ApiError
from ..http.open_responses import new_completion_id
from ..http.request_state import app_of, header_priority
from ..http.strict_json import StrictJsonRoute
from .answers import AnswerWriter, answer
from .server_state import header_session, server_state_of

_FUNCTION: Final = re.compile(r"tools(\[\d+\])(\.function)?")
_MESSAGE: Final = re.compile(r"messages\[(\d+)\]")
_FUNCTION_CALL: Final = re.compile(r"messages\[(\d+)\]\.tool_calls\[0\](\.function)?")

router = APIRouter(route_class=StrictJsonRoute)


class ChatRequest(CommonRequest, ChoicesRequest):
    """OpenAI's fields, and those that local engines add to them."""

    messages: list[Any]
    """The runtime validates them; its errors name the wrong message."""
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    tool_choice: str | dict[str, Any] | None = None
    response_format: dict[str, Any] | None = None
    prediction: dict[str, Any] | None = None
    logprobs: bool | None = None
    functions: list[Any] | None = None
    """The older form of ``tools``. The answer has at most one call, in the older form, too."""
    function_call: str | dict[str, Any] | None = None
    """The older form of ``tool_choice``."""
    modalities: Annotated[list[Literal["text"]] | None, at_most(MAX_ITEMS)] = None

    def options(self) -> GenerationOptions:
        """Return the runtime's options for one choice.

        Raises:
            InvalidRequestError: ``functions`` are given beside ``tools``.
            ApiError: 400, ``top_logprobs`` is given without ``logprobs``.
        """
        if self.functions is not None and self.tools is not None:
            raise InvalidRequestError("functions", "they are the older form of tools. Leave them out.")
        if self.top_logprobs and not self.logprobs:
            raise ApiError(400, "top_logprobs: needs logprobs. Set it to true.", param="top_logprobs")
        options = self.common_options()
        if self.functions is None:
            options["tools"] = self.tools
            options["tool_choice"] = self.tool_choice
        else:
            choice = self.function_call
            options["tools"] = [{"type": "function", "function": each} for each in self.functions]
            options["tool_choice"] = (
                {"type": "function", "function": choice} if isinstance(choice, Mapping) else choice
            )
            options["parallel_tool_calls"] = False
        options["response_format"] = self.response_format
        options["prediction"] = self.prediction
        options["max_tokens"] = (
            self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens
        )
        if self.logprobs:
            options["logprobs"] = self.top_logprobs or 0
        return options

    def field_name(self, field: str) -> str:
        """Return this request's name for a field that an error of the runtime names."""
        field = renamed(field, {"prompt": "messages", "context": "context_id"})
        places = [place for place, _ in self._placed_messages()]
        if (message := _MESSAGE.match(field)) is not None and (index := int(message[1])) < len(places):
            field = places[index] + field[message.end() :]
        call = _FUNCTION_CALL.match(field)
        if call is not None and "function_call" in self.messages[int(call[1])]:
            return f"messages[{call[1]}].function_call{field[call.end() :]}"
        if self.functions is not None:
            field = _FUNCTION.sub(r"functions\1", field)
            field = renamed(field, {"tools": "functions", "tool_choice": "function_call"})
        newer = {} if self.max_completion_tokens is None else {"max_tokens": "max_completion_tokens"}
        return renamed(field, newer)

    @property
    def forces_named_tool(self) -> bool:
        """Whether ``tool_choice`` names the function to call."""
        return isinstance(self.tool_choice if self.functions is None else self.function_call, dict)

    @property
    def prompt(self) -> list[Any]:
        """The messages, with calls and their outputs in the form of tools.

        A function message has the output of the last call before it: neither has an id. An answer with
        outputs that this server had for its calls, ``tool_results``, is several messages.
        """
        return [message for _, message in self._placed_messages()]

    def check_outputs(self) -> None:
        """Check that each output of a tool is that of a call before it.

        Raises:
            InvalidRequestError: one is not.
        """
        if (index := unasked_output((), self.prompt)) is not None:
            place, message = list(self._placed_messages())[index]
            id = message.get("tool_call_id")
            older = self.messages[int(_MESSAGE.findall(place)[0])].get("role") == "function"
            raise InvalidRequestError(
                place if older else f"{place}.tool_call_id",
                f"no call before it has the id {shown(id)}. Send the assistant's message with it first.",
            )

    def _placed_messages(self) -> Iterator[tuple[str, Any]]:
        """Yield the messages of the prompt, each with its place in the request."""
        id = "call_0"
        for index, message in enumerate(self.messages):
            place = f"messages[{index}]"
            if not isinstance(message, Mapping):
                yield place, message
                continue
            role, call = message.get("role"), message.get("function_call")
            if role == "function":
                message = {**message, "role": "tool", "tool_call_id": id}
            elif role == "assistant" and call is not None:
                id = f"call_{index}"
                message = {key: value for key, value in message.items() if key != "function_call"}
                message["tool_calls"] = [{"id": id, "type": "function", "function": call}]
                message["tool_results"] = [{**each, "tool_call_id": id} for each in _results_of(message)]
            yield from _turns_of(message, place)


def _results_of(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the outputs that a message of this server's has for its calls."""
    results = message.get("tool_results")
    return [each for each in results if isinstance(each, Mapping)] if isinstance(results, list) else []


def _turns_of(message: Mapping[str, Any], place: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield a message of a request, or the turns of which its stream was: calls, outputs, and what followed.

    The deltas of a stream do not tell what was said before calls: all of its text follows the outputs.
    """
    results = _results_of(message)
    if message.get("role") != "assistant" or not results:
        yield place, message
        return
    ids = [each.get("tool_call_id") for each in results]
    calls = message.get("tool_calls")
    made: list[Any] = calls if isinstance(calls, list) else []
    answered = [call for call in made if isinstance(call, Mapping) and call.get("id") in ids]
    yield place, {"role": "assistant", "content": "", "tool_calls": answered}
    for number, each in enumerate(results):
        output = {"role": "tool", "tool_call_id": each.get("tool_call_id"), "content": each.get("content")}
        yield f"{place}.tool_results[{number}]", output
    if message.get("content") or len(answered) < len(made):
        yield place, {**message, "tool_calls": [call for call in made if call not in answered] or None}


class ChoicesWriter(AnswerWriter):
    """Writes the answers as the choices of one completion, numbered across all prompts."""

    end = "data: [DONE]\n\n"
    kind: ClassVar[str]
    chunk_kind: ClassVar[str]
    """The ``object`` of a completion, and of a chunk of one."""

    def __init__(self, model: str, id: str, request: ChoicesRequest) -> None:
        """``id`` is that of the response to ``request``."""
        super().__init__(model, stream=bool(request.stream), id=id, answers=request.n or 1)
        self._created = int(time.time())
        self._includes_usage = request.includes_usage
        self._fields: dict[str, Any] = {}
        """Further fields of the completion and of each chunk."""
        self._pending_logprobs: defaultdict[int, list[TokenLogprobs]] = defaultdict(list)

    def closing(self, generations: Sequence[Generation]) -> Iterable[Mapping[str, Any]]:
        """Return the chunk that has the usage, if the client wants one."""
        if not self._includes_usage:
            return ()
        return (self._completion(self.chunk_kind, [], usage=self.usage(generations)),)

    def body(self, generations: Sequence[Generation]) -> dict[str, Any]:
        """Return the completion with one choice for each generation."""
        choices = [self.choice(index, each) for index, each in enumerate(generations)]
        return self._completion(self.kind, choices, usage=self.usage(generations))

    def usage(self, generations: Sequence[Generation]) -> dict[str, Any]:
        """Return the tokens of all choices together. Those of one prompt share it, so that it counts once."""
        return _sum(
            _usage_of(generations[first : first + self.answers])
            for first in range(0, len(generations), self.answers)
        )

    @abstractmethod
    def choice(self, index: int, generation: Generation) -> dict[str, Any]:
        """Return a choice of a completion that is not streamed."""

    @abstractmethod
    def logprobs(self, index: int, tokens: Iterable[TokenLogprobs]) -> dict[str, Any]:
        """Return the log probabilities of the next tokens of a choice."""

    def _chunk(self, index: int, part: Mapping[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
        """Return a chunk with a part of one choice, and the log probabilities that have come before it."""
        pending = self._pending_logprobs.pop(index, None)
        logprobs = self.logprobs(index, pending) if pending else None
        choice = {"index": index, **part, "logprobs": logprobs, "finish_reason": finish_reason}
        usage = {"usage": None} if self._includes_usage else {}  # the last chunk has its value
        return self._completion(self.chunk_kind, [choice], **usage)

    def _add_logprobs(self, index: int, tokens: Iterable[TokenLogprobs]) -> bool:
        """Keep log probabilities for the next chunk; return whether they are enough for one."""
        self._pending_logprobs[index] += tokens
        return len(self._pending_logprobs[index]) >= LOGPROBS_AT_ONCE

    def _completion(self, kind: str, choices: Sequence[Mapping[str, Any]], **fields: Any) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": kind,
            "created": self._created,
            "model": self.model,
            "choices": choices,
            **self._fields,
            "system_fingerprint": None,
            **fields,
        }


class _ChatWriter(ChoicesWriter):
    """Writes chat completions.

    Where calls are constrained by a grammar, every call that begins is valid, and its parts are sent as they
    are generated. Otherwise a call is sent when it is complete.
    """

    kind = "chat.completion"
    chunk_kind = "chat.completion.chunk"

    def __init__(self, model: str, request: ChatRequest) -> None:
        super().__init__(model, new_completion_id(), request)
        self._request = request
        self._fields = {"service_tier": request.served_tier}
        self._in_call: set[int] = set()
        """The choices that are within a call."""

    def field_name(self, field: str, prompt: int) -> str:
        return self._request.field_name(field)

    def opening(self) -> Iterator[dict[str, Any]]:
        """Yield the chunk of each choice that is sent before anything is generated."""
        for index in range(self.answers):
            yield self._delta(index, {"role": "assistant", "content": "", "refusal": None})

    def chunks(self, index: int, event: GenerationEvent) -> Iterator[dict[str, Any]]:
        progressive = self.runtime.constrains_calls
        if isinstance(event, LogprobsDelta):
            if self._add_logprobs(index, event.tokens):
                yield self._delta(index, {"content": ""})
        elif isinstance(event, TextDelta):
            # A call that a stop text ends is repeated as text, but its first part was sent already as a call.
            if index not in self._in_call:
                yield self._delta(index, {"content": event.text})
        elif isinstance(event, CallStarted):
            if progressive:
                self._in_call.add(index)
                yield self._call(index, event.index, _call_body(event.id, event.name, ""))
        elif isinstance(event, CallArgumentsDelta):
            if progressive:
                yield self._call(index, event.index, {"function": {"arguments": event.text}})
        elif isinstance(event, CallFinished):
            if not progressive:
                yield self._call(index, event.index, _whole_call(event.call))
            self._in_call.discard(index)
        elif isinstance(event, CallAnswered):
            # An extension: OpenAI's chat completions have no field for a call that the server answered.
            result = {
                "index": event.index,
                "tool_call_id": event.call.id,
                "name": event.call.name,
                "content": event.output,
            }
            yield self._delta(index, {"tool_results": [result]})
        elif isinstance(event, Finished):
            yield self._delta(index, {}, self._finish_reason(event.generation))

    def choice(self, index: int, generation: Generation) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": generation.text, "refusal": None}
        if generation.tool_calls:
            message["content"] = generation.text or None
            message |= self._call_fields([_whole_call(call) for call in generation.tool_calls])
        logprobs = self.logprobs(index, generation.logprobs) if self._request.logprobs else None
        reason = self._finish_reason(generation)
        return {"index": index, "message": message, "logprobs": logprobs, "finish_reason": reason}

    def logprobs(self, index: int, tokens: Iterable[TokenLogprobs]) -> dict[str, Any]:
        return {
            "content": [each.in_openai_form(self.runtime.token_text) for each in give_way(tokens)],
            "refusal": None,
        }

    def _finish_reason(self, generation: Generation) -> str:
        """Return OpenAI's finish reason: ``stop`` where the request names the function to call."""
        reason = generation.finish_reason
        if reason != "tool_calls":
            return reason
        if self._request.forces_named_tool:
            return "stop"
        return reason if self._request.functions is None else "function_call"

    def _call_fields(self, calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the fields of a message or a delta that has these calls, perhaps in the older form."""
        if self._request.functions is None:
            return {"tool_calls": calls}
        return {"function_call": calls[0]["function"]}

    def _call(self, index: int, number: int, call: Mapping[str, Any]) -> dict[str, Any]:
        return self._delta(index, self._call_fields([{"index": number, **call}]))

    def _delta(
        self, index: int, delta: Mapping[str, Any], finish_reason: str | None = None
    ) -> dict[str, Any]:
        return self._chunk(index, {"delta": delta}, finish_reason)


def _call_body(id: str | None, name: str, arguments: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _whole_call(call: ToolCall) -> dict[str, Any]:
    return _call_body(call.id, call.name, json.dumps(call.arguments, ensure_ascii=False))


def _usage_of(generations: Sequence[Generation]) -> dict[str, Any]:
    """Return the tokens of answers to one prompt, which counts once."""
    first = generations[0].usage
    usages = [generation.usage for generation in generations]
    completion = sum(usage.completion_tokens for usage in usages)
    return {
        "prompt_tokens": first.prompt_tokens,
        "completion_tokens": completion,
        "total_tokens": first.prompt_tokens + completion,
        "prompt_tokens_details": {
            "cached_tokens": first.cached_tokens,
            "audio_tokens": 0,
            **first.truncation_details,
        },
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": sum(usage.accepted_prediction_tokens for usage in usages),
            "rejected_prediction_tokens": sum(usage.rejected_prediction_tokens for usage in usages),
        },
    }


def _sum(usages: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the sum of usages, details included. They have the same fields."""
    first, *others = usages
    return {
        name: _sum([value, *(other[name] for other in others)])
        if isinstance(value, Mapping)
        else sum((other[name] for other in others), value)
        for name, value in first.items()
    }


@router.post("/v1/chat/completions", summary="Generate an answer")
async def chat_completions(body: ChatRequest, request: Request) -> Response:
    """OpenAI's chat completions, whole or as server-sent events.

    ``X-Session-ID`` names the conversation, which is then listed as a context.
    """
    model = server_state_of(request).model(body.model)
    body.take_priority(header_priority(request))
    body.check_outputs()
    options = body.options()
    options |= {"app": app_of(request), "session": header_session(request)}
    return await answer_chat(request, model, body, options)


async def answer_chat(
    request: Request,
    model: PooledModel,
    body: ChatRequest,
    options: GenerationOptions,
    context_id: str | None = None,
) -> Response:
    """Answer ``body``, whose messages continue a context if ``context_id`` names one."""
    return await answer(request, model, _ChatWriter(model.name, body), [body.prompt], options, context_id)
