"""Fields of ``/v1/responses`` that no runtime option is for: hints, and what is refused by its name."""

from __future__ import annotations

from typing import Annotated, Any, Literal, LiteralString

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from .common_request import MAX_ITEMS, Body, at_most

LOGPROBS = "message.output_text.logprobs"

Include = Literal[
    "message.output_text.logprobs",
    "reasoning.encrypted_content",
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "web_search_call.action.sources",
    "web_search_call.results",
]
"""What OpenAI can include. All but log probabilities belong to items that no answer here has."""


def _refused(reason: LiteralString) -> BeforeValidator:
    """Return a check that refuses every value but None."""

    def check(value: Any) -> None:
        if value is not None:
            raise PydanticCustomError("not_served", reason)

    return BeforeValidator(check)


class StreamOptions(Body):
    """How a stream is written."""

    include_obfuscation: bool | None = None
    """Whether deltas are padded, so that their sizes tell less of the text; false by default, where OpenAI's
    is true."""


class PromptCacheOptions(Body):
    """Hints for a cache of prompts."""

    prewarm: Literal[False] | None = None
    """Every request generates an answer."""


class UnservedFields(Body):
    """Fields of OpenAI and Open Responses that the runtime has no option for."""

    conversation: Annotated[
        None, _refused("there are none here. Send previous_response_id, or the whole conversation.")
    ] = None
    prompt: Annotated[None, _refused("no prompts are stored here. Send its text as instructions.")] = None
    moderation: Annotated[None, _refused("nothing is moderated here. Leave it out.")] = None
    context_management: Annotated[
        None,
        _refused("nothing is compacted by itself here. Use POST /v1/responses/compact when it gets long."),
    ] = None
    max_tool_calls: Annotated[
        None, _refused("calls are not counted here. For at most one, set parallel_tool_calls to false.")
    ] = None

    include: Annotated[list[Include] | None, at_most(MAX_ITEMS)] = None
    stream_options: StreamOptions | None = None
    reasoning: dict[str, Any] | None = None
    """A model reasons, or does not, as its chat template has it; the reasoning is part of the text."""
    prompt_cache_options: PromptCacheOptions | None = None
    prompt_cache_retention: str | None = None
    prompt_cache_key: str | None = None
    """The prefix cache is one for each app, and needs no key."""
    safety_identifier: str | None = None
    user: str | None = None
    image: dict[str, Any] | None = None
    """Images are refused anyway."""
    access_programs: dict[str, Any] | None = None

    @property
    def wants_logprobs(self) -> bool:
        """Whether ``include`` names log probabilities."""
        return LOGPROBS in (self.include or ())

    @property
    def wants_padding(self) -> bool:
        """Whether the deltas of a stream are padded."""
        return self.stream_options is not None and bool(self.stream_options.include_obfuscation)
