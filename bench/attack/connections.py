"""Many connections at once, clients that read or write slowly or not at all, and clients that disconnect."""

from __future__ import annotations

import json
import random
import resource
import socket
import struct
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from .freezes import longest_wait
from .metrics import count_leaks
from .other_client import OtherClient
from .outcomes import Outcomes
from .server_process import ServerProcess
from .wire import Request, connect, exchange, post, receive

_LIVENESS: Final = Request("many connections", "GET", "/health")
_LONG: Final = {"messages": [{"role": "user", "content": "Hello!"}], "ignore_eos": True, "max_tokens": 1500}
_SMALL_BUFFER: Final = 4096
_TIMEOUT_S: Final = 60
_RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER for a connection that is reset when it is closed."""

Row = tuple[str, float, int]
"""Clients, ms that another client waited, descriptors that the server holds directly afterwards."""
COLUMNS: Final = ("clients", "another client waited ms", "descriptors more than before")


@dataclass(frozen=True, slots=True)
class ConnectionsSize:
    """How many clients there are."""

    crowd: int
    """Connections at once."""
    slow: int
    """Slow readers and writers of each kind."""
    hold_s: float
    """How long they stay."""
    let_go: bool
    """Whether they stay for longer than the server lets them."""
    vanishing: int


def attack_by_connections(
    size: ConnectionsSize, outcomes: Outcomes, progress: Callable[[str], None]
) -> list[Row]:
    """Try each kind of clients on one server that another client uses meanwhile; return a row for each."""
    rows: list[Row] = []
    # Servers inherit the limit, and use a quarter of it for connections without a token.
    _allow_descriptors(4 * size.crowd + 500)
    attacks: list[tuple[str, Callable[[ServerProcess, ConnectionsSize, Outcomes], None]]] = [
        ("many connections", _crowd),
        ("slow writers", _write_slowly),
        ("readers of refusals that do not read", _do_not_read_refusals),
        ("readers of streams that do not read", _do_not_read_streams),
        ("clients that disconnect", _disconnect),
    ]
    with ServerProcess("serve") as server, OtherClient(server.port, server.tokens["other"]) as other:
        exchange(server.port, _LIVENESS, None)
        before = server.resources()
        for name, attack in attacks:
            progress(f"connections: {name}")

            def act(attack: Callable[..., None] = attack) -> None:
                attack(server, size, outcomes)

            seconds = longest_wait(other, act, outcomes, name)
            rows.append((name, round(1000 * seconds, 1), server.resources().descriptors - before.descriptors))
        count_leaks(server, before, outcomes, "connections")
        outcomes.add_faults(server)
    return rows


def _allow_descriptors(number: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < number <= hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))


def _crowd(server: ServerProcess, size: ConnectionsSize, outcomes: Outcomes) -> None:
    """Open many connections, then send a request on each: each is answered."""
    with ExitStack() as stack:
        connections = [stack.enter_context(connect(server.port, _TIMEOUT_S)) for _ in range(size.crowd)]
        for connection in connections:
            connection.sendall(_LIVENESS.to_bytes(None))
        for connection in connections:
            outcomes.add(_LIVENESS, receive(connection))


def _write_slowly(server: ServerProcess, size: ConnectionsSize, outcomes: Outcomes) -> None:
    """Send heads and bodies byte by byte; those that take too long are refused."""
    head = b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\nx-a: " + b"a" * 2000
    whole = post("", "/v1/chat/completions", _LONG).to_bytes(server.tokens["attacker"])
    with ExitStack() as stack:
        connections = [stack.enter_context(connect(server.port, _TIMEOUT_S)) for _ in range(2 * size.slow)]
        for number, connection in enumerate(connections):
            if number % 2:
                connection.sendall(whole[:-100])
        end, place = time.monotonic() + size.hold_s, 0
        while time.monotonic() < end:
            for number, connection in enumerate(connections):
                byte = (whole[-100:-50] if number % 2 else head)[place : place + 1]
                _try_to_send(connection, byte)
            place += 1
            time.sleep(0.2)
        outcomes.tries += len(connections)
        if size.let_go:
            for connection in connections[::2]:
                outcomes.add(Request("slow writers", "GET", "/health"), receive(connection))


def _do_not_read_refusals(server: ServerProcess, size: ConnectionsSize, outcomes: Outcomes) -> None:
    """Pipeline requests that are refused, with a long Host that the refusal repeats, and read nothing."""
    refused = f"GET / HTTP/1.1\r\nhost: {'e' * 16_000}\r\n\r\n".encode()
    _hold(server, size, outcomes, refused * 400, "readers of refusals that do not read")


def _do_not_read_streams(server: ServerProcess, size: ConnectionsSize, outcomes: Outcomes) -> None:
    """Request long streams and read nothing."""
    body = {**_LONG, "stream": True, "logprobs": True, "top_logprobs": 20}
    request = post("", "/v1/chat/completions", body).to_bytes(server.tokens["attacker"])
    _hold(server, size, outcomes, request, "readers of streams that do not read")


def _hold(server: ServerProcess, size: ConnectionsSize, outcomes: Outcomes, data: bytes, name: str) -> None:
    before = server.resources().descriptors
    with ExitStack() as stack:
        for _ in range(size.slow):
            connection = stack.enter_context(connect(server.port, _TIMEOUT_S, _SMALL_BUFFER))
            connection.setblocking(False)
            _try_to_send(connection, data)
        outcomes.tries += size.slow
        time.sleep(size.hold_s)
        if size.let_go and (held := _held_at_last(server, before, size.hold_s)) > 0:
            outcomes.fail(name, f"{held} connections are held after {2 * size.hold_s:.0f} s")


def _held_at_last(server: ServerProcess, before: int, within_s: float) -> int:
    """Return how many connections more than ``before`` are held, once none is or ``within_s`` have passed.

    The time limit of a stream begins with its first token, for which it may wait.
    """
    end = time.monotonic() + within_s
    while (held := server.resources().descriptors - before) > 0 and time.monotonic() < end:
        time.sleep(0.5)
    return held


def _try_to_send(connection: socket.socket, data: bytes) -> None:
    """Send what the connection takes; the server may have closed it."""
    try:
        connection.send(data)
    except OSError:
        return


def _disconnect(server: ServerProcess, size: ConnectionsSize, outcomes: Outcomes) -> None:
    """Begin streams and disconnect at a random moment, half of them by a reset."""
    chance = random.Random(size.vanishing)
    request = post("", "/v1/chat/completions", {**_LONG, "stream": True})
    for number in range(size.vanishing):
        with connect(server.port, _TIMEOUT_S) as connection:
            connection.sendall(request.to_bytes(server.tokens["attacker"]))
            if chance.random() < 0.7:
                connection.recv(200)
            else:
                time.sleep(chance.random() * 0.01)
            if number % 2:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        outcomes.tries += 1
    _wait_until_idle(server, outcomes)


def _wait_until_idle(server: ServerProcess, outcomes: Outcomes) -> None:
    end = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < end:
        health = json.loads(exchange(server.port, _LIVENESS, server.tokens["owner"]).body)
        if health["running"] + health["waiting"] <= 1:  # another client's
            return
    outcomes.fail("clients that disconnect", "their requests run still")
