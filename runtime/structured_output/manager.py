"""Structured output of one model: a grammar matcher for each request that needs one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from llguidance import LLMatcher

from agentrt.calls import CallShape, ToolCallFormat
from agentrt.calls.json_formats import JSON_MESSAGE
from agentrt.errors import InvalidRequestError

from .grammar_compiler import GrammarCompiler
from .grammar_matcher import GrammarMatcher
from .grammars import json_grammar, message_grammar, named_schemas, tool_call_grammar
from .tool_choice import ToolChoice


class StructuredOutputManager:
    """Compiles the grammars of one model's requests. Thread-safe."""

    def __init__(
        self,
        call_format: ToolCallFormat | None,
        token_bytes: Sequence[bytes] | None,
        end_tokens: Collection[int],
        *,
        constrain_calls: bool = True,
    ) -> None:
        """Read the model's vocabulary.

        ``token_bytes`` holds the text of each token, empty for special tokens; None if the texts of tokens do
        not concatenate: no answer can then be held to a grammar. Calls are if ``constrain_calls`` is true:
        from their opening token on, if their format has a shape and the vocabulary has a token for its
        opening tag, and in answers that begin like a call in JSON.
        """
        self._call_format = call_format
        self._end_tokens = end_tokens
        self._token_bytes = token_bytes or ()
        self._vocabulary_size = len(self._token_bytes)
        self._compiler = None if token_bytes is None else GrammarCompiler(token_bytes, min(end_tokens))
        self._constrains = constrain_calls and call_format is not None and self._compiler is not None
        self._call_token: int | None = None
        self._call_shape: CallShape | None = None
        if self._constrains and call_format is not None and call_format.shape is not None:
            tag = (call_format.opening_tag or "").encode()
            self._call_token = next((id for id, text in enumerate(self._token_bytes) if text == tag), None)
            self._call_shape = None if self._call_token is None else call_format.shape

    def prepare(self) -> None:
        """Do what matchers would take longer without; see :meth:`GrammarCompiler.prepare`."""
        if self._compiler is not None:
            self._compiler.prepare()

    @property
    def call_token(self) -> int | None:
        """The token that opens a call; None if calls have none, or are not held to a grammar."""
        return self._call_token

    def held_formats(
        self, tool_choice: ToolChoice | None, schema: Mapping[str, Any] | None
    ) -> tuple[ToolCallFormat, ...]:
        """Return the formats whose calls :meth:`matcher` makes valid for the same arguments.

        An answer that may also be JSON of ``schema`` can begin like a call and be none.
        """
        if tool_choice is None or not self._constrains or self._call_format is None:
            return ()
        own = () if self._call_token is None else (self._call_format,)
        return (*own, JSON_MESSAGE) if schema is None or tool_choice.required else own

    def matcher(
        self,
        tool_choice: ToolChoice | None,
        schema: Mapping[str, Any] | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> GrammarMatcher | None:
        """Return a new matcher for one answer, or None if the answer is not restricted.

        ``schema`` is the JSON schema of an answer that calls no tool. ``check`` is called between steps; what
        it raises ends the work.

        Raises:
            InvalidRequestError: a schema is not supported, or ``tool_choice`` restricts the calls of a model
                whose calls cannot be held to a grammar.
        """
        check()
        if tool_choice is not None and not self._constrains:
            _check_unconstrained(tool_choice, schema)
            tool_choice = None
        if tool_choice is None and schema is None:
            return None
        if self._compiler is None:
            raise InvalidRequestError(
                "response_format",
                "answers of this model cannot follow it: the texts of tokens are unknown. Ask for free text.",
            )
        calls = text = message = None
        if tool_choice is not None and self._call_shape is not None:
            grammar = tool_call_grammar(tool_choice.tools, self._call_shape)
            calls = self._compiler.compile(grammar, "tools", named_schemas(tool_choice.tools), check)
        if tool_choice is not None and calls is None and (tool_choice.required or schema is not None):
            text = self._compile_message(
                tool_choice, check, exact=True, schema=None if tool_choice.required else schema
            )
        elif schema is not None:
            grammar = json_grammar(schema)
            text = self._compiler.compile(grammar, "response_format", named_schemas(schema=schema), check)
        elif tool_choice is not None and not tool_choice.required:
            message = self._compile_message(tool_choice, check, exact=False)
        return GrammarMatcher(
            vocabulary_size=self._vocabulary_size,
            end_tokens=self._end_tokens,
            call_token=self._call_token,
            calls=calls,
            tool_choice=tool_choice,
            text=text,
            message=message,
            token_bytes=self._token_bytes,
        )

    def _compile_message(
        self,
        tool_choice: ToolChoice,
        check: Callable[[], None],
        *,
        exact: bool,
        schema: Mapping[str, Any] | None = None,
    ) -> LLMatcher:
        assert self._compiler is not None
        grammar = message_grammar(
            tool_choice.tools, parallel=tool_choice.parallel, exact=exact, schema=schema
        )
        field = "tools" if schema is None else "response_format"
        return self._compiler.compile(grammar, field, named_schemas(tool_choice.tools, schema), check)


def _check_unconstrained(tool_choice: ToolChoice, schema: Mapping[str, Any] | None) -> None:
    """Raise InvalidRequestError if ``tool_choice`` or ``schema`` needs calls that are held to a grammar."""
    if tool_choice.required:
        raise InvalidRequestError(
            "tool_choice", "calls of this model cannot be forced here. Use 'auto' or 'none'."
        )
    if schema is not None:
        raise InvalidRequestError(
            "response_format",
            "calls of this model cannot be distinguished from JSON here. Leave out tools or response_format.",
        )
    if not tool_choice.parallel:
        raise InvalidRequestError(
            "parallel_tool_calls", "calls of this model cannot be limited here. Leave it out."
        )
