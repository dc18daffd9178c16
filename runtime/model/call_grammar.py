"""Tool calls that are always valid: a grammar over the tools of one request, active inside a call only."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper
from numpy.typing import NDArray

from agentrt.calls import ToolCallFormat
from agentrt.errors import InvalidRequestError

_OPENING: Final = b"<tool_call>"
_CLOSING: Final = "</tool_call>"
_KEPT_GRAMMARS: Final = 64


class CallConstraint:
    """Holds the calls of one answer to its tools. Not thread-safe; one per sequence."""

    def __init__(self, compiled: LLMatcher, opening: int, vocabulary_size: int) -> None:
        """``compiled`` is copied for each call; ``opening`` is the token that starts one."""
        self._compiled = compiled
        self._opening = opening
        self._call: LLMatcher | None = None
        self._mask = np.zeros((vocabulary_size + 31) // 32, np.int32)
        self._vocabulary_size = vocabulary_size

    @property
    def active(self) -> bool:
        """Whether the next token is inside a call."""
        return self._call is not None

    def observe(self, token: int) -> None:
        """Take note of the token that was chosen."""
        if self._call is None:
            if token == self._opening:
                self._call = self._compiled.deep_copy()
            return
        self._call.consume_token(token)
        if self._call.is_stopped() or self._call.is_accepting():
            self._call = None

    def restrict(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """A copy of ``[vocabulary]`` logits in which tokens that no valid call goes on with are -inf."""
        assert self._call is not None
        self._call.unsafe_compute_mask_ptr(self._mask.ctypes.data, self._mask.nbytes)
        bits = np.unpackbits(self._mask.view(np.uint8), bitorder="little")
        allowed = bits[: len(logits)].astype(np.bool_)
        return np.where(allowed, logits, np.float32(-np.inf))


class CallGrammar:
    """Compiles the tools of requests for one model. Thread-safe: compiled grammars are copied, never used."""

    def __init__(self, token_bytes: Sequence[bytes], end_token: int) -> None:
        """``token_bytes`` is the text of each token; empty for special ones."""
        self._opening = list(token_bytes).index(_OPENING)
        self._vocabulary_size = len(token_bytes)
        self._tokenizer = LLTokenizer(TokenizerWrapper(_Vocabulary(token_bytes, end_token)))
        self._compiled = functools.lru_cache(_KEPT_GRAMMARS)(self._compile)

    @classmethod
    def of(
        cls, call_format: ToolCallFormat | None, token_bytes: Sequence[bytes] | None, end_token: int
    ) -> CallGrammar | None:
        """The grammar of a model, or None where its calls do not start with a token of their own."""
        if call_format is not ToolCallFormat.HERMES or token_bytes is None or _OPENING not in token_bytes:
            return None
        return cls(token_bytes, end_token)

    def constraint(self, tools: Sequence[Mapping[str, Any]]) -> CallConstraint:
        """A fresh constraint for one answer.

        Raises:
            InvalidRequestError: the parameters of a tool are no JSON schema that can be followed.
        """
        return CallConstraint(self._compiled(_grammar(tools)), self._opening, self._vocabulary_size)

    def _compile(self, grammar: str) -> LLMatcher:
        compiled = LLMatcher(self._tokenizer, grammar)
        if compiled.is_error():
            raise InvalidRequestError(
                "tools",
                f"their parameters cannot be followed: {compiled.get_error().splitlines()[0]}. "
                "Describe each tool's parameters by a plain JSON schema of type object.",
            )
        return compiled


def _grammar(tools: Sequence[Mapping[str, Any]]) -> str:
    """What may follow the opening tag: one of the tools by name, with arguments of its schema."""
    calls = " | ".join(f"call_{index}" for index in range(len(tools)))
    lines = [
        # The model spells a call in its own tokens; forced ones would be strange to it.
        '%llguidance {"no_forcing": true}',
        f"start: SPACE ({calls}) SPACE {_text(_CLOSING)}",
        r"SPACE: /[ \n]{0,4}/",
    ]
    for index, tool in enumerate(tools):
        function = tool["function"]
        schema: dict[str, Any] = {"type": "object", **function.get("parameters", {})}
        if schema.get("properties"):
            # A parameter that the tool does not have is a mistake even where the schema does not say so.
            schema.setdefault("additionalProperties", False)
        schema["x-guidance"] = {"lenient": True}
        name = json.dumps(function["name"], ensure_ascii=False)
        head = _text(f'{{"name": {name}, "arguments": ')
        lines += [
            f'call_{index}: {head} arguments_{index} "}}"',
            f"arguments_{index}: %json {json.dumps(schema)}",
        ]
    return "\n".join(lines)


def _text(literal: str) -> str:
    return json.dumps(literal, ensure_ascii=False)


class _Vocabulary:
    """A model's vocabulary as llguidance wants to see it."""

    def __init__(self, token_bytes: Sequence[bytes], end_token: int) -> None:
        self.tokens = list(token_bytes)
        self.eos_token_id = end_token
        self.bos_token_id = None
        self.special_token_ids = [index for index, text in enumerate(token_bytes) if not text]

    def __call__(self, text: str) -> list[int]:
        """Spell ``text`` in tokens; only forced tokens would need it, and the grammar forces none."""
        raise AssertionError(f"nothing should have to tokenize {text!r}")
