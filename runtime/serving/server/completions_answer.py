"""Generations in OpenAI's format for completions, whole and in chunks."""

from __future__ import annotations

import codecs
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from agentrt.calls import TextDelta

from ...engine.logprobs import TokenLogprobs
from ...engine.output.generation import Finished, Generation, GenerationEvent, LogprobsDelta
from ...engine.output.pending import LOGPROBS_AT_ONCE
from ...local.service import LocalRuntime
from ..http.ids import new_text_completion_id
from ..http.large_json import give_way
from .chat_answer import usage_body

_UTF8: Final = codecs.getincrementaldecoder("utf-8")


@dataclass(frozen=True)
class TextMetadata:
    """The fields that every body and chunk of one response repeats."""

    runtime: LocalRuntime
    model: str
    """The model's name in this server."""
    choices_per_prompt: int
    id: str = field(default_factory=new_text_completion_id)
    created: int = field(default_factory=lambda: int(time.time()))

    def body(self, choices: Sequence[Mapping[str, Any]], **fields: Any) -> dict[str, Any]:
        """Return a completion or a chunk with these choices."""
        return {
            "id": self.id,
            "object": "text_completion",
            "created": self.created,
            "model": self.model,
            "choices": choices,
            "system_fingerprint": None,
            **fields,
        }

    def usage(self, generations: Sequence[Generation]) -> dict[str, Any]:
        """Return the tokens of all choices together. Each prompt counts once."""
        step = self.choices_per_prompt
        total, *others = [
            usage_body(generations[first : first + step]) for first in range(0, len(generations), step)
        ]
        for other in others:
            total = _sum(total, other)
        return total

    def usage_chunk(self, generations: Sequence[Generation]) -> dict[str, Any]:
        """Return the last chunk of a stream that has the usage."""
        return self.body([], usage=self.usage(generations))


def _sum(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _sum(value, other[name]) if isinstance(value, Mapping) else value + other[name]
        for name, value in one.items()
    }


def text_completion_body(
    metadata: TextMetadata, generations: Sequence[Generation], echoed: Sequence[str], include_logprobs: bool
) -> dict[str, Any]:
    """Return the body of a completion that is not streamed. ``echoed`` are the texts before the answers."""
    choices = []
    for index, (generation, before) in enumerate(zip(generations, echoed, strict=True)):
        logprobs = TextLogprobs(metadata.runtime).format(generation.logprobs) if include_logprobs else None
        text = before + generation.text
        choices.append(_choice(index, text, logprobs, generation.finish_reason))
    return metadata.body(choices, usage=metadata.usage(generations))


class TextLogprobs:
    """Log probabilities of one answer in the older format: lists of tokens, values and offsets."""

    def __init__(self, runtime: LocalRuntime) -> None:
        """``runtime`` has the texts of the tokens."""
        self._runtime = runtime
        self._decoder = _UTF8("replace")
        self._characters = 0

    def format(self, tokens: Iterable[TokenLogprobs]) -> dict[str, Any]:
        """Return the entries of the next tokens. Offsets are in characters of the answer."""
        entries = list(tokens)
        offsets = []
        for entry in entries:
            text = self._runtime.token_text(entry.token)
            begin = self._characters
            self._characters += len(self._decoder.decode(text))
            # A text of whole characters follows what became of bytes that are none.
            whole = _as_text(text)
            offsets.append(begin if whole is None else self._characters - len(whole))
        return {
            "tokens": [self._name(entry.token) for entry in entries],
            "token_logprobs": [entry.logprob for entry in entries],
            "top_logprobs": [
                {self._name(token): logprob for token, logprob in entry.top} for entry in give_way(entries)
            ],
            "text_offset": offsets,
        }

    def _name(self, token: int) -> str:
        """Return the text of a token, or what OpenAI writes for one that is part of a character."""
        text = self._runtime.token_text(token)
        whole = _as_text(text)
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in text) if whole is None else whole


def _as_text(token: bytes) -> str | None:
    """Return the characters of a token; None if it has parts of characters."""
    try:
        return token.decode()
    except UnicodeDecodeError:
        return None


class TextStream:
    """Turns one generation's events into the chunks of one choice."""

    def __init__(self, metadata: TextMetadata, index: int, echoed: str, *, include_usage: bool) -> None:
        """Create the stream of the choice ``index``, whose text begins with ``echoed``.

        ``include_usage`` adds the field ``usage`` to each chunk, with no value.
        """
        self._metadata = metadata
        self._index = index
        self._echoed = echoed
        self._extra_fields: dict[str, Any] = {"usage": None} if include_usage else {}
        self._format = TextLogprobs(metadata.runtime).format
        self._logprobs: list[TokenLogprobs] = []
        self.generation: Generation | None = None
        """The generation, once it has ended."""

    def opening_chunks(self) -> Iterator[dict[str, Any]]:
        """Yield the chunk of the prompt, if it is part of the answer."""
        if self._echoed:
            yield self._chunk(self._echoed)

    def chunks(self, event: GenerationEvent) -> Iterator[dict[str, Any]]:
        """Yield the chunks for one event."""
        if isinstance(event, LogprobsDelta):
            self._logprobs += event.tokens
            if len(self._logprobs) >= LOGPROBS_AT_ONCE:
                yield self._chunk("")
        elif isinstance(event, TextDelta):
            yield self._chunk(event.text)
        elif isinstance(event, Finished):
            self.generation = event.generation
            yield self._chunk("", event.generation.finish_reason)

    def _chunk(self, text: str, finish_reason: str | None = None) -> dict[str, Any]:
        logprobs = None
        if self._logprobs:
            logprobs, self._logprobs = self._format(self._logprobs), []
        return self._metadata.body(
            [_choice(self._index, text, logprobs, finish_reason)], **self._extra_fields
        )


def _choice(
    index: int, text: str, logprobs: Mapping[str, Any] | None, finish_reason: str | None
) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish_reason}
