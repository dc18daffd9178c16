"""The bodies of ``/v1/messages``: their fields, and the chat messages and tools for them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, field_validator
from pydantic_core import PydanticCustomError

from agentrt.errors import InvalidRequestError
from agentrt.finite import shown

from ...pool.responses.common_request import (
    MAX_ITEMS,
    Body,
    PrioritizedRequest,
    Refused,
    ToolSeconds,
    at_most,
)
from ...request.field_names import renamed
from ...request.options import GenerationOptions

_NAMES: Final = {
    "prompt": "messages",
    "stop": "stop_sequences",
    "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
}
_MESSAGE: Final = re.compile(r"messages\[(\d+)\]")
_FUNCTION: Final = re.compile(r"(tools\[\d+\])\.function(\.parameters)?")
_ROLES: Final = ("user", "assistant", "system")
_CHOICES: Final = {"auto": "auto", "any": "required", "none": "none"}
_NO_THINKING: Final = ("disabled", "adaptive")
"""What needs no thinking: adaptive leaves it to the model."""
_ERROR: Final = "Error: "
"""What a tool's output begins with where it is one: chat templates know no other mark."""


def _no_thinking(value: Any) -> Any:
    if value is not None and (not isinstance(value, Mapping) or value.get("type") not in _NO_THINKING):
        raise PydanticCustomError(
            "not_served", "is not served here. Leave it out, or send {'type': 'disabled'}."
        )
    return value


class Metadata(Body):
    """Who the request is for; ignored, as the token names the app."""

    user_id: str | None = None


class MessagesToolChoice(Body):
    """Which calls the answer may have."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class OutputConfig(Body):
    """How the answer is to be; its ``effort`` is ignored."""

    format: Refused = None


class CountRequest(PrioritizedRequest):
    """What the model is shown, in Anthropic's form. ``cache_control`` is ignored: every prefix is cached."""

    model: str
    system: str | list[Any] | None = None
    messages: list[Any]
    """:class:`ChatMessages` validates them."""
    tools: list[Any] | None = None
    tool_choice: MessagesToolChoice | None = None
    thinking: Annotated[dict[str, Any] | None, BeforeValidator(_no_thinking)] = None
    mcp_servers: Refused = None
    container: Refused = None
    output_config: OutputConfig | None = None
    output_format: Refused = None

    @field_validator("service_tier", mode="before")
    @classmethod
    def _known_tier(cls, tier: Any) -> Any:
        return "default" if tier == "standard_only" else tier

    def chat_tools(self) -> list[Any] | None:
        """Return the tools in the form of chat completions.

        Raises:
            InvalidRequestError: one is run by Anthropic's servers, or is known to its models only.
        """
        if self.tools is None:
            return None
        return [_chat_tool(tool, f"tools[{index}]") for index, tool in enumerate(self.tools)]

    def shown_tools(self) -> list[Any] | None:
        """Return the tools that the prompt lists, in the form of chat completions."""
        hidden = self.tool_choice is not None and self.tool_choice.type == "none"
        return None if hidden else self.chat_tools()


class MessagesRequest(CountRequest):
    """Anthropic's fields of a request for an answer, which is greedy unless it has a ``temperature``."""

    max_tokens: int
    stream: bool | None = None
    stop_sequences: Annotated[list[str] | None, at_most(MAX_ITEMS)] = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = None
    metadata: Metadata | None = None
    tool_seconds: ToolSeconds = None
    thread: dict[str, Any] | None = None
    """A conversation that the server is to hold: none is held here."""

    def options(self) -> GenerationOptions:
        """Return the runtime's options.

        Raises:
            InvalidRequestError: a tool is not served, or the choice of one has no name.
        """
        options = GenerationOptions(
            priority=self.runtime_priority, max_tokens=self.max_tokens, tools=self.chat_tools()
        )
        if self.stop_sequences:
            options["stop"] = self.stop_sequences
        if self.temperature is not None:
            options["temperature"] = self.temperature
        if self.top_p is not None:
            options["top_p"] = self.top_p
        if self.top_k is not None:
            options["top_k"] = self.top_k
        if self.tool_seconds is not None:
            options["tool_seconds"] = self.tool_seconds
        if (choice := self.tool_choice) is not None:
            if choice.type == "tool" and choice.name is None:
                raise InvalidRequestError("tool_choice.name", "is missing. Name the tool to call.")
            options["parallel_tool_calls"] = not choice.disable_parallel_tool_use
            named = {"type": "function", "function": {"name": choice.name}}
            options["tool_choice"] = _CHOICES.get(choice.type, named)
        return options


