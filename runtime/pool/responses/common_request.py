"""The fields that OpenAI's interfaces share, and the runtime's options for them."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr
from pydantic_core import PydanticCustomError

from agentrt.errors import InvalidRequestError
from agentrt.priority import PRIORITY_HEADER, Priority

from ...request.options import GenerationOptions
from ...request.sampling_params import MAX_BIASES
from ...request.validation import MAX_TOLD_TOOLS, MAX_TOOL_SECONDS
from ...request.window import Truncation

ServiceTier = Literal["auto", "default", "flex", "scale", "priority"]

_PASSED_ON: Final = {"temperature", "top_p", "top_k", "min_p", "repetition_penalty", "frequency_penalty",
                     "presence_penalty", "seed", "stop", "stop_token_ids", "ignore_eos",
                     "parallel_tool_calls", "shared_prefix", "tool_seconds", "truncation"}  # fmt: skip
"""Fields that are options of the runtime, too, where a request has them."""

MAX_ITEMS: Final = 64
"""Items of a list that are validated one by one. The runtime has lower limits, and clearer errors."""
MAX_CHOICES: Final = 16


def at_most(entries: int) -> BeforeValidator:
    """Return a check that refuses a list or an object with more entries before they are validated.

    Pydantic would report every wrong one, and FastAPI formats every report.
    """

    def check(value: Any) -> Any:
        if isinstance(value, (list, dict)) and len(value) > entries:
            raise PydanticCustomError(
                "too_long", "must have at most {entries} entries. Send fewer.", {"entries": entries}
            )
        return value

    return BeforeValidator(check)


def _refuse(value: Any) -> None:
    if value:
        raise PydanticCustomError("not_supported", "there is none here. Leave it out.")


Refused = Annotated[None, BeforeValidator(_refuse)]
"""A field that is refused unless it is empty."""


class Body(BaseModel):
    """A JSON object of a request. Unknown fields are ignored, as by other servers."""

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)


class ModelRequest(Body):
    """A request to one of the models."""

    model: str | None = None
    """One of the served models' names; the first model if left out."""


class PrioritizedRequest(ModelRequest):
    """A request with a priority."""

    service_tier: ServiceTier | None = None
    """``flex`` is proactive; every other tier is reactive."""
    priority: int | None = None
    """vLLM's convention: lower is served first. Up to 0 is reactive, above is proactive. It takes precedence
    over ``service_tier``."""
    _in_header: bool = PrivateAttr(default=False)
    """Whether the header names the priority."""

    @property
    def named_priority(self) -> Priority | None:
        """The priority that ``priority`` or ``service_tier`` names; None if neither does."""
        if self.priority is not None:
            return Priority.REACTIVE if self.priority <= Priority.REACTIVE else Priority.PROACTIVE
        return {"flex": Priority.PROACTIVE, "priority": Priority.REACTIVE}.get(self.service_tier or "")

    def take_priority(self, header: Priority | None) -> None:
        """Take the priority that the header of the request names, if it names one.

        Raises:
            InvalidRequestError: the body names another one.
        """
        if header is None:
            return
        if self.named_priority not in (None, header):
            raise InvalidRequestError(
                PRIORITY_HEADER,
                f"it says {header.name.lower()}, and the body says otherwise. Send one of them.",
            )
        self.priority, self._in_header = int(header), True

    @property
    def priority_field(self) -> str:
        """The name of the field, or of the header, that names the priority."""
        if self._in_header:
            return PRIORITY_HEADER
        return "service_tier" if self.priority is None else "priority"

    @property
    def runtime_priority(self) -> Priority:
        """The runtime's priority: the one that the request names, else reactive."""
        return self.named_priority or Priority.REACTIVE

    @property
    def served_tier(self) -> str:
        """The service tier that the response reports: that of the priority if the request names one."""
        named = self.named_priority
        return "default" if named is None else named.service_tier


class GenerationRequest(PrioritizedRequest):
    """The fields of every request for answers.

    ``temperature`` and the other sampling fields have the runtime's defaults, so that an agent gets the same
    answers in the process and over HTTP: greedy, where OpenAI's own default is a temperature of 1.
    """

    stream: bool | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)
    seed: int | None = None
    stop: Annotated[str | list[str] | None, at_most(MAX_ITEMS)] = None
    stop_token_ids: Annotated[list[int] | None, at_most(MAX_ITEMS)] = None
    ignore_eos: bool | None = None

    def common_options(self) -> GenerationOptions:
        """Return the runtime's options of these fields."""
        given = self.model_dump(include=_PASSED_ON, exclude_none=True)
        return cast(GenerationOptions, {"priority": self.runtime_priority, **given})


ToolSeconds = Annotated[
    dict[str, Annotated[float, Field(ge=0, le=MAX_TOOL_SECONDS)]] | None, at_most(MAX_TOLD_TOOLS)
]
"""agentrt's own: how long the tools that the answer may call are expected to take, by their names."""


class CommonRequest(GenerationRequest):
    """The fields that chat completions and responses share."""

    tools: list[Any] | None = None
    parallel_tool_calls: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    shared_prefix: bool | None = None
    """agentrt's own: whether apps with the same system messages and tools, and this field, share them."""
    tool_seconds: ToolSeconds = None
    truncation: Truncation | None = None
    """Whether a prompt that is too long loses its oldest messages, as OpenAI's responses have it."""


LogitBias = Annotated[dict[Annotated[str, Field(pattern=r"^[0-9]{1,9}$")], float], at_most(MAX_BIASES)]
"""Token ids as texts, and the values added to their logits."""


class StreamOptions(Body):
    """What a stream contains besides the answer."""

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
