"""The engine's side of the tool cache (SpecTools §3.2, Algorithm 5), for one sequence: a drafter."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from agentrt.calls import ToolCall
from agentrt.errors import InvalidRequestError

from ..drafting.drafter import Drafter
from ..drafting.grammar_history import TokenTexts
from ..scheduler.draft import MAX_DRAFT_TOKENS, NO_DRAFT, Draft
from .json_calls import begun_call
from .outputs import ToolOutput, ToolOutputs
from .renderer import ToolTurnRenderer
from .tool_turn import TokenizedCall, ToolReply, ToolTurn

_MAX_CALL_TOKENS = 2048  # of a call that is drafted; what is longer is taken for text
_PREDICTED = 0.98
"""Probability that the model writes the next token of a predicted call that has been right so far: most wrong
predictions have the right tool and the right names of its arguments. It is high enough for a call of usual
length to be verified in one forward pass."""


class ToolCacheDrafter(Drafter):
    """Drafts the calls that outputs were submitted for or that are predicted (O2), and answers calls (O3).

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
        read_calls: Callable[[str], tuple[ToolCall, ...]],
        context_tokens: int,
        texts: TokenTexts | None = None,
    ) -> None:
        """Draft and answer the calls of one sequence, which may have at most ``context_tokens`` tokens.

        ``read_calls`` returns the calls in the text of a turn. ``texts`` are those of the tokens; without
        them calls are drafted only as the chat template writes them.
        """
        self._texts = texts
        self._context_tokens = context_tokens
        self._outputs = outputs
        self._renderer = renderer
        self._read_calls = read_calls
        self._opening = renderer.call_opening
        self._begin_turn()

    def _begin_turn(self) -> None:
        # Tokens since the last place at which a call may have begun; None before the first one.
        self._call: list[int] | None = [] if self._opening.at_start else None
        self._turn = bytearray()

    def observe(self, verified: Sequence[int], logits: NDArray[np.float32]) -> None:
        """See :meth:`Drafter.observe`; it needs no logits."""

    def append(self, token: int) -> None:
        """See :meth:`Drafter.append`."""
        if self._texts is not None:
            self._turn += self._texts.token_bytes[token]
        if token in self._opening.tag[:1] and not self._continues(token):
            self._call = []
        if self._call is not None and len(self._call) < _MAX_CALL_TOKENS:
            self._call.append(token)
        else:
            self._call = None

    def draft(self) -> Draft:
        """Return the rest of the newest cached call that starts with what is written (Algorithm 5, line 15).

        Calls with an output come before predicted ones. Directly after the opening of a call, that is the
        newest call of all. If the model then names another tool, it is that tool's newest call, from the
        token on at which the names differ; if it writes another argument, the newest call with that argument.
        Of a format without an opening tag, the first call of a turn is drafted. A call that the model writes
        otherwise than its chat template is drafted as :mod:`.json_calls` says.
        """
        # The output of a call with an output waits for it, so that such a call is verified as a whole.
        for calls, probability in zip(self._outputs.calls(), (1.0, _PREDICTED), strict=True):
            rest = _rest_of_call(calls, self._call) if self._call is not None else ()
            rest = (rest or self._rest_of_json_call(calls))[:MAX_DRAFT_TOKENS]
            if rest:
                return Draft(rest, (probability,) * len(rest))
        return NO_DRAFT

    def _rest_of_json_call(self, calls: Sequence[TokenizedCall]) -> tuple[int, ...]:
        """Return the tokens with which the first of ``calls`` goes on that begins as the turn's last one."""
        if self._texts is None or not calls:
            return ()
        begun = begun_call(self._turn, self._opening.tag_text, self._opening.closing)
        if begun is None:
            return ()
        for call in calls:
            for text in call.json_texts:
                if len(text) > len(begun.text) and text.startswith(begun.text):
                    rest = self._texts.tokenize(text[len(begun.text) :] + begun.ending)
                    return (*rest, call.reply.end_token) if rest else ()
        return ()

    def _continues(self, token: int) -> bool:
        """Whether ``token``, the first of the opening tag, stands inside a tag or call that has begun."""
        if not self._call:
            return False
        written = (*self._call, token)
        calls = (call.tokens for call in itertools.chain(*self._outputs.calls()))
        return any(tokens[: len(written)] == written for tokens in (self._opening.tag, *calls))

    def answer_turn(self, end_token: int, text: str, total_tokens: int) -> ToolTurn | None:
        """Return the answered turn if the cache has an output for every call in ``text``, else None.

        ``text`` is what the model wrote in this turn, ``end_token`` the token that ended it, and
        ``total_tokens`` the length of the sequence so far. None also if ``text`` makes no call, or if the
        reply does not fit the context.
        """
        self._begin_turn()
        if not len(self._outputs):
            return None
        calls = self._read_calls(text)
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


def _rest_of_call(calls: Sequence[TokenizedCall], written: Sequence[int]) -> tuple[int, ...]:
    """Return the tokens with which the first of ``calls`` goes on that begins with ``written``."""
    prefix = tuple(written)
    for call in calls:
        if call.opening <= len(prefix) < len(call.tokens) and call.tokens[: len(prefix)] == prefix:
            return call.tokens[len(prefix) :]
    return ()
