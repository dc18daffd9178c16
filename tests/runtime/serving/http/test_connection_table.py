"""Which connection is closed for a new one, and how many each app may have."""

from __future__ import annotations

import subprocess
import sys

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


def test_a_new_connection_takes_the_place_of_the_oldest_unproven_one() -> None:
    table = ConnectionTable(8, ())
    proven = prove(table, "mine", 3)
    unproven = add(table, 6)
    assert [each.aborted for each in unproven] == [True, True, False, False, False, False]
    assert not any(each.aborted for each in proven)
    assert len(table) == 7


def test_unproven_connections_leave_room_for_apps() -> None:
    table = ConnectionTable(8, ())
    add(table, 100)
    prove(table, "mine", 4)
    assert len(table) == 7  # one unproven connection has made room for each of the four


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


def test_the_limit_leaves_half_of_the_descriptors_to_others() -> None:
    resource = pytest.importorskip("resource", reason="this system has no limit on descriptors")
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert connection_limit(10) == 10
    assert limit == resource.RLIM_INFINITY or connection_limit(10**9) < limit // 2
    program = (
        "import resource; from agentrt.runtime.serving.http.connection_table import connection_limit;"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (44, 44)); print(connection_limit(2048))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert 2 <= int(done.stdout) <= 20
