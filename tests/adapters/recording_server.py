"""An HTTP server on a real socket that records what arrives and answers in OpenAI's or Anthropic's form."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from anthropic import Anthropic
from langchain_openai import ChatOpenAI
from openai import AsyncOpenAI, OpenAI

from tests.adapters.anthropic import doubles as messages
from tests.adapters.openai.doubles import chat_completion, chat_events, response, response_events
from tests.patience import PATIENCE_S

Body = dict[str, Any]


@dataclass(frozen=True)
class Received:
    """One request. The names of ``headers`` are in lower case."""

    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass
class RecordingServer:
    """Answers every model request with ``calls``, or as ``refuse`` says: a status and a text.

    With status 0 the connection is closed without an answer.
    """

    url: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    """Added to every answer."""
    fields: Body = field(default_factory=dict)
    """Added to every whole chat completion."""
    choice_fields: Body = field(default_factory=dict)
    """Added to its choice."""
    owned_by: str = "someone"
    refuse: Callable[[Received], tuple[int, str] | None] = lambda received: None
    answer_as: Callable[[Received], tuple[int, str, str] | None] = lambda received: None
    """Returns the status, content type and text of an answer in place of the server's own."""
    calls: Callable[[Body], list[tuple[str, str, str]]] = lambda body: []
    received: list[Received] = field(default_factory=list)
    capabilities: list[str] | None = None
    """Those of the model, where they are listed."""
    holds_streams: bool = False
    """Whether a stream waits behind its first event until a tool output has been submitted."""
    events: list[Body] | None = None
    """The events of every streamed chat completion, in place of those of ``calls``."""
    first_event: Body = field(default_factory=dict)
    """Added to the first event of every stream."""
    submitted: threading.Event = field(default_factory=threading.Event)

    @property
    def outputs(self) -> list[Received]:
        """The requests that submit tool outputs, and those that ask whether they may, with an empty list."""
        return [one for one in self.received if "cache-tool-output" in one.path]

    @property
    def sent(self) -> list[Any]:
        """The ``priority`` of each model request, in the order of arrival; None where there is none."""
        return [one.body.get("priority") for one in self.received if not one.path.endswith("models")]

    def client(self) -> OpenAI:
        """Return a client of this server."""
        return OpenAI(base_url=self.url, api_key="none", max_retries=0)

    def async_client(self) -> AsyncOpenAI:
        """Return an async client of this server."""
        return AsyncOpenAI(base_url=self.url, api_key="none", max_retries=0)

    def anthropic_client(self) -> Anthropic:
        """Return a client of this server that asks for messages."""
        return Anthropic(base_url=self.url.removesuffix("/v1"), api_key="none", max_retries=0)

    def chat(self, **options: Any) -> ChatOpenAI:
        """Return a chat model of LangChain on this server."""
        given: Any = {"base_url": self.url, "api_key": "none", "model": "m", "max_retries": 0, "timeout": 60}
        return ChatOpenAI(**given, **options)

    def answer(self, received: Received) -> tuple[int, str, str]:
        """Return status, content type and text."""
        self.received.append(received)
        refusal = self.refuse(received)
        if refusal is not None:
            return refusal[0], "application/json", json.dumps({"error": {"message": refusal[1]}})
        own = self.answer_as(received)
        if own is not None:
            return own
        if received.path.endswith("/models"):
            model: Body = {"id": "m", "object": "model", "created": 0, "owned_by": self.owned_by}
            if self.capabilities is not None:
                model["capabilities"] = self.capabilities
            return 200, "application/json", json.dumps({"object": "list", "data": [model]})
        if "cache-tool-output" in received.path:
            return 200, "application/json", json.dumps({"cached": len(received.body)})
        calls, chat = self.calls(received.body), received.path.endswith("/chat/completions")
        if received.path.endswith("/messages"):
            made = [(name, json.loads(arguments), id) for name, arguments, id in calls]
            first, *rest = messages.events(made, 0)
            return 200, "text/event-stream", messages.sent([{**first, **self.first_event}, *rest])
        if received.body.get("stream"):
            events = list(self.events or (chat_events(calls) if chat else response_events(0, calls)))
            events = [{**events[0], **self.first_event}, *events[1:]]
            text = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
            return 200, "text/event-stream", text + "data: [DONE]\n\n" * chat
        answer = {**chat_completion(calls), **self.fields} if chat else response(0, calls)
        if chat:
            answer["choices"] = [{**answer["choices"][0], **self.choice_fields}]
        return 200, "application/json", json.dumps(answer)


@contextmanager
def recording_server(**settings: Any) -> Iterator[RecordingServer]:
    """A server that runs inside the block. It speaks HTTP/1.0: clients need not close their connections."""
    recorder = RecordingServer(**settings)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.do_POST()

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            received = Received(self.path, headers, json.loads(text) if text else {})
            status, kind, answer = recorder.answer(received)
            if not status:
                return
            data = answer.encode()
            about = {"content-type": kind, "content-length": str(len(data))}
            self.send_response(status)
            for name, value in (recorder.headers | about).items():
                self.send_header(name, value)
            self.end_headers()
            first, separator, rest = data.partition(b"\n\n")
            self.wfile.write(first + separator)
            if recorder.holds_streams and separator:
                recorder.submitted.wait(PATIENCE_S)
            self.wfile.write(rest)
            if "cache-tool-output" in self.path and received.body:
                recorder.submitted.set()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    recorder.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield recorder
    finally:
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE_S)
