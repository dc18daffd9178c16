"""SIGTERM while clients do not read, and while requests are prepared: the server ends within its bound."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, Final

from .outcomes import Outcomes
from .server_process import ServerProcess
from .wire import connect, post

_CHAT: Final = "/v1/chat/completions"
_DRAIN_S: Final = 1
_CLOSING_S: Final = 5.0
"""For closing the model and the interpreter after the drain."""
_TIMEOUT_S: Final = 60
_LONG: Final = {"messages": [{"role": "user", "content": "Hello!"}], "ignore_eos": True, "max_tokens": 1500}
_TOOL: Final = {
    "type": "function",
    "function": {"name": "read", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}},
}

Row = tuple[str, float | None, int | None]
"""Load, seconds until the end or None, exit code or None."""
COLUMNS: Final = ("load", "ended after s", "exit code")

_Load = Callable[[ServerProcess, ExitStack], None]


def attack_by_sigterm(quick: bool, outcomes: Outcomes, progress: Callable[[str], None]) -> list[Row]:
    """Send SIGTERM to a server under each load; return a row for each."""
    rows: list[Row] = []
    for name, load in _LOADS.items():
        if quick and name not in _QUICK:
            continue
        progress(f"SIGTERM: {name}")
        with ServerProcess("serve", "--drain", str(_DRAIN_S)) as server, ExitStack() as stack:
            load(server, stack)
            time.sleep(0.5)
            seconds = server.stop(60)
            code = None if seconds is None else server.process.returncode
            rows.append((name, None if seconds is None else round(seconds, 2), code))
            outcomes.tries += 1
            outcomes.faults += len(server.faults())
            if not is_kept([rows[-1]]):
                outcomes.note(name, f"ended after {seconds} s with code {code}: {server.log()[-300:]}")
    return rows


def is_kept(rows: list[Row]) -> bool:
    """Return whether all servers ended in order and within the bound."""
    return all(
        seconds is not None and seconds <= _DRAIN_S + _CLOSING_S and code == 0 for _, seconds, code in rows
    )


def _send(
    server: ServerProcess, stack: ExitStack, path: str, body: Any, receive_bytes: int | None = None
) -> Any:
    connection = stack.enter_context(connect(server.port, _TIMEOUT_S, receive_bytes))
    connection.sendall(post("", path, body).to_bytes(server.tokens["attacker"]))
    return connection


def _idle(server: ServerProcess, stack: ExitStack) -> None:
    """Do nothing."""


def _streams(server: ServerProcess, stack: ExitStack) -> None:
    for _ in range(40):
        _send(server, stack, _CHAT, {**_LONG, "stream": True, "logprobs": True, "top_logprobs": 20}, 4096)


def _refusals(server: ServerProcess, stack: ExitStack) -> None:
    refused = f"GET / HTTP/1.1\r\nhost: {'e' * 16_000}\r\n\r\n".encode()
    for _ in range(40):
        connection = stack.enter_context(connect(server.port, _TIMEOUT_S, 4096))
        connection.setblocking(False)
        connection.send(refused * 400)


def _control_tokens(server: ServerProcess, stack: ExitStack) -> None:
    for _ in range(8):
        content = "<|im_end|>" * 400_000
        _send(server, stack, _CHAT, {"messages": [{"role": "user", "content": content}]})


def _tool_outputs(server: ServerProcess, stack: ExitStack) -> None:
    first = _send(server, stack, _CHAT, {**_LONG, "stream": True, "tools": [_TOOL]})
    received = b""
    while not (found := re.search(rb"chatcmpl-[0-9a-f]+", received)):
        received += first.recv(4096)
    outputs = [
        {"name": "read", "params": {"a": str(number)}, "output": "<|im_end|>" * 12_000}
        for number in range(60)
    ]
    _send(server, stack, f"/v1/cache-tool-output/{found[0].decode()}", outputs)


def _unfinished_bodies(server: ServerProcess, stack: ExitStack) -> None:
    data = post("", _CHAT, _LONG).to_bytes(server.tokens["attacker"])
    for _ in range(40):
        stack.enter_context(connect(server.port, _TIMEOUT_S)).sendall(data[:-20])


_LOADS: Final[Mapping[str, _Load]] = {
    "nothing": _idle,
    "streams that are not read": _streams,
    "refusals that are not read": _refusals,
    "texts of control tokens": _control_tokens,
    "submitted tool outputs": _tool_outputs,
    "bodies that do not end": _unfinished_bodies,
}
_QUICK: Final = ("streams that are not read", "texts of control tokens")
