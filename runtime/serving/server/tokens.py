"""``/tokenize`` and ``/detokenize``, in the form of vLLM."""

from __future__ import annotations

from typing import Any, Literal, Self

from fastapi import APIRouter, Request
from pydantic import BaseModel, model_validator
from pydantic_core import PydanticCustomError

from agentrt.priority import Priority

from ...pool.responses.common_request import ModelRequest
from ...request.options import Prompt, RawPrompt
from ..http.request_state import app_of
from ..http.streaming import cancel_on_disconnect
from ..http.strict_json import StrictJsonRoute
from .server_state import loaded, server_state_of

router = APIRouter(route_class=StrictJsonRoute)


class TokenizeRequest(ModelRequest):
    """A text, or messages, to be counted or looked at in tokens."""

    prompt: str | None = None
    messages: list[Any] | None = None
    tools: list[Any] | None = None
    add_special_tokens: bool | None = None
    """Whether a text begins with the model's begin token, if it has one; true by default."""
    add_generation_prompt: Literal[True] | None = None
    """Messages end with the header of the answer."""

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if (self.prompt is None) == (self.messages is None):
            raise PydanticCustomError("one_of_two", "give either prompt or messages.")
        return self

    def as_prompt(self) -> Prompt:
        """Return the prompt as a generation would have it."""
        if self.messages is not None:
            return self.messages
        assert self.prompt is not None
        return RawPrompt(self.prompt, self.add_special_tokens is not False)


class TokenizeBody(BaseModel):
    """The tokens of a prompt."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: None = None
    """Part of vLLM's form. ``/detokenize`` has the texts."""


class DetokenizeRequest(ModelRequest):
    """Tokens to be written as text."""

    tokens: list[Any]
    """Token ids. The runtime validates them."""


class DetokenizeBody(BaseModel):
    """The text of tokens."""

    prompt: str


@router.post("/tokenize", summary="Return the tokens of a prompt")
async def tokenize(body: TokenizeRequest, request: Request) -> TokenizeBody:
    """Return the tokens that a text, or messages with tools, have for the model.

    A prompt that is too long for the model is a 400, which says how many tokens it has at least.
    """
    app, model = app_of(request), server_state_of(request).model(body.model)
    async with loaded(request, model, Priority.REACTIVE) as runtime:
        work = runtime.atokenize(body.as_prompt(), tools=body.tools, app=app)
        tokens = await cancel_on_disconnect(request, work)
    return TokenizeBody(count=len(tokens), max_model_len=runtime.context_length, tokens=tokens)


@router.post("/detokenize", summary="Return the text of tokens")
async def detokenize(body: DetokenizeRequest, request: Request) -> DetokenizeBody:
    """Return the text of tokens, special tokens included."""
    app, model = app_of(request), server_state_of(request).model(body.model)
    async with loaded(request, model, Priority.REACTIVE) as runtime:
        text = await cancel_on_disconnect(request, runtime.adetokenize(body.tokens, app=app))
    return DetokenizeBody(prompt=text)
