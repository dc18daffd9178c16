"""The engine's side of the tool cache (SpecTools §3.2, Algorithm 5), for one sequence."""

from __future__ import annotations

from collections.abc import Sequence

from agentrt.calls import ToolCallFormat, parse_tool_calls
from agentrt.errors import InvalidRequestError

from ..drafting.protocol import MAX_DRAFT_TOKENS
from .outputs import ToolOutput, ToolOutputs
from .replies import ToolTurn
from .turns import ToolTurns


class ToolCacheProposer:
    """Drafts the calls that outputs were submitted for (O2), and answers those that were made (O3).

    Where this differs from the paper: it does not append an output behind its call but behind the turn
    that calls, when the model has ended it. Until then the model may make another call beside the first,
    and would have made it with neither answered; so the transcript is that of a client which runs the tools.
    It is also why every call of a turn must be answered, or none is. The end of the turn is part of the
    draft, so that it costs no pass of its own.

    Not thread-safe, but for the outputs, which may come at any time from any thread.
    """

    def __init__(
        self,
        outputs: ToolOutputs,
        turns: ToolTurns,
        call_format: ToolCallFormat,
        opening: int | None,
        context_tokens: int,
    ) -> None:
        """``opening`` is the token that starts a call; without one nothing is drafted."""
        self.context_tokens = context_tokens
        """How many tokens a sequence may have altogether."""
        self._outputs = outputs
        self._turns = turns
        self._call_format = call_format
        self._opening = opening
        self._call: list[int] | None = None
        self._expected: tuple[int, ...] = ()

    def draft(self, token: int) -> Sequence[int]:
        """The rest of the newest call that begins as the one which is being written (Algorithm 5, line 15).

        Behind the opening that is the newest call of all. If the model goes on to name another tool, it is
        that tool's newest call, from where the name tells it from others; if it names another argument, the
        newest call with that argument.
        """
        if token == self._opening:
            self._call = [token]
        elif self._call is not None:
            self._call.append(token)
        if self._call is None or not len(self._outputs):
            return ()
        self._expected = self._expected[1:] if self._expected[:1] == (token,) else ()
        if self._expected:
            return ()  # what was drafted before is still being found right
        written = tuple(self._call)
        for entry in self._outputs.newest_first():
            spelled = entry.spelling.call if entry.spelling else ()
            if len(spelled) > len(written) and spelled[: len(written)] == written:
                self._expected = spelled[len(written) :][:MAX_DRAFT_TOKENS]
                break
        return self._expected

    def follow(self, end: int, text: str, tokens: int) -> ToolTurn | None:
        """What comes behind a turn in which the model wrote ``text``, if every call in it is answered.

        ``end`` is the token that ended it, and ``tokens`` how many there are so far.
        """
        self._call, self._expected = None, ()
        if not len(self._outputs):
            return None
        _, calls = parse_tool_calls(text, self._call_format)
        found: list[ToolOutput] = []
        for call in calls:
            entry = self._outputs.exact(call.name, call.arguments)
            if entry is None:
                return None
            found.append(entry)
        if not found:
            return None
        outputs = tuple(entry.output for entry in found)
        if len(found) == 1 and found[0].spelling is not None:
            reply = found[0].spelling.reply
        else:
            try:
                reply = self._turns.reply(calls, outputs)
            except InvalidRequestError:
                return None  # the template knows one call a turn only: the client answers these
        if end != reply.end or tokens + len(reply.tokens) >= self.context_tokens:
            return None
        return ToolTurn(calls, outputs, reply)
