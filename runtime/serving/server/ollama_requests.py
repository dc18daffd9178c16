"""The bodies of requests in Ollama's form, and the runtime's options and prompts for them."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, cast

from pydantic import Field

from ...pool.responses.common_request import MAX_ITEMS, Body, Refused, at_most
from ...request.field_names import renamed
from ...request.options import GenerationOptions, Prompt, RawPrompt
from .embeddings import EmbeddingRequest

_IMAGES: Final = re.compile(r"messages\[(\d+)\]\.content\[0\]")
_TOOL_NAME: Final = re.compile(r"messages\[(\d+)\]\.name")


class OllamaOptions(Body):
    """How tokens are sampled, by alias as the runtime says it. Options of the model's loading are ignored."""

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


class OllamaShowRequest(Body):
    """The body of ``POST /api/show``."""

    model: str


class OllamaPullRequest(OllamaShowRequest):
    """The body of ``POST /api/pull``."""

    stream: bool | None = None
    """True by default."""


class OllamaRequest(OllamaPullRequest, ABC):
    """The fields of every request for an answer."""

    shorten: ClassVar[str | None] = None
    """What shortens a prompt that is too long; None for what errors say of messages."""

    format: Literal["", "json"] | dict[str, Any] | None = None
    """``json``, or a JSON schema that the answer follows."""
    options: OllamaOptions | None = None
    keep_alive: float | str | None = None
    """0, as a number or a duration, unloads the model if nothing is asked. All else is left to the server's
    own ``--idle-unload``."""

    @property
    @abstractmethod
    def asks(self) -> bool:
        """Whether there is anything to answer, and not only a model to load or unload."""

    @property
    def unloads(self) -> bool:
        """Whether the model is to be unloaded."""
        return self.keep_alive is not None and not re.search("[1-9]", str(self.keep_alive))

    def generation_options(self) -> GenerationOptions:
        """Return the runtime's options."""
        options = GenerationOptions() if self.options is None else self.options.options()
        if isinstance(self.format, dict):
            schema = {"name": "format", "schema": self.format}
            options["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif self.format:
            options["response_format"] = {"type": "json_object"}
        return options

    @abstractmethod
    def as_prompt(self) -> Prompt:
        """Return what is to be answered, in OpenAI's form."""

    def field_name(self, field: str) -> str:
        """Return this request's name for a field that an error of the runtime names."""
        names = {each.serialization_alias or name: name for name, each in OllamaOptions.model_fields.items()}
        formats = {"response_format": "format", "response_format.json_schema": "format"}
        return renamed(field, {name: f"options.{given}" for name, given in names.items()} | formats)


class OllamaChatRequest(OllamaRequest):
    """The body of ``POST /api/chat``."""

    messages: list[Any]
    """The runtime validates them; its errors name the wrong message. Without any the model is loaded."""
    tools: list[Any] | None = None

    @property
    def asks(self) -> bool:
        """Whether there are messages."""
        return bool(self.messages)

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

    @property
    def asks(self) -> bool:
        """Whether there is a prompt."""
        return bool(self.prompt)

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


class OllamaEmbeddingsRequest(OllamaShowRequest):
    """The body of ``POST /api/embeddings``, which is older."""

    prompt: str


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
