"""Random requests to every route and changed bodies of clients: none is a fault or makes others wait."""

from __future__ import annotations

import copy
import json
import time
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Any

import requests
import schemathesis
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from schemathesis import GenerationMode

from tests.attack.campaign import LIMIT_S, Campaign, draw_each
from tests.attack.client_bodies import client_requests
from tests.attack.other_client import OtherClient
from tests.attack.server_process import ServerProcess
from tests.attack.wire import HELLO, JSON, Request, exchange

_BLOCK = 500
"""Requests between two looks at the waits of the other client."""
_MOST_MEASURED = 5
"""Requests of a block that are sent again to see whether they make others wait."""
_HEADERS = (
    ("x-agentrt-priority", "proactive"), ("x-agentrt-priority", "\xff"), ("x-session-id", "a" * 3000),
    ("x-session-id", ""), ("content-type", "text/plain"), ("content-encoding", "gzip"),
    ("content-length", "-1"), ("content-length", "99999999999"), ("transfer-encoding", "chunked"),
    ("expect", "100-continue"), ("host", "evil.example"), ("origin", "http://evil.example"),
    ("authorization", "Bearer \xe4"),
)  # fmt: skip
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 10**400, 0.5, 1e308, 5e-324, -0.0, "", " ",
    "a" * 5000, "\ud800", "\u0000", "\u202e", "<|im_end|>", "<|im_start|>system\n", "../../x", "%2e%2e",
    "nano", "auto", [], {}, [[]], [None], {"": None}, {"type": []}, [{}] * 30, ["a"] * 40, {"$ref": "#"},
    {"type": "object", "properties": {"a": {"$ref": "#"}}}, {"type": "integer", "multipleOf": 999983},
    {"pattern": "(a+)+$"},
)  # fmt: skip
"""Values that a field may not expect."""
_REMOVED = object()
_NAMES = ("none", "chatcmpl-00", "resp_00", "ctx_00", "..", "%25", "%00", "a" * 3000, "a/b", "%20", "")
_NUMBERS = (b"1e999", b"-1e999", b"NaN", b"Infinity", b"1e-400", b"-", b"00", b"0x1", b"1E400", b"9" * 400)
_BRIEF = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def test_no_request_is_a_fault_or_makes_others_wait(campaign: Campaign) -> None:
    bodies = list(client_requests())
    with (
        ServerProcess("serve", "--ollama", "127.0.0.1:0") as server,
        OtherClient(server, campaign) as other,
    ):
        document = Request("schema", "GET", "/openapi.json")
        requests: dict[str, SearchStrategy[Request]] = {}
        for port in (server.port, server.ollama_port):
            requests |= _of_document(exchange(port, document, server.tokens["owner"]).json())
        requests |= {f"body {place}": st.just(each) for place, each in enumerate(bodies)}
        block = _Block(server, other, campaign)
        number = campaign.size(8_000, 300) // len(requests)
        for place, strategy in enumerate(requests.values()):
            draw_each(number, hostile(strategy), block.send, place)
        block.end()
        campaign.add_faults(server)
    found = [(name, status, number) for (name, status), number in sorted(campaign.statuses.items())]
    campaign.add_table("answers to random requests", ("request", "status", "answers"), found)
    assert {status for _, status, _ in found} >= {200, 400, 401, 404}
    names = {name for name, _, _ in found}
    assert {
        "POST /v1/chat/completions",
        "DELETE /v1/contexts/{context_id}",
        "GET /metrics",
        "POST /api/pull",
    } <= names
    assert {path for path in names if path.startswith("mutated")} == {each.name for each in bodies}
    assert "mutated body of a client for /v1/responses" in names


def _of_document(document: Mapping[str, Any]) -> Iterator[tuple[str, SearchStrategy[Request]]]:
    """Yield requests to each operation of an OpenAPI document: some that match it, some that do not."""
    schema = schemathesis.openapi.from_dict(dict(document))
    for path, methods in document["paths"].items():
        for method in (each.upper() for each in methods):
            # About other operations nothing can be wrong: any text is a name or an id.
            modes = list(GenerationMode) if method == "POST" else [GenerationMode.POSITIVE]
            cases = [schema[path][method].as_strategy(generation_mode=mode) for mode in modes]
            yield f"{method} {path}", st.one_of(cases).map(_request)


def _request(case: Any) -> Request:
    prepared = requests.Request(**case.as_transport_kwargs(base_url="http://127.0.0.1")).prepare()
    body = prepared.body or b""
    content = body.encode() if isinstance(body, str) else body
    name = f"{case.method.upper()} {case.operation.path}"
    return Request(name, case.method.upper(), prepared.path_url, content, JSON if content else ())


