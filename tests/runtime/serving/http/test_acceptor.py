"""A server that has no descriptor left for a connection."""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys

import pytest

pytest.importorskip("resource", reason="this system has no limit on descriptors")

SERVER = """
import os, resource, sys
from agentrt.runtime.serving.http.config import ListenConfig
from tests.runtime.serving.http.conftest import guarded
from tests.runtime.serving.http.serving import listening

config = ListenConfig(port=0)
with listening(guarded(config), config) as server:
    room = len(os.listdir("/dev/fd")) + 4
    resource.setrlimit(resource.RLIMIT_NOFILE, (room, room))
    print(server.port, flush=True)
    sys.stdin.read()
"""
"""A server whose limit is lowered once it knows how many connections it may have."""


def test_connections_without_a_descriptor() -> None:
    """The oldest silent ones are closed for new ones, and the log has one line."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        port = int(process.stdout.readline())
        silent = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(10)]
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        client.request("GET", "/health")
        assert client.getresponse().status == 200
        client.close()
        for connection in silent:
            connection.close()
        process.stdin.close()
        log = process.stderr.read().decode()
        assert process.wait(60) == 0
    assert log.count("\n") == 1, log[:2000]
    assert "cannot accept a connection" in log
    assert "ulimit" in log
