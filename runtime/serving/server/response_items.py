"""The items of ``/v1/responses`` and the chat messages for them: the body of a request, stored input."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Self

from pydantic import BeforeValidator, PrivateAttr, model_validator
from pydantic_core import PydanticCustomError

from agentrt.errors import InvalidRequestError
from agentrt.finite import shown

from ...contexts.context import Message
from ...contexts.response_chains import StoredResponse
from ...request.field_names import renamed, sender_names
from ...request.options import GenerationOptions
from ..http.strict_json import compact_json
from .common_request import MAX_ITEMS, Body, CommonRequest, at_most

_TEXT_PARTS = ("input_text", "output_text", "text")
"""A tuple, since the type that a client sends may be of any JSON type, also one that cannot be hashed."""
_CHOICES = (None, "auto", "none", "required")
_MAX_METADATA = 16
"""As for OpenAI."""

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
Item = dict[str, Any]

_ID_PREFIXES = {"message": "msg", "function_call": "fc", "function_call_output": "fco"}
_ID_BYTES = 24
_MESSAGE: Final = re.compile(r"messages\[(\d+)\]")
_CALL: Final = re.compile(r"\.tool_calls\[(\d+)\]")
_FUNCTION: Final = re.compile(r"tools\[(\d+)\](?:\.function)?")
_NOT_OFFERED: Final = ("web_search", "namespace")
"""Types of tools that the model is not shown, and may do without: agents send them with every request."""


def _refuse_conversation(value: Any) -> None:
    if value is not None:
        raise PydanticCustomError(
            "no_conversations", "there are none here. Send previous_response_id, or the whole conversation."
        )


class TextOptions(Body):
    """The required format of the answer's text."""

    format: dict[str, Any] | None = None


class ResponsesRequest(CommonRequest):
    """OpenAI's fields, as far as they make sense for a local model."""

    input: str | list[Any]
    instructions: str | None = None
    max_output_tokens: int | None = None
    tool_choice: str | dict[str, Any] | None = None
    text: TextOptions | None = None
    metadata: Annotated[dict[str, str] | None, at_most(_MAX_METADATA)] = None
    include: Annotated[list[str] | None, at_most(MAX_ITEMS)] = None
    previous_response_id: str | None = None
    """The stored response that this one continues: its conversation, but not its ``instructions``."""
    store: bool | None = None
    """Whether the response can be continued and shown later; true by default, as for OpenAI."""
    conversation: Annotated[None, BeforeValidator(_refuse_conversation)] = None
    """Not supported; see ``previous_response_id``."""
    background: bool | None = None
    """Whether the response is queued, and computed when nothing more urgent is."""
    _places: list[int] = PrivateAttr(default_factory=list)
    """Of each tool that the model is offered, its place in the request."""

    @model_validator(mode="after")
    def _keep_offered(self) -> Self:
        """Keep only the tools that the model is offered: the response lists these."""
        if self.tools is not None:
            kinds = map(_kind, self.tools)
            self._places = [place for place, kind in enumerate(kinds) if kind not in _NOT_OFFERED]
            self.tools = [self.tools[place] for place in self._places]
        return self

    @property
    def wants_logprobs(self) -> bool:
        """Whether ``include`` names log probabilities."""
        return "message.output_text.logprobs" in (self.include or ())

    def options(self) -> GenerationOptions:
        """Return the runtime's options.

        Raises:
            InvalidRequestError: a tool is no function, or the choice of one is none.
        """
        options = self.common_options()
        with sender_names(self.field_name):
            options["tools"] = None if self.tools is None else _chat_tools(self.tools)
        options["tool_choice"] = (
            self.tool_choice if self.tool_choice in _CHOICES else _chat_choice(self.tool_choice)
        )
        options["response_format"] = _response_format(self.text)
        options["max_tokens"] = self.max_output_tokens
        if self.wants_logprobs:
            options["logprobs"] = self.top_logprobs or 0
        return options

    @property
    def is_stored(self) -> bool:
        """Whether the response is stored."""
        return self.store is not False

    def input_messages(self) -> list[Any]:
        """Return the input as chat messages.

        Raises:
            InvalidRequestError: an item's type is not supported.
        """
        if isinstance(self.input, str):
            return [{"role": "user", "content": self.input}]
        messages: list[Any] = []
        for index, item in enumerate(self.input):
            _append_item(messages, item, f"input[{index}]")
        return messages

    def field_name(self, field: str, earlier: int = 0) -> str:
        """Return this request's name for ``field``, one of the runtime's.

        ``earlier`` messages come before those of the input.
        """
        message = _MESSAGE.match(field)
        if message is None:
            return renamed(_FUNCTION.sub(self._tool_name, field), _NAMES)
        index = int(message[1])
        if index >= earlier:
            return _item_field_name(self.input, index - earlier, field[message.end() :])
        return "instructions" if self.instructions and not index else "previous_response_id"

    def _tool_name(self, named: re.Match[str]) -> str:
        return f"tools[{self._places[int(named[1])]}]"


def output_messages(items: Sequence[Any]) -> list[Any]:
    """Return the output items of a response as chat messages."""
    messages: list[Any] = []
    for index, item in enumerate(items):
        _append_item(messages, item, f"output[{index}]")
    return messages


def _chat_tools(tools: Sequence[Any]) -> list[Any]:
    """Return functions in the form of chat completions."""
    for index, tool in enumerate(tools):
        if (kind := _kind(tool)) != "function":
            built_in = f"there is no tool {shown(kind)} in this server" if kind else "it has no type"
            raise InvalidRequestError(
                f"tools[{index}]",
                f"{built_in}. Give functions: "
                "{'type': 'function', 'name': …, 'description': …, 'parameters': {…}}.",
            )
    return [_chat_function(tool) for tool in tools]


