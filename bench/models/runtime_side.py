"""The model in agentrt's runtime, in its own process, with a cache folder of the bench."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from agentrt.calls import ToolCall

from ..common.process import SideProcess


def use_cache(folder: str) -> None:
    """Make this process keep conversions and profiles in ``folder``."""
    for variable in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        os.environ[variable] = folder


class RuntimeSide(SideProcess):
    """A :class:`LocalRuntime`; a context manager."""

    def __init__(self, model: str, cache: str, **settings: Any) -> None:
        """Open ``model`` with ``settings``; conversion and profile are kept in the folder ``cache``."""
        super().__init__(_Runtime, model, cache, settings)

    @property
    def call_format(self) -> str:
        """Name of the format in which the model is expected to write calls."""
        return str(self.call("call_format"))

    def calls(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], max_tokens: int
    ) -> tuple[list[ToolCall], int]:
        """Return the calls of the greedy answer, and how many of them were repaired."""
        found: tuple[list[ToolCall], int] = self.call("calls", messages, tools, max_tokens)
        return found

    def text(self, prompt: str, max_tokens: int) -> str:
        """Return the greedy answer to a user's message."""
        return str(self.call("text", prompt, max_tokens))


class _Runtime:
    def __init__(self, model: str, cache: str, settings: Mapping[str, Any]) -> None:
        from agentrt.runtime import LocalRuntime, RuntimeConfig

        use_cache(cache)
        self._runtime = LocalRuntime.open(model, RuntimeConfig(**settings))

    def call_format(self) -> str:
        format = self._runtime.call_format
        return "hermes" if format is None else format.name

    def calls(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], max_tokens: int
    ) -> tuple[list[ToolCall], int]:
        answer = self._runtime.generate(messages, tools=tools, max_tokens=max_tokens, temperature=0)
        return list(answer.tool_calls), answer.repaired_calls

    def text(self, prompt: str, max_tokens: int) -> str:
        messages = [{"role": "user", "content": prompt}]
        return self._runtime.generate(messages, max_tokens=max_tokens, temperature=0).text
