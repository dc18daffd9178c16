"""The OpenTelemetry span of one generation, and its metrics."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from agentrt.otel import api
from agentrt.otel.metrics import Measured, generation_metrics
from agentrt.otel.propagation import is_served

from ...request.options import GenerationOptions, Message, Prompt, RawPrompt
from ...request.request import Request
from ..engine_request import RequestOutput
from .generation import Generation

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_INTEGERS: Final = ("max_tokens", "seed")
_DOUBLES: Final = ("temperature", "top_p", "top_k", "frequency_penalty", "presence_penalty")
"""Options that are attributes ``gen_ai.request.*`` of the same names; of each the type in the conventions."""
_INT64: Final = 1 << 63

_response_id: ContextVar[str | None] = ContextVar("agentrt_response_id", default=None)


class GenerationSpan:
    """The span ``chat MODEL`` of one generation, ``text_completion MODEL`` of one that continues a prompt.

    It begins when the request is made, ends when its answer has been read or given up, and has no text of
    either unless the user has opted in. It is ended by the thread that reads, never by the engine's: what
    exports it may be slow. A request that is served to another process leaves out the texts in any case:
    they are another app's.
    """

    def __init__(self, model: str, prompt: Prompt, options: GenerationOptions, *, stream: bool) -> None:
        """Begin the span below the current one. OpenTelemetry must be installed."""
        from opentelemetry.trace import SpanKind

        operation = "text_completion" if isinstance(prompt, RawPrompt) else "chat"
        self._common = api.operation(operation, model)
        self._response = {**self._common, "gen_ai.response.model": model}
        self._prompt = prompt
        self._served = is_served()
        self._began = time.perf_counter()
        self._first_chunk_s: float | None = None
        self._last_chunk = 0.0
        # Nothing is imported at the end, which may come while the interpreter exits.
        self._metrics = generation_metrics()
        self._failed = api.failed()
        self._lock = threading.Lock()
        self._ended = False
        self._span: Span = api.tracer().start_span(
            f"{operation} {model}",
            kind=SpanKind.INTERNAL,
            attributes=self._common,
        )
        self._records_texts = not self._served and api.captures_content()
        self._response_id = _response_id.get()
        if self._span.is_recording():
            self._span.set_attributes(_parameters(options, stream))
            if self._records_texts and (stops := _stops(options)):
                self._span.set_attribute("gen_ai.request.stop_sequences", stops)

    def submitted(self, request: Request) -> None:
        """Describe the checked request."""
        self._began = request.arrived
        if not self._span.is_recording():
            return
        self._span.set_attribute("agentrt.priority", request.priority.name.lower())
        if request.app:
            self._span.set_attribute("agentrt.app", request.app)
        if request.session is not None and not self._served:  # of a header of the client
            self._span.set_attribute("gen_ai.conversation.id", request.session)

    def received(self) -> None:
        """Note that the reader of a stream has received a chunk."""
        first, now = self._first_chunk_s is None, time.perf_counter()
        waited_s = now - (self._began if first else self._last_chunk)
        self._last_chunk = now
        if first:
            self._first_chunk_s = waited_s
        if not self._served:
            self._metrics.record_chunk(waited_s, self._response, first=first)

    def finish(self, output: RequestOutput, generation: Generation | None = None) -> None:
        """End the span of a whole answer; of one that was given up, where there is no ``generation``."""
        if not self._end():
            return
        reason = "cancelled" if generation is None else generation.finish_reason
        if self._span.is_recording():
            self._span.set_attributes(self._response | self._answer(output, reason))
            if generation is not None and self._records_texts:
                self._span.set_attribute("gen_ai.input.messages", input_messages(self._prompt))
                self._span.set_attribute("gen_ai.output.messages", output_messages(generation))
        self._span.end()
        measured = Measured(
            output.prompt_tokens, len(output.token_ids), output.time_to_first_token_s, output.total_s
        )
        self._metrics.record(measured, self._response, served=self._served)

    def fail(self, error: BaseException) -> None:
        """End the span of a request that failed with ``error``."""
        if not self._end():
            return
        failure = api.failure(error)
        self._span.set_attributes(failure)
        self._span.set_status(self._failed)
        self._span.end()
        total_s = time.perf_counter() - self._began
        self._metrics.record_failure(total_s, self._common | failure, served=self._served)

    def give_up(self, output: Future[RequestOutput]) -> None:
        """End the span of a request whose answer is read no further; without effect if it has ended."""
        if not output.done():
            if self._end():
                self._span.set_attribute("gen_ai.response.finish_reasons", ("cancelled",))
                self._span.end()
        elif (error := output.exception()) is not None:
            self.fail(error)
        else:
            self.finish(output.result())

    def _end(self) -> bool:
        """Whether this is the first end."""
        with self._lock:
            first, self._ended = not self._ended, True
        return first

    def _answer(self, output: RequestOutput, reason: str) -> dict[str, Any]:
        attributes: dict[str, Any] = {
            "gen_ai.response.id": self._response_id or output.request_id,
            "gen_ai.response.finish_reasons": (reason,),
            "gen_ai.usage.input_tokens": output.prompt_tokens,
            "gen_ai.usage.output_tokens": len(output.token_ids),
            "agentrt.queued_s": output.queued_s,
            "agentrt.time_to_first_token_s": output.time_to_first_token_s,
            "agentrt.cached_tokens": output.cached_tokens,
            "agentrt.preemptions": output.preemptions,
            "agentrt.evictions": output.evictions,
        }
        if api.follows_latest():
            attributes["gen_ai.usage.cache_read.input_tokens"] = output.cached_tokens
            if self._first_chunk_s is not None:
                attributes["gen_ai.response.time_to_first_chunk"] = self._first_chunk_s
        return attributes


def answer_as(id: str) -> None:
    """Name the generations that this context begins from now on by the id of their response."""
    _response_id.set(id)


@contextmanager
def generation_span(
    model: str, prompt: Prompt, options: GenerationOptions, *, stream: bool
) -> Iterator[GenerationSpan | None]:
    """Begin the span of a generation, which fails if the block raises; None without OpenTelemetry."""
    span = GenerationSpan(model, prompt, options, stream=stream) if api.installed() else None
    with failing(span):
        yield span


@contextmanager
def failing(span: GenerationSpan | None) -> Iterator[None]:
    """End ``span`` as failed if the block raises. A reader that stops before the end is no failure."""
    try:
        yield
    except GeneratorExit:
        raise
    except BaseException as error:
        if span is not None:
            span.fail(error)
        raise


def _stops(options: GenerationOptions) -> tuple[str, ...]:
    """Return the texts that end the answer; none if they are of wrong types, which the request refuses."""
    stop: Any = options.get("stop")
    stops = [stop] if isinstance(stop, str) else stop
    is_texts = isinstance(stops, Sequence) and all(isinstance(each, str) for each in stops)
    return tuple(stops) if is_texts else ()


def _parameters(options: GenerationOptions, stream: bool) -> dict[str, Any]:
    """Return the attributes of a request's options; those of wrong types, which it refuses, are left out."""
    given: dict[str, Any] = dict(options)
    attributes: dict[str, Any] = {
        f"gen_ai.request.{name}": given[name] for name in _INTEGERS if _is_number(given.get(name), (int,))
    }
    attributes |= {
        f"gen_ai.request.{name}": float(given[name])
        for name in _DOUBLES
        if _is_number(given.get(name), (int, float))
    }
    answer_format = given.get("response_format")
    if isinstance(answer_format, Mapping):
        attributes["gen_ai.output.type"] = "text" if answer_format.get("type") == "text" else "json"
    if stream and api.follows_latest():
        attributes["gen_ai.request.stream"] = True
    return attributes


