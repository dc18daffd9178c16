"""What an answer may be: tool calls that are always valid, calls that must be made, JSON of one schema."""

from __future__ import annotations

import enum
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from llguidance import LLMatcher
from numpy.typing import NDArray

from agentrt.calls import ToolCallFormat
from agentrt.errors import InvalidRequestError

from .token_matcher import GrammarCompiler

_OPENING: Final = b"<tool_call>"
_CLOSING: Final = "</tool_call>"
_NEWLINE: Final = "\n"
# One way to write JSON, the one that models are taught to write calls in: where any whitespace may come, a
# small model goes on writing spaces, and a large one spends tokens on indentation.
_JSON_STYLE: Final = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


@dataclass(frozen=True, slots=True)
class CallRules:
    """Which calls an answer may make, in the terms of OpenAI's ``tool_choice``."""

    tools: Sequence[Mapping[str, Any]]
    """The tools that may be called, as function definitions."""
    required: bool = False
    """The answer must begin with a call."""
    parallel: bool = True
    """There may be more than one."""


class _Phase(enum.Enum):
    """Where an answer stands.

    START goes to CALL or TEXT; CALL goes to FREE, BETWEEN or END, depending on what may follow a call.
    """

    START = enum.auto()
    """Nothing is written, and what comes first is restricted."""
    FREE = enum.auto()
    """Anything may come, also the opening of a call."""
    CALL = enum.auto()
    """Inside a call, behind its opening."""
    BETWEEN = enum.auto()
    """A call is complete; another one may follow, or the end."""
    TEXT = enum.auto()
    """Inside a text that has a grammar."""
    END = enum.auto()
    """Only the end may come."""