class ChatMessages:
    """The chat messages for the ``system`` and ``messages`` of a request, and where each came from."""

    def __init__(self, request: CountRequest) -> None:
        """Convert the messages of ``request``.

        Raises:
            InvalidRequestError: one has a role or a block that is not served, or the last is the assistant's.
        """
        self.messages: list[dict[str, Any]] = []
        self._open_calls: list[Any] = []
        """The ids of the calls that the next message of the user answers."""
        self._names: list[dict[str, str]] = []
        """Of each message, the request's names for itself (the empty name) and for its fields."""
        if request.system:
            self._add("system", "system")
            self._add_texts(request.system, "system")
        for index, message in enumerate(request.messages):
            self._add_message(message, f"messages[{index}]")
        if not request.messages:
            raise InvalidRequestError("messages", "is empty. Send at least one, of the user.")
        if request.messages[-1]["role"] == "assistant":
            raise InvalidRequestError(
                "messages",
                "the last one is the assistant's, and none is continued here. End with the user's.",
            )

    def field_name(self, field: str) -> str:
        """Return the request's name for a field that an error of the runtime names."""
        message = _MESSAGE.match(field)
        if message is not None:
            return renamed(field[message.end() :], self._names[int(message[1])])
        function = _FUNCTION.match(field)
        if function is not None:
            return f"{function[1]}{'.input_schema' if function[2] else ''}{field[function.end() :]}"
        return renamed(field, _NAMES)

    def _add(self, role: str, name: str) -> None:
        self.messages.append({"role": role, "content": []})
        self._names.append({"": name, ".content": name})

    def _add_message(self, message: Any, name: str) -> None:
        role = message.get("role") if isinstance(message, Mapping) else None
        if role not in _ROLES:
            raise InvalidRequestError(f"{name}.role", f"{shown(role)} is unknown. Use {', '.join(_ROLES)}.")
        content, name = message.get("content"), f"{name}.content"
        if isinstance(content, list) and role == "user":
            self._add_user_blocks(content, name)
            return
        self._add(role, name)
        if isinstance(content, list) and role == "assistant":
            self._add_answer_blocks(content, name)
        else:
            self._add_texts(content, name)

    def _add_user_blocks(self, blocks: list[Any], name: str) -> None:
        """Add a message for the texts that follow each other, and one for each output of a tool."""
        if not blocks:
            raise InvalidRequestError(name, "is empty. Say what the model should do.")
        in_text = False
        for index, block in self._by_call(blocks, name):
            each = f"{name}[{index}]"
            if _kind(block) == "tool_result":
                self._add_result(block, each)
                in_text = False
            else:
                if not in_text:
                    self._add("user", name)
                self._add_text(block, each)
                in_text = True

    def _by_call(self, blocks: list[Any], name: str) -> list[tuple[int, Any]]:
        """Return ``blocks`` with their places, results in the order of the calls that they answer.

        Most chat templates have no ids: there a result is that of the call at its place.
        """
        calls, self._open_calls = [*map(str, self._open_calls)], []
        places = [place for place, block in enumerate(blocks) if _kind(block) == "tool_result"]
        ids = [str(blocks[place].get("tool_use_id")) for place in places]
        for place, id in zip(places, ids, strict=True):
            if id not in calls:
                raise InvalidRequestError(
                    f"{name}[{place}].tool_use_id",
                    f"{shown(id)} is no call of the message before. Send the conversation with the calls.",
                )
        if sorted(ids) == sorted({*calls}):
            places = [places[ids.index(id)] for id in dict.fromkeys(calls)]
        results = iter(places)
        order = [
            next(results) if _kind(block) == "tool_result" else place for place, block in enumerate(blocks)
        ]
        return [(place, blocks[place]) for place in order]

    def _add_result(self, block: Mapping[str, Any], name: str) -> None:
        self._add("tool", f"{name}.content")
        self._names[-1][".tool_call_id"] = f"{name}.tool_use_id"
        self.messages[-1]["tool_call_id"] = block.get("tool_use_id")
        if block.get("is_error"):
            self._add_text({"type": "text", "text": _ERROR}, name)
        if block.get("content") is not None:
            self._add_texts(block["content"], f"{name}.content")

    def _add_answer_blocks(self, blocks: list[Any], name: str) -> None:
        """Add the texts and calls of the last message, which is the model's. What it thought is not shown.

        Outputs that this server had for its calls are among them; then what follows is one more message.
        """
        for index, block in enumerate(blocks):
            each, kind = f"{name}[{index}]", _kind(block)
            if kind == "tool_result":
                self._add_answered(block, each)
            elif kind != "thinking" and kind != "redacted_thinking":
                if self.messages[-1]["role"] == "tool":
                    self._add("assistant", name)
                if kind == "tool_use":
                    self._add_call(block, each)
                else:
                    self._add_text(block, each)

    def _add_answered(self, block: Mapping[str, Any], name: str) -> None:
        id = block.get("tool_use_id")
        if id not in self._open_calls:
            raise InvalidRequestError(
                f"{name}.tool_use_id",
                f"{shown(id)} is no call of the blocks before. Send the message as it came.",
            )
        self._open_calls.remove(id)
        self._add_result(block, name)

    def _add_call(self, block: Mapping[str, Any], name: str) -> None:
        calls = self.messages[-1].setdefault("tool_calls", [])
        call = f".tool_calls[{len(calls)}]"
        self._names[-1] |= {
            call: name,
            f"{call}.id": f"{name}.id",
            f"{call}.function.name": f"{name}.name",
            f"{call}.function.arguments": f"{name}.input",
        }
        function = {"name": block.get("name"), "arguments": block.get("input")}
        calls.append({"id": block.get("id"), "type": "function", "function": function})
        self._open_calls.append(block.get("id"))

    def _add_texts(self, content: Any, name: str) -> None:
        """Add a text, or blocks of text, to the last message."""
        if isinstance(content, list):
            for index, block in enumerate(content):
                self._add_text(block, f"{name}[{index}]")
        elif isinstance(content, str):
            self._add_text({"type": "text", "text": content}, name)
        else:
            raise InvalidRequestError(name, "is neither text nor a list of blocks. Send one of these.")

    def _add_text(self, block: Any, name: str) -> None:
        kind = _kind(block)
        if kind != "text":
            raise InvalidRequestError(
                name,
                f"a block of type {shown(kind)} is not served here. Send text, tool_use or tool_result.",
            )
        parts = self.messages[-1]["content"]
        self._names[-1][f".content[{len(parts)}]"] = name
        text = block.get("text")
        if parts and parts[-1]["text"] != _ERROR and isinstance(text, str):
            text = f"\n{text}"  # templates put parts together without a space
        parts.append({"type": "text", "text": text})


def _kind(block: Any) -> Any:
    return block.get("type") if isinstance(block, Mapping) else None


def _chat_tool(tool: Any, name: str) -> dict[str, Any]:
    """Return a tool in the form of chat completions."""
    kind = _kind(tool)
    if not isinstance(tool, Mapping) or (kind is not None and kind != "custom"):
        raise InvalidRequestError(
            name,
            f"a tool of type {shown(kind)} is not served here. Send name, description and input_schema.",
        )
    function = {"name": tool.get("name"), "parameters": tool.get("input_schema")}
    if tool.get("description") is not None:
        function["description"] = tool["description"]
    return {"type": "function", "function": function}
