"""The body of ``POST /v1/chat/completions``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from ...request.field_names import renamed
from ...request.options import GenerationOptions
from ..http.errors import ApiError
from .choices_request import ChoicesRequest
from .common_request import MAX_ITEMS, CommonRequest, at_most
from .legacy_functions import function_field, message_field, tool_choice_of, tool_messages, tools_of


class ChatRequest(CommonRequest, ChoicesRequest):
    """OpenAI's fields, and those that local engines add to them."""

    messages: list[Any]
    """The runtime validates them; its errors name the wrong message."""
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    tool_choice: str | dict[str, Any] | None = None
    response_format: dict[str, Any] | None = None
    prediction: dict[str, Any] | None = None
    logprobs: bool | None = None
    functions: list[Any] | None = None
    """The older form of ``tools``. The answer has at most one call, in the older form, too."""
    function_call: str | dict[str, Any] | None = None
    """The older form of ``tool_choice``."""
    modalities: Annotated[list[Literal["text"]] | None, at_most(MAX_ITEMS)] = None

    def options(self) -> GenerationOptions:
        """Return the runtime's options for one choice.

        Raises:
            ApiError: 400, ``top_logprobs`` is given without ``logprobs``, or ``functions`` beside ``tools``.
        """
        if self.functions is not None and self.tools is not None:
            raise ApiError(
                400,
                "functions: they are the older form of tools. Leave them out.",
                param="functions",
                code="invalid_value",
            )
        if self.top_logprobs and not self.logprobs:
            raise ApiError(400, "top_logprobs: needs logprobs. Set it to true.", param="top_logprobs")
        options = self.common_options()
        if self.functions is None:
            options["tools"] = self.tools
            options["tool_choice"] = self.tool_choice
        else:
            options["tools"] = tools_of(self.functions)
            options["tool_choice"] = tool_choice_of(self.function_call)
            options["parallel_tool_calls"] = False
        options["response_format"] = self.response_format
        options["prediction"] = self.prediction
        options["max_tokens"] = (
            self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens
        )
        if self.logprobs:
            options["logprobs"] = self.top_logprobs or 0
        return options

    def field_name(self, field: str) -> str:
        """Return this request's name for a field that an error of the runtime names."""
        field = message_field(field, self.messages)
        if self.functions is not None:
            field = function_field(field)
        newer = {} if self.max_completion_tokens is None else {"max_tokens": "max_completion_tokens"}
        return renamed(field, newer)

    @property
    def forces_named_tool(self) -> bool:
        """Whether ``tool_choice`` names the function to call."""
        return isinstance(self.tool_choice if self.functions is None else self.function_call, dict)

    @property
    def prompt(self) -> list[Any]:
        """The messages, with calls and their outputs in the form of tools."""
        return tool_messages(self.messages)
