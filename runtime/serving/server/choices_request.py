"""The fields of requests that may ask for several answers, as chat completions and completions do."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from ...request.options import GenerationOptions
from ...request.sampling_params import MAX_BIASES
from .common_request import GenerationRequest, at_most

MAX_CHOICES: Final = 16

LogitBias = Annotated[dict[Annotated[str, Field(pattern=r"^[0-9]{1,9}$")], float], at_most(MAX_BIASES)]
"""Token ids as texts, and the values added to their logits."""


class StreamOptions(BaseModel):
    """What a stream contains besides the answer."""

    model_config = ConfigDict(strict=True, extra="ignore")

    include_usage: bool | None = None


class ChoicesRequest(GenerationRequest):
    """The fields that chat completions and completions share, and the responses API does not have."""

    n: int | None = Field(default=None, ge=1, le=MAX_CHOICES)
    """With ``seed``, choice ``i`` has seed ``seed + i``."""
    logit_bias: LogitBias | None = None
    stream_options: StreamOptions | None = None

    @property
    def includes_usage(self) -> bool:
        """Whether a stream ends with a chunk that has the usage."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    def common_options(self) -> GenerationOptions:
        """Return the runtime's options of these fields."""
        options = super().common_options()
        if self.logit_bias:
            options["logit_bias"] = {int(token): bias for token, bias in self.logit_bias.items()}
        return options

    def choice_options(self, options: GenerationOptions) -> list[GenerationOptions]:
        """Return ``options`` for each of the ``n`` answers to a prompt."""
        return [_with_seed_of(options, index) for index in range(self.n or 1)]


def _with_seed_of(options: GenerationOptions, index: int) -> GenerationOptions:
    seed = options.get("seed")
    return options if seed is None else {**options, "seed": seed + index}
