"""From what a caller asks for to what the engine runs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from agentrt.calls import ToolCallFormat
from agentrt.errors import InvalidRequestError, PromptTooLongError
from agentrt.priority import Priority, current_priority

from ..engine.sampler import SamplingParams
from ..model.tokenizer import Tokenizer
from ..structured_output.grammar_matcher import GrammarMatcher
from ..structured_output.manager import StructuredOutputManager
from ..structured_output.response_format import response_schema
from ..structured_output.tool_choice import ToolChoice, parse_tool_choice
from .validation import check_messages, check_tools

Message = Mapping[str, Any]
"""One chat message in OpenAI's shape."""


class GenerationOptions(TypedDict, total=False):
    """What a request may ask for beside its messages. See :class:`SamplingParams` for the numbers."""

    tools: Sequence[Mapping[str, Any]] | None
    """Function definitions in OpenAI's shape. Only with them is the answer searched for calls."""
    tool_choice: str | Mapping[str, Any] | None
    """``"auto"`` (the default), ``"none"``, ``"required"``, or OpenAI's object that names one function."""
    parallel_tool_calls: bool
    """Whether the answer may make more than one call. It may, unless this says no."""
    response_format: Mapping[str, Any] | None
    """OpenAI's object: the answer is JSON, of a schema if one is given."""
    priority: Priority | None
    """None takes the one in force, :func:`agentrt.current_priority`."""
    app: str
    """Who asks: prompts with a common beginning share memory, and time, within one app and never between."""
    deadline_s: float | None
    """Seconds from now after which nobody needs the answer any more; then the request ends with an error."""
    max_tokens: int | None
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    repetition_penalty: float
    seed: int | None
    ignore_eos: bool
    stop: str | Sequence[str]
    stop_token_ids: Sequence[int]
    logit_bias: Mapping[int, float] | None
    logprobs: int | None


@dataclass(frozen=True, slots=True)
class Request:
    """A checked request: nothing about it can fail any more for a reason the caller could mend."""

    prompt: list[int]
    params: SamplingParams
    priority: Priority
    call_format: ToolCallFormat | None
    """How to read calls out of the answer; None if it can have none."""
    rules: ToolChoice | None
    """What it may call."""
    constraint: GrammarMatcher | None
    app: str
    deadline_s: float | None
    arrived: float

    def check_followed(self) -> None:
        """Check, when the answer is complete, that its grammar was followed to the end.

        Raises:
            InvalidRequestError: the grammar turned out too complex on the way.
        """
        if self.constraint is not None and self.constraint.error is not None:
            raise InvalidRequestError(
                "response_format",
                f"the answer could not follow its schema ({self.constraint.error}). Use a simpler schema.",
            )


class InputProcessor:
    """Checks, renders and tokenizes requests for one model. Thread-safe; takes milliseconds a request."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        model_id: str,
        call_format: ToolCallFormat | None,
        constrain_calls: bool,
        context_length: int,
        arena_tokens: int,
        memory_bytes: int,
        vocabulary_size: int,
    ) -> None:
        """``memory_bytes`` is the arena's size, named where a prompt does not fit its ``arena_tokens``."""
        self._tokenizer = tokenizer
        self._model_id = model_id
        self._call_format = call_format
        self._context_length = context_length
        self._arena_tokens = arena_tokens
        self._memory_bytes = memory_bytes
        self._vocabulary_size = vocabulary_size
        self._structured_output = StructuredOutputManager(
            call_format, tokenizer.token_bytes, tokenizer.end_token_ids, constrain_calls=constrain_calls
        )

    @property
    def opening_token(self) -> int | None:
        """The token that opens a call, where calls are constrained."""
        return self._structured_output.call_token

    def prepare(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        tool_choice: str | Mapping[str, Any] | None = None,
        parallel_tool_calls: bool = True,
        response_format: Mapping[str, Any] | None = None,
        priority: Priority | None = None,
        app: str = "",
        deadline_s: float | None = None,
        stop: str | Sequence[str] = (),
        stop_token_ids: Sequence[int] = (),
        logit_bias: Mapping[int, float] | None = None,
        **numbers: Any,
    ) -> Request:
        """Make a request of :class:`GenerationOptions`.

        Raises:
            InvalidRequestError: a field is wrong; it is named.
            PromptTooLongError: the prompt leaves no place for a single token of answer.
        """
        arrived = time.perf_counter()
        checked_messages = check_messages(messages)
        checked_tools = check_tools(tools)
        rules = parse_tool_choice(checked_tools, tool_choice, parallel_tool_calls)
        if rules is not None and self._call_format is None:
            raise InvalidRequestError(
                "tools", f"the chat template of {self._model_id} has no place for tools. Use another model."
            )
        constraint = self._structured_output.matcher(rules, response_schema(response_format))
        params = SamplingParams(
            stop=(stop,) if isinstance(stop, str) else _as_tuple("stop", stop),
            stop_token_ids=_as_tuple("stop_token_ids", stop_token_ids),
            logit_bias={} if logit_bias is None else logit_bias,
            **numbers,
        )
        params.check_vocabulary(self._vocabulary_size)
        # All tools are shown, also where only one may be called: the model knows them from earlier calls.
        shown = None if rules is None else checked_tools
        prompt = self._tokenizer.encode(self._tokenizer.render(checked_messages, shown))
        self._check_length(len(prompt))
        return Request(
            prompt,
            params,
            current_priority() if priority is None else _as_priority(priority),
            None if rules is None else self._call_format,
            rules,
            constraint,
            _as_app(app),
            _as_deadline(deadline_s),
            arrived,
        )

    def _check_length(self, prompt_tokens: int) -> None:
        if prompt_tokens >= self._context_length:
            raise PromptTooLongError(
                prompt_tokens,
                self._context_length,
                f"the context of {self._model_id}",
                "Shorten the messages or drop old ones, or use a model with a longer context.",
            )
        if prompt_tokens >= self._arena_tokens:
            raise PromptTooLongError(
                prompt_tokens,
                self._arena_tokens,
                "the KV arena",
                f"Open the runtime with a larger memory_bytes; it is {self._memory_bytes} now.",
            )


def _as_tuple(field: str, values: Sequence[Any]) -> tuple[Any, ...]:
    try:
        return tuple(values)
    except TypeError:
        raise InvalidRequestError(field, f"{values!r} is not a list. Give a list.") from None


def _as_priority(priority: object) -> Priority:
    try:
        return Priority(priority)  # type: ignore[arg-type]
    except ValueError:
        raise InvalidRequestError(
            "priority", f"{priority!r} is unknown. Use Priority.REACTIVE or Priority.PROACTIVE."
        ) from None


def _as_app(app: object) -> str:
    if not isinstance(app, str):
        raise InvalidRequestError("app", f"{app!r} is not a name. Give a string, or leave it out.")
    return app


def _as_deadline(seconds: object) -> float | None:
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < float("inf"):
        raise InvalidRequestError(
            "deadline_s", f"{seconds!r} is not a time to come. Give seconds from now, more than 0."
        )
    return float(seconds)
