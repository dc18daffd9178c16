"""Messages and options of the runtime as a request of the responses API, in which form jobs are stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError

from agentrt.errors import InvalidRequestError
from agentrt.priority import Priority

from ...request.options import GenerationOptions, Message
from ...request.validation import plain_json, plain_messages
from ..responses.items import Item, ResponsesRequest, items_of

_REFUSED: Final = ("logprobs", "logit_bias", "prediction", "deadline_s", "context_id")
"""Options that no request of the responses API has."""
_NAMES: Final = {"max_output_tokens": "max_tokens", "text": "response_format"}


def response_request(
    messages: Sequence[Message], options: GenerationOptions, metadata: Mapping[str, str] | None
) -> ResponsesRequest:
    """Return the request whose messages and options are these.

    Raises:
        InvalidRequestError: a field is wrong, there is no such option, or a job cannot have it.
    """
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    for name in _REFUSED:
        if name in given:
            raise InvalidRequestError(name, "a background job has none. Leave it out.")
    if given.pop("priority", Priority.PROACTIVE) is not Priority.PROACTIVE:
        raise InvalidRequestError("priority", "a background job is proactive. Leave its priority out.")
    if unknown := given.keys() - GenerationOptions.__annotations__.keys():
        raise InvalidRequestError(min(unknown), "is no option. Use those of LocalRuntime.generate.")
    if (limit := given.pop("max_tokens", None)) is not None:
        given["max_output_tokens"] = limit
    if (format := given.pop("response_format", None)) is not None:
        given["text"] = {"format": {"type": format["type"], **format.get("json_schema", {})}}
    if metadata:
        given["metadata"] = metadata
    body = plain_json({**given, "background": True}, "options")
    try:
        return ResponsesRequest.model_validate({**body, "input": conversation_items(messages)})
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        raise InvalidRequestError(_NAMES.get(name, name), f"{first['msg']}. Correct it.") from None


def conversation_items(messages: object) -> list[Item]:
    """Return chat messages as the items of an input, which are the same messages again.

    Raises:
        InvalidRequestError: a field is wrong; it is named as ``messages[i]…``.
    """
    items: list[Item] = []
    before = None
    for message in plain_messages(messages):
        if message.get("tool_calls") and not message["content"] and before == "assistant":
            # Else they would be calls of the message before.
            items.append({"type": "message", "role": "assistant", "content": ""})
        named = {"name": message["name"]} if "name" in message else {}
        for _, item in items_of(message):
            items.append(item if item["type"] == "function_call" else item | named)
        before = message["role"]
    return items
