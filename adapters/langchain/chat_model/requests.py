"""One request to `ChatAgentRT` as one to the runtime, and the tokens of its messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import BaseMessage

from agentrt.adapting import expected_tool_seconds, offered_tools
from agentrt.errors import InvalidRequestError

from ..messages import openai_messages
from ..runs import langgraph_thread
from .structured_output import response_format_of

if TYPE_CHECKING:
    from agentrt.runtime import LocalRuntime

_MAX_SESSION_CHARACTERS: Final = 256
OWN_OPTIONS: Final = ("n", "timeout", "top_logprobs", "stream_usage")
"""What a request may have besides the options of the runtime."""
FIELDS_OF_CHAT_OPENAI: Final = {
    "api_key": "The model runs in this process. Leave it out, or use ChatOpenAI for an endpoint.",
    "base_url": "The model runs in this process. Leave it out, or use ChatOpenAI for an endpoint.",
    "max_completion_tokens": "Use max_tokens.",
    "model_kwargs": "Give each option by its name.",
    "model_name": "Use model.",
    "request_timeout": "Use timeout.",
    "stop_sequences": "Use stop.",
}
"""Names under which ``ChatOpenAI`` has what is called otherwise here, or what a local model has not."""


@dataclass(frozen=True)
class GenerationRequest:
    """Messages and options of the runtime."""

    messages: list[dict[str, Any]]
    options: Mapping[str, Any]
    """The options of one answer."""
    n: int
    """How many answers there are."""
    stream_usage: bool

    def choices(self) -> list[GenerationRequest]:
        """Return a request for each answer; with ``seed``, answer ``i`` has seed ``seed + i``."""
        if (seed := self.options.get("seed")) is None:
            return [replace(self, n=1)] * self.n
        options = [{**self.options, "seed": seed + index} for index in range(self.n)]
        return [replace(self, n=1, options=each) for each in options]

    def check_single(self, instead: str) -> None:
        """Check that there is one answer; ``instead`` says what to do for several.

        Raises:
            InvalidRequestError: there are several.
        """
        if self.n != 1:
            raise InvalidRequestError("n", f"{self.n} answers cannot be told apart here. {instead}")


def generation_request(
    messages: Sequence[BaseMessage], settings: Mapping[str, Any], given: Mapping[str, Any]
) -> GenerationRequest:
    """Return the request; options in ``given`` take precedence over ``settings``.

    Raises:
        InvalidRequestError: an option does not exist, or cannot be converted.
    """
    _check_names(given)
    options = runtime_options(settings, given)
    n, stream_usage = options.pop("n"), options.pop("stream_usage")
    if "session" not in given:
        options["session"] = _session()
    offered = offered_tools(options.get("tools"), options["tool_choice"])
    if "tool_seconds" not in given and offered and (seconds := expected_tool_seconds(offered)):
        options["tool_seconds"] = seconds
    return GenerationRequest(openai_messages(messages), options, n, stream_usage)


def runtime_options(settings: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the runtime, and ``n`` and ``stream_usage``.

    Raises:
        InvalidRequestError: an option cannot be converted.
    """
    options = {**settings, **given}
    options.pop("stream", None)  # LangChain's own
    timeout, n, bias = options.pop("timeout"), options["n"], options.get("logit_bias")
    logprobs, top = options.pop("logprobs"), options.pop("top_logprobs")
    if not (timeout is None or (_is_number(timeout, int, float) and timeout > 0)):
        raise _invalid("timeout", timeout, "is no time. Give seconds, more than 0.")
    if not (n is None or (_is_number(n, int) and n >= 1)):
        raise _invalid("n", n, "is no number of answers. Use an integer of at least 1.")
    if not (logprobs is None or isinstance(logprobs, bool)):
        raise _invalid("logprobs", logprobs, "is not a bool. Use True, and top_logprobs for alternatives.")
    if top and not logprobs:
        raise InvalidRequestError("top_logprobs", "needs logprobs. Set logprobs=True.")
    if not (top is None or _is_number(top, int)):
        raise _invalid("top_logprobs", top, "is not an integer. Use one from 0 to 20.")
    if options.get("deadline_s") is None:
        options["deadline_s"] = timeout
    if isinstance(bias, Mapping):  # tokens are text in JSON, as in OpenAI's requests
        bias = {int(key) if isinstance(key, str) and key.isdecimal() else key: bias[key] for key in bias}
    stop = options.get("stop")
    options |= {
        "logit_bias": bias,
        "n": 1 if n is None else n,
        "stream_usage": bool(options["stream_usage"]),
        "logprobs": (top or 0) if logprobs else None,
        "stop": (stop,) if isinstance(stop, str) else tuple(stop or ()),
        "tool_choice": _tool_choice(options.get("tool_choice"), options.get("tools") or ()),
    }
    if isinstance(options.get("response_format"), type):
        options["response_format"] = response_format_of(options["response_format"])
    return options


