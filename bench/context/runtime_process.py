"""A runtime in a process of its own: what it kept in memory is gone with it, as after a restart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..common.process import SideProcess

Messages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class FirstToken:
    """An answer, of which the time to the first token counts."""

    ttft_s: float
    """Since the request was made, tokenization included."""
    total_s: float
    prompt_tokens: int
    cached_tokens: int
    """Tokens of the prompt that were not computed."""
    token_ids: tuple[int, ...]
    text: str


class RuntimeProcess(SideProcess):
    """A :class:`LocalRuntime` in its own process; a context manager."""

    def __init__(self, model: str, **settings: Any) -> None:
        """Open ``model`` with ``settings``, and answer a short prompt so that it is warm."""
        super().__init__(_Runtime, model, settings)

    def answer(self, messages: Messages, *, app: str, max_tokens: int = 1) -> FirstToken:
        """Return the greedy answer to ``messages``."""
        found: FirstToken = self.call("answer", messages, app, max_tokens)
        return found

    def prompt_tokens(self, messages: Messages) -> list[int]:
        """Return the token ids of the rendered prompt."""
        found: list[int] = self.call("prompt_tokens", messages)
        return found

    def wait_until_stored(self) -> None:
        """Block until all that it has computed is stored, if it stores anything."""
        self.call("wait_until_stored")

    def close_runtime(self) -> None:
        """Close the runtime, which then has stored all contexts; no other method may be called."""
        self.call("close")


class _Runtime:
    def __init__(self, model: str, settings: Mapping[str, Any]) -> None:
        from agentrt.runtime import LocalRuntime, RuntimeConfig

        self._runtime = LocalRuntime.open(model, RuntimeConfig(**settings))
        self._runtime.generate([{"role": "user", "content": "Hello!"}], max_tokens=2)

    def answer(self, messages: Messages, app: str, max_tokens: int) -> FirstToken:
        made = self._runtime.generate(
            messages, app=app, max_tokens=max_tokens, temperature=0, ignore_eos=True
        )
        return FirstToken(
            made.timing.time_to_first_token_s,
            made.timing.total_s,
            made.usage.prompt_tokens,
            made.usage.cached_tokens,
            made.token_ids,
            made.text,
        )

    def prompt_tokens(self, messages: Messages) -> list[int]:
        return list(self._runtime._input_processor.process(messages).prompt_token_ids)

    def wait_until_stored(self) -> None:
        from .replay import wait_until_stored

        wait_until_stored(self._runtime)

    def close(self) -> None:
        self._runtime.close()
