"""The bodies of Ollama's requests, and the runtime's options for them."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from ...request.field_names import renamed
from ...request.options import GenerationOptions, Prompt, RawPrompt
from .common_request import MAX_ITEMS, at_most
from .embeddings import EmbeddingRequest

_TAG: Final = ":latest"
_FIELDS: Final = {"response_format": "format", "response_format.json_schema": "format"}
_IMAGES: Final = re.compile(r"messages\[(\d+)\]\.content\[0\]")
_TOOL_NAME: Final = re.compile(r"messages\[(\d+)\]\.name")


def _refuse(value: Any) -> None:
    if value:
        raise PydanticCustomError("not_supported", "there is none here. Leave it out.")


Refused = Annotated[None, BeforeValidator(_refuse)]
"""A field that is refused unless it is empty."""


class OllamaOptions(BaseModel):
    """How tokens are sampled, by alias as the runtime says it.

    Options of the model's loading are ignored, as are unknown ones.
    """

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)

    num_predict: int | None = Field(default=None, ge=-2, serialization_alias="max_tokens")
    """Tokens of the answer; below 0 as without it."""
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repeat_penalty: float | None = Field(default=None, serialization_alias="repetition_penalty")
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    seed: int | None = None
    stop: Annotated[str | list[str] | None, at_most(MAX_ITEMS)] = None

    def options(self) -> GenerationOptions:
        """Return the runtime's options."""
        given = self.model_dump(by_alias=True, exclude_none=True)
        if given.get("max_tokens", 0) < 0:
            del given["max_tokens"]
        return cast(GenerationOptions, given)

    @classmethod
    def field_names(cls) -> dict[str, str]:
        """Return the name in a request of each option, by the runtime's name."""
        return {
            field.serialization_alias or name: f"options.{name}" for name, field in cls.model_fields.items()
        }


class OllamaRequest(BaseModel, ABC):
    """The fields of every request for an answer. Unknown fields are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)
    shorten: ClassVar[str | None] = None
    """What shortens a prompt that is too long; None for what errors say of messages."""

    model: str
    stream: bool | None = None
    """True by default."""
    format: Literal["", "json"] | dict[str, Any] | None = None
    """``json``, or a JSON schema that the answer follows."""
    options: OllamaOptions | None = None

    def generation_options(self) -> GenerationOptions:
        """Return the runtime's options."""
        options = GenerationOptions() if self.options is None else self.options.options()
        if self.format:
            options["response_format"] = _response_format(self.format)
        return options

    @abstractmethod
    def as_prompt(self) -> Prompt:
        """Return what is to be answered, in OpenAI's form."""

    def field_name(self, field: str) -> str:
        """Return this request's name for a field that an error of the runtime names."""
        return renamed(field, OllamaOptions.field_names() | _FIELDS)


class OllamaChatRequest(OllamaRequest):
    """The body of ``POST /api/chat``."""

    messages: list[Any]
    """The runtime validates them; its errors name the wrong message."""
    tools: list[Any] | None = None

    def generation_options(self) -> GenerationOptions:
        """Return the runtime's options."""
        return {**super().generation_options(), "tools": self.tools}

    def as_prompt(self) -> list[Any]:
        """Return the messages in OpenAI's form."""
        return [_message(message) for message in self.messages]

    def field_name(self, field: str) -> str:
        """Return this request's name for a field that an error of the runtime names."""
        images = _IMAGES.fullmatch(field)
        if images is not None and self.messages[int(images[1])].get("images"):
            return f"messages[{images[1]}].images"
        name = _TOOL_NAME.fullmatch(field)
        if name is not None and self.messages[int(name[1])].get("tool_name") is not None:
            return f"messages[{name[1]}].tool_name"
        return super().field_name(field)


class OllamaGenerateRequest(OllamaRequest):
    """The body of ``POST /api/generate``."""

    shorten = "Shorten the prompt"
    prompt: str = ""
    """Without one the model is loaded, and the answer is empty."""
    system: str | None = None
    raw: bool | None = None
    """Whether the prompt is continued without the chat template."""
    suffix: Refused = None
    template: Refused = None
    images: Refused = None
    context: Refused = None

    def as_prompt(self) -> list[Any] | RawPrompt:
        """Return the prompt as messages, or as it is."""
        if self.raw:
            return RawPrompt(self.prompt)
        system = [{"role": "system", "content": self.system}] if self.system else []
        return [*system, {"role": "user", "content": self.prompt}]

    def field_name(self, field: str) -> str:
        """Return this request's name for a field that an error of the runtime names."""
        if field.startswith("messages"):
            return "system" if self.system and field.startswith("messages[0]") else "prompt"
        return super().field_name(field)


class OllamaEmbedRequest(EmbeddingRequest):
    """The body of ``POST /api/embed``."""

    model: str


class OllamaEmbeddingsRequest(BaseModel):
    """The body of ``POST /api/embeddings``, which is older."""

    model_config = ConfigDict(strict=True, extra="ignore")

    model: str
    prompt: str


class OllamaShowRequest(BaseModel):
    """The body of ``POST /api/show``."""

    model_config = ConfigDict(strict=True, extra="ignore")

    model: str


def _response_format(format: str | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(format, str):
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": {"name": "format", "schema": format}}


def _message(message: Any) -> Any:
    """Return a message with the name of its tool, and with images as parts, which the runtime refuses."""
    if not isinstance(message, Mapping):
        return message
    converted = {key: value for key, value in message.items() if key not in ("images", "tool_name")}
    if message.get("tool_name") is not None:
        converted["name"] = message["tool_name"]
    if message.get("images"):
        converted["content"] = [{"type": "image"}]
    return converted


def without_tag(name: str) -> str:
    """Return a model's name without what Ollama's clients put behind one that has no tag."""
    return name.removesuffix(_TAG)
