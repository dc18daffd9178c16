"""Tool calls and their outputs as the model's chat template writes them, in tokens."""

from __future__ import annotations

import functools
import itertools
import logging
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Final

from agentrt.calls import ToolCall, ToolCallFormat, parse_tool_calls
from agentrt.calls.arguments import plain_text
from agentrt.errors import InvalidRequestError

from ..model.tokenizer import Tokenizer
from .tool_turn import CallOpening, TokenizedCall, ToolReply

_QUESTION: Final = {"role": "user", "content": "?"}

logger = logging.getLogger("agentrt.runtime")


class ToolTurnRenderer:
    """Renders tool turns by applying the chat template itself, so that every model's are right. Thread-safe.

    A conversation that ends in calls is rendered twice, without and with outputs. The calling turn ends at
    the last end token before the first difference of the two texts; the rest of the second text is the reply.
    """

    def __init__(self, tokenizer: Tokenizer, call_format: ToolCallFormat | None) -> None:
        """``tokenizer`` has the model's chat template; ``call_format`` is how the model writes calls."""
        self._tokenizer = tokenizer
        self._call_format = call_format
        # Placeholders stand for outputs while the template is applied. No output can contain one, because
        # they are random.
        self._secret = secrets.token_hex(16)
        self._ends = [(tokenizer.token_text(token), token) for token in sorted(tokenizer.end_token_ids)]
        self._warned = False

    @functools.cached_property
    def call_opening(self) -> CallOpening:
        """Where calls of the format begin."""
        format = self._call_format
        if format is None:
            return CallOpening((), at_start=False)
        tag = self._tokenizer.encode(format.opening_tag) if format.opening_tag else []
        return CallOpening(
            tuple(tag),
            at_start=format.message_opening is not None,
            tag_text=(format.opening_tag or "").encode(),
            closing=(format.closing or "").encode(),
        )

    def tokenize_call(self, call: ToolCall, output: str) -> TokenizedCall:
        """Return the tokens of ``call`` and those of the reply with its ``output``.

        A call that cannot be written in the model's format has no tokens; the first one is logged.

        Raises:
            InvalidRequestError: the chat template has no tool turns.
        """
        without, with_outputs = self._render([call])
        end, end_token = self._end_of_turn(without, with_outputs)
        reply = ToolReply(end_token, self._tokenize(with_outputs[end:], [output]))
        end_text = self._tokenizer.token_text(end_token)
        text = self._call_text(call, without[:end].removesuffix(end_text))
        if text is None:
            return TokenizedCall((), 0, reply)
        tokens = self._tokenizer.encode(text + end_text)
        return TokenizedCall(tuple(tokens), self._opening_length(tokens), reply)

    def _call_text(self, call: ToolCall, rendered: str) -> str | None:
        """Return ``call`` as the model writes it, for ``Tokenizer.encode``; None if that is not known.

        That is what the chat template writes at the end of ``rendered``, if it is a call of the format: some
        models write calls in another format than the template, which may be that of the base model.
        """
        format = self._call_format
        if format is None:
            return None
        templated = self._from_template(format, rendered)
        written = format.written(self._tokenizer.escape_call(call))
        for text in (templated, written):
            if text is not None and self._makes(format, text, call):
                return text
        self._warn(format)
        return None

    def _from_template(self, format: ToolCallFormat, rendered: str) -> str | None:
        """Return the part of ``rendered`` from where its call opens."""
        start = -1 if format.opening_tag is None else rendered.rfind(format.opening_tag)
        if start < 0 and format.message_opening is not None:
            prompt = self._tokenizer.render([_QUESTION], None)
            start = len(prompt) if rendered.startswith(prompt) else -1
        return rendered[start:] if start >= 0 else None

    def _makes(self, format: ToolCallFormat, text: str, call: ToolCall) -> bool:
        """Whether a message of this text makes ``call`` and nothing else."""
        plain, made = parse_tool_calls(self._tokenizer.unescape(text), format)
        arguments = dict(call.arguments)
        if format.untyped_arguments:
            arguments = {name: plain_text(value) for name, value in arguments.items()}
        return not plain.strip() and [(one.name, one.arguments) for one in made] == [(call.name, arguments)]

    def _opening_length(self, tokens: Sequence[int]) -> int:
        """Return how many tokens hold the opening tag; 1 if the call has none and opens the message."""
        tag = self._call_format.opening_tag if self._call_format is not None else None
        if tag is None:
            return 1
        texts = itertools.accumulate(map(self._tokenizer.token_text, tokens))
        return next((length for length, text in enumerate(texts, 1) if tag in text), 1)

    def _warn(self, format: ToolCallFormat) -> None:
        if not self._warned:
            self._warned = True
            logger.warning(
                "calls are not drafted from the tool cache: the model's chat template writes them in another "
                "format than %r, which does not say how to write this one. Set the format's write=.",
                format.name,
            )

    def reply(self, calls: Sequence[ToolCall], outputs: Sequence[str]) -> ToolReply:
        """Return what follows a turn that makes ``calls``, with one output per call.

        Raises:
            InvalidRequestError: the chat template has no tool turns.
        """
        without, with_outputs = self._render(calls)
        end, end_token = self._end_of_turn(without, with_outputs)
        return ToolReply(end_token, self._tokenize(with_outputs[end:], outputs))

    def _render(self, calls: Sequence[ToolCall]) -> tuple[str, str]:
        """Render a conversation that ends in ``calls``, and the same with placeholders as their outputs."""
        tool_calls = [
            {
                "id": f"call{index:05}",  # some templates require nine letters and digits
                "type": "function",
                "function": {"name": call.name, "arguments": dict(call.arguments)},
            }
            for index, call in enumerate(calls)
        ]
        messages: list[Mapping[str, Any]] = [
            _QUESTION,
            {"role": "assistant", "content": "", "tool_calls": tool_calls},
        ]
        outputs = [
            {
                "role": "tool",
                "content": self._placeholder(index),
                "tool_call_id": tool_calls[index]["id"],
                "name": call.name,
            }
            for index, call in enumerate(calls)
        ]
        return self._tokenizer.render(messages, None), self._tokenizer.render([*messages, *outputs], None)

    def _end_of_turn(self, without: str, with_outputs: str) -> tuple[int, int]:
        """Return where the calling turn ends in both texts, and its end token."""
        common = next(n for n in range(len(without) + 1) if without[n : n + 1] != with_outputs[n : n + 1])
        ends = [
            (found + len(text), token)
            for text, token in self._ends
            if (found := without.rfind(text, 0, common)) >= 0
        ]
        if not ends or with_outputs.count(self._placeholder(0)) != 1:
            raise InvalidRequestError(
                "tools", "this model's chat template has no tool turns. Run tools after its answers."
            )
        return max(ends)

    def _tokenize(self, reply: str, outputs: Sequence[str]) -> tuple[int, ...]:
        for index, output in enumerate(outputs):
            reply = reply.replace(self._placeholder(index), self._tokenizer.escape_special_tokens(output))
        return tuple(self._tokenizer.encode(reply))

    def _placeholder(self, index: int) -> str:
        return f"{self._secret}-{index}-"
