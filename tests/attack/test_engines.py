"""Hostile engines behind a gateway, which stays small and responsive; no broken answer looks whole."""

from __future__ import annotations

import time

from hypothesis import strategies as st

from agentrt.bench.common.report import Cell
from tests.attack.campaign import Campaign, draw_each
from tests.attack.hostile_engine import BEHAVIOURS, BREAKING_OFF, DRAWN, HostileEngine
from tests.attack.other_client import OtherClient
from tests.attack.server_process import ServerProcess
from tests.attack.wire import CHAT, Answer, Request, connect, post

_TIMEOUT_S = 30
_MOST_GROWN_MB = 128.0
"""By which a gateway may be larger while it relays one answer."""
_EXPECTED = frozenset({502, 504})
_TOOL = {"type": "function", "function": {"name": "read"}}
_QUICK = (
    "stays silent in a stream",
    "ends in an event",
    "sends wrong chunks",
    "sends garbage",
    "sends without end",
    "sends a gzip bomb",
    "redirects",
)
_COLUMNS = ("an engine that", "tools", "status", "s", "another client waited ms", "the gateway grew MB")
_PARTS = (
    b'data: {"id":"e","choices":[{"index":0,"delta":{"content":"a"}}]}\n\n',
    b'data: {"id":"e","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":'
    b'{"name":"read","arguments":"[1,"}}]}}]}\n\n',
    b'data: {"choices":[],"usage":{"completion_tokens":1}}\n\n',
    b'data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}\n\n',
    b'data: {"id":"',
    b'data: {"choices":[{"index":0,"delta":{"x":[',
    b"data: [DONE]\n\n",
    *(b"1,", b'{"a":1},', b"1e-300,", b'"', b'"},', b"[", b"\\u00e9", b"\xe2\x82", b"\xff"),
    *(b"\n", b"\r", b"\r\n", b"\n\r", b":", b": ping\n\n", b"data:\n", b"id: 1\n", b"event: x\r\n"),
)
_PIECES = st.tuples(
    st.sampled_from(_PARTS) | st.binary(min_size=1, max_size=64),
    st.sampled_from((1, 2, 1000, 50_000, 4 << 20)),
).map(lambda drawn: drawn[0] * min(drawn[1], (4 << 20) // len(drawn[0])))
STREAMS = st.lists(_PIECES, min_size=1, max_size=6).map(b"".join)
"""Up to 24 MiB: events, blank lines, comments, cut characters, huge ids."""


def test_no_engine_stops_the_gateway_for_others(campaign: Campaign) -> None:
    # Longer than a busy machine may halt this process, in which the engine runs.
    options = ("--upstream-timeout", "5")
    with HostileEngine() as engine, ServerProcess("gateway", "--upstream", engine.url, *options) as gateway:
        with OtherClient(gateway, campaign, chats=False) as other:
            gateway.get("/v1/models")
            before = gateway.resources()
            names, with_tools = campaign.size((tuple(BEHAVIOURS), (True, False)), (_QUICK, (True,)))
            rows = [_attack(other, gateway, name, tools, campaign) for name in names for tools in with_tools]
            drawn: list[tuple[Cell, ...]] = []

            def stream(content: bytes) -> None:
                engine.drawn = content
                drawn.append(_attack(other, gateway, DRAWN, len(drawn) % 2 == 0, campaign))

            draw_each(campaign.size(200, 5), STREAMS, stream)
        campaign.add_leaks(gateway, before, "engines")
        campaign.add_faults(gateway)
    assert "/stolen" not in engine.paths, "the gateway has followed a redirection"
    drawn.sort(key=lambda row: row[4])
    rows.append((f"{DRAWN}, median wait", *drawn[len(drawn) // 2][1:]))
    rows.append((f"{DRAWN}, longest wait", *drawn[-1][1:]))
    campaign.add_table("hostile engines", _COLUMNS, rows)
    statuses = {row[0]: row[2] for row in rows}
    assert (statuses["ends in an event"], statuses["redirects"]) == (200, 307)


def _attack(
    other: OtherClient, gateway: ServerProcess, name: str, tools: bool, campaign: Campaign
) -> tuple[Cell, ...]:
    """Let the engine misbehave in an answer; return the behaviour's row."""
    print(f"an engine that {name}")
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": name}]}
    request = post(f"an engine that {name}", CHAT, {**body, "tools": [_TOOL]} if tools else body)
    answers: list[Answer] = []

    def act() -> None:
        endless = name == "sends without end"
        answers.append(_not_read(gateway, request) if endless else gateway.attack(request, _TIMEOUT_S))

    begun, before_mb = time.monotonic(), gateway.resources().rss_mb
    gateway.reset_peak()
    waited_s = other.shortest_wait(act, request.name)
    answer, grown = answers[0], gateway.peak_mb() - before_mb
    campaign.add(request, answer, _EXPECTED)
    campaign.freeze(request.name, waited_s)
    if name in BREAKING_OFF and answer.status == 200 and answer.complete and not _tells_of_an_error(answer):
        campaign.fail(name, f"the answer looks complete: {answer.body[-200:]!r}")
    if grown > _MOST_GROWN_MB:
        campaign.fail(name, f"the gateway grew by {grown:.0f} MB")
    seconds = round(time.monotonic() - begun, 2)
    return name, tools, answer.status, seconds, round(1000 * waited_s, 1), round(grown, 1)


def _tells_of_an_error(answer: Answer) -> bool:
    events = list(answer.events())
    return bool(events) and isinstance(events[-1], dict) and "error" in events[-1]


def _not_read(gateway: ServerProcess, request: Request) -> Answer:
    """Send a request, read nothing for a second, then disconnect; return the head of the answer."""
    with connect(gateway.port, _TIMEOUT_S, 4096) as connection:
        connection.sendall(request.to_bytes(gateway.tokens["attacker"]))
        time.sleep(1)
        head = connection.recv(200)
    return Answer(int(head.split(b" ")[1]) if head else 0)