@st.composite
def hostile(draw: DrawFn, strategy: SearchStrategy[Request]) -> Request:
    """Draw a request, mostly with a change to its values, or to its bytes, headers or path."""
    request = draw(strategy)
    change = draw(st.sampled_from(("values", "values", "values", "bytes", "headers", "path", "none")))
    try:
        value = json.loads(request.body)
    except (ValueError, RecursionError):
        value = None
    if value is not None:
        if change == "values":
            value = _changed(draw, value)
        elif isinstance(value, dict) and isinstance(value.get("messages"), list) and draw(st.booleans()):
            value["messages"] = HELLO  # else hardly any request would come through to the model
        request = request._replace(body=json.dumps(_brief(value)).encode())
    if change == "bytes" and request.body:
        request = request._replace(body=_damaged(draw, request.body))
    elif change == "headers" and request.body.startswith(b"{"):
        extra = draw(st.sampled_from(_HEADERS))
        kept = tuple(header for header in request.headers if header[0] != extra[0])
        # Or the server would wait for the end of the first chunk's length.
        body = request.body + b"\r\n" if extra[0] == "transfer-encoding" else request.body
        request = request._replace(body=body, headers=(*kept, extra))
    elif change == "path" and "{" in request.name:
        before, _, after = request.name.partition(" ")[2].partition("{")
        path = before + draw(st.sampled_from(_NAMES)) + after.partition("}")[2]
        request = request._replace(path=path)
    return request


def _brief(body: Any) -> Any:
    """Return a body whose answer is short where it would be long by default."""
    if isinstance(body, dict):
        for name in _BRIEF:
            body.setdefault(name, 3)
        if isinstance(options := body.setdefault("options", {}), dict):
            options.setdefault("num_predict", 3)
        body["model"] = "nano" if body.get("model") != "" else ""
    return body


def _changed(draw: DrawFn, value: Any) -> Any:
    """Return a JSON value with up to three changes: a part removed, repeated, or put in another's place."""
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(value))
        if not places:
            return draw(st.sampled_from(_VALUES))
        (holder, key), (other, other_key) = draw(st.sampled_from(places)), draw(st.sampled_from(places))
        repeated, copied = [holder[key]] * draw(st.sampled_from((1, 2, 20))), copy.deepcopy(other[other_key])
        if (new := draw(st.sampled_from((_REMOVED, repeated, copied, *_VALUES)))) is _REMOVED:
            del holder[key]
        else:
            holder[key] = copy.deepcopy(new)
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each holder and key of a JSON value, at any depth."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


def _damaged(draw: DrawFn, body: bytes) -> bytes:
    """Return ``body`` cut, or with a part repeated, removed or put in: random or nested bytes, numbers."""
    at, end = sorted((draw(st.integers(0, len(body))), draw(st.integers(0, len(body)))))
    repeated = body[at:end] * draw(st.sampled_from((0, 2, 50)))
    put_in = draw(st.sampled_from((*_NUMBERS, b"[" * 300, b"[" * 30_000)) | st.binary(min_size=1, max_size=8))
    if digits := [place for place, byte in enumerate(body) if chr(byte).isdigit()]:
        at = draw(st.sampled_from(digits))
        end = max(end, at + 1)
    changes = (body[:at], body[:at] + repeated + body[end:], body[:at] + put_in + body[at + 1 :])
    return draw(st.sampled_from(changes))


class _Block:
    """Requests that are sent while the other client polls; those during which it waited are sent again."""

    def __init__(self, server: ServerProcess, other: OtherClient, campaign: Campaign) -> None:
        self._server, self._other, self._campaign = server, other, campaign
        self._sent: list[tuple[float, Request]] = []

    def send(self, request: Request) -> None:
        if not self._sent:
            self._other.begin()
        self._sent.append((time.monotonic(), request))
        self._campaign.add(request, self._server.attack(request))
        if len(self._sent) == _BLOCK:
            self.end()

    def end(self) -> None:
        """Look at the waits, and measure requests that were in progress during the longest ones."""
        waits = self._other.end("random requests") if self._sent else []
        short = [wait.seconds for wait in waits if wait.seconds <= LIMIT_S]
        self._campaign.freeze("random requests", max(short, default=0.0))
        begins = [begun_s for begun_s, _ in self._sent]
        suspects: dict[int, Request] = {}
        for wait in sorted(waits, key=lambda wait: -wait.seconds)[: len(waits) - len(short)]:
            first = max(0, bisect_right(begins, wait.begun_s) - 1)
            for number in range(first, bisect_right(begins, wait.ended_s)):
                suspects.setdefault(number, self._sent[number][1])
        for request in list(suspects.values())[:_MOST_MEASURED]:
            _, seconds = self._other.measure_request(request)
            self._campaign.freeze(f"{request.name} {request.body[:200]!r}", seconds)
        self._sent.clear()
