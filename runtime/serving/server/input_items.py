"""The input of a stored response as the items of OpenAI's responses."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

from ...contexts.context import Message
from ...contexts.response_chains import StoredResponse
from ..http.strict_json import compact_json
from .responses_request import output_messages

Item = dict[str, Any]

_ID_PREFIXES = {"message": "msg", "function_call": "fc", "function_call_output": "fco"}
_ID_BYTES = 24


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
