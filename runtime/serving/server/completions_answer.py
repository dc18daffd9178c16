"""Answers in OpenAI's format for completions, whole and in chunks."""

from __future__ import annotations

import codecs
import secrets
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from agentrt.calls import TextDelta

from ...engine.logprobs import TokenLogprobs
from ...engine.output.generation import Finished, Generation, GenerationEvent, LogprobsDelta
from ...request.options import Prompt, RawPrompt
from ..http.strict_json import give_way
from .chat_answer import ChoicesWriter
from .completions_request import DEFAULT_TOKENS, CompletionRequest

_UTF8: Final = codecs.getincrementaldecoder("utf-8")


class CompletionWriter(ChoicesWriter):
    """Writes completions."""

    kind = chunk_kind = "text_completion"
    takes_outputs = False
    default_tokens = DEFAULT_TOKENS

    def __init__(self, model: str, request: CompletionRequest, app: str) -> None:
        """Create the writer of the response to ``request`` of ``app``."""
        super().__init__(model, f"cmpl-{secrets.token_hex(16)}", request)
        self._request = request
        self._app = app
        self._echoed: list[str] = []
        """The text that precedes the answers to each prompt."""
        self._decoders: defaultdict[int, codecs.IncrementalDecoder] = defaultdict(lambda: _UTF8("replace"))
        self._characters: defaultdict[int, int] = defaultdict(int)

    def field_name(self, field: str, prompt: int) -> str:
        """Return the request's name for a field that an error of its prompt of this index names."""
        return self._request.field_name(field, prompt)

    async def accept(self, prompts: Sequence[Prompt]) -> None:
        """Find the texts of the prompts, if they are part of the answers."""
        self._echoed = [await self._text_of(prompt) if self._request.echo else "" for prompt in prompts]

    def opening(self) -> Iterator[dict[str, Any]]:
        """Yield the chunks of the prompts, if they are part of the answers."""
        for index in range(len(self._echoed) * self.answers):
            if text := self._echoed[index // self.answers]:
                yield self._chunk(index, {"text": text})

    def chunks(self, index: int, event: GenerationEvent) -> Iterator[dict[str, Any]]:
        """Yield the chunks for one event."""
        if isinstance(event, LogprobsDelta):
            if self._add_logprobs(index, event.tokens):
                yield self._chunk(index, {"text": ""})
        elif isinstance(event, TextDelta):
            yield self._chunk(index, {"text": event.text})
        elif isinstance(event, Finished):
            yield self._chunk(index, {"text": ""}, event.generation.finish_reason)

    def choice(self, index: int, generation: Generation) -> dict[str, Any]:
        """Return a choice of a completion that is not streamed."""
        wanted = self._request.logprobs is not None
        return {
            "index": index,
            "text": self._echoed[index // self.answers] + generation.text,
            "logprobs": self.logprobs(index, generation.logprobs) if wanted else None,
            "finish_reason": generation.finish_reason,
        }

    def logprobs(self, index: int, tokens: Iterable[TokenLogprobs]) -> dict[str, Any]:
        """Return the older format: lists of tokens, values and offsets in characters of the answer."""
        entries, offsets = list(tokens), []
        for entry in entries:
            text = self.runtime.token_text(entry.token)
            begin = self._characters[index]
            self._characters[index] += len(self._decoders[index].decode(text))
            # A text of whole characters follows what became of bytes that are none.
            whole = _as_text(text)
            offsets.append(begin if whole is None else self._characters[index] - len(whole))
        return {
            "tokens": [self._token_name(entry.token) for entry in entries],
            "token_logprobs": [entry.logprob for entry in entries],
            "top_logprobs": [
                {self._token_name(token): logprob for token, logprob in entry.top}
                for entry in give_way(entries)
            ],
            "text_offset": offsets,
        }

    async def _text_of(self, prompt: Prompt) -> str:
        assert isinstance(prompt, RawPrompt)
        if isinstance(prompt.content, str):
            return prompt.content
        return await self.runtime.adetokenize(prompt.content, app=self._app)

    def _token_name(self, token: int) -> str:
        """Return the text of a token, or what OpenAI writes for one that is part of a character."""
        text = self.runtime.token_text(token)
        whole = _as_text(text)
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in text) if whole is None else whole


def _as_text(token: bytes) -> str | None:
    """Return the characters of a token; None if it has parts of characters."""
    try:
        return token.decode()
    except UnicodeDecodeError:
        return None
