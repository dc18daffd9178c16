"""Holds one answer to its grammar, token by token: the state machine of constrained decoding."""

from __future__ import annotations

import copy
import enum
import re
from collections.abc import Collection, Sequence
from typing import Final, Self

import numpy as np
from llguidance import LLMatcher
from numpy.typing import NDArray

from .plain_reason import plain_reason
from .tool_choice import ToolChoice

_NAMED_CALL: Final = re.compile(rb'"name"\s*:\s*"(?:[^"\\]|\\.)*"\s*,\s*"(?:arguments|parameters)"')
"""The beginning of a call in a message of calls: data has other keys after a name."""


class _State(enum.Enum):
    """Where an answer stands.

    START goes to CALL or TEXT. CALL goes to FREE, BETWEEN or END, depending on what may follow a call.
    BETWEEN goes to CALL, or by a line break to NEXT_CALL, which goes to CALL. FREE goes to CALL or, if the
    answer has begun like a message of calls, to TEXT. TEXT goes to END.
    """

    START = enum.auto()
    """No token is written yet, and the first one is restricted."""
    FREE = enum.auto()
    """Any token may follow; the token that opens a call leads to CALL."""
    CALL = enum.auto()
    """Inside a call, after its opening token."""
    BETWEEN = enum.auto()
    """A call is complete; another call, a line break or the end of the answer may follow."""
    NEXT_CALL = enum.auto()
    """Behind the line break after a call; another call or the end of the answer may follow."""
    TEXT = enum.auto()
    """Inside a text that has a grammar."""
    END = enum.auto()
    """Only an end token may follow."""


