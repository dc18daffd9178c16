"""The items of ``/v1/responses`` and the chat messages for them: the body of a request, stored input."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Self

from pydantic import PrivateAttr, model_validator

from agentrt.errors import InvalidRequestError

from ...contexts.context import Message
from ...contexts.response_chains import StoredResponse
from ...engine.output.generation import Generation
from ...request.field_names import renamed, sender_names
from ...request.options import GenerationOptions
from ...request.validation import plain_messages
from .common_request import Body, CommonRequest, at_most
from .fields import LOGPROBS, UnservedFields
from .tools import (
    CHOICES,
    allowed_tools,
    called_fields,
    chat_choice,
    chat_tools,
    is_offered,
    name_in,
    offered_tools,
    shown_tool,
    split_name,
)

_TEXT_PARTS = ("input_text", "output_text", "text")
"""A tuple, since the type that a client sends may be of any JSON type, also one that cannot be hashed."""
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

_SUMMARY_FORM: Final = "agentrt1."
"""What the content of a compaction item begins with."""
_SUMMARY_HEAD: Final = "The conversation before, in short:\n"
_MAX_ID: Final = 128
"""Characters of an item's id."""


class TextOptions(Body):
    """The required format of the answer's text."""

    format: dict[str, Any] | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    """A hint that models here are not given."""


class Conversation(Body):
    """A conversation: the input, and what comes before it."""

    input: str | list[Any] | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    """The stored response that this one continues: its conversation, but not its ``instructions``."""

    def references(self) -> dict[int, Any]:
        """Return the ids that item references of the input name, by their index."""
        items = self.input if isinstance(self.input, list) else ()
        return {index: item.get("id") for index, item in enumerate(items) if _is_reference(item)}

    def input_messages(self) -> list[Any]:
        """Return the input as chat messages.

        Raises:
            InvalidRequestError: an item's type is not supported, its id is no text, or it is a compaction of
                another server.
        """
        if isinstance(self.input, str):
            return [{"role": "user", "content": self.input}]
        messages: list[Any] = []
        for index, item in enumerate(self.input or ()):
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
        return f"tools[{named[1]}]"


