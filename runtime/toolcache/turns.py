"""How a conversation goes on behind calls, in the tokens of one model's chat template."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from agentrt.calls import ToolCall
from agentrt.errors import InvalidRequestError

from ..model.tokenizer import Tokenizer
from .replies import Reply, Spelling

_OPENING = "<tool_call>"


class ToolTurns:
    """Asks the chat template itself, so that it is right for every model. Thread-safe."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Nothing is rendered until it is asked for."""
        self._tokenizer = tokenizer
        # Where outputs will stand. Nobody can guess it, so that no output can hold it.
        self._secret = secrets.token_hex(16)
        self._ends = [(tokenizer.spell(token), token) for token in sorted(tokenizer.end_token_ids)]

    def spelling(self, call: ToolCall, output: str) -> Spelling:
        """Both sides of one call.

        Raises:
            InvalidRequestError: the template has no such turn.
        """
        asked, answered = self._render([call])
        place, end = self._end_of_turn(asked, answered)
        opening = asked.rfind(_OPENING, 0, place)
        spelled = self._tokenizer.encode(asked[opening:place]) if opening >= 0 else []
        return Spelling(tuple(spelled), Reply(end, self._tokens(answered[place:], [output])))

    def reply(self, calls: Sequence[ToolCall], outputs: Sequence[str]) -> Reply:
        """What follows a turn of several calls.

        Raises:
            InvalidRequestError: the template has no such turn.
        """
        asked, answered = self._render(calls)
        place, end = self._end_of_turn(asked, answered)
        return Reply(end, self._tokens(answered[place:], outputs))

    def _render(self, calls: Sequence[ToolCall]) -> tuple[str, str]:
        """A conversation that ends in ``calls``, and the one where marks answer them."""
        made = [
            {
                "id": f"call{index:05}",  # nine letters and digits: there are templates that insist
                "type": "function",
                "function": {"name": call.name, "arguments": dict(call.arguments)},
            }
            for index, call in enumerate(calls)
        ]
        asked: list[Mapping[str, Any]] = [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": "", "tool_calls": made},
        ]
        answers = [
            {"role": "tool", "content": self._mark(index), "tool_call_id": call["id"], "name": name}
            for index, (call, name) in enumerate(zip(made, (call.name for call in calls), strict=True))
        ]
        return self._tokenizer.render(asked, None), self._tokenizer.render([*asked, *answers], None)

    def _end_of_turn(self, asked: str, answered: str) -> tuple[int, int]:
        """Where, in both, the turn that calls is over, and the token that ends it."""
        common = next(n for n in range(len(asked) + 1) if asked[n : n + 1] != answered[n : n + 1])
        ends = [
            (place + len(end), token)
            for end, token in self._ends
            if (place := asked.rfind(end, 0, common)) >= 0
        ]
        if not ends or answered.count(self._mark(0)) != 1:
            raise InvalidRequestError(
                "tools", "this model's chat template has no turn of tools. Run tools after its answers."
            )
        return max(ends)

    def _tokens(self, tail: str, outputs: Sequence[str]) -> tuple[int, ...]:
        for index, output in enumerate(outputs):
            tail = tail.replace(self._mark(index), self._tokenizer.escape(output))
        return tuple(self._tokenizer.encode(tail))

    def _mark(self, index: int) -> str:
        return f"{self._secret}-{index}-"
