"""A checked and tokenized request: the input of the engine."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentrt.calls import CallFinished, MessageParser, ToolCall, ToolCallFormat, ToolDefinitions
from agentrt.errors import InvalidRequestError
from agentrt.priority import Priority

from ..structured_output.grammar_matcher import GrammarMatcher
from ..structured_output.tool_choice import ToolChoice
from .sampling_params import SamplingParams
from .window import PromptTruncated


def new_request_id() -> str:
    """Return an unguessable id; the generation has the same one."""
    return f"gen_{secrets.token_hex(12)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request as :class:`InputProcessor` prepares it. Submit it once: the grammar matcher keeps state."""

    prompt_token_ids: list[int]
    """Token ids of the rendered prompt."""
    sampling_params: SamplingParams
    priority: Priority
    end_tokens: frozenset[int]
    """Tokens that end the answer: the model's own, unless they are ignored, and the request's stop tokens."""
    max_total_tokens: int
    """Upper limit of prompt and answer together."""
    context_length: int
    """Upper limit of the whole sequence: prompt, answer, and the tool outputs appended to it."""
    request_id: str = field(default_factory=new_request_id)
    arrived: float = field(default_factory=time.perf_counter)
    """Arrival time on the clock of :meth:`Platform.now`."""
    deadline_s: float | None = None
    """Seconds after :attr:`arrived` at which the request ends with an error."""
    prefix_salt: bytes | None = None
    """Salt of the block hashes: requests with the same salt share the KV blocks of a common prefix. None
    shares nothing."""
    public_salt: bytes = b""
    """Salt of the block hashes within the first :attr:`public_tokens` of the prompt."""
    public_tokens: int = 0
    """Tokens at the beginning of the prompt that the app shares with others that declare them public."""
    app: str = ""
    """Name of the requesting app; empty if it has none. It stays the same when the process starts again, and
    salts do not."""
    session: str | None = None
    """The app's name for the conversation, if it has one."""
    context_id: str = ""
    """Id of the app's context that the request continues; empty if it continues none."""
    truncated: PromptTruncated | None = None
    """What was left out of the conversation; None if the prompt is all of it."""
    tool_seconds: Mapping[str, float] = field(default_factory=dict)
    """How long the app expects tools to take, by their names."""
    predicted_token_ids: tuple[int, ...] = ()
    """Token ids of the text that the caller predicts."""
    grammar_matcher: GrammarMatcher | None = None
    """Grammar state of the answer; None if any text is valid."""
    call_format: ToolCallFormat | None = None
    """Format of the answer's tool calls; None if it can have none."""
    tool_choice: ToolChoice | None = None
    """Which tools the answer may or must call; None if it can call none."""
    held_formats: tuple[ToolCallFormat, ...] = ()
    """The formats whose calls the grammar makes valid, :data:`JSON_MESSAGE` for messages of calls in JSON."""

    def calls_in(self, text: str) -> tuple[ToolCall, ...]:
        """Return the calls in the whole text of a turn, as they are reported to the caller."""
        parser = self.call_parser()
        events = [] if parser is None else parser.feed(text) + parser.close()
        return tuple(event.call for event in events if isinstance(event, CallFinished))

    def call_parser(self) -> MessageParser | None:
        """Return a new parser of one turn of the answer; None if it can have no calls."""
        if self.call_format is None or self.tool_choice is None:
            return None
        return MessageParser(
            self.call_format,
            ToolDefinitions(self.tool_choice.tools, trusted=self.call_format),
            held_to_grammar=self.held_formats,
            parallel=self.tool_choice.parallel,
        )

    @property
    def callable_tools(self) -> Sequence[Mapping[str, Any]]:
        """The tools that the answer may call."""
        return () if self.call_format is None or self.tool_choice is None else self.tool_choice.tools

    @property
    def must_call(self) -> bool:
        """Whether the answer must be a call. An answered one would not do: the model would make another."""
        return self.tool_choice is not None and self.tool_choice.required

    def grammar_error(self) -> InvalidRequestError | None:
        """Return the error of a grammar that became too complex before the answer was complete, else None."""
        if self.grammar_matcher is None or self.grammar_matcher.error is None:
            return None
        return InvalidRequestError(
            "response_format",
            f"the answer could not follow its schema ({self.grammar_matcher.error}). Use a simpler schema.",
        )
