"""Tool calls and their outputs as the model's chat template writes them, in tokens."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from agentrt.calls import ToolCall, ToolCallFormat
from agentrt.errors import InvalidRequestError

from ..model.tokenizer import Tokenizer
from .tool_turn import TokenizedCall, ToolReply


class ToolTurnRenderer:
    """Renders tool turns by applying the chat template itself, so that every model's are right. Thread-safe.

    A conversation that ends in calls is rendered twice, without and with outputs. The calling turn ends at
    the last end token before the first difference of the two texts; the rest of the second text is the reply.
    """

    def __init__(self, tokenizer: Tokenizer, call_format: ToolCallFormat | None) -> None:
        """``tokenizer`` has the model's chat template; ``call_format`` is how that template writes calls."""
        self._tokenizer = tokenizer
        self._opening_tag = None if call_format is None else call_format.opening_tag
        # Placeholders stand for outputs while the template is applied. No output can contain one, because
        # they are random.
        self._secret = secrets.token_hex(16)
        self._ends = [(tokenizer.token_text(token), token) for token in sorted(tokenizer.end_token_ids)]

    def tokenize_call(self, call: ToolCall, output: str) -> TokenizedCall:
        """Return the tokens of ``call`` and those of the reply with its ``output``.

        Raises:
            InvalidRequestError: the chat template has no tool turns.
        """
        without, with_outputs = self._render([call])
        end, end_token = self._end_of_turn(without, with_outputs)
        start = -1 if self._opening_tag is None else without.rfind(self._opening_tag, 0, end)
        tokens = self._tokenizer.encode(without[start:end]) if start >= 0 else []
        return TokenizedCall(
            tuple(tokens), ToolReply(end_token, self._tokenize(with_outputs[end:], [output]))
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
            {"role": "user", "content": "?"},
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
