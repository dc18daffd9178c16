"""One stream of chat completion chunks from those of several turns (SpecTools, Algorithm 5, O3)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from agentrt.calls import ToolCall

from ...toolcache.outputs import ToolOutputs
from ..http.strict_json import MAX_VALUES, has_more_values, parse_json

_MAX_CALLS = 1024
_MAX_CHARACTERS = 2**20
"""Of one turn. The record of a longer one is dropped; its chunks are sent all the same."""
_MAX_HELD = 64
"""Chunks behind the end of an answered turn. An engine sends one or two: the end itself, and the usage."""


@dataclass
class _Call:
    """A tool call as far as it was streamed."""

    id: str
    name: str = ""
    parts: list[str] = field(default_factory=list)
    """Of the arguments, in order. Joining them at each part would copy all of them."""

    @property
    def arguments(self) -> str:
        return "".join(self.parts)


class _Turn:
    """One turn of the model, recorded to be answered from a tool cache.

    A turn that is too long, or whose chunks do not follow OpenAI's format, has no calls and no outputs.
    """

    def __init__(self) -> None:
        self.calls: list[_Call] = []
        self.text: list[str] = []
        self._characters = 0
        self.recording = True
        """False once the turn was given up as too long or malformed."""

    def stop(self) -> None:
        self.recording = False
        self.calls, self.text = [], []

    def add_text(self, text: str) -> None:
        if self.recording:
            self.text.append(text)
            self._count(text)

    def add_function(self, index: int, function: Mapping[str, Any]) -> None:
        """Add a part of the call at ``index``: its name, more of its arguments, or both."""
        call = self.calls[index]
        name, arguments = function.get("name") or "", function.get("arguments") or ""
        call.name = call.name or name
        if name not in ("", call.name):
            self.stop()
            return
        call.parts.append(arguments)
        self._count(arguments)

    def tool_calls(self) -> list[ToolCall]:
        """Return the calls, in order; none if their arguments are no objects, or too large."""
        if has_more_values(",".join(call.arguments for call in self.calls).encode(), MAX_VALUES):
            return []
        try:
            parsed = [parse_json((call.arguments or "{}").encode()) for call in self.calls]
        except ValueError:
            return []
        if not all(isinstance(arguments, dict) for arguments in parsed):
            return []
        return [ToolCall(call.name, arguments) for call, arguments in zip(self.calls, parsed, strict=True)]

    def _count(self, text: str) -> None:
        self._characters += len(text)
        if self._characters > _MAX_CHARACTERS:
            self.stop()


class StreamJoiner:
    """Joins the chunks of an engine's turns into one choice, and answers tool calls from ``outputs``.

    The client sees one id, one opening chunk, tool calls numbered across turns, and the sum of all usage. The
    chunk that ends a turn in calls is held back until their outputs have been looked for (:meth:`end_turn`).
    That of an answered turn is held back until the next turn has begun (:meth:`begin_next_turn`), or is sent
    if there is none (:attr:`held`).

    Like :class:`~agentrt.runtime.toolcache.drafter.ToolCacheDrafter`, it answers all calls of a turn or
    none.
    """

    def __init__(self, id: str, model: Any, outputs: ToolOutputs, *, hides_usage: bool) -> None:
        """Create a joiner for the response ``id``, the only id that the client sees.

        ``hides_usage`` removes usage that the client did not request.
        """
        self._id = id
        self._model = model
        self._outputs = outputs
        self._hides_usage = hides_usage
        self._model_before = ""
        self._engine_model = ""
        self._usage_before: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._calls_before = 0
        self._call_ids: set[str] = set()
        self._reset_turn()

    def _reset_turn(self) -> None:
        self._turn = _Turn()
        self._last_chunk: dict[str, Any] | None = None
        self.held: list[dict[str, Any]] = []
        """Chunks that end the response if there is no next turn: the client then makes the calls."""
        self._answers: list[str] = []

    @property
    def turn_answered(self) -> bool:
        """Whether the turn has ended in calls that all have cached outputs."""
        return bool(self._answers)

    @property
    def completion_tokens(self) -> int | None:
        """Completion tokens of all turns so far; None if the engine did not report those of this turn."""
        tokens = self._usage.get("completion_tokens")
        before = self._usage_before.get("completion_tokens", 0)
        return before + tokens if isinstance(tokens, int) else None

    def opening_chunk(self) -> dict[str, Any]:
        """Return the first chunk. It gives the client the id before the engine generates anything."""
        delta = {"role": "assistant", "content": ""}
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
        return {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": self._model,
            "choices": [choice],
        }

    def client_chunks(self, chunk: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the client's chunks for one chunk of the engine.

        Raises:
            httpx.RemoteProtocolError: it names another model than the turns before, as of engines that do not
                serve the same one, or is one of too many behind the end of an answered turn.
        """
        if isinstance(model := chunk.get("model"), str) and model:
            if self._model_before and model != self._model_before:
                raise httpx.RemoteProtocolError(
                    f"it went on as the model {model!r} in place of {self._model_before!r}"
                )
            self._engine_model = model
        sent = {**chunk, "id": self._id}
        usage = sent.get("usage")
        if isinstance(usage, Mapping):
            self._usage = dict(usage)
            sent["usage"] = _sum_usage(self._usage_before, usage)
        choices = sent.get("choices")
        if self._hides_usage:
            sent.pop("usage", None)
            if choices == [] and usage is not None:
                return
        if self.turn_answered:
            if len(self.held) >= _MAX_HELD:
                raise httpx.RemoteProtocolError(f"more than {_MAX_HELD} chunks followed the end of its turn")
            self.held.append(sent)
        elif not choices:
            yield sent
        elif _is_one_choice(choices):
            yield from self._choice_chunks(sent, choices[0])
        else:
            self._turn.stop()
            yield sent

    @property
    def ending_calls(self) -> list[ToolCall]:
        """The calls of a turn that they end, until :meth:`end_turn`."""
        return [] if self._last_chunk is None else self._turn.tool_calls()

    def end_turn(self) -> Iterator[dict[str, Any]]:
        """Look for the outputs of a turn that ends in calls, and yield what is to be sent of its last chunk.

        Nothing if the turn has not ended so. Follows each :meth:`client_chunks`.
        """
        chunk, self._last_chunk = self._last_chunk, None
        if chunk is None:
            return
        found = self._outputs.find(self._turn.tool_calls())
        self._outputs.use(found)  # up, those that are not reusable
        self._answers = [entry.output for entry in found]
        if not self._answers:
            yield chunk
            return
        if delta := chunk["choices"][0]["delta"]:
            yield _with_choice(chunk, {"delta": delta, "finish_reason": None})
        self.held.append(_with_choice(chunk, {"delta": {}, "logprobs": None}))

    def turn_messages(self) -> list[dict[str, Any]]:
        """Return the answered turn as an assistant message, followed by one tool message per output."""
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in self._turn.calls
        ]
        results = [
            {"role": "tool", "tool_call_id": call.id, "content": answer}
            for call, answer in zip(self._turn.calls, self._answers, strict=True)
        ]
        text = "".join(self._turn.text) or None
        return [{"role": "assistant", "content": text, "tool_calls": calls}, *results]

    def begin_next_turn(self) -> Iterator[dict[str, Any]]:
        """Yield the tool results of the answered turn in place of its held chunks, and begin the next one."""
        for index, (call, answer) in enumerate(zip(self._turn.calls, self._answers, strict=True)):
            result = {"index": self._calls_before + index, "tool_call_id": call.id, "name": call.name}
            result["content"] = answer
            yield _with_choice(self.held[0], {"delta": {"tool_results": [result]}, "finish_reason": None})
        self._model_before = self._engine_model
        self._calls_before += len(self._turn.calls)
        self._usage_before, self._usage = _sum_usage(self._usage_before, self._usage), {}
        self._reset_turn()

    def _choice_chunks(self, chunk: dict[str, Any], choice: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        # The opening chunk has the role.
        delta = {name: value for name, value in choice["delta"].items() if name != "role"}
        if isinstance(text := delta.get("content"), str):
            self._turn.add_text(text)
        if calls := delta.get("tool_calls"):
            delta["tool_calls"] = self._renumber_calls(calls)
        chunk = _with_choice(chunk, {"delta": delta})
        if choice.get("finish_reason") and self._turn.calls:
            self._last_chunk = chunk
        else:
            yield chunk

    def _renumber_calls(self, parts: Any) -> Any:
        """Record parts of tool calls, and return them with the indices they have in the whole response."""
        if not (isinstance(parts, list) and all(_is_call_part(part) for part in parts)):
            self._turn.stop()
            return parts
        return [self._renumber_call(part) for part in parts]

    def _renumber_call(self, part: Mapping[str, Any]) -> dict[str, Any]:
        index: int = part["index"]
        sent = {**part, "index": self._calls_before + index}
        if index > len(self._turn.calls) or index >= _MAX_CALLS:
            self._turn.stop()
        if not self._turn.recording:
            return sent
        if begins := index == len(self._turn.calls):
            id = part.get("id")
            if not (isinstance(id, str) and id and id not in self._call_ids):
                id = f"call_{secrets.token_hex(12)}"
            self._call_ids.add(id)
            self._turn.calls.append(_Call(id))
        call_id = self._turn.calls[index].id
        self._turn.add_function(index, part.get("function") or {})
        # Engines that number ids from zero in each answer would repeat them.
        return {**sent, "id": call_id} if begins or part.get("id") is not None else sent


def _is_one_choice(choices: Any) -> bool:
    return (
        isinstance(choices, list)
        and len(choices) == 1
        and isinstance(choices[0], Mapping)
        and choices[0].get("index", 0) == 0
        and isinstance(choices[0].get("delta"), Mapping)
    )


def _is_call_part(part: Any) -> bool:
    if not (isinstance(part, Mapping) and isinstance(part.get("index"), int) and part["index"] >= 0):
        return False
    function = part.get("function") or {}
    return isinstance(function, Mapping) and all(
        isinstance(function.get(name), str | None) for name in ("name", "arguments")
    )


def _with_choice(chunk: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {**chunk, "choices": [{**chunk["choices"][0], **changes}]}


def _sum_usage(before: Mapping[str, Any], usage: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sum of token counts, nested details included; other values are those of ``usage``."""
    total = {**before, **usage}
    for name, old in before.items():
        new = usage.get(name)
        if isinstance(old, Mapping):
            total[name] = _sum_usage(old, new if isinstance(new, Mapping) else {})
        elif isinstance(old, int | float) and not isinstance(old, bool):
            total[name] = old + (new if isinstance(new, int | float) else 0)
    return total
