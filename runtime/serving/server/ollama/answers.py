"""Generations in the form of Ollama, whole and in lines of a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from agentrt.calls import CallFinished, TextDelta, ToolCall

from ....engine.output.generation import Finished, Generation, GenerationEvent


@dataclass(frozen=True)
class OllamaWriter:
    """Writes one answer: that of a chat, or of a prompt."""

    model: str
    """The model's name in this server."""
    load_s: float
    """Seconds until the model was loaded."""
    chats: bool

    def lines(self, event: GenerationEvent) -> Iterator[dict[str, Any]]:
        """Yield the lines of a stream for one event."""
        if isinstance(event, TextDelta):
            yield self._line(event.text)
        elif isinstance(event, CallFinished):
            yield self._line("", (event.call,))
        elif isinstance(event, Finished):
            yield self._line("", **self._end(event.generation))

    def body(self, generation: Generation) -> dict[str, Any]:
        """Return an answer that is not streamed."""
        return self._line(generation.text, generation.tool_calls, **self._end(generation))

    def loaded(self) -> dict[str, Any]:
        """Return the answer to an empty prompt, for which the model is loaded only."""
        return self._line("", done=True, done_reason="load")

    def _line(
        self, text: str, calls: tuple[ToolCall, ...] = (), *, done: bool = False, **fields: Any
    ) -> dict[str, Any]:
        answer: dict[str, Any] = {"response": text}
        if self.chats:
            message: dict[str, Any] = {"role": "assistant", "content": text}
            if calls:
                message["tool_calls"] = [
                    {"function": {"name": call.name, "arguments": call.arguments}} for call in calls
                ]
            answer = {"message": message}
        return {"model": self.model, "created_at": now(), **answer, "done": done, **fields}

    def _end(self, generation: Generation) -> Mapping[str, Any]:
        """Return the fields of the last line."""
        usage, timing = generation.usage, generation.timing
        return {
            "done": True,
            "done_reason": "length" if generation.finish_reason == "length" else "stop",
            "total_duration": nanoseconds(self.load_s + timing.total_s),
            "load_duration": nanoseconds(self.load_s),
            "prompt_eval_count": usage.prompt_tokens,
            "prompt_eval_duration": nanoseconds(timing.time_to_first_token_s - timing.queued_s),
            "eval_count": usage.completion_tokens,
            "eval_duration": nanoseconds(timing.total_s - timing.time_to_first_token_s),
        }


def now() -> str:
    """Return the time in the form of RFC 3339."""
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def nanoseconds(seconds: float) -> int:
    """Return a duration as Ollama has it."""
    return int(seconds * 1_000_000_000)
