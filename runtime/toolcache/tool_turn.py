"""Tool turns in tokens, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from agentrt.calls import ToolCall


class ToolReply(NamedTuple):
    """The tokens between an assistant turn that calls tools and the model's next answer."""

    end_token: int
    """The token that ends the assistant turn."""
    tokens: tuple[int, ...]
    """What the chat template writes after it: the outputs, and the header of the next assistant turn."""


@dataclass(frozen=True, slots=True)
class ToolTurn:
    """A turn of tool calls that the engine answers from the tool cache."""

    calls: tuple[ToolCall, ...]
    outputs: tuple[str, ...]
    """One per call, in the order of ``calls``."""
    reply: ToolReply


class CallOpening(NamedTuple):
    """Where calls begin in the tokens of a turn."""

    tag: tuple[int, ...]
    """The tokens of the opening tag, the last of which a call may merge with what follows."""
    at_start: bool
    """Whether the first token of a turn may begin a call."""
    tag_text: bytes = b""
    closing: bytes = b""
    """The tag behind calls, which is part of what a model writes."""


class TokenizedCall(NamedTuple):
    """A call and its output in the model's tokens."""

    tokens: tuple[int, ...]
    """The call as the model would write it, from its opening tag, or the start of the message, to the end of
    its turn; empty if that is not known."""
    opening: int
    """How many of the tokens open the call: no fewer show that the model is writing one."""
    reply: ToolReply
    """What follows a turn that makes this call alone."""
    json_texts: tuple[bytes, ...] = ()
    """How the model may write it in JSON that the chat template does not show: see :mod:`.json_calls`."""
