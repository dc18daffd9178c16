"""A crash or an error at every step of the disk leaves what is stored before a change, or after it."""

from __future__ import annotations

import errno
import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentrt.errors import ContextNotFoundError, ContextStoreError, InvalidRequestError
from agentrt.runtime.kv.store.disk import Disk
from agentrt.runtime.kv.store.keys import KeyFile
from agentrt.runtime.kv.store.store import ContextStore
from tests.runtime.kv.store.disks import (
    FINGERPRINT,
    Contents,
    CrashError,
    FaultyDisk,
    KilledDisk,
    PowerFailureDisk,
    chunk,
    contents,
)

Change = Callable[[ContextStore], object]

HASHES = [chunk(number).block_hash for number in range(5)]

# Each change, and what is stored after it. The last delete hands a chunk on.
CHANGES: list[tuple[Change, dict[str, tuple[list[bytes], set[bytes]]]]] = [
    (lambda store: store.create("notes", "a"), {"a": ([], set())}),
    (lambda store: store.get("notes", "a").append_text(b"one"), {"a": ([b"one"], set())}),
    (
        lambda store: store.get("notes", "a").append_chunks([chunk(1, 3), chunk(2, 3)]),
        {"a": ([b"one"], {HASHES[1], HASHES[2]})},
    ),
    (
        lambda store: store.create("notes", "b"),
        {"a": ([b"one"], {HASHES[1], HASHES[2]}), "b": ([], set())},
    ),
    (
        lambda store: store.get("notes", "b").refer_to([HASHES[1]]),
        {"a": ([b"one"], {HASHES[1], HASHES[2]}), "b": ([], {HASHES[1]})},
    ),
    (
        lambda store: store.get("notes", "b").append_chunks([chunk(3, 3)]),
        {"a": ([b"one"], {HASHES[1], HASHES[2]}), "b": ([], {HASHES[1], HASHES[3]})},
    ),
    (
        lambda store: store.get("notes", "a").replace_text([b"uno", b"due"]),
        {"a": ([b"uno", b"due"], {HASHES[1], HASHES[2]}), "b": ([], {HASHES[1], HASHES[3]})},
    ),
    (lambda store: store.delete("notes", "a"), {"b": ([], {HASHES[1], HASHES[3]})}),
    (lambda store: store.get("notes", "b").append_text(b"two"), {"b": ([b"two"], {HASHES[1], HASHES[3]})}),
]
STATES = [{}, *(state for _, state in CHANGES)]
DELETE = 7


def run(folder: Path, disk: Disk, key: KeyFile | None) -> Iterator[int]:
    """Open a store and make all changes; yield the number of those that were made."""
    with ContextStore(folder, FINGERPRINT, key=key, disk=disk) as store:
        for number, (change, _) in enumerate(CHANGES, 1):
            change(store)
            yield number


def notes(store: ContextStore) -> dict[str, tuple[list[bytes], set[bytes]]]:
    found: Contents = contents(store)
    assert found["mail"] == {}
    return found["notes"]


def assert_between(found: dict[str, tuple[list[bytes], set[bytes]]], made: int) -> None:
    """Check that what was found is the state before or after the change behind the first ``made`` ones."""
    allowed = [STATES[made], STATES[min(made + 1, len(CHANGES))]]
    if made == DELETE and "a" in found:
        # KV goes before the text, and what others use is copied before.
        assert found["a"][0] == STATES[made]["a"][0]
        assert found["b"] == STATES[made]["b"]
    else:
        assert found in allowed


@pytest.mark.slow
@pytest.mark.parametrize("encrypted", [False, True])
def test_a_crash_at_any_step_loses_nothing_that_was_stored(tmp_path: Path, encrypted: bool) -> None:
    key = KeyFile(tmp_path / "key") if encrypted else None
    for fail_at in itertools.count():
        folder = tmp_path / str(fail_at)
        made = 0
        try:
            for number in run(folder, KilledDisk(fail_at), key):
                made = number
            break
        except CrashError:
            pass
        with ContextStore(folder, FINGERPRINT, key=key) as store:
            found = notes(store)
            assert_between(found, made)
            assert store.statistics().refused_files == 0
        with ContextStore(folder, FINGERPRINT, key=key) as store:
            assert notes(store) == found
            for id in found:
                store.get("notes", id).append_text(b"more")
                assert store.get("notes", id).append_chunks([chunk(4)]) == 1
            continued = {id: ([*text, b"more"], used | {HASHES[4]}) for id, (text, used) in found.items()}
            assert notes(store) == continued
        with ContextStore(folder, FINGERPRINT, key=key) as store:
            assert notes(store) == continued
        assert not list(folder.glob("*.unfinished"))
        shutil.rmtree(folder)
    assert made == len(CHANGES)
    assert fail_at > 50


@pytest.mark.slow
@pytest.mark.parametrize("made", range(1, len(CHANGES) + 1))
def test_what_was_stored_survives_a_power_failure(tmp_path: Path, made: int) -> None:
    folder = tmp_path / "contexts"
    disk = PowerFailureDisk(folder)
    changes = run(folder, disk, None)
    for _ in range(made):
        next(changes)
    changes.close()
    disk.fail()
    with ContextStore(folder, FINGERPRINT) as store:
        assert notes(store) == STATES[made]
        assert store.statistics().refused_files == 0


@pytest.mark.slow
def test_a_power_failure_at_any_step_leaves_the_state_before_or_after_a_change(tmp_path: Path) -> None:
    for fail_at in itertools.count():
        folder = tmp_path / str(fail_at)
        disk = PowerFailureDisk(folder, fail_at)
        made = 0
        try:
            for number in run(folder, disk, None):
                made = number
            break
        except CrashError:
            disk.fail()
        with ContextStore(folder, FINGERPRINT) as store:
            assert_between(notes(store), made)
            assert store.statistics().refused_files == 0
    assert made == len(CHANGES)


@pytest.mark.slow
def test_an_error_at_any_step_changes_nothing_and_the_change_can_be_repeated(tmp_path: Path) -> None:
    for fail_at in itertools.count():
        folder = tmp_path / "contexts"
        disk = FaultyDisk(fail_at, lambda: OSError(errno.EIO, "input/output error"))
        try:
            store = ContextStore(folder, FINGERPRINT, disk=disk)
        except ContextStoreError:
            shutil.rmtree(folder)
            continue
        failed = False
        lost = False
        with store:
            for made, (change, after) in enumerate(CHANGES):
                try:
                    change(store)
                except ContextStoreError:
                    failed = True
                    assert_between(notes(store), made)
                    try:
                        change(store)
                    except (ContextNotFoundError, InvalidRequestError):
                        assert notes(store) == after  # only the last sync of the folder had failed
                lost |= made == DELETE and notes(store) != after
                if lost:  # the copy to the heir had failed: its KV is computed again
                    assert {id: text for id, (text, _) in notes(store).items()} == {
                        id: text for id, (text, _) in after.items()
                    }
                else:
                    assert notes(store) == after
            found = notes(store)
        with ContextStore(folder, FINGERPRINT) as store:
            assert notes(store) == found
            assert store.statistics().refused_files == 0
        shutil.rmtree(folder)
        if disk.steps <= fail_at:
            assert not failed
            break