class AnswerConstraint:
    """Holds one answer to its grammar. Not thread-safe; one per sequence."""

    def __init__(
        self,
        *,
        vocabulary_size: int,
        end_tokens: Collection[int],
        opening: int | None = None,
        calls: LLMatcher | None = None,
        rules: CallRules | None = None,
        text: LLMatcher | None = None,
    ) -> None:
        """``calls`` is what may follow the token ``opening``; ``text`` the whole answer if it is no call."""
        self._opening = opening if calls is not None else None
        self._calls = calls
        self._compiled_text = text
        self._one_call = rules is not None and not rules.parallel
        self._must_call = rules is not None and rules.required
        self._vocabulary_size = vocabulary_size
        self._end_tokens = sorted(end_tokens)
        self._mask = np.zeros((vocabulary_size + 31) // 32, np.int32)
        self.error: str | None = None
        """Why the grammar could not be followed to its end; the answer was ended there."""
        self.begin_turn()

    def begin_turn(self) -> None:
        """Hold what comes next to the same rules, from the beginning."""
        self._matcher: LLMatcher | None = None
        self._text = self._compiled_text and self._compiled_text.deep_copy()
        self._phase = _Phase.START if self._must_call or self._text is not None else _Phase.FREE

    @property
    def active(self) -> bool:
        """Whether the next token is restricted."""
        return self._phase is not _Phase.FREE

    def observe(self, token: int) -> None:
        """Take note of the token that was chosen."""
        if self._phase is _Phase.START and token != self._opening and self._text is not None:
            self._phase, self._matcher = _Phase.TEXT, self._text
        if self._phase in (_Phase.CALL, _Phase.TEXT):
            self._advance(token)
        elif token == self._opening:
            assert self._calls is not None
            self._phase, self._matcher = _Phase.CALL, self._calls.deep_copy()

    def _advance(self, token: int) -> None:
        matcher = self._matcher
        assert matcher is not None
        matcher.consume_token(token)
        if matcher.is_error():
            self.error, self._phase = matcher.get_error().splitlines()[0], _Phase.END
        elif self._phase is _Phase.TEXT:
            if matcher.is_stopped():
                self._phase = _Phase.END
        elif matcher.is_stopped() or matcher.is_accepting():
            if self._one_call:
                self._phase = _Phase.END
            else:
                self._phase = _Phase.FREE if self._text is None else _Phase.BETWEEN

    def restrict(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """A copy of ``[vocabulary]`` logits in which tokens that no valid answer goes on with are -inf."""
        return np.where(self._allowed()[: len(logits)], logits, np.float32(-np.inf))

    def _allowed(self) -> NDArray[np.bool_]:
        if self._phase in (_Phase.CALL, _Phase.TEXT):
            assert self._matcher is not None
            return self._next_of(self._matcher)
        if self._phase is _Phase.START and self._text is not None and not self._must_call:
            allowed = self._next_of(self._text)
        else:
            allowed = np.zeros(self._vocabulary_size, np.bool_)
        if self._phase is not _Phase.END and self._opening is not None:
            allowed[self._opening] = True
        if self._phase in (_Phase.BETWEEN, _Phase.END):
            allowed[self._end_tokens] = True
        return allowed

    def _next_of(self, matcher: LLMatcher) -> NDArray[np.bool_]:
        matcher.unsafe_compute_mask_ptr(self._mask.ctypes.data, self._mask.nbytes)
        bits = np.unpackbits(self._mask.view(np.uint8), bitorder="little")
        return bits[: self._vocabulary_size].astype(np.bool_)


class AnswerGrammar:
    """Makes the constraints of one model's answers. Thread-safe."""

    def __init__(
        self,
        call_format: ToolCallFormat | None,
        token_bytes: Sequence[bytes] | None,
        end_tokens: Collection[int],
        *,
        constrain_calls: bool = True,
    ) -> None:
        """``token_bytes`` is the text of each token, empty for special ones; None if tokens have none."""
        self._end_tokens = end_tokens
        self._vocabulary_size = len(token_bytes or ())
        self._compiler = None if token_bytes is None else GrammarCompiler(token_bytes, min(end_tokens))
        self._opening: int | None = None
        if constrain_calls and call_format is ToolCallFormat.HERMES and _OPENING in (token_bytes or ()):
            self._opening = list(token_bytes or ()).index(_OPENING)

    @property
    def opening(self) -> int | None:
        """The token that opens a call; None if there is none, or calls are not held to their tools."""
        return self._opening

    def constraint(
        self, rules: CallRules | None, schema: Mapping[str, Any] | None = None
    ) -> AnswerConstraint | None:
        """A fresh constraint for one answer, or None if anything may come.

        ``schema`` is the JSON schema of an answer that is no call.

        Raises:
            InvalidRequestError: a schema cannot be followed, or calls are ruled that cannot be constrained.
        """
        if rules is not None and self._opening is None:
            if rules.required:
                raise InvalidRequestError(
                    "tool_choice", "calls of this model cannot be forced here. Use 'auto' or 'none'."
                )
            if schema is not None:
                raise InvalidRequestError(
                    "response_format",
                    "calls of this model cannot be told from JSON here. Leave out tools or format.",
                )
            if not rules.parallel:
                raise InvalidRequestError(
                    "parallel_tool_calls", "calls of this model cannot be limited here. Leave it out."
                )
            rules = None
        if rules is None and schema is None:
            return None
        if self._compiler is None:
            raise InvalidRequestError(
                "response_format", "this model's vocabulary cannot be held to a grammar. Ask for free text."
            )
        return AnswerConstraint(
            vocabulary_size=self._vocabulary_size,
            end_tokens=self._end_tokens,
            opening=self._opening,
            calls=None if rules is None else self._compiler.compile(_calls_grammar(rules.tools), "tools"),
            rules=rules,
            text=None if schema is None else self._compiler.compile(_json_grammar(schema), "response_format"),
        )


def _json_grammar(schema: Mapping[str, Any]) -> str:
    """One JSON text of ``schema``; a keyword that cannot be followed is an error, not ignored."""
    followed = {**schema, "x-guidance": _JSON_STYLE}
    return f'%llguidance {{"no_forcing": true}}\nstart: %json {json.dumps(followed)}'


def _calls_grammar(tools: Sequence[Mapping[str, Any]]) -> str:
    """What may follow the opening tag: one of the tools by name, with arguments of its schema."""
    calls = " | ".join(f"call_{index}" for index in range(len(tools)))
    lines = [
        # The model spells a call in its own tokens; forced ones would be strange to it.
        '%llguidance {"no_forcing": true}',
        # On lines of its own, as every chat template of this format writes it: so what the model writes is
        # what it will be shown when it is asked again.
        f"start: {_text(_NEWLINE)} ({calls}) {_text(_NEWLINE + _CLOSING)}",
    ]
    for index, tool in enumerate(tools):
        function = tool["function"]
        schema: dict[str, Any] = {"type": "object", **(function.get("parameters") or {})}
        if schema.get("properties"):
            # A parameter that the tool does not have is a mistake even where the schema does not say so.
            schema.setdefault("additionalProperties", False)
        schema["x-guidance"] = {"lenient": True, **_JSON_STYLE}
        name = json.dumps(function["name"], ensure_ascii=False)
        head = _text(f'{{"name": {name}, "arguments": ')
        lines += [
            f'call_{index}: {head} arguments_{index} "}}"',
            f"arguments_{index}: %json {json.dumps(schema)}",
        ]
    return "\n".join(lines)


def _text(literal: str) -> str:
    return json.dumps(literal, ensure_ascii=False)
