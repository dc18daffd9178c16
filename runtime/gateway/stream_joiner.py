"""One stream of chat completion chunks out of several (SpecTools, Algorithm 5, O3, outside the engine)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from ..toolcache.outputs import ToolOutputs

_MOST_CHARACTERS = 4 * 2**20
"""Of one turn. A longer one is passed on, but not kept to be answered."""


@dataclass
class _Call:
    id: str
    name: str = ""
    arguments: str = ""


class Splice:
    """Passes on an engine's chunks, and knows when a turn of calls can be answered from ``outputs``.

    The chunks of all turns become those of one choice: one id, one opening, calls counted through, usage
    added up. The chunk that ends a turn which is answered is held back until the next turn has begun
    (:meth:`next_turn`), or is passed on after all (:meth:`give_up`).

    Like :class:`~agentrt.runtime.toolcache.ToolCacheProposer` it answers all calls of a turn or none.
    """

    def __init__(self, id: str, model: Any, outputs: ToolOutputs, *, hides_usage: bool) -> None:
        """``id`` is that of the response; the client sees no other.

        ``hides_usage`` keeps from the client what it did not ask for.
        """
        self._id = id
        self._model = model
        self._outputs = outputs
        self._hides_usage = hides_usage
        self._usage_before: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._calls_before = 0
        self._ids: set[str] = set()
        self._begin()

    def _begin(self) -> None:
        self._calls: list[_Call] = []
        self._text: list[str] = []
        self._characters = 0
        self._understood = True
        self._held: list[dict[str, Any]] = []
        self._answers: list[str] = []

    @property
    def answered(self) -> bool:
        """Whether the turn has ended in calls whose outputs are all there."""
        return bool(self._answers)

    @property
    def completion_tokens(self) -> int | None:
        """What the model has said so far; None if the engine has not told of this turn."""
        tokens = self._usage.get("completion_tokens")
        before = self._usage_before.get("completion_tokens", 0)
        return before + tokens if isinstance(tokens, int) else None

    def opening(self) -> dict[str, Any]:
        """The chunk that lets the client know the id before anything is generated."""
        choice = {
            "index": 0,
            "delta": {"role": "assistant", "content": ""},
            "logprobs": None,
            "finish_reason": None,
        }
        return {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": self._model,
            "choices": [choice],
        }

    def chunks(self, chunk: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """What the client is sent for one chunk of the engine's."""
        ours = {**chunk, "id": self._id}
        usage = ours.get("usage")
        if isinstance(usage, Mapping):
            self._usage = dict(usage)
            ours["usage"] = _sum(self._usage_before, usage)
        choices = ours.get("choices")
        if self._hides_usage:
            ours.pop("usage", None)
            if choices == [] and usage is not None:
                return
        if self.answered:
            self._held.append(ours)
        elif not choices:
            yield ours
        elif _is_only_choice(choices):
            yield from self._of_choice(ours, choices[0])
        else:
            self._understood = False
            yield ours

    def turn(self) -> list[dict[str, Any]]:
        """The answered turn and its outputs, as messages."""
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in self._calls
        ]
        results = [
            {"role": "tool", "tool_call_id": call.id, "content": answer}
            for call, answer in zip(self._calls, self._answers, strict=True)
        ]
        return [
            {"role": "assistant", "content": "".join(self._text) or None, "tool_calls": calls},
            *results,
        ]

    def next_turn(self) -> Iterator[dict[str, Any]]:
        """The engine goes on behind the outputs: what the client is sent of them."""
        for place, (call, answer) in enumerate(zip(self._calls, self._answers, strict=True)):
            result = {
                "index": self._calls_before + place,
                "tool_call_id": call.id,
                "name": call.name,
                "content": answer,
            }
            yield _with_choice(self._held[0], {"delta": {"tool_results": [result]}, "finish_reason": None})
        self._calls_before += len(self._calls)
        self._usage_before, self._usage = _sum(self._usage_before, self._usage), {}
        self._begin()

    def give_up(self) -> list[dict[str, Any]]:
        """What was held back: the client makes the calls itself."""
        return self._held

    def _of_choice(self, chunk: dict[str, Any], choice: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        delta = {name: value for name, value in choice["delta"].items() if name != "role"}  # it was told
        if isinstance(text := delta.get("content"), str):
            self._characters += len(text)
            self._text.append(text)
        if calls := delta.get("tool_calls"):
            delta["tool_calls"] = self._of_calls(calls)
        if self._characters > _MOST_CHARACTERS:
            self._understood = False
        if not self._understood:
            self._calls, self._text = [], []
        if choice.get("finish_reason") and (answers := self._find()):
            self._answers = answers
            if delta:
                yield _with_choice(chunk, {"delta": delta, "finish_reason": None})
            self._held.append(_with_choice(chunk, {"delta": {}, "logprobs": None}))
        else:
            yield _with_choice(chunk, {"delta": delta})

    def _of_calls(self, parts: Any) -> Any:
        """Parts of calls, counted through from the first turn on, and noted."""
        if not (isinstance(parts, list) and all(_is_part(part) for part in parts)):
            self._understood = False
            return parts
        return [self._of_call(part) for part in parts]

    def _of_call(self, part: Mapping[str, Any]) -> dict[str, Any]:
        place: int = part["index"]
        ours = {**part, "index": self._calls_before + place}
        if place > len(self._calls):
            self._understood = False
        if not self._understood:
            return ours
        if begins := place == len(self._calls):
            self._calls.append(_Call(self._fresh(part.get("id"))))
        call, function = self._calls[place], part.get("function") or {}
        name, arguments = function.get("name") or "", function.get("arguments") or ""
        if not call.name:
            call.name = name
        elif name not in ("", call.name):
            self._understood = False
        call.arguments += arguments
        self._characters += len(arguments)
        # Engines that count ids up from nought in each answer would give one twice.
        return {**ours, "id": call.id} if begins or part.get("id") is not None else ours

    def _fresh(self, id: Any) -> str:
        fresh = id if isinstance(id, str) and id and id not in self._ids else f"call_{secrets.token_hex(12)}"
        self._ids.add(fresh)
        return fresh

    def _find(self) -> list[str]:
        answers = []
        for call in self._calls if self._understood else ():
            try:
                arguments = from_json(call.arguments or "{}")
            except ValueError:
                return []
            output = self._outputs.get(call.name, arguments) if isinstance(arguments, dict) else None
            if output is None:
                return []
            answers.append(output.output)
        return answers


def _is_only_choice(choices: Any) -> bool:
    return (
        isinstance(choices, list)
        and len(choices) == 1
        and isinstance(choices[0], Mapping)
        and choices[0].get("index", 0) == 0
        and isinstance(choices[0].get("delta"), Mapping)
    )


def _is_part(part: Any) -> bool:
    if not (isinstance(part, Mapping) and isinstance(part.get("index"), int) and part["index"] >= 0):
        return False
    function = part.get("function") or {}
    return isinstance(function, Mapping) and all(
        isinstance(function.get(name), str | None) for name in ("name", "arguments")
    )


def _with_choice(chunk: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {**chunk, "choices": [{**chunk["choices"][0], **changes}]}


def _sum(before: Mapping[str, Any], usage: Mapping[str, Any]) -> dict[str, Any]:
    """Token counts added up, also those inside of details; of all else what came last."""
    total = {**before, **usage}
    for name, old in before.items():
        new = usage.get(name)
        if isinstance(old, Mapping):
            total[name] = _sum(old, new if isinstance(new, Mapping) else {})
        elif isinstance(old, int | float) and not isinstance(old, bool):
            total[name] = old + (new if isinstance(new, int | float) else 0)
    return total