class GrammarMatcher:
    """The grammar state of one answer, and the token masks it gives. Not thread-safe; one per sequence."""

    def __init__(
        self,
        *,
        vocabulary_size: int,
        end_tokens: Collection[int],
        call_token: int | None = None,
        calls: LLMatcher | None = None,
        tool_choice: ToolChoice | None = None,
        text: LLMatcher | None = None,
        message: LLMatcher | None = None,
        token_bytes: Sequence[bytes] = (),
    ) -> None:
        """Create the matcher of an answer that has not begun.

        ``calls`` is the grammar of a call after ``call_token``, the token that opens it. ``text`` is the
        grammar of an answer that calls no tool, or of one in which calls have no opening token; without it,
        any text may surround calls. ``message`` is the grammar of an answer that consists of calls without
        opening tokens: it restricts an answer of free text once that has begun like a call, as
        ``token_bytes`` tell. All three are copied, never advanced. An answer that must call a tool, or that
        has a ``text`` grammar, has nothing but calls after its first call.
        """
        self._call_token = call_token if calls is not None else None
        self._calls = calls
        self._text = text
        self._message = message
        self._token_bytes = token_bytes
        self._one_call = tool_choice is not None and not tool_choice.parallel
        self._call_required = tool_choice is not None and tool_choice.required and calls is not None
        self._vocabulary_size = vocabulary_size
        self._end_tokens = sorted(end_tokens)
        # Chat templates write a line break between calls. A model that may not write one ends the answer.
        self._line_breaks = [token for token, text in enumerate(token_bytes) if text == b"\n"]
        self._bitmask = np.zeros((vocabulary_size + 31) // 32, np.int32)
        self.error: str | None = None
        """Why llguidance gave up on the grammar, after which only the end is allowed; None if it did not."""
        self.reset()

    def reset(self) -> None:
        """Start again at the beginning of an answer, for the next turn of the same sequence."""
        self._matcher: LLMatcher | None = None  # in CALL and TEXT, the grammar of the call or text
        self._text_matcher = self._text and self._text.deep_copy()
        restricted = self._call_required or self._text_matcher is not None
        self._state = _State.START if restricted else _State.FREE
        self._message_matcher = self._message and self._message.deep_copy()
        self._message_bytes = b""
        self._behind_call = False

    def copy(self) -> Self:
        """Return a matcher in the same state that advances on its own."""
        copied = copy.copy(self)
        copied._matcher = self._matcher and self._matcher.deep_copy()
        if self._state is _State.START:
            copied._text_matcher = self._text_matcher and self._text_matcher.deep_copy()
        if self._state is _State.FREE:
            copied._message_matcher = self._message_matcher and self._message_matcher.deep_copy()
        return copied

    @property
    def active(self) -> bool:
        """Whether the next token is restricted."""
        return self._state is not _State.FREE

    @property
    def may_end(self) -> bool:
        """Whether a call, or the restricted text, is complete here, so that the answer may end."""
        if self._state is _State.TEXT and self._matcher is not None:
            return self._matcher.is_accepting()
        return self._behind_call or self._state in (_State.BETWEEN, _State.NEXT_CALL, _State.END)

    @property
    def must_end(self) -> bool:
        """Whether only an end token may follow."""
        return self._state is _State.END

    def accept_token(self, token: int) -> None:
        """Advance by the sampled ``token``."""
        self._behind_call = False
        if self._state is _State.START and token != self._call_token and self._text_matcher is not None:
            self._state, self._matcher = _State.TEXT, self._text_matcher
        if self._matcher is not None:
            self._advance(self._matcher, token)
        elif token == self._call_token:
            assert self._calls is not None
            self._state, self._matcher = _State.CALL, self._calls.deep_copy()
            self._message_matcher = None
        elif self._state is _State.BETWEEN and token in self._line_breaks:
            self._state = _State.NEXT_CALL
        elif self._state is _State.FREE and self._message_matcher is not None:
            self._follow_message(self._message_matcher, token)

    def _follow_message(self, matcher: LLMatcher, token: int) -> None:
        """Follow an answer that may consist of calls; from the first tool's name on, hold it to them."""
        if token in self._end_tokens or not matcher.validate_tokens([token]):
            self._message_matcher = None
            return
        matcher.consume_token(token)
        self._message_bytes += self._token_bytes[token]
        if _NAMED_CALL.search(self._message_bytes):
            self._state, self._matcher = _State.TEXT, matcher

    def _advance(self, matcher: LLMatcher, token: int) -> None:
        matcher.consume_token(token)
        if matcher.is_error():
            self.error, self._state = plain_reason(matcher.get_error().splitlines()[0]), _State.END
        elif self._state is _State.TEXT:
            self._state = _State.END if matcher.is_stopped() else _State.TEXT
        elif matcher.is_stopped() or matcher.is_accepting():
            more = _State.BETWEEN if self._call_required or self._text is not None else _State.FREE
            self._state = _State.END if self._one_call else more
            self._behind_call = True
        if self._state not in (_State.CALL, _State.TEXT):
            self._matcher = None

    def forced_bytes(self) -> bytes:
        """Return the text that must follow, up to the first byte that is not the only one allowed."""
        if self._matcher is not None:
            return self._matcher.compute_ff_bytes()
        if self._state is not _State.START:
            return b""
        if self._call_required and self._call_token is not None:
            return self._token_bytes[self._call_token]
        if self._call_token is None and self._text_matcher is not None:
            return self._text_matcher.compute_ff_bytes()
        return b""

    def allows(self, token: int) -> bool:
        """Whether ``token`` may follow: quicker than :meth:`mask_logits` for one token."""
        if self._state is _State.FREE:
            return True
        if self._matcher is not None:
            return self._matcher.validate_tokens([token]) == 1
        if token == self._call_token:
            return self._state is not _State.END
        if self._state is _State.START:
            text = None if self._call_required else self._text_matcher
            return text is not None and text.validate_tokens([token]) == 1
        if token in self._line_breaks:
            return self._state is _State.BETWEEN
        return token in self._end_tokens

    def mask_logits(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return a copy of ``[vocabulary]`` logits in which every token that is not allowed is -inf."""
        return np.where(self._allowed_tokens()[: len(logits)], logits, np.float32(-np.inf))

    def _allowed_tokens(self) -> NDArray[np.bool_]:
        if self._matcher is not None:
            return self._token_mask(self._matcher)
        if self._state is _State.START and self._text_matcher is not None and not self._call_required:
            allowed = self._token_mask(self._text_matcher)
        else:
            allowed = np.zeros(self._vocabulary_size, np.bool_)
        if self._state is not _State.END and self._call_token is not None:
            allowed[self._call_token] = True
        if self._state is _State.BETWEEN:
            allowed[self._line_breaks] = True
        if self._state in (_State.BETWEEN, _State.NEXT_CALL, _State.END):
            allowed[self._end_tokens] = True
        return allowed

    def _token_mask(self, matcher: LLMatcher) -> NDArray[np.bool_]:
        matcher.unsafe_compute_mask_ptr(self._bitmask.ctypes.data, self._bitmask.nbytes)
        bits = np.unpackbits(self._bitmask.view(np.uint8), bitorder="little")
        return bits[: self._vocabulary_size].astype(np.bool_)