def _kind(tool: Any) -> Any:
    return tool.get("type") if isinstance(tool, Mapping) else None


def _chat_choice(choice: Any) -> Any:
    """Return the choice of a function in the form of chat completions."""
    if not isinstance(choice, Mapping) or choice.get("type") != "function":
        raise InvalidRequestError(
            "tool_choice",
            "must be 'auto', 'none', 'required' or {'type': 'function', 'name': …}. Use one of these.",
        )
    return _chat_function(choice)


def _chat_function(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a function in the nested format of chat completions; responses have it flat."""
    if "function" in tool:
        return tool
    kept = ("name", "description", "parameters", "strict")
    return {"type": "function", "function": {key: tool[key] for key in kept if key in tool}}


def _response_format(text: TextOptions | None) -> dict[str, Any] | None:
    if text is None or text.format is None:
        return None
    kind = text.format.get("type")
    return {"type": kind, "json_schema": text.format} if kind == "json_schema" else text.format


def _append_item(messages: list[Any], item: Any, field: str) -> None:
    """Append an item of an input or an output to chat messages; a call may become part of the last one.

    Raises:
        InvalidRequestError: its type is not supported; ``field`` is its name.
    """
    kind = item.get("type", "message") if isinstance(item, Mapping) else None
    if kind == "message":
        messages.append({"role": item.get("role"), "content": _content(item.get("content"))})
    elif kind == "function_call":
        function = {"name": item.get("name"), "arguments": item.get("arguments")}
        call = {"id": item.get("call_id"), "type": "function", "function": function}
        # One turn of the model is one message: its text, then its calls.
        if not messages or messages[-1]["role"] != "assistant":
            messages.append({"role": "assistant", "content": ""})
        messages[-1].setdefault("tool_calls", []).append(call)
    elif kind == "function_call_output":
        content = _content(item.get("output"))
        messages.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": content})
    elif kind != "reasoning":  # reasoning of earlier turns is not part of the prompt
        raise InvalidRequestError(
            field,
            f"items of type {kind!r} are not supported. Use message, function_call and function_call_output.",
        )


def _content(content: Any) -> Any:
    """Return content with the text parts of chat completions; the runtime refuses parts that are not text."""
    if not isinstance(content, list):
        return content
    return [
        {"type": "text", "text": part.get("text")}
        if isinstance(part, Mapping) and part.get("type") in _TEXT_PARTS
        else part
        for part in content
    ]


def _item_field_name(items: str | list[Any], message: int, field: str) -> str:
    """Return the name of a field of the input's message of this index."""
    if isinstance(items, str):
        return "input"
    call = _CALL.match(field)
    messages: list[Any] = []
    for number, item in enumerate(items):
        _append_item(messages, item, "input")
        if len(messages) <= message:
            continue
        if call is not None and len(messages[message].get("tool_calls", ())) <= int(call[1]):
            continue
        names = _ITEM_NAMES | ({".content": ".output"} if item.get("type") == "function_call_output" else {})
        return f"input[{number}]{renamed(field[call.end() :] if call else field, names)}"
    return "input"


def input_items(response: StoredResponse) -> list[Item]:
    """Return all that the model has read for a response but its instructions, the oldest item first.

    These are the conversation that the response continues, then its own input. The outputs of stored
    responses are items as they were returned. All others are made from the messages of the conversation, with
    ids that stay the same as long as what is before them does.
    """
    items = _Items()
    items.add_messages(response.conversation.first_messages)
    *earlier, last = response.conversation.turns
    for turn in earlier:
        output: list[Item] = [] if turn.response is None else turn.response["output"]
        items.add_messages(_without_output(turn.messages, output))
        items.add_outputs(output)
    items.add_messages(_without_output(last.messages, response.body["output"]))
    return items.items


def _without_output(messages: tuple[Message, ...], output: list[Item]) -> tuple[Message, ...]:
    return messages[: len(messages) - len(output_messages(output))]


class _Items:
    def __init__(self) -> None:
        self.items: list[Item] = []
        self._digest = hashlib.blake2b(digest_size=_ID_BYTES)

    def add_messages(self, messages: Iterable[Message]) -> None:
        for message in messages:
            for item in _items_of(message):
                self._digest.update(compact_json(item).encode())
                id = f"{_ID_PREFIXES[item['type']]}_{self._digest.hexdigest()}"
                self.items.append({"id": id} | item)

    def add_outputs(self, items: Iterable[Item]) -> None:
        for item in items:
            self._digest.update(item["id"].encode())
            self.items.append(item)


def _items_of(message: Message) -> Iterator[Item]:
    """Yield the items of one message, without ids."""
    role, content = message["role"], message["content"]
    calls = message.get("tool_calls") or ()
    if role == "tool":
        output = {"call_id": message.get("tool_call_id"), "output": content}
        yield {"type": "function_call_output", **output, "status": "completed"}
        return
    if content or not calls:
        yield {"type": "message", "role": role, "content": [_part(role, content)], "status": "completed"}
    for call in calls:
        function = {name: call["function"][name] for name in ("name", "arguments")}
        yield {"type": "function_call", "call_id": call.get("id"), **function, "status": "completed"}


def _part(role: str, text: str) -> Item:
    if role == "assistant":
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"type": "input_text", "text": text}
