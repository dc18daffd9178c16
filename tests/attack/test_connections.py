"""Many connections at once, clients that read or write slowly or not at all, and clients that disconnect."""

from __future__ import annotations

import functools
import json
import random
import re
import resource
import socket
import struct
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from typing import Any

from tests.attack.campaign import Campaign, held_at_last
from tests.attack.other_client import OtherClient
from tests.attack.server_process import ServerProcess
from tests.attack.wire import CHAT, LONG, Request, connect, post, receive
from tests.patience import until

_LIVENESS = Request("many connections", "GET", "/health")
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER for a connection that is reset when it is closed."""
_HEAD = b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\nx-a: " + b"a" * 2000
_COLUMNS = ("clients", "another client waited ms", "descriptors more than before")
_SMALL_BUFFER = 4096
_TOOL = {
    "type": "function",
    "function": {"name": "read", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}},
}


class Clients(ExitStack):
    """Connections of the attacker, which are closed at the end of the block."""

    def __init__(self, server: ServerProcess) -> None:
        super().__init__()
        self._server = server

    def connect(self, receive_bytes: int | None = None) -> socket.socket:
        return self.enter_context(connect(self._server.port, receive_bytes=receive_bytes))

    def send(self, path: str, body: Any, receive_bytes: int | None = None) -> socket.socket:
        """Send a request on a new connection; nothing reads the answer."""
        connection = self.connect(receive_bytes)
        connection.sendall(post("", path, body).to_bytes(self._server.tokens["attacker"]))
        return connection

    def streams(self, number: int) -> None:
        """Request long streams and read nothing."""
        for _ in range(number):
            self.send(CHAT, {**LONG, "stream": True, "logprobs": True, "top_logprobs": 20}, _SMALL_BUFFER)

    def refusals(self, number: int) -> None:
        """Pipeline requests that are refused, with a long Host that the refusal repeats, and read nothing."""
        refused = f"GET / HTTP/1.1\r\nhost: {'e' * 16_000}\r\n\r\n".encode()
        for _ in range(number):
            connection = self.connect(_SMALL_BUFFER)
            connection.setblocking(False)
            with suppress(OSError):  # it takes a part, or the server has closed it
                connection.send(refused * 400)

    def unfinished_bodies(self, number: int) -> list[tuple[socket.socket, bytes]]:
        """Send requests without the last 100 bytes; return the connections and these bytes."""
        body = json.dumps({**LONG, "user": "a" * 100}).encode()
        data = post("", CHAT, body).to_bytes(self._server.tokens["attacker"])
        connections = [self.connect() for _ in range(number)]
        for connection in connections:
            connection.sendall(data[:-100])
        return [(connection, data[-100:]) for connection in connections]

    def control_tokens(self, number: int) -> None:
        """Send texts that take long to tokenize."""
        for _ in range(number):
            self.send(CHAT, {"messages": [{"role": "user", "content": "<|im_end|>" * 400_000}]})

    def tool_outputs(self, number: int) -> None:
        """Submit outputs that take long to tokenize to a running answer."""
        first, received = self.send(CHAT, {**LONG, "stream": True, "tools": [_TOOL]}), b""
        while not (found := re.search(rb"chatcmpl-[0-9a-f]+", received)):
            received += first.recv(4096)
        entry = {"name": "read", "output": "<|im_end|>" * 12_000}
        outputs = [{**entry, "params": {"a": str(each)}} for each in range(number)]
        self.send(f"/v1/cache-tool-output/{found[0].decode()}", outputs)


def test_clients_that_hold_connections_do_not_stop_others(campaign: Campaign) -> None:
    crowd = campaign.size(1000, 200)
    # Servers inherit the limit, and use a quarter of it for connections without a token.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4 * crowd + 500)), hard))
    rows = []
    with ServerProcess("serve") as server, OtherClient(server, campaign) as other:
        server.get("/health")
        before = server.resources()
        for name, attack in _ATTACKS.items():
            print(f"connections: {name}")
            seconds = other.longest_wait(functools.partial(attack, server, campaign), name)
            held = server.resources().descriptors - before.descriptors
            rows.append((name, round(1000 * seconds, 1), held))
        campaign.add_leaks(server, before, "connections")
        campaign.add_faults(server)
    campaign.add_table("clients that hold connections", _COLUMNS, rows)
    campaign.figures["longest_wait_beside_many_ms"] = max(waited_ms for _, waited_ms, _ in rows)


def _crowd(server: ServerProcess, campaign: Campaign) -> None:
    """Open many connections, then send a request on each: each is answered."""
    with Clients(server) as clients:
        connections = [clients.connect() for _ in range(campaign.size(1000, 200))]
        for connection in connections:
            connection.sendall(_LIVENESS.to_bytes(None))
        for connection in connections:
            campaign.add(_LIVENESS, receive(connection))


def _write_slowly(server: ServerProcess, campaign: Campaign) -> None:
    """Send heads and bodies byte by byte; the heads that take too long are refused."""
    number = campaign.size(40, 10)
    with Clients(server) as clients:
        heads = [(clients.connect(), _HEAD) for _ in range(number)]
        slow = [*heads, *clients.unfinished_bodies(number)]
        end, place = time.monotonic() + _hold_s(campaign), 0
        while time.monotonic() < end:
            for connection, data in slow:
                with suppress(OSError):
                    connection.send(data[place : place + 1] if place < 50 or data is _HEAD else b"")
            place += 1
            time.sleep(0.2)
        campaign.counts["tries"] += len(slow)
        if campaign.full:
            for connection, _ in heads:
                campaign.add(Request("slow writers", "GET", "/health"), receive(connection))


def _do_not_read(kind: Callable[[Clients, int], None], server: ServerProcess, campaign: Campaign) -> None:
    """Hold connections, of which the server lets go in time."""
    before, number, hold_s = server.resources().descriptors, campaign.size(40, 10), _hold_s(campaign)
    with Clients(server) as clients:
        kind(clients, number)
        campaign.counts["tries"] += number
        time.sleep(hold_s)
        # The time limit of a stream begins with its first token, for which it may wait.
        if campaign.full and (held := held_at_last(lambda: server.resources().descriptors - before, hold_s)):
            campaign.fail(kind.__name__, f"{held} connections are held after {2 * hold_s:.0f} s")


def _disconnect(server: ServerProcess, campaign: Campaign) -> None:
    """Begin streams and disconnect at a random moment, half of them by a reset."""
    number = campaign.size(500, 30)
    chance = random.Random(number)
    request = post("", CHAT, {**LONG, "stream": True}).to_bytes(server.tokens["attacker"])
    for each in range(number):
        with connect(server.port) as connection:
            connection.sendall(request)
            if chance.random() < 0.7:
                connection.recv(200)
            else:
                time.sleep(chance.random() * 0.01)
            if each % 2:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        campaign.counts["tries"] += 1

    def is_idle() -> bool:
        health = server.get("/health").json()
        return bool(health["running"] + health["waiting"] <= 1)  # another client's

    until(is_idle)


def _hold_s(campaign: Campaign) -> float:
    """Return how long clients stay: in full, longer than the server lets them."""
    return campaign.size(75.0, 1.0)


_ATTACKS: Mapping[str, Callable[[ServerProcess, Campaign], None]] = {
    "many connections": _crowd,
    "slow writers": _write_slowly,
    "readers of refusals that do not read": functools.partial(_do_not_read, Clients.refusals),
    "readers of streams that do not read": functools.partial(_do_not_read, Clients.streams),
    "clients that disconnect": _disconnect,
}
