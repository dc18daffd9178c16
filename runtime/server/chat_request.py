"""The body of ``POST /v1/chat/completions``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ..http.errors import ApiError
from ..request.options import GenerationOptions
from ..request.sampling_params import MAX_BIASES
from .common_request import MAX_ITEMS, CommonRequest, at_most

_MAX_CHOICES = 16

LogitBias = Annotated[dict[Annotated[str, Field(pattern=r"^[0-9]{1,9}$")], float], at_most(MAX_BIASES)]
"""Token ids as texts, and the values added to their logits."""


class StreamOptions(BaseModel):
    """What a stream contains besides the answer."""

    model_config = ConfigDict(strict=True, extra="ignore")

    include_usage: bool | None = None


class ChatRequest(CommonRequest):
    """OpenAI's fields, and those that local engines add to them."""

    messages: list[Any]
    """The runtime validates them; its errors name the wrong message."""
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    n: int | None = Field(default=None, ge=1, le=_MAX_CHOICES)
    """With ``seed``, choice ``i`` has seed ``seed + i``."""
    tool_choice: str | dict[str, Any] | None = None
    response_format: dict[str, Any] | None = None
    prediction: dict[str, Any] | None = None
    logprobs: bool | None = None
    logit_bias: LogitBias | None = None
    stream_options: StreamOptions | None = None
    modalities: Annotated[list[Literal["text"]] | None, at_most(MAX_ITEMS)] = None

    def options(self) -> GenerationOptions:
        """Return the runtime's options for one choice.

        Raises:
            ApiError: 400, ``top_logprobs`` is given without ``logprobs``.
        """
        if self.top_logprobs and not self.logprobs:
            raise ApiError(400, "top_logprobs: needs logprobs. Set it to true.", param="top_logprobs")
        options = self.common_options()
        options["tools"] = self.tools
        options["tool_choice"] = self.tool_choice
        options["response_format"] = self.response_format
        options["prediction"] = self.prediction
        options["max_tokens"] = (
            self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens
        )
        if self.logprobs:
            options["logprobs"] = self.top_logprobs or 0
        if self.logit_bias:
            options["logit_bias"] = {int(token): bias for token, bias in self.logit_bias.items()}
        return options

    @property
    def includes_usage(self) -> bool:
        """Whether a stream ends with a chunk that has the usage."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    @property
    def forces_named_tool(self) -> bool:
        """Whether ``tool_choice`` names the function to call."""
        return isinstance(self.tool_choice, dict)
