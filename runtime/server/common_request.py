"""The fields that OpenAI's two interfaces share, and the runtime's options for them."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from agentrt.priority import PRIORITY_HEADER, Priority

from ..http.errors import ApiError
from ..request.options import GenerationOptions

ServiceTier = Literal["auto", "default", "flex", "scale", "priority"]


MAX_ITEMS: Final = 64
"""Items of a list that are validated one by one. The runtime has lower limits, and clearer errors."""


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


class CommonRequest(BaseModel):
    """The fields that chat completions and responses share. Unknown fields are ignored, as by other servers.

    ``temperature`` and the other sampling fields have the runtime's defaults, so that an agent gets the same
    answers in the process and over HTTP: greedy, where OpenAI's own default is a temperature of 1.
    """

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)

    model: str | None = None
    """One of the served models' names; the first model if left out."""
    stream: bool | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    tools: list[Any] | None = None
    parallel_tool_calls: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    service_tier: ServiceTier | None = None
    """``flex`` is proactive; every other tier is reactive."""
    priority: int | None = None
    """vLLM's convention: lower is served first. Up to 0 is reactive, above is proactive. It takes precedence
    over ``service_tier``."""
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    shared_prefix: bool | None = None
    """agentrt's own: whether apps with the same system messages and tools, and this field, share them."""
    seed: int | None = None
    stop: Annotated[str | list[str] | None, at_most(MAX_ITEMS)] = None
    stop_token_ids: Annotated[list[int] | None, at_most(MAX_ITEMS)] = None
    ignore_eos: bool | None = None
    presence_penalty: float | None = Field(default=None, ge=0, le=0)
    """Only 0 is supported; use ``repetition_penalty``."""
    frequency_penalty: float | None = Field(default=None, ge=0, le=0)
    """Only 0 is supported; use ``repetition_penalty``."""

    @property
    def named_priority(self) -> Priority | None:
        """The priority that ``priority`` or ``service_tier`` names; None if neither does."""
        if self.priority is not None:
            return Priority.REACTIVE if self.priority <= Priority.REACTIVE else Priority.PROACTIVE
        return {"flex": Priority.PROACTIVE, "priority": Priority.REACTIVE}.get(self.service_tier or "")

    def take_priority(self, header: Priority | None) -> None:
        """Take the priority of the header; None is without effect.

        Raises:
            ApiError: 400, the body names another one.
        """
        if header is None:
            return
        named = self.named_priority
        if named not in (None, header):
            raise ApiError(
                400,
                f"{PRIORITY_HEADER}: it says {header.name.lower()}, and the body says otherwise. Send one of "
                "them.",
                param=PRIORITY_HEADER,
                code="invalid_value",
            )
        self.priority = int(header)

    @property
    def runtime_priority(self) -> Priority:
        """The runtime's priority: the one that the request names, else reactive."""
        return self.named_priority or Priority.REACTIVE

    @property
    def served_tier(self) -> str:
        """The service tier that the response reports: that of the priority if the request names one."""
        named = self.named_priority
        return "default" if named is None else named.service_tier

    def common_options(self) -> GenerationOptions:
        """Return the runtime's options that are the same in both interfaces."""
        names = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "seed", "stop",
                 "stop_token_ids", "ignore_eos", "parallel_tool_calls", "shared_prefix")  # fmt: skip
        given = {name: value for name in names if (value := getattr(self, name)) is not None}
        return cast(GenerationOptions, {"priority": self.runtime_priority, **given})