def _is_number(value: Any, types: tuple[type, ...]) -> bool:
    """Whether an attribute can hold ``value``, which the request has not checked yet."""
    return type(value) in types and not abs(value) >= _INT64


def input_messages(prompt: Prompt) -> str:
    """Return a prompt as JSON in the format of ``gen_ai.input.messages``; a raw one of tokens has no text."""
    if isinstance(prompt, RawPrompt):
        content = prompt.content
        return _json([{"role": "user", "parts": [_text(content)] if isinstance(content, str) else []}])
    return _json([{"role": message.get("role"), "parts": _parts(message)} for message in prompt])


def output_messages(generation: Generation) -> str:
    """Return an answer as JSON in the format of ``gen_ai.output.messages``."""
    parts = [_text(generation.text)] if generation.text else []
    parts += [
        {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}
        for call in generation.tool_calls
    ]
    return _json([{"role": "assistant", "parts": parts, "finish_reason": generation.finish_reason}])


def _parts(message: Message) -> list[dict[str, Any]]:
    content = message.get("content")
    if message.get("role") == "tool":
        return [{"type": "tool_call_response", "id": message.get("tool_call_id"), "response": content}]
    parts: list[dict[str, Any]] = []
    if isinstance(content, str):
        parts.append(_text(content))
    elif content:
        parts += [dict(part) for part in content if isinstance(part, Mapping)]
    for call in message.get("tool_calls") or ():
        function = call.get("function", {})
        called = {"name": function.get("name"), "arguments": function.get("arguments")}
        parts.append({"type": "tool_call", "id": call.get("id"), **called})
    return parts


def _text(content: str) -> dict[str, Any]:
    return {"type": "text", "content": content}


def _json(messages: list[dict[str, Any]]) -> str:
    return json.dumps(messages, ensure_ascii=False, default=str)
