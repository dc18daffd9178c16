"""The body of ``POST /v1/chat/completions``, also with the older ``functions`` and ``function_call``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from agentrt.errors import InvalidRequestError

from ...request.field_names import renamed
from ...request.options import GenerationOptions
from ..http.errors import ApiError
from .common_request import MAX_ITEMS, ChoicesRequest, CommonRequest, at_most

_CALL: Final = re.compile(r"messages\[(\d+)\]\.tool_calls\[0\](\.function)?")
_OF_CONTEXTS: Final = {"prompt": "messages", "context": "context_id"}
_FUNCTION: Final = re.compile(r"tools(\[\d+\])(\.function)?")


def tools_of(functions: Sequence[Any]) -> list[Any]:
    """Return functions as tools."""
    return [{"type": "function", "function": function} for function in functions]


def tool_choice_of(function_call: str | Mapping[str, Any] | None) -> Any:
    """Return ``function_call`` as a tool choice."""
    if not isinstance(function_call, Mapping):
        return function_call
    return {"type": "function", "function": function_call}


def tool_messages(messages: Sequence[Any]) -> list[Any]:
    """Return messages with tool calls in the place of function calls, and tool outputs of function messages.

    A function message has the output of the last call before it: neither has an id.
    """
    converted: list[Any] = []
    id = "call_0"
    for index, message in enumerate(messages):
        call = message.get("function_call") if isinstance(message, Mapping) else None
        if call is not None and message.get("role") == "assistant":
            id = f"call_{index}"
            others = {key: value for key, value in message.items() if key != "function_call"}
            others["tool_calls"] = [{"id": id, "type": "function", "function": call}]
            converted.append(others)
        elif isinstance(message, Mapping) and message.get("role") == "function":
            converted.append({**message, "role": "tool", "tool_call_id": id})
        else:
            converted.append(message)
    return converted


def function_field(field: str) -> str:
    """Return what a field of tools, or of a tool choice, is called where they are functions."""
    field = _FUNCTION.sub(r"functions\1", field)
    return renamed(field, {"tools": "functions", "tool_choice": "function_call"})


def message_field(field: str, messages: Sequence[Any]) -> str:
    """Return what a field of :func:`tool_messages` is called in ``messages``, perhaps in the older form."""
    call = _CALL.match(field)
    if call is None or "function_call" not in messages[int(call[1])]:
        return field
    return f"messages[{call[1]}].function_call{field[call.end() :]}"


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
            options["tools"] = tools_of(self.functions)
            options["tool_choice"] = tool_choice_of(self.function_call)
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
        field = message_field(renamed(field, _OF_CONTEXTS), self.messages)
        if self.functions is not None:
            field = function_field(field)
        newer = {} if self.max_completion_tokens is None else {"max_tokens": "max_completion_tokens"}
        return renamed(field, newer)

    @property
    def forces_named_tool(self) -> bool:
        """Whether ``tool_choice`` names the function to call."""
        return isinstance(self.tool_choice if self.functions is None else self.function_call, dict)

    @property
    def prompt(self) -> list[Any]:
        """The messages, with calls and their outputs in the form of tools."""
        return tool_messages(self.messages)
