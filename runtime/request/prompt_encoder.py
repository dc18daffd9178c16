"""The tokens of a prompt: messages through the chat template, or a raw prompt; limits of their number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentrt.errors import InvalidRequestError, PromptTooLongError

from ..model.tokenizer import Tokenizer
from .field_names import renamed, sender_names
from .options import RawPrompt
from .preparation import Preparation
from .validation import check_text, check_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptEncoder:
    """Renders and tokenizes the prompts of one model. Thread-safe.

    Of a prompt that is too long, only as many tokens are computed as show that.
    """

    tokenizer: Tokenizer
    model_id: str
    context_length: int
    arena_tokens: int
    """Capacity of the KV arena."""
    memory_bytes: int
    """Its configured size: the value to raise when a prompt does not fit."""
    vocabulary_size: int

    def encode_messages(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        preparation: Preparation,
    ) -> list[int]:
        """Return the tokens of checked messages and tools, up to the header of the answer.

        Raises:
            InvalidRequestError: the chat template rejects them, or they take too long.
            PromptTooLongError: they do not fit the context or the KV arena.
        """
        preparation.check()
        # Applying a chat template holds Python's global lock.
        least = max(len(messages), self.tokenizer.least_tokens(_characters([messages, tools])))
        self._check_length(least, at_least=True)
        return self._encode(self.tokenizer.render(messages, tools), preparation)

    def count(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None) -> int:
        """Return the number of tokens of checked messages and tools, also of a prompt that is too long.

        Raises:
            InvalidRequestError: the chat template rejects them.
        """
        return len(self.tokenizer.encode(self.tokenizer.render(messages, tools)))

    def encode_raw(self, prompt: RawPrompt, preparation: Preparation) -> list[int]:
        """Return the tokens of a prompt that has no messages.

        Raises:
            InvalidRequestError: it is neither a text nor tokens of the vocabulary, is empty, or takes too
                long; ``field`` is ``prompt``.
            PromptTooLongError: it does not fit the context or the KV arena.
        """
        content = prompt.content
        with sender_names(_raw_name, "Shorten the prompt"):
            if isinstance(content, str):
                text = check_text(content, "prompt")
                self._check_length(self.tokenizer.least_tokens(len(text.strip())), at_least=True)
                begin = self.tokenizer.text_prefix if prompt.add_special_tokens else ()
                tokens = [*begin, *self._encode(text, preparation)]
            else:
                tokens = check_tokens(content, self.vocabulary_size, "prompt")
            self._check_length(len(tokens))
        if not tokens:
            raise InvalidRequestError("prompt", "has no tokens. Give at least one.")
        return tokens

    def _encode(self, rendered: str, preparation: Preparation) -> list[int]:
        def progress(tokens: int) -> None:
            preparation.check()
            self._check_length(tokens, at_least=True)

        tokens = self.tokenizer.encode(rendered, progress)
        self._check_length(len(tokens))
        return tokens

    def _check_length(self, prompt_tokens: int, *, at_least: bool = False) -> None:
        if prompt_tokens >= self.context_length:
            raise PromptTooLongError(
                prompt_tokens,
                self.context_length,
                f"the context of {self.model_id}",
                "use a model with a longer context",
                at_least=at_least,
            )
        if prompt_tokens >= self.arena_tokens:
            raise PromptTooLongError(
                prompt_tokens,
                self.arena_tokens,
                "the KV arena",
                f"open the runtime with a larger memory_bytes; it is {self.memory_bytes} now",
                at_least=at_least,
            )


def _raw_name(field: str) -> str:
    return renamed(field, {"messages": "prompt"})


def _characters(value: Any) -> int:
    """Return how many characters the texts in ``value`` have, without the space around them."""
    if isinstance(value, str):
        return len(value.strip())
    if isinstance(value, Mapping):
        return sum(_characters(key) + _characters(item) for key, item in value.items())
    return sum(map(_characters, value)) if isinstance(value, list) else 0
