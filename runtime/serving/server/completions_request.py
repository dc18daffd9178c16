"""The body of ``POST /v1/completions``."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from agentrt.errors import InvalidRequestError

from ...request.field_names import renamed
from ...request.options import GenerationOptions, RawPrompt
from .common_request import MAX_CHOICES, ChoicesRequest

DEFAULT_TOKENS: Final = 16
"""Of an answer, where neither the request nor the server has a number. As for OpenAI."""


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
