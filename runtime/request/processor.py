"""Input processing: from messages and options to a checked, tokenized request."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

from agentrt.calls import ToolCallFormat
from agentrt.errors import InvalidRequestError
from agentrt.finite import is_finite, shown
from agentrt.priority import Priority, current_priority

from ..kv.block_hashes import PrefixSalts
from ..model.tokenizer import Tokenizer
from ..structured_output.manager import StructuredOutputManager
from ..structured_output.tool_choice import ToolChoice, parse_tool_choice
from .options import GenerationOptions, Message, Prompt, RawPrompt
from .preparation import Preparation
from .prompt_encoder import PromptEncoder
from .request import Request
from .sampling_params import SamplingParams
from .validation import (
    check_messages,
    check_prediction,
    check_response_format,
    check_text,
    check_tool_seconds,
    check_tools,
)
from .window import Truncation

MAX_SESSION_CHARACTERS = 256


class InputProcessor:
    """Checks, renders and tokenizes requests for one model. Thread-safe."""

    def __init__(
        self,
        prompts: PromptEncoder,
        call_format: ToolCallFormat | None,
        salts: PrefixSalts,
        structured_output: StructuredOutputManager,
    ) -> None:
        """``salts`` keep the prefixes of apps apart in the prefix cache."""
        self._prompts = prompts
        self._tokenizer = tokenizer = prompts.tokenizer
        self._call_format = call_format
        self._salts = salts
        self._shared_prefix = SharedPrefix(tokenizer)
        self._structured_output = structured_output

    def tokenize(
        self,
        messages: Prompt,
        tools: Sequence[Mapping[str, Any]] | None = None,
        preparation: Preparation | None = None,
    ) -> list[int]:
        """Return the tokens of a prompt, as :meth:`process` has them.

        Raises:
            InvalidRequestError, PromptTooLongError: as :meth:`process`.
        """
        preparation = preparation or Preparation()
        if isinstance(messages, RawPrompt):
            return self._prompts.encode_raw(messages, preparation)
        checked, checked_tools = check_messages(messages), check_tools(tools)
        self._tool_choice(checked_tools, None, True)
        return self._prompts.encode_messages(checked, checked_tools, preparation)

    def count_tokens(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] | None = None
    ) -> int:
        """Return the number of tokens of a prompt, also of one that is too long.

        Raises:
            InvalidRequestError: a field is wrong; ``field`` names it.
        """
        checked, checked_tools = check_messages(messages), check_tools(tools)
        self._tool_choice(checked_tools, None, True)
        return self._prompts.count(checked, checked_tools)

    @property
    def call_token(self) -> int | None:
        """The token that opens a tool call, where calls are constrained; else None."""
        return self._structured_output.call_token

    def process(
        self,
        messages: Prompt,
        preparation: Preparation | None = None,
        /,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        tool_choice: str | Mapping[str, Any] | None = None,
        parallel_tool_calls: bool = True,
        response_format: Mapping[str, Any] | None = None,
        prediction: Mapping[str, Any] | None = None,
        priority: Priority | None = None,
        app: str = "",
        shared_prefix: bool = False,
        session: str | None = None,
        tool_seconds: Mapping[str, float] | None = None,
        context_id: str = "",
        truncation: Truncation | None = None,
        deadline_s: float | None = None,
        stop: str | Sequence[str] = (),
        stop_token_ids: Sequence[int] = (),
        logit_bias: Mapping[int, float] | None = None,
        **sampling: Any,
    ) -> Request:
        """Return the request of ``messages``, or of a raw prompt, and :class:`GenerationOptions`.

        ``sampling`` holds the options that go to :class:`SamplingParams` unchanged. ``preparation`` limits
        the work, which it can also cancel.

        Raises:
            InvalidRequestError: a field is wrong or there is no such option; ``field`` names it.
            PromptTooLongError: the prompt leaves no room for a single token of the answer.
            DeadlineExceededError: the deadline has passed.
        """
        preparation = preparation or Preparation()
        preparation.deadline_s = as_deadline(deadline_s)
        _check_names(sampling)
        checked_messages = [] if isinstance(messages, RawPrompt) else check_messages(messages)
        checked_tools = check_tools(tools)
        choice = self._tool_choice(checked_tools, tool_choice, parallel_tool_calls)
        schema = check_response_format(response_format)
        params = SamplingParams(
            stop=(stop,) if isinstance(stop, str) else _as_tuple("stop", stop),
            stop_token_ids=_as_tuple("stop_token_ids", stop_token_ids),
            logit_bias={} if logit_bias is None else logit_bias,
            **sampling,
        )
        params.check_vocabulary(self._prompts.vocabulary_size)
        # The prompt lists all tools, even if only one may be called: earlier calls refer to the others.
        listed = None if choice is None else checked_tools
        truncates, truncated = _as_truncation(truncation) == "auto", None
        if isinstance(messages, RawPrompt):
            _check_without_messages(checked_tools, shared_prefix, truncates=truncates)
            prompt = self._prompts.encode_raw(messages, preparation)
        elif truncates:
            prompt, truncated = self._prompts.encode_window(
                checked_messages, listed, preparation, params.max_tokens
            )
        else:
            prompt = self._prompts.encode_messages(checked_messages, listed, preparation)
        grammar_matcher = self._structured_output.matcher(choice, schema, preparation.check)
        return Request(
            prompt_token_ids=prompt,
            sampling_params=params,
            priority=current_priority() if priority is None else _as_priority(priority),
            end_tokens=self._end_tokens(params),
            max_total_tokens=self._max_total_tokens(len(prompt), params),
            context_length=self._prompts.context_length,
            arrived=preparation.arrived,
            deadline_s=preparation.deadline_s,
            predicted_token_ids=self._predicted_tokens(check_prediction(prediction), preparation),
            prefix_salt=self._salts.salt_for(check_text(app, "app")),
            public_salt=self._salts.shared,
            public_tokens=self._public_tokens(shared_prefix, prompt, checked_messages, listed),
            app=app,
            session=_as_session(session),
            context_id=context_id,
            truncated=truncated,
            tool_seconds=check_tool_seconds(tool_seconds),
            grammar_matcher=grammar_matcher,
            call_format=None if choice is None else self._call_format,
            tool_choice=choice,
            held_formats=self._structured_output.held_formats(choice, schema),
        )

    def _public_tokens(
        self,
        shared: object,
        prompt: Sequence[int],
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
    ) -> int:
        if not isinstance(shared, bool):
            raise InvalidRequestError("shared_prefix", f"{shown(shared)} is not a bool. Use True or False.")
        return self._shared_prefix.count(prompt, messages, tools) if shared else 0

    def _predicted_tokens(self, text: str, preparation: Preparation) -> tuple[int, ...]:
        if not text:
            return ()
        possible = text[: self._tokenizer.most_characters(self._prompts.context_length)]
        escaped = self._tokenizer.escape_special_tokens(possible)
        return tuple(self._tokenizer.encode(escaped, lambda _: preparation.check()))

    def _tool_choice(
        self, tools: list[dict[str, Any]] | None, tool_choice: object, parallel_tool_calls: object
    ) -> ToolChoice | None:
        choice = parse_tool_choice(tools, tool_choice, parallel_tool_calls)
        if choice is not None and self._call_format is None:
            raise InvalidRequestError(
                "tools",
                f"the chat template of {self._prompts.model_id} takes no tools. "
                "Open it with tool_prompt='auto', or use another model.",
            )
        return choice

    def _end_tokens(self, params: SamplingParams) -> frozenset[int]:
        stop = frozenset(params.stop_token_ids)
        return stop if params.ignore_eos else stop | self._tokenizer.end_token_ids

    def _max_total_tokens(self, prompt_tokens: int, params: SamplingParams) -> int:
        most = min(self._prompts.context_length, self._prompts.arena_tokens)
        return most if params.max_tokens is None else min(most, prompt_tokens + params.max_tokens)


def _as_truncation(truncation: object) -> object:
    if truncation not in (None, *get_args(Truncation)):
        known = " or ".join(map(repr, get_args(Truncation)))
        raise InvalidRequestError("truncation", f"{shown(truncation)} is unknown. Use {known}.")
    return truncation


def _check_without_messages(tools: object, shared_prefix: object, *, truncates: bool) -> None:
    if tools is not None:
        raise InvalidRequestError("tools", "a raw prompt has none. Leave them out, or send messages.")
    if shared_prefix is not False:
        raise InvalidRequestError(
            "shared_prefix", "a raw prompt has no system message. Leave it out, or send messages."
        )
    if truncates:
        raise InvalidRequestError(
            "truncation", "a raw prompt has no messages. Leave it out, or send messages."
        )


def _check_names(sampling: Mapping[str, Any]) -> None:
    options = GenerationOptions.__annotations__
    for name in sampling:
        if name not in options:
            raise InvalidRequestError(name, f"there is no such option. Use one of {', '.join(options)}.")


def _as_tuple(field: str, values: Sequence[Any]) -> tuple[Any, ...]:
    try:
        return tuple(values)
    except TypeError:
        raise InvalidRequestError(field, f"{shown(values)} is not a list. Give a list.") from None


def _as_priority(priority: object) -> Priority:
    try:
        return Priority(priority)  # type: ignore[arg-type]
    except ValueError:
        raise InvalidRequestError(
            "priority", f"{shown(priority)} is unknown. Use Priority.REACTIVE or Priority.PROACTIVE."
        ) from None


def _as_session(session: object) -> str | None:
    if session is None:
        return None
    if (
        not isinstance(session, str)
        or not session.isprintable()
        or not 0 < len(session) <= MAX_SESSION_CHARACTERS
    ):
        raise InvalidRequestError(
            "session",
            f"{shown(session)} is no name of a conversation. Give 1 to {MAX_SESSION_CHARACTERS} printable "
            "characters, or leave it out.",
        )
    return session


def as_deadline(seconds: object) -> float | None:
    """Return the option ``deadline_s``.

    Raises:
        InvalidRequestError: it is no positive number.
    """
    if seconds is None:
        return None
    if not is_finite(seconds) or seconds <= 0:
        raise InvalidRequestError(
            "deadline_s", f"{shown(seconds)} is not a time in the future. Give seconds from now, more than 0."
        )
    return float(seconds)


_PROBES: Final = ("0", "x")
"""Texts without a common beginning, in the place of what the user says."""
_REMEMBERED: Final = 64


class SharedPrefix:
    """Counts the tokens that apps with the same system messages and tools have in common. Thread-safe."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """``tokenizer`` renders the prompts."""
        self._tokenizer = tokenizer
        self._probes = functools.lru_cache(_REMEMBERED)(self._render_probes)

    def count(
        self,
        prompt: Sequence[int],
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
    ) -> int:
        """Return the number of tokens at the beginning of ``prompt`` that no other message has an effect on.

        ``prompt`` is rendered from the checked ``messages`` and ``tools``.
        """
        public = []
        for message in messages:
            if message["role"] != "system":
                break
            public.append(message)
        if not public and not tools:
            return 0
        return min(_common(prompt, probe) for probe in self._probes(json.dumps([public, tools])))

    def _render_probes(self, public: str) -> list[list[int]]:
        messages, tools = json.loads(public)
        prompts = [[*messages, {"role": "user", "content": text}] for text in _PROBES]
        return [self._tokenizer.encode(self._tokenizer.render(prompt, tools)) for prompt in prompts]


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(one), len(other)))
