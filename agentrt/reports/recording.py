"""Recordings of runs: the model's requests and answers, the tool calls and their results.

Any run can be recorded: while it happens by an adapter's recorder, or afterwards from its history.
:func:`agentrt.testing.replay` runs a recording again, with or without speculation.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, NonNegativeFloat, ValidationError

from ..calls import ToolCall, parse_arguments
from ..errors import InvalidRequestError
from .timeline import Kind, Span, TimedTurn, Timeline


class RecordedCall(BaseModel):
    """One call of a tool as it was made, with its ``result``, or the message of its ``error``.

    ``started_s`` is when, in seconds since the start of the recording, where that is known.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    name: str
    arguments: dict[str, Any]
    result: str = ""
    error: str | None = None
    started_s: float | None = None
    seconds: NonNegativeFloat = 0.0


class RecordedAnswer(BaseModel):
    """One request of the model: ``messages`` and ``answer`` in the shape of chat completions.

    ``calls`` are the calls that were made for the answer, in order; a person or a middleware may have changed
    the arguments, or dropped calls. ``started_s`` is when the request was sent, as of calls.
    """

    model_config = ConfigDict(frozen=True)

    messages: tuple[dict[str, Any], ...]
    answer: dict[str, Any]
    calls: tuple[RecordedCall, ...] = ()
    started_s: float | None = None
    seconds: NonNegativeFloat = 0.0

    @property
    def requested(self) -> list[ToolCall]:
        """The calls as the model wrote them, without those whose arguments are not JSON."""
        return list(_calls(self.answer))


class Recording(BaseModel):
    """The turns of one run, in the order of the model requests."""

    model_config = ConfigDict(frozen=True)

    turns: tuple[RecordedAnswer, ...]

    @classmethod
    def of_history(cls, messages: Sequence[Mapping[str, Any]]) -> Self:
        """Make a recording from a run's final list of messages, in the shape of chat completions."""
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
        """Read a recording; raises :class:`InvalidRequestError` if the file holds something else."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except ValidationError as error:
            raise InvalidRequestError(
                "path", f"{path} is not a recording: {error.errors()[0]['msg']}. Record the run again."
            ) from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the recording as JSON. It holds the whole conversation: restrict who can read it."""
        Path(path).write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")

    def timeline(self, title: str = "") -> Timeline:
        """Return the timeline of the run: the model, and all tools as the agent waited for them.

        Raises:
            InvalidRequestError: a request or a call has no ``started_s``, as in recordings of histories.
        """
        timed = []
        for turn in self.turns:
            names = ", ".join(call.name for call in turn.requested)
            spans = [_span(turn, "model", "", f"calls {names}" if names else "answer")]
            timed.append(TimedTurn((*spans, *(_span(call, "tool", call.name, "") for call in turn.calls))))
        return Timeline.of_turns(timed, title)

    @property
    def transcript(self) -> list[tuple[Any, ...]]:
        """All answers, calls and results in order, without ids and times; equal for equal runs."""
        steps: list[tuple[Any, ...]] = []
        for turn in self.turns:
            steps.append(
                (
                    "model",
                    turn.answer.get("content") or "",
                    [_name_and_arguments(call) for call in turn.requested],
                )
            )
            steps += [("tool", _name_and_arguments(call), call.result, call.error) for call in turn.calls]
        return steps


def _span(recorded: RecordedAnswer | RecordedCall, kind: Kind, tool: str, note: str) -> Span:
    if recorded.started_s is None:
        raise InvalidRequestError(
            "recording",
            "it does not say when its requests and calls were made. Record the run while it happens.",
        )
    return Span(kind, recorded.started_s, recorded.started_s + recorded.seconds, tool, note)


def _calls(message: Mapping[str, Any]) -> Iterator[ToolCall]:
    for call in message.get("tool_calls") or ():
        try:
            yield ToolCall(
                call["function"]["name"], parse_arguments(call["function"]["arguments"]), call["id"]
            )
        except ValueError:
            continue


def _name_and_arguments(call: ToolCall | RecordedCall) -> tuple[str, str]:
    return call.name, json.dumps(dict(call.arguments), sort_keys=True)
