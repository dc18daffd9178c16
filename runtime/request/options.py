"""What a caller may ask of one generation, in OpenAI's terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypedDict

from agentrt.priority import Priority

from .window import Truncation

Message: TypeAlias = Mapping[str, Any]
"""One chat message in OpenAI's shape."""


@dataclass(frozen=True, slots=True)
class RawPrompt:
    """A prompt that the model continues as it is, in the place of messages.

    The text of a special token in it, such as ``<|fim_prefix|>``, is that token: put no text of others into
    it that could forge one. Tools need messages.
    """

    content: str | Sequence[int]
    """Text, or token ids of the model's vocabulary."""
    add_special_tokens: bool = True
    """Whether a text begins with the tokens that the model's tokenizer puts before every text, such as a
    begin token."""


Prompt: TypeAlias = Sequence[Message] | RawPrompt
"""What a generation answers: chat messages, or a prompt that is continued as it is."""


class GenerationOptions(TypedDict, total=False):
    """Keyword options of a generation. :class:`SamplingParams` describes those without a comment here."""

    tools: Sequence[Mapping[str, Any]] | None
    """Function definitions in OpenAI's shape. Without tools the answer is not parsed for tool calls."""
    tool_choice: str | Mapping[str, Any] | None
    """``"auto"`` (the default), ``"none"``, ``"required"``, or OpenAI's object that names one function."""
    parallel_tool_calls: bool
    """Whether the answer may contain more than one call. True by default."""
    response_format: Mapping[str, Any] | None
    """OpenAI's object: the answer is JSON, of a schema if one is given."""
    prediction: Mapping[str, Any] | None
    """OpenAI's object with the text that much of the answer is expected to repeat, such as the file to be
    edited. It makes the answer faster and changes none of its tokens."""
    priority: Priority | None
    """Priority of the request; None for :func:`agentrt.current_priority`."""
    app: str
    """Name of the requesting app. Requests of one app share the KV blocks of a common prompt prefix; requests
    of different apps share nothing, so that no timing reveals another app's prompts."""
    shared_prefix: bool
    """Whether the system messages and tools are public: their KV blocks are shared with other apps that say
    so of the same ones, and the time to first token tells these apps that it was used. False by default."""
    session: str | None
    """Name that the app gives the conversation which the messages are, at most 256 characters. The
    conversation is then a context of the app, listed and deleted as others are (:class:`ContextService`)."""
    tool_seconds: Mapping[str, float] | None
    """How long the tools that the answer may call are expected to take, by their names. While they run, the
    runtime keeps the KV blocks of contexts that come back sooner in memory. Without it, it learns how long
    they take. It changes no answer."""
    context_id: str
    """Id of the app's context that the messages continue. :class:`ContextService` sets it."""
    truncation: Truncation | None
    """``"auto"`` leaves the oldest messages behind the instructions out of a prompt that is too long, in
    large steps, and no call without its outputs; :attr:`Usage.truncated_messages` says how many. The answer
    gets its ``max_tokens``, at most a quarter of the context. ``"disabled"``, the default but for
    :class:`ContextService`, refuses the prompt."""
    deadline_s: float | None
    """Seconds from now after which the request ends with :class:`DeadlineExceededError`."""
    max_tokens: int | None
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    repetition_penalty: float
    frequency_penalty: float
    presence_penalty: float
    seed: int | None
    ignore_eos: bool
    stop: str | Sequence[str]
    stop_token_ids: Sequence[int]
    logit_bias: Mapping[int, float] | None
    logprobs: int | None
