"""A crash or an error at every step leaves what is stored before a change, or after it."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentrt.errors import ContextNotFoundError, ContextStoreError
from agentrt.private_database import PrivateDatabase
from agentrt.runtime.kv.store.folder import KeyFile
from agentrt.runtime.kv.store.store import ContextStore
from tests.runtime.kv.store.stores import FINGERPRINT, FaultyDisk, chunk, contents, hashes

Change = Callable[[ContextStore], object]
State = dict[str, tuple[list[bytes], set[bytes]]]

CHANGES: list[tuple[Change, State]] = [
    (lambda store: store.create("notes", "a"), {"a": ([], set())}),
    (lambda store: store.get("notes", "a").append_text(b"one"), {"a": ([b"one"], set())}),
    (
        lambda store: store.get("notes", "a").append_chunks([chunk(1), chunk(2)]),
        {"a": ([b"one"], {*hashes(1, 2)})},
    ),
    (lambda store: store.create("notes", "b"), {"a": ([b"one"], {*hashes(1, 2)}), "b": ([], set())}),
    (
        lambda store: store.get("notes", "b").refer_to(hashes(1)),
        {"a": ([b"one"], {*hashes(1, 2)}), "b": ([], {*hashes(1)})},
    ),
    (
        lambda store: store.get("notes", "b").append_chunks([chunk(3)]),
        {"a": ([b"one"], {*hashes(1, 2)}), "b": ([], {*hashes(1, 3)})},
    ),
    (lambda store: lower(store, 1, 2), {"a": ([b"one"], {*hashes(1, 2)}), "b": ([], {*hashes(1, 3)})}),
    (
        lambda store: store.get("notes", "a").replace_text([b"uno", b"due"]),
        {"a": ([b"uno", b"due"], {*hashes(1, 2)}), "b": ([], {*hashes(1, 3)})},
    ),
    (lambda store: store.delete("notes", "a"), {"b": ([], {*hashes(1, 3)})}),
    (lambda store: store.get("notes", "b").append_text(b"two"), {"b": ([b"two"], {*hashes(1, 3)})}),
]
STATES: list[State] = [{}, *(state for _, state in CHANGES)]
DELETE = 8


def lower(store: ContextStore, *numbers: int) -> None:
    """Store chunks in fewer bytes."""
    locations = [store.locate("notes", block_hash) for block_hash in hashes(*numbers)]
    store.rewrite(
        {
            location: chunk(number, location.sealed_bytes // 4, level=location.level + 1)
            for number, location in zip(numbers, locations, strict=True)
            if location is not None
        }
    )


class CrashError(BaseException):
    """The process was killed."""


@contextmanager
def failing(disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let changes of databases fail at steps of ``disk``, too: before they are committed, or behind it."""
    change = PrivateDatabase.change

    @contextmanager
    def faulty(database: PrivateDatabase, **options: bool) -> Iterator[sqlite3.Connection]:
        with change(database, **options) as connection:
            yield connection
            disk._step()
        if disk._error is CrashError:
            disk._step()

    with monkeypatch.context() as patch:
        patch.setattr(PrivateDatabase, "change", faulty)
        yield


def assert_between(found: State, made: int) -> None:
    """Check that what was found is the state before or after the change behind the first ``made`` ones."""
    if made == DELETE and "a" in found:  # KV goes before the text
        assert found["a"][0] == STATES[made]["a"][0]
        assert found["b"] == STATES[made]["b"]
    else:
        assert found in [STATES[made], STATES[min(made + 1, len(CHANGES))]]


@pytest.mark.slow
@pytest.mark.parametrize("encrypted", [False, True])
def test_a_crash_at_any_step_loses_nothing_that_was_stored(
    tmp_path: Path, encrypted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = KeyFile(tmp_path / "key") if encrypted else None
    for fail_at in itertools.count():
        folder, left = tmp_path / str(fail_at), tmp_path / f"{fail_at} after the crash"
        disk = FaultyDisk(fail_at, CrashError)
        made = 0
        try:
            with failing(disk, monkeypatch), ContextStore(folder, FINGERPRINT, key=key, disk=disk) as store:
                try:
                    for change, _ in CHANGES:
                        change(store)
                        made += 1
                    break
                finally:
                    shutil.copytree(folder, left)  # as it is before anything is closed
        except CrashError:
            pass
        if not left.exists():
            continue
        with ContextStore(left, FINGERPRINT, key=key) as store:
            found = contents(store)["notes"]
            assert_between(found, made)
            assert store.statistics().refused_files == 0
            for id in found:
                store.get("notes", id).append_text(b"more")
                assert store.get("notes", id).append_chunks([chunk(4)]) == 1
            continued = {id: ([*text, b"more"], used | {*hashes(4)}) for id, (text, used) in found.items()}
            assert contents(store)["notes"] == continued
        with ContextStore(left, FINGERPRINT, key=key) as store:
            assert contents(store)["notes"] == continued
    assert made == len(CHANGES)
    assert fail_at > 30


@pytest.mark.slow
def test_an_error_at_any_step_changes_nothing_and_the_change_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for fail_at in itertools.count():
        folder = tmp_path / str(fail_at)
        disk = FaultyDisk(fail_at, lambda: OSError(5, "Input/output error"))
        with failing(disk, monkeypatch):
            try:
                store = ContextStore(folder, FINGERPRINT, disk=disk)
            except ContextStoreError:
                continue
            failed = False
            for made, (change, after) in enumerate(CHANGES):
                try:
                    change(store)
                except ContextStoreError as error:
                    failed = True
                    assert_between(contents(store)["notes"], made)
                    try:
                        change(store)
                    except ContextNotFoundError:
                        raise error from None
                assert contents(store)["notes"] == after
            expected = contents(store)
            if disk.steps <= fail_at:
                store.close()
                assert not failed
                break
            disk._fail_at = -1
            store.close()
        with ContextStore(folder, FINGERPRINT) as store:
            assert contents(store) == expected
            assert store.statistics().refused_files == 0


WRITER = """
import sys
from pathlib import Path
from agentrt.runtime.kv.store.store import ContextStore
from tests.runtime.kv.store.stores import FINGERPRINT, chunk
from tests.runtime.kv.store.test_crashes import lower

with ContextStore(Path(sys.argv[1]), FINGERPRINT) as store:
    context = store.get("notes", "a") or store.create("notes", "a")
    known = len(context.read_text())
    context.append_chunks([chunk(number % 200, 5000) for number in range(known)])  # the last may be missing
    for number in range(known, 10**6):
        context.append_text(b"%d" % number)
        context.append_chunks([chunk(number % 200, 5000)])
        lower(store, number % 200, max(0, number - 9) % 200)
        print(number, flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_what_a_killed_process_had_stored_is_there(tmp_path: Path) -> None:
    for _ in range(5):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            lines = [writer.stdout.readline() for _ in range(25)]
            writer.send_signal(signal.SIGKILL)
            lines += writer.stdout.readlines()
        last = int([line for line in lines if line.endswith("\n")][-1])
        with ContextStore(tmp_path, FINGERPRINT) as store:
            text, used = contents(store)["notes"]["a"]
            assert text == [b"%d" % number for number in range(len(text))]
            assert last < len(text) <= last + 2
            assert used >= {chunk(number % 200).block_hash for number in range(last + 1)}
            assert store.statistics().refused_files == store.statistics().damaged_chunks == 0
