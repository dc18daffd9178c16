"""Recordings of runs: what the main model was asked and answered, what tools were called and said.

A recording can be made of any run: by an adapter's recorder while it happens, or afterwards from its history.
:func:`agentrt.testing.replay` runs it again, with or without speculation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, NonNegativeFloat, ValidationError

from ..calls import ToolCall, parse_arguments
from ..errors import InvalidRequestError


class RecordedCall(BaseModel):
    """One call of a tool, as it was made: ``error`` says what it raised, or else ``result`` what it said."""

    model_config = ConfigDict(frozen=True)

    id: str
    name: str
    arguments: dict[str, Any]
    result: str = ""
    error: str | None = None
    seconds: NonNegativeFloat = 0.0


class RecordedAnswer(BaseModel):
    """One call of the main model: ``messages`` and ``answer`` in the shape of chat completions.

    ``calls`` are those it asked for, in the order in which they were made; a person or a middleware may have
    changed their arguments in between, or made none of them.
    """

    model_config = ConfigDict(frozen=True)

    messages: tuple[dict[str, Any], ...]
    answer: dict[str, Any]
    calls: tuple[RecordedCall, ...] = ()
    seconds: NonNegativeFloat = 0.0

    @property
    def asked(self) -> list[ToolCall]:
        """The calls as the model wrote them; those whose arguments are not JSON are left out."""
        return list(_calls(self.answer))


class Recording(BaseModel):
    """The turns of one run, in the order in which the model was asked."""

    model_config = ConfigDict(frozen=True)

    turns: tuple[RecordedAnswer, ...]

    @classmethod
    def of_history(cls, messages: Sequence[Mapping[str, Any]]) -> Self:
        """Take a run from its final list of messages, which have the shape of chat completions."""
        results = {
            message["tool_call_id"]: str(message["content"])
            for message in messages
            if message["role"] == "tool"
        }
        turns = []
        for place, message in enumerate(messages):
            if message["role"] == "assistant":
                calls = tuple(
                    RecordedCall(
                        id=str(call.id),
                        name=call.name,
                        arguments=dict(call.arguments),
                        result=results[call.id],
                    )
                    for call in _calls(message)
                    if call.id in results
                )
                before = tuple(dict(each) for each in messages[:place])
                turns.append(RecordedAnswer(messages=before, answer=dict(message), calls=calls))
        return cls(turns=tuple(turns))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a recording; raises :class:`InvalidRequestError` where there is something else."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except ValidationError as error:
            raise InvalidRequestError(
                "path", f"{path} is not a recording: {error.errors()[0]['msg']}. Record the run again."
            ) from None

    def save(self, path: Path) -> None:
        """Write the recording as JSON. It holds everything that was said, so mind who may read it."""
        path.write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")

    @property
    def transcript(self) -> list[tuple[Any, ...]]:
        """All that was said and done, in order, without ids and times; equal for equal runs."""
        told: list[tuple[Any, ...]] = []
        for turn in self.turns:
            told.append(("model", turn.answer.get("content") or "", [_told(call) for call in turn.asked]))
            told += [("tool", _told(call), call.result, call.error) for call in turn.calls]
        return told


def _calls(message: Mapping[str, Any]) -> Iterator[ToolCall]:
    for call in message.get("tool_calls") or ():
        try:
            yield ToolCall(
                call["function"]["name"], parse_arguments(call["function"]["arguments"]), call["id"]
            )
        except ValueError:
            continue


def _told(call: ToolCall | RecordedCall) -> tuple[str, str]:
    return call.name, json.dumps(dict(call.arguments), sort_keys=True)
