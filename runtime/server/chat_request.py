"""The body of ``POST /v1/chat/completions``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ..http.errors import ApiError
from ..request.options import GenerationOptions
from .common_request import Asked

_MAX_CHOICES = 16


class StreamOptions(BaseModel):
    """What a stream tells beside the answer."""

    model_config = ConfigDict(strict=True, extra="ignore")

    include_usage: bool | None = None


class ChatRequest(Asked):
    """OpenAI's fields, and those that local engines add to them."""

    messages: list[Any]
    """Checked by the runtime, which names the message that is wrong."""
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    n: int | None = Field(default=None, ge=1, le=_MAX_CHOICES)
    """With ``seed``, choice ``i`` has seed ``seed + i``."""
    tool_choice: str | dict[str, Any] | None = None
    response_format: dict[str, Any] | None = None
    logprobs: bool | None = None
    logit_bias: dict[Annotated[str, Field(pattern=r"^[0-9]{1,9}$")], float] | None = None
    stream_options: StreamOptions | None = None
    modalities: list[Literal["text"]] | None = None

    def options(self) -> GenerationOptions:
        """What the runtime is asked."""
        if self.top_logprobs and not self.logprobs:
            raise ApiError(400, "top_logprobs: needs logprobs. Set it to true.", param="top_logprobs")
        options = self.numbers()
        options["tools"] = self.tools
        options["tool_choice"] = self.tool_choice
        options["response_format"] = self.response_format
        options["max_tokens"] = (
            self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens
        )
        if self.logprobs:
            options["logprobs"] = self.top_logprobs or 0
        if self.logit_bias:
            options["logit_bias"] = {int(token): bias for token, bias in self.logit_bias.items()}
        return options

    @property
    def calls_named_tool(self) -> bool:
        """Whether the request names the function that must be called."""
        return isinstance(self.tool_choice, dict)
