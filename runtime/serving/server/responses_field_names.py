"""What a request for a response calls the fields that the runtime's errors name."""

from __future__ import annotations

import re
from typing import Any, Final

from ...request.field_names import renamed
from .responses_request import ResponsesRequest, append_item

_NAMES: Final = {
    "messages": "input",
    "max_tokens": "max_output_tokens",
    "logprobs": "include",
    "response_format": "text.format",
    "response_format.json_schema": "text.format",
}
_ITEM_NAMES: Final = {
    ".tool_call_id": ".call_id",
    ".id": ".call_id",
    ".function.name": ".name",
    ".function.arguments": ".arguments",
}
_MESSAGE: Final = re.compile(r"messages\[(\d+)\]")
_CALL: Final = re.compile(r"\.tool_calls\[(\d+)\]")
_FUNCTION: Final = re.compile(r"(tools\[\d+\])\.function")


def response_field_name(body: ResponsesRequest, earlier: int, field: str) -> str:
    """Return the name that ``body`` has for ``field``, one of the runtime's.

    ``earlier`` messages come before those of the input.
    """
    message = _MESSAGE.match(field)
    if message is None:
        return renamed(_FUNCTION.sub(r"\1", field), _NAMES)
    index = int(message[1])
    if index >= earlier:
        return _item_field_name(body.input, index - earlier, field[message.end() :])
    return "instructions" if body.instructions and not index else "previous_response_id"


def _item_field_name(items: str | list[Any], message: int, field: str) -> str:
    """Return the name of a field of the input's message of this index."""
    if isinstance(items, str):
        return "input"
    call = _CALL.match(field)
    messages: list[Any] = []
    for number, item in enumerate(items):
        append_item(messages, item, "input")
        if len(messages) <= message:
            continue
        if call is not None and len(messages[message].get("tool_calls", ())) <= int(call[1]):
            continue
        names = _ITEM_NAMES | ({".content": ".output"} if item.get("type") == "function_call_output" else {})
        return f"input[{number}]{renamed(field[call.end() :] if call else field, names)}"
    return "input"
