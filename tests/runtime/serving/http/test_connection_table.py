"""Which connection is closed for a new one, and how many each app may have."""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
from contextlib import closing

import pytest

from agentrt.runtime.serving.http.connection_table import ConnectionTable, connection_limit


class Entry:
    def __init__(self) -> None:
        self.idle = True
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True


def add(table: ConnectionTable, count: int) -> list[Entry]:
    entries = [Entry() for _ in range(count)]
    for entry in entries:
        table.add(entry)
    return entries


def prove(table: ConnectionTable, app: str, count: int) -> list[Entry]:
    entries = []
    for _ in range(count):
        entries += add(table, 1)
        assert table.prove(entries[-1], app)
    return entries


def test_an_app_closes_its_own_idle_connections_only() -> None:
    table = ConnectionTable(16, ("mail", "notes"))
    notes = prove(table, "notes", 2)
    mail = prove(table, "mail", 6)  # its own two, and the four that come first
    mail[0].idle = False
    assert table.prove(mail[1], "mail")  # used again: the next one is now the oldest
    mail += prove(table, "mail", 1)
    assert [each.aborted for each in mail] == [False, False, True, False, False, False, False]
    for entry in mail:
        entry.idle = False
    (last,) = add(table, 1)
    assert not table.prove(last, "mail")
    assert not any(each.aborted for each in (*notes, last))


def test_a_connection_whose_token_changes_belongs_to_the_other_app() -> None:
    table = ConnectionTable(8, ("mail", "notes"))
    (entry,) = prove(table, "mail", 1)
    assert table.prove(entry, "notes")
    table.remove(entry)
    table.remove(entry)
    assert len(table) == 0
    prove(table, "mail", 3)


def test_a_descriptor_is_freed_by_who_is_missed_least() -> None:
    table = ConnectionTable(8, ())
    assert not table.free_one()
    busy, idle = prove(table, "mine", 2)
    busy.idle = False
    (unproven,) = add(table, 1)
    before = (False, False, False)
    for expected in ((False, False, True), (False, True, True), (False, True, True)):
        assert table.free_one() is (expected != before)
        before = expected
        assert (busy.aborted, idle.aborted, unproven.aborted) == expected


SERVER = """
import os, resource, sys
from agentrt.runtime.serving.http.config import ListenConfig
from agentrt.runtime.serving.http.connection_table import connection_limit
from tests.runtime.serving.http.conftest import guarded
from tests.runtime.serving.http.serving import listening

config = ListenConfig(port=0)
with listening(guarded(config), config) as server:
    room = len(os.listdir("/dev/fd")) + 4
    resource.setrlimit(resource.RLIMIT_NOFILE, (room, room))
    print(server.port, connection_limit(2048), room, flush=True)
    sys.stdin.read()
"""
"""A server whose limit is lowered once it knows how many connections it may have."""


@pytest.mark.slow
def test_connections_without_a_descriptor() -> None:
    """The oldest silent ones are closed for new ones, and the log has one line."""
    resource = pytest.importorskip("resource", reason="this system has no limit on descriptors")
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert connection_limit(10) == 10
    assert limit == resource.RLIM_INFINITY or connection_limit(10**9) < limit // 2
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([sys.executable, "-c", SERVER], text=True, **pipes) as process:
        port, limit, room = map(int, process.stdout.readline().split())
        assert 2 <= limit <= room // 2
        silent = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(10)]
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as client:
            client.request("GET", "/health")
            assert client.getresponse().status == 200
        for connection in silent:
            connection.close()
        process.stdin.close()
        log = process.stderr.read()
        assert process.wait(60) == 0
    assert log.count("\n") == 1, log[:2000]
    assert "cannot accept a connection" in log
    assert "ulimit" in log
