"""``POST /v1/completions``, which continues prompts without a template: body, answers whole and in chunks."""

from __future__ import annotations

import codecs
import secrets
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from agentrt.calls import TextDelta
from agentrt.concurrency.fair_threads import give_way
from agentrt.errors import InvalidRequestError

from ...engine.logprobs import TokenLogprobs
from ...engine.output.generation import Finished, Generation, GenerationEvent, LogprobsDelta
from ...pool.responses.common_request import MAX_CHOICES, ChoicesRequest
from ...request.field_names import renamed
from ...request.options import GenerationOptions, Prompt, RawPrompt
from ..http.request_state import app_of, header_priority
from ..http.strict_json import StrictJsonRoute
from .answers import answer
from .chat import ChoicesWriter
from .server_state import header_session, server_state_of

_UTF8: Final = codecs.getincrementaldecoder("utf-8")

router = APIRouter(route_class=StrictJsonRoute)


def _refuse_suffix(value: Any) -> None:
    if value not in (None, ""):
        raise PydanticCustomError(
            "no_suffix",
            "no text can follow the completion. Put the text before and after the gap into the prompt, with "
            "the model's own tokens for filling in the middle.",
        )


class CompletionRequest(ChoicesRequest):
    """OpenAI's fields of the older interface, and those that local engines add to them."""

    prompt: str | list[Any]
    """A text, texts, token ids, or lists of token ids. The runtime validates them."""
    add_special_tokens: bool | None = None
    """vLLM's: whether a text begins with the model's begin token, if it has one; true by default."""
    max_tokens: int | None = None
    echo: bool | None = None
    """Whether the answer begins with the prompt."""
    logprobs: int | None = Field(default=None, ge=0, le=20)
    suffix: Annotated[None, BeforeValidator(_refuse_suffix)] = None
    """Not supported."""
    best_of: int | None = None
    """Only the value of ``n`` is supported."""

    def options(self) -> GenerationOptions:
        """Return the runtime's options for one answer.

        Raises:
            InvalidRequestError: ``best_of`` or ``echo`` asks for what there is not.
        """
        if self.best_of not in (None, self.n or 1):
            raise InvalidRequestError("best_of", "all answers are returned. Leave it out, and set n.")
        if self.echo and self.logprobs is not None:
            raise InvalidRequestError(
                "echo",
                "log probabilities are computed of the answer only, not of the prompt. Leave out echo or "
                "logprobs.",
            )
        options = self.common_options()
        options["max_tokens"] = self.max_tokens
        options["logprobs"] = self.logprobs
        return options

    def prompts(self) -> list[RawPrompt]:
        """Return the prompts.

        Raises:
            InvalidRequestError: there are none, too many, or of several kinds.
        """
        several = self._several_prompts
        if several is None:
            several = [self.prompt]
        if not several:
            raise InvalidRequestError("prompt", "is empty. Give a text, or token ids.")
        if len(several) * (self.n or 1) > MAX_CHOICES:
            raise InvalidRequestError(
                "prompt", f"times n there are more than {MAX_CHOICES} answers. Send several requests."
            )
        special = self.add_special_tokens is not False
        return [RawPrompt(each, special) for each in several]

    def field_name(self, field: str, prompt: int) -> str:
        """Return this request's name for a field that an error of its prompt of this index names."""
        return renamed(field, {} if self._several_prompts is None else {"prompt": f"prompt[{prompt}]"})

    @property
    def _several_prompts(self) -> list[Any] | None:
        """The prompts, if ``prompt`` is a list of them, and not a text or the token ids of one."""
        if isinstance(self.prompt, str) or (self.prompt and type(self.prompt[0]) is int):
            return None
        return self.prompt


class _CompletionWriter(ChoicesWriter):
    """Writes completions."""

    kind = chunk_kind = "text_completion"
    takes_outputs = False
    default_tokens = 16  # as for OpenAI

    def __init__(self, model: str, request: CompletionRequest, app: str) -> None:
        super().__init__(model, f"cmpl-{secrets.token_hex(16)}", request)
        self._request = request
        self._app = app
        self._echoed: list[str] = []
        """The text that precedes the answers to each prompt."""
        self._decoders: defaultdict[int, codecs.IncrementalDecoder] = defaultdict(lambda: _UTF8("replace"))
        self._characters: defaultdict[int, int] = defaultdict(int)

    def field_name(self, field: str, prompt: int) -> str:
        return self._request.field_name(field, prompt)

    async def accept(self, prompts: Sequence[Prompt]) -> None:
        """Find the texts of the prompts, if they are part of the answers."""
        self._echoed = [await self._text_of(prompt) if self._request.echo else "" for prompt in prompts]

    def opening(self) -> Iterator[dict[str, Any]]:
        for index in range(len(self._echoed) * self.answers):
            if text := self._echoed[index // self.answers]:
                yield self._chunk(index, {"text": text})

    def chunks(self, index: int, event: GenerationEvent) -> Iterator[dict[str, Any]]:
        if isinstance(event, LogprobsDelta):
            if self._add_logprobs(index, event.tokens):
                yield self._chunk(index, {"text": ""})
        elif isinstance(event, TextDelta):
            yield self._chunk(index, {"text": event.text})
        elif isinstance(event, Finished):
            yield self._chunk(index, {"text": ""}, event.generation.finish_reason)

    def choice(self, index: int, generation: Generation) -> dict[str, Any]:
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


@router.post("/v1/completions", summary="Continue a prompt")
async def completions(body: CompletionRequest, request: Request) -> Response:
    """OpenAI's older completions, whole or as server-sent events. No chat template is applied.

    ``X-Session-ID`` names the conversation, as for chat completions.
    """
    app, model = app_of(request), server_state_of(request).model(body.model)
    body.take_priority(header_priority(request))
    options = body.options()
    options |= {"app": app, "session": header_session(request)}
    return await answer(request, model, _CompletionWriter(model.name, body, app), body.prompts(), options)
