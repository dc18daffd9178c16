"""What benches ask of every engine: one request and its answer, or several requests that arrive over time."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from agentrt.calls import ToolCall

from ..common.process import SideProcess

Messages: TypeAlias = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Request:
    """One request, answered greedily."""

    prompt: str | Messages | list[int]
    """What a user says, whole messages, or token ids without a chat template."""
    max_tokens: int
    tools: Sequence[Mapping[str, Any]] | None = None
    ignore_eos: bool = True
    """Whether the answer has exactly ``max_tokens`` tokens."""
    at_s: float = 0.0
    """When it is to arrive, in seconds since the first request could."""
    reactive: bool = True
    app: str = ""
    """Whose it is, for agentrt."""

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The prompt as messages."""
        if isinstance(self.prompt, str):
            return [{"role": "user", "content": self.prompt}]
        return [dict(message) for message in self.prompt if isinstance(message, Mapping)]

    @property
    def token_ids(self) -> list[int] | None:
        """The prompt if it is token ids."""
        return self.prompt if isinstance(self.prompt, list) and isinstance(self.prompt[0], int) else None


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer. Seconds count from when the request was to arrive, however late it was sent."""

    request: Request
    prompt_tokens: int
    new_tokens: int
    first_s: float
    """To the first token."""
    total_s: float
    """To the end: template, tokenizer, model, detokenizer."""
    decode_s: float = 0.0
    """From the first token to the last, by the engine's own clock."""
    token_ids: tuple[int, ...] = ()
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    cached_tokens: int = 0
    """Tokens of the prompt that were not computed."""

    @property
    def token_s(self) -> float:
        return (self.total_s - self.first_s) / max(1, self.new_tokens - 1)


@dataclass(frozen=True, slots=True)
class Run:
    """The answers to several requests, in their order."""

    answers: tuple[Answer, ...]
    elapsed_s: float
    """From the beginning to the end of the last answer."""


class Side(Protocol):
    """An engine with a model. It is opened by its constructor."""

    context_length: int
    """The most tokens of a prompt and its answer."""

    def generate(self, request: Request) -> Answer:
        """Answer one request."""

    def stream(self, requests: Sequence[Request]) -> Run:
        """Let each request arrive at its time, and read all answers to their ends."""

    def close(self) -> None:
        """Free the model."""


class EngineProcess(SideProcess):
    """A :class:`Side` in a process of its own, which ends with the ``with`` block."""

    def __init__(self, make: Callable[..., object], *arguments: object) -> None:
        super().__init__(make, *arguments)
        self.context_length = int(self.call("context_length"))

    def generate(self, request: Request) -> Answer:
        answer: Answer = self.call("generate", request)
        return answer

    def stream(self, requests: Sequence[Request]) -> Run:
        run: Run = self.call("stream", tuple(requests))
        return run

    def close(self) -> None:
        """See :meth:`Side.close`; the process goes on."""
        self.call("close")


def with_cache(folder: str, make: Callable[..., object], *arguments: object) -> object:
    """Return ``make(*arguments)`` in a process that keeps conversions and profiles in ``folder``."""
    for variable in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        os.environ[variable] = folder
    return make(*arguments)