def _is_number(value: Any, *kinds: type) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


def _invalid(name: str, value: Any, problem: str) -> InvalidRequestError:
    return InvalidRequestError(name, f"{value!r:.80} {problem}")


def _check_names(given: Mapping[str, Any]) -> None:
    from agentrt.runtime import GenerationOptions

    names = (*GenerationOptions.__annotations__, *OWN_OPTIONS)
    for name in given:
        if name in FIELDS_OF_CHAT_OPENAI:
            raise InvalidRequestError(name, f"ChatAgentRT has no {name}. {FIELDS_OF_CHAT_OPENAI[name]}")
        if name not in names and name != "stream":
            raise InvalidRequestError(name, f"there is no such option. Use one of {', '.join(names)}.")


def _tool_choice(choice: Any, tools: Sequence[Any]) -> Any:
    """Convert LangChain's ``tool_choice`` to OpenAI's. A tool's name goes before the words of OpenAI."""
    if isinstance(choice, str) and choice in map(_name_of, tools):
        return {"type": "function", "function": {"name": choice}}
    if choice is True or choice == "any":
        return "required"
    if not choice:
        return "auto"
    if choice in ("auto", "none", "required") or not isinstance(choice, str):
        return choice
    return {"type": "function", "function": {"name": choice}}


def _name_of(tool: Any) -> Any:
    function = tool.get("function") if isinstance(tool, Mapping) else None
    return function.get("name") if isinstance(function, Mapping) else None


def _session() -> str | None:
    """Return the thread of the running graph, which names a session; None if there is none.

    Raises:
        InvalidRequestError: it cannot name a session.
    """
    thread = langgraph_thread()
    if thread is None or (
        isinstance(thread, str) and thread.isprintable() and 0 < len(thread) <= _MAX_SESSION_CHARACTERS
    ):
        return thread
    raise _invalid(
        "thread_id",
        thread,
        f"cannot name a conversation. Give a string of 1 to {_MAX_SESSION_CHARACTERS} printable characters, "
        "such as str(thread_id). Or name the session yourself: model.bind(session=…), with None for no "
        "session.",
    )


def count_message_tokens(
    runtime: LocalRuntime, messages: Sequence[BaseMessage], tools: Sequence[Mapping[str, Any]]
) -> int:
    """Return the number of tokens of a prompt.

    For messages that the model takes it is exact. Parts of a conversation, as ``trim_messages`` counts them,
    may be none: their messages are counted one by one, each with the markup of a whole prompt, which is an
    upper bound.
    """
    if not messages:
        return 0
    converted = openai_messages(messages)
    try:
        return runtime.count_prompt_tokens(converted, tools)
    except InvalidRequestError:
        one = [{"role": "user", "content": "."}]
        around = runtime.count_prompt_tokens(one)
        described = runtime.count_prompt_tokens(one, tools) - around
        return described + sum(around + runtime.count_tokens(_text(message)) for message in converted)


def _text(message: Mapping[str, Any]) -> str:
    """Return the texts of a message in OpenAI's shape, and of its calls."""
    content = message.get("content") or ""
    parts = [content] if isinstance(content, str) else [str(part.get("text", "")) for part in content]
    functions = [call["function"] for call in message.get("tool_calls") or ()]
    return "\n".join([*parts, *(f"{function['name']} {function['arguments']}" for function in functions)])
