"""Builds one response in OpenAI's format: its items, typed events, and the body that is stored."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from agentrt.calls import CallArgumentsDelta, CallFinished, CallStarted, TextDelta
from agentrt.concurrency.fair_threads import give_way

from ...contexts.app_contexts import OpenTurn
from ...contexts.response_chains import ResponseChains, StoredResponse
from ...engine.output.generation import CallAnswered, Finished, Generation, GenerationEvent, LogprobsDelta
from ...engine.output.pending import LOGPROBS_AT_ONCE
from ...local.service import LocalRuntime
from ...request.options import GenerationOptions
from .items import ResponsesRequest, output_messages, stored_messages, usage_of

BEGIN_ANEW = "send what still matters of the conversation as input, without previous_response_id"
"""How a conversation that has become too long goes on."""

Event = dict[str, Any]


class ResponseBuilder:
    """Builds one response from a generation's events, yields each step as typed events, and stores it."""

    runtime: LocalRuntime
    """What generates the answer, from :meth:`begin` on."""
    shorten: str | None
    """How the sender can shorten a prompt that is too long."""

    _completed: int | None = None
    """Unix time in seconds at which the answer was complete."""

    def __init__(
        self,
        model: str,
        request: ResponsesRequest,
        previous: StoredResponse | None,
        app: str,
        session: str | None,
        id: str | None = None,
        created: float | None = None,
    ) -> None:
        """Create an empty response to ``request`` of ``app``, which continues ``previous``.

        ``model`` is the model's name in this server. ``session`` names the conversation. ``id`` and
        ``created`` are those of a response that was begun earlier.
        """
        self.model = model
        self.stream = bool(request.stream)
        self.id = id or f"resp_{secrets.token_hex(24)}"
        self.answers = 1
        self.shorten = "Shorten the input or the instructions"
        if previous is not None:
            self.shorten += f", or {BEGIN_ANEW}"
        self._request = request
        self._input = request.input_messages()
        self._previous = previous
        self._app = app
        self._session = session
        self._turn: OpenTurn | None = None
        self.created = int(created or time.time())
        self._items: list[dict[str, Any]] = []
        self._text: list[str] = []
        self._logprobs: list[dict[str, Any]] = []
        self._pending_logprobs: list[dict[str, Any]] = []
        self._next_number = 0
        self._generation: Generation | None = None

    @property
    def prompt(self) -> list[Any]:
        """The prompt: the instructions, the conversation that the response continues, and the input."""
        instructions = self._request.instructions
        system = [{"role": "system", "content": instructions}] if instructions else []
        return [*system, *(self._previous.messages if self._previous else ()), *self._input]

    def field_name(self, field: str, prompt: int) -> str:
        """Return the name of a field in the body of ``/v1/responses``."""
        return self._request.field_name(field, len(self.prompt) - len(self._input))

    async def begin(self, runtime: LocalRuntime, stack: AsyncExitStack) -> GenerationOptions:
        """Begin the turn of the context in which the response is stored."""
        self.runtime = runtime
        if not self._request.is_stored:
            return {"session": self._session}
        chains = ResponseChains(runtime.context_table)
        while self._turn is None:
            context = await asyncio.to_thread(chains.context_for, self._app, self._previous, self._session)
            # On the event loop, so that a cancelled request leaves no turn open.
            self._turn = chains.begin(self._app, context)
        stack.push_async_callback(asyncio.to_thread, chains.close, self._app, self._turn)
        return {"context_id": self._turn.context_id}

    def opening(self) -> Iterator[Event]:
        """Yield the first two events."""
        yield self.step("created")
        yield self.step("in_progress")

    def step(self, kind: str, status: str = "in_progress") -> Event:
        """Return the event of a step of the response before anything is generated."""
        return self._event(f"response.{kind}", response=self.response(status))

    def resume(self, text: str) -> None:
        """Begin with ``text``, whose events have been sent."""
        for _ in self.chunks(0, TextDelta(text)) if text else ():
            pass

    def rest_of(self, stored: Mapping[str, Any]) -> Iterator[Event]:
        """Yield the events of the complete response ``stored`` behind those of the text that was resumed."""
        for item in stored["output"]:
            if item["type"] == "message":
                sent = "".join(self._text)
                yield from self._add_text(item["content"][0]["text"].removeprefix(sent))
            elif item["type"] == "function_call":
                named = {name: item[name] for name in ("namespace", "name") if name in item}
                yield from self._start_call(item["call_id"], named)
                yield from self._add_arguments(item["arguments"])
            else:
                yield from self._start_item(item)
            yield from self._end_item(item["status"])
        yield self._event(f"response.{stored['status']}", response=stored)

    def chunks(self, index: int, event: GenerationEvent) -> Iterator[Event]:
        """Yield the typed events of one event of the generation."""
        if isinstance(event, LogprobsDelta):
            text_of = self.runtime.token_text
            self._pending_logprobs += [each.in_openai_form(text_of) for each in give_way(event.tokens)]
            if len(self._pending_logprobs) >= LOGPROBS_AT_ONCE and self._open_item("message") is not None:
                yield from self._add_text("")
        elif isinstance(event, TextDelta):
            # A call that a stop text ends is repeated as text, but its first part was sent already as a call.
            if self._open_item("function_call") is None:
                yield from self._add_text(event.text)
        elif isinstance(event, CallStarted):
            if self.runtime.constrains_calls:
                yield from self._start_call(event.id, self._request.called(event.name))
        elif isinstance(event, CallArgumentsDelta):
            if self.runtime.constrains_calls:
                yield from self._add_arguments(event.text)
        elif isinstance(event, CallFinished):
            if self._open_item("function_call") is None:
                yield from self._start_call(event.call.id, self._request.called(event.call.name))
                yield from self._add_arguments(json.dumps(event.call.arguments, ensure_ascii=False))
            yield from self._end_item("completed")
        elif isinstance(event, CallAnswered):
            yield from self._end_item("completed")
            result = {"type": "function_call_output", "id": self._item_id("fco")}
            yield from self._start_item(result | {"call_id": event.call.id, "output": event.output})
            yield from self._end_item("completed")
        elif isinstance(event, Finished):
            self._generation = event.generation
            self._completed = int(time.time())
            cut = event.generation.finish_reason == "length"
            yield from self._end_open_item(cut=cut)
            kind = "incomplete" if cut else "completed"
            yield self._event(f"response.{kind}", response=self.response())

    def finish(self, generation: Generation) -> None:
        """Store the response, if it is to be stored and was not cancelled with its context.

        Raises:
            ContextNotFoundError: its chain was deleted meanwhile.
            ContextStoreError: it cannot be stored.
        """
        if self._turn is None:
            return
        if generation.finish_reason == "cancelled":
            self._turn.check_context()
            return
        response = self.response()
        tokens = generation.usage.conversation_tokens
        messages = [*self._input, *output_messages(response["output"])]
        self._turn.commit(stored_messages(messages), tokens, response)

    def failed(self, message: str) -> Event:
        """Return the event of a response that failed, for the reason ``message``."""
        described = {"code": "server_error", "message": message}
        return self._event(
            "response.failed", response=self.response() | {"status": "failed", "error": described}
        )

    def body(self, generations: Sequence[Generation]) -> dict[str, Any]:
        """Return the complete response."""
        (generation,) = generations
        steps: list[GenerationEvent] = [LogprobsDelta(generation.logprobs)]
        if generation.text:
            steps.append(TextDelta(generation.text))
        for index, call in enumerate(generation.tool_calls):
            arguments = json.dumps(call.arguments, ensure_ascii=False)
            steps += [CallStarted(index, call.name, call.id), CallArgumentsDelta(index, arguments)]
            steps.append(CallFinished(index, call))
        for step in (*steps, Finished(generation)):
            for _ in self.chunks(0, step):
                pass
        return self.response()

    def response(self, status: str = "in_progress") -> dict[str, Any]:
        """Return the response as it is now; until it is complete, with this ``status``."""
        request, generation = self._request, self._generation
        cut = generation is not None and generation.finish_reason == "length"
        if generation is not None:
            status = "incomplete" if cut else "completed"
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "completed_at": self._completed if status == "completed" else None,
            "status": status,
            "background": bool(request.background),
            "error": None,
            "frequency_penalty": request.frequency_penalty or 0.0,
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "instructions": request.instructions,
            "max_output_tokens": request.max_output_tokens,
            "max_tool_calls": None,
            "metadata": request.metadata or {},
            "model": self.model,
            "output": self._items if generation is not None else [],
            "parallel_tool_calls": request.parallel_tool_calls is not False,
            "presence_penalty": request.presence_penalty or 0.0,
            "previous_response_id": request.previous_response_id,
            "prompt_cache_key": request.prompt_cache_key,
            "reasoning": {"effort": None, "summary": None},
            "safety_identifier": request.safety_identifier,
            "service_tier": request.served_tier,
            "store": request.is_stored,
            "temperature": request.temperature or 0.0,
            "text": {"format": request.shown_format},
            "tool_choice": request.tool_choice or "auto",
            "tools": request.shown_tools,
            "top_logprobs": request.top_logprobs or 0,
            "top_p": request.top_p or 1.0,
            "truncation": request.truncation or "disabled",
            "usage": None if generation is None else usage_of(generation),
        }

    def _add_text(self, text: str) -> Iterator[Event]:
        if self._open_item("message") is None:
            message = {"type": "message", "id": self._item_id("msg"), "role": "assistant"}
            yield from self._start_item(message | {"content": []})
            yield self._part_event("response.content_part.added", part=_part("", []))
        logprobs, self._pending_logprobs = self._pending_logprobs, []
        self._text.append(text)
        self._logprobs += logprobs
        yield self._part_event("response.output_text.delta", delta=text, logprobs=logprobs)

    def _start_call(self, id: str | None, named: Mapping[str, str]) -> Iterator[Event]:
        yield from self._end_open_item()
        call = {"type": "function_call", "id": self._item_id("fc"), **named, "arguments": ""}
        yield from self._start_item(call | {"call_id": id})

    def _add_arguments(self, text: str) -> Iterator[Event]:
        self._text.append(text)
        yield self._item_event("response.function_call_arguments.delta", delta=text)

    def _item_id(self, kind: str) -> str:
        """Return the id of the next item. A response that is begun again has the same ones."""
        place = f"{self.id} {len(self._items)}".encode()
        return f"{kind}_{hashlib.blake2b(place, digest_size=12).hexdigest()}"

    def _start_item(self, item: dict[str, Any]) -> Iterator[Event]:
        started = item | {"status": "in_progress"}
        self._items.append(started)
        index = len(self._items) - 1
        yield self._event("response.output_item.added", output_index=index, item=dict(started))

    def _end_item(self, status: str) -> Iterator[Event]:
        """Complete the item in progress, if there is one."""
        if not self._items or self._items[-1]["status"] != "in_progress":
            return
        item, text = self._items[-1], "".join(self._text)
        if item["type"] == "message":
            part = _part(text, self._logprobs)
            yield self._part_event("response.output_text.done", text=text, logprobs=self._logprobs)
            yield self._part_event("response.content_part.done", part=part)
            item["content"] = [part]
        elif item["type"] == "function_call":
            yield self._item_event("response.function_call_arguments.done", arguments=text)
            item["arguments"] = text
        item["status"] = status
        self._text, self._logprobs = [], []
        yield self._event("response.output_item.done", output_index=len(self._items) - 1, item=dict(item))

    def _end_open_item(self, *, cut: bool = False) -> Iterator[Event]:
        """End the item in progress, which is incomplete if it is ``cut``, or a call that has not finished."""
        cut |= self._open_item("function_call") is not None
        yield from self._end_item("incomplete" if cut else "completed")

    def _open_item(self, kind: str) -> dict[str, Any] | None:
        """Return the item in progress if it is of this kind."""
        last = self._items[-1] if self._items else None
        return last if last and last["type"] == kind and last["status"] == "in_progress" else None

    def _part_event(self, kind: str, **fields: Any) -> Event:
        return self._item_event(kind, content_index=0, **fields)

    def _item_event(self, kind: str, **fields: Any) -> Event:
        index = len(self._items) - 1
        return self._event(kind, item_id=self._items[index]["id"], output_index=index, **fields)

    def _event(self, kind: str, **fields: Any) -> Event:
        event = {"type": kind, "sequence_number": self._next_number, **fields}
        self._next_number += 1
        return event


def output_of(events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the output that ``events`` have sent so far, of which the last item may be in progress."""
    items: dict[int, dict[str, Any]] = {}
    texts: defaultdict[int, list[str]] = defaultdict(list)
    for event in events:
        if event["type"] in ("response.output_item.added", "response.output_item.done"):
            items[event["output_index"]] = dict(event["item"])
        elif event["type"] in ("response.output_text.delta", "response.function_call_arguments.delta"):
            texts[event["output_index"]].append(event["delta"])
    for index, item in items.items():
        if item["status"] == "in_progress" and index in texts:
            text = "".join(texts[index])
            item |= {"content": [_part(text, [])]} if item["type"] == "message" else {"arguments": text}
    return list(items.values())


def _part(text: str, logprobs: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}
