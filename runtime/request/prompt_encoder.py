"""The tokens of a prompt: messages through the chat template, or a raw prompt; limits of their number."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from agentrt.errors import InvalidRequestError, PromptTooLongError

from ..model.tokenizer import Tokenizer
from .field_names import renamed, sender_names
from .options import RawPrompt
from .preparation import Preparation
from .validation import check_text, check_tokens
from .window import PromptTruncated, windows

_ANSWER_SHARE: Final = 4
"""One in so many tokens of a context is for the answer, at most, where the prompt gives way to it."""


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

    def encode_window(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        preparation: Preparation,
        max_tokens: int | None,
    ) -> tuple[list[int], PromptTruncated | None]:
        """Do as :meth:`encode_messages`; leave messages out where they leave no room for the answer.

        That is ``max_tokens``, at most a quarter of the context; less where no more can be left out.

        Returns:
            The tokens, and what was left out.

        Raises:
            InvalidRequestError, PromptTooLongError: see :meth:`encode_messages`.
        """
        limit = min(self.context_length, self.arena_tokens, preparation.context_tokens or self.context_length)
        most = max(1, limit // _ANSWER_SHARE)
        usual_room, room = limit - most, limit - min(most, max_tokens or most)
        found: tuple[list[int], PromptTruncated | None] | None = None
        try:
            found = self.encode_messages(messages, tools, preparation), None
        except PromptTooLongError as error:
            too_long = error
        if found is not None and len(found[0]) <= room:
            return found
        *sizes, of_tools = self._sizes([*messages, tools], usual_room, preparation)
        for window in windows(messages, sizes, room - of_tools, usual_room - of_tools):
            kept = window.of(messages)
            truncated = PromptTruncated(len(messages) - len(kept), sum(sizes) - sum(window.of(sizes)))
            try:
                found = self.encode_messages(kept, tools, preparation), truncated
            except PromptTooLongError as error:
                too_long = error
            if found is not None and len(found[0]) <= room:
                break
        if found is None:
            raise too_long
        return found

    def _sizes(self, parts: Sequence[Any], usual_room: int, preparation: Preparation) -> list[int]:
        """Return about how many tokens each part of a prompt has.

        By their characters: how many a token has is counted in the first parts, of ``usual_room`` characters,
        which are the same in all later prompts of a conversation.
        """
        characters = [_characters(part) for part in parts]
        counted = next(
            (at for at, total in enumerate(accumulate(characters), 1) if total >= usual_room), len(parts)
        )
        sample = json.dumps(parts[:counted], ensure_ascii=False)
        tokens = len(self.tokenizer.encode(sample, lambda _: preparation.check()))
        return [-(-each * tokens // len(sample)) for each in characters]

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