class ResponsesRequest(Conversation, UnservedFields, CommonRequest):
    """OpenAI's fields, as far as they make sense for a local model."""

    max_output_tokens: int | None = None
    tool_choice: str | dict[str, Any] | None = None
    text: TextOptions | None = None
    metadata: Annotated[dict[str, str] | None, at_most(_MAX_METADATA)] = None
    store: bool | None = None
    """Whether the response can be continued and shown later; true by default, as for OpenAI."""
    background: bool | None = None
    """Whether the response is queued, and computed when nothing more urgent is."""
    _offered: list[tuple[str, Any]] = PrivateAttr(default_factory=list)
    """The tools that the model is offered, each with its place in the request."""

    @model_validator(mode="after")
    def _keep_offered(self) -> Self:
        """Keep only the tools that the model is offered: the response lists these."""
        if self.tools is not None:
            self._offered = list(offered_tools(self.tools))
            self.tools = [tool for tool in self.tools if is_offered(tool)]
        return self

    def options(self) -> GenerationOptions:
        """Return the runtime's options.

        Raises:
            InvalidRequestError: a tool is no function, the choice of one is none, or ``top_logprobs`` is
                given and no log probabilities are included.
        """
        if self.top_logprobs and not self.wants_logprobs:
            raise InvalidRequestError("top_logprobs", f"needs include. Set it to ['{LOGPROBS}'].")
        options = self.common_options()
        with sender_names(self.field_name):
            options["tools"] = None if self.tools is None else chat_tools([tool for _, tool in self._offered])
        if isinstance(self.tool_choice, Mapping) and self.tool_choice.get("type") == "allowed_tools":
            with sender_names(self.field_name):
                options["tools"] = allowed_tools(options["tools"], self.tool_choice)
            options["tool_choice"] = self.tool_choice.get("mode")
        else:
            options["tool_choice"] = (
                self.tool_choice if self.tool_choice in CHOICES else chat_choice(self.tool_choice)
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

    def _tool_name(self, named: re.Match[str]) -> str:
        return self._offered[int(named[1])][0]

    def called(self, tool: str) -> dict[str, str]:
        """Return the fields of a call that name ``tool``, which the model knows by this name."""
        return called_fields(self.tools or (), tool)

    @property
    def shown_tools(self) -> list[Any]:
        """The tools as a response shows them: functions with all their fields."""
        return [shown_tool(tool) for tool in self.tools or ()]

    @property
    def shown_format(self) -> dict[str, Any]:
        """The format of the text as a response shows it."""
        given = (self.text and self.text.format) or {"type": "text"}
        unset = {"description": None, "strict": False} if given.get("type") == "json_schema" else {}
        return {**unset, **given}


def output_messages(items: Sequence[Any]) -> list[Any]:
    """Return the output items of a response as chat messages."""
    messages: list[Any] = []
    for index, item in enumerate(items):
        _append_item(messages, item, f"output[{index}]")
    return messages


def _response_format(text: TextOptions | None) -> dict[str, Any] | None:
    if text is None or text.format is None:
        return None
    kind = text.format.get("type")
    return {"type": kind, "json_schema": text.format} if kind == "json_schema" else text.format


def _append_item(messages: list[Any], item: Any, field: str) -> None:
    """Append an item of an input or an output to chat messages; a call may become part of the last one.

    An incomplete call is left out: its arguments may be no JSON, and nobody runs it.

    Raises:
        InvalidRequestError: its type is not supported, its id or namespace is no text, or it is a compaction
            of another server; ``field`` is its name.
    """
    kind = item.get("type", "message") if isinstance(item, Mapping) else None
    id = _item_id(item, field) if isinstance(item, Mapping) else {}
    if kind == "message":
        messages.append(
            {"role": item.get("role"), "content": _content(item.get("content")), **id, **_name(item)}
        )
    elif kind == "function_call":
        if item.get("status") == "incomplete":
            return
        name, namespace = item.get("name"), item.get("namespace")
        function = {"name": name_in(namespace, name), "arguments": item.get("arguments")}
        call = {"id": item.get("call_id"), "type": "function", "function": function, **id}
        if namespace is not None:
            if not isinstance(namespace, str):
                raise InvalidRequestError(f"{field}.namespace", "must be text. Send the call as it came.")
            call["namespace"] = namespace
        # One turn of the model is one message: its text, then its calls.
        if not messages or messages[-1]["role"] != "assistant":
            messages.append({"role": "assistant", "content": ""})
        messages[-1].setdefault("tool_calls", []).append(call)
    elif kind == "function_call_output":
        content = _content(item.get("output"))
        answered = {"role": "tool", "tool_call_id": item.get("call_id"), "content": content}
        messages.append({**answered, **id, **_name(item)})
    elif kind == "compaction":
        # As the model's own words: what it has read in tool outputs must not become the user's.
        summary = _summary(item.get("encrypted_content"), f"{field}.encrypted_content")
        messages.append({"role": "assistant", "content": _SUMMARY_HEAD + summary, **id})
    elif kind != "reasoning":  # reasoning of earlier turns is not part of the prompt
        raise InvalidRequestError(
            field,
            f"items of type {kind!r} are not supported. Use message, function_call, function_call_output, "
            "item_reference and compaction.",
        )


def _is_reference(item: Any) -> bool:
    """Whether an item of an input names a stored one; its type may be left out."""
    if not isinstance(item, Mapping):
        return False
    kind = item.get("type")
    return kind == "item_reference" or (kind is None and "id" in item and "role" not in item)


def _item_id(item: Mapping[str, Any], field: str) -> dict[str, str]:
    """Return the id of an item as messages have it; nothing if it has none."""
    id = item.get("id")
    if id is None:
        return {}
    if not isinstance(id, str) or not 0 < len(id) <= _MAX_ID:
        raise InvalidRequestError(f"{field}.id", f"must have 1 to {_MAX_ID} characters. Leave it out.")
    return {"item_id": id}


def _name(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the name of a speaker or a tool as messages have it; nothing if the item has none."""
    return {"name": item["name"]} if item.get("name") is not None else {}


def _summary(content: Any, field: str) -> str:
    """Return the summary in a compaction item.

    Raises:
        InvalidRequestError: no ``agentrt serve`` has made it.
    """
    try:
        if not content.startswith(_SUMMARY_FORM):
            raise ValueError
        return base64.b64decode(content.removeprefix(_SUMMARY_FORM), altchars=b"-_", validate=True).decode()
    except (AttributeError, ValueError):
        raise InvalidRequestError(
            field,
            "is no compaction of this server. Send the conversation, compacted by its POST "
            "/v1/responses/compact if it is too long.",
        ) from None


def stored_messages(messages: Sequence[Any]) -> Sequence[Message]:
    """Return chat messages as they are stored: in normal form, with ids of items and namespaces of calls.

    Raises:
        InvalidRequestError: a field is wrong.
    """
    stored = plain_messages(messages)
    for kept, given in zip(stored, messages, strict=True):
        calls = zip(kept.get("tool_calls", ()), given.get("tool_calls", ()), strict=True)
        for to, source in ((kept, given), *calls):
            to |= {name: source[name] for name in ("item_id", "namespace") if name in source}
    return stored


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


def _item_field_name(items: str | list[Any] | None, message: int, field: str) -> str:
    """Return the name of a field of the input's message of this index."""
    if not isinstance(items, list):
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
    the ids that they came with; those without, or with one of an item before, have ids that stay the same as
    long as what is before them does.
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


def compacted_items(messages: Sequence[Message], summary: str) -> list[Item]:
    """Return what is left of a conversation: all that its users and instructions say, then the summary."""
    items = _Items()
    items.add_messages(message for message in messages if message["role"] in ("system", "user"))
    content = _SUMMARY_FORM + base64.urlsafe_b64encode(summary.encode()).decode()
    compaction = {"type": "compaction", "id": f"cmp_{secrets.token_hex(12)}", "encrypted_content": content}
    return [*items.items, compaction]


def usage_of(generation: Generation) -> dict[str, Any]:
    """Return the tokens of an answer."""
    usage = generation.usage
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": 0,
            **usage.truncation_details,
        },
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


class _Items:
    def __init__(self) -> None:
        self.items: list[Item] = []
        self._ids: set[str] = set()
        self._digest = hashlib.blake2b(digest_size=_ID_BYTES)

    def add_messages(self, messages: Iterable[Message]) -> None:
        for message in messages:
            for id, item in items_of(message):
                text = json.dumps(item, ensure_ascii=False, separators=(",", ":"))
                self._digest.update(text.encode())
                if id is None or id in self._ids:
                    id = f"{_ID_PREFIXES[item['type']]}_{self._digest.hexdigest()}"
                self._add({"id": id} | item)

    def add_outputs(self, items: Iterable[Item]) -> None:
        for item in items:
            self._digest.update(item["id"].encode())
            self._add(item)

    def _add(self, item: Item) -> None:
        self._ids.add(item["id"])
        self.items.append(item)


def items_of(message: Message) -> Iterator[tuple[str | None, Item]]:
    """Yield the items of one message without ids, each behind the one that it came with, if it did."""
    role, content, id = message["role"], message["content"], message.get("item_id")
    calls = message.get("tool_calls") or ()
    if role == "tool":
        output = {"call_id": message.get("tool_call_id"), "output": content}
        yield id, {"type": "function_call_output", **output, "status": "completed"}
        return
    if content or not calls:
        part = _part(role, content)
        yield id, {"type": "message", "role": role, "content": [part], "status": "completed"}
    for call in calls:
        named = split_name(call.get("namespace"), call["function"]["name"])
        item = {"type": "function_call", "call_id": call.get("id"), **named}
        item |= {"arguments": call["function"]["arguments"], "status": "completed"}
        yield call.get("item_id"), item


def _part(role: str, text: str) -> Item:
    if role == "assistant":
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"type": "input_text", "text": text}
