"""The engine's side of the tool cache (SpecTools §3.2, Algorithm 5), for one sequence: a drafter."""

from __future__ import annotations

from collections.abc import Sequence

from agentrt.calls import ToolCall, ToolCallFormat, parse_tool_calls
from agentrt.errors import InvalidRequestError

from ..drafting.drafter import MAX_DRAFT_TOKENS, Drafter
from .outputs import ToolOutput, ToolOutputs
from .renderer import ToolTurnRenderer
from .tool_turn import ToolReply, ToolTurn


class ToolCacheDrafter(Drafter):
    """Drafts the calls that outputs were submitted for (O2), and answers those the model makes (O3).

    One difference from the paper: an output is not appended after its call but after the end of the turn
    that makes the call. Until that end the model may write a second call next to the first, with neither
    answered, so the transcript equals that of a client which runs the tools itself. For the same reason
    either every call of a turn is answered from the cache or none. The end of the turn is part of the draft,
    so that it takes no forward pass of its own.

    Not thread-safe. Only the :class:`ToolOutputs` may be filled at any time, from any thread.
    """

    def __init__(
        self,
        outputs: ToolOutputs,
        renderer: ToolTurnRenderer,
        call_format: ToolCallFormat,
        call_token: int | None,
        context_tokens: int,
    ) -> None:
        """Draft and answer the calls of one sequence.

        ``call_token`` opens a call; if it is None, nothing is drafted. ``context_tokens`` is the most tokens
        that a sequence may have.
        """
        self._context_tokens = context_tokens
        self._outputs = outputs
        self._renderer = renderer
        self._call_format = call_format
        self._call_token = call_token
        self._call: list[int] | None = None  # tokens since the last call was opened
        self._expected: tuple[int, ...] = ()  # the rest of the last draft, as long as the model follows it

    def draft(self, token: int) -> Sequence[int]:
        """Return the rest of the newest cached call that starts with what is written (Algorithm 5, line 15).

        Directly after the token that opens a call, that is the newest call of all. If the model then names
        another tool, it is that tool's newest call, from the token on at which the names differ; if it writes
        another argument, the newest call with that argument.
        """
        if token == self._call_token:
            self._call = [token]
        elif self._call is not None:
            self._call.append(token)
        if self._call is None or not len(self._outputs):
            return ()
        self._expected = self._expected[1:] if self._expected[:1] == (token,) else ()
        if self._expected:
            return ()  # the last draft is still being verified
        written = tuple(self._call)
        for entry in self._outputs.newest_first():
            call = entry.tokenized.tokens if entry.tokenized else ()
            if len(call) > len(written) and call[: len(written)] == written:
                self._expected = call[len(written) :][:MAX_DRAFT_TOKENS]
                break
        return self._expected

    def answer_turn(self, end_token: int, text: str, total_tokens: int) -> ToolTurn | None:
        """Return the answered turn if the cache has an output for every call in ``text``, else None.

        ``text`` is what the model wrote in this turn, ``end_token`` the token that ended it, and
        ``total_tokens`` the length of the sequence so far. None also if ``text`` makes no call, or if the
        reply does not fit the context.
        """
        self._call, self._expected = None, ()
        if not len(self._outputs):
            return None
        _, calls = parse_tool_calls(text, self._call_format)
        found = self._outputs.find(calls)
        if not found:
            return None
        reply = self._reply(calls, found)
        if reply is None or end_token != reply.end_token:
            return None
        if total_tokens + len(reply.tokens) >= self._context_tokens:
            return None
        self._outputs.use(found)
        return ToolTurn(calls, tuple(entry.output for entry in found), reply)

    def _reply(self, calls: tuple[ToolCall, ...], entries: Sequence[ToolOutput]) -> ToolReply | None:
        if len(entries) == 1 and entries[0].tokenized is not None:
            return entries[0].tokenized.reply
        try:
            return self._renderer.reply(calls, [entry.output for entry in entries])
        except InvalidRequestError:
            return None  # the template allows one call per turn: the client answers these
