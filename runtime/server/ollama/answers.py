"""Generations in the form of Ollama, whole and in lines of a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from agentrt.calls import CallFinished, TextDelta, ToolCall

from ...output.generation import Finished, Generation, GenerationEvent

_NS: Final = 1_000_000_000


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
        """Return the fields of the last line. Durations are in nanoseconds."""
        usage, timing = generation.usage, generation.timing
        return {
            "done": True,
            "done_reason": "length" if generation.finish_reason == "length" else "stop",
            "total_duration": int((self.load_s + timing.total_s) * _NS),
            "load_duration": int(self.load_s * _NS),
            "prompt_eval_count": usage.prompt_tokens,
            "prompt_eval_duration": int((timing.time_to_first_token_s - timing.queued_s) * _NS),
            "eval_count": usage.completion_tokens,
            "eval_duration": int((timing.total_s - timing.time_to_first_token_s) * _NS),
        }


def now() -> str:
    """Return the time in the form of RFC 3339."""
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")
